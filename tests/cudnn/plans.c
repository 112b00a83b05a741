/* What the real cuDNN says of the attention graphs for an H200 that is not there: it checks every descriptor, its
 * heuristics name kernels, and NVRTC compiles the first of them, all the way to machine code. Only loading it takes a
 * device, so a plan fails with 5001 (CUDA driver). Any other failure of the first kernel would be one on a GPU too,
 * where the next one, slower, would run instead. tests/more/cudnn.sh builds and runs this; a line a graph. */
#include "lib/base/status.h"
#include "lib/ops/attention/attention_graph_cudnn.h"
#include <stdio.h>

/* As cuDNN describes devices. */
static const char h200[] =
    "{\"deviceVer\": 900, \"driverVer\": 13000, \"deviceName\": \"NVIDIA H200\", \"cudaDeviceId\": 0,"
    " \"pciDeviceId\": 0,"
    " \"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], \"regsPerBlock\": 65536,"
    " \"multiProcessorCount\": 132, \"smClockRateKHz\": 1980000, \"memClockRateKHz\": 3201000,"
    " \"l2CacheSize\": 62914560,"
    " \"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": 232448,"
    " \"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, \"maxCtasPerSM\": 32,"
    " \"maxThreadsPerBlock\": 1024,"
    " \"maxThreadsPerSM\": 2048, \"isTccDriver\": 0, \"supportCoopLaunch\": 1, \"totalGlobalMem\": 150754820096}";

static const struct { int64_t B, T, H, D; cudnnDataType_t elem; } shapes[] = {
    {2, 1024, 12, 64, CUDNN_DATA_BFLOAT16}, {2, 64, 3, 128, CUDNN_DATA_HALF}, {1, 1024, 16, 80, CUDNN_DATA_BFLOAT16}};

static bool first_kernel_compiles(const struct attention_choice *c) {
    return c->n_configs > 0 && (c->plan || c->why == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER);
}

static bool try_graph(int i, bool backward) {
    struct attention_sizes s = {.B = shapes[i].B, .T = shapes[i].T, .H = shapes[i].H, .D = shapes[i].D};
    struct attention_choice choice = {.n_configs = 0};
    struct attention_graph graph;
    s.row = 3 * s.H * s.D;
    enum status status = attention_graph_build(&graph, &s, shapes[i].elem, backward, NULL);
    cudnnBackendDescriptor_t device = status == OK ? attention_graph_device(&graph, h200) : NULL;
    if (device) status = attention_graph_plan(&graph, NULL, device, INT64_MAX, &choice);
    bool ok = device && status == OK && first_kernel_compiles(&choice);
    printf("%s cuDNN %zu, attention %s of B %d, T %d, H %d, D %d: the first kernel, engine %d, gives status %d %s\n",
           ok ? "ok" : "not ok", cudnnGetVersion(), backward ? "backward" : "forward", (int)s.B, (int)s.T, (int)s.H,
           (int)s.D, (int)choice.passed_over, (int)choice.why, status_text());
    status_clear();
    attention_graph_destroy(&graph);
    return ok;
}

int main(void) {
    bool ok = true;
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++)
        for (int backward = 0; backward < 2; backward++) ok = try_graph(i, backward) && ok;
    return !ok;
}
