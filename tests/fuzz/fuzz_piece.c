/* parses: lib/base lib/device/tensor.c lib/device/dtype.c lib/checkpoint/checkpoint_piece.c lib/device/piece.c */
/* The part of a tensor that a checkpoint's file has, from its metadata; and the elements that two parts share. The
 * input is two parts, with a line break between them. */
#include "lib/checkpoint/checkpoint_piece.h"
#include "tests/fuzz/fuzz.h"
#include <string.h>

static void piece_must_hold(const struct piece *p) {
    __int128 n = 1;
    MUST(p->box.n_axes >= 0 && p->box.n_axes <= MAX_AXES);
    for (int i = 0; i < p->box.n_axes; i++) {
        const struct axis *a = &p->box.axis[i];
        MUST(a->first >= 0 && a->n >= 0 && a->global >= 0 && (__int128)a->first + a->n <= a->global);
        n *= a->n;
    }
    MUST(p->first >= 0 && p->n >= 0 && (__int128)p->first + p->n <= n);
    MUST(n == shape_n(&p->box));
}

static bool same_piece(const struct piece *a, const struct piece *b) {
    bool same = a->box.n_axes == b->box.n_axes && a->first == b->first && a->n == b->n;
    for (int i = 0; same && i < a->box.n_axes; i++)
        same = a->box.axis[i].first == b->box.axis[i].first && a->box.axis[i].n == b->box.axis[i].n &&
               a->box.axis[i].global == b->box.axis[i].global;
    return same;
}

static bool parse(const uint8_t *data, size_t size, struct piece *p) {
    json_t *json = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    enum status status = checkpoint_piece_parse(json, "input", p);
    MUST(status == OK || status == E_FORMAT);
    json_decref(json);
    if (status != OK) return false;
    struct piece again;
    piece_must_hold(p);
    json_t *written = checkpoint_piece_json(p);
    MUST(checkpoint_piece_parse(written, "output", &again) == OK && same_piece(p, &again));
    json_decref(written);
    return true;
}

/* ---- two parts ---- */

enum { MAX_ELEMENTS = 4096 };
struct common { const struct piece *to, *from; char seen[MAX_ELEMENTS]; int64_t n; };

static enum status see(void *self, int64_t to_at, int64_t from_at, int64_t n) {
    struct common *c = self;
    MUST(n > 0 && to_at >= 0 && from_at >= 0 && to_at + n <= c->to->n && from_at + n <= c->from->n);
    for (int64_t i = 0; i < n; i++) {
        MUST(!c->seen[to_at + i]++);
        MUST(shape_global_index(&c->to->box, c->to->first + to_at + i) ==
             shape_global_index(&c->from->box, c->from->first + from_at + i));
    }
    c->n += n;
    return OK;
}

static int64_t common_by_looking(const struct piece *a, const struct piece *b) {
    int64_t n = 0;
    for (int64_t i = 0; i < a->n; i++)
        for (int64_t k = 0; k < b->n; k++)
            n += shape_global_index(&a->box, a->first + i) == shape_global_index(&b->box, b->first + k);
    return n;
}

/* Small parts are counted element by element; for large ones the numbers need only stay in range, because a walk over
 * many rows may take long. */
static void compare(const struct piece *a, const struct piece *b) {
    struct common c = {.to = a, .from = b};
    if (a->n > 64 || b->n > 64) return;
    enum status status = piece_common(a, b, see, &c);
    MUST(status == OK || status == E_INTERNAL);
    if (status == OK) MUST(c.n == common_by_looking(a, b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *line = memchr(data, '\n', size);
    size_t n = line ? (size_t)(line - data) : size;
    struct piece a, b;
    if (!parse(data, n, &a)) return 0;
    if (line && parse(line + 1, size - n - 1, &b)) compare(&a, &b), compare(&b, &a);
    return 0;
}
