/* What the option*.c files share. No other file includes this. */
#pragma once

#include "lib/base/option.h"

#include <stdint.h>

struct options {
    const struct option **option; /* all tables, joined in order */
    enum option_source *source;
    int n;
    void *target;
    const char *file;             /* being read, for the errors' file:line; NULL otherwise */
    int line;
};

/* A value as it lies in the field, before anybody has decided that it may go there. */
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
/** Index of the name's first `length` bytes; -1: unknown. */
int option_find(const struct options *, const char *name, size_t length);
/** E_USAGE with the nearest known name, spelled as the source spells it. */
enum status option_unknown(const struct options *, const char *name, size_t length, enum option_source);
/** Set a known option. */
enum status option_assign(struct options *, int index, const char *text, enum option_source);

/* ---- option_value.c: text <-> value ---- */
/** `shown` is how the person wrote it ("--dp 0", "demo.ini:3: dp = 0"), for the error. @errors E_USAGE */
enum status option_read_value(const struct option *, const char *text, const char *shown, union option_value *);
void option_store(const struct option *, const union option_value *, void *field);
/** The field as text that option_read_value accepts. */
void option_print_value(const struct option *, const void *field, char *text, size_t size);
/** The legal values: "an integer from 1 to 64 (ranks)", "on or off", "one of none, full". */
void option_print_limits(const struct option *, char *text, size_t size);

/* ---- option_nearest.c ---- */
/** Insertions, deletions, substitutions and swaps of neighbors that turn one word into the other. */
int edit_distance(const char *a, const char *b);
/** The known name that the mistyped one most resembles; NULL if none is close. `config` counts as known. */
const char *option_nearest(const struct options *, const char *name);
