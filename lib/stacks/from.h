/* --from FILE: options of this program, from a file of another one. A key of the file becomes an option, does not
 * matter here, or cannot be said: then the file is refused, unless the user ignores the key. */
#pragma once

#include "lib/run/recipe.h"

/** Set the options to what the file says, as from a file of options (FROM_FILE): those that the user typed stay.
 *  @param ignored "key,key": keys that are left out  @param table where to print the table of keys; NULL: nowhere
 *  @errors E_DATA: no file; E_FORMAT: a file of no known kind, or keys that cannot be said; E_USAGE: a file of options
 *  or --model says otherwise, an ignored key that the file does not have; those of options_set  @collective{none} */
enum status from_read(const char *path, const char *ignored, const struct recipe *, struct options *, FILE *table);
/** from_read, if path is not empty; rank 0 prints the table to standard error, once in a process, if show.
 *  @errors those of from_read; E_USAGE: keys to ignore, and no file  @collective{none} */
enum status from_apply(const char *path, const char *ignored, bool show, const struct recipe *, struct options *);
