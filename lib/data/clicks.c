#define _GNU_SOURCE /* asprintf */
#include "lib/data/clicks.h"

#include "lib/base/replace.h"
#include "lib/base/shared.h"
#include "lib/data/data_ahead.h"
#include "lib/data/data_private.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char MAGIC[8] = {'\x93', 'C', 'L', 'I', 'C', 'K', 'S', '\n'};   /* no UTF-8, so no text begins with it */
struct header { char magic[8]; int32_t version, dense, features, bag, rows, zero; int64_t samples; double best_auc;
                char rest[16]; };
_Static_assert(sizeof(struct header) == 64, "the header is 64 bytes");

/* ---- reading ---- */
static enum status check(const struct data_map *f, const struct header *h) {
    const int most = 1 << 20;
    bool sizes = h->dense >= 0 && h->features > 0 && h->bag > 0 && h->rows > 0 && h->dense <= most &&
                 h->features <= most && h->bag <= most;
    if (h->version != 1 || !sizes)
        return FAIL(E_FORMAT, "%s: clicks of version %d with %d dense and %d features in bags of %d, of %d rows; write "
                    "it again with trivium data", f->path, h->version, h->dense, h->features, h->bag, h->rows);
    struct clicks_layout c = {h->dense, h->features, h->bag, h->rows, 0};
    int64_t words = (f->bytes - (int64_t)sizeof *h) / 4, each = clicks_words(&c);
    if (h->samples > 0 && (words - 1) / each == h->samples && (words - 1) % each == 0) return OK;
    return FAIL(E_FORMAT, "%s: its header says %" PRId64 " samples of %" PRId64 " words, and %" PRId64 " bytes are "
                "there; copy it again", f->path, h->samples, each, f->bytes);
}

enum status clicks_read(struct data_file *f, const struct data_part *part, bool *mine) {
    struct header h;
    *mine = part->map.bytes >= (int64_t)sizeof h && !memcmp(part->map.at, MAGIC, sizeof MAGIC);
    if (!*mine) return OK;
    memcpy(&h, part->map.at, sizeof h);
    TRY(check(&part->map, &h));
    if (f->n_parts > 1)
        return FAIL(E_DATA, "%s is one of several files, and clicks are read from one; write them into one",
                    part->map.path);
    f->format = DATA_CLICKS;
    f->vocab = h.rows;
    f->clicks = (struct clicks_layout){h.dense, h.features, h.bag, h.rows, h.best_auc};
    return data_add(f, part->map.at + sizeof h, (part->map.bytes - (int64_t)sizeof h) / 4, DATA_I32);
}

struct clicks_layout clicks_layout(const struct data_file *f) {
    return f->format == DATA_CLICKS ? f->clicks : (struct clicks_layout){0};
}

enum status clicks_split(const struct data_file *f, double val_fraction, struct data_split *train,
                         struct data_split *val) {
    int64_t T = clicks_words(&f->clicks), n = (data_n_tokens(f) - 1) / T;
    int64_t n_val = (int64_t)(val_fraction * (double)n);
    *train = (struct data_split){f, 0, (n - n_val) * T + 1, T, NULL};
    *val = (struct data_split){f, (n - n_val) * T, n_val ? n_val * T + 1 : 0, T, NULL};
    if (n_val < n && (n_val > 0 || val_fraction == 0)) return OK;
    return FAIL(E_DATA, "%s has %" PRId64 " samples, and val-fraction=%g leaves one part of it empty; use another "
                "val-fraction (0: no evaluation), or more samples", data_path(f), n, val_fraction);
}

const int32_t *clicks_sample(const struct data_split *split, int64_t i) {
    const int32_t *ahead = split->ahead ? data_ahead_take(split->ahead, i) : NULL;
    return ahead ? ahead : (const int32_t *)split->file->stretches[0].at + split->first + i * split->T;
}

/* ---- writing ---- */
struct clicks_writer { struct clicks_layout layout; char *path, *beside; FILE *file; int64_t n; };

static enum status failed(const struct clicks_writer *w) {
    return FAIL(E_IO, "%s cannot be written (%m); is there room, and may you write there?", w->path);
}

enum status clicks_create(const char *path, const struct clicks_layout *layout, struct clicks_writer **out) {
    struct clicks_writer *w = *out = calloc(1, sizeof *w);
    struct header nothing = {.version = 0};
    if (!w || !(w->path = strdup(path)) || asprintf(&w->beside, "%s.tmp-%d", path, (int)getpid()) < 0)
        return FAIL(E_MEMORY, "no memory to write %s", path);
    w->layout = *layout;
    w->file = shared_create(w->beside);
    return w->file && fwrite(&nothing, sizeof nothing, 1, w->file) == 1 ? OK : failed(w);
}

enum status clicks_append(struct clicks_writer *w, const int32_t *words) {
    size_t n = (size_t)clicks_words(&w->layout);
    w->n++;
    return fwrite(words, sizeof *words, n, w->file) == n ? OK : failed(w);
}

int64_t clicks_n(const struct clicks_writer *w) { return w->n; }

static enum status finish(struct clicks_writer *w, double best_auc) {
    const struct clicks_layout *c = &w->layout;
    struct header h = {.version = 1, .dense = c->dense, .features = c->features, .bag = c->bag, .rows = c->rows,
                       .samples = w->n, .best_auc = best_auc};
    const int32_t end = 0;
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    if (w->n == 0) return FAIL(E_DATA, "no samples, so %s is not written", w->path);
    bool ok = fwrite(&end, sizeof end, 1, w->file) == 1 && fseek(w->file, 0, SEEK_SET) == 0 &&
              fwrite(&h, sizeof h, 1, w->file) == 1 && fflush(w->file) == 0 && fsync(fileno(w->file)) == 0;
    return ok && rename(w->beside, w->path) == 0 ? durable_name(w->path) : failed(w);
}

enum status clicks_finish(struct clicks_writer **writer, double best_auc) {
    enum status status = finish(*writer, best_auc);
    clicks_abandon(writer);
    return status;
}

/* After clicks_finish the temporary file has its final name, and unlink fails without harm. */
void clicks_abandon(struct clicks_writer **writer) {
    struct clicks_writer *w = *writer;
    *writer = NULL;
    if (!w) return;
    if (w->file) fclose(w->file);
    if (w->beside) unlink(w->beside);
    free(w->path);
    free(w->beside);
    free(w);
}
