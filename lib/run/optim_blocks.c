#include "lib/run/optim_blocks.h"

#include "lib/base/integer.h"
#include "lib/device/arena.h"
#include "lib/device/disk.h"
#include <inttypes.h>
#include <stdlib.h>

/* A param is cut at multiples of CUT_ELEMENTS, which fill whole pages in every dtype. */
enum { CUT_ELEMENTS = 2048 };

/* ---- staged arrays ---- */
/* The bytes of n elements of an array. */
static int64_t bytes_of(const struct param *w, enum fixed_array a, int64_t n) {
    return n * (int64_t)dtype_size(w->arrays[a].dtype);
}

bool optim_is_offloaded(const struct program *p, const struct param *w) {
    if (!param_is_stored(w) || w->own_n <= 0) return false;
    return w->state_tier == TIER_DISK || (w->state_tier == TIER_HOST && p->device != DEVICE_CPU);
}

bool optim_is_staged(const struct program *p, const struct param *w, enum fixed_array a) {
    enum tier tier = w->arrays[a].tier;
    if (!w->arrays[a].copies) return false;
    return tier == TIER_DISK || (tier == TIER_DEVICE && p->device != DEVICE_CPU);
}

bool optim_array_is_read(const struct param *w, enum fixed_array a) { return a != ARRAY_WEIGHT || !w->master; }
bool optim_array_is_written(enum fixed_array a) { return a != ARRAY_GRAD; }

/* ---- cutting ---- */
/* The bytes that n elements take in a slot: whole pages, because a file moves whole pages. */
static int64_t room_of(const struct program *p, const struct param *w, int64_t n) {
    int64_t bytes = 0;
    for (enum fixed_array a = 0; a < N_FIXED_ARRAYS; a++)
        if (optim_is_staged(p, w, a)) bytes += round_up(bytes_of(w, a, n), DISK_PAGE);
    return bytes;
}

/* The largest number of elements that fits: all elements left, or else a multiple of CUT_ELEMENTS. */
static int64_t how_many(const struct program *p, const struct param *w, int64_t left, int64_t room) {
    int64_t each = room_of(p, w, CUT_ELEMENTS);
    if (room_of(p, w, left) <= room) return left;
    return room / each * CUT_ELEMENTS;
}

struct cutting { const struct program *program; struct optim_blocks *out; int64_t slot; int parts_room, blocks_room; };

static enum status grow(void **table, int n, int *room, size_t size) {
    if (n < *room) return OK;
    void *more = realloc(*table, (size_t)(*room = 2 * *room + 16) * size);
    if (!more) return FAIL(E_MEMORY, "no memory for a table of %d blocks of the update", *room);
    *table = more;
    return OK;
}

static enum status open_block(struct cutting *c) {
    struct optim_blocks *o = c->out;
    TRY(grow((void **)&o->blocks, o->n_blocks, &c->blocks_room, sizeof *o->blocks));
    o->blocks[o->n_blocks++] = (struct optim_block){.first_part = o->n_parts};
    return OK;
}

static enum status add_part(struct cutting *c, int param, int64_t first, int64_t n) {
    struct optim_blocks *o = c->out;
    struct optim_block *b = &o->blocks[o->n_blocks - 1];
    TRY(grow((void **)&o->parts, o->n_parts, &c->parts_room, sizeof *o->parts));
    o->parts[o->n_parts++] = (struct block_part){.param = param, .first = first, .n = n};
    b->n_parts++;
    b->bytes += room_of(c->program, &c->program->params[param], n);
    return OK;
}

static enum status refuse_window(const struct cutting *c, const struct param *w) {
    int64_t least = room_of(c->program, w, CUT_ELEMENTS);
    return FAIL(E_CONFIG, "offload-window has %" PRId64 " bytes for a block, and %d elements of %s need %" PRId64
                "; give --offload-window %.2f or more", c->slot, CUT_ELEMENTS, w->name, least,
                (double)(OPTIM_SLOTS * least) / (1 << 20) + 0.005);
}

static enum status cut_param(struct cutting *c, int param) {
    const struct param *w = &c->program->params[param];
    struct optim_blocks *o = c->out;
    if (!o->n_blocks) TRY(open_block(c));                            /* also if nothing is staged */
    for (int64_t first = 0, n; first < w->own_n; first += n) {
        int64_t left = w->own_n - first, used = o->blocks[o->n_blocks - 1].bytes;
        n = how_many(c->program, w, left, c->slot - used);
        if (n == 0) {
            TRY(open_block(c));
            n = how_many(c->program, w, left, c->slot);
        }
        if (n == 0) return refuse_window(c, w);
        TRY(add_part(c, param, first, n));
    }
    return OK;
}

/* ---- laying out ---- */
/* A slot holds the states first, in the order of the file, so that one transfer moves neighbors; then the weights, then
 * the gradients. */
enum { N_GROUPS = 3 };
static int group_of(enum fixed_array a) { return a >= ARRAY_STATE ? 0 : a == ARRAY_WEIGHT ? 1 : 2; }

static void lay_out_block(const struct program *p, const struct optim_blocks *o, const struct optim_block *b) {
    int64_t end = 0;
    for (int group = 0; group < N_GROUPS; group++)
        for (struct block_part *part = &o->parts[b->first_part]; part < &o->parts[b->first_part + b->n_parts]; part++)
            for (enum fixed_array a = 0; a < N_FIXED_ARRAYS; a++) {
                const struct param *w = &p->params[part->param];
                if (group_of(a) != group) continue;
                part->at[a] = optim_is_staged(p, w, a) ? end : -1;
                if (part->at[a] >= 0) end += round_up(bytes_of(w, a, part->n), DISK_PAGE);
            }
}

/* The end of the bytes that a block writes in its slot. A file's array fills whole pages, a copied array does not. */
static int64_t last_byte(const struct program *p, const struct optim_blocks *o, const struct optim_block *b) {
    int64_t end = 0;
    for (int i = b->first_part; i < b->first_part + b->n_parts; i++)
        for (enum fixed_array a = 0; a < N_FIXED_ARRAYS; a++) {
            const struct param *w = &p->params[o->parts[i].param];
            if (o->parts[i].at[a] < 0) continue;
            int64_t bytes = bytes_of(w, a, o->parts[i].n);
            if (w->arrays[a].tier == TIER_DISK) bytes = round_up(bytes, DISK_PAGE);
            if (o->parts[i].at[a] + bytes > end) end = o->parts[i].at[a] + bytes;
        }
    return end;
}

static void lay_out(const struct program *p, struct optim_blocks *o) {
    for (int i = 0; i < o->n_blocks; i++)
        if (o->blocks[i].bytes > o->slot_bytes) o->slot_bytes = o->blocks[i].bytes;
    for (int i = 0; i < o->n_blocks; i++) {
        lay_out_block(p, o, &o->blocks[i]);
        int64_t end = i % OPTIM_SLOTS * o->slot_bytes + last_byte(p, o, &o->blocks[i]);
        if (end > o->bytes) o->bytes = end;
    }
}

static void count_file(const struct param *w, struct optim_blocks *o) {
    for (enum fixed_array a = ARRAY_WEIGHT; a < N_FIXED_ARRAYS; a++) {
        if (w->arrays[a].tier != TIER_DISK || !w->arrays[a].copies) continue;
        int64_t bytes = round_up(bytes_of(w, a, w->own_n), DISK_PAGE);
        if (optim_array_is_read(w, a)) o->read_bytes += bytes;
        o->written_bytes += bytes;
    }
}

enum status optim_blocks_make(const struct program *p, int64_t window_bytes, struct optim_blocks *out) {
    struct cutting c = {.program = p, .out = out, .slot = window_bytes / OPTIM_SLOTS / DISK_PAGE * DISK_PAGE};
    *out = (struct optim_blocks){0};
    if (p->forward_only) return OK;
    for (int i = 0; i < p->n_params; i++) {
        if (!optim_is_offloaded(p, &p->params[i])) continue;
        TRY(cut_param(&c, i));
        count_file(&p->params[i], out);
    }
    lay_out(p, out);
    return OK;
}

void optim_blocks_fini(struct optim_blocks *o) {
    free(o->parts);
    free(o->blocks);
    *o = (struct optim_blocks){0};
}
