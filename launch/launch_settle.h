/* Config files are read once, so that a rank that is started later gets the same options as the first ones. */
#pragma once

#include "lib/base/option.h"
#include <stdint.h>

/* at: n words, NULL at their end; owned, but for the first. */
struct settled_words { char **at; int n; };

/** The words of a command that set what a config file or the user has set, in the order of the tables: "train",
 *  "--lr=0.01". command is borrowed. The caller frees *out.  @errors E_MEMORY  @collective{none} */
enum status launch_settle(char *command, const struct options *, struct settled_words *out);
void settled_words_free(struct settled_words *);

/** The change of train's options for another attempt. resume: the checkpoints that it goes on from, in place of the
 *  user's --resume and --init; NULL: the user's. dp: 0: the user's. @errors E_USAGE  @collective{none} */
enum status launch_change(struct options *, const char *resume, int64_t dp);
