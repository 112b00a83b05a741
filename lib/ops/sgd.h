/* Between sgd.c and its kernels: the names of its factors. Private to them. */
#pragma once

enum { MOMENTUM, LR };
