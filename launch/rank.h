/* Turns a child process of an agent into a rank. */
#pragma once

#include "lib/comm/direct/job.h"
#include <signal.h>
#include <sys/types.h>

/** In a newly forked child: become rank job->slot and run `words`. local: the rank's number on this host; unblocked:
 *  the signal mask before the agent blocked signals; agent: the agent's process number. Does not return. */
void rank_become(const struct own_job *, int local, char **words, const sigset_t *unblocked, pid_t agent)
    __attribute__((noreturn));
