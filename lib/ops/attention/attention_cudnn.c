#include "lib/ops/attention/attention_cudnn.h"
#include "lib/ops/attention/attention.h"

#ifndef TRIVIUM_CUDNN
/* Built without cuDNN (for tests/simt, which has no fake of it): the project's own kernels do everything. */
bool attention_cudnn_planned(const struct call *call, enum row_kind kind) {
    (void)call, (void)kind;
    return false;
}
int64_t attention_cudnn_work(const struct call *call, enum row_kind kind) {
    (void)call, (void)kind;
    return 0;
}
enum status attention_cudnn_check(const struct call *call) {
    if (call->on != DEVICE_CUDA || call->step->attention.core != ATTENTION_CORE_CUDNN) return OK;
    return FAIL(E_CONFIG, "attention-core=cudnn, and this build has no cuDNN; use attention-core own or auto");
}
const char *attention_cudnn_text(enum dtype dtype, int64_t T, int64_t D, double dropout) {
    (void)dtype, (void)T, (void)D, (void)dropout;
    return "own kernels (this build has no cuDNN)";
}
enum status attention_cudnn_usable(const struct call *call, enum row_kind kind, bool *out) {
    (void)kind;
    *out = false;
    return attention_cudnn_check(call);
}
enum status attention_cudnn_forward(const struct call *call) {
    (void)call;
    return FAIL(E_INTERNAL, "this build has no cuDNN");
}
enum status attention_cudnn_backward(const struct call *call) {
    (void)call;
    return FAIL(E_INTERNAL, "this build has no cuDNN");
}
#else

#include "lib/base/log.h"
#include "lib/ops/attention/attention_graph_cudnn.h"
#include <float.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- which calls ---- */

/* T in whole tiles and heads of whole 16 bytes: what every version of cuDNN's kernels does. */
static bool sizes_fit(int64_t T, int64_t D, double dropout) {
    return dropout == 0 && D % 8 == 0 && D <= 128 && T % 64 == 0;
}
static bool dtype_fits(enum dtype dtype) { return dtype == BF16 || dtype == FP16; }
static bool shape_fits(const struct call *call) {
    struct attention_sizes s = attention_sizes(call);
    return call->step->n_in == 1 && sizes_fit(s.T, s.D, call->step->dropout.p);
}
#define WHAT_FITS                                                                                                      \
    "bf16 and fp16, dropout 0, T a multiple of 64, D a multiple of 8 up to 128, keys that no heads share"

const char *attention_cudnn_text(enum dtype dtype, int64_t T, int64_t D, double dropout) {
    static char text[32];
    if (!sizes_fit(T, D, dropout) || !dtype_fits(dtype)) return "own kernels (cuDNN does " WHAT_FITS ")";
    size_t v = cudnnGetVersion();   /* 91900 */
    snprintf(text, sizeof text, "cuDNN %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    return text;
}

bool attention_cudnn_planned(const struct call *call, enum row_kind kind) {
    enum dtype dtype = op_dtype(call);
    bool row = kind == ROW_FORWARD || kind == ROW_REPLAY || kind == ROW_BACKWARD_INPUT;
    return call->step->attention.core != ATTENTION_CORE_OWN && call->on == DEVICE_CUDA && row && dtype_fits(dtype) &&
           shape_fits(call);
}

static enum status refuse(const struct call *call, const char *why) {
    struct attention_sizes s = attention_sizes(call);
    return FAIL(E_CONFIG, "attention-core=cudnn, and %s: %s, T %lld, D %lld, dropout %g; it does " WHAT_FITS
                          "; or use attention-core own or auto",
                why, dtype_name(op_dtype(call)), (long long)s.T, (long long)s.D, call->step->dropout.p);
}

enum status attention_cudnn_check(const struct call *call) {
    if (call->on != DEVICE_CUDA || call->step->attention.core != ATTENTION_CORE_CUDNN || shape_fits(call)) return OK;
    return refuse(call, "cuDNN does not do this");
}

/* For (B,T,H,D): dq summed in fp32 and once more in the element type, some numbers for each query, and change. */
int64_t attention_cudnn_work(const struct call *call, enum row_kind kind) {
    struct attention_sizes s = attention_sizes(call);
    if (!attention_cudnn_planned(call, kind)) return 0;
    return kind == ROW_BACKWARD_INPUT ? s.B * s.T * s.H * (6 * s.D + 16) + 4096 : 4096;
}

/* ---- plans, one for each shape and row ---- */

struct cached {
    int device;
    bool backward;
    enum dtype dtype;
    struct attention_sizes s;
    struct attention_graph graph;
    cudnnBackendDescriptor_t plan;   /* NULL: cuDNN has none */
    struct cached *next;
};

/* A handle belongs to the device that is current when it is made. One process has one device. */
static enum status handle_of(const struct device *device, cudnnHandle_t *out) {
    static cudnnHandle_t handle;
    cudnnStatus_t status = handle ? CUDNN_STATUS_SUCCESS : cudnnCreate(&handle);
    if (status == CUDNN_STATUS_SUCCESS) status = cudnnSetStream(handle, device->stream);
    if (status != CUDNN_STATUS_SUCCESS)
        return FAIL(E_DEVICE, "cuDNN on %s: %s", device->name, cudnnGetErrorString(status));
    *out = handle;
    return OK;
}

static bool same_sizes(const struct attention_sizes *a, const struct attention_sizes *b) {
    return a->B == b->B && a->T == b->T && a->H == b->H && a->D == b->D;
}

/* Which kernel runs, once for each row; and every time that it is not the one that cuDNN thinks fastest. */
static void tell_choice(const struct cached *c, const struct attention_choice *choice) {
    static bool told[2];
    const char *row = c->backward ? "backward" : "forward";
    if (c->plan && choice->passed_over >= 0)
        log_warn("attention %s: cuDNN's first choice, engine %lld, makes no plan (%s); engine %lld runs, slower", row,
                 (long long)choice->passed_over,
                 choice->why ? cudnnGetErrorString(choice->why) : "it wants more workspace", (long long)choice->engine);
    else if (c->plan && !told[c->backward])
        log_info("attention %s: cuDNN %zu, engine %lld", row, cudnnGetVersion(), (long long)choice->engine);
    told[c->backward] = true;
}

static enum status make_plan(struct cached *c, const struct call *call, enum row_kind kind) {
    cudnnHandle_t handle = NULL;
    TRY(handle_of(call->device, &handle));
    TRY(attention_graph_build(&c->graph, &c->s, c->dtype == BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF, c->backward,
                              handle));
    struct attention_choice choice;
    TRY(attention_graph_plan(&c->graph, handle, NULL, attention_cudnn_work(call, kind), &choice));
    c->plan = choice.plan;
    tell_choice(c, &choice);
    return OK;
}

/* What failed and for what, once for each shape; the own kernels go on. */
static void tell_failure(const struct cached *c, const char *why) {
    log_info("cuDNN makes no plan for attention %s of (B %lld, T %lld, H %lld, D %lld) %s; our own kernels do it%s%s",
             c->backward ? "backward" : "forward", (long long)c->s.B, (long long)c->s.T, (long long)c->s.H,
             (long long)c->s.D, dtype_name(c->dtype), *why ? ": " : "", why);
}

static struct cached *plan_of(const struct call *call, enum row_kind kind) {
    static struct cached *all;
    bool backward = kind == ROW_BACKWARD_INPUT;
    struct attention_sizes s = attention_sizes(call);
    for (struct cached *c = all; c; c = c->next)
        if (c->device == call->device->index && c->backward == backward && c->dtype == op_dtype(call) &&
            same_sizes(&c->s, &s))
            return c;
    struct cached *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->device = call->device->index, c->backward = backward, c->dtype = op_dtype(call), c->s = s;
    if (make_plan(c, call, kind) != OK) c->plan = NULL;
    if (!c->plan) {
        tell_failure(c, status_message());
        status_clear();
    }
    c->next = all;
    return all = c;
}

enum status attention_cudnn_usable(const struct call *call, enum row_kind kind, bool *out) {
    bool planned = attention_cudnn_planned(call, kind) && !(call->accumulate & 1);
    struct cached *c = planned ? plan_of(call, kind) : NULL;
    *out = c && c->plan;
    if (!*out && call->step->attention.core == ATTENTION_CORE_CUDNN)
        return refuse(call, planned ? "cuDNN makes no plan for this on this GPU" : "cuDNN does not do this");
    return OK;
}

/* ---- running one ---- */

enum { MOST_OPERANDS = N_OPERANDS };

struct variant { int64_t names[MOST_OPERANDS]; void *addresses[MOST_OPERANDS]; int n; };

static void give(struct variant *v, enum attention_operand name, const void *address) {
    v->names[v->n] = name;
    v->addresses[v->n++] = (void *)(uintptr_t)address;
}

static cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, struct variant *v, void *work) {
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t s = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (!s) s = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, v->n, v->names);
    if (!s)
        s = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, v->n,
                                     v->addresses);
    if (!s) s = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &work);
    if (!s) s = cudnnBackendFinalize(pack);
    if (!s) s = cudnnBackendExecute(handle, plan, pack);
    if (pack) cudnnBackendDestroyDescriptor(pack);
    return s;
}

/* q, k, v or their gradients: part `part` of (B,T,3,H,D). */
static void *part_of(const struct tensor *qkv, const struct attention_sizes *s, int part) {
    return (char *)qkv->data + part * s->H * s->D * (int64_t)dtype_size(qkv->type->dtype);
}

static enum status run(const struct call *call, enum row_kind kind) {
    struct attention_sizes s = attention_sizes(call);
    struct cached *c = plan_of(call, kind);
    float scale = (float)s.scale, masked = -FLT_MAX;
    struct variant v = {.n = 0};
    cudnnHandle_t handle = NULL;
    if (!c || !c->plan) return FAIL(E_INTERNAL, "attention by cuDNN without a plan");
    TRY(handle_of(call->device, &handle));
    for (int i = 0; i < 3; i++) give(&v, OPERAND_Q + i, part_of(&call->in[0], &s, i));
    give(&v, OPERAND_Y, call->out[0].data);
    give(&v, OPERAND_LSE, call->out[1].data);
    give(&v, OPERAND_SCALE, &scale);
    give(&v, OPERAND_MASKED, &masked);
    if (kind == ROW_BACKWARD_INPUT) {
        give(&v, OPERAND_DY, call->dout[0].data);
        for (int i = 0; i < 3; i++) give(&v, OPERAND_DQ + i, part_of(&call->din[0], &s, i));
    }
    cudnnStatus_t status = execute(handle, c->plan, &v, call->work);
    if (status != CUDNN_STATUS_SUCCESS)
        return FAIL(E_DEVICE, "attention by cuDNN: %s; use attention-core own", cudnnGetErrorString(status));
    return OK;
}

enum status attention_cudnn_forward(const struct call *call) { return run(call, ROW_FORWARD); }
enum status attention_cudnn_backward(const struct call *call) { return run(call, ROW_BACKWARD_INPUT); }
#endif
