/* Config files are read once, so that a rank that is started later gets the same options as the first ones. */
#ifndef TRIVIUM_LAUNCH_SETTLE_H
#define TRIVIUM_LAUNCH_SETTLE_H

#include "lib/base/option.h"

/* at: n words, NULL at their end; owned, with the n_made words after the first. */
struct settled_words { char **at; int n, n_made; };

/** The words of train's command line, with the settings of its config files in place of --config: "--lr=0.01", after
 *  the command's name and before the user's words. `read`: the same command line, parsed by options_parse. Words of the
 *  command line are borrowed. The caller frees *out.  @errors E_MEMORY  @collective{none} */
enum status launch_settle(char *const *command, int n_words, const struct options *read, struct settled_words *out);
void settled_words_free(struct settled_words *);

#endif
