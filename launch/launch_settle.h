/* What a job is asked to do is read once: a rank that is started later gets what the first ones got. */
#ifndef TRIVIUM_LAUNCH_SETTLE_H
#define TRIVIUM_LAUNCH_SETTLE_H

#include "lib/base/option.h"

/* at: n words, NULL at their end; owned, with those that were made. */
struct settled_words { char **at; int n, n_made; };

/** The words of a command line of train, in which what its config files have set stands in the place of --config:
 *  "--lr=0.01", after the command's name and before all that its user has typed. `read`: these words, as options_parse
 *  has read them. The others are borrowed. The caller frees *out.  @errors E_MEMORY  @collective{none} */
enum status launch_settle(char *const *command, int n_words, const struct options *read, struct settled_words *out);
void settled_words_free(struct settled_words *);

#endif
