#include "lib/base/stage_notation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };                    /* letters of an expanded text */

/* The end of the unit at *at: a letter, a bar, or a group in parentheses. NULL: there is none. */
static const char *unit_end(const char *at) {
    if (*at != '(') return *at && strchr("EtL|", *at) ? at + 1 : NULL;
    const char *end = strchr(at, ')');
    return end && !memchr(at + 1, '(', (size_t)(end - at - 1)) ? end + 1 : NULL;
}

/* Append a text, with its repetitions written out, to out. A group holds no group, so this calls itself once. */
static bool expand(const char *at, const char *end, char *out, size_t *n) {
    while (at < end) {
        if (*at == ',') {
            at++;
            continue;
        }
        const char *unit = at, *after = unit_end(at);
        long times = 1;
        char *digits = NULL;
        if (!after) return false;
        if (*after == '*') times = strtol(after + 1, &digits, 10);
        if (digits == after + 1 || times < 1 || times > MOST) return false;
        for (long i = 0; i < times; i++) {
            if (*unit == '(' && !expand(unit + 1, after - 1, out, n)) return false;
            if (*unit != '(' && *n < MOST) out[(*n)++] = *unit;
            if (*n == MOST) return false;
        }
        at = digits ? digits : after;
    }
    return true;
}

/* A virtual stage ends at its bar, the last one at the text's end. */
static bool count_layers(const char *letters, size_t n, char *out, size_t size) {
    size_t used = 0;
    int layers = 0;
    for (size_t i = 0; i <= n; i++) {
        if (i < n && ((letters[i] == 'E' && i > 0) || (letters[i] == 'L' && i + 1 < n))) return false;
        layers += i < n && letters[i] == 't';
        if (i < n && letters[i] != '|') continue;
        if (layers == 0 || used >= size) return false;
        used += (size_t)snprintf(out + used, size - used, "%s%d", used ? "," : "", layers);
        layers = 0;
    }
    return used < size;
}

const char *stage_notation_counts(const char *text, char *out, size_t size) {
    char letters[MOST];
    size_t n = 0;
    if (!strpbrk(text, "EtLm|(")) return text;
    return expand(text, text + strlen(text), letters, &n) && count_layers(letters, n, out, size) ? out : "";
}

static size_t write_stages(char *out, size_t size, long layers, int times) {
    if (times == 1) return (size_t)snprintf(out, size, layers > 1 ? "t*%ld|" : "t|", layers);
    if (layers == 1) return (size_t)snprintf(out, size, "(t|)*%d", times);
    return (size_t)snprintf(out, size, "(t*%ld|)*%d", layers, times);
}

/* The first stage has E and the last L, so neither is part of a repetition. */
bool stage_notation_write(const char *counts, char *out, size_t size) {
    long now = 0, before = 0;
    int times = 0;
    size_t used = (size_t)snprintf(out, size, "E");
    for (const char *at = counts; used < size; at++) {
        char *end;
        now = strtol(at, &end, 10);
        bool is_first = at == counts, is_last = *end == 0;
        if (end == at || now < 1 || (*end != ',' && !is_last)) return false;
        if (times && (is_last || now != before)) {
            used += write_stages(out + used, size - used, before, times);
            times = 0;
        }
        if (used >= size) return false;
        if (is_first && !is_last) used += write_stages(out + used, size - used, now, 1);
        else if (!is_last) before = now, times++;
        if (is_last) used += (size_t)snprintf(out + used, size - used, now > 1 ? "t*%ldL" : "tL", now);
        if (is_last) return used < size;
        at = end;
    }
    return false;
}
