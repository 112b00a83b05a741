/* Each chunk of tokens in turn: logits, loss, dlogits, dx, dW. See linear_cross_entropy.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/cross_entropy.h"
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/linear_cpu.h"
#include "lib/ops/linear_cross_entropy.h"

extern const struct cross_entropy_pieces CPU(cross_entropy_pieces);
enum status CPU(linear_cross_entropy_run)(const struct call *, bool gradient, vocabulary_reduce *);

/* A call with its scratch. max, sum, hit and lse have one number for each token. chunk_sum is one chunk's sum, then its
 * hit, so that one all-reduce takes both. block_max is one block's maximum. */
struct head_loss {
    const struct call *call;
    struct linear_cross_entropy_sizes s;
    vocabulary_reduce *reduce;
    double scale;
    elem *logits;                /* of a chunk: one block after another, each (rows, columns of the block) */
    real *dx;                    /* of a chunk; not used if elem is real (dx_of) */
    real *max, *sum, *hit, *lse, *chunk_sum, *block_max;
};

static struct head_loss head_loss_of(const struct call *call, bool gradient, vocabulary_reduce *reduce) {
    struct linear_cross_entropy_scratch at =
        linear_cross_entropy_scratch(call, gradient ? ROW_BACKWARD_INPUT : ROW_FORWARD);
    struct head_loss h = {.call = call, .s = linear_cross_entropy_sizes(call), .reduce = reduce};
    char *work = call->work;
    int64_t R = h.s.R;
    h.logits = (elem *)(work + at.logits);
    h.dx = (real *)(work + at.dx);
    h.chunk_sum = (real *)(work + at.numbers);
    h.block_max = h.chunk_sum + 2 * h.s.rows;
    h.max = h.block_max + h.s.rows;
    h.sum = h.max + R, h.hit = h.sum + R, h.lse = h.hit + R;
    h.scale = call->loss_weight * call->loss_scale;
    return h;
}

/* ---- one chunk: tokens r .. r + n-1; one block: rows first .. first + width-1 of W ---- */

struct part { int64_t r, n, first, width; };

static struct part part_of(const struct head_loss *h, int64_t r, int64_t first) {
    return (struct part){r, min64(h->s.rows, h->s.R - r), first, min64(h->s.columns, h->s.V - first)};
}

/* This block's logits, as a shard of the vocabulary. */
static struct vocab_rows rows_of(const struct head_loss *h, struct part p) {
    struct axis vocab = h->call->weight[0].type->shape.axis[0];
    vocab.first += p.first;
    vocab.n = p.width;
    return (struct vocab_rows){h->logits + p.n * p.first, (const int32_t *)h->call->in[1].data + p.r, p.n, vocab};
}

static const elem *x_of(const struct head_loss *h, struct part p) {
    return (const elem *)h->call->in[0].data + p.r * h->s.C;
}
static const elem *w_of(const struct head_loss *h, struct part p) {
    return (const elem *)h->call->weight[0].data + p.first * h->s.C;
}

static enum status make_logits(const struct head_loss *h, struct part p) {
    struct gemm g = {.m = p.n, .n = p.width, .k = h->s.C, .transpose_b = true, .alpha = 1, .ab_dtype = ELEM_DTYPE,
                     .c_dtype = ELEM_DTYPE, .plain = h->call->plain_gemm};
    const elem *bias = h->call->step->n_weight > 1 ? (const elem *)h->call->weight[1].data + p.first : NULL;
    return gemm_run(&g, x_of(h, p), w_of(h, p), bias, h->logits + p.n * p.first, h->call->work);
}

/* max[r] over all blocks, and over all ranks */
static enum status chunk_max(const struct head_loss *h, int64_t r) {
    int64_t n = part_of(h, r, 0).n;
    real *max = h->max + r;
    for (int64_t first = 0; first < h->s.V; first += h->s.columns) {
        struct part p = part_of(h, r, first);
        struct vocab_rows rows = rows_of(h, p);
        TRY(make_logits(h, p));
        TRY(CPU(cross_entropy_pieces).row_max(h->call->device, &rows, h->block_max));
        for (int64_t i = 0; i < n; i++) max[i] = first == 0 || h->block_max[i] > max[i] ? h->block_max[i] : max[i];
    }
    return h->reduce ? h->reduce(h->call, max, n, true) : OK;
}

/* sum[r] and hit[r], over all blocks and ranks. One block's sum and hit are kept in h->hit and h->lse, which are not in
 * use yet. */
static enum status chunk_sum(const struct head_loss *h, int64_t r) {
    int64_t n = part_of(h, r, 0).n;
    real *sum = h->chunk_sum, *hit = sum + n, *block_sum = h->hit + r, *block_hit = h->lse + r;
    for (int64_t i = 0; i < 2 * n; i++) sum[i] = 0;
    for (int64_t first = 0; first < h->s.V; first += h->s.columns) {
        struct vocab_rows rows = rows_of(h, part_of(h, r, first));
        TRY(CPU(cross_entropy_pieces).row_sum(h->call->device, &rows, h->max + r, block_sum, block_hit));
        for (int64_t i = 0; i < n; i++) sum[i] += block_sum[i], hit[i] += block_hit[i];
    }
    if (h->reduce) TRY(h->reduce(h->call, sum, 2 * n, false));
    for (int64_t i = 0; i < n; i++) h->sum[r + i] = sum[i], h->hit[r + i] = hit[i];
    return OK;
}

/* lse and the loss of tokens r .. r + n-1 */
static enum status loss_of(const struct head_loss *h, int64_t r, int64_t n) {
    struct vocab_rows rows = {NULL, (const int32_t *)h->call->in[1].data + r, n,
                              h->call->weight[0].type->shape.axis[0]};
    return CPU(cross_entropy_pieces).loss(h->call->device, &rows, h->max + r, h->sum + r, h->hit + r, h->lse + r,
                                          h->call->loss_weight, h->call->out[0].data);
}

/* ---- a chunk's gradients ---- */

/* dx of a chunk: directly the rows of din[0], if elem is real and needs no rounding */
static real *dx_of(const struct head_loss *h, int64_t r) {
    return sizeof(elem) == sizeof(real) ? (real *)h->call->din[0].data + r * h->s.C : h->dx;
}

static enum status add_dx(const struct head_loss *h, struct part p) {
    bool add = p.first > 0 || (sizeof(elem) == sizeof(real) && accumulates(h->call, 0));
    struct gemm g = {.m = p.n, .n = h->s.C, .k = p.width, .alpha = 1, .beta = add, .ab_dtype = ELEM_DTYPE,
                     .c_dtype = REAL_DTYPE, .plain = h->call->plain_gemm};
    return gemm_run(&g, h->logits + p.n * p.first, w_of(h, p), NULL, dx_of(h, p.r), h->call->work);
}

static enum status add_dw(const struct head_loss *h, struct part p) {
    const struct tensor *dw = &h->call->dweight[0];
    bool add = p.r > 0 || !(h->call->fresh & 1);
    struct gemm g = {.m = p.width, .n = h->s.C, .k = p.n, .transpose_a = true, .alpha = 1, .beta = add,
                     .ab_dtype = ELEM_DTYPE, .c_dtype = dw->type->dtype, .plain = h->call->plain_gemm};
    char *to = (char *)dw->data + p.first * h->s.C * (int64_t)dtype_size(dw->type->dtype);
    return gemm_run(&g, h->logits + p.n * p.first, x_of(h, p), NULL, to, h->call->work);
}

static void add_db(const struct head_loss *h, struct part p) {
    if (h->call->step->n_weight < 2) return;
    struct tensor db = h->call->dweight[1];
    db.data = (char *)db.data + p.first * (int64_t)dtype_size(db.type->dtype);
    bias_gradient(&db, h->logits + p.n * p.first, p.n, p.width);
}

static void round_dx(const struct head_loss *h, struct part p) {
    elem *to = (elem *)h->call->din[0].data + p.r * h->s.C;
    int add = accumulates(h->call, 0);
    if (sizeof(elem) == sizeof(real)) return;
#pragma omp parallel for
    for (int64_t i = 0; i < p.n * h->s.C; i++) put(to + i, h->dx[i], add);
}

static enum status chunk_gradients(const struct head_loss *h, int64_t r) {
    TRY(loss_of(h, r, part_of(h, r, 0).n));
    for (int64_t first = 0; first < h->s.V; first += h->s.columns) {
        struct part p = part_of(h, r, first);
        struct vocab_rows rows = rows_of(h, p);
        TRY(CPU(cross_entropy_pieces)
                .gradient(h->call->device, &rows, h->lse + r, h->scale, false, (void *)rows.logits));
        TRY(add_dx(h, p));
        TRY(add_dw(h, p));
        add_db(h, p);
    }
    round_dx(h, part_of(h, r, 0));
    return OK;
}

enum status CPU(linear_cross_entropy_run)(const struct call *call, bool gradient, vocabulary_reduce *reduce) {
    struct head_loss h = head_loss_of(call, gradient, reduce);
    for (int64_t r = 0; r < h.s.R; r += h.s.rows) {
        TRY(chunk_max(&h, r));
        TRY(chunk_sum(&h, r));
        if (gradient) TRY(chunk_gradients(&h, r));
    }
    return loss_of(&h, 0, h.s.R);                                    /* the loss of all tokens, summed in one order */
}
