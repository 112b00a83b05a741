/* Config files are read once, so that a rank that is started later gets the same options as the first ones. */
#pragma once

#include "lib/base/option.h"
#include <stdint.h>

/* at: n words, then NULL. The first word is borrowed; at and the other words are owned. */
struct settled_words { char **at; int n; };

/** Write a command with all options that a config file or the user has set, in the order of the option tables: "train",
 *  "--lr=0.01". command is borrowed. The caller frees *out.  @errors E_MEMORY  @collective{none} */
enum status launch_settle(char *command, const struct options *, struct settled_words *out);
void settled_words_free(struct settled_words *);

/** Change train's options for the next attempt. resume: the checkpoint folder that replaces the user's --resume and
 *  --init; NULL: keep these. dp: 0: keep the user's. @errors E_USAGE  @collective{none} */
enum status launch_change(struct options *, const char *resume, int64_t dp);
