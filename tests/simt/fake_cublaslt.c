/* cuBLASLt for tests on a machine with no GPU: the functions that gemm_cuda.c calls, from the same header.
 *
 * It multiplies as the descriptors say, column-major, by OpenBLAS, and has no notion of row-major callers: a wrong
 * description gives a wrong product. It refuses what the library's documentation (cublasLtMatmul, data types
 * supported) forbids, and more: shapes that do not match, leading dimensions, type combinations, an algorithm used for
 * another problem or for less aligned addresses than it was chosen for, a workspace too small or not aligned to 256
 * bytes.
 *
 * Products of codes with a scale for each block: the scales are read by the documentation's rule from offset to row and
 * block, and each number is its code times its scale, as tensor cores have it. A scale beyond the matrix that is not 0
 * makes the product NaN. GPUs below 10.0 (SIMT_CAPABILITY, fake.h) are offered no algorithm.
 *
 * Like the library it cuts a long k in pieces where the workspace has room, and keeps the partial sums there: other
 * data in the workspace are lost. A call only checks and queues; the product is computed in stream order.
 *
 * CUBLASLT_LOG_LEVEL=1 (the library's own variable) prints why it refused. SIMT_EPILOGUES=0: its heuristics offer no
 * algorithm for a product with a bias or gelu. SIMT_COUNT=1 prints what each product moves, each operand once
 * (docs/simt.md). SIMT_ALGORITHMS=5,1,x: its heuristics offer three algorithms; for events two take 5 and 1 seconds
 * longer, and the third refuses to run; every second one sums k in one piece. SIMT_CUBLASLT_VERSION: the version that
 * it returns. */
#include "lib/device/dtype.h"

#include <cblas.h>
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* The stream queue of the runtime's fake; without it products run at once. */
extern void (*simt_submit)(void *stream, void (*run)(void *), void *context, size_t bytes) __attribute__((weak));
extern void simt_pretend(double seconds) __attribute__((weak));
#pragma weak cudaPointerGetAttributes
#pragma weak cudaGetDeviceProperties

struct layout {
    uint64_t magic;
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t ld;
};
struct operation {
    uint64_t magic;
    cublasComputeType_t compute;
    cudaDataType_t scale;
    int32_t transpose_a, transpose_b;
    uint32_t epilogue;
    const void *bias;          /* with BGRADB its gradient goes there: of D's type, a number for each column of D */
    void *aux;                 /* gelu's input is kept or read here: as D, of its type, with leading dimension aux_ld */
    int64_t aux_ld;
    int8_t fast;               /* sums of fp8 in fewer digits; no effect here */
    const void *a_scale, *b_scale;
    int32_t a_mode, b_mode;    /* CUBLASLT_MATMUL_MATRIX_SCALE_... */
};
struct preference {
    uint64_t magic, workspace;
    uint32_t reduction, align[4];
};
/* The contents of cublasLtMatmulAlgo_t: problem, alignments, workspace, and the number of pieces of k. */
struct algorithm {
    uint64_t magic, problem, workspace;
    uint32_t align[4], pieces, number;    /* number: in the order of the heuristics */
};
_Static_assert(sizeof(struct algorithm) <= sizeof(cublasLtMatmulAlgo_t), "the algorithm must fit the library's struct");

enum { LIBRARY = 0x11b7, LAYOUT = 0x1a707, OPERATION = 0x0beca, PREFERENCE = 0x9eef, ALGORITHM = 0xa190 };
struct cublasLtContext {
    uint64_t magic;
};

static cublasStatus_t refuse(cublasStatus_t code, const char *why) {
    if (getenv("CUBLASLT_LOG_LEVEL")) fprintf(stderr, "cuBLASLt double: %s: %s\n", cublasLtGetStatusName(code), why);
    return code;
}
#define INVALID(why)     refuse(CUBLAS_STATUS_INVALID_VALUE, why)
#define UNSUPPORTED(why) refuse(CUBLAS_STATUS_NOT_SUPPORTED, why)
#define PASS(check)                                                                                                    \
    do {                                                                                                               \
        cublasStatus_t code_ = (check);                                                                                \
        if (code_ != CUBLAS_STATUS_SUCCESS) return code_;                                                              \
    } while (0)

const char *cublasLtGetStatusName(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
        return "unrecognized status";
    }
}

/* ---- descriptors: made, set, destroyed ---- */

static void *object_new(size_t bytes, uint64_t magic) {
    uint64_t *object = calloc(1, bytes);
    if (object) *object = magic;
    return object;
}
/* A destroyed object is no object any more. */
static cublasStatus_t object_destroy(void *object, uint64_t magic) {
    if (!object || *(uint64_t *)object != magic) return INVALID("destroyed twice, or never created");
    *(uint64_t *)object = 0;
    free(object);
    return CUBLAS_STATUS_SUCCESS;
}
static bool is_a(const void *object, uint64_t magic) { return object && *(const uint64_t *)object == magic; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out) {
    *out = object_new(sizeof **out, LIBRARY);
    return *out ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t library) { return object_destroy(library, LIBRARY); }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
    struct layout *l = object_new(sizeof *l, LAYOUT);
    *out = (cublasLtMatrixLayout_t)(void *)l;
    if (!l) return CUBLAS_STATUS_ALLOC_FAILED;
    *l = (struct layout){LAYOUT, type, rows, columns, ld};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { return object_destroy(l, LAYOUT); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType_t scale) {
    struct operation *o = object_new(sizeof *o, OPERATION);
    *out = (cublasLtMatmulDesc_t)(void *)o;
    if (!o) return CUBLAS_STATUS_ALLOC_FAILED;
    *o = (struct operation){.magic = OPERATION, .compute = compute, .scale = scale,
                            .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t o) { return object_destroy(o, OPERATION); }

static cublasStatus_t set(void *field, size_t field_bytes, const void *value, size_t bytes) {
    if (!value || bytes != field_bytes) return INVALID("an attribute of another size");
    memcpy(field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t bytes) {
    struct operation *o = (struct operation *)(void *)desc;
    if (!is_a(o, OPERATION)) return INVALID("no operation");
    switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(&o->transpose_a, sizeof o->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(&o->transpose_b, sizeof o->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(&o->epilogue, sizeof o->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(&o->bias, sizeof o->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return set(&o->aux, sizeof o->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return set(&o->aux_ld, sizeof o->aux_ld, value, bytes);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
        return set(&o->fast, sizeof o->fast, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
        return set(&o->a_scale, sizeof o->a_scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
        return set(&o->b_scale, sizeof o->b_scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
        return set(&o->a_mode, sizeof o->a_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
        return set(&o->b_mode, sizeof o->b_mode, value, bytes);
    default:
        return INVALID("an attribute of an operation that the fake does not know");
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
    struct preference *p = object_new(sizeof *p, PREFERENCE);
    *out = (cublasLtMatmulPreference_t)(void *)p;
    if (!p) return CUBLAS_STATUS_ALLOC_FAILED;
    *p = (struct preference){PREFERENCE, 0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) { return object_destroy(p, PREFERENCE); }

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void *value,
                                                    size_t bytes) {
    struct preference *p = (struct preference *)(void *)preference;
    if (!is_a(p, PREFERENCE)) return INVALID("no preference");
    switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set(&p->workspace, sizeof p->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return set(&p->reduction, sizeof p->reduction, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return set(&p->align[0], sizeof p->align[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return set(&p->align[1], sizeof p->align[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return set(&p->align[2], sizeof p->align[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return set(&p->align[3], sizeof p->align[3], value, bytes);
    default:
        return INVALID("an attribute of a preference that the fake does not know");
    }
}

/* ---- is the problem sound? ---- */

/* D = alpha op(A) op(B) + beta C, (m,n) = (m,k) (k,n) */
struct problem {
    const struct operation *o;
    const struct layout *a, *b, *c, *d;
    uint64_t m, n, k;
};

static bool is_fp8(cudaDataType_t t) { return t == CUDA_R_8F_E4M3 || t == CUDA_R_8F_E5M2; }
static bool is_code(cudaDataType_t t) { return is_fp8(t) || t == CUDA_R_4F_E2M1; }
static size_t size_of(cudaDataType_t t) { return t == CUDA_R_64F ? 8 : t == CUDA_R_32F ? 4 : is_code(t) ? 1 : 2; }
/* Two numbers of E2M1 share a byte. */
static size_t bytes_of(cudaDataType_t t, size_t n) { return t == CUDA_R_4F_E2M1 ? n / 2 : n * size_of(t); }
static enum dtype dtype_of(cudaDataType_t t) {
    if (t == CUDA_R_4F_E2M1) return FP4_E2M1;
    if (is_fp8(t)) return t == CUDA_R_8F_E4M3 ? FP8_E4M3 : FP8_E5M2;
    return t == CUDA_R_64F ? FP64 : t == CUDA_R_32F ? FP32 : t == CUDA_R_16BF ? BF16 : FP16;
}

/* The rows of the documentation's table that Trivium uses. Bias has C's type in all of them. */
static bool types_supported(const struct problem *p) {
    static const struct {
        cublasComputeType_t compute;
        cudaDataType_t scale, ab, c;
    } table[] = {
        {CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F},
        {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
        {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF},
        {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F},
        {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F},
        {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_32F},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (p->o->compute == table[i].compute && p->o->scale == table[i].scale && p->a->type == table[i].ab &&
            p->b->type == table[i].ab && p->c->type == table[i].c && p->d->type == table[i].c)
            return true;
    return false;
}

/* Numbers that share a scale. 0: none */
static int block_of(int32_t mode) {
    if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3) return 16;
    return mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 ? 32 : 0;
}

static int capability(void) {
    struct cudaDeviceProp device = {.major = 10};
    if (cudaGetDeviceProperties) cudaGetDeviceProperties(&device, 0);
    return device.major;
}

/* E2M1 has 16 numbers a scale in E4M3; 8 bits have 32 in E8M0, or one for the matrix. Rows of codes are multiples of 16
 * bytes. */
static cublasStatus_t check_scales(const struct problem *p) {
    int block = block_of(p->o->a_mode);
    bool narrow = p->a->type == CUDA_R_4F_E2M1;
    if (p->o->a_mode != p->o->b_mode || narrow != (p->b->type == CUDA_R_4F_E2M1) || narrow != (block == 16))
        return UNSUPPORTED("this combination of types and modes of scales");
    if (p->o->a_mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F) return CUBLAS_STATUS_SUCCESS;
    if (!block) return UNSUPPORTED("a mode of scales that the fake does not know");
    if (capability() < 10) return UNSUPPORTED("scales of blocks below compute capability 10.0");
    if (p->k % 32) return UNSUPPORTED("codes by blocks in rows that 32 does not divide");
    if (!p->o->a_scale || !p->o->b_scale) return INVALID("a mode of scales without scales");
    return CUBLAS_STATUS_SUCCESS;
}

/* The documentation's requirements of fp8 kernels, on Hopper: TN, 16 divides every size, not E5M2 by E5M2, C bf16 or
 * fp32; a bias with an fp32 C would be of bf16, which Trivium does not have there. */
static cublasStatus_t check_fp8(const struct problem *p) {
    if (p->o->compute != CUBLAS_COMPUTE_32F || p->o->scale != CUDA_R_32F || !is_code(p->b->type) ||
        (p->a->type == CUDA_R_8F_E5M2 && p->b->type == CUDA_R_8F_E5M2) || p->c->type != p->d->type ||
        (p->c->type != CUDA_R_16BF && p->c->type != CUDA_R_32F))
        return UNSUPPORTED("this combination of types with fp8");
    if (p->o->transpose_a != CUBLAS_OP_T || p->o->transpose_b != CUBLAS_OP_N) return UNSUPPORTED("fp8 other than TN");
    if (p->m % 16 || p->n % 16 || p->k % 16) return UNSUPPORTED("fp8 with a size that 16 does not divide");
    if (p->o->epilogue != CUBLASLT_EPILOGUE_DEFAULT && p->c->type == CUDA_R_32F)
        return UNSUPPORTED("an epilogue of fp8 to fp32");
    return check_scales(p);
}

static cublasStatus_t check_matrix(const struct layout *l, uint64_t rows, uint64_t columns) {
    if (l->rows != rows || l->columns != columns) return INVALID("shapes do not meet");
    if (rows == 0 || columns == 0) return INVALID("an empty matrix");
    if (l->ld < (int64_t)rows) return INVALID("a leading dimension smaller than the number of rows");
    if (rows > INT32_MAX || columns > INT32_MAX || l->ld > INT32_MAX) return UNSUPPORTED("a size beyond 31 bits");
    return CUBLAS_STATUS_SUCCESS;
}

static bool has_bias(const struct operation *o) { return o->epilogue & CUBLASLT_EPILOGUE_BIAS; }
static bool has_gelu(const struct operation *o) {
    return o->epilogue == CUBLASLT_EPILOGUE_GELU_BIAS || o->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
static bool has_dgelu(const struct operation *o) { return o->epilogue == CUBLASLT_EPILOGUE_DGELU; }
static bool keeps_aux(const struct operation *o) { return o->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS; }
static bool has_bias_gradient(const struct operation *o) { return o->epilogue == CUBLASLT_EPILOGUE_BGRADB; }
static bool has_aux(const struct operation *o) { return keeps_aux(o) || has_dgelu(o); }

/* Gelu in fp64 is unsupported, so that callers meet a missing algorithm. aux_ld: as the documentation requires. */
static cublasStatus_t check_epilogue(const struct problem *p) {
    if (p->o->epilogue != CUBLASLT_EPILOGUE_DEFAULT && p->o->epilogue != CUBLASLT_EPILOGUE_BIAS && !has_gelu(p->o) &&
        !has_dgelu(p->o) && !has_bias_gradient(p->o))
        return UNSUPPORTED("an epilogue that the fake does not know");
    if ((has_gelu(p->o) || has_dgelu(p->o)) && p->d->type == CUDA_R_64F) return UNSUPPORTED("gelu in fp64");
    if (has_bias_gradient(p->o) && p->d->type == CUDA_R_64F) return UNSUPPORTED("the gradient of a bias in fp64");
    if ((has_bias(p->o) || has_bias_gradient(p->o)) && !p->o->bias) return INVALID("a bias epilogue without a bias");
    if (has_aux(p->o) && !p->o->aux) return INVALID("an aux epilogue without a place for it");
    if (has_aux(p->o) && (p->o->aux_ld < (int64_t)p->m || p->o->aux_ld % 8))
        return INVALID("a leading dimension of aux smaller than the number of rows, or no multiple of 8");
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t check_problem(const struct problem *p) {
    bool ta = p->o->transpose_a == CUBLAS_OP_T, tb = p->o->transpose_b == CUBLAS_OP_T;
    if ((!ta && p->o->transpose_a != CUBLAS_OP_N) || (!tb && p->o->transpose_b != CUBLAS_OP_N))
        return INVALID("neither transposed nor not");
    PASS(check_matrix(p->a, ta ? p->k : p->m, ta ? p->m : p->k));
    PASS(check_matrix(p->b, tb ? p->n : p->k, tb ? p->k : p->n));
    PASS(check_matrix(p->c, p->m, p->n));
    PASS(check_matrix(p->d, p->m, p->n));
    PASS(check_epilogue(p));
    if (is_code(p->a->type)) return check_fp8(p);
    return types_supported(p) ? CUBLAS_STATUS_SUCCESS : UNSUPPORTED("this combination of types");
}

static cublasStatus_t make_problem(cublasLtHandle_t library, cublasLtMatmulDesc_t o, cublasLtMatrixLayout_t a,
                                   cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                   struct problem *p) {
    if (!is_a(library, LIBRARY)) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle");
    if (!is_a(o, OPERATION) || !is_a(a, LAYOUT) || !is_a(b, LAYOUT) || !is_a(c, LAYOUT) || !is_a(d, LAYOUT))
        return INVALID("a descriptor is missing");
    *p = (struct problem){.o = (void *)o, .a = (void *)a, .b = (void *)b, .c = (void *)c, .d = (void *)d};
    p->m = p->d->rows;
    p->n = p->d->columns;
    p->k = p->o->transpose_a == CUBLAS_OP_T ? p->a->rows : p->a->columns;
    return check_problem(p);
}

/* ---- algorithms ---- */

static uint64_t fingerprint(const struct problem *p) {
    const struct layout *l[] = {p->a, p->b, p->c, p->d};
    uint64_t h = p->o->epilogue + 4096 * (uint64_t)p->o->a_mode;
    h = h * 31 + (uint64_t)p->o->compute;
    h = h * 31 + (uint64_t)p->o->transpose_a * 2 + (uint64_t)p->o->transpose_b;
    for (int i = 0; i < 4; i++)
        h = (((h * 0x100000001b3 + l[i]->rows) * 0x100000001b3 + l[i]->columns) * 0x100000001b3 + (uint64_t)l[i]->ld) *
                31 +
            (uint64_t)l[i]->type;
    return h;
}

static uint32_t alignment_of(const void *x) { return (uint32_t)(((uintptr_t)x | 256) & -((uintptr_t)x | 256)); }

/* SIMT_ALGORITHMS' word for an algorithm; NULL: the variable names fewer. */
static const char *pace_of(uint32_t number) {
    const char *words = getenv("SIMT_ALGORITHMS");
    for (uint32_t i = 0; i < number && words; i++) words = strchr(words, ',') ? strchr(words, ',') + 1 : NULL;
    return words;
}

/* k in two pieces where there is workspace for both partial products, else in one. */
static struct algorithm algorithm_of(const struct problem *p, const struct preference *wish, uint32_t number) {
    struct algorithm a = {.magic = ALGORITHM, .problem = fingerprint(p), .pieces = 1, .number = number};
    uint64_t partial_products = 2 * p->m * p->n * size_of(p->o->scale);
    memcpy(a.align, wish->align, sizeof a.align);
    if (p->k > 1 && partial_products <= wish->workspace && wish->reduction & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE &&
        number % 2 == 0) {
        a.pieces = 2;
        a.workspace = partial_products;
    }
    return a;
}

static void answer(const struct algorithm *a, cublasLtMatmulHeuristicResult_t *result) {
    memset(result, 0, sizeof *result);
    memcpy(&result->algo, a, sizeof *a);
    result->workspaceSize = a->workspace;
    result->state = CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t library, cublasLtMatmulDesc_t o,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int n_wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *n_found) {
    struct problem p;
    const struct preference *wish = (void *)preference;
    *n_found = 0;
    PASS(make_problem(library, o, a, b, c, d, &p));
    if (!is_a(wish, PREFERENCE) || n_wanted < 1) return INVALID("no preference, or no result wanted");
    const char *epilogues = getenv("SIMT_EPILOGUES");
    if (p.o->epilogue != CUBLASLT_EPILOGUE_DEFAULT && epilogues && *epilogues == '0')
        return UNSUPPORTED("a product with an epilogue: SIMT_EPILOGUES=0");
    do {
        struct algorithm next = algorithm_of(&p, wish, (uint32_t)*n_found);
        answer(&next, &results[(*n_found)++]);
    } while (*n_found < n_wanted && pace_of((uint32_t)*n_found));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t library, cublasLtMatmulDesc_t o, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result) {
    struct problem p;
    struct algorithm algorithm;
    PASS(make_problem(library, o, a, b, c, d, &p));
    memcpy(&algorithm, algo, sizeof algorithm);
    if (algorithm.magic != ALGORITHM || algorithm.problem != fingerprint(&p))
        return INVALID("an algorithm for another problem");
    answer(&algorithm, result);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) {
    const char *version = getenv("SIMT_CUBLASLT_VERSION");
    return version ? (size_t)atol(version) : 130100;
}

/* ---- the product ---- */

/* Everything by value: the caller may change or destroy its descriptors before the stream comes to it. */
struct product {
    struct operation o;
    struct layout a_layout, b_layout, c_layout, d_layout;
    const void *a, *b, *c;
    void *d, *workspace;
    double alpha, beta;
    blasint m, n, k, pieces;
    double pretended_s;
};

static void *must(void *memory) {
    if (memory) return memory;
    fprintf(stderr, "cuBLASLt double: no memory\n");
    abort();
}

/* A matrix for BLAS: 16-bit and 8-bit elements are widened, column by column; fp32 and fp64 are used in place. */
struct operand {
    const void *x;
    blasint ld;
    void *owned;
};
static struct operand operand_of(const void *x, const struct layout *l) {
    if (size_of(l->type) > 2) return (struct operand){x, (blasint)l->ld, NULL};
    float *wide = must(malloc(l->rows * l->columns * sizeof *wide));
    for (uint64_t j = 0; j < l->columns; j++)
        for (uint64_t i = 0; i < l->rows; i++)
            wide[j * l->rows + i] = (float)dtype_get(x, dtype_of(l->type), (int64_t)(j * (uint64_t)l->ld + i));
    return (struct operand){wide, (blasint)l->rows, wide};
}

/* Bytes of a matrix's scales: whole tiles of 128 columns and 4 blocks (a column of this library is summed over). */
static uint64_t scale_bytes(const struct layout *l, int block) {
    return (l->columns + 127) / 128 * 128 * ((l->rows / (uint64_t)block + 3) / 4 * 4);
}

static float scale_value(int block, uint8_t code) {
    return block == 16 ? e4m3_to_float(code) : code == 255 ? NAN : ldexpf(1, code - 127);
}

/* In a tile, the documentation says, outer = offset % 16 / 4 * 32 + offset / 16, inner = offset % 4. */
static void scale_operand(const struct operand *x, const struct layout *l, const uint8_t *scale, int block) {
    float *wide = x->owned, beyond = 0;
    uint64_t blocks = l->rows / (uint64_t)block, tiles_in_a_row = (blocks + 3) / 4;
    for (uint64_t at = 0; at < scale_bytes(l, block); at++) {
        uint64_t tile = at / 512, offset = at % 512;
        uint64_t outer = tile / tiles_in_a_row * 128 + offset % 16 / 4 * 32 + offset / 16;
        uint64_t inner = tile % tiles_in_a_row * 4 + offset % 4;
        bool there = outer < l->columns && inner < blocks;
        if (!there && scale[at] != 0) beyond = NAN;
        for (int i = 0; i < block && there; i++)
            wide[outer * l->rows + inner * (uint64_t)block + (uint64_t)i] *= scale_value(block, scale[at]);
    }
    wide[0] += beyond;
}

static const void *skip(const struct operand *x, size_t element, bool along_columns, blasint n) {
    return (const char *)x->x + element * (size_t)(along_columns ? (int64_t)n * x->ld : n);
}

/* sums (m,n) = op(A)[:, first..first+k) op(B)[first..first+k, :) */
static void multiply(const struct product *p, const struct operand *a, const struct operand *b, blasint first,
                     blasint k, void *sums) {
    CBLAS_TRANSPOSE ta = p->o.transpose_a == CUBLAS_OP_T ? CblasTrans : CblasNoTrans;
    CBLAS_TRANSPOSE tb = p->o.transpose_b == CUBLAS_OP_T ? CblasTrans : CblasNoTrans;
    size_t element = size_of(p->o.scale);
    const void *from_a = skip(a, element, ta == CblasNoTrans, first),
               *from_b = skip(b, element, tb == CblasTrans, first);
    if (element == 8) cblas_dgemm(CblasColMajor, ta, tb, p->m, p->n, k, 1, from_a, a->ld, from_b, b->ld, 0, sums, p->m);
    else cblas_sgemm(CblasColMajor, ta, tb, p->m, p->n, k, 1, from_a, a->ld, from_b, b->ld, 0, sums, p->m);
}

/* The library's gelu is the tanh form. */
static double gelu(double x) { return x / 2 * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))); }

static double gelu_derivative(double x) {
    const double k = 0.79788456080286535588, c = 0.044715, t = tanh(k * (x + c * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * k * (1 + 3 * c * x * x);
}

/* x = alpha (the pieces' sum) + beta C + bias; D = x, gelu(x) or x gelu'(aux), rounded once. C is not read
 * when beta is 0. */
static void finish(const struct product *p, const void *sums) {
    enum dtype sum = dtype_of(p->o.scale), to = dtype_of(p->d_layout.type);
    int64_t piece = (int64_t)p->m * p->n;
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++) {
            double x = dtype_get(sums, sum, j * p->m + i);
            if (p->pieces == 2) x += dtype_get(sums, sum, piece + j * p->m + i);
            x *= p->alpha;
            if (p->beta != 0) x += p->beta * dtype_get(p->c, to, j * p->c_layout.ld + i);
            if (has_bias(&p->o)) x += dtype_get(p->o.bias, to, i);
            if (keeps_aux(&p->o)) dtype_set(p->o.aux, to, j * p->o.aux_ld + i, x);
            if (has_gelu(&p->o)) x = gelu(x);
            if (has_dgelu(&p->o)) x *= gelu_derivative(dtype_get(p->o.aux, to, j * p->o.aux_ld + i));
            dtype_set(p->d, to, j * p->d_layout.ld + i, x);
        }
}

/* sums[j] = sum over l of op(B)[l,j], set */
static void sum_columns(const struct product *p, const struct operand *b) {
    enum dtype sum = dtype_of(p->o.scale), to = dtype_of(p->d_layout.type);
    bool transposed = p->o.transpose_b == CUBLAS_OP_T;
    for (int64_t j = 0; j < p->n; j++) {
        double total = 0;
        for (int64_t l = 0; l < p->k; l++)
            total += dtype_get(b->x, sum, transposed ? l * b->ld + j : j * b->ld + l);
        dtype_set((void *)(uintptr_t)p->o.bias, to, j, total);
    }
}

static void run(void *context) {
    const struct product *p = context;
    struct operand a = operand_of(p->a, &p->a_layout), b = operand_of(p->b, &p->b_layout);
    int block = block_of(p->o.a_mode);
    if (block) {
        scale_operand(&a, &p->a_layout, p->o.a_scale, block);
        scale_operand(&b, &p->b_layout, p->o.b_scale, block);
    }
    size_t piece = (size_t)p->m * (size_t)p->n * size_of(p->o.scale);
    char *owned = p->pieces == 2 ? NULL : must(malloc(piece)), *sums = owned ? owned : p->workspace;
    blasint half = p->pieces == 2 ? p->k / 2 : p->k;
    multiply(p, &a, &b, 0, half, sums);
    if (p->pieces == 2) multiply(p, &a, &b, half, p->k - half, sums + piece);
    finish(p, sums);
    if (has_bias_gradient(&p->o)) sum_columns(p, &b);
    if (p->pretended_s > 0 && &simt_pretend && simt_pretend) simt_pretend(p->pretended_s);
    free(a.owned);
    free(b.owned);
    free(owned);
}

/* ---- are the addresses sound? ---- */

struct span {
    const char *at;
    size_t bytes;
};
static struct span span_of(const void *x, const struct layout *l) {
    return (struct span){x, bytes_of(l->type, (l->columns - 1) * (size_t)l->ld + l->rows)};
}
static bool overlap(struct span x, struct span y) { return x.at < y.at + y.bytes && y.at < x.at + x.bytes; }

/* On a GPU host memory crashes a kernel. Checked only if the runtime's fake is linked. */
static bool on_device(const void *x) {
    struct cudaPointerAttributes attributes;
    if (!cudaPointerGetAttributes) return true;
    return cudaPointerGetAttributes(&attributes, x) == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
}

/* Aux is written or read, whole, while operands are read and D is written. */
static cublasStatus_t check_aux(const struct product *p, struct span written, struct span work) {
    struct layout like_d = p->d_layout;
    like_d.ld = p->o.aux_ld;
    struct span aux = span_of(p->o.aux, &like_d);
    if (alignment_of(p->o.aux) < 16 || !on_device(p->o.aux))
        return INVALID("aux less aligned than 16, or not in device memory");
    if (overlap(aux, written) || overlap(aux, work) || overlap(aux, span_of(p->a, &p->a_layout)) ||
        overlap(aux, span_of(p->b, &p->b_layout)))
        return INVALID("aux overlaps an operand");
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t check_scale_addresses(const struct product *p, struct span written, struct span work) {
    int block = block_of(p->o.a_mode);
    for (int i = 0; i < 2; i++) {
        const void *at = i ? p->o.b_scale : p->o.a_scale;
        struct span scales = {at, scale_bytes(i ? &p->b_layout : &p->a_layout, block)};
        if ((uintptr_t)at % 16 || !on_device(at))
            return INVALID("scales less aligned than 16, or not in device memory");
        if (overlap(scales, written) || overlap(scales, work) || overlap(scales, span_of(p->a, &p->a_layout)) ||
            overlap(scales, span_of(p->b, &p->b_layout)))
            return INVALID("scales that overlap an operand");
    }
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t check_addresses(const struct product *p, const struct algorithm *algorithm,
                                      size_t workspace_bytes) {
    const void *operands[] = {p->a, p->b, p->c, p->d};
    struct span written = span_of(p->d, &p->d_layout), work = {p->workspace, algorithm->workspace};
    for (int i = 0; i < 4; i++) {
        if (!operands[i] || !on_device(operands[i])) return INVALID("an operand that is not in device memory");
        if (alignment_of(operands[i]) < algorithm->align[i])
            return INVALID("an operand less aligned than was declared");
        if ((uintptr_t)operands[i] % size_of(i < 2 ? p->a_layout.type : p->d_layout.type))
            return INVALID("a misaligned operand");
    }
    struct span bias = {p->o.bias, (size_t)p->n * size_of(p->d_layout.type)};
    if (has_bias_gradient(&p->o) && (overlap(bias, written) || overlap(bias, span_of(p->a, &p->a_layout)) ||
                                     overlap(bias, span_of(p->b, &p->b_layout)) ||
                                     overlap(bias, (struct span){p->workspace, workspace_bytes})))
        return INVALID("the gradient of a bias over an operand, or in the workspace");
    if ((has_bias(&p->o) || has_bias_gradient(&p->o)) && (alignment_of(p->o.bias) < 16 || !on_device(p->o.bias)))
        return INVALID("a bias that 16-byte loads cannot read, or not in device memory");
    if (has_aux(&p->o)) PASS(check_aux(p, written, work));
    if (block_of(p->o.a_mode)) PASS(check_scale_addresses(p, written, work));
    if (workspace_bytes < algorithm->workspace) return INVALID("less workspace than the algorithm needs");
    if (workspace_bytes > 0 && ((uintptr_t)p->workspace % 256 || !on_device(p->workspace)))
        return INVALID("a workspace not aligned to 256 bytes, or not in device memory");
    if (overlap(written, span_of(p->a, &p->a_layout)) || overlap(written, span_of(p->b, &p->b_layout)) ||
        overlap(written, work) || overlap(work, span_of(p->a, &p->a_layout)) ||
        overlap(work, span_of(p->b, &p->b_layout)))
        return INVALID("operands that overlap");
    return CUBLAS_STATUS_SUCCESS;
}

static double scalar(const void *x, cudaDataType_t type) {
    return type == CUDA_R_64F ? *(const double *)x : *(const float *)x;
}

/* What a product moves, with perfect caches. C is read where beta is not 0, and a bias is read once. */
static void show_traffic(const struct product *p) {
    const char *wanted = getenv("SIMT_COUNT");
    if (!wanted || *wanted != '1') return;
    size_t to = size_of(p->d_layout.type), written = (size_t)p->m * (size_t)p->n * to;
    size_t read = bytes_of(p->a_layout.type, (size_t)p->m * (size_t)p->k) +
                  bytes_of(p->b_layout.type, (size_t)p->k * (size_t)p->n) + (p->beta != 0 ? written : 0);
    int block = block_of(p->o.a_mode);
    if (block) read += scale_bytes(&p->a_layout, block) + scale_bytes(&p->b_layout, block);
    if (has_bias(&p->o)) read += (size_t)p->m * to;
    if (has_dgelu(&p->o)) read += written;
    size_t kept = keeps_aux(&p->o) ? written : has_bias_gradient(&p->o) ? (size_t)p->n * to : 0;
    fprintf(stderr, "simt: cublasLtMatmul %d x %d x %d, epilogue %u\nsimt:   load %zu bytes\nsimt:   store %zu bytes\n",
            (int)p->m, (int)p->n, (int)p->k, p->o.epilogue, read, written + kept);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t library, cublasLtMatmulDesc_t o, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
    struct problem p;
    struct algorithm algorithm;
    PASS(make_problem(library, o, a_layout, b_layout, c_layout, d_layout, &p));
    if (!alpha || !beta || !algo) return INVALID("no scalars, or no algorithm");
    memcpy(&algorithm, algo, sizeof algorithm);
    if (algorithm.magic != ALGORITHM || algorithm.problem != fingerprint(&p))
        return INVALID("an algorithm for another problem");
    const char *pace = pace_of(algorithm.number);
    if (pace && *pace == 'x') return UNSUPPORTED("an algorithm that SIMT_ALGORITHMS refuses");
    struct product product = {
        *p.o,
        *p.a,
        *p.b,
        *p.c,
        *p.d,
        a,
        b,
        c,
        d,
        workspace,
        scalar(alpha, p.o->scale),
        scalar(beta, p.o->scale),
        (blasint)p.m,
        (blasint)p.n,
        (blasint)p.k,
        (blasint)algorithm.pieces,
        pace ? atof(pace) : 0,
    };
    PASS(check_addresses(&product, &algorithm, workspace_bytes));
    show_traffic(&product);
    if (&simt_submit && simt_submit) simt_submit(stream, run, &product, sizeof product);
    else run(&product);
    return CUBLAS_STATUS_SUCCESS;
}
