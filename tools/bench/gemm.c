/* build/bench-gemm: fp32 products of a linear layer on this machine's CPU, ours (lib/ops/gemm/gemm_fp32.h) against
 * oneDNN's sgemm, as CSV.
 *
 *   OMP_NUM_THREADS=2 build/bench-gemm [--tokens 1024] [--hidden 768] [--vocab 4096] [--rounds 9]
 *
 * One line per product: form (N as stored, T transposed, of A and B), m, n, k, and medians of the rounds: GFLOP/s of
 * both, their ratio, and our share of the FMA peak of these cores. The peak is measured before each product, because
 * the clock and other load change. The two libraries take turns. Operands rotate through half a GiB, so that no cache
 * holds them. oneDNN gets a bias as C's initial value, and the time of writing it counts. If the results differ by more
 * than rounding, that is an error. A product of ours above 1.02 of the peak is an error, too: then the peak is measured
 * wrongly, and so are the shares. */
#include "lib/base/clock.h"
#include "lib/base/option.h"
#include "lib/base/sort.h"
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/gemm/peak.h"
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request { int64_t tokens, hidden, vocab, rounds; };
#define AT(field) offsetof(struct request, field)
static const struct option OPTIONS[] = {
    {"tokens", OPTION_INT, "1024", 1, 1 << 20, NULL, "", "rows of x", "bench", AT(tokens)},
    {"hidden", OPTION_INT, "768", 1, 1 << 16, NULL, "", "channels", "bench", AT(hidden)},
    {"vocab", OPTION_INT, "4096", 1, 1 << 20, NULL, "", "columns of the head that are multiplied at a time", "bench",
     AT(vocab)},
    {"rounds", OPTION_INT, "9", 1, 99, NULL, "", "of which the median is taken", "bench", AT(rounds)},
};

/* ---- memory: operands are taken from a pool in turn, which begins again at its end ---- */
enum { POOL = 1 << 27 };
static float *pool;
static int64_t used;

static float *take(int64_t n) {
    if (used + n > POOL) used = 0;
    float *x = pool + used;
    used += (n + 1023) / 1024 * 1024;
    return x;
}

static const double MOST_OF_PEAK = 1.02;   /* more than 1: the clock changes between the two measurements */
static double most_seen;

/* ---- one product, one way ---- */
struct operands { const float *a, *b, *bias; float *c; void *work; };

static enum status by_onednn(const struct gemm *g, const struct operands *x) {
    if (x->bias)
#pragma omp parallel for
        for (int64_t i = 0; i < g->m; i++) memcpy(x->c + i * g->n, x->bias, sizeof(float) * (size_t)g->n);
    dnnl_status_t code =
        dnnl_sgemm(g->transpose_a ? 'T' : 'N', g->transpose_b ? 'T' : 'N', g->m, g->n, g->k, 1, x->a,
                   g->transpose_a ? g->m : g->k, x->b, g->transpose_b ? g->k : g->n, x->bias ? 1 : 0, x->c, g->n);
    return code == dnnl_success ? OK : FAIL(E_DEVICE, "dnnl_sgemm: status %d", (int)code);
}

static enum status by_us(const struct gemm *g, const struct operands *x) {
    return gemm_run(g, x->a, x->b, x->bias, x->c, x->work);
}

static double peak(void) {
    double all = 0;
#pragma omp parallel reduction(+ : all)
    all += peak_flops_per_core(FP32);
    return all;
}

static double median(double *x, int64_t n) {
    sort_doubles(x, n);
    return x[n / 2];
}

/* The k terms and the bias are not negative, so any order has k roundings of at most the sum each. */
static enum status compare(const struct gemm *g, const float *ours, const float *theirs) {
    double bound = 2 * (double)(g->k + 1) * 0x1p-24;
    for (int64_t i = 0; i < g->m * g->n; i++)
        if (!(fabs((double)ours[i] - theirs[i]) <= bound * theirs[i]))
            return FAIL(E_INTERNAL, "element %lld is %g and %g", (long long)i, ours[i], theirs[i]);
    return OK;
}

static enum status measure(struct gemm g, bool bias, int64_t rounds, void *work) {
    double rate[2][99], of_peak[99], ratio[99], flops = 2.0 * (double)g.m * (double)g.n * (double)g.k;
    g.alpha = 1, g.ab_dtype = g.c_dtype = FP32;
    for (int64_t r = -1; r < rounds; r++) {                          /* the first round warms up */
        double most = peak();
        struct operands x = {take(g.m * g.k), take(g.k * g.n), bias ? take(g.n) : NULL, NULL, work};
        float *c[2] = {take(g.m * g.n), take(g.m * g.n)};
        for (int way = 0; way < 2; way++) {
            x.c = c[way];
            double from = clock_s();
            TRY((way ? by_us : by_onednn)(&g, &x));
            if (r >= 0) rate[way][r] = flops / (clock_s() - from);
            x.a = memcpy(take(g.m * g.k), x.a, sizeof(float) * (size_t)(g.m * g.k));
            x.b = memcpy(take(g.k * g.n), x.b, sizeof(float) * (size_t)(g.k * g.n));
        }
        TRY(compare(&g, c[1], c[0]));
        for (int64_t i = 0; i < 2 * g.m * g.n; i++) c[i / (g.m * g.n)][i % (g.m * g.n)] = (float)(i % 251) / 502;
        if (r >= 0) of_peak[r] = rate[1][r] / most, ratio[r] = rate[1][r] / rate[0][r];
    }
    printf("%c%c,%lld,%lld,%lld,%.1f,%.1f,%.3f,%.3f\n", g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N',
           (long long)g.m, (long long)g.n, (long long)g.k, 1e-9 * median(rate[0], rounds),
           1e-9 * median(rate[1], rounds), median(ratio, rounds), median(of_peak, rounds));
    fflush(stdout);
    most_seen = fmax(most_seen, median(of_peak, rounds));
    return OK;
}

/* ---- the three products of every layer of a GPT ---- */
static enum status layer(const struct request *q, int64_t outputs, int64_t inputs, bool bias, void *work) {
    int64_t R = q->tokens;
    TRY(measure((struct gemm){.m = R, .n = outputs, .k = inputs, .transpose_b = true}, bias, q->rounds, work));
    TRY(measure((struct gemm){.m = R, .n = inputs, .k = outputs}, false, q->rounds, work));
    return measure((struct gemm){.m = outputs, .n = inputs, .k = R, .transpose_a = true}, false, q->rounds, work);
}

static enum status bench(int argc, char **argv) {
    const struct option_table table = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
    struct request q = {0};
    struct options *o = NULL;
    TRY(options_create(&table, 1, &q, &o));
    enum status status = options_parse(o, argc - 1, argv + 1);
    options_destroy(&o);
    TRY(status);
    int64_t C = q.hidden, wide = 4 * C > q.vocab ? 4 * C : q.vocab, largest = wide > q.tokens ? wide : q.tokens;
    struct gemm most = {.m = largest, .n = C, .k = q.tokens, .transpose_a = true, .ab_dtype = FP32, .c_dtype = FP32};
    if (6 * largest * (4 * C > q.tokens ? 4 * C : q.tokens) > POOL)
        return FAIL(E_CONFIG,
                    "a matrix of %lld rows is too large for the pool of %d numbers; lower tokens, hidden or vocab",
                    (long long)largest, POOL);
    void *work = malloc((size_t)gemm_work(&most, DEVICE_CPU, omp_get_max_threads()));
    pool = malloc(sizeof(float) * POOL);
    if (!work || !pool) return FAIL(E_MEMORY, "no memory for %d numbers", POOL);
    for (int64_t i = 0; i < POOL; i++) pool[i] = (float)(i % 251) / 502;
    printf("form,m,n,k,onednn_gflop_s,trivium_gflop_s,ratio,of_peak\n");
    const int64_t shapes[][2] = {{3 * C, C}, {C, C}, {4 * C, C}, {C, 4 * C}};
    for (int i = 0; i < 4 && status == OK; i++) status = layer(&q, shapes[i][0], shapes[i][1], true, work);
    if (status == OK) status = layer(&q, q.vocab, C, false, work);
    free(work), free(pool);
    TRY(status);
    fprintf(stderr, "the fastest product of ours: %.3f of the peak, at most %.2f wanted\n", most_seen, MOST_OF_PEAK);
    if (most_seen <= MOST_OF_PEAK) return OK;
    return FAIL(E_INTERNAL, "a product above the peak: lib/ops/gemm/peak.c measures it wrongly");
}

int main(int argc, char **argv) {
    enum status status = bench(argc, argv);
    status_report();
    return status == OK ? 0 : status_exit_code(status);
}
