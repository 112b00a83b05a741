/* --from FILE: options of this program, from a file of another one. A key of the file becomes an option, does not
 * matter here, or cannot be said: then the file is refused, unless the user ignores the key. */
#pragma once

#include "lib/base/flat.h"
#include "lib/cost/stack.h"
#include "lib/run/recipe.h"

/** Set the options to what the file says, as from a file of options (FROM_FILE): those that the user typed stay.
 *  @param ignored "key,key": keys that are left out  @param trains whether the command trains,
 *  so that its optimizer and schedule must be said, too  @param table where to print the table of keys; NULL: nowhere
 *  @errors E_DATA: no file; E_FORMAT: a file of no known kind, or keys that cannot be said; E_USAGE: a file of options
 *  or --model says otherwise, an ignored key that the file does not have; those of options_set  @collective{none} */
enum status from_read(const char *path, const char *ignored, bool trains, const struct recipe *, struct options *,
                      FILE *table);
/** from_read, if path is not empty; rank 0 prints the table to standard error, once in a process, if show.
 *  @errors those of from_read; E_USAGE: keys to ignore, and no file  @collective{none} */
enum status from_apply(const char *path, const char *ignored, bool trains, bool show, const struct recipe *,
                       struct options *);

/* ---- what from.c and read.c share; no other file uses it ---- */

/* One reading. trains: for a command that trains, to which more keys matter. first: why the first key was refused; set,
 * typed: the options, those that the command line says otherwise. */
enum { FROM_LINE = 512, FROM_NAMES = 2048 };
struct from {
    const char *path, *ignore;
    struct options *options;
    FILE *table;
    bool trains;
    int n_refused, n_rows;
    const char *of_training;             /* keys of config.json that change training alone */
    char first[FROM_LINE], refused[FROM_NAMES], ignored[FROM_NAMES], set[FROM_NAMES], typed[FROM_NAMES];
};
/** A row of the table. self: struct from. "ignored": the user ignores the key. */
void from_hear(void *self, const char *key, const char *value, const char *became, bool refused);
/** Set an option, unless it was typed. @errors E_USAGE: --config says otherwise; those of options_set */
enum status from_set(struct from *, const char *name, const char *value);
/** Is a name in a list, "a b" or "a,b"? */
bool from_has(const char *list, const char *name);
/** Add a name to a list, behind `between` if it is not the first. */
void from_add(char list[FROM_NAMES], const char *between, const char *name);
/** Set the options that a file of this kind says (read.c). @errors those of from_set */
enum status from_read_keys(struct from *, const struct stack_file *, const struct flat *);
