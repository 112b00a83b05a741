/* The names of AdamW's factors. Only adamw.c and its kernels include this. */
#pragma once

enum { BETA1, ONE_MINUS_BETA1, BETA2, ONE_MINUS_BETA2, STEP_SIZE, DENOMINATOR, EPS };
