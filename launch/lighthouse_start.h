/* How the agents of the hosts are started. */
#ifndef TRIVIUM_LAUNCH_LIGHTHOUSE_START_H
#define TRIVIUM_LAUNCH_LIGHTHOUSE_START_H

#include "launch/hosts.h"
#include <signal.h>
#include <sys/types.h>

enum { START_MOST_WORDS = 64 };

/** The words that start the agent of a host, NULL at the end: those of `command` between blanks, each %h being the
 *  host's name, and then `self agent --meet MEET --host NAME`. command NULL or "": no words before that. text: where
 *  they lie.
 *  @errors E_USAGE: too many or too long */
enum status start_words(const char *command, const char *self, const char *meet, const char *name, char text[4096],
                        char *words[START_MOST_WORDS]);
/** Run them, with the secret as their standard input. @errors E_IO */
enum status start_agent(char *const *words, const unsigned char *secret, const sigset_t *unblocked, pid_t *out);

#endif
