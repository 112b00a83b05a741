/* ranks: 1  device: any */
#include "lib/ops/attention.h"
#include "tests/test.h"

#ifdef TRIVIUM_CUDNN
#include "lib/ops/attention_cudnn.h"
#include "lib/ops/attention_graph_cudnn.h"
#include "lib/ops/test_op.h"
#include "lib/device/arena.h"
#include <dlfcn.h>
#include <stdlib.h>

/* An H200, as cuDNN describes devices: enough to ask it about one without having one. */
static const char h200[] =
    "{\"deviceVer\": 900, \"driverVer\": 13000, \"deviceName\": \"NVIDIA H200\", \"cudaDeviceId\": 0, \"pciDeviceId\": 0,"
    " \"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], \"regsPerBlock\": 65536,"
    " \"multiProcessorCount\": 132, \"smClockRateKHz\": 1980000, \"memClockRateKHz\": 3201000, \"l2CacheSize\": 62914560,"
    " \"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": 232448,"
    " \"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, \"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024,"
    " \"maxThreadsPerSM\": 2048, \"isTccDriver\": 0, \"supportCoopLaunch\": 1, \"totalGlobalMem\": 150754820096}";

/* The heuristics compile kernels, and for that load the driver's library, if only its stub: without it they name nothing. */
static bool has_driver_library(void) { return dlopen("libcuda.so.1", RTLD_LAZY) != NULL; }

/* With a driver, the heuristics must know a kernel. A plan would load it, which takes a device. */
static void check_graph(int64_t B, int64_t T, int64_t H, int64_t D, cudnnDataType_t elem, bool backward) {
    struct attention_sizes s = {B, T, H, D, 3 * H * D, 0, 1 / sqrt((double)D)};
    struct attention_graph graph;
    cudnnBackendDescriptor_t plan, device;
    int n_configs = 0;
    enum status status = attention_graph_build(&graph, &s, elem, backward, NULL);
    if (status == OK && has_driver_library()) {
        device = attention_graph_device(&graph, h200);
        if (device) status = attention_graph_plan(&graph, NULL, device, INT64_MAX, &plan, &n_configs);
    }
    attention_graph_destroy(&graph);
    assert_ok(status);
    if (has_driver_library()) assert_true(n_configs > 0);
}

static void test_attention_cudnn_graphs_are_accepted_for_sm_90(void **state) {
    (void)state;
    for (int backward = 0; backward < 2; backward++) {
        check_graph(2, 256, 3, 64, CUDNN_DATA_BFLOAT16, backward);
        check_graph(2, 64, 3, 128, CUDNN_DATA_HALF, backward);
        check_graph(1, 1024, 16, 80, CUDNN_DATA_BFLOAT16, backward);
    }
}

static bool planned(struct type x, double p, enum device_kind on) {
    struct step step = {.op = &op_attention_blocked, .n_in = 1, .n_out = 2, .p = p};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .on = on, .training = true};
    return attention_cudnn_planned(&call, ROW_BACKWARD_INPUT);
}

static void test_attention_cudnn_is_planned_where_it_can(void **state) {
    (void)state;
    assert_true(planned(op_type(BF16, "BT3HD", 2, 64, 3, 2, 64), 0, DEVICE_CUDA));
    assert_true(planned(op_type(FP16, "BT3HD", 2, 64, 3, 2, 64), 0, DEVICE_CUDA));
    assert_false(planned(op_type(BF16, "BT3HD", 2, 64, 3, 2, 64), 0, DEVICE_CPU));
    assert_false(planned(op_type(BF16, "BT3HD", 2, 64, 3, 2, 64), 0.1, DEVICE_CUDA));
    assert_false(planned(op_type(FP32, "BT3HD", 2, 64, 3, 2, 64), 0, DEVICE_CUDA));
    assert_false(planned(op_type(BF16, "BT3HD", 2, 65, 3, 2, 64), 0, DEVICE_CUDA));
    assert_false(planned(op_type(BF16, "BT3HD", 2, 64, 3, 2, 68), 0, DEVICE_CUDA));
    attention_prefer(ATTENTION_CORE_OWN);
    bool own = planned(op_type(BF16, "BT3HD", 2, 64, 3, 2, 64), 0, DEVICE_CUDA);
    attention_prefer(ATTENTION_CORE_AUTO);
    assert_false(own);
}

static void make(struct op_case *c, enum dtype dtype, int T, int D) {
    op_case_start(c, &op_attention_blocked, 2);
    op_case_input(c, op_type(dtype, "BT3HD", 2, T, 3, 3, D));
    op_case_finish(c);
}

/* By cuDNN and nobody else. */
static enum status run_by_cudnn(struct op_case *c, enum row_kind kind) {
    attention_prefer(ATTENTION_CORE_CUDNN);
    struct call call = op_case_call(c, kind);
    call.on = DEVICE_CUDA;
    void *work = malloc((size_t)op_work(&call, kind) + 2 * ARENA_ALIGN);
    call.work = work;
    enum status status = op_case_run_call(&call, kind);
    free(work);
    attention_prefer(ATTENTION_CORE_AUTO);
    return status;
}

/* As our own kernels on tensor cores (test_attention.c): sums over T or D terms, rounded twice. Backward reads the CPU's y and
 * lse. Needs a GPU. */
static void test_attention_cudnn_is_the_cpus(void **state) {
    (void)state;
    if (test_device()->kind != DEVICE_CUDA) skip();
    for (int i = 0; i < 12; i++) {
        int T = 64 + 64 * (i / 4), D = i & 1 ? 128 : 64;
        enum dtype dtype = i & 2 ? FP16 : BF16;
        double bound = 2 * op_error_bound(dtype, (T > D ? T : D) + 16, 2);
        struct op_case cpu, cuda;
        make(&cpu, dtype, T, D);
        make(&cuda, dtype, T, D);
        op_case_run_on(&cpu, ROW_FORWARD, device_cpu());
        assert_ok(run_by_cudnn(&cuda, ROW_FORWARD));
        for (int o = 0; o < 2; o++) {
            assert_close(tensor_error(&cuda.out[o], &cpu.out[o]), 0, bound);
            tensor_copy_values(&cuda.out[o], &cpu.out[o]);
        }
        op_case_run_on(&cpu, ROW_BACKWARD_INPUT, device_cpu());
        assert_ok(run_by_cudnn(&cuda, ROW_BACKWARD_INPUT));
        assert_close(tensor_error(&cuda.din[0], &cpu.din[0]), 0, bound);
        op_case_free(&cpu);
        op_case_free(&cuda);
    }
}

TESTS(unit_test(test_attention_cudnn_graphs_are_accepted_for_sm_90),
      unit_test(test_attention_cudnn_is_planned_where_it_can), unit_test(test_attention_cudnn_is_the_cpus))

#else

static void test_attention_core_is_preferred_by_the_process(void **state) {
    (void)state;
    assert_int_equal(attention_preferred(), ATTENTION_CORE_AUTO);
    attention_prefer(ATTENTION_CORE_OWN);
    assert_int_equal(attention_preferred(), ATTENTION_CORE_OWN);
    attention_prefer(ATTENTION_CORE_AUTO);
}

TESTS(unit_test(test_attention_core_is_preferred_by_the_process))
#endif
