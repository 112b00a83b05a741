/* The Newton-Schulz iteration: O = U V^T of a matrix u = U S V^T, with singular values near 1 instead of S. See muon.h.
 *
 * X = u / max(|u|_F, 1e-7), and then, `steps` times,
 *
 *   A = X X^T      B = b A + c A A      X = a X + B X           a = 3.4445, b = -4.7750, c = 2.0315
 *
 * Each singular value s becomes a s + b s^3 + c s^5. Five times take every s of 0.002 to 1 to between 0.68 and 1.21.
 * a is as large as it can be, so that small values grow fast, and so the values do not converge to 1. If X has more
 * rows than columns, its transpose is iterated: A = X^T X, X = a X + X B.
 *
 * The iteration has the precision of the states, fp32 or fp64. PyTorch and Jordan's code round X to bf16.
 *
 * Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"; torch.optim.Muon. */
#include "lib/ops/muon.h"

#include "lib/base/integer.h"
#include "lib/ops/cost.h"
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/kernels.h"
#include "lib/ops/reduce.h"

static const double COEFFICIENT[3] = {3.4445, -4.7750, 2.0315}, LEAST_NORM = 1e-7;

static int64_t smaller(const struct muon_shape *s) { return min64(s->rows, s->columns); }
static int64_t square_bytes(const struct muon_shape *s) {
    return round_up(smaller(s) * smaller(s) * (int64_t)dtype_size(s->dtype), 64);
}

/* The three products of an iteration; tall: of the transpose. A = X X^T; B = c A A + b B, where B is A; Y = B X + a Y,
 * where Y is X. */
static struct gemm product(const struct muon_shape *s, int i, bool plain) {
    bool tall = s->rows > s->columns;
    int64_t n = smaller(s), many = max64(s->rows, s->columns);
    struct gemm g = {.m = n, .n = n, .k = i == 0 ? many : n, .alpha = i == 1 ? COEFFICIENT[2] : 1,
                     .beta = i == 0 ? 0 : i == 1 ? COEFFICIENT[1] : COEFFICIENT[0],
                     .transpose_a = i == 0 && tall, .transpose_b = i == 0 && !tall, .ab_dtype = s->dtype,
                     .c_dtype = s->dtype, .plain = plain};
    if (i == 2) *(tall ? &g.m : &g.n) = many;
    return g;
}

int64_t newton_schulz_gram(const struct muon_shape *s) { return 2 * square_bytes(s); }

int64_t newton_schulz_work(const struct muon_shape *s, enum device_kind on, int n_threads, bool plain) {
    int64_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        struct gemm g = product(s, i, plain);
        bytes = max64(bytes, gemm_work(&g, on, n_threads));
    }
    return bytes;
}

double newton_schulz_flops(const struct muon_shape *s, int steps) {
    double n = (double)smaller(s), many = (double)max64(s->rows, s->columns);
    return steps * (4 * n * n * many + 2 * n * n * n);
}

/* The products that iterate() runs, and its two copies. */
struct cost newton_schulz_cost(const struct muon_shape *s) {
    const double n = (double)smaller(s), many = (double)max64(s->rows, s->columns);
    struct cost cost = {.bytes = (6 * n * many + 7 * n * n) * (double)dtype_size(s->dtype)};
    for (int i = 0; i < 3; i++) {
        const struct gemm g = product(s, i, false);
        cost_product(&cost, g.m, g.n, g.k, 1);
    }
    return cost;
}

static enum status multiply(const struct device *d, const struct gemm *g, const void *a, const void *b, void *c,
                            void *work) {
    WITH_CUDA(if (d->kind == DEVICE_CUDA) return gemm_cuda_run(g, d, a, b, NULL, c, work);)
    (void)d;
    return gemm_run(g, a, b, NULL, c, work);
}

/* y = one iteration of x. */
static enum status iterate(const struct device *d, const struct muon_shape *s, const void *x, void *y,
                           const struct newton_schulz *m) {
    const int64_t square = square_bytes(s);
    const struct gemm gram = product(s, 0, m->plain), poly = product(s, 1, m->plain), next = product(s, 2, m->plain);
    void *a = m->gram, *b = (char *)m->gram + square;
    bool tall = s->rows > s->columns;
    TRY(multiply(d, &gram, x, x, a, m->gemm_work));
    TRY(d->copy(d, b, a, square));
    TRY(multiply(d, &poly, a, a, b, m->gemm_work));
    TRY(d->copy(d, y, x, s->rows * s->columns * (int64_t)dtype_size(s->dtype)));
    return multiply(d, &next, tall ? x : b, tall ? b : x, y, m->gemm_work);
}

/* x = x / max(|x|, 1e-7) */
static enum status normalize(const struct device *d, const struct muon_shape *s, void *x,
                             const struct newton_schulz *m) {
    const int64_t n = s->rows * s->columns;
    const struct reduce_buffer all = {x, s->dtype, n};
    const struct optimizer_elements e = {.n = n, .weight = x, .weight_dtype = s->dtype, .grad = x,
                                         .grad_dtype = s->dtype};
    const struct optimizer_settings a = {.grad_multiplier = &m->numbers[1]};
    TRY(reduce_sum_of_squares(d, &all, 1, &m->numbers[0], m->reduce_work));
    TRY(optimizer_inverse_norm(d, &m->numbers[1], &m->numbers[0], LEAST_NORM));
    return optimizer_update(&optimizer_muon_scale, d, &a, &e, 1);
}

enum status newton_schulz(const struct device *d, const struct muon_shape *s, int steps, void *x,
                          const struct newton_schulz *m) {
    void *now = x, *then = m->spare;
    TRY(normalize(d, s, x, m));
    for (int i = 0; i < steps; i++) {
        TRY(iterate(d, s, now, then, m));
        void *swap = now;
        now = then, then = swap;
    }
    return now == x ? OK : d->copy(d, x, now, s->rows * s->columns * (int64_t)dtype_size(s->dtype));
}
