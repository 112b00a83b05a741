/* Between sgd.c and its kernels: the names of its factors. Private to them. */
#ifndef TRIVIUM_OPS_SGD_H
#define TRIVIUM_OPS_SGD_H

enum { MOMENTUM, LR };

#endif
