#include "lib/ops/attention_cudnn.h"
bool attention_cudnn_usable(const struct call *c, enum row_kind k) { (void)c; (void)k; return false; }
enum status attention_cudnn_forward(const struct call *c) { (void)c; return OK; }
enum status attention_cudnn_backward(const struct call *c) { (void)c; return OK; }
