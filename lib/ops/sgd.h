/* The names of SGD's factors. Only sgd.c and its kernels include this. */
#pragma once

enum { MOMENTUM, LR };
