/* Is a file text? A model can train on any bytes: with a token file read as text, the loss falls too. A file is text
 * if it has no zero byte and at most MOST_PERCENT of invalid UTF-8 (text from the web has some). All bytes are
 * checked in a file of up to 16 MiB; in a larger file, 16 pieces of 1 MiB, with the first and the last. */
#include "lib/data/data_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 20, PIECES = 16, FEW = 8, MOST_PERCENT = 1, GUESSED = 1 << 16 };

/* Counts of bytes. first_*: the offset of the first such byte, or -1. */
struct look {
    int64_t bytes, invalid, first_zero, first_invalid;
};

/* The number of bytes of the UTF-8 character at `at`; 0 if it is invalid. */
static int utf8_length(const unsigned char *at, int64_t left) {
    unsigned char c = at[0];
    int n = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
    if (n > left) return 0;
    for (int i = 1; i < n; i++)
        if ((at[i] & 0xC0) != 0x80) return 0;
    bool overlong = (c == 0xE0 && at[1] < 0xA0) || (c == 0xF0 && at[1] < 0x90);
    bool none = (c == 0xED && at[1] >= 0xA0) || (c == 0xF4 && at[1] >= 0x90); /* surrogates; beyond U+10FFFF */
    return overlong || none ? 0 : n;
}

/* Count a piece. A piece may begin and end inside a character; these up to 6 bytes of a MiB do not matter. */
static void look_at(struct look *l, const struct data_map *map, int64_t from, int64_t bytes) {
    const unsigned char *at = map->at + from, *zero = memchr(at, 0, (size_t)bytes);
    if (zero && l->first_zero < 0) l->first_zero = zero - map->at;
    for (int64_t i = 0, n; i < bytes; i += n) {
        n = utf8_length(at + i, bytes - i);
        if (n > 0) continue;
        if (l->invalid++ == 0) l->first_invalid = from + i;
        n = 1;
    }
    l->bytes += bytes;
}

static struct look look(const struct data_map *map) {
    struct look l = {.first_zero = -1, .first_invalid = -1};
    if (map->bytes <= (int64_t)PIECES * PIECE) look_at(&l, map, 0, map->bytes);
    else
        for (int i = 0; i < PIECES; i++) look_at(&l, map, (map->bytes - PIECE) * i / (PIECES - 1), PIECE);
    return l;
}

/* ---- guessing what else the file is ---- */

static bool is_control(unsigned char c) { return c < ' ' && (c == 0 || !strchr("\t\n\v\f\r\x1b", c)); }

bool data_text_is_plain(const struct data_map *map, int64_t most) {
    int64_t n = map->bytes < most ? map->bytes : most;
    for (int64_t i = 0, bytes; i < n; i += bytes) {
        bytes = utf8_length(map->at + i, map->bytes - i);
        if (bytes == 0 || map->at[i] == 0 || is_control(map->at[i])) return false;
    }
    return true;
}

/* Could the first bytes be text in an 8-bit encoding: do they have no control characters? */
static bool is_8_bit(const struct data_map *map) {
    for (int64_t i = 0; i < map->bytes && i < GUESSED; i++)
        if (is_control(map->at[i])) return false;
    return true;
}

/* Does the file look like UTF-16: in each pair of bytes, is byte `half` zero and the other byte ASCII? */
static bool is_wide(const struct data_map *map, int half) {
    for (int64_t i = 0; i < map->bytes && i < GUESSED; i++) {
        unsigned char c = map->at[i];
        if (i % 2 == half ? c != 0 : c == 0 || c > 0x7F || is_control(c)) return false;
    }
    return map->bytes % 2 == 0;
}

/* The largest of the first elements of `bytes` bytes each. */
static uint32_t largest(const struct data_map *map, int64_t bytes) {
    uint32_t most = 0;
    for (int64_t i = 0; i + bytes <= map->bytes && i < GUESSED; i += bytes) {
        uint32_t x = 0;
        memcpy(&x, map->at + i, (size_t)bytes);
        if (x > most) most = x;
    }
    return most;
}

/* More tokens than any vocabulary has. */
enum { MOST_TOKENS = 1 << 20 };

static enum status refuse_tokens(const struct data_map *map, const char *why) {
    bool wide = map->bytes % 4 == 0 && largest(map, 4) < MOST_TOKENS;
    const char *dot = strrchr(map->path, '.'), *element = wide ? "u32" : "u16";
    char hint[64] = "";
    if (dot && !strcmp(dot, ".bin")) snprintf(hint, sizeof hint, "; Megatron's .bin needs its .idx next to it");
    if (map->bytes % 2)
        return FAIL(E_FORMAT,
                    "%s is no text: %s; give a file of text or tokens, or --data-format text, if each byte is a "
                    "token%s",
                    map->path, why, hint);
    return FAIL(E_FORMAT,
                "%s is no text: %s; if it is %s tokens without a header, to %" PRIu32 "%s, give --data-format "
                "%s; if each byte is a token, --data-format text%s",
                map->path, why, element, largest(map, wide ? 4 : 2), wide ? "" : " (as nanoGPT writes them)", element,
                hint);
}

enum status data_text_check(const struct data_map *map) {
    struct look l = look(map);
    char why[96];
    if (l.first_zero >= 0 && (is_wide(map, 0) || is_wide(map, 1)))
        return FAIL(E_FORMAT, "%s looks like text in UTF-16; make it UTF-8: iconv -f UTF-16%s -t UTF-8 %s > OUT",
                    map->path, is_wide(map, 0) ? "BE" : "LE", map->path);
    snprintf(why, sizeof why, "byte %" PRId64 " is 0", l.first_zero);
    if (l.first_zero >= 0) return refuse_tokens(map, why);
    if (l.invalid <= FEW || l.invalid <= l.bytes * MOST_PERCENT / 100) return OK;
    if (is_8_bit(map))
        return FAIL(E_FORMAT,
                    "%s is no UTF-8: %" PRId64 " of %" PRId64 " bytes, byte %" PRId64 " is the first; if it is "
                    "Latin-1: iconv -f LATIN1 -t UTF-8 %s > OUT; if each byte is a token, --data-format text",
                    map->path, l.invalid, l.bytes, l.first_invalid, map->path);
    snprintf(why, sizeof why, "%" PRId64 " of %" PRId64 " bytes are no UTF-8, byte %" PRId64 " is the first", l.invalid,
             l.bytes, l.first_invalid);
    return refuse_tokens(map, why);
}

enum status data_text_read(struct data_file *f, const struct data_part *part) {
    f->format = DATA_TEXT;
    f->vocab = 256;
    return data_add(f, part->map.at, part->map.bytes, DATA_U8);
}
