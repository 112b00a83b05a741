/* Between adamw.c and its kernels: the names of its factors. Private to them. */
#pragma once

enum { BETA1, ONE_MINUS_BETA1, BETA2, ONE_MINUS_BETA2, STEP_SIZE, DENOMINATOR, EPS };
