#include "lib/data/clicks.h"

#include "lib/base/input.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 1 + CRITEO_DENSE + CRITEO_FEATURES, MOST_LINE = 1 << 16 };

/* Cut the line into fields, in place. @return the number of fields; FIELDS + 1 stands for more than FIELDS */
static int cut(char *line, char *field[FIELDS + 1]) {
    int n = 0;
    line[strcspn(line, "\r\n")] = 0;
    for (char *rest = line; rest && n <= FIELDS;) field[n++] = strsep(&rest, "\t");
    return n;
}

static int32_t row_of(const char *word, int rows) {
    uint64_t h = 14695981039346656037u;
    if (!*word) return -1;
    for (; *word; word++) h = (h ^ (unsigned char)*word) * 1099511628211u;
    return (int32_t)(h % (uint64_t)rows);
}

/* Accepts only digits after an optional minus, while the C library's numbers may begin with blanks, or be 1.5, 0x10 or
 * 2e3. @return false: not an integer of 64 bits */
static bool read_dense(const char *text, float *out) {
    const char *digits = text + (*text == '-');
    errno = 0;
    long long v = strtoll(text, NULL, 10);
    *out = (float)log1p(v > 0 ? (double)v : 0);
    return errno == 0 && digits[strspn(digits, "0123456789")] == 0 && (!*text || *digits);
}

static enum status parse(char *line, const char *path, int64_t number, int rows, int32_t words[FIELDS]) {
    char *field[FIELDS + 1];
    float x;
    int n = cut(line, field);
    if (n != FIELDS)
        return FAIL(E_FORMAT, "%s, line %" PRId64 ": %s%d fields between tabs, and a line has %d: label, 13 integers, "
                    "26 words", path, number, n > FIELDS ? "over " : "", n > FIELDS ? FIELDS : n, FIELDS);
    if (strcmp(field[0], "0") && strcmp(field[0], "1"))
        return FAIL(E_FORMAT, "%s, line %" PRId64 ": the label is \"%.20s\", and it must be 0 or 1", path, number,
                    field[0]);
    words[0] = field[0][0] - '0';
    for (int i = 1; i <= CRITEO_DENSE; i++) {
        if (!read_dense(field[i], &x))
            return FAIL(E_FORMAT, "%s, line %" PRId64 ": field %d is \"%.20s\", and it must be an integer of 64 bits, "
                        "or empty", path, number, i + 1, field[i]);
        memcpy(words + i, &x, sizeof x);
    }
    for (int i = 1 + CRITEO_DENSE; i < FIELDS; i++) words[i] = row_of(field[i], rows);
    return OK;
}

static enum status convert(struct input *in, int rows, struct clicks_writer *w) {
    enum status status = OK;
    while (status == OK && (status = input_line(in)) == OK && in->n > 0) {
        int32_t words[FIELDS];
        status = parse(in->text, in->path, in->number, rows, words);
        if (status == OK) status = clicks_append(w, words);
    }
    return status;
}

enum status criteo_convert(const char *from, const char *to, int rows, int64_t *n) {
    const struct clicks_layout layout = {CRITEO_DENSE, CRITEO_FEATURES, 1, rows, 0};
    struct clicks_writer *w = NULL;
    struct input in;
    enum status status = input_open(&in, "the click logs ", from, INPUT_STREAM, MOST_LINE);
    if (status == OK) status = clicks_create(to, &layout, &w);
    if (status == OK) status = convert(&in, rows, w);
    input_close(&in);
    if (status == OK) {
        *n = clicks_n(w);
        status = clicks_finish(&w, 0);
    }
    clicks_abandon(&w);
    return status;
}
