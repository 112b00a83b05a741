/* How the message `job` of host_link.h is written and read. */
#ifndef TRIVIUM_LAUNCH_HOST_JOB_H
#define TRIVIUM_LAUNCH_HOST_JOB_H

#include "launch/host_link.h"

/* texts: folder, settings, words (host_job), and NULL; words: what comes after the settings. text: owned, with what all
 * of them point into. */
struct host_texts { struct host_job job; char *text, **texts, **settings, **words; };

/** The body for host `me` of a job, of so many bytes: its folder is this process's, and its settings those of this
 *  environment that a rank may need: TRIVIUM_, OMP_, CUDA_ and NCCL_, without the secret. *body is owned.
 *  @errors E_MEMORY; E_CONFIG: longer than HOST_MOST_TEXT */
enum status host_job_write(const struct host_job *, char *const *words, char **body, size_t *bytes);
/** @errors E_FORMAT: it is none, or has a setting that is none of those; E_MEMORY */
enum status host_job_read(const struct host_message *, struct host_texts *out);
void host_texts_free(struct host_texts *);

#endif
