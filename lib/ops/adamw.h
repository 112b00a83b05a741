/* Between adamw.c and its kernels: the names of its factors. Private to them. */
#ifndef TRIVIUM_OPS_ADAMW_H
#define TRIVIUM_OPS_ADAMW_H

enum { BETA1, ONE_MINUS_BETA1, BETA2, ONE_MINUS_BETA2, STEP_SIZE, DENOMINATOR, EPS };

#endif
