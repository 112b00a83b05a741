#include "lib/ops/attention/attention_cudnn.h"
#include "lib/ops/attention/attention.h"

#ifndef TRIVIUM_CUDNN
/* Built without cuDNN (for tests/simt, which has no fake of it): the project's own kernels do everything. */
bool attention_cudnn_planned(const struct attention_pair *p, bool backward) {
    (void)p, (void)backward;
    return false;
}
int64_t attention_cudnn_work(const struct attention_pair *p, bool backward) {
    (void)p, (void)backward;
    return 0;
}
enum status attention_cudnn_check(const struct call *call) {
    if (call->on != DEVICE_CUDA || call->step->attention.core != ATTENTION_CORE_CUDNN) return OK;
    return FAIL(E_CONFIG, "attention-core=cudnn, and this build has no cuDNN; use attention-core own or auto");
}
const char *attention_cudnn_name(void) { return "no cuDNN"; }
enum status attention_cudnn_usable(const struct attention_pair *p, bool backward, struct attention_verdict *out) {
    (void)backward;
    *out = (struct attention_verdict){false, p->core == ATTENTION_CORE_OWN ? NULL : "this build has no cuDNN", -1};
    return OK;
}
enum status attention_cudnn_forward(const struct attention_pair *p) {
    (void)p;
    return FAIL(E_INTERNAL, "this build has no cuDNN");
}
enum status attention_cudnn_backward(const struct attention_pair *p) {
    (void)p;
    return FAIL(E_INTERNAL, "this build has no cuDNN");
}
#else

#include "lib/base/log.h"
#include "lib/ops/attention/attention_graph_cudnn.h"
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pairs that cuDNN runs ---- */

/* The limits of cuDNN's kernels in every version: T in whole tiles, heads of whole 16 bytes. Backward of more than 128
 * channels needs Hopper. */
static int64_t most_D(bool backward) { return backward && !TRIVIUM_HOPPER ? 128 : 256; }
static bool sizes_fit(int64_t T, int64_t D, double dropout, bool backward) {
    return dropout == 0 && D % 8 == 0 && D <= most_D(backward) && T % 64 == 0;
}
static bool dtype_fits(enum dtype dtype) { return dtype == BF16 || dtype == FP16; }
/* The probability of the rule, also in evaluation, which drops nothing but runs the planned kernels. */
static double probability(const struct attention_pair *p) { return (double)p->dropout.threshold * 0x1p-32; }
static bool pair_fits(const struct attention_pair *p, bool backward) {
    return sizes_fit(p->Tq, p->D, probability(p), backward) && p->Tk % 64 == 0 &&
           p->view.window == 0 && p->view.cap == 0 && !p->view.sinks && !(backward && (p->shared_by > 1 || p->sums));
}
#define WHAT_FITS                                                                                                      \
    "bf16 and fp16, dropout 0, T a multiple of 64, D a multiple of 8 up to 256 (before Hopper backward 128), "         \
    "keys that no heads share, no window, cap or sinks"

const char *attention_cudnn_name(void) {
    static char text[32];
    size_t v = cudnnGetVersion();   /* 91900 */
    snprintf(text, sizeof text, "cuDNN %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    return text;
}

bool attention_cudnn_planned(const struct attention_pair *p, bool backward) {
    return p->core != ATTENTION_CORE_OWN && dtype_fits(p->dtype) && pair_fits(p, backward);
}

/* Why cuDNN is not asked; NULL: it is asked, or our own kernels were asked for. */
static const char *why_unplanned(const struct attention_pair *p, bool backward) {
    if (p->core == ATTENTION_CORE_OWN) return NULL;
    if (backward && (p->sums || p->add_queries || p->add_keys)) return "cuDNN does not add to gradients";
    return attention_cudnn_planned(p, backward) ? NULL : "cuDNN does " WHAT_FITS;
}

static enum status refuse(const struct attention_pair *p, const char *why) {
    return FAIL(E_CONFIG, "attention-core=cudnn, and %s: %s, T %lld, D %lld, dropout %g; it does " WHAT_FITS
                          "; or use attention-core own or auto",
                why, dtype_name(p->dtype), (long long)p->Tq, (long long)p->D, probability(p));
}

enum status attention_cudnn_check(const struct call *call) {
    if (call->on != DEVICE_CUDA || call->step->attention.core != ATTENTION_CORE_CUDNN) return OK;
    const struct attention_pair p = attention_pair_of(call);
    return pair_fits(&p, true) ? OK : refuse(&p, "cuDNN does not do this");
}

/* dq is summed in fp32, in addition to cuDNN's workspace. In backward Hopper's kernel needs 16 bytes of workspace for
 * each query of each head, and CHANGE bytes. The kernel of older GPUs, if the build is for them too and D is at most
 * 128, needs as much as dq in fp32 again. */
enum { CHANGE = 4096 };
static int64_t dq_sum_bytes(const struct attention_pair *p) { return p->B * p->Tq * p->H * p->D * 4; }
static int64_t own_bytes(const struct attention_pair *p, bool backward) { return backward ? dq_sum_bytes(p) : 0; }
int64_t attention_cudnn_workspace(const struct attention_pair *p, bool backward) {
    if (!backward) return CHANGE;
    return p->B * p->Tq * p->H * 16 + (TRIVIUM_BEFORE_HOPPER && p->D <= 128 ? dq_sum_bytes(p) : 0) + CHANGE;
}
int64_t attention_cudnn_work(const struct attention_pair *p, bool backward) {
    return attention_cudnn_planned(p, backward) ? own_bytes(p, backward) + attention_cudnn_workspace(p, backward) : 0;
}

/* ---- plans, one for each shape and row ---- */

struct cached {
    int device;
    bool backward;
    enum dtype dtype;
    struct attention_graph_shape s;
    struct attention_graph graph;
    cudnnBackendDescriptor_t plan;   /* NULL: cuDNN has no plan */
    char why[160];                   /* why cuDNN has none */
    int64_t engine;
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

/* Why the plan is not cuDNN's first choice. */
static const char *why_not(const struct attention_choice *choice, int64_t planned) {
    static char text[128];
    if (choice->n_configs == 0) return "cuDNN's heuristics name no kernel";
    if (choice->why) return cudnnGetErrorString(choice->why);
    snprintf(text, sizeof text, "cuDNN needs %lld bytes of workspace, %lld are planned", (long long)choice->wanted,
             (long long)planned);
    return text;
}

static const char *direction(bool backward) { return backward ? "backward" : "forward"; }

/* Report each time that another kernel runs than cuDNN's first choice. */
static void tell_passed_over(const struct cached *c, const struct attention_choice *choice, int64_t planned) {
    if (c->plan && choice->passed_over >= 0)
        log_warn("attention %s: cuDNN's first choice, engine %lld, makes no plan (%s); engine %lld runs, slower",
                 direction(c->backward), (long long)choice->passed_over, why_not(choice, planned),
                 (long long)choice->engine);
}

static enum status make_plan(struct cached *c, const struct attention_pair *p) {
    cudnnHandle_t handle = NULL;
    TRY(handle_of(p->device, &handle));
    TRY(attention_graph_build(&c->graph, &c->s, c->dtype == BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF, c->backward,
                              handle));
    struct attention_choice choice;
    int64_t planned = attention_cudnn_workspace(p, c->backward);
    TRY(attention_graph_plan(&c->graph, handle, NULL, planned, &choice));
    c->plan = choice.plan;
    c->engine = choice.engine;
    tell_passed_over(c, &choice, planned);
    return c->plan ? OK : FAIL(E_DEVICE, "%s", why_not(&choice, planned));
}

/* Report once for each shape what failed; our own kernels run instead. */
static void tell_failure(const struct cached *c) {
    log_warn("cuDNN makes no plan for attention %s of (B %lld, T %lld and %lld, H %lld, D %lld) %s; our own kernels do "
             "it: %s", direction(c->backward), (long long)c->s.B, (long long)c->s.Tq, (long long)c->s.Tk,
             (long long)c->s.H, (long long)c->s.D, dtype_name(c->dtype), c->why);
}

static struct cached *plan_of(const struct attention_pair *p, bool backward) {
    static struct cached *all;
    const struct attention_graph_shape s = attention_graph_shape(p);
    for (struct cached *c = all; c; c = c->next)
        if (c->device == p->device->index && c->backward == backward && c->dtype == p->dtype &&
            !memcmp(&c->s, &s, sizeof s))
            return c;
    struct cached *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->device = p->device->index, c->backward = backward, c->dtype = p->dtype, c->s = s;
    if (make_plan(c, p) != OK) c->plan = NULL;
    if (!c->plan) {
        snprintf(c->why, sizeof c->why, "%s", status_message());
        status_clear();
        tell_failure(c);
    }
    c->next = all;
    return all = c;
}

enum status attention_cudnn_usable(const struct attention_pair *p, bool backward, struct attention_verdict *out) {
    *out = (struct attention_verdict){false, why_unplanned(p, backward), -1};
    const bool asked = p->core != ATTENTION_CORE_OWN && !out->why;
    const struct cached *c = asked ? plan_of(p, backward) : NULL;
    if (c && c->plan) *out = (struct attention_verdict){true, NULL, c->engine};
    else if (asked) out->why = c ? c->why : "there is no memory to note a plan";
    if (!out->by_cudnn && p->core == ATTENTION_CORE_CUDNN)
        return refuse(p, asked ? "cuDNN makes no plan for this on this GPU" : "cuDNN does not do this");
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

static enum status run(const struct attention_pair *p, bool backward) {
    struct cached *c = plan_of(p, backward);
    float scale = (float)p->scale, masked = -FLT_MAX, one = 1;
    char *work = p->work;
    struct variant v = {.n = 0};
    cudnnHandle_t handle = NULL;
    if (!c || !c->plan) return FAIL(E_INTERNAL, "attention by cuDNN without a plan");
    TRY(handle_of(p->device, &handle));
    give(&v, OPERAND_Q, p->q.at), give(&v, OPERAND_K, p->k.at), give(&v, OPERAND_V, p->v.at);
    give(&v, OPERAND_Y, p->y.at), give(&v, OPERAND_LSE, p->lse), give(&v, OPERAND_SCALE, &scale);
    if (p->causal) give(&v, OPERAND_MASKED, &masked);
    if (backward) {
        give(&v, OPERAND_DY, p->dy.at);
        give(&v, OPERAND_DQ, p->dq.at), give(&v, OPERAND_DK, p->dk.at), give(&v, OPERAND_DV, p->dv.at);
        give(&v, OPERAND_ONE, &one), give(&v, OPERAND_DQ_SUM, work);
        TRY(p->device->clear(p->device, work, dq_sum_bytes(p)));
        work += dq_sum_bytes(p);
    }
    cudnnStatus_t status = execute(handle, c->plan, &v, work);
    if (status != CUDNN_STATUS_SUCCESS)
        return FAIL(E_DEVICE, "attention by cuDNN: %s; use attention-core own", cudnnGetErrorString(status));
    return OK;
}

enum status attention_cudnn_forward(const struct attention_pair *p) { return run(p, false); }
enum status attention_cudnn_backward(const struct attention_pair *p) { return run(p, true); }
#endif
