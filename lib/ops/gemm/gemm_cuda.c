/* Matrix product on a GPU, by cuBLASLt. The formula is in gemm.h.
 *
 * Row-major seen as column-major. cuBLASLt reads matrices by columns. So it reads our (rows, columns) matrix, which is
 * stored by rows, as its transpose, a (columns, rows) matrix with leading dimension `columns`. We ask for C^T, which in
 * memory is our C:
 *
 *   C = op(A) op(B)   is   C^T = op(B)^T op(A)^T
 *
 * The library's first operand is our B, its second our A; m and n change places. If we store an operand transposed, the
 * library must transpose it. C^T has n rows: our bias, one number per column of C, is its bias, one number per row.
 *
 * Plans. A product is described (operation, layouts), the library's heuristics choose an algorithm, and both are kept:
 * a training step asks for the same dozen products over and over.
 *
 * Which algorithm. The heuristics name several, best first, without a run of any. The plan takes the first, unless the
 * table of choices (gemm_choices.h) has the product. This table is filled before the first step, and then only read.
 *
 * The same bits every time. A plan has one algorithm, and everything runs on one stream. Another table, another library
 * or another GPU may give other bits. A long k may be cut into pieces whose partial sums are kept in fp32 and added in
 * a separate step (REDUCTION_SCHEME_COMPUTE_TYPE). Two other schemes are not allowed, because they round more than
 * once: adding in place in C (INPLACE), and rounding the pieces to C's type first (OUTPUT_TYPE). fp32 products are
 * computed in fp32, not in TF32 (CUBLAS_COMPUTE_32F_FAST_TF32).
 *
 * Epilogues. Before a sum is rounded and written, the library can add the bias, take the gelu of the result, multiply
 * it by gelu' of a matrix with C's layout, or sum the rows of our A (its second operand, so BGRADB). Not every
 * algorithm has an epilogue. If the library offers none, the plan keeps this answer. Then the caller runs gelu itself.
 * A bias is first written to C, and the product is added to C (beta = 1), which costs one pass more but still rounds
 * once.
 *
 * fp8. Tensor cores multiply codes of 8 bits, and sum along the rows of both operands: A not transposed, B transposed,
 * "TN" to the library. alpha has the scales. If C is bf16, the product adds the bias. To an fp32 C the library adds
 * only bf16 biases, so C starts from the bias. Blocks: the scales are inside the sum, one for 32 or 16 codes of a row.
 *
 * What breaks: an algorithm chosen for better aligned addresses than those of a call. So plans include the alignments.
 * Source: cuBLAS library documentation, cublasLtMatmul. */
#include "lib/ops/gemm/gemm.h"

#include "lib/base/log.h"
#include "lib/ops/gemm/gemm_choices.h"
#include <cublasLt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GPUS = 64, CANDIDATES = 8 };

/* gemm_cuda.cu: c = bias + beta c, by rows */
typedef enum status bias_kernel(const struct gemm *, const struct device *, const void *bias, void *c);
extern bias_kernel gemm_start_from_bias_cuda_fp64, gemm_start_from_bias_cuda_fp32, gemm_start_from_bias_cuda_bf16,
    gemm_start_from_bias_cuda_fp16;

/* The properties by which an algorithm is chosen. Of the addresses only the alignment counts, in bytes. */
struct problem {
    struct gemm gemm;
    uint32_t epilogue;                /* CUBLASLT_EPILOGUE_... */
    uint32_t align_a, align_b, align_c, align_aux;
};

struct operands {
    const void *a, *b, *bias;         /* bias, or with BGRADB the bias's gradient */
    void *aux;                        /* gelu's input, written or read; NULL: it is not kept */
    void *c;
};

struct plan {
    struct plan *next;
    struct problem problem;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c;   /* of our A, B, C */
    int n_offered;                    /* number of algorithms; 0: the library offers none */
    unsigned char offered[CANDIDATES][GEMM_ALGORITHM_BYTES];   /* the library's first choice first */
    cublasLtMatmulAlgo_t algorithm;   /* the one that is run */
};
_Static_assert(sizeof(cublasLtMatmulAlgo_t) == GEMM_ALGORITHM_BYTES, "the table keeps whole algorithms");

/* A process keeps this for each GPU until it ends. */
struct library {
    cublasLtHandle_t handle;
    struct plan *plans;
    int64_t choices;                  /* gemm_choices_version of these plans */
};
static struct library libraries[MAX_GPUS];

static enum status refused(const struct gemm *g, const char *what, cublasStatus_t code) {
    char codes[80] = "";
    if (g->fp8) snprintf(codes, sizeof codes, "%s x %s, ", dtype_name(g->a_code), dtype_name(g->b_code));
    if (g->block) snprintf(codes + strlen(codes), sizeof codes - strlen(codes), "%d with a scale, ", g->block);
    return FAIL(E_DEVICE, "%s: %s for m=%" PRId64 " n=%" PRId64 " k=%" PRId64 "%s%s, %s%s to %s", what,
                cublasLtGetStatusName(code), g->m, g->n, g->k, g->transpose_a ? " A transposed" : "",
                g->transpose_b ? " B transposed" : "", codes, dtype_name(g->ab_dtype), dtype_name(g->c_dtype));
}
#define LT(function, ...)                                                                                              \
    do {                                                                                                               \
        cublasStatus_t code_ = function(__VA_ARGS__);                                                                  \
        if (code_ != CUBLAS_STATUS_SUCCESS) return refused(g, #function, code_);                                       \
    } while (0)

/* ---- the problem ---- */

/* Arenas align to 64 bytes; vector and TMA loads need 16. Reporting more than 64 would only duplicate plans. */
static uint32_t alignment_of(const void *address) {
    uintptr_t bits = (uintptr_t)address | 64;
    return (uint32_t)(bits & -bits);
}

/* alpha is left out: it is an argument of each call, and with fp8 it differs in every step. */
static bool same_gemm(const struct gemm *x, const struct gemm *y) {
    return x->m == y->m && x->n == y->n && x->k == y->k && x->transpose_a == y->transpose_a &&
           x->transpose_b == y->transpose_b && x->beta == y->beta && x->ab_dtype == y->ab_dtype &&
           x->c_dtype == y->c_dtype && x->fp8 == y->fp8 && x->a_code == y->a_code && x->b_code == y->b_code &&
           x->block == y->block && x->fast_sums == y->fast_sums;
}
static bool same_problem(const struct problem *x, const struct problem *y) {
    return same_gemm(&x->gemm, &y->gemm) && x->epilogue == y->epilogue && x->align_a == y->align_a &&
           x->align_b == y->align_b && x->align_c == y->align_c && x->align_aux == y->align_aux;
}

/* ---- describing it ---- */

static cudaDataType_t type_of(enum dtype d) {
    if (d == FP4_E2M1) return CUDA_R_4F_E2M1;
    if (dtype_is_fp8(d)) return d == FP8_E4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
    return d == FP64 ? CUDA_R_64F : d == FP32 ? CUDA_R_32F : d == BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static enum status describe_matrix(const struct gemm *g, enum dtype dtype, int64_t rows, int64_t columns,
                                   cublasLtMatrixLayout_t *out) {
    LT(cublasLtMatrixLayoutCreate, out, type_of(dtype), (uint64_t)columns, (uint64_t)rows, columns);
    return OK;
}

/* The library's first operand is our B. */
static enum status point_to_scales(const struct gemm *g, cublasLtMatmulDesc_t operation) {
    LT(cublasLtMatmulDescSetAttribute, operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &g->b_scale, sizeof g->b_scale);
    LT(cublasLtMatmulDescSetAttribute, operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &g->a_scale, sizeof g->a_scale);
    return OK;
}

/* Set the addresses, of which the heuristics read the alignment. The bias's alignment is checked later: gemm_cuda_run
 * requires 16 bytes. */
static enum status point(const struct gemm *g, cublasLtMatmulDesc_t operation, const struct operands *x) {
    if (g->block) TRY(point_to_scales(g, operation));
    LT(cublasLtMatmulDescSetAttribute, operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &x->bias, sizeof x->bias);
    if (x->aux)
        LT(cublasLtMatmulDescSetAttribute, operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &x->aux,
           sizeof x->aux);
    return OK;
}

static enum status describe_scales(const struct gemm *g, cublasLtMatmulDesc_t operation) {
    int32_t mode = g->block == 16 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 : CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
    LT(cublasLtMatmulDescSetAttribute, operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode, sizeof mode);
    LT(cublasLtMatmulDescSetAttribute, operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode, sizeof mode);
    return OK;
}

/* aux is a matrix with the layout of C, and by default with the type of C. */
static enum status describe_operation(const struct problem *p, const struct operands *x, cublasLtMatmulDesc_t *out) {
    const struct gemm *g = &p->gemm;
    bool wide = g->ab_dtype == FP64;
    int32_t first = g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, second = g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    LT(cublasLtMatmulDescCreate, out, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, wide ? CUDA_R_64F : CUDA_R_32F);
    LT(cublasLtMatmulDescSetAttribute, *out, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    LT(cublasLtMatmulDescSetAttribute, *out, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    LT(cublasLtMatmulDescSetAttribute, *out, CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, sizeof p->epilogue);
    if (x->aux) LT(cublasLtMatmulDescSetAttribute, *out, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &g->n, sizeof g->n);
    int8_t fast = g->fast_sums;
    if (g->block) TRY(describe_scales(g, *out));
    else if (g->fp8) LT(cublasLtMatmulDescSetAttribute, *out, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
    return point(g, *out, x);
}

static enum status describe(struct plan *plan, const struct operands *x) {
    const struct gemm *g = &plan->problem.gemm;
    TRY(describe_operation(&plan->problem, x, &plan->operation));
    enum dtype a = g->fp8 ? g->a_code : g->ab_dtype, b = g->fp8 ? g->b_code : g->ab_dtype;
    TRY(describe_matrix(g, a, g->transpose_a ? g->k : g->m, g->transpose_a ? g->m : g->k, &plan->a));
    TRY(describe_matrix(g, b, g->transpose_b ? g->n : g->k, g->transpose_b ? g->k : g->n, &plan->b));
    TRY(describe_matrix(g, g->c_dtype, g->m, g->n, &plan->c));
    return OK;
}

/* ---- choosing an algorithm ---- */

static enum status prefer(const struct problem *p, cublasLtMatmulPreference_t preference) {
    const struct gemm *g = &p->gemm;
    uint64_t workspace = (uint64_t)gemm_cuda_workspace(g);
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t size;
    } wish[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &p->align_b, sizeof p->align_b},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &p->align_a, sizeof p->align_a},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &p->align_c, sizeof p->align_c},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &p->align_c, sizeof p->align_c},
    };
    for (size_t i = 0; i < sizeof wish / sizeof *wish; i++)
        LT(cublasLtMatmulPreferenceSetAttribute, preference, wish[i].name, wish[i].value, wish[i].size);
    return OK;
}

/* The heuristics' answers come best first; an answer that carries an error must not be used. A refusal is an error only
 * for a product with no epilogue, which has no other way. */
static enum status offers(const struct library *l, struct plan *plan, cublasLtMatmulPreference_t preference) {
    const struct gemm *g = &plan->problem.gemm;
    cublasLtMatmulHeuristicResult_t candidates[CANDIDATES];
    int n = 0;
    cublasStatus_t code = cublasLtMatmulAlgoGetHeuristic(l->handle, plan->operation, plan->b, plan->a, plan->c, plan->c,
                                                         preference, CANDIDATES, candidates, &n);
    for (int i = 0; i < n && code == CUBLAS_STATUS_SUCCESS; i++)
        if (candidates[i].state == CUBLAS_STATUS_SUCCESS)
            memcpy(plan->offered[plan->n_offered++], &candidates[i].algo, GEMM_ALGORITHM_BYTES);
    if (plan->n_offered || plan->problem.epilogue != CUBLASLT_EPILOGUE_DEFAULT) return OK;
    return refused(g, "cublasLtMatmulAlgoGetHeuristic found no algorithm",
                   code == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : code);
}

/* The name of a problem in the table of choices. It leaves out beta, which does not affect the choice. */
static void name_of(const struct problem *p, char out[GEMM_PRODUCT_TEXT]) {
    const struct gemm *g = &p->gemm;
    enum dtype a = g->fp8 ? g->a_code : g->ab_dtype, b = g->fp8 ? g->b_code : g->ab_dtype;
    snprintf(out, GEMM_PRODUCT_TEXT,
             "%" PRId64 " x %" PRId64 " x %" PRId64 " %c%c %s %s to %s%s%s, epilogue %u, aligned %u %u %u %u", g->m,
             g->n, g->k, g->transpose_a ? 'T' : 'N', g->transpose_b ? 'T' : 'N', dtype_name(a), dtype_name(b),
             dtype_name(g->c_dtype), g->fast_sums ? " fast" : "", g->block ? " by blocks" : "", p->epilogue, p->align_a,
             p->align_b, p->align_c, p->align_aux);
}

/* Is the algorithm still valid for this product? It was when it was recorded: if not, the file or the library has
 * changed. */
static enum status take_choice(const struct library *l, struct plan *plan, const struct gemm_choice *choice) {
    cublasLtMatmulHeuristicResult_t result;
    memcpy(&plan->algorithm, choice->algorithm, sizeof plan->algorithm);
    cublasStatus_t code = cublasLtMatmulAlgoCheck(l->handle, plan->operation, plan->b, plan->a, plan->c, plan->c,
                                                  &plan->algorithm, &result);
    if (code == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= (size_t)gemm_cuda_workspace(&plan->problem.gemm))
        return OK;
    return FAIL(E_DEVICE, "cuBLASLt does not take the algorithm that the file of gemm-algorithms has for %s; remove "
                "the file, or name another", choice->product);
}

static enum status choose(const struct library *l, struct plan *plan, cublasLtMatmulPreference_t preference) {
    char name[GEMM_PRODUCT_TEXT];
    TRY(offers(l, plan, preference));
    name_of(&plan->problem, name);
    const struct gemm_choice *choice = gemm_choice_find(name);
    if (choice && plan->n_offered) return take_choice(l, plan, choice);
    memcpy(&plan->algorithm, plan->offered[0], sizeof plan->algorithm);
    return OK;
}

static enum status choose_algorithm(const struct library *l, struct plan *plan) {
    const struct gemm *g = &plan->problem.gemm;
    cublasLtMatmulPreference_t preference;
    LT(cublasLtMatmulPreferenceCreate, &preference);
    enum status status = prefer(&plan->problem, preference);
    if (status == OK) status = choose(l, plan, preference);
    cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

/* ---- plans ---- */

static void plan_destroy(struct plan *plan) {
    if (plan->operation) cublasLtMatmulDescDestroy(plan->operation);
    if (plan->a) cublasLtMatrixLayoutDestroy(plan->a);
    if (plan->b) cublasLtMatrixLayoutDestroy(plan->b);
    if (plan->c) cublasLtMatrixLayoutDestroy(plan->c);
    free(plan);
}

static const char *epilogue_name(uint32_t epilogue) {
    switch (epilogue) {
    case CUBLASLT_EPILOGUE_BIAS: return "bias";
    case CUBLASLT_EPILOGUE_DGELU: return "gelu'";
    case CUBLASLT_EPILOGUE_BGRADB: return "gradient of a bias";
    default: return "gelu";
    }
}

/* Report a refusal once for each problem, because the problem's plan is kept. */
static void tell_refusal(const struct problem *p) {
    const struct gemm *g = &p->gemm;
    log_info("cuBLASLt adds no %s to a product of m=%" PRId64 " n=%" PRId64 " k=%" PRId64 " %s; a kernel of ours does",
             epilogue_name(p->epilogue), g->m, g->n, g->k, dtype_name(g->ab_dtype));
}

static enum status plan_create(struct library *l, const struct problem *problem, const struct operands *x,
                               struct plan **out) {
    struct plan *plan = calloc(1, sizeof *plan);
    if (!plan) return FAIL(E_MEMORY, "no memory for the plan of a matrix product");
    plan->problem = *problem;
    enum status status = describe(plan, x);
    if (status == OK) status = choose_algorithm(l, plan);
    if (status != OK) {
        plan_destroy(plan);
        return status;
    }
    if (!plan->n_offered) tell_refusal(problem);
    plan->next = l->plans;
    l->plans = *out = plan;
    return OK;
}

static enum status plan_find(struct library *l, const struct problem *problem, const struct operands *x,
                             struct plan **out) {
    for (struct plan *p = l->plans; p; p = p->next)
        if (same_problem(&p->problem, problem)) {
            *out = p;
            return point(&problem->gemm, p->operation, x);
        }
    return plan_create(l, problem, x, out);
}

static void drop_plans(struct library *l) {
    for (struct plan *next; l->plans; l->plans = next) {
        next = l->plans->next;
        plan_destroy(l->plans);
    }
}

/* Plans that were made with another version of the table of choices are dropped. */
static enum status library_open(const struct gemm *g, const struct device *d, struct library **out) {
    struct library *l = *out = &libraries[d->index];
    if (!l->handle) LT(cublasLtCreate, &l->handle);
    if (l->choices != gemm_choices_version()) {
        drop_plans(l);
        l->choices = gemm_choices_version();
    }
    return OK;
}

int64_t gemm_cuda_version(void) { return (int64_t)cublasLtGetVersion(); }

/* ---- running ---- */

/* alpha and beta, in the type of the sums; the library reads them before it returns. */
union scalar {
    double fp64;
    float fp32;
};
static union scalar scalar_of(enum dtype d, double value) {
    union scalar s;
    if (d == FP64) s.fp64 = value;
    else s.fp32 = (float)value;
    return s;
}

static enum status check(const struct gemm *g, uint32_t epilogue, const void *bias) {
    if (g->m > INT32_MAX || g->n > INT32_MAX || g->k > INT32_MAX)
        return FAIL(E_DEVICE,
                    "cuBLASLt takes 32-bit sizes; m=%" PRId64 " n=%" PRId64 " k=%" PRId64 "; use smaller microbatches",
                    g->m, g->n, g->k);
    if (bias && epilogue != CUBLASLT_EPILOGUE_BGRADB && g->c_dtype != g->ab_dtype)
        return FAIL(E_INTERNAL, "cuBLASLt takes a bias of the type of C: %s, not %s", dtype_name(g->c_dtype),
                    dtype_name(g->ab_dtype));
    if ((uintptr_t)bias % 16)
        return FAIL(E_INTERNAL, "a bias at an address that 16 does not divide: cuBLASLt reads it 16 bytes at a time");
    return OK;
}

static enum status multiply(const struct library *l, const struct plan *plan, const struct gemm *g,
                            const struct device *d, const struct operands *x, const cublasLtMatmulAlgo_t *algorithm,
                            void *work) {
    union scalar alpha = scalar_of(g->ab_dtype, g->alpha), beta = scalar_of(g->ab_dtype, g->beta);
    LT(cublasLtMatmul, l->handle, plan->operation, &alpha, x->b, plan->b, x->a, plan->a, &beta, x->c, plan->c, x->c,
       plan->c, algorithm, work, (size_t)gemm_cuda_workspace(g), (cudaStream_t)d->stream);
    return OK;
}

/* ---- timing ---- */

struct timed {
    const struct library *l;
    const struct plan *plan;
    const struct device *d;
    const struct operands *x;
    void *work;
};

/* beta is 0, whatever the product's is: in repeated runs a sum would grow without end. */
static enum status run_candidate(void *self, int i) {
    const struct timed *t = self;
    struct gemm set = t->plan->problem.gemm;
    cublasLtMatmulAlgo_t algorithm;
    memcpy(&algorithm, t->plan->offered[i], sizeof algorithm);
    set.beta = 0;
    return multiply(t->l, t->plan, &set, t->d, t->x, &algorithm, t->work);
}

static enum status time_product(struct timed *t) {
    char name[GEMM_PRODUCT_TEXT];
    name_of(&t->plan->problem, name);
    if (gemm_choice_use(name)) return OK;
    return gemm_cuda_time(&(struct gemm_candidates){t->d, name, t->plan->n_offered,
                                                    (const unsigned char(*)[GEMM_ALGORITHM_BYTES])t->plan->offered, t,
                                                    run_candidate});
}

/* *done false: no algorithm has this epilogue, and nothing was queued. */
static enum status run(const struct gemm *g, const struct device *d, uint32_t epilogue, const struct operands *x,
                       void *work, bool *done) {
    struct problem problem = {
        *g, epilogue, alignment_of(x->a), alignment_of(x->b), alignment_of(x->c), alignment_of(x->aux)};
    struct library *l;
    struct plan *plan = NULL;
    TRY(check(g, epilogue, x->bias));
    TRY(library_open(g, d, &l));
    TRY(plan_find(l, &problem, x, &plan));
    *done = plan->n_offered > 0;
    if (!*done) return OK;
    if (gemm_choices_timing()) return time_product(&(struct timed){l, plan, d, x, work});
    return multiply(l, plan, g, d, x, &plan->algorithm, work);
}

/* The way without an epilogue: bias + beta C is written to C, and the product is added to C. */
static enum status start_from_bias(const struct gemm *g, const struct device *d, const void *bias, void *c) {
    static bias_kernel *const start[N_DTYPES] = {
        [FP64] = gemm_start_from_bias_cuda_fp64, [FP32] = gemm_start_from_bias_cuda_fp32,
        [BF16] = gemm_start_from_bias_cuda_bf16, [FP16] = gemm_start_from_bias_cuda_fp16};
    return start[g->ab_dtype](g, d, bias, c);
}

enum status gemm_cuda_run(const struct gemm *g, const struct device *d, const void *a, const void *b, const void *bias,
                          void *c, void *work) {
    struct operands x = {a, b, bias, NULL, c};
    struct gemm added = *g;
    bool done = false;
    if (g->m == 0 || g->n == 0) return OK;
    if (bias && !(g->fp8 && g->c_dtype == FP32)) TRY(run(g, d, CUBLASLT_EPILOGUE_BIAS, &x, work, &done));
    if (done) return OK;
    if (bias) {
        TRY(start_from_bias(g, d, bias, c));
        added.beta = 1;
        x.bias = NULL;
    }
    return run(&added, d, CUBLASLT_EPILOGUE_DEFAULT, &x, work, &done);
}

bool gemm_cuda_can_keep(const struct gemm *g, const void *pre) { return g->n % 8 == 0 && (uintptr_t)pre % 16 == 0; }

enum status gemm_cuda_gelu(const struct gemm *g, const struct device *d, const void *a, const void *b, const void *bias,
                           void *pre, void *c, void *work, bool *done) {
    uint32_t epilogue = pre ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_BIAS;
    *done = g->m == 0 || g->n == 0;
    if (*done) return OK;
    return run(g, d, epilogue, &(struct operands){a, b, bias, pre, c}, work, done);
}

enum status gemm_cuda_dgelu(const struct gemm *g, const struct device *d, const void *a, const void *b, const void *pre,
                            void *c, void *work, bool *done) {
    *done = g->m == 0 || g->n == 0;
    if (*done) return OK;
    return run(g, d, CUBLASLT_EPILOGUE_DGELU, &(struct operands){a, b, NULL, (void *)(uintptr_t)pre, c}, work, done);
}

enum status gemm_cuda_bias_gradient(const struct gemm *g, const struct device *d, const void *a, const void *b, void *c,
                                    void *sums, void *work, bool *done) {
    *done = false;
    if (g->m == 0 || g->n == 0) return OK;
    return run(g, d, CUBLASLT_EPILOGUE_BGRADB, &(struct operands){a, b, sums, NULL, c}, work, done);
}
