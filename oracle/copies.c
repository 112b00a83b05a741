/* Copies that drift.
 *
 * Problem. Replicas hold the same weights: those of dp hold all, those of tp the norms, the ends of a pipeline a tied
 * embedding. Nothing makes them equal but the same sums and the same updates. After one wrong group, one dropped
 * message or one flipped bit, copies differ. The loss still falls, and each rank trains its own model.
 *
 * Idea. Every N steps a rank makes one row of 16 bytes for each weight that it holds. All rows are gathered. Rows with
 * the same key must have the same sum.
 *
 *     key = hash(the param's name, its box in the global tensor, the run of elements)       (lib/device/piece.h)
 *     sum = hash(the bytes of these elements)
 *
 * No layout is known here: two ranks with the same piece of a param have copies of it, whatever technique made them.
 * Weights in which a bit differs have other sums, but for one case in 2^64.
 *
 * When. After backward, before the update: all weights are those that the step has read. So copies that an update has
 * spoiled are found one step later.
 *
 * Formula. An all-gather of 16 bytes x the most params of a rank, from each rank, every N steps; every rank reads its
 * own weights once.
 *
 * What breaks: replicas that differ by intent. Those of --local-steps have their number in the key, and so are never
 * compared; asynchronous steps are refused.
 *
 * Source: Meta 2024, "The Llama 3 Herd of Models", section 3.3.4, names silent data corruption among the causes of
 * interruptions; Automodel#3822 is a drift of tp's copies of norms. */
#include "oracle/copies.h"

#include "lib/comm/comm.h"
#include "lib/run/run.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const struct option OPTIONS[] = {
    {"check-copies", OPTION_INT, "0", 0, 1e9, NULL, "steps",
     "every N steps, all ranks compare checksums of the weights that they hold alike, and the run ends if two differ; "
     "0: never",
     "machine", offsetof(struct copies_options, every)},
};

static bool copies_wanted(const struct plan *plan) { return copies_options(plan)->every > 0; }

static enum status copies_check(const struct plan *plan) {
    if (!plan_is_asynchronous(plan)) return OK;
    return FAIL(E_CONFIG,
                "check-copies=%" PRId64 " compares copies between two updates, and asynchronous steps overlap; use %s, "
                "or check-copies 0",
                copies_options(plan)->every, plan_synchronous_option(plan));
}

/* ---- rows ---- */
struct checksum { uint64_t key, sum; };

static bool has_copies(const struct param *w) {
    return param_is_stored(w) && !w->cache && w->update == UPDATE_DENSE && w->weight_residence != RESIDENT_NONE;
}

static int64_t count_rows(const struct program *p) {
    int64_t n = 0;
    for (int i = 0; i < p->n_params; i++) n += has_copies(&p->params[i]);
    return n;
}

/* What this rank holds between steps, and its address. */
static struct piece held(const struct param *w, const void **at) {
    struct piece whole = {.box = w->type.shape, .n = shape_n(&w->type.shape)};
    bool own = w->weight_residence == RESIDENT_OWN;
    *at = own ? param_own_weight(w) : w->weight;
    return own ? param_own_piece(w) : whole;
}

static uint64_t key_of(const struct program *p, const struct param *w, const struct piece *x) {
    uint64_t hash = XXH3_64bits_withSeed(w->name, strlen(w->name), (uint64_t)p->apart);
    for (int a = 0; a < x->box.n_axes; a++) {
        const struct axis *k = &x->box.axis[a];
        const int64_t place[] = {k->n, k->first, k->global, k->turn, k->jump};
        hash = XXH3_64bits_withSeed(place, sizeof place, hash);
    }
    const int64_t run[] = {x->first, x->n};
    return XXH3_64bits_withSeed(run, sizeof run, hash);
}

/* rows: [ranks][most], those of rank r from r x most on, 0 after its last. param: of this rank's rows. staging: on the
 * host, for a weight that lies on a device. */
struct copies { int n_ranks; int64_t most; struct checksum *rows; int *param; void *staging; };

static enum status make_row(const struct run *r, struct copies *c, const struct param *w, struct checksum *out) {
    const void *at;
    struct piece x = held(w, &at);
    size_t bytes = (size_t)x.n * dtype_size(w->type.dtype);
    bool here = r->device->kind == DEVICE_CPU || w->weight_tier != TIER_DEVICE;
    if (!here && bytes) TRY(r->device->download(r->device, c->staging, at, (int64_t)bytes));
    *out = (struct checksum){key_of(&r->program, w, &x), XXH3_64bits(here ? at : c->staging, bytes)};
    if (x.n == 0) *out = (struct checksum){0, 0};
    return OK;
}

static enum status make_rows(const struct run *r, struct copies *c, struct checksum *mine) {
    int n = 0;
    memset(mine, 0, (size_t)c->most * sizeof *mine);
    TRY(comm_wait_queued(r->device, "the step, before checksums"));
    for (int i = 0; i < r->program.n_params; i++)
        if (has_copies(&r->program.params[i])) {
            TRY(make_row(r, c, &r->program.params[i], &mine[n]));
            c->param[n++] = i;
        }
    return OK;
}

/* ---- all ranks' rows ---- */
static const struct checksum *find(const struct checksum *rows, int64_t n, uint64_t key) {
    for (int64_t i = 0; i < n; i++)
        if (rows[i].key == key) return &rows[i];
    return NULL;
}

/* Write the ranks that hold the row's copy with its sum, as "0, 2, 3". @return their weight: more ranks weigh more, and
 * of as many those with the lowest rank */
static int holders(const struct copies *c, const struct checksum *x, char *out, size_t bytes) {
    int n = 0, first = 0;
    size_t at = 0;
    for (int rank = c->n_ranks - 1; rank >= 0; rank--) {
        const struct checksum *y = find(c->rows + rank * c->most, c->most, x->key);
        if (y && y->sum == x->sum) n++, first = rank;
    }
    for (int rank = first; rank < c->n_ranks && at < bytes; rank++) {
        const struct checksum *y = find(c->rows + rank * c->most, c->most, x->key);
        if (y && y->sum == x->sum) at += (size_t)snprintf(out + at, bytes - at, "%s%d", at ? ", " : "", rank);
    }
    return n * c->n_ranks - first;
}

/* The first copy of row x that has another sum; NULL: all copies are alike. */
static const struct checksum *apart_from(const struct copies *c, const struct checksum *x) {
    for (int rank = 0; rank < c->n_ranks && x->key; rank++) {
        const struct checksum *y = find(c->rows + rank * c->most, c->most, x->key);
        if (y && y->sum != x->sum) return y;
    }
    return NULL;
}

static enum status refuse(const struct run *r, const struct copies *c, const struct checksum *x, int param,
                          int64_t n_apart) {
    char few[64], many[64];
    bool more = holders(c, x, few, sizeof few) > holders(c, apart_from(c, x), many, sizeof many);
    return FAIL(E_INTERNAL,
                "step %" PRId64 ": copies of %s and of %" PRId64 " more params differ: rank %s against rank %s; train "
                "again from the last checkpoint with check-copies 1: a flipped bit does not come back, a wrong sum "
                "does",
                r->n_step + 1, r->program.params[param].name, n_apart - 1, more ? many : few, more ? few : many);
}

static enum status compare(const struct run *r, const struct copies *c, const struct checksum *mine) {
    int64_t first = -1, n_apart = 0;
    for (int64_t i = 0; i < count_rows(&r->program); i++)
        if (apart_from(c, &mine[i])) {
            if (first < 0) first = i;
            n_apart++;
        }
    return first < 0 ? OK : refuse(r, c, &mine[first], c->param[first], n_apart);
}

static enum status copies_combine(struct run *r, void *self, const struct event *e) {
    struct copies *c = self;
    (void)e;
    if ((r->n_step + 1) % copies_options(&r->plan)->every) return OK;
    struct checksum *mine = c->rows + group_rank(r->mesh.group[AXIS_MESH]) * c->most;
    TRY(make_rows(r, c, mine));
    TRY(comm_all_gather(r->mesh.group[AXIS_MESH], mine, c->rows, c->most * (int64_t)sizeof *mine, UINT8));
    return compare(r, c, mine);
}

/* ---- cost ---- */
/* The most rows of any rank: stages of a pipeline have different params. */
static enum status most_rows(const struct plan *plan, const struct program *mine, int64_t *most) {
    struct plan other = *plan;
    *copies_options(&other) = (struct copies_options){0};
    *most = count_rows(mine);
    for (int stage = 0; stage < plan->mesh.pp; stage++) {
        struct run run;
        other.place.rank.pp = stage;
        enum status status = run_compile(&run, plan->recipe, &other, mesh_rank_of(&other.place), NULL, NULL);
        if (status == OK && count_rows(&run.program) > *most) *most = count_rows(&run.program);
        run_destroy(&run);
        TRY(status);
    }
    return OK;
}

static enum status copies_cost(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    int64_t most;
    TRY(most_rows(plan, c->program, &most));
    bill_exchange(bill, &c->program->place,
                  (struct exchange){.axis = AXIS_MESH, .op = COMM_ALL_GATHER, .dtype = UINT8, .when = AT_END,
                                    .count = most * (int64_t)sizeof(struct checksum) * plan_ranks(plan),
                                    .every = copies_options(plan)->every});
    return OK;
}

/* ---- attach ---- */
static enum status copies_attach(struct run *r, void **self) {
    struct copies *c = *self = calloc(1, sizeof *c);
    int64_t largest = 0;
    if (!c) return FAIL(E_MEMORY, "no memory for checksums of copies");
    c->n_ranks = group_size(r->mesh.group[AXIS_MESH]);
    TRY(most_rows(&r->plan, &r->program, &c->most));
    for (int i = 0; i < r->program.n_params; i++) {
        int64_t bytes = type_bytes(&r->program.params[i].type);
        if (bytes > largest) largest = bytes;
    }
    c->rows = calloc((size_t)(c->most * c->n_ranks), sizeof *c->rows);
    c->param = calloc((size_t)c->most, sizeof *c->param);
    c->staging = malloc(r->device->kind == DEVICE_CPU ? 1 : (size_t)largest);
    if (!c->rows || !c->param || !c->staging)
        return FAIL(E_MEMORY, "no memory for checksums of %" PRId64 " params on %d ranks", c->most,
                    c->n_ranks);
    return run_subscribe(r, EVENT_GRAD_COMBINE, copies_combine, c);
}

static void copies_detach(struct run *r, void *self) {
    struct copies *c = self;
    (void)r;
    if (!c) return;
    free(c->rows);
    free(c->param);
    free(c->staging);
    free(c);
}

const struct technique technique_copies = {
    .name = "copies", .options = {OPTIONS, 1, sizeof(struct copies_options)}, .wanted = copies_wanted,
    .check = copies_check, .cost = copies_cost, .attach = copies_attach, .detach = copies_detach};
