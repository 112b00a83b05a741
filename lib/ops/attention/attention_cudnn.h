/* A pair of queries and keys (attention_pair.h) by cuDNN 9, where it has a kernel for it: bf16 and fp16, without
 * dropout, causal or whole, on the op's own memory: strides say where q, k and v lie; nothing is copied. So also the
 * meetings of a ring (cp/), forward; their backward adds to sums in fp32, which cuDNN does not.
 *
 * cuDNN's graph API is given the formulas of attention.h, operation by operation (attention_graph_cudnn.c), and finds
 * that together they are a kernel that it has. A plan is made for each shape when it is first asked for (a training run
 * asks before its first step: driver/train/train_attention.c), and kept for the life of the process.
 *
 * What is known of it and what is not: the heuristics of cuDNN 9.19 know both graphs, on sm_80 backward for heads of up
 * to 128 channels only, and the kernels that they name first compile (tests/more/cudnn.sh; no GPU is needed for that).
 * The numbers that come out have not been
 * compared with anything yet. cuDNN's backward may add to dq atomically, so that its last bits may differ from run to
 * run: where bits matter, prefer ATTENTION_CORE_OWN (rules.h). */
#pragma once

#include "lib/ops/attention/attention_pair.h"
#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Could cuDNN run a pair, judged by sizes and options? Asked for while planning, with no device.
 *  Backward only where no heads share keys and nothing is added to. Never in a build without cuDNN. */
bool attention_cudnn_planned(const struct attention_pair *, bool backward);

/** Scratch that is planned for it, in bytes: a sum of dq in fp32, and cuDNN's workspace. */
int64_t attention_cudnn_work(const struct attention_pair *, bool backward);
/** Its workspace: that of cuDNN 9.19's fastest plans, rounded up (tests/cudnn/plans.c). A plan that needs more is
 *  not used. */
int64_t attention_cudnn_workspace(const struct attention_pair *, bool backward);

/** Refuse, while planning, what was asked of cuDNN by name (ATTENTION_CORE_CUDNN) and it cannot do, or this build has
 *  not. The element type is not looked at: a program is first inferred in fp32, and narrowed later.  @errors E_CONFIG
 *  with the remedy */
enum status attention_cudnn_check(const struct call *);

/** cuDNN and its version, in words. Borrowed, until the next call. */
const char *attention_cudnn_name(void);

/* The library that runs a pair. */
struct attention_verdict {
    bool by_cudnn;               /* else our own kernels do, */
    const char *why;             /* for this reason; NULL: they were asked for. Borrowed, for the life of the process */
    int64_t engine;              /* of cuDNN's plan; -1: it does not say */
};
/** Makes the plan at the first call for a shape. @errors E_CONFIG: cuDNN was asked for by name and has no plan */
enum status attention_cudnn_usable(const struct attention_pair *, bool backward, struct attention_verdict *out);

/** After attention_cudnn_usable said so. @errors E_DEVICE */
attention_pair_kernel attention_cudnn_forward, attention_cudnn_backward;

#ifdef __cplusplus
}
#endif
