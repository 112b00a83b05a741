/* The update of offloaded params: a window of three slots moves over the blocks (optim_blocks.h).
 *
 *   slot     b % 3     (b + 1) % 3      (b + 2) % 3
 *            update b  read b + 1       write b - 1
 *
 *   file     m, v, w32  --read-->  slot   m, v, w32 = AdamW(g)  --write-->  file        (or another optimizer)
 *   device   g          --copy-->  slot   w16 = round(w32)      --copy-->   device   w16        on a GPU; a CPU reads
 *                                                                           g and writes w16 in place
 *
 * States in host memory are never moved, which is the point of ZeRO-Offload. If weights are also offloaded, this code
 * copies no weights to the device: zero/ uploads the weights that a block of layers needs.
 *
 * A step ends when the file has all its blocks, so that a checkpoint and the next step read the new values. The first
 * read and the last write cannot hide; the update waits for a disk that is slower than the update (disk_wait_ms).
 *
 * What breaks: reusing a slot that is still being written; reading a block that the step before is still writing;
 * updating before the gradient has arrived; writing back slots that were never read, in a refused step (multiplier
 * NaN).
 *
 * Source: Ren et al. 2021, "ZeRO-Offload"; Rajbhandari et al. 2021, "ZeRO-Infinity", section 6. */
#include "lib/run/optim_offload.h"

#include "lib/base/integer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSFER_BYTES = 1 << 20 };       /* the longest transfer; a block has several in flight */

struct window_slot {
    char *memory;
    struct disk_io *io;                  /* [n_io] transfers in flight */
    int n_io;
    struct device_mark mark;             /* the end of the copies to and from the device */
};

struct optim_offload {
    struct window_slot slots[OPTIM_SLOTS];
    struct optimizer_elements *elements;     /* of a block */
};

/* ---- tables ---- */
static int most_transfers(const struct optim_block *b) {
    return (int)(b->bytes / TRANSFER_BYTES) + 1 + b->n_parts * (N_FIXED_ARRAYS + 1);
}

static enum status make_slot(struct run *r, int i, int n_io, struct window_slot *s) {
    s->memory = arena_at(&r->arenas[TIER_HOST][ROLE_WORK], i * r->blocks.slot_bytes);
    s->io = calloc((size_t)n_io, sizeof *s->io);
    return s->io ? OK : FAIL(E_MEMORY, "no memory for a table of %d transfers", n_io);
}

enum status optim_offload_create(struct run *r, struct optim_offload **out) {
    int n_io = 0, n_parts = 0;
    *out = NULL;
    if (!r->blocks.n_blocks) return OK;
    for (int i = 0; i < r->blocks.n_blocks; i++) {
        const struct optim_block *b = &r->blocks.blocks[i];
        if (most_transfers(b) > n_io) n_io = most_transfers(b);
        if (b->n_parts > n_parts) n_parts = b->n_parts;
    }
    struct optim_offload *o = *out = calloc(1, sizeof *o);
    if (!o || !(o->elements = calloc((size_t)n_parts, sizeof *o->elements)))
        return FAIL(E_MEMORY, "no memory for the tables of an update in %d blocks", r->blocks.n_blocks);
    for (int i = 0; i < OPTIM_SLOTS; i++) TRY(make_slot(r, i, n_io, &o->slots[i]));
    return OK;
}

void optim_offload_destroy(struct run *r, struct optim_offload **offload) {
    struct optim_offload *o = *offload;
    if (!o) return;
    for (int i = 0; i < OPTIM_SLOTS; i++) {
        struct window_slot *s = &o->slots[i];
        for (int k = 0; s->io && k < s->n_io; k++)
            if (disk_wait(r->disk, &s->io[k]) != OK) status_clear();
        r->device->mark_fini(r->device, &s->mark);
        free(s->io);
    }
    free(o->elements);
    free(o);
    *offload = NULL;
}

/* ---- the place of an array outside the slot ---- */
static char *home(const struct param *w, const struct block_part *part, enum fixed_array a) {
    char *at = a == ARRAY_WEIGHT ? param_own_weight(w) : a == ARRAY_GRAD ? param_own_grad(w) : w->arrays[a].at;
    return at ? at + part->first * (int64_t)dtype_size(w->arrays[a].dtype) : NULL;
}

/* ---- moving a block ---- */
/* Add a transfer; or lengthen the last one, if memory and file both continue it. */
static void add_transfer(struct window_slot *s, bool write, char *memory, const char *place, int64_t bytes) {
    while (bytes > 0) {
        struct disk_io *last = s->n_io ? &s->io[s->n_io - 1] : NULL;
        bool goes_on = last && last->bytes < TRANSFER_BYTES && (char *)last->memory + last->bytes == memory &&
                       (const char *)last->place + last->bytes == place;
        int64_t room = TRANSFER_BYTES - (goes_on ? last->bytes : 0), n = bytes < room ? bytes : room;
        if (goes_on) last->bytes += n;
        else s->io[s->n_io++] = (struct disk_io){.write = write, .memory = memory, .place = place, .bytes = n};
        memory += n, place += n, bytes -= n;
    }
}

static enum status copy_part(const struct run *r, bool write, char *memory, char *place, int64_t bytes) {
    return write ? r->device->upload_start(r->device, place, memory, bytes)
                 : r->device->download_start(r->device, memory, place, bytes);
}

static enum status move_array(const struct run *r, struct window_slot *s, const struct block_part *part,
                              enum fixed_array a, bool write) {
    const struct param *w = &r->program.params[part->param];
    int64_t bytes = part->n * (int64_t)dtype_size(w->arrays[a].dtype), whole = round_up(bytes, DISK_PAGE);
    char *memory = s->memory + part->at[a];
    if (part->at[a] < 0 || !(write ? optim_array_is_written(a) : optim_array_is_read(w, a))) return OK;
    if (w->arrays[a].tier != TIER_DISK) return copy_part(r, write, memory, home(w, part, a), bytes);
    if (write) memset(memory + bytes, 0, (size_t)(whole - bytes));   /* the padding of the last page stays zero */
    add_transfer(s, write, memory, home(w, part, a), whole);
    return OK;
}

static enum status move_block(const struct run *r, struct window_slot *s, int block, bool write) {
    const struct optim_block *b = &r->blocks.blocks[block];
    s->n_io = 0;
    for (int i = b->first_part; i < b->first_part + b->n_parts; i++)
        for (enum fixed_array a = 0; a < N_FIXED_ARRAYS; a++)
            TRY(move_array(r, s, &r->blocks.parts[i], a, write));
    for (int i = 0; i < s->n_io; i++) TRY(disk_start(r->disk, &s->io[i]));
    return r->device->mark_set(r->device, &s->mark);
}

/* Wait for all transfers and copies of the slot. */
static enum status settle(const struct run *r, struct window_slot *s) {
    for (int i = 0; i < s->n_io; i++) TRY(disk_wait(r->disk, &s->io[i]));
    return run_wait(r, &s->mark, "a copy of the update");
}

/* ---- updating a block ---- */
static void *in_slot(const struct window_slot *s, const struct param *w, const struct block_part *part,
                     enum fixed_array a) {
    return part->at[a] < 0 ? home(w, part, a) : s->memory + part->at[a];
}

static enum status update_block(const struct run *r, const struct window_slot *s, int block,
                                const struct optimizer_settings *a) {
    const struct optim_block *b = &r->blocks.blocks[block];
    struct optimizer_elements *e = r->offload->elements;
    for (int i = 0; i < b->n_parts; i++) {
        const struct block_part *part = &r->blocks.parts[b->first_part + i];
        const struct param *w = &r->program.params[part->param];
        e[i] = param_elements(w);
        e[i].n = part->n, e[i].master = in_slot(s, w, part, ARRAY_MASTER);
        e[i].weight = in_slot(s, w, part, ARRAY_WEIGHT), e[i].grad = in_slot(s, w, part, ARRAY_GRAD);
        for (int k = 0; k < OPTIMIZER_STATES; k++) e[i].state[k] = in_slot(s, w, part, ARRAY_STATE + k);
    }
    return optimizer_update(r->program.optimizer, device_cpu(), a, e, b->n_parts);
}

/* ---- the window ---- */
static struct window_slot *slot_of(const struct run *r, int block) { return &r->offload->slots[block % OPTIM_SLOTS]; }

static enum status read_start(const struct run *r, int block) {
    if (block >= r->blocks.n_blocks) return OK;
    TRY(settle(r, slot_of(r, block)));                               /* the slot may still write the block before */
    return move_block(r, slot_of(r, block), block, false);
}

static enum status update_all(const struct run *r, const struct optimizer_settings *a) {
    TRY(read_start(r, 0));
    for (int b = 0; b < r->blocks.n_blocks; b++) {
        TRY(read_start(r, b + 1));
        TRY(settle(r, slot_of(r, b)));
        TRY(update_block(r, slot_of(r, b), b, a));
        TRY(move_block(r, slot_of(r, b), b, true));
    }
    for (int i = 0; i < OPTIM_SLOTS; i++) TRY(settle(r, &r->offload->slots[i]));
    return OK;
}

enum status optim_offload_update(struct run *r, const struct optimizer_settings *a) {
    double multiplier;
    if (!r->offload) return OK;
    TRY(run_read_scalar(r, a->grad_multiplier, &multiplier));
    if (isnan(multiplier)) return OK;
    struct optimizer_settings here = *a;
    here.grad_multiplier = &multiplier;
    return update_all(r, &here);
}
