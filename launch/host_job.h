/* Writes and reads the message `job` of host_link.h. */
#pragma once

#include "launch/host_link.h"

/* texts: the strings of a host_job (folder, settings, words), then NULL. settings and words are parts of texts. text:
 * the storage of all strings. Owned: text and texts. */
struct host_texts { struct host_job job; char *text, **texts, **settings, **words; };

/** Make the body for host `me` of a job, *bytes long. The folder is this process's. The settings are the environment
 *  variables whose names begin with TRIVIUM_, OMP_, CUDA_ or NCCL_, except the secret. *body is owned.
 *  @errors E_MEMORY; E_CONFIG: longer than HOST_MOST_TEXT */
enum status host_job_write(const struct host_job *, char *const *words, char **body, size_t *bytes);
/** Read such a body. @errors E_FORMAT: it is no valid job, or it has a setting with another prefix; E_MEMORY */
enum status host_job_read(const struct host_message *, struct host_texts *out);
void host_texts_free(struct host_texts *);
