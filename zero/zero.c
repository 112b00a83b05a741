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
 * N is dp x cp, or less for an expert (param_replicas). States may be sharded over only some of the replicas
 * (zero_shards.c), and backward may gather from only some (zero_second.c).
 *
 * Stored where: every param is sharded by itself into N shards of n elements, rounded up; rank r owns elements r n to
 * (r + 1) n - 1. So a tied weight has the same shards on both pipeline stages. Whole gradients (stages 2, 3) and
 * gathered weights (stage 3) are values of the program, live from their first to their last use in a block.
 *
 * Sent when, for S bytes of weights or gradients, m microbatches, U = S (N-1)/N:
 *   stage 1   GRAD_READY, final: reduce-scatter U      all-gather in the first forward U     2 U, as an all-reduce
 *   stage 2   GRAD_READY, each microbatch: m U         all-gather in the first forward U     (m + 1) U
 *   stage 3   GRAD_READY, each microbatch: m U         gathers in forward and backward 2m U  3 m U
 * A tied weight is gathered and scattered once per use; weights that backward does not read (biases, the position
 * table) are gathered for forward only. Weights are gathered a block ahead (zero_gather.c). Gradients are reduced in
 * buckets while backward continues (zero_bucket.c), with --grad-codec as codes (zero_coded.c).
 *
 * Offload: optimizer states (and at stage 3 the weight shards) are in host memory or in a file, and the update runs on
 * the host (lib/run/optim_offload.c). Sharded gradients are then in host memory, too, where the norm is computed.
 *
 * What breaks: reading a weight before it was gathered, or after it was freed; adding a microbatch's gradient twice; a
 * norm of one rank's shards only (the squares of all ranks' own elements are all-reduced).
 *
 * Source: Rajbhandari et al. 2020, "ZeRO"; Ren et al. 2021, "ZeRO-Offload". */
#include "zero/zero.h"

#include "lib/base/integer.h"
#include "lib/run/run.h"
#include "zero/zero_bucket.h"
#include "zero/zero_coded.h"
#include "zero/zero_gather.h"
#include "zero/zero_quantized.h"
#include "zero/zero_second.h"
#include <inttypes.h>
#include <stdlib.h>

double zero_bytes_per_param(int stage, int64_t n, double weight, double grad, double states) {
    double share = 1.0 / (double)n;
    return weight * (stage >= 3 ? share : 1) + grad * (stage >= 2 ? share : 1) + states * (stage >= 1 ? share : 1);
}

#define AT(field) offsetof(struct zero_options, field)
static const struct option OPTIONS[] = {
    {"zero", OPTION_INT, "0", 0, 3, NULL, "",
     "what is sharded over dp: 1 optimizer states, 2 also gradients, 3 also parameters", "parallelism", AT(stage)},
    {"shard", OPTION_INT, "0", SHARD_NODE, 1e6, "node", "ranks",
     "zero: this many neighbors of the dp x cp replicas share one sharded state, and the others have copies of it; "
     "node: those of a node; 0: all, and there is no copy",
     "parallelism", AT(shard)},
    {"zero-secondary", OPTION_INT, "0", SHARD_NODE, 1e6, "node", "ranks",
     "zero 3: what forward gathers is kept for backward, sharded over this many neighbors of the dp x cp replicas; "
     "node: those of a node; 0: backward gathers from all",
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
    if (!offload_options(plan)->path[0])
        return FAIL(E_CONFIG, "offload-to=disk needs a folder for its files; give --offload-path, on a local disk");
    return OK;
}

/* SGD without momentum has no states, and full precision has no master weights. */
static bool has_states(const struct plan *plan) {
    return plan_optimizer(plan)->n_states || (plan->precision != PRECISION_FP32 && plan->precision != PRECISION_FP64);
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
    if (o->offload == OFFLOAD_OPTIMIZER && o->stage == 1 && !has_states(plan))
        return FAIL(E_CONFIG, "offload=optimizer, and sgd without momentum has no states to offload; use offload none");
    TRY(check_disk(plan, o));
    if (plan_is_asynchronous(plan) && (o->stage > 1 || o->offload != OFFLOAD_NONE))
        return FAIL(E_CONFIG,
                    "asynchronous steps keep several versions of whole weights, and zero=%" PRId64 "%s shards or moves "
                    "them; use %s, or zero 1 and offload none",
                    o->stage, o->offload != OFFLOAD_NONE ? " with offload" : "", plan_synchronous_option(plan));
    return o->shard || o->secondary ? zero_shards_check(plan) : OK;
}

/* ---- rewrite: owners ---- */
static void divide(const struct plan *plan, struct param *w) {
    const struct zero_options *o = zero_options(plan);
    int64_t n = type_n(&w->type);
    enum mesh_axis replicas = param_replicas(w), part = mesh_shard_axis(replicas, &plan->place);
    w->shard_axis = o->secondary ? replicas : part;
    w->replicate_axis = o->secondary ? AXIS_SELF : mesh_replicate_axis(replicas, &plan->place);
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
    for (int i = 0; i < p->n_params; i++)
        if (p->params[i].update == UPDATE_DENSE) divide(plan, &p->params[i]);
    return OK;
}

/* ---- cost ---- */
static bool scatters_every(const struct plan *plan) { return zero_options(plan)->stage >= 2; }

static bool is_coded(const struct plan *plan) { return grad_options(plan)->codec != CODEC_NONE; }

static enum status predict(const struct plan *plan, const struct compiled *c, struct zero_buckets *z) {
    return zero_buckets_init(z, c, scatters_every(plan), plan_bucket_bytes(plan));
}
static enum status predict_codes(const struct plan *plan, const struct program *p, const struct zero_buckets *buckets,
                                 struct zero_coded *z) {
    return zero_coded_init(z, buckets, p, plan_codec(plan), plan_has_feedback(plan));
}

/* Are sums copied from a GPU to its host? On a CPU, own gradients are in host memory anyway. */
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
    return zero_gather_bill(plan, c, bill);
}

/* ---- events ---- */
struct zero {
    struct zero_buckets buckets;
    struct zero_coded coded;         /* their codes, with --grad-codec */
    struct zero_gather weights;
};

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

/* Predict the buckets, and take comm memory for the buckets and their codes. */
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

static enum status zero_attach(struct run *r, void **self) {
    struct zero *z = *self = calloc(1, sizeof *z);
    if (!z) return FAIL(E_MEMORY, "no memory for the tables of zero");
    TRY(place_buckets(r, z));
    TRY(run_subscribe(r, EVENT_GRAD_READY, zero_grad_ready, z));
    TRY(run_subscribe(r, EVENT_BACKWARD_END, zero_backward_end, z));
    return zero_gather_open(r, &z->weights);
}

static void zero_detach(struct run *r, void *self) {
    struct zero *z = self;
    (void)r;
    zero_buckets_fini(&z->buckets);
    zero_coded_fini(&z->coded);
    zero_gather_close(&z->weights);
    free(z);
}

static bool zero_term(const struct run *r, const void *self, int i, struct rank_term *out) {
    return zero_coded_term(&((const struct zero *)self)->coded, &r->program, i, out);
}

static void zero_state_bytes(const struct plan *plan, struct state_bytes *x) {
    const struct zero_options *o = zero_options(plan);
    const struct mesh_place first = mesh_place_of(&plan->mesh, 0);
    const int64_t shard = plan->mesh.shard, n = shard && !o->secondary ? shard : mesh_size(AXIS_DP, &first);
    const double second = o->secondary && shard && o->stage == 3 ? x->weight / (double)shard : 0;
    x->weight = zero_bytes_per_param((int)o->stage, n, x->weight, 0, 0) + second;
    x->grad = zero_bytes_per_param((int)o->stage, n, 0, x->grad, 0);
    x->optim = zero_bytes_per_param((int)o->stage, n, 0, 0, x->optim);
}

const struct technique technique_zero = {
    .name = "zero", .claims = CLAIM_GRAD_SUM | CLAIM_OPTIM_SHARD, .codes = true,
    .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct zero_options)},
    .wanted = zero_wanted, .settle = zero_shards_settle, .check = zero_check, .rewrite = zero_rewrite,
    .lowered = zero_second_mark, .state_bytes = zero_state_bytes, .cost = zero_cost, .attach = zero_attach,
    .detach = zero_detach, .term = zero_term};
