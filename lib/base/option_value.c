/* One option's value: its limits, parsing it from text, and printing it as text. */
#include "lib/base/option_private.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is legal ---- */

static const char *unit_of(const struct option *o) {
    return o->unit ? o->unit : "";
}

/* The word that stands for an INT's least value ("auto"). Users type the word; the number itself is refused. */
static const char *word_of(const struct option *o) { return o->type == OPTION_INT ? o->choices : NULL; }

static void print_range(const struct option *o, char *text, size_t size) {
    double min = word_of(o) ? o->min + 1 : o->min;
    const char *kind = o->type == OPTION_INT ? "an integer" : "a number";
    const char *unit = unit_of(o), *open = *unit ? " (" : "", *close = *unit ? ")" : "";
    size_t used;
    if (isinf(o->max)) used = (size_t)snprintf(text, size, "%s of at least %.15g%s%s%s", kind, min, open, unit, close);
    else used = (size_t)snprintf(text, size, "%s from %.15g to %.15g%s%s%s", kind, min, o->max, open, unit, close);
    if (word_of(o) && used < size) snprintf(text + used, size - used, ", or %s", word_of(o));
}

static void print_choices(const struct option *o, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "one of ");
    for (const char *c = o->choices; *c && used + 2 < size; c++)
        used += (size_t)snprintf(text + used, size - used, *c == '|' ? ", " : "%c", *c);
}

void option_print_limits(const struct option *o, char *text, size_t size) {
    switch (o->type) {
    case OPTION_BOOL: snprintf(text, size, "on or off"); break;
    case OPTION_CHOICE: print_choices(o, text, size); break;
    case OPTION_TEXT: snprintf(text, size, "at most %d bytes", OPTION_TEXT_MAX - 1); break;
    default: print_range(o, text, size);
    }
}

static enum status refuse(const struct option *o, const char *shown, const char *fault) {
    char limits[512];
    option_print_limits(o, limits, sizeof limits);
    return FAIL(E_USAGE, "%s %s; use %s", shown, fault, limits);
}

/* ---- text -> value ---- */

static enum status read_bool(const struct option *o, const char *text, const char *shown, int *out) {
    static const char *const words[] = {"off", "on", "false", "true", "0", "1"};
    for (int i = 0; i < 6; i++)
        if (strcmp(text, words[i]) == 0) {
            *out = i % 2;
            return OK;
        }
    return refuse(o, shown, "is neither on nor off");
}

/* strtoll or strtod accepts empty text, blanks, hexadecimal, "nan" and "inf". This check refuses them all. */
static bool made_of(const char *text, const char *letters) {
    return *text && text[strspn(text, letters)] == 0;
}

static enum status read_integer(const struct option *o, const char *text, const char *shown, int64_t *out) {
    char *end;
    errno = 0;
    if (word_of(o) && strcmp(text, word_of(o)) == 0) {
        *out = (int64_t)o->min;
        return OK;
    }
    long long value = strtoll(text, &end, 10);
    if (!made_of(text, "0123456789+-") || *end) return refuse(o, shown, "is not an integer");
    if (errno == ERANGE || (double)value < o->min + (word_of(o) != NULL) || (double)value > o->max)
        return refuse(o, shown, "is out of range");
    *out = value;
    return OK;
}

static enum status read_real(const struct option *o, const char *text, const char *shown, double *out) {
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (!made_of(text, "0123456789+-.eE") || *end) return refuse(o, shown, "is not a number");
    if (errno == ERANGE) return refuse(o, shown, "is too large or too small for a double");
    if (value < o->min || value > o->max) return refuse(o, shown, "is out of range");
    *out = value;
    return OK;
}

static enum status read_text(const struct option *o, const char *text, const char *shown, char *out) {
    size_t n = strlen(text);
    if (n >= OPTION_TEXT_MAX) return refuse(o, shown, "is too long");
    memcpy(out, text, n + 1);
    return OK;
}

/* The N of "uniform:N": a positive int and nothing else. */
static bool read_count(const char *text, int *out) {
    errno = 0;
    long value = made_of(text, "0123456789") ? strtol(text, NULL, 10) : 0;
    if (errno == ERANGE || value < 1 || value > INT_MAX) return false;
    *out = (int)value;
    return true;
}

/* The path of "file:PATH": not empty. */
static bool read_path(const char *text, char *out) {
    size_t n = strlen(text);
    if (n == 0 || n >= OPTION_TEXT_MAX) return false;
    memcpy(out, text, n + 1);
    return true;
}

/* Does the choice end with `ending`? Then *stem is the choice's length up to and including the colon. */
static bool takes(const char *choice, size_t length, const char *ending, size_t *stem) {
    size_t n = strlen(ending);
    if (length <= n || memcmp(choice + length - n, ending, n) != 0) return false;
    *stem = length - n + 1;
    return true;
}

static bool choice_matches(const char *choice, size_t length, const char *text, union option_value *out) {
    size_t stem;
    memset(&out->choice, 0, sizeof out->choice);
    if (takes(choice, length, ":N", &stem))
        return strncmp(text, choice, stem) == 0 && read_count(text + stem, &out->choice.count);
    if (takes(choice, length, ":PATH", &stem))
        return strncmp(text, choice, stem) == 0 && read_path(text + stem, out->choice.path);
    return strlen(text) == length && memcmp(text, choice, length) == 0;
}

static enum status read_choice(const struct option *o, const char *text, const char *shown, union option_value *out) {
    const char *choice = o->choices;
    for (int index = 0; *choice; index++) {
        size_t length = strcspn(choice, "|");
        if (choice_matches(choice, length, text, out)) {
            out->choice.index = index;
            return OK;
        }
        choice += length + (choice[length] == '|');
    }
    return refuse(o, shown, "is not a choice");
}

enum status option_read_value(const struct option *o, const char *text, const char *shown, union option_value *out) {
    switch (o->type) {
    case OPTION_BOOL: return read_bool(o, text, shown, &out->flag);
    case OPTION_INT: return read_integer(o, text, shown, &out->integer);
    case OPTION_REAL: return read_real(o, text, shown, &out->real);
    case OPTION_CHOICE: return read_choice(o, text, shown, out);
    default: return read_text(o, text, shown, out->text);
    }
}

static size_t choice_bytes(const struct option *o) {
    if (strstr(o->choices, ":PATH")) return sizeof(int) + OPTION_TEXT_MAX;
    return strstr(o->choices, ":N") ? 2 * sizeof(int) : sizeof(int);
}

void option_store(const struct option *o, const union option_value *value, void *field) {
    switch (o->type) {
    case OPTION_BOOL: *(int *)field = value->flag; break;
    case OPTION_INT: *(int64_t *)field = value->integer; break;
    case OPTION_REAL: *(double *)field = value->real; break;
    case OPTION_CHOICE: memcpy(field, &value->choice, choice_bytes(o)); break;
    default: memcpy(field, value->text, strlen(value->text) + 1);
    }
}

/* ---- value -> text ---- */

/* The least number of digits that read back as the same double, so that 0.1 does not become 0.10000000000000001. */
static int digits_needed(double x) {
    char text[40];
    int digits = 15;
    do snprintf(text, sizeof text, "%.*g", digits, x);
    while (strtod(text, NULL) != x && ++digits < 17);
    return digits;
}

static void print_choice(const struct option *o, const int *field, char *text, size_t size) {
    const char *choice = o->choices;
    for (int skip = field[0]; skip > 0 && *choice; skip--) {
        choice += strcspn(choice, "|");
        choice += *choice == '|';
    }
    size_t length = strcspn(choice, "|"), stem;
    if (takes(choice, length, ":N", &stem)) snprintf(text, size, "%.*s%d", (int)stem, choice, field[1]);
    else if (takes(choice, length, ":PATH", &stem))
        snprintf(text, size, "%.*s%s", (int)stem, choice, (const char *)&field[1]);
    else snprintf(text, size, "%.*s", (int)length, choice);
}

void option_print_value(const struct option *o, const void *field, char *text, size_t size) {
    switch (o->type) {
    case OPTION_BOOL: snprintf(text, size, "%s", *(const int *)field ? "on" : "off"); break;
    case OPTION_INT:
        if (word_of(o) && *(const int64_t *)field == (int64_t)o->min) snprintf(text, size, "%s", word_of(o));
        else snprintf(text, size, "%" PRId64, *(const int64_t *)field);
        break;
    case OPTION_REAL: {
        double x = *(const double *)field;
        snprintf(text, size, "%.*g", digits_needed(x), x);
        break;
    }
    case OPTION_CHOICE: print_choice(o, field, text, size); break;
    default: snprintf(text, size, "%s", (const char *)field);
    }
}
