#ifndef TRIVIUM_OPS_ATTENTION_CUDNN_H
#define TRIVIUM_OPS_ATTENTION_CUDNN_H
#include "lib/ops/op.h"
#ifdef __cplusplus
extern "C" {
#endif
bool attention_cudnn_usable(const struct call *, enum row_kind);
kernel attention_cudnn_forward, attention_cudnn_backward;
#ifdef __cplusplus
}
#endif
#endif
