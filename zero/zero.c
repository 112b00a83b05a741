/* ZeRO: the zero redundancy optimizer.
 *
 * Idea: N replicas hold the same weights w, the same all-reduced gradients g and the same optimizer states s. Let
 * replica r own one N-th of each, and keep the rest only while it is needed:
 *
 *   stage 1   s sharded        each owner updates its shard; the weights are all-gathered before their next use
 *   stage 2   s, g sharded     a gradient is reduce-scattered to its owners, and the whole gradient freed
 *   stage 3   s, g, w sharded  a block's weights are all-gathered just before they are used, and freed after
 *
 * Formula (bytes per parameter and rank; w = g = 2, s = 12 in bf16 with fp32 states):
 *   stage 1   w + g + s/N = 4 + 12/N       stage 2   w + (g + s)/N = 2 + 14/N       stage 3   (w + g + s)/N = 16/N
 *
 * N replicas hold the same param: dp x cp of them, or those of an expert (param_replicas). They need not all share a
 * state (zero_shards.c), and backward need not gather from all (zero_second.c).
 *
 * Stored where: every param is sharded by itself into N equal shards, rounded up; rank r owns elements r shard to
 * (r + 1) shard - 1. So a tied weight has the same shards on both pipeline stages. Whole gradients (stages 2, 3) and
 * gathered weights (stage 3) are values of the program, live from their first to their last use in a block.
 *
 * Sent when, for S bytes of weights or gradients, m microbatches, U = S (N-1)/N:
 *   stage 1   GRAD_READY, final: reduce-scatter U      gather in the next first forward U    2 U, as an all-reduce
 *   stage 2   GRAD_READY, each microbatch: m U         gather in the next first forward U    (m + 1) U
 *   stage 3   GRAD_READY, each microbatch: m U         gathers in forward and backward 2m U  3 m U
 * A tied weight is gathered and scattered once per use; weights that backward does not read (biases, the position
 * table) are gathered for forward only. Weights are prefetched a block ahead (PARAM_AHEAD starts, PARAM_NEEDED waits),
 * at stages 1 and 2 by whatever forward comes first after an update: the next step's, or an evaluation's. An endless
 * pipeline gathers them in the update, since its next forward may be with older weights. Gradients are reduced in
 * buckets while backward continues (zero_bucket.c), with --grad-codec as codes (zero_coded.c). With --weight-codec
 * stage 3 gathers weights as codes (zero_quantized.c).
 *
 * Offload: optimizer states (and at stage 3 the weight shards) are in host memory or in a file, and the update runs on
 * the host (lib/run/optim_offload.c). Gradients that are sharded are in host memory then, and the norm is taken there.
 * A weight shard is brought up before it is gathered; from a file this rank waits for it.
 *
 * What breaks: reading a weight before it was gathered, or after it was freed; adding a microbatch's gradient twice; a
 * norm that leaves out the other shards (each rank counts what it owns, and the squares are all-reduced over all
 * ranks).
 *
 * Source: Rajbhandari et al. 2020, "ZeRO"; Ren et al. 2021, "ZeRO-Offload". */
#include "zero/zero.h"

#include "lib/base/integer.h"
#include "lib/run/run.h"
#include "zero/zero_bucket.h"
#include "zero/zero_coded.h"
#include "zero/zero_quantized.h"
#include "zero/zero_second.h"
#include "zero/zero_shards.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

double zero_bytes_per_param(int stage, int64_t n, double weight, double grad, double states) {
    double share = 1.0 / (double)n;
    return weight * (stage >= 3 ? share : 1) + grad * (stage >= 2 ? share : 1) + states * (stage >= 1 ? share : 1);
}

#define AT(field) offsetof(struct zero_options, field)
static const struct option OPTIONS[] = {
    {"zero", OPTION_INT, "0", 0, 3, NULL, "",
     "what is sharded over dp: 1 optimizer states, 2 also gradients, 3 also parameters", "parallelism", AT(stage)},
    {"shard", OPTION_INT, "0", SHARD_NODE, 1e6, "node", "ranks",
     "zero: so many neighbors of the dp x cp replicas share one sharded state, and the others have copies of it; node: "
     "those of a node; 0: all, and there is no copy",
     "parallelism", AT(shard)},
    {"zero-secondary", OPTION_INT, "0", SHARD_NODE, 1e6, "node", "ranks",
     "zero 3: what forward gathers is kept for backward, sharded over so many neighbors of the dp x cp replicas; node: "
     "those of a node; 0: backward gathers from all",
     "parallelism", AT(secondary)},
    {"offload", OPTION_CHOICE, "none", 0, 0, "none|optimizer|params", "",
     "kept elsewhere: optimizer states (the host updates them) and, at zero 2 and 3, gradient shards; at zero 3 also "
     "parameter shards", "parallelism",
     AT(offload)},
    {"offload-to", OPTION_CHOICE, "host", 0, 0, "host|disk", "",
     "where that is: host memory, or a file in offload-path", "parallelism", AT(offload_to)},
    {"weight-codec", OPTION_CHOICE, "none", 0, 0, "none|bf16|fp16|int8", "",
     "zero 3: gather weights as bf16, as fp16, or in blocks of int8, and compute with what that makes of them",
     "parallelism", AT(weight_codec)},
};

static bool zero_wanted(const struct plan *plan) {
    const struct zero_options *o = zero_options(plan);
    return o->stage > 0 || o->offload != OFFLOAD_NONE || o->offload_to != OFFLOAD_TO_HOST || o->shard != 0 ||
           o->secondary != 0 || o->weight_codec != CODEC_NONE;
}

static enum status check_disk(const struct plan *plan, const struct zero_options *o) {
    if (o->offload_to != OFFLOAD_TO_DISK) return OK;
    if (o->offload == OFFLOAD_NONE)
        return FAIL(E_CONFIG, "offload-to=disk, and offload=none leaves nothing to put there; use offload optimizer");
    if (!plan->offload_path[0])
        return FAIL(E_CONFIG, "offload-to=disk needs a folder for its files; give --offload-path, on a local disk");
    return OK;
}

static enum status zero_check(const struct plan *plan) {
    const struct zero_options *o = zero_options(plan);
    TRY(zero_quantized_check(plan));
    if (o->stage == 0)
        return FAIL(E_CONFIG, "%s belongs to zero, and zero=0; use zero 1, 2 or 3",
                    o->shard ? "shard" : o->secondary ? "zero-secondary" : "offload");
    if (o->offload == OFFLOAD_PARAMS && o->stage < 3)
        return FAIL(E_CONFIG,
                    "offload=params needs sharded parameters, and zero=%" PRId64 "; use zero 3, or offload optimizer",
                    o->stage);
    TRY(check_disk(plan, o));
    if (plan_is_asynchronous(plan) && (o->stage > 1 || o->offload != OFFLOAD_NONE))
        return FAIL(E_CONFIG,
                    "an asynchronous schedule keeps several versions of whole weights, and zero=%" PRId64
                    "%s shards or "
                    "moves them; use zero=1 without offload, or schedule=1f1b",
                    o->stage, o->offload != OFFLOAD_NONE ? " with offload" : "");
    return o->shard || o->secondary ? zero_shards_check(plan) : OK;
}

/* ---- rewrite: who owns what ---- */
static void divide(const struct plan *plan, struct param *w) {
    const struct zero_options *o = zero_options(plan);
    int64_t n = type_n(&w->type);
    enum mesh_axis replicas = param_replicas(w), part = mesh_shard_axis(replicas, &plan->place);
    w->shard_axis = o->secondary ? replicas : part;
    w->replicate_axis = o->secondary ? AXIS_SELF : mesh_replicate_axis(replicas, &plan->place);
    w->second_axis = o->secondary ? part : AXIS_SELF;
    int n_ranks = mesh_size(w->shard_axis, &plan->place);
    w->shard_n = ceil_div(n, n_ranks);
    w->padded_n = w->shard_n * n_ranks;
    w->own_first = w->shard_n * mesh_index(w->shard_axis, &plan->place);
    int64_t left = n - w->own_first;
    w->own_n = left < 0 ? 0 : left < w->shard_n ? left : w->shard_n;
    if (o->stage >= 2) w->grad_residence = RESIDENT_OWN;
    if (o->stage >= 3) w->weight_residence = RESIDENT_OWN;
    enum tier far = o->offload_to == OFFLOAD_TO_DISK ? TIER_DISK : TIER_HOST;
    w->state_tier = o->offload != OFFLOAD_NONE ? far : TIER_DEVICE;
    w->weight_tier = o->offload == OFFLOAD_PARAMS ? far : TIER_DEVICE;
    w->grad_tier = o->offload != OFFLOAD_NONE && o->stage >= 2 ? TIER_HOST : TIER_DEVICE;
}

static enum status zero_rewrite(const struct plan *plan, struct program *p) {
    for (int i = 0; i < p->n_params; i++) divide(plan, &p->params[i]);
    return OK;
}

/* ---- cost ---- */
static int64_t shard_bytes(const struct param *w) { return w->shard_n * (int64_t)dtype_size(w->type.dtype); }

static bool scatters_every(const struct plan *plan) { return zero_options(plan)->stage >= 2; }

static bool is_coded(const struct plan *plan) { return plan->grad_codec != CODEC_NONE; }

static enum status predict(const struct plan *plan, const struct compiled *c, struct zero_buckets *z) {
    return zero_buckets_init(z, c, scatters_every(plan), plan_bucket_bytes(plan));
}
static enum status predict_codes(const struct plan *plan, const struct program *p, const struct zero_buckets *buckets,
                                 struct zero_coded *z) {
    return zero_coded_init(z, buckets, p, plan_codec(plan), plan_has_feedback(plan));
}

/* Gathers of each param per step: the first PARAM_AHEAD after the update (stages 1 and 2), or each (stage 3), in
 * backward of second shards where there are. */
struct gathers { int64_t first, second; };
static void count_gathers(const struct plan *plan, const struct compiled *c, struct gathers *n) {
    const struct program *p = c->program;
    bool sharded = zero_options(plan)->stage == 3;
    for (int i = 0; i < p->n_params; i++) n[i].first = !sharded && param_is_stored(&p->params[i]);
    struct row_walk at = {0};
    for (const struct row *r; sharded && (r = schedule_next_row(c->schedule, c->chunks, &at));)
        if (r->kind == ROW_PARAM_AHEAD)
            (*(zero_second_serves(&p->params[r->id], at.action->kind == ACTION_F) ? &n[r->id].second
                                                                                  : &n[r->id].first))++;
}

/* The weights of an endless pipeline have versions, and the next forward may use an older one. */
static bool gathers_at_once(const struct schedule *s) { return s->n_frames > 0; }

static enum exchange_when gathers_when(int stage, const struct schedule *s) {
    if (stage == 3) return BEHIND_BLOCK;
    return gathers_at_once(s) ? AT_END : BEHIND_FORWARD;
}

static struct exchange gather_of(const struct param *w, enum mesh_axis axis) {
    return (struct exchange){.axis = axis, .op = COMM_ALL_GATHER, .count = w->padded_n, .dtype = w->type.dtype};
}

static enum status bill_gathers(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    const struct program *p = c->program;
    const struct codec codec = zero_quantized_codec(plan);
    enum exchange_when when = gathers_when(zero_options(plan)->stage, c->schedule);
    struct gathers *n = calloc((size_t)p->n_params + 1, sizeof *n);
    if (!n) return FAIL(E_MEMORY, "no memory for a table of %d params", p->n_params);
    count_gathers(plan, c, n);
    for (int i = 0; i < p->n_params; i++) {
        const struct param *w = &p->params[i];
        if (w->weight_tier == TIER_DISK) bill->disk_read_bytes += n[i].first * round_up(shard_bytes(w), DISK_PAGE);
        struct exchange first = gather_of(w, w->shard_axis), second = gather_of(w, w->second_axis);
        if (zero_quantized_bytes(&codec, p, w)) first = zero_quantized_exchange(&codec, p, w);
        first.times = n[i].first, second.times = n[i].second, first.when = second.when = when;
        if (n[i].first) bill_exchange(bill, &p->place, first);
        if (n[i].second) bill_exchange(bill, &p->place, second);
    }
    bill->technique_comm_bytes += zero_quantized_room_bytes(&codec, p);
    free(n);
    return OK;
}

/* From a GPU to its host. On a CPU own gradients are host memory in any case. */
static bool comes_down(const struct program *p) {
    return p->device != DEVICE_CPU && p->n_params && p->params[0].grad_tier == TIER_HOST;
}

static enum status bill_codes(const struct plan *plan, const struct program *p, const struct zero_buckets *buckets,
                              struct bill *bill) {
    struct zero_coded z;
    TRY(predict_codes(plan, p, buckets, &z));
    bill->technique_comm_bytes += zero_coded_comm_bytes(&z);
    zero_coded_bill(&z, buckets, p, bill);
    zero_coded_fini(&z);
    return OK;
}

static enum status bill_scatters(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    struct zero_buckets z;
    TRY(predict(plan, c, &z));
    bill->technique_comm_bytes += zero_buckets_comm_bytes(&z);
    if (comes_down(c->program))
        bill->technique_host_bytes += max64(z.slots[0].shard_bytes, z.slots[1].shard_bytes);
    if (is_coded(plan)) TRY(bill_codes(plan, c->program, &z, bill));
    else zero_buckets_bill(&z, &c->program->place, bill);
    zero_buckets_fini(&z);
    return OK;
}

static enum status zero_cost(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    TRY(bill_scatters(plan, c, bill));
    return bill_gathers(plan, c, bill);
}

/* ---- events ---- */
struct zero {
    struct zero_buckets buckets;
    struct zero_coded coded;         /* as what gradients travel, */
    struct zero_quantized quantized; /* and as what weights do */
    struct comm_request *gathers;    /* by param: the gather of its weights */
    bool *stale;                     /* by param, stages 1 and 2: its owners may have other weights than this rank */
};

/* From the file to where the block reads it; to a GPU through the window of the update, which is idle meanwhile. */
static enum status read_shard(struct run *r, char *place, const char *own, int64_t bytes) {
    const struct device *disk = run_tier_device(r, TIER_DISK);
    const struct arena *window = &r->arenas[TIER_HOST][ROLE_WORK];
    if (r->device->kind == DEVICE_CPU) return disk->download(disk, place, own, bytes);
    for (int64_t done = 0, n; done < bytes; done += n) {
        n = min64(bytes - done, window->bytes / DISK_PAGE * DISK_PAGE);
        TRY(disk->download(disk, window->base, own + done, n));
        TRY(r->device->upload(r->device, place + done, window->base, n));
    }
    return OK;
}

/* An offloaded shard is brought up first, to its offset in the whole weight. */
static enum status bring_up(struct run *r, const struct param *w, char *whole, const char **own) {
    int64_t bytes = shard_bytes(w);
    char *place = whole + mesh_index(w->shard_axis, &r->plan.place) * bytes;
    if (w->weight_tier == TIER_DISK) TRY(read_shard(r, place, *own, bytes));
    else TRY(r->device->upload_start(r->device, place, *own, bytes));
    *own = place;
    return OK;
}

/* On a CPU a shard in host memory is where a gather can read it. */
static bool must_be_brought_up(const struct run *r, const struct param *w) {
    return w->weight_tier == TIER_DISK || (w->weight_tier == TIER_HOST && r->device->kind != DEVICE_CPU);
}

static enum status gather_start(struct run *r, struct zero *z, int param, void *whole) {
    const struct param *w = &r->program.params[param];
    const char *own = w->weight;
    if (w->weight_residence == RESIDENT_WHOLE) own += w->own_first * (int64_t)dtype_size(w->type.dtype);
    if (must_be_brought_up(r, w)) TRY(bring_up(r, w, whole, &own));
    if (zero_quantized_bytes(&z->quantized.codec, &r->program, w))
        return zero_quantized_start(&z->quantized, &r->program, w, r->mesh.group[w->shard_axis], own, whole,
                                    &z->gathers[param]);
    return comm_all_gather_start(r->mesh.group[w->shard_axis], own, whole, w->shard_n, w->type.dtype,
                                 &z->gathers[param]);
}

/* The param that the weight is stored for: its own, or that of which it is one more gradient (--sums fixed). */
static int stored_param(const struct run *r, int param) {
    int stored = r->program.params[param].gradient_of - 1;
    return stored < 0 ? param : stored;
}

static enum status zero_param_ahead(struct run *r, void *self, const struct event *e) {
    struct zero *z = self;
    const struct param *w = &r->program.params[e->param];
    if (zero_second_serves(w, e->forward))
        return comm_all_gather_start(r->mesh.group[w->second_axis], w->second, e->buffer, w->second_n, w->type.dtype,
                                     &z->gathers[e->param]);
    if (w->weight_residence == RESIDENT_OWN) return gather_start(r, z, e->param, e->buffer);
    int param = stored_param(r, e->param);
    if (!z->stale[param]) return OK;
    z->stale[param] = false;
    return gather_start(r, z, param, e->buffer);
}

static enum status zero_param_needed(struct run *r, void *self, const struct event *e) {
    struct zero *z = self;
    const struct param *w = &r->program.params[e->param];
    bool whole = w->weight_residence == RESIDENT_WHOLE;
    TRY(comm_wait(&z->gathers[whole ? stored_param(r, e->param) : e->param]));
    if (!zero_second_serves(w, e->forward) && zero_quantized_bytes(&z->quantized.codec, &r->program, w))
        zero_quantized_decode(&z->quantized, &r->program, w, e->buffer);
    return e->forward ? zero_second_keep(r, w, e->buffer) : OK;
}

static enum status zero_grad_ready(struct run *r, void *self, const struct event *e) {
    struct zero *z = self;
    bool every = scatters_every(&r->plan);
    if (!every && !e->final) return OK;
    enum mesh_axis axis = r->program.params[e->param].shard_axis;
    return zero_buckets_ready(&z->buckets, &r->program, e->param, e->buffer, every, r->mesh.group[axis]);
}

static enum status zero_backward_end(struct run *r, void *self, const struct event *e) {
    struct zero *z = self;
    (void)e;
    return zero_buckets_finish(&z->buckets, &r->program, scatters_every(&r->plan));
}

/* In tests, a weight that is read before it was gathered is not a number. */
static enum status paint_others(struct run *r, const struct param *w) {
    int64_t size = (int64_t)dtype_size(w->type.dtype), end = w->own_first + w->shard_n;
    const struct arena *weights = &r->arenas[TIER_DEVICE][ROLE_PARAM];
    if (r->watch != WATCH_LIFETIMES) return OK;
    TRY(arena_paint(weights, w->weight, w->own_first * size));
    return arena_paint(weights, (char *)w->weight + end * size, (w->padded_n - end) * size);
}

/* All at once, each in place. */
static enum status gather_stale(struct run *r, struct zero *z) {
    int n = r->program.n_params;
    for (int i = 0; i < n; i++)
        if (z->stale[i]) TRY(gather_start(r, z, i, r->program.params[i].weight));
    for (int i = 0; i < n; i++) TRY(comm_wait(&z->gathers[i]));
    memset(z->stale, 0, (size_t)n * sizeof *z->stale);
    return OK;
}

/* Stages 1 and 2: nobody has all the weights again until the next forward gathers them, block by block. Nothing but
 * forward reads what is not the rank's own: an evaluation gathers as a step does, and what is saved are shards. */
static enum status zero_param_publish(struct run *r, void *self, const struct event *e) {
    struct zero *z = self;
    (void)e;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!param_is_stored(w) || w->weight_residence == RESIDENT_OWN) continue;
        z->stale[i] = true;
        TRY(paint_others(r, w));
    }
    if (gathers_at_once(&r->schedule)) TRY(gather_stale(r, z));
    return zero_second_forget(r);
}

static enum status subscribe(struct run *r, struct zero *z) {
    TRY(run_subscribe(r, EVENT_PARAM_AHEAD, zero_param_ahead, z));
    TRY(run_subscribe(r, EVENT_PARAM_NEEDED, zero_param_needed, z));
    TRY(run_subscribe(r, EVENT_GRAD_READY, zero_grad_ready, z));
    TRY(run_subscribe(r, EVENT_BACKWARD_END, zero_backward_end, z));
    return run_subscribe(r, EVENT_PARAM_PUBLISH, zero_param_publish, z);
}

/* Which gradients come in which order, and memory for them. */
static enum status place_buckets(struct run *r, struct zero *z) {
    const struct compiled compiled = {&r->program, r->chunks, &r->schedule};
    void *comm;
    TRY(predict(&r->plan, &compiled, &z->buckets));
    TRY(run_take_comm(r, zero_buckets_comm_bytes(&z->buckets), &comm));
    zero_buckets_place(&z->buckets, r->device, comm);
    z->buckets.staging = comes_down(&r->program) ? r->arenas[TIER_HOST][ROLE_COMM].base : NULL;
    if (!is_coded(&r->plan)) return OK;
    TRY(predict_codes(&r->plan, &r->program, &z->buckets, &z->coded));
    TRY(run_take_comm(r, zero_coded_comm_bytes(&z->coded), &comm));
    zero_coded_place(&z->coded, comm);
    z->buckets.coded = &z->coded;
    return OK;
}

static enum status place_room(struct run *r, struct zero *z) {
    z->quantized.codec = zero_quantized_codec(&r->plan);
    int64_t bytes = zero_quantized_room_bytes(&z->quantized.codec, &r->program);
    void *room;
    TRY(run_take_comm(r, bytes, &room));
    z->quantized.room = room;
    return r->device->clear(r->device, room, bytes);
}

static enum status zero_attach(struct run *r, void **self) {
    struct zero *z = *self = calloc(1, sizeof *z);
    if (!z) return FAIL(E_MEMORY, "no memory for the tables of zero");
    z->gathers = calloc((size_t)r->program.n_params + 1, sizeof *z->gathers);
    z->stale = calloc((size_t)r->program.n_params + 1, sizeof *z->stale);
    if (!z->gathers || !z->stale) return FAIL(E_MEMORY, "no memory for %d requests", r->program.n_params);
    /* they are not; but so every step is alike */
    for (int i = 0; i < r->program.n_params; i++) z->stale[i] = !gathers_at_once(&r->schedule);
    TRY(place_buckets(r, z));
    TRY(place_room(r, z));
    return subscribe(r, z);
}

static void zero_detach(struct run *r, void *self) {
    struct zero *z = self;
    (void)r;
    zero_buckets_fini(&z->buckets);
    zero_coded_fini(&z->coded);
    free(z->gathers);
    free(z->stale);
    free(z);
}

static bool zero_term(const struct run *r, const void *self, int i, struct rank_term *out) {
    return zero_coded_term(&((const struct zero *)self)->coded, &r->program, i, out);
}

const struct technique technique_zero = {
    .name = "zero", .claims = CLAIM_GRAD_SUM | CLAIM_OPTIM_SHARD, .codes = true,
    .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct zero_options)},
    .wanted = zero_wanted, .settle = zero_shards_settle, .check = zero_check, .rewrite = zero_rewrite,
    .lowered = zero_second_mark, .cost = zero_cost, .attach = zero_attach, .detach = zero_detach, .term = zero_term};
