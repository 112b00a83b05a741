/* Starts the agents of the hosts. */
#pragma once

#include "launch/hosts.h"
#include <signal.h>
#include <sys/types.h>

enum { START_MOST_WORDS = 64 };

/** Make the words that start a host's agent, then NULL: the words of `command`, split at blanks, with each %h replaced
 *  by `name`; then `self agent --meet MEET --host HOST`, where HOST is `name` without user@. If command is NULL or "",
 *  only the latter. text: storage for the words.
 *  @errors E_USAGE: too many or too long */
enum status start_words(const char *command, const char *self, const char *meet, const char *name, char text[4096],
                        char *words[START_MOST_WORDS]);
/** Run the words, with the secret on standard input. @errors E_IO */
enum status start_agent(char *const *words, const unsigned char *secret, const sigset_t *unblocked, pid_t *out);
