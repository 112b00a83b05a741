#include "lib/rows/hot_store.h"

#include "lib/base/integer.h"
#include <stdlib.h>
#include <string.h>

/* ---- sizes ---- */
/* Pages that a row touches, at most. */
static int64_t row_pages(int64_t row_bytes) {
    if (DISK_PAGE % row_bytes == 0) return 1;
    return row_bytes % DISK_PAGE == 0 ? row_bytes / DISK_PAGE : (row_bytes - 2 + DISK_PAGE) / DISK_PAGE + 1;
}
/* One row goes, and another comes. */
static int64_t move_pages(int64_t row_bytes) { return 2 * row_pages(row_bytes); }

struct hot_window hot_store_window(int64_t n_rows, int64_t row_bytes, int64_t n_moves, int64_t window_bytes) {
    int64_t one = move_pages(row_bytes), table = ceil_div(n_rows * row_bytes, DISK_PAGE);
    int64_t fit = max64(1, window_bytes / DISK_PAGE / one);
    if (table * DISK_PAGE <= window_bytes) return (struct hot_window){n_moves, min64(table, one * n_moves)};
    return (struct hot_window){min64(fit, n_moves), one * min64(fit, n_moves)};
}

enum status hot_store_create(struct hot_store *s) {
    if (!s->disk) return OK;
    s->page = calloc((size_t)(s->size.moves * move_pages(s->row_bytes)) + 1, sizeof *s->page);
    s->changed = calloc((size_t)s->size.pages + 1, sizeof *s->changed);
    s->io = calloc((size_t)s->size.pages + 1, sizeof *s->io);
    return s->page && s->changed && s->io ? OK : FAIL(E_MEMORY, "no memory for the transfers of a table's rows");
}

void hot_store_destroy(struct hot_store *s) {
    if (s->io && hot_store_wait(s) != OK) status_clear();
    free(s->page);
    free(s->changed);
    free(s->io);
}

/* ---- which pages ---- */
static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void add_pages(struct hot_store *s, int64_t row) {
    if (row < 0) return;
    int64_t from = row * s->row_bytes / DISK_PAGE, last = ((row + 1) * s->row_bytes - 1) / DISK_PAGE;
    for (int64_t p = from; p <= last; p++) s->page[s->n_pages++] = p;
}

static void list_pages(struct hot_store *s) {
    int64_t n = 0;
    s->n_pages = 0;
    for (int64_t i = 0; i < s->n_moves; i++) add_pages(s, s->moves[i].in), add_pages(s, s->moves[i].out);
    qsort(s->page, (size_t)s->n_pages, sizeof *s->page, ascending);
    for (int64_t i = 0; i < s->n_pages; i++)
        if (n == 0 || s->page[n - 1] != s->page[i]) s->page[n++] = s->page[i];
    s->n_pages = n;
    memset(s->changed, 0, (size_t)n * sizeof *s->changed);
}

/* Where a row lies in the window: its pages are there, and those that follow each other in the table do so here. */
static char *in_window(struct hot_store *s, int64_t row, bool changes) {
    int64_t at = row * s->row_bytes, first = at / DISK_PAGE, last = (at + s->row_bytes - 1) / DISK_PAGE;
    const int64_t *found = bsearch(&first, s->page, (size_t)s->n_pages, sizeof *s->page, ascending);
    int64_t i = found - s->page;
    for (int64_t p = first; changes && p <= last; p++) s->changed[i + p - first] = true;
    return s->window + i * DISK_PAGE + at % DISK_PAGE;
}

/* ---- transfers ---- */
/* Pages that follow each other go together. */
static enum status start_pages(struct hot_store *s, bool write) {
    enum { MOST = 1 << 20 };
    s->n_io = 0;
    for (int64_t i = 0; i < s->n_pages; i++) {
        struct disk_io *last = s->n_io ? &s->io[s->n_io - 1] : NULL;
        char *memory = s->window + i * DISK_PAGE;
        const char *place = s->base + s->page[i] * DISK_PAGE;
        if (write && !s->changed[i]) continue;
        if (last && last->bytes < MOST && (char *)last->memory + last->bytes == memory &&
            (const char *)last->place + last->bytes == place)
            last->bytes += DISK_PAGE;
        else
            s->io[s->n_io++] = (struct disk_io){.write = write, .memory = memory, .place = place, .bytes = DISK_PAGE};
    }
    for (int i = 0; i < s->n_io; i++) TRY(disk_start(s->disk, &s->io[i]));
    return OK;
}

enum status hot_store_wait(struct hot_store *s) {
    for (int i = 0; i < s->n_io; i++) TRY(disk_wait(s->disk, &s->io[i]));
    return OK;
}

/* ---- a pass ---- */
enum status hot_store_start(struct hot_store *s, const struct hot_move *moves, int64_t n) {
    s->moves = moves, s->n_moves = n;
    if (!s->disk || n == 0) return OK;
    TRY(hot_store_wait(s));                                          /* it may still be writing the pass before */
    list_pages(s);
    return start_pages(s, false);
}

static char *stored(struct hot_store *s, int64_t row, bool changes) {
    return s->disk ? in_window(s, row, changes) : s->base + row * s->row_bytes;
}
static void *slot(const struct hot_store *s, const struct hot_move *m) { return s->slots + m->slot * s->row_bytes; }

enum status hot_store_finish(struct hot_store *s) {
    if (s->n_moves == 0) return OK;
    const struct hot_move *end = s->moves + s->n_moves;
    TRY(hot_store_wait(s));
    for (const struct hot_move *m = s->moves; m < end; m++)
        if (m->out >= 0) memcpy(stored(s, m->out, true), slot(s, m), (size_t)s->row_bytes);
    for (const struct hot_move *m = s->moves; m < end; m++)
        if (m->in >= 0) memcpy(slot(s, m), stored(s, m->in, false), (size_t)s->row_bytes);
    s->n_moves = 0;
    return s->disk ? start_pages(s, true) : OK;
}
