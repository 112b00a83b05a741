/* ranks: 1 2  device: any
 *
 * fp8 on the device under test, against a serial run on the CPU, which emulates fp8. */
#include "mixed_precision/fp8.h"
#include "tests/layouts.h"
#include "tests/test.h"

/* Sizes that tensor cores take: 16 divides the 2 x 8 tokens of a microbatch, 16 channels, 48 of qkv, 64 hidden
 * units. By blocks 32 divides 32 tokens and 64 channels. */
static struct plan device_plan(enum plan_precision precision, enum fp8_recipe recipe) {
    struct plan p = parity_plan();
    if (recipe != FP8_DELAYED) p.seq = 32, p.hidden = 64, p.layers = 2;
    fp8_options(&p)->recipe = recipe;
    p.precision = precision;
    p.loss_chunk = 0;                                                /* CUDA has separate ops for head and loss */
    p.micro_batch = 2;
    p.mesh.dp = comm_world_size();
    plan_set_number(&p, "zero", comm_world_size() > 1);
    fp8_options(&p)->on = true;
    return p;
}

/* The device and the emulation may round sums differently. If such a sum is near a tie, its codes differ by an eighth.
 * The loss of three steps then changes far less than by fp8 itself (test_fp8.c). A wrong scale or operand changes it
 * far more. */
static void check(enum plan_precision precision, enum fp8_recipe recipe, bool hadamard, double loss, double grad) {
    struct plan serial = device_plan(precision, recipe);
    fp8_options(&serial)->hadamard = hadamard;
    struct plan p = serial;
    struct reference reference;
    struct difference d = {0};
    serial.mesh.dp = 1, plan_set_number(&serial, "zero", 0);
    enum status status = plan_settle(&p, comm_world_size());
    if (status == OK) status = reference_init(&reference, &serial);
    if (status == OK) status = layout_compare(&p, &reference, &d);
    reference_fini(&reference);
    assert_ok(status);
    assert_close(d.loss, 0, loss);
    assert_close(d.first_grad, 0, grad);
    assert_close(d.memory, 0, 0);
    assert_close(d.wire, 0, 1e-12);
}

TEST(test_fp8_on_the_device_is_its_emulation) {
    check(PRECISION_FP32, FP8_DELAYED, false, 2e-4, 2e-2);
    check(PRECISION_BF16, FP8_DELAYED, false, 2e-3, 8e-2);
}

/* Bytes, too: codes, scales and their tiles are planned as they are used. Next to a tie a code of E2M1 differs by a
 * half, four times as much as one of E4M3. Next to a power of two the scale of a block differs, and all its codes lose
 * a bit: twice as much. */
TEST(test_block_scales_on_the_device_are_their_emulation) {
    if (test_device()->kind == DEVICE_CUDA && test_device()->capability < 100) skip();
    check(PRECISION_FP32, FP8_MXFP8, false, 2 * 2e-4, 2 * 2e-2);
    check(PRECISION_BF16, FP8_MXFP8_E5M2, false, 2 * 2e-3, 2 * 8e-2);
    check(PRECISION_FP32, FP8_NVFP4, false, 4 * 2e-4, 4 * 2e-2);
    check(PRECISION_BF16, FP8_NVFP4, true, 4 * 2e-3, 4 * 8e-2);
}

TEST(test_mxfp4_is_refused_on_the_device) {
    if (test_device()->kind != DEVICE_CUDA || comm_world_size() > 1) skip();
    struct plan p = device_plan(PRECISION_BF16, FP8_MXFP4);
    struct run r;
    p.device = PLAN_DEVICE_CUDA;
    assert_int_equal(layout_open(&r, p, WATCH_NOTHING), E_CONFIG);
    status_clear();
    run_destroy(&r);
}

TESTS(unit_test(test_fp8_on_the_device_is_its_emulation),
      unit_test(test_block_scales_on_the_device_are_their_emulation), unit_test(test_mxfp4_is_refused_on_the_device))
