/* A product on the device of the test, against the formula. Only gemm's tests include this. */
#pragma once

#include "lib/device/arena.h"
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/gemm/gemm_narrow.h"
#include "lib/ops/test_op.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* The way of a product of 16-bit numbers on the CPU; NULL: the one that this machine chooses. */
static const struct gemm_narrow *way_of_test;

static inline bool by_way_of_test(const struct gemm *g) {
    return way_of_test && dtype_size(g->ab_dtype) == 2 && !g->plain && test_device()->kind == DEVICE_CPU;
}
static inline int64_t work_there(const struct gemm *g) {
    return by_way_of_test(g) ? way_of_test->work(g, omp_get_max_threads())
                             : gemm_work(g, test_device()->kind, omp_get_max_threads());
}

static inline enum status run_there(const struct gemm *g, const void *a, const void *b, const void *bias, void *c,
                                    void *work) {
#ifdef TRIVIUM_CUDA
    if (test_device()->kind == DEVICE_CUDA) return gemm_cuda_run(g, test_device(), a, b, bias, c, work);
#endif
    if (!by_way_of_test(g)) return gemm_run(g, a, b, bias, c, work);
    way_of_test->run(g, a, b, bias, c, work);
    return OK;
}

/* Memory of the device, `offset` bytes into an allocation, with what is in host memory. */
struct there {
    char *base, *at;
    int64_t bytes;
};
static inline struct there there_new(const void *host, int64_t bytes, int64_t offset) {
    const struct device *d = test_device();
    void *base;
    assert_ok(d->allocate(d, bytes + offset, &base));
    struct there t = {base, (char *)base + offset, bytes};
    if (host) assert_ok(d->upload(d, t.at, host, bytes));
    return t;
}
static inline void there_free(struct there *t, void *host) {
    const struct device *d = test_device();
    if (host) assert_ok(d->download(d, host, t->at, t->bytes));
    d->release(d, t->base, t->bytes + (t->at - t->base));
}

/* Operands in host memory, filled by name, and what C must become: by the formula, in fp64. */
struct product {
    struct gemm g;
    void *a, *b, *bias, *c;
    double *expected;
};

/* The first n normal numbers of a name. They are kept: to draw them took three quarters of these tests' time. */
static inline const double *numbers_of(const char *name, int64_t n) {
    static struct { const char *name; double *x; int64_t n; } drawn[4];
    int k = 0;
    while (drawn[k].name && strcmp(drawn[k].name, name)) assert_true(++k < 4);
    drawn[k].name = name;
    if (drawn[k].n >= n) return drawn[k].x;
    drawn[k].x = realloc(drawn[k].x, (size_t)n * sizeof(double));
    assert_non_null(drawn[k].x);
    for (int64_t i = drawn[k].n; i < n; i++) drawn[k].x[i] = rng_normal(1, rng_stream(name), (uint64_t)i);
    drawn[k].n = n;
    return drawn[k].x;
}

static inline void *filled(const char *name, enum dtype dtype, int64_t n) {
    const double *numbers = numbers_of(name, n);
    void *x = malloc((size_t)(n > 0 ? n : 1) * dtype_size(dtype));
    for (int64_t i = 0; i < n; i++) dtype_set(x, dtype, i, numbers[i]);
    return x;
}

static inline double element(const struct product *p, int64_t i, int64_t j) {
    const struct gemm *g = &p->g;
    double sum = 0;
    for (int64_t l = 0; l < g->k; l++)
        sum += dtype_get(p->a, g->ab_dtype, g->transpose_a ? l * g->m + i : i * g->k + l) *
               dtype_get(p->b, g->ab_dtype, g->transpose_b ? j * g->k + l : l * g->n + j);
    return g->alpha * sum + (g->beta == 0 ? 0 : g->beta * dtype_get(p->c, g->c_dtype, i * g->n + j)) +
           (p->bias ? dtype_get(p->bias, g->ab_dtype, j) : 0);
}

/* With beta 0, C starts as NaN: it must not be read. */
static inline struct product product_operands(struct gemm g, bool bias) {
    struct product p = {g,
                        filled("a", g.ab_dtype, g.m * g.k),
                        filled("b", g.ab_dtype, g.k * g.n),
                        bias ? filled("bias", g.ab_dtype, g.n) : NULL,
                        filled("c", g.c_dtype, g.m * g.n),
                        NULL};
    if (g.beta == 0) memset(p.c, 0xff, (size_t)(g.m * g.n) * dtype_size(g.c_dtype));
    return p;
}
static inline struct product product_new(struct gemm g, bool bias) {
    struct product p = product_operands(g, bias);
    p.expected = malloc((size_t)(g.m * g.n) * sizeof(double));
    for (int64_t i = 0; i < g.m * g.n; i++) p.expected[i] = element(&p, i / g.n, i % g.n);
    return p;
}
static inline void product_free(struct product *p) {
    free(p->a), free(p->b), free(p->bias), free(p->c), free(p->expected);
}

/* As there_new; on the CPU NaN bytes follow the memory. A kernel must not write them, nor read them: even 0 NaN is
 * NaN. */
enum { GUARD = 1024 };
static inline struct there there_guarded(const void *host, int64_t bytes, int64_t offset) {
    if (test_device()->kind != DEVICE_CPU) return there_new(host, bytes, offset);
    struct there t = there_new(NULL, bytes + GUARD, offset);
    if (host) memcpy(t.at, host, (size_t)bytes);
    memset(t.at + bytes, 0xff, GUARD);
    return t;
}
static inline void there_check(const struct there *t) {
    if (test_device()->kind != DEVICE_CPU) return;
    for (int64_t i = t->bytes - GUARD; i < t->bytes; i++) assert_int_equal((unsigned char)t->at[i], 0xff);
}

/* Run the product into p->c. Bits 0, 1, 2 of `shifted`: A, B, C start one element into their allocations. */
static inline enum status product_run(struct product *p, int shifted) {
    const struct gemm *g = &p->g;
    int64_t size = (int64_t)dtype_size(g->ab_dtype), c_size = (int64_t)dtype_size(g->c_dtype);
    int64_t bytes = work_there(g);
    struct there a = there_guarded(p->a, g->m * g->k * size, shifted & 1 ? size : 0),
                 b = there_guarded(p->b, g->k * g->n * size, shifted & 2 ? size : 0),
                 c = there_new(p->c, g->m * g->n * c_size, shifted & 4 ? c_size : 0),
                 bias = there_new(p->bias, p->bias ? g->n * size : 0, 0),
                 work = there_guarded(NULL, bytes, ARENA_ALIGN_CUDA);
    enum status status = run_there(g, a.at, b.at, p->bias ? bias.at : NULL, c.at, work.at);
    there_check(&a), there_check(&b), there_check(&work);
    there_free(&a, NULL), there_free(&b, NULL), there_free(&bias, NULL), there_free(&work, NULL);
    there_free(&c, p->c);
    return status;
}

/* The bound is that of op_error_bound, for sums of k terms, the bias and beta C. */
static inline void assert_product(const struct product *p) {
    double error = 0, largest = 0;
    for (int64_t i = 0; i < p->g.m * p->g.n; i++) {
        double difference = fabs(dtype_get(p->c, p->g.c_dtype, i) - p->expected[i]);
        if (!(difference <= error)) error = difference;
        largest = fmax(largest, fabs(p->expected[i]));
    }
    double k = (double)p->g.k + 2;
    assert_close(error / largest, 0,
                 dtype_roundoff(p->g.c_dtype) + k * sqrt(k) * dtype_roundoff(dtype_accumulator(p->g.ab_dtype)));
}

/* Sizes are different and odd, so that a mistaken size gives wrong results. */
static inline struct gemm odd(enum dtype ab, enum dtype c, int which) {
    return (struct gemm){.m = 7,
                         .n = 5,
                         .k = 11,
                         .transpose_a = which & 1,
                         .transpose_b = which >> 1 & 1,
                         .alpha = which & 4 ? 0.75 : 1,
                         .beta = which & 8 ? -0.5 : 0,
                         .ab_dtype = ab,
                         .c_dtype = c};
}
