/* Options: one table feeds the command line, --config ini files, --help and the reference page.
 *
 * Precedence: command line over file over preset over data over default. A value remembers where it came from, so that
 * a preset never overrides what a person typed. */
#pragma once

#include "lib/base/status.h"
#include <stddef.h>
#include <stdio.h>

/* The C type of the target field: BOOL and CHOICE int, INT int64_t, REAL double, TEXT char[OPTION_TEXT_MAX]. */
enum option_type { OPTION_BOOL, OPTION_INT, OPTION_REAL, OPTION_TEXT, OPTION_CHOICE };
enum { OPTION_TEXT_MAX = 1024 };

enum option_source { FROM_DEFAULT, FROM_DATA, FROM_PRESET, FROM_FILE, FROM_COMMAND_LINE };

struct option {
    const char *name;      /* as typed without the dashes: "global-batch". The same key is used in ini files */
    enum option_type type;
    const char *initial;   /* default, as text; NULL: none, the field starts as zero or "" */
    double min, max;       /* legal range of INT and REAL, both inclusive */
    const char *choices;   /* INT: a word that stands for `min`, such as "auto"; NULL: none.
                              CHOICE: "none|selective|full"; the field gets the index. A choice ending in ":N" (as in
                              "uniform:N") takes a positive integer, stored in the int right after the field; one
                              ending in ":PATH" that of such a file, stored in the char[OPTION_TEXT_MAX] there */
    const char *unit;      /* "tokens", "s", "". TEXT: "file", a small file that is read (kept.h) */
    const char *meaning;   /* one sentence for --help and the reference page */
    const char *group;     /* heading in --help: "model", "training", "parallelism" ... */
    size_t at;             /* offset of the field in the target struct */
};

struct option_table { const struct option *option; int n; };

/* All tables a command understands, the struct they fill, and where each value came from. */
struct options;

/** Join tables (borrowed for the life of *out) over `target` and fill the defaults in. Two options of one name:
 *  E_INTERNAL.
 *  @errors E_MEMORY, E_INTERNAL  @collective{none} */
enum status options_create(const struct option_table *tables, int n_tables, void *target, struct options **out);
void options_destroy(struct options **);
/** The same options, each from the same source, over a target that is a copy of the other's. @errors E_MEMORY
 *  @collective{none} */
enum status options_copy(const struct options *, void *target, struct options **out);

/** Read argv[0..argc): "--name value", "--name=value", "--flag", "--flag on|off". `--config FILE` reads the file at
 *  once but below every command-line value in precedence, wherever it stands. Words that are not options are refused.
 *  @errors E_USAGE: unknown option (with the nearest name), missing, malformed or out-of-range value (with the limits);
 *  E_DATA: the config file cannot be read; E_FORMAT: its line is too long, is not `key = value`, repeats a key or has
 *  an inline comment (`;` anywhere, `#` after a blank) (file:line in the message) */
enum status options_parse(struct options *, int argc, char *const *argv);

/** The value of an option before any table is read: that of its last place among the words, as in options_parse; NULL:
 *  it is not there, or has no value. A --config file is not read: it may be a pipe, which can be read only once.
 *  Borrowed; not checked. @collective{none} */
const char *options_peek(int argc, char *const *argv, const char *name);

/** Read one ini file (inih). Sections are allowed and ignored; lines hold at most 197 bytes; comment lines start with #
 *  or ;.
 *  @errors E_DATA, E_FORMAT, and E_USAGE for its values, as options_parse */
enum status options_read_file(struct options *, const char *path);

/** Set one value as if it came from `source`. When the present value has a stronger source, the new one is checked all
 *  the same and then ignored (OK). @errors E_USAGE as in options_parse */
enum status options_set(struct options *, const char *name, const char *value, enum option_source);

/** Where the value came from; FROM_DEFAULT for an unknown name. */
enum option_source options_source(const struct options *, const char *name);

/** Every option with its value's text, in table order: for manifests and `show options`.
 *  visit(self, option, text, source) */
void options_each(const struct options *,
                  void (*visit)(void *, const struct option *, const char *, enum option_source), void *self);

/** --help: grouped, with default, unit, range or choices. */
void options_help(const struct options *, FILE *);
/** Is --help among the words, or -h where it cannot be an option's value? */
bool options_ask_for_help(int argc, char *const *argv);
