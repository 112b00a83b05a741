/* Declarations that the option*.c files share. No other file includes this header. */
#pragma once

#include "lib/base/option.h"

#include <stdint.h>

struct options {
    const struct option **option; /* all tables, joined in order */
    enum option_source *source;
    int n;
    void *target;
    const char *file;             /* the ini file that is being read, for file:line in errors; NULL outside a file */
    int line;
};

/* A parsed value, in the layout of the field, before option_store writes it there. */
union option_value {
    int flag;
    struct {
        int index;
        union { int count; char path[OPTION_TEXT_MAX]; };   /* of a choice ending in ":N", ":PATH" */
    } choice;
    int64_t integer;
    double real;
    char text[OPTION_TEXT_MAX];
};

/* ---- option.c ---- */
/** Index of the option whose name is the first `length` bytes of `name`; -1: unknown. */
int option_find(const struct options *, const char *name, size_t length);
/** Fail with E_USAGE, and suggest the nearest known name, with "--" if the source is the command line. */
enum status option_unknown(const struct options *, const char *name, size_t length, enum option_source);
/** Check text and set the option of this index, unless its value has a stronger source. */
enum status option_assign(struct options *, int index, const char *text, enum option_source);

/* ---- option_value.c: text <-> value ---- */
/** Parse text. `shown` is the user's spelling for the error ("--dp 0", "demo.ini:3: dp = 0"). @errors E_USAGE */
enum status option_read_value(const struct option *, const char *text, const char *shown, union option_value *);
void option_store(const struct option *, const union option_value *, void *field);
/** Print the legal values: "an integer from 1 to 64 (ranks)", "on or off", "one of none, full". */
void option_print_limits(const struct option *, char *text, size_t size);

/* ---- option_nearest.c ---- */
/** The least number of insertions, deletions, substitutions and swaps of neighbors that turn a into b. */
int edit_distance(const char *a, const char *b);
/** The known name that the mistyped one most resembles; NULL if none is close. `config` counts as known. */
const char *option_nearest(const struct options *, const char *name);
