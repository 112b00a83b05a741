/* ini files. inih splits the lines. This file checks each line first, because inih cuts overlong lines, joins indented
 * lines to the line before and strips " ;" comments without reporting an error. */
#include "lib/base/option_private.h"

#include "lib/base/input.h"
#include <ini.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE_BYTES = 1 << 16 };     /* blanks included. A file without line ends must not fill the memory */

struct reader {
    struct options *options;
    struct input in;
    int *set_on_line;    /* for each option: the line that set it, 0: none yet */
    enum status status;  /* of the first error; reading stops there */
    const char *section; /* NULL: of all sections */
    bool found;          /* a line [section] */
    char names[512];     /* of the sections: "a, b" */
};

#define LINE_FAIL(reader, ...) ((reader)->status = FAIL(E_FORMAT, __VA_ARGS__))

/* In "key = value ; why" inih drops "; why" as a comment; other parsers add it to the value. So it is an error here. */
static bool has_inline_comment(const char *line) {
    if (strchr(line, ';')) return true;
    for (const char *hash = strchr(line, '#'); hash; hash = strchr(hash + 1, '#'))
        if (hash > line && (hash[-1] == ' ' || hash[-1] == '\t')) return true;
    return false;
}

static void note_section(struct reader *r, const char *name, size_t n) {
    size_t used = strlen(r->names);
    snprintf(r->names + used, sizeof r->names - used, "%s%.*s", used ? ", " : "", (int)n, name);
    r->found |= r->section && strlen(r->section) == n && !memcmp(r->section, name, n);
}

/* `line` is trimmed and has no newline. Sets reader->status if the line is malformed or inih would misread it. */
static void check_line(struct reader *r, const char *line, size_t n, int limit) {
    const char *path = r->options->file;
    int number = r->options->line;
    if (n > (size_t)limit)
        LINE_FAIL(r, "%s:%d: the line has %zu bytes; at most %d are read", path, number, n, limit);
    else if (n == 0 || *line == '#' || *line == ';') return;
    else if (*line == '[' && line[n - 1] != ']') LINE_FAIL(r, "%s:%d: a section is a line [name]", path, number);
    else if (*line == '[') note_section(r, line + 1, n - 2);
    else if (has_inline_comment(line))
        LINE_FAIL(r, "%s:%d: a comment inside a line; give it a line of its own, starting with #", path, number);
    else if (!strchr(line, '=')) LINE_FAIL(r, "%s:%d: \"%s\" is not key = value", path, number, line);
}

/* Cut blanks at both ends, and the byte order mark that some editors write at the start of a file. */
static char *trim(char *line, size_t *n, bool first) {
    if (first && *n >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0) line += 3, *n -= 3;
    while (*n > 0 && *line && strchr(" \t\r\n", *line)) line++, --*n;
    while (*n > 0 && line[*n - 1] && strchr(" \t\r\n", line[*n - 1])) --*n;
    line[*n] = 0;
    return line;
}

/* inih's fgets: at most size - 1 bytes and a 0; NULL ends the file. */
static char *next_line(char *text, int size, void *self) {
    struct reader *r = self;
    if (r->status != OK) return NULL;
    r->status = input_line(&r->in);
    size_t n = r->in.n;
    if (r->status != OK || n == 0) return NULL;
    char *line = trim(r->in.text, &n, ++r->options->line == 1);
    check_line(r, line, n, size - 3); /* inih needs room for a carriage return, a newline and a 0 */
    if (r->status != OK) return NULL;
    memcpy(text, line, n + 1);
    return text;
}

/* inih's handler: 1 goes on, 0 stops. */
static int on_pair(void *self, const char *section, const char *name, const char *value) {
    struct reader *r = self;
    struct options *o = r->options;
    if (r->status != OK) return 0;
    if (r->section && strcmp(r->section, section)) return 1;
    int index = option_find(o, name, strlen(name));
    if (index < 0) r->status = option_unknown(o, name, strlen(name), FROM_FILE);
    else if (r->set_on_line[index])
        LINE_FAIL(r, "%s:%d: %s was set on line %d already; keep one", o->file, o->line, name, r->set_on_line[index]);
    else r->status = option_assign(o, index, value, FROM_FILE);
    if (r->status == OK) r->set_on_line[index] = o->line;
    return r->status == OK;
}

static enum status read_pairs(struct reader *r) {
    int result = ini_parse_stream(next_line, r, on_pair, r);
    if (r->status == OK && result != 0) /* a line that check_line accepts and inih does not */
        LINE_FAIL(r, "%s:%d: not key = value", r->options->file, result);
    return r->status;
}

static enum status read_file(struct options *o, const char *path, const char *section) {
    struct reader r = {.options = o, .status = OK, .section = section};
    enum status status = input_open(&r.in, "the config file ", path, INPUT_STREAM | INPUT_KEPT, MAX_LINE_BYTES);
    r.set_on_line = calloc((size_t)o->n + 1, sizeof *r.set_on_line);
    if (!r.set_on_line) status = FAIL(E_MEMORY, "no memory to read %s", path);
    o->file = path;
    o->line = 0;
    if (status == OK) status = read_pairs(&r);
    if (status == OK && section && !r.found)
        status = FAIL(E_DATA, "%s has no [%s]; use one of %s", path, section, r.names);
    o->file = NULL;
    free(r.set_on_line);
    input_close(&r.in);
    return status;
}

enum status options_read_file(struct options *o, const char *path) { return read_file(o, path, NULL); }

enum status options_read_section(struct options *o, const char *path, const char *section) {
    return read_file(o, path, section);
}
