/* Gradients that are sent as codes.
 *
 * Idea: the sum of gradients does not need all bits of its terms. Each rank encodes its gradients in a half to a
 * fiftieth of the bytes (lib/ops/codec.h). With error feedback, the rounding error is added to the next gradient.
 *
 * Formula, with C(x) the value that x has after encoding and decoding, e and f residuals that begin as zero:
 *     y_r = g_r + e_r     e_r = y_r - C(y_r)          each rank, of its own gradient
 *     z = sum_r C(y_r) + f     f = z - C(z)     g = C(z)         each rank, of its part of the bucket; then all-gather
 * Ranks are added in order, so all replicas have the same bits, and so has one process that encodes the same parts. The
 * serial run does not encode, so its numbers differ.
 *
 * Stored where: in the comm arena. Every bucket has two slots as large as its code, since all buckets may be in flight
 * at once; feedback adds e (4 bytes per element) and f (4/dp).
 *
 * Sent when: the last final gradient of a bucket starts its all-to-all of codes, which overlaps with the rest of
 * backward. BACKWARD_END adds, and gathers the coded sums of all buckets. With b = bytes of the code of 1/dp of a
 * bucket, a rank sends 2 (dp-1) b per bucket and step.
 *
 * What breaks: zeros that do not stay zero (sign has no zero, so the gaps between gradients are zeroed again after each
 * sum, and their residuals too); a residual that is added twice; a checkpoint without residuals (struct rank_term).
 *
 * Source: Seide et al. 2014, "1-bit stochastic gradient descent"; Karimireddy et al. 2019, "Error feedback fixes
 * SignSGD"; Lin et al. 2018, "Deep gradient compression"; Wang et al. 2023, "ZeRO++". */

#include "dp/dp.h"
#include "dp/dp_bucket.h"
#include "lib/comm/coded.h"
#include "lib/run/run.h"
#include <stdlib.h>

static bool coded_wanted(const struct plan *plan) { return grad_options(plan)->codec != CODEC_NONE; }

/* ---- memory and bill ---- */
static int64_t count_of(const struct dp_bucket *b) { return b->bytes / (int64_t)sizeof(float); }

/* The residuals that a checkpoint saves. at = 2 i: residual e of param i; at = 2 i + 1: residual f of this rank's part
 * of the sum. coded NULL: set only the elements of *out, not its memory. */
static bool term_at(const struct dp_buckets *d, const struct program *p, const struct coded *coded, int at,
                    struct rank_term *out) {
    if (at >= 2 * p->n_params) return false;
    const struct param *w = &p->params[at / 2];
    bool of_sum = at % 2;
    *out = (struct rank_term){.param = w->name, .kind = of_sum ? "sum_residual" : "residual"};
    if (!w->present) return true;
    const struct dp_bucket *b = &d->bucket[d->of_param[at / 2]];
    enum mesh_axis axis = b->axis;
    int n = mesh_size(axis, &p->place), rank = mesh_index(axis, &p->place);
    int64_t first = (param_grad_offset(w) - b->offset) / (int64_t)sizeof(float), end = first + type_n(&w->grad_type);
    int64_t begin = of_sum ? max64(first, coded_first(count_of(b), n, rank)) : first;
    if (of_sum) end = min64(end, coded_first(count_of(b), n, rank + 1));
    out->takes_sum = !of_sum && rank == 0 && w->counted;
    out->piece = piece_without_padding((struct piece){w->type.shape, begin - first, max64(end - begin, 0)});
    if (!coded || out->piece.n == 0) return true;
    coded += d->of_param[at / 2];
    out->at = of_sum ? coded->sum_residual + begin - coded_first(count_of(b), n, rank) : coded->residual + begin;
    return true;
}

/* [ slots of all buckets | residuals of all buckets | one float ]; the float is 0, because codes may end in bytes like
 * the arena's canary. base NULL: only compute the extent. @return bytes */
static int64_t lay_out(const struct dp_buckets *d, const struct plan *plan, const struct mesh_place *place,
                       struct coded *coded, char *base) {
    const struct codec codec = plan_codec(plan);
    int64_t end = 0;
    for (int i = 0; i < d->n; i++) {
        int64_t bytes = coded_wire_bytes(&codec, count_of(&d->bucket[i]), mesh_size(d->bucket[i].axis, place));
        if (base) coded[i].sent = (unsigned char *)base + end, coded[i].got = coded[i].sent + bytes;
        end += 2 * bytes;
    }
    end = arena_align(end);
    for (int i = 0; i < d->n && plan_has_feedback(plan); i++) {
        int64_t count = count_of(&d->bucket[i]), part = coded_part(count, mesh_size(d->bucket[i].axis, place));
        if (base) coded[i].residual = (float *)(base + end), coded[i].sum_residual = coded[i].residual + count;
        end += (count + part) * (int64_t)sizeof(float);
    }
    return arena_align(end + (int64_t)sizeof(float));
}

/* Encoding reads the gradient and writes the code; decoding reads the code and writes the gradient. Each also reads and
 * writes a residual. */
static void bill_bucket(const struct dp_bucket *b, const struct plan *plan, const struct mesh_place *place,
                        struct bill *bill) {
    const struct codec codec = plan_codec(plan);
    int n = mesh_size(b->axis, place);
    int64_t wire = coded_wire_bytes(&codec, count_of(b), n);
    double elements = (double)b->bytes, residual = plan_has_feedback(plan) ? 4 * elements : 0;
    bill_exchange(bill, place, (struct exchange){.axis = b->axis, .op = COMM_ALL_TO_ALL, .count = wire, .dtype = UINT8,
                                                 .when = BEHIND_BACKWARD,
                                                 .packing = 3 * elements + 2 * (double)wire + residual});
    bill_exchange(bill, place, (struct exchange){.axis = b->axis, .op = COMM_ALL_GATHER, .count = wire, .dtype = UINT8,
                                                 .when = AT_END,
                                                 .packing = elements + (double)wire + (elements + residual) / n});
}

static enum status coded_cost(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    struct dp_buckets d;
    TRY(dp_buckets_init(&d, c->program, plan_bucket_bytes(plan)));
    for (int i = 0; i < d.n; i++) bill_bucket(&d.bucket[i], plan, &c->program->place, bill);
    bill->technique_comm_bytes += lay_out(&d, plan, &c->program->place, NULL, NULL);
    struct rank_term term;
    for (int i = 0; plan_has_feedback(plan) && term_at(&d, c->program, NULL, i, &term); i++)
        bill_saved(bill, term.piece.n * (int64_t)sizeof(float));
    dp_buckets_fini(&d);
    return OK;
}

/* ---- events ---- */
struct dp_coded { struct dp_buckets buckets; struct coded *coded; };   /* coded[i]: of bucket i */

static enum status coded_grad_ready(struct run *r, void *self, const struct event *e) {
    struct dp_coded *d = self;
    int i = d->buckets.of_param[e->param];
    struct dp_bucket *b = &d->buckets.bucket[i];
    if (!e->final || ++b->n_ready < b->n_params) return OK;
    return coded_reduce_scatter_start(&d->coded[i], arena_at(&r->arenas[TIER_DEVICE][ROLE_GRAD], b->offset));
}

/* Zero the gaps between gradients, and their residuals: a code of signs has no zero, so it fills the gaps. */
static enum status clear_gaps(struct run *r, struct dp_coded *d) {
    int64_t end = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!w->present) continue;
        int k = d->buckets.of_param[i];
        int64_t gap = (end - d->buckets.bucket[k].offset) / (int64_t)sizeof(float);
        if (gap > 0) coded_forget(&d->coded[k], gap, (param_grad_offset(w) - end) / (int64_t)sizeof(float));
        end = param_grad_offset(w) + type_bytes(&w->grad_type);
    }
    return dp_clear_gaps(r);
}

static enum status coded_backward_end(struct run *r, void *self, const struct event *e) {
    struct dp_coded *d = self;
    (void)e;
    for (int i = 0; i < d->buckets.n; i++) {
        struct dp_bucket *b = &d->buckets.bucket[i];
        if (b->n_ready != b->n_params)
            return FAIL(E_INTERNAL, "bucket %d has %d final gradients of %d at the end of backward", i, b->n_ready,
                        b->n_params);
        b->n_ready = 0;
        TRY(coded_reduce_scatter_wait(&d->coded[i]));
        TRY(coded_all_gather_start(&d->coded[i]));
    }
    for (int i = 0; i < d->buckets.n; i++) TRY(coded_all_gather_wait(&d->coded[i]));
    return clear_gaps(r, d);
}

/* ---- attach ---- */
static enum status take_memory(struct run *r, struct dp_coded *d) {
    const struct mesh_place *place = &r->program.place;
    int64_t bytes = lay_out(&d->buckets, &r->plan, place, NULL, NULL);
    void *base;
    d->coded = calloc((size_t)d->buckets.n + 1, sizeof *d->coded);
    if (!d->coded) return FAIL(E_MEMORY, "no memory for %d coded sums", d->buckets.n);
    TRY(run_take_comm(r, bytes, &base));
    TRY(r->device->clear(r->device, base, bytes));                   /* residuals begin as zero */
    lay_out(&d->buckets, &r->plan, place, d->coded, base);
    for (int i = 0; i < d->buckets.n; i++) {
        const struct dp_bucket *b = &d->buckets.bucket[i];
        d->coded[i].codec = plan_codec(&r->plan);
        d->coded[i].group = r->mesh.group[b->axis];
        d->coded[i].count = count_of(b);
    }
    return OK;
}

static enum status coded_attach(struct run *r, void **self) {
    struct dp_coded *d = *self = calloc(1, sizeof *d);
    if (!d) return FAIL(E_MEMORY, "no memory for the table of coded buckets");
    TRY(dp_buckets_init(&d->buckets, &r->program, plan_bucket_bytes(&r->plan)));
    TRY(take_memory(r, d));
    TRY(dp_clear_gaps(r));
    TRY(run_subscribe(r, EVENT_GRAD_READY, coded_grad_ready, d));
    return run_subscribe(r, EVENT_BACKWARD_END, coded_backward_end, d);
}

static void coded_detach(struct run *r, void *self) {
    struct dp_coded *d = self;
    (void)r;
    dp_buckets_fini(&d->buckets);
    free(d->coded);
    free(d);
}

static bool coded_term(const struct run *r, const void *self, int i, struct rank_term *out) {
    const struct dp_coded *d = self;
    return plan_has_feedback(&r->plan) && term_at(&d->buckets, &r->program, d->coded, i, out);
}

const struct technique technique_dp_coded = {
    .name = "grad-codec", .claims = CLAIM_GRAD_SUM, .yields = true, .codes = true, .wanted = coded_wanted,
    .cost = coded_cost, .attach = coded_attach, .detach = coded_detach, .term = coded_term};
