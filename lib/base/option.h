/* Options: one table feeds the command line, --config ini files, --help and the reference page.
 *
 * Precedence: command line over file over preset over data over default. The table records each value's source, so
 * that a preset never overrides a typed value. */
#pragma once

#include "lib/base/status.h"
#include <stddef.h>
#include <stdio.h>

/* The C type of the target field: BOOL and CHOICE int, INT int64_t, REAL double, TEXT char[OPTION_TEXT_MAX]. */
enum option_type { OPTION_BOOL, OPTION_INT, OPTION_REAL, OPTION_TEXT, OPTION_CHOICE };
enum { OPTION_TEXT_MAX = 1024 };

/* `choices` of a TEXT: a list. An option that is given again on the command line adds to it, with a comma between. */
#define OPTION_LIST ","

enum option_source { FROM_DEFAULT, FROM_DATA, FROM_PRESET, FROM_FILE, FROM_COMMAND_LINE };

struct option {
    const char *name;      /* as typed, without the dashes: "global-batch"; also the key in ini files */
    enum option_type type;
    const char *initial;   /* default, as text; if NULL, the field starts as zero or "" */
    double min, max;       /* legal range of INT and REAL, both inclusive */
    const char *choices;   /* INT: a word that stands for `min`, such as "auto", or NULL.
                              CHOICE: "none|selective|full"; the field gets the index. A choice ending in ":N" (as in
                              "uniform:N") takes a positive integer, stored in the int right after the field. A choice
                              ending in ":PATH" takes a path, stored in a char[OPTION_TEXT_MAX] right after the field */
    const char *unit;      /* "tokens", "s", "". TEXT: "file" marks a small file that the run reads (kept.h) */
    const char *meaning;   /* one sentence for --help and the reference page */
    const char *group;     /* heading in --help: "model", "training", "parallelism" ... */
    size_t at;             /* offset of the field in the target struct */
};

struct option_table { const struct option *option; int n; };

/* A command's joined tables, the struct that they fill, and the source of each value. */
struct options;

/** Join tables (borrowed for the life of *out) over `target` and store the defaults in `target`.
 *  @errors E_MEMORY; E_INTERNAL: two options have the same name, or a default is outside its limits
 *  @collective{none} */
enum status options_create(const struct option_table *tables, int n_tables, void *target, struct options **out);
void options_destroy(struct options **);
/** Copy the options and their sources. The caller has copied the first target into `target`. @errors E_MEMORY
 *  @collective{none} */
enum status options_copy(const struct options *, void *target, struct options **out);

/** Read argv[0..argc): "--name value", "--name=value", "--flag", "--flag on|off". `--config FILE` reads the file at
 *  once; command-line values win over the file's, before or after it. Words that are not options are refused.
 *  @errors E_USAGE: unknown option (with the nearest name), missing, malformed or out-of-range value (with the limits);
 *  E_DATA: the config file cannot be read; E_FORMAT (file:line in the message): a line is too long, is not
 *  `key = value`, repeats a key, or has an inline comment (`;` anywhere, `#` after a blank) */
enum status options_parse(struct options *, int argc, char *const *argv);

/** An option's value before any table exists. The last occurrence in argv wins, as in options_parse. A --config file
 *  is not read, because a pipe can be read only once. @return borrowed, unchecked text; NULL if the option is absent or
 *  has no value  @collective{none} */
const char *options_peek(int argc, char *const *argv, const char *name);

/** Read one ini file (inih). Sections are allowed and ignored; lines hold at most 197 bytes; comment lines start with #
 *  or ;.
 *  @errors E_DATA, E_FORMAT, and E_USAGE for its values, as options_parse */
enum status options_read_file(struct options *, const char *path);
/** The same of the lines after [section], up to the next section. A misspelt key of another section is not seen.
 *  @errors as options_read_file; E_DATA: no such section, with a list of them */
enum status options_read_section(struct options *, const char *path, const char *section);

/** Check a value and set it as if it came from `source`. If the present value has a stronger source, the new value is
 *  checked and then ignored (OK). @errors E_USAGE as in options_parse */
enum status options_set(struct options *, const char *name, const char *value, enum option_source);

/** Print a field of the option's type as text that sets the same value. */
void option_print_value(const struct option *, const void *field, char *text, size_t size);

/** The source of an option's value; FROM_DEFAULT for an unknown name. */
enum option_source options_source(const struct options *, const char *name);

/** Call visit(self, option, text, source) for every option, in table order; text is the value as text. For manifests
 *  and `show options`. */
void options_each(const struct options *,
                  void (*visit)(void *, const struct option *, const char *, enum option_source), void *self);

/** Print --help: the options by group, each with its default, unit, and range or choices. */
void options_help(const struct options *, FILE *);
/** Does argv hold --help, or a -h that does not follow a word "--..." (whose value -h may be)? */
bool options_ask_for_help(int argc, char *const *argv);
