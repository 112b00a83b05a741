/* The names of the factors of AdamW and of SGD. Only their rows and kernels include this. */
#pragma once

/* AdamW */
enum { BETA1, ONE_MINUS_BETA1, BETA2, ONE_MINUS_BETA2, STEP_SIZE, DENOMINATOR, EPS };
/* SGD; SIGN 1: of the gradient's sign */
enum { MOMENTUM, LR, SIGN };
