/* Conversions between fp32 and the two 16-bit formats, for you to write. convert.h is the contract; the theory is in
 * lesson 08 ("Formats", "Rounding"). fp32 has 1 sign bit, 8 exponent bits (bias 127) and 23 mantissa bits; bf16 has 1,
 * 8 (bias 127) and 7; fp16 has 1, 5 (bias 15) and 10.
 *
 * Begin with bf16, which is the upper half of an fp32. Which number must you add to the lower half so that cutting it
 * off rounds to nearest? And on a tie to the even neighbor? Which inputs need another way? Use neither the compiler's
 * _Float16 nor lib/device/dtype.h, because the tests compare with them.
 *
 *   make grade LESSON=08 FILE=lessons/08-mixed-precision/convert/convert.c */
#include "lessons/08-mixed-precision/convert/convert.h"

enum status convert_to_bf16(uint16_t *to, const float *from, int64_t n) {
    (void)to, (void)from, (void)n;
    return FAIL(E_TODO, "convert_to_bf16 is not written yet");
}

enum status convert_to_fp16(uint16_t *to, const float *from, int64_t n) {
    (void)to, (void)from, (void)n;
    return FAIL(E_TODO, "convert_to_fp16 is not written yet");
}

enum status convert_from_bf16(float *to, const uint16_t *from, int64_t n) {
    (void)to, (void)from, (void)n;
    return FAIL(E_TODO, "convert_from_bf16 is not written yet");
}

enum status convert_from_fp16(float *to, const uint16_t *from, int64_t n) {
    (void)to, (void)from, (void)n;
    return FAIL(E_TODO, "convert_from_fp16 is not written yet");
}
