/* What the real cuDNN says of the attention graphs for GPUs that are not there: it checks every descriptor, its
 * heuristics name kernels and the workspace that these want, and NVRTC compiles the first of them, all the way to
 * machine code. Only loading it takes a device, so a plan fails with 5001 (CUDA driver). Any other failure of the first
 * kernel would be one on a GPU too, where the next one, slower, would run instead; so would one that wants more
 * workspace than attention_cudnn_work plans. tests/more/cudnn.sh builds and runs this, for H100 and for A100
 * (TRIVIUM_BEFORE_HOPPER 0 and 1); a line a graph. */
#include "lib/base/status.h"
#include "lib/ops/attention/attention_cudnn.h"
#include "lib/ops/attention/attention_graph_cudnn.h"
#include <math.h>
#include <stdio.h>

/* As cuDNN describes devices: without memoryBusWidth, cuDNN 9.27 names nothing. */
#if TRIVIUM_BEFORE_HOPPER
#define GPU "NVIDIA A100-SXM4-80GB"
#define CAPABILITY "800"
#define SIZES                                                                                                          \
    "\"multiProcessorCount\": 108, \"smClockRateKHz\": 1410000, \"memClockRateKHz\": 1593000,"                         \
    " \"l2CacheSize\": 41943040, \"maxSharedMemoryPerBlockOptin\": 166912,"
#else
#define GPU "NVIDIA H100 80GB HBM3"
#define CAPABILITY "900"
#define SIZES                                                                                                          \
    "\"multiProcessorCount\": 132, \"smClockRateKHz\": 1980000, \"memClockRateKHz\": 2619000,"                         \
    " \"l2CacheSize\": 52428800, \"maxSharedMemoryPerBlockOptin\": 232448,"
#endif
static const char gpu[] =
    "{\"deviceVer\": " CAPABILITY ", \"driverVer\": 13000, \"deviceName\": \"" GPU "\", \"cudaDeviceId\": 0,"
    " \"pciDeviceId\": 0,"
    " \"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], \"regsPerBlock\": 65536," SIZES
    " \"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152,"
    " \"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, \"maxCtasPerSM\": 32,"
    " \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"isTccDriver\": 0, \"supportCoopLaunch\": 1,"
    " \"memoryBusWidth\": 5120, \"totalGlobalMem\": 85017755648}";

/* Whole sequences in one tensor of queries, keys and values; and meetings of zig-zag shards, whose keys lie dense: all
 * queries with half of the keys, half of the queries with all keys (which four heads share), a shard with its own. */
struct sizes { int64_t B, H, shared_by, D, Tq, Tk; bool causal, dense; enum dtype dtype; };
static const struct sizes shapes[] = {
    {2, 12, 1, 64, 1024, 1024, true, false, BF16}, {2, 3, 1, 128, 64, 64, true, false, FP16},
    {1, 16, 1, 80, 1024, 1024, true, false, BF16},
    {2, 12, 1, 64, 1024, 512, false, true, BF16},
    {2, 12, 4, 128, 512, 1024, false, true, FP16},
    {2, 12, 1, 64, 1024, 1024, true, true, BF16}};

/* Of a meeting, queries are half or all of a shard that is as long as the longer side. */
static struct attention_pair pair_of(const struct sizes *x) {
    int64_t B = x->B, H = x->H, D = x->D, Tq = x->Tq, Tk = x->Tk, shared = x->shared_by;
    int64_t T = Tq > Tk ? Tq : Tk, within = 3 * H * D, dense = H * D;
    struct attention_vectors part = {NULL, T * within, within, 1}, own = {NULL, T * dense, dense, 1};
    struct attention_vectors fewer = {NULL, T * dense / shared, dense / shared, shared};
    struct attention_vectors keys = x->dense ? fewer : part;
    return (struct attention_pair){.B = B, .H = H, .D = D, .Tq = Tq, .Tk = Tk, .shared_by = shared, .dtype = x->dtype,
                                   .causal = x->causal, .q = part, .k = keys, .v = keys, .y = own, .dy = own,
                                   .dq = part, .dk = part, .dv = part, .lse_row = T};
}

/* What the heuristics name first, within most_bytes. */
static enum status ask(const struct attention_pair *pair, bool backward, int64_t most_bytes,
                       struct attention_choice *choice) {
    const struct attention_graph_shape s = attention_graph_shape(pair);
    struct attention_graph graph;
    *choice = (struct attention_choice){.n_configs = 0};
    enum status status = attention_graph_build(
        &graph, &s, pair->dtype == BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF, backward, NULL);
    cudnnBackendDescriptor_t device = status == OK ? attention_graph_device(&graph, gpu) : NULL;
    if (status == OK && !device) status = FAIL(E_DEVICE, "cuDNN does not take the description of this GPU");
    if (status == OK) status = attention_graph_plan(&graph, NULL, device, most_bytes, choice);
    attention_graph_destroy(&graph);
    return status;
}

static const char *direction(bool backward) { return backward ? "backward" : "forward"; }

static bool first_kernel_compiles(const struct sizes *x, bool backward) {
    const struct attention_pair pair = pair_of(x);
    struct attention_choice c;
    enum status status = ask(&pair, backward, attention_cudnn_workspace(&pair, backward), &c);
    bool ok = status == OK && c.n_configs > 0 && (c.plan || c.why == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER);
    printf("%s cuDNN %zu, " GPU ", %s attention %s of B %d, T %d and %d, H %d, D %d: the first kernel, engine %d, "
           "gives status %d %s\n", ok ? "ok" : "not ok", cudnnGetVersion(), x->causal ? "causal" : "whole",
           direction(backward), (int)x->B, (int)x->Tq, (int)x->Tk, (int)x->H, (int)x->D, (int)c.passed_over,
           (int)c.why, status_text());
    status_clear();
    return ok;
}

/* The workspace of real sizes: 65536 tokens, 768 channels. A limit that none is below keeps the kernels uncompiled. */
static bool workspace_suffices(int64_t D, enum dtype dtype, bool backward) {
    double most = 0, planned = 0;
    bool ok = true;
    for (int64_t T = 64; T <= 4096 && ok; T *= 2) {
        const struct sizes x = {65536 / T, 768 / D, 1, D, T, T, true, false, dtype};
        const struct attention_pair pair = pair_of(&x);
        double queries = (double)(x.B * x.H * T);
        struct attention_choice c;
        ok = attention_cudnn_planned(&pair, backward) && ask(&pair, backward, -1, &c) == OK && c.n_configs > 0 &&
             c.wanted <= attention_cudnn_workspace(&pair, backward);
        most = fmax(most, (double)c.wanted / queries);
        planned = (double)attention_cudnn_workspace(&pair, backward) / queries;
    }
    printf("%s cuDNN %zu, " GPU ", attention %s in %s of D %d, T 64 to 4096: %.2f bytes of workspace a query are "
           "wanted at most, %.2f are planned %s\n", ok ? "ok" : "not ok", cudnnGetVersion(), direction(backward),
           dtype_name(dtype), (int)D, most, planned, status_text());
    status_clear();
    return ok;
}

int main(void) {
    static const int64_t D[] = {64, 80, 128};
    bool ok = true;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int backward = 0; backward < (shapes[i].dense ? 1 : 2); backward++)
            ok = first_kernel_compiles(&shapes[i], backward) && ok;
    for (size_t i = 0; i < sizeof D / sizeof *D; i++)
        for (int k = 0; k < 4; k++) ok = workspace_suffices(D[i], k / 2 ? FP16 : BF16, k % 2) && ok;
    return !ok;
}
