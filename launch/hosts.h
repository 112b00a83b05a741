/* The hosts of a job, as `launch --host` names them, and the ranks on each. */
#pragma once

#include "launch/host_link.h"
#include "lib/base/status.h"
#include "lib/comm/direct/greeting.h"
#include <signal.h>
#include <sys/types.h>

enum { MOST_HOSTS = 64, SECRET_TEXT = 2 * GREETING_SECRET + 1 };

/* user: the login name on the host, "": not given; n: the number of processes */
struct host_name { char name[HOST_MOST_NAME + 1], user[HOST_MOST_NAME + 1]; int n; };
struct host_list { int n; struct host_name of[MOST_HOSTS]; };

/** Read "n01:8,me@n02:8"; a host without a number gets 1 process. @errors E_USAGE: an invalid name or number, a host
 *  twice, more than MOST_HOSTS */
enum status host_list_read(const char *text, struct host_list *out);
/** Read a hostfile of Open MPI: lines `host slots=8 max_slots=8`, also with user@host, `host:8`, and cpu= or count= for
 *  slots=; # begins a remark. @errors E_USAGE: anything else, with file and line; E_IO */
enum status host_list_read_file(const char *path, struct host_list *out);
/** Write host or user@host, for a start command. Pure. */
enum { HOST_LOGIN = 2 * HOST_MOST_NAME + 2 };
void host_login(const struct host_name *, char text[HOST_LOGIN]);
/** The number of processes that fit. Pure. */
int host_list_room(const struct host_list *);
/** Remove host h. text: the list as host_list_read takes it. Pure. */
enum { HOST_LIST_TEXT = MOST_HOSTS * (HOST_LOGIN + 8) };
void host_list_remove(struct host_list *, int h, char text[HOST_LIST_TEXT]);
/** Give n_slots processes to the hosts in order, up to each one's room; hosts that get none are removed. host: the host
 *  of each process. Pure. @errors E_USAGE: more processes than room */
enum status host_list_deal(struct host_list *, int n_slots, int16_t *host);
/** The index of a name; -1: not in the list. Pure. */
int host_list_find(const struct host_list *, const char *name);

/** Does this host have the address? */
bool host_is_here(uint32_t ip);
/** *own: the address by which host `other` sees this one. @errors E_COMM */
enum status host_seen_from(uint32_t other, uint32_t *own);

/** Read a secret of 64 hexadecimal digits. @errors E_USAGE: any other text, which the message does not show */
enum status host_secret_read(const char *text, unsigned char secret[GREETING_SECRET]);
/** The digits of a secret. Pure. */
void host_secret_text(const unsigned char secret[GREETING_SECRET], char text[SECRET_TEXT]);

/* ---- Starts the agents of the hosts. ---- */

enum { START_MOST_WORDS = 64 };

/** Make the words that start a host's agent, then NULL: the words of `command`, split at blanks, with each %h replaced
 *  by `name`; then `self agent --meet MEET --host HOST`, where HOST is `name` without user@. If command is NULL or "",
 *  only the latter. text: storage for the words.
 *  @errors E_USAGE: too many or too long */
enum status start_words(const char *command, const char *self, const char *meet, const char *name, char text[4096],
                        char *words[START_MOST_WORDS]);
/** Run the words, with the secret on standard input. @errors E_IO */
enum status start_agent(char *const *words, const unsigned char *secret, const sigset_t *unblocked, pid_t *out);
