#include "lib/ops/gemm_bf16.h"

#include "lib/device/arena.h"
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

/* A compiled product: what it is for, and the handles that each run points at its matrices. */
struct product {
    struct product *next;
    struct gemm gemm;
    bool bias;
    int threads;
    int64_t scratch;
    dnnl_primitive_t primitive;          /* NULL until it runs for the first time: planning need not compile */
    dnnl_primitive_desc_t description;
    dnnl_memory_t a, b, c, vector, work;
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static struct product *products;         /* kept until the process ends. Only the main thread comes here */

static enum status refused(const struct gemm *g, const char *what, dnnl_status_t code) {
    return FAIL(E_DEVICE, "%s refused a bf16 product of m=%lld n=%lld k=%lld: status %d", what, (long long)g->m,
                (long long)g->n, (long long)g->k, (int)code);
}
#define DNNL(function, ...)                                                                                            \
    do {                                                                                                               \
        dnnl_status_t code_ = function(__VA_ARGS__);                                                                   \
        if (code_ != dnnl_success) return refused(g, #function, code_);                                                \
    } while (0)

bool gemm_bf16_can(const struct gemm *g) {
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    bool has_bf16 = isa != dnnl_cpu_isa_all && isa >= dnnl_cpu_isa_avx512_core_bf16;
    return has_bf16 && g->ab_dtype == BF16 && g->alpha == 1 && g->m > 0 && g->n > 0 && g->k > 0;
}

/* ---- describing a product ---- */

static dnnl_data_type_t type_of(enum dtype d) { return d == BF16 ? dnnl_bf16 : dnnl_f32; }

/* (rows, columns); stored transposed, its columns lie in a row. */
static enum status describe_matrix(const struct gemm *g, int64_t rows, int64_t columns, bool transposed, enum dtype dtype,
                                   dnnl_memory_desc_t *out) {
    dnnl_dims_t sizes = {rows, columns}, strides = {transposed ? 1 : columns, transposed ? rows : 1};
    DNNL(dnnl_memory_desc_init_by_strides, out, 2, sizes, type_of(dtype), strides);
    return OK;
}

/* beta C, added by the kernel to what it has summed; and scratch that is ours. */
static enum status wishes(const struct gemm *g, dnnl_primitive_attr_t attributes) {
    dnnl_post_ops_t after;
    DNNL(dnnl_primitive_attr_set_scratchpad_mode, attributes, dnnl_scratchpad_mode_user);
    if (g->beta == 0) return OK;
    DNNL(dnnl_post_ops_create, &after);
    dnnl_status_t code = dnnl_post_ops_append_sum(after, (float)g->beta);
    if (code == dnnl_success) code = dnnl_primitive_attr_set_post_ops(attributes, after);
    dnnl_post_ops_destroy(after);
    return code == dnnl_success ? OK : refused(g, "dnnl_post_ops_append_sum", code);
}

static enum status describe(struct product *p) {
    const struct gemm *g = &p->gemm;
    dnnl_memory_desc_t a, b, c, bias;
    dnnl_dims_t row = {1, g->n}, row_strides = {g->n, 1};
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attributes;
    TRY(describe_matrix(g, g->m, g->k, g->transpose_a, g->ab_dtype, &a));
    TRY(describe_matrix(g, g->k, g->n, g->transpose_b, g->ab_dtype, &b));
    TRY(describe_matrix(g, g->m, g->n, false, g->c_dtype, &c));
    DNNL(dnnl_memory_desc_init_by_strides, &bias, 2, row, type_of(g->ab_dtype), row_strides);
    DNNL(dnnl_matmul_desc_init, &matmul, &a, &b, p->bias ? &bias : NULL, &c);
    DNNL(dnnl_primitive_attr_create, &attributes);
    enum status status = wishes(g, attributes);
    dnnl_status_t code = dnnl_primitive_desc_create(&p->description, &matmul, attributes, engine, NULL);
    dnnl_primitive_attr_destroy(attributes);
    TRY(status);
    if (code != dnnl_success) return refused(g, "dnnl_primitive_desc_create", code);
    p->scratch = (int64_t)dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(p->description, dnnl_query_scratchpad_md, 0));
    DNNL(dnnl_memory_create, &p->a, &a, engine, DNNL_MEMORY_NONE);
    DNNL(dnnl_memory_create, &p->b, &b, engine, DNNL_MEMORY_NONE);
    DNNL(dnnl_memory_create, &p->c, &c, engine, DNNL_MEMORY_NONE);
    if (p->bias) DNNL(dnnl_memory_create, &p->vector, &bias, engine, DNNL_MEMORY_NONE);
    DNNL(dnnl_memory_create, &p->work, dnnl_primitive_desc_query_md(p->description, dnnl_query_scratchpad_md, 0), engine,
         DNNL_MEMORY_NONE);
    return OK;
}

/* ---- keeping it ---- */

static void destroy(struct product *p) {
    dnnl_memory_t memories[] = {p->a, p->b, p->c, p->vector, p->work};
    for (int i = 0; i < 5; i++)
        if (memories[i]) dnnl_memory_destroy(memories[i]);
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    if (p->description) dnnl_primitive_desc_destroy(p->description);
    free(p);
}

static bool same(const struct gemm *x, const struct gemm *y) {
    return x->m == y->m && x->n == y->n && x->k == y->k && x->transpose_a == y->transpose_a &&
           x->transpose_b == y->transpose_b && x->beta == y->beta && x->c_dtype == y->c_dtype;
}

static enum status open_engine(const struct gemm *g) {
    if (!engine) DNNL(dnnl_engine_create, &engine, dnnl_cpu, 0);
    if (!stream) DNNL(dnnl_stream_create, &stream, engine, dnnl_stream_default_flags);
    return OK;
}

static enum status find(const struct gemm *g, bool bias, struct product **out) {
    int threads = omp_get_max_threads();
    for (struct product *p = products; p; p = p->next)
        if (p->bias == bias && p->threads == threads && same(&p->gemm, g)) {
            *out = p;
            return OK;
        }
    TRY(open_engine(g));
    struct product *p = calloc(1, sizeof *p);
    if (!p) return FAIL(E_MEMORY, "no memory to keep a matrix product");
    p->gemm = *g;
    p->bias = bias;
    p->threads = threads;
    enum status status = describe(p);
    if (status != OK) {
        destroy(p);
        return status;
    }
    p->next = products;
    *out = products = p;
    return OK;
}

/* The most of a product of these sizes: whoever plans does not know whether there is a bias, whether C is added to, and what it is
 * kept in. */
int64_t gemm_bf16_work(const struct gemm *g) {
    int64_t most = 0;
    if (!gemm_bf16_can(g)) return 0;
    for (int i = 0; i < 8; i++) {
        struct gemm like = *g;
        struct product *p;
        like.beta = i & 1;
        like.c_dtype = i & 2 ? FP32 : BF16;
        if (find(&like, i & 4, &p) != OK) {
            status_clear();
            return 0;
        }
        if (p->scratch > most) most = p->scratch;
    }
    return arena_align(most);
}

/* The scratch is planned whole; how much of it oneDNN writes is its affair. Its last word is written here, so that the measured
 * high-water mark says what was planned (lib/device/arena.h). */
enum status gemm_bf16_run(const struct gemm *g, const void *a, const void *b, const void *bias, void *c, void *work) {
    struct product *p;
    int64_t planned = gemm_bf16_work(g);
    TRY(find(g, bias != NULL, &p));
    if (!p->primitive) DNNL(dnnl_primitive_create, &p->primitive, p->description);
    if (planned > 0) memset((char *)work + planned - 8, 0, 8);
    DNNL(dnnl_memory_set_data_handle, p->a, (void *)a);
    DNNL(dnnl_memory_set_data_handle, p->b, (void *)b);
    DNNL(dnnl_memory_set_data_handle, p->c, c);
    DNNL(dnnl_memory_set_data_handle, p->work, work);
    if (bias) DNNL(dnnl_memory_set_data_handle, p->vector, (void *)bias);
    dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->b}, {DNNL_ARG_DST, p->c},
                                   {DNNL_ARG_SCRATCHPAD, p->work}, {DNNL_ARG_BIAS, p->vector}};
    DNNL(dnnl_primitive_execute, p->primitive, stream, bias ? 5 : 4, arguments);
    DNNL(dnnl_stream_wait, stream);
    return OK;
}
