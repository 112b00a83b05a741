#include "driver/chart/chart.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Find the length *n_bytes of the character at `text`. @return whether XML 1.0 allows the character. In an overlong
 * form, a surrogate or a broken sequence each byte is a bad character. */
static bool next_character(const char *text, int *n_bytes) {
    const unsigned char *x = (const unsigned char *)text;
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    int n = x[0] < 0x80                   ? 1
            : x[0] >= 0xc2 && x[0] < 0xe0 ? 2
            : x[0] >= 0xe0 && x[0] < 0xf0 ? 3
            : x[0] >= 0xf0 && x[0] < 0xf5 ? 4
                                          : 0;
    unsigned code = n == 1 ? x[0] : x[0] & (0xffu >> (n + 1));
    *n_bytes = 1;
    for (int i = 1; i < n; i++) {
        if ((x[i] & 0xc0) != 0x80) return false;                     /* also the text's end */
        code = code << 6 | (x[i] & 0x3f);
    }
    if (n == 0 || code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    *n_bytes = n;
    return code >= 0x20 ? code != 0xfffe && code != 0xffff : code == '\t' || code == '\n' || code == '\r';
}

static void write_character(FILE *f, const char *x, int n) {
    switch (*x) {
    case '&': fputs("&amp;", f); break;
    case '<': fputs("&lt;", f); break;
    case '>': fputs("&gt;", f); break;
    case '"': fputs("&quot;", f); break;
    case '\'': fputs("&#39;", f); break;
    default: fwrite(x, 1, (size_t)n, f);
    }
}

static const char REPLACEMENT[] = "\xef\xbf\xbd";

static void write_characters(FILE *f, const char *text, int most) {
    for (int n; *text && most > 0; text += n, most--)
        if (next_character(text, &n)) write_character(f, text, n);
        else fputs(REPLACEMENT, f);
}

char *markup_plain(const char *text) {
    char *plain = malloc(3 * strlen(text) + 1), *to = plain;
    for (int n; plain && *text; text += n) {
        bool good = next_character(text, &n);
        memcpy(to, good ? text : REPLACEMENT, good ? (size_t)n : 3);
        to += good ? n : 3;
    }
    if (plain) *to = 0;
    return plain;
}

/* The length in characters; a byte that is not UTF-8 counts as one. */
static int length_of(const char *text) {
    int length = 0;
    for (int n; *text; text += n, length++) next_character(text, &n);
    return length;
}

void markup_short(FILE *f, const char *text, int n_chars) {
    bool cut = length_of(text) > n_chars;
    write_characters(f, text, cut ? n_chars - 3 : n_chars);
    if (cut) fputs("...", f);
}
