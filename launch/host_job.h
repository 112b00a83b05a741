/* Writes and reads the message `job` of host_link.h. */
#pragma once

#include "launch/host_link.h"

/* texts: folder, settings, words (host_job), and NULL; words: the texts after the settings. text: owned; all of them
 * point into it. */
struct host_texts { struct host_job job; char *text, **texts, **settings, **words; };

/** Make the body, *bytes long, for host `me` of a job. Its folder is this process's. Its settings are the environment's
 *  that begin with TRIVIUM_, OMP_, CUDA_ or NCCL_, without the secret. *body is owned.
 *  @errors E_MEMORY; E_CONFIG: longer than HOST_MOST_TEXT */
enum status host_job_write(const struct host_job *, char *const *words, char **body, size_t *bytes);
/** @errors E_FORMAT: it is no job, or it holds another setting; E_MEMORY */
enum status host_job_read(const struct host_message *, struct host_texts *out);
void host_texts_free(struct host_texts *);
