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

/* Whole sequences in one tensor of queries, keys and values; and meetings of zig-zag shards, whose keys lie dense: all
 * queries with half of the keys, half of the queries with all keys (which four heads share), a shard with its own. */
static const struct { int64_t B, H, shared_by, D, Tq, Tk; bool causal, dense; cudnnDataType_t elem; } shapes[] = {
    {2, 12, 1, 64, 1024, 1024, true, false, CUDNN_DATA_BFLOAT16}, {2, 3, 1, 128, 64, 64, true, false, CUDNN_DATA_HALF},
    {1, 16, 1, 80, 1024, 1024, true, false, CUDNN_DATA_BFLOAT16},
    {2, 12, 1, 64, 1024, 512, false, true, CUDNN_DATA_BFLOAT16},
    {2, 12, 4, 128, 512, 1024, false, true, CUDNN_DATA_HALF},
    {2, 12, 1, 64, 1024, 1024, true, true, CUDNN_DATA_BFLOAT16}};

/* Of a meeting, queries are half or all of a shard that is as long as the longer side. */
static struct attention_pair pair_of(int i) {
    int64_t B = shapes[i].B, H = shapes[i].H, D = shapes[i].D, Tq = shapes[i].Tq, Tk = shapes[i].Tk;
    int64_t T = Tq > Tk ? Tq : Tk, within = 3 * H * D, dense = H * D, shared = shapes[i].shared_by;
    struct attention_vectors part = {NULL, T * within, within, 1}, own = {NULL, T * dense, dense, 1};
    struct attention_vectors fewer = {NULL, T * dense / shared, dense / shared, shared};
    struct attention_vectors keys = shapes[i].dense ? fewer : part;
    return (struct attention_pair){.B = B, .H = H, .D = D, .Tq = Tq, .Tk = Tk, .shared_by = shared,
                                   .causal = shapes[i].causal, .q = part, .k = keys, .v = keys, .y = own, .dy = own,
                                   .dq = part, .dk = part, .dv = part, .lse_row = T};
}

static bool first_kernel_compiles(const struct attention_choice *c) {
    return c->n_configs > 0 && (c->plan || c->why == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER);
}

static bool try_graph(int i, bool backward) {
    const struct attention_pair pair = pair_of(i);
    const struct attention_graph_shape s = attention_graph_shape(&pair);
    struct attention_choice choice = {.n_configs = 0};
    struct attention_graph graph;
    enum status status = attention_graph_build(&graph, &s, shapes[i].elem, backward, NULL);
    cudnnBackendDescriptor_t device = status == OK ? attention_graph_device(&graph, h200) : NULL;
    if (device) status = attention_graph_plan(&graph, NULL, device, INT64_MAX, &choice);
    bool ok = device && status == OK && first_kernel_compiles(&choice);
    printf("%s cuDNN %zu, %s attention %s of B %d, T %d and %d, H %d, D %d: the first kernel, engine %d, gives status "
           "%d %s\n", ok ? "ok" : "not ok", cudnnGetVersion(), s.causal ? "causal" : "whole",
           backward ? "backward" : "forward", (int)s.B, (int)s.Tq, (int)s.Tk, (int)s.H, (int)s.D,
           (int)choice.passed_over, (int)choice.why, status_text());
    status_clear();
    attention_graph_destroy(&graph);
    return ok;
}

int main(void) {
    bool ok = true;
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++)
        for (int backward = 0; backward < (shapes[i].dense ? 1 : 2); backward++) ok = try_graph(i, backward) && ok;
    return !ok;
}
