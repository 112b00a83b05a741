/* Zig-zag: the sequence is cut into 2 cp pieces, and rank r has pieces r and 2 cp - 1 - r (axis_zigzag). With a
 * contiguous cut the last rank's queries would see all keys, and the first rank's only their own: all ranks would wait
 * for the last. The queries of rank r meet the keys of rank j:
 *
 *   j = r    a causal sequence of its own
 *   j < r    all queries see the first piece of keys, none the second
 *   j > r    the second piece of queries sees all keys, the first none
 *
 * So every meeting of two different ranks is a rectangle without a mask, half of the square. With MASK_FULL queries see
 * later keys, too, and every meeting is the whole square.
 *
 * Source: Grattafiori et al. 2024 (Llama 3), section 3.3.2. */
#include "cp/cp_block.h"

#include "lib/base/integer.h"
#include "lib/ops/attention/attention.h"
#include "lib/ops/cost.h"
#include "lib/ops/shapes.h"

enum status cp_attention_shape(const struct call *call, struct type out[MAX_OUT]) {
    TRY(attention_check(call));
    const struct axis *a = call->in[0].type->shape.axis;
    const struct axis own = axis_zigzag('T', a[1].global, call->step->parts, call->step->part);
    if (!axis_same(&own, &a[1])) return shape_refuse(call, "the sequence is not sharded zig-zag over cp");
    out[0] = attention_out(call);
    out[1] = attention_lse(call);
    return OK;
}

struct cost cp_attention_cost(const struct call *c, enum row_kind kind) {
    struct attention_sizes s = attention_sizes(c);
    struct cost cost = cost_traffic(c, kind);
    double keys = (double)c->in[0].type->shape.axis[1].global;
    attention_cost(&cost, c, kind, (double)(s.B * s.T * s.H * s.D), keys);
    return cost;
}

/* ---- memory ---- */
struct cp_blocks cp_blocks_of(const struct call *call, int n, int n_sums) {
    struct cp_blocks x = {.call = call, .group = call->group, .ranks = call->step->parts, .dtype = op_dtype(call),
                          .sum_dtype = dtype_accumulator(op_dtype(call)), .pair = attention_pair_of(call), .n = n,
                          .n_sums = n_sums, .k = attention_pair_kernels(call->on, op_dtype(call))};
    const struct attention_pair *p = &x.pair;
    x.count = 2 * p->B * p->Tq * p->H / p->shared_by * p->D;
    x.bytes = x.count * (int64_t)dtype_size(x.dtype);
    x.sum_bytes = x.count * (int64_t)dtype_size(x.sum_dtype);
    x.queries = p->B * p->Tq * p->H * p->D;
    x.merge = (struct attention_merge){
        .B = p->B, .T = p->Tq, .H = p->H, .D = p->D, .n_threads = p->n_threads, .device = p->device};
    return x;
}

static int64_t reals_of(const struct cp_blocks *x, int64_t Tq, int64_t Tk, bool backward) {
    struct attention_pair p = x->pair;
    p.Tq = Tq, p.Tk = Tk;
    return attention_pair_reals(x->call->on, x->dtype, &p, backward);
}

/* Scratch of a thread, in reals: the largest of the three kinds of meetings. */
static int64_t reals_of_thread(const struct cp_blocks *x, bool backward) {
    int64_t T = x->pair.Tq, most = reals_of(x, T, T, backward);
    return max64(most, max64(reals_of(x, T / 2, T, backward), reals_of(x, T, T / 2, backward)));
}

/* threads' scratch | blocks | forward: y and lse, summed and of one meeting; backward: dq, gradients of blocks.
 * at NULL: the bytes are only counted.  @return bytes */
static int64_t lay_out(struct cp_blocks *x, char *at, bool backward) {
    int64_t real = (int64_t)dtype_size(x->sum_dtype), elem = (int64_t)dtype_size(x->dtype);
    int64_t rows = x->queries / x->pair.D * real, end = 0;
    const struct { void **to; int64_t bytes; bool in_forward, in_backward; } parts[] = {
        {&x->pair.work, x->pair.n_threads * reals_of_thread(x, backward) * real, true, true},
        {(void **)&x->blocks, x->n * x->bytes, true, true},
        {&x->merge.y, x->queries * real, true, false}, {&x->merge.lse, rows, true, false},
        {&x->merge.lse_pair, rows, true, false}, {&x->merge.y_pair, x->queries * elem, true, false},
        {&x->dq, x->queries * real, false, true}, {(void **)&x->sums, x->n_sums * x->sum_bytes, false, true}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (backward ? !parts[i].in_backward : !parts[i].in_forward) continue;
        *parts[i].to = at ? at + end : NULL;
        end += parts[i].bytes;
    }
    return end;
}

int64_t cp_blocks_work(const struct call *call, int n, int n_sums, bool backward) {
    struct cp_blocks x = cp_blocks_of(call, n, n_sums);
    return lay_out(&x, NULL, backward);
}

enum status cp_blocks_begin(struct cp_blocks *x, const struct call *call, int n, int n_sums, bool backward) {
    *x = cp_blocks_of(call, n, n_sums);
    lay_out(x, call->work, backward);
    if (!backward) return x->k->merge_begin(&x->merge);
    return call->device->clear(call->device, x->dq, x->queries * (int64_t)dtype_size(x->sum_dtype));
}

enum status cp_clear_sums(const struct cp_blocks *x, char *sums, int n) {
    return x->call->device->clear(x->call->device, sums, n * x->sum_bytes);
}

/* ---- which pieces meet ---- */
int cp_peer(const struct cp_blocks *x, int by) { return (x->call->step->part + by + x->ranks) % x->ranks; }

/* `bytes` after `at`; NULL if `at` is NULL. */
static void *after(void *at, int64_t bytes) { return at ? (char *)at + bytes : NULL; }

/* Describe dense memory at `at`: of queries (B,T,H,D), from position `first` on; dense_keys: of keys (B,T,J,D). */
static struct attention_vectors dense(const struct cp_blocks *x, void *at, int64_t first, enum dtype dtype) {
    int64_t row = x->pair.H * x->pair.D;
    return (struct attention_vectors){after(at, first * row * (int64_t)dtype_size(dtype)), x->pair.Tk * row, row, 1};
}
static struct attention_vectors dense_keys(const struct cp_blocks *x, void *at) {
    int64_t shared = x->pair.shared_by, row = x->pair.H / shared * x->pair.D;
    return (struct attention_vectors){at, x->pair.Tk * row, row, shared};
}

static void skip(struct attention_vectors *v, int64_t first, enum dtype dtype) {
    v->at = after(v->at, first * v->row * (int64_t)dtype_size(dtype));
}

/* This rank's queries from position *first on, with the keys and values of rank `other`. */
static struct attention_pair pair_with(const struct cp_blocks *x, int other, char *block, int64_t *first) {
    int own = x->call->step->part;
    enum dtype dtype = x->dtype;
    struct attention_pair p = x->pair;
    int64_t half = p.Tq / 2;
    p.keys = axis_zigzag('T', p.keys.global, x->ranks, other);
    p.k = dense_keys(x, block);
    p.v = dense_keys(x, after(block, x->bytes / 2));
    *first = p.causal && other > own ? half : 0;
    if (p.causal && other < own) p.Tk = half;
    p.causal = p.causal && other == own;
    if (other != own) p.sinks.logits = NULL;                         /* a query meets its sink once */
    p.Tq -= *first;
    if (*first) p.queries = axis_part(&p.queries, 2, 1);
    skip(&p.q, *first, dtype), skip(&p.y, *first, dtype), skip(&p.dy, *first, dtype);
    p.lse = after(p.lse, *first * (int64_t)dtype_size(x->sum_dtype));
    return p;
}

/* Complete the pair for the kernels. forward: results go to memory for merging; backward: gradients are added. */
static struct attention_pair forward_pair(struct cp_blocks *x, int other, char *block) {
    struct attention_pair pair = pair_with(x, other, block, &x->merge.first);
    pair.y = dense(x, x->merge.y_pair, x->merge.first, x->dtype);
    pair.lse = after(x->merge.lse_pair, x->merge.first * (int64_t)dtype_size(x->sum_dtype));
    return pair;
}
static struct attention_pair backward_pair(const struct cp_blocks *x, int other, char *block, char *sums) {
    int64_t first;
    struct attention_pair pair = pair_with(x, other, block, &first);
    pair.sums = true;
    pair.dq = dense(x, x->dq, first, x->sum_dtype);
    pair.dk = dense_keys(x, sums);
    pair.dv = dense_keys(x, after(sums, x->sum_bytes / 2));
    return pair;
}

int cp_meetings(const struct call *call, bool backward, struct attention_pair *out) {
    struct cp_blocks x = cp_blocks_of(call, 1, 1);
    int own = call->step->part, n = 0;
    for (int other = own - 1; other <= own + 1; other++)
        if (other >= 0 && other < call->step->parts)
            out[n++] = backward ? backward_pair(&x, other, NULL, NULL) : forward_pair(&x, other, NULL);
    return n;
}

/* A copy between this rank's vectors v, `width` elements per token, and dense memory. */
static struct attention_copy own(const struct cp_blocks *x, struct attention_vectors v, int64_t width, void *dense) {
    return (struct attention_copy){v, dense, x->pair.B, x->pair.Tq, width, x->call->device};
}
static int64_t query_width(const struct cp_blocks *x) { return x->pair.H * x->pair.D; }
static int64_t key_width(const struct cp_blocks *x) { return query_width(x) / x->pair.shared_by; }

enum status cp_pack_own(const struct cp_blocks *x, char *block) {
    struct attention_copy k = own(x, x->pair.k, key_width(x), block),
                          v = own(x, x->pair.v, key_width(x), block + x->bytes / 2);
    TRY(x->k->pack(&k));
    return x->k->pack(&v);
}

enum status cp_meet(struct cp_blocks *x, int other, char *block) {
    const struct attention_pair pair = forward_pair(x, other, block);
    TRY(x->k->forward(&pair));
    return x->k->merge(&x->merge);
}

enum status cp_meet_backward(struct cp_blocks *x, int other, char *block, char *sums) {
    const struct attention_pair pair = backward_pair(x, other, block, sums);
    return x->k->backward(&pair);
}

enum status cp_finish(const struct cp_blocks *x) {
    return x->k->merge_end(&x->merge, x->call->out[0].data, x->call->out[1].data);
}

enum status cp_finish_backward(const struct cp_blocks *x, char *own_sums) {
    const struct attention_pair *p = &x->pair;
    struct attention_copy dq = own(x, p->dq, query_width(x), x->dq), dk = own(x, p->dk, key_width(x), own_sums),
                          dv = own(x, p->dv, key_width(x), own_sums + x->sum_bytes / 2);
    TRY(x->k->unpack(&dq, p->add_queries));
    TRY(x->k->unpack(&dk, p->add_keys));
    return x->k->unpack(&dv, p->add_keys);
}
