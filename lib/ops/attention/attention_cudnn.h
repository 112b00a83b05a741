/* A pair of queries and keys (attention_pair.h) by cuDNN 9, if cuDNN has a kernel for the pair: bf16 and fp16, without
 * dropout, causal or not. cuDNN reads q, k and v in the op's own memory, by strides, without copies. So cuDNN also runs
 * the forward of a ring's pairs (cp/). Their backward adds to sums in fp32, which cuDNN does not.
 *
 * We pass the formulas of attention.h to cuDNN's graph API, operation by operation (attention_graph_cudnn.c), and cuDNN
 * finds a kernel for all of them together. A plan is made for each shape at its first use (a training run makes plans
 * before its first step: driver/train/train_attention.c), and kept for the life of the process.
 *
 * The heuristics of cuDNN 9.19 accept both graphs (on sm_80, backward for heads of up to 128 channels only), and their
 * first kernels compile (tests/more/cudnn.sh, which needs no GPU). The results have not been compared with anything
 * yet. cuDNN's backward may add to dq atomically, so that its last bits may differ from run to run: where bits matter,
 * prefer ATTENTION_CORE_OWN (rules.h). */
#pragma once

#include "lib/ops/attention/attention_pair.h"
#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Could cuDNN run a pair of these sizes and options? A plan asks this without a device. Backward: only where no heads
 *  share keys and no gradient is added to. Never in a build without cuDNN. */
bool attention_cudnn_planned(const struct attention_pair *, bool backward);

/** Bytes of scratch that a plan needs for cuDNN: a sum of dq in fp32, and cuDNN's workspace. */
int64_t attention_cudnn_work(const struct attention_pair *, bool backward);
/** Bytes of cuDNN's workspace: that of cuDNN 9.19's fastest plans, rounded up (tests/cudnn/plans.c). A plan that needs
 *  more is not used. */
int64_t attention_cudnn_workspace(const struct attention_pair *, bool backward);

/** While planning, refuse a call that asks for cuDNN by name (ATTENTION_CORE_CUDNN), if cuDNN cannot run it or the
 *  build has no cuDNN. The element type is not checked, because a program is first inferred in fp32, and narrowed
 *  later. @errors E_CONFIG with the remedy */
enum status attention_cudnn_check(const struct call *);

/** cuDNN and its version, in words. Borrowed, until the next call. */
const char *attention_cudnn_name(void);

/* The library that runs a pair. */
struct attention_verdict {
    bool by_cudnn;               /* false: our own kernels run the pair */
    const char *why;      /* reason for our kernels; NULL: they were asked for. Borrowed, for the life of the process */
    int64_t engine;              /* of cuDNN's plan; -1: cuDNN does not say */
};
/** Makes the plan at the first call for a shape. @errors E_CONFIG: cuDNN was asked for by name and has no plan */
enum status attention_cudnn_usable(const struct attention_pair *, bool backward, struct attention_verdict *out);

/** Only after attention_cudnn_usable has chosen cuDNN. @errors E_DEVICE */
attention_pair_kernel attention_cudnn_forward, attention_cudnn_backward;

#ifdef __cplusplus
}
#endif
