/* What the real cuDNN says of the attention graphs for GPUs that are not there: it checks every descriptor, its
 * heuristics name kernels and the workspace that these need, and NVRTC compiles the first of them, all the way to
 * machine code. Only loading it takes a device, so a plan fails with 5001 (CUDA driver). Any other failure of the first
 * kernel would be one on a GPU too, where the next one, slower, would run instead; so would one that needs more
 * workspace than attention_cudnn_work plans. tests/more/cudnn.sh builds and runs this, for builds for Hopper, for older
 * GPUs, and for both (TRIVIUM_HOPPER, TRIVIUM_BEFORE_HOPPER); a line a graph.
 *
 * Before that, a run's first line: what attention_cudnn_usable and attention_cores_text say, from end to end, of a GPU
 * that has a plan for both directions, and of one that has none for backward. */
#include "lib/base/log.h"
#include "lib/base/status.h"
#include "lib/device/device.h"
#include "lib/ops/attention/attention_cores.h"
#include "lib/ops/attention/attention_cudnn.h"
#include "lib/ops/attention/attention_graph_cudnn.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* As cuDNN describes devices: without memoryBusWidth, cuDNN 9.27 names nothing. */
#define DEVICE(name, capability, multiprocessors, clock, memory_clock, l2, shared)                                     \
    "{\"deviceVer\": " #capability ", \"driverVer\": 13000, \"deviceName\": \"" name "\","                             \
    " \"cudaDeviceId\": 0, \"pciDeviceId\": 0,"                                                                        \
    " \"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], \"regsPerBlock\": 65536,"       \
    " \"multiProcessorCount\": " #multiprocessors ", \"smClockRateKHz\": " #clock ", \"memClockRateKHz\": "            \
    #memory_clock ", \"l2CacheSize\": " #l2 ", \"maxSharedMemoryPerBlockOptin\": " #shared ","                         \
    " \"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152,"                                                           \
    " \"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, \"maxCtasPerSM\": 32,"                     \
    " \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"isTccDriver\": 0, \"supportCoopLaunch\": 1,"          \
    " \"memoryBusWidth\": 5120, \"totalGlobalMem\": 85017755648}"
static const char a100[] = DEVICE("NVIDIA A100-SXM4-80GB", 800, 108, 1410000, 1593000, 41943040, 166912);
static const char h100[] = DEVICE("NVIDIA H100 80GB HBM3", 900, 132, 1980000, 2619000, 52428800, 232448);
#if !TRIVIUM_HOPPER
#define GPU "NVIDIA A100-SXM4-80GB"
static const char *const gpu = a100;
#else
#define GPU "NVIDIA H100 80GB HBM3"
static const char *const gpu = h100;
#endif

/* Whole sequences in one tensor of queries, keys and values; and meetings of zig-zag shards, whose keys lie dense: all
 * queries with half of the keys, half of the queries with all keys (which four heads share), a shard with its own. */
struct sizes { int64_t B, H, shared_by, D, Tq, Tk; bool causal, dense; enum dtype dtype; };
static const struct sizes shapes[] = {
    {2, 12, 1, 64, 1024, 1024, true, false, BF16}, {2, 3, 1, 128, 64, 64, true, false, FP16},
    {1, 16, 1, 80, 1024, 1024, true, false, BF16}, {1, 4, 1, 256, 512, 512, true, false, FP16},
    {2, 12, 1, 64, 1024, 512, false, true, BF16},
    {2, 12, 4, 128, 512, 1024, false, true, FP16},
    {2, 12, 1, 64, 1024, 1024, true, true, BF16}};

/* The queries of a meeting are half or all of a shard that is as long as the longer side. */
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

/* For a pair without a planned kernel cuDNN names none, either. */
static bool there_is_none(const struct attention_pair *pair, bool backward) {
    struct attention_choice c;
    return attention_cudnn_work(pair, backward) == 0 && ask(pair, backward, -1, &c) == OK && c.n_configs == 0;
}

/* The planned workspace is enough, and on Hopper little more. */
static bool fits(const struct attention_pair *pair, bool backward, int64_t wanted) {
    int64_t queries = pair->B * pair->H * pair->Tq, dq_sum = backward ? 4 * queries * pair->D : 0;
    int64_t planned = attention_cudnn_work(pair, backward) - dq_sum;
    return planned == attention_cudnn_workspace(pair, backward) && wanted <= planned &&
           (TRIVIUM_BEFORE_HOPPER || planned <= 16 * queries + 4096);
}

/* The workspace of real sizes: 65536 tokens, 768 channels or a few more. A limit of -1 bytes excludes every kernel, so
 * none is compiled. */
static bool workspace_suffices(int64_t D, enum dtype dtype, bool backward) {
    double most = 0, planned = 0;
    bool ok = true;
    for (int64_t T = 64; T <= 4096 && ok; T *= 2) {
        const struct sizes x = {65536 / T, 768 / D, 1, D, T, T, true, false, dtype};
        const struct attention_pair pair = pair_of(&x);
        double queries = (double)(x.B * x.H * T);
        struct attention_choice c = {.wanted = 0};
        if (backward && D > 128 && !TRIVIUM_HOPPER) ok = there_is_none(&pair, backward);
        else ok = ask(&pair, backward, -1, &c) == OK && c.n_configs > 0 && fits(&pair, backward, c.wanted);
        most = fmax(most, (double)c.wanted / queries);
        planned = (double)attention_cudnn_workspace(&pair, backward) / queries;
        if (ok && attention_cudnn_work(&pair, backward) == 0) planned = 0;
    }
    printf("%s cuDNN %zu, " GPU ", attention %s in %s of D %d, T 64 to 4096: %.2f bytes of workspace a query are "
           "wanted at most, %.2f are planned %s\n", ok ? "ok" : "not ok", cudnnGetVersion(), direction(backward),
           dtype_name(dtype), (int)D, most, planned, status_text());
    status_clear();
    return ok;
}

/* ---- the first line of a run ----
 *
 * The linker puts these in place of what asks the GPU (--wrap, tests/more/cudnn.sh): handles are of no GPU, and a graph
 * is planned for the description of one. Where the kernel compiles and only loading it fails, there is a plan. */
static const char *described;
static char warned[512];

void log_line(enum log_level level, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (level == LOG_WARN) vsnprintf(warned, sizeof warned, format, arguments);
    va_end(arguments);
}

cudnnStatus_t __wrap_cudnnCreate(cudnnHandle_t *);
cudnnStatus_t __wrap_cudnnSetStream(cudnnHandle_t, cudaStream_t);
enum status __real_attention_graph_build(struct attention_graph *, const struct attention_graph_shape *,
                                         cudnnDataType_t, bool, cudnnHandle_t);
enum status __wrap_attention_graph_build(struct attention_graph *, const struct attention_graph_shape *,
                                         cudnnDataType_t, bool, cudnnHandle_t);
enum status __real_attention_graph_plan(struct attention_graph *, cudnnHandle_t, cudnnBackendDescriptor_t, int64_t,
                                        struct attention_choice *);
enum status __wrap_attention_graph_plan(struct attention_graph *, cudnnHandle_t, cudnnBackendDescriptor_t, int64_t,
                                        struct attention_choice *);

cudnnStatus_t __wrap_cudnnCreate(cudnnHandle_t *handle) {
    static char none;
    *handle = (cudnnHandle_t)(void *)&none;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t __wrap_cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    (void)handle, (void)stream;
    return CUDNN_STATUS_SUCCESS;
}
enum status __wrap_attention_graph_build(struct attention_graph *g, const struct attention_graph_shape *s,
                                         cudnnDataType_t elem, bool backward, cudnnHandle_t handle) {
    (void)handle;
    return __real_attention_graph_build(g, s, elem, backward, NULL);
}
enum status __wrap_attention_graph_plan(struct attention_graph *g, cudnnHandle_t handle,
                                        cudnnBackendDescriptor_t device, int64_t most_bytes,
                                        struct attention_choice *c) {
    if (handle) device = attention_graph_device(g, described);
    enum status status = __real_attention_graph_plan(g, NULL, device, most_bytes, c);
    if (!handle || c->why != CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER) return status;
    c->plan = device, c->engine = c->passed_over, c->passed_over = -1, c->why = CUDNN_STATUS_SUCCESS;
    return status;
}

/* *planned: backward's planned workspace. *wanted: what cuDNN needs, if that is more: it has no plan then; else 0. */
static const char *text_of(const char *description, int index, int64_t D, int64_t *wanted, int64_t *planned) {
    const struct sizes x = {2, 12, 1, D, 1024, 1024, true, false, BF16};
    struct attention_pair pair = pair_of(&x);
    struct attention_cores cores = {{{0}}};
    const struct device device = {.kind = DEVICE_CUDA, .index = index, .name = "described"};
    struct attention_choice c;
    described = description, warned[0] = 0, pair.device = &device, *wanted = 0;
    *planned = attention_cudnn_workspace(&pair, true);
    cudnnBackendDescriptor_t none = NULL;
    struct attention_graph graph;
    const struct attention_graph_shape s = attention_graph_shape(&pair);
    enum status status = attention_graph_build(&graph, &s, CUDNN_DATA_BFLOAT16, true, NULL);
    if (status == OK) none = attention_graph_device(&graph, description);
    if (status == OK) status = attention_graph_plan(&graph, NULL, none, -1, &c);
    attention_graph_destroy(&graph);
    if (status == OK && c.wanted > *planned) *wanted = c.wanted;
    for (int layer = 0; layer < 2; layer++)
        for (int backward = 0; backward < 2 && status == OK; backward++)
            status = attention_cores_add(&cores, &pair, backward);
    return status == OK ? attention_cores_text(&cores) : status_text();
}

/* Both directions have a plan; and the version is cuDNN's. */
static bool says_both(void) {
    int64_t wanted, planned;
    char expected[96];
    size_t v = cudnnGetVersion();
    snprintf(expected, sizeof expected, "cuDNN %zu.%zu.%zu (forward engine %s)", v / 10000, v / 100 % 100, v % 100,
             gpu == a100 ? "1, backward engine 7" : "2, backward engine 6");
    const char *text = text_of(gpu, 0, 64, &wanted, &planned);
    bool ok = !strcmp(text, expected) && !*warned;
    printf("%s " GPU ", attention: %s\n%s", ok ? "ok" : "not ok", text, *warned ? warned : "");
    return ok;
}

/* Planned for Hopper alone, backward has no room on an A100: the line says whose kernels run instead, and so does a
 * warning. */
static bool says_what_has_no_plan(void) {
    int64_t wanted, planned;
    char bytes[96], name[32];
    const char *text = text_of(a100, 1, 64, &wanted, &planned), *end = strchr(text, ';');
    snprintf(bytes, sizeof bytes, "cuDNN needs %lld bytes of workspace, %lld are planned", (long long)wanted,
             (long long)planned);
    snprintf(name, sizeof name, "forward %s, engine 1", attention_cudnn_name());
    bool ok = wanted > planned && end && !strncmp(text, name, strlen(name)) && strlen(name) == (size_t)(end - text) &&
              !strncmp(end, "; backward our own kernels (", 28) && strstr(end, bytes) && strstr(warned, bytes) &&
              strstr(warned, "attention backward of") && strstr(warned, "our own kernels do it");
    printf("%s A100 without room for backward, attention: %s\n", ok ? "ok" : "not ok", text);
    if (!ok) printf("%s\n", warned);
    return ok;
}

/* Heads of more than 128 channels are cuDNN's on an H100; on an A100 backward is our own, whether the build decides
 * that or cuDNN. */
static bool says_large_heads(void) {
    int64_t wanted, planned;
    const char *why = TRIVIUM_HOPPER ? "cuDNN's heuristics name no kernel" : "(before Hopper backward 128)";
    bool ok = true;
    const char *text = gpu == h100 ? text_of(h100, 2, 224, &wanted, &planned) : "";
    if (gpu == h100) ok = strstr(text, "(forward engine 2, backward engine 6)") && !*warned;
    text = text_of(a100, 3, 224, &wanted, &planned);
    ok = ok && strstr(text, "engine 1; backward our own kernels (") && strstr(text, why);
    printf("%s A100, heads of 224 channels, attention: %s\n", ok ? "ok" : "not ok", text);
    return ok;
}

int main(void) {
    static const int64_t D[] = {64, 80, 128, 160, 224, 256};
    bool ok = says_both();
    if (TRIVIUM_BEFORE_HOPPER) ok = says_large_heads() && ok;
    else ok = says_what_has_no_plan() && ok;
    if (TRIVIUM_BEFORE_HOPPER && TRIVIUM_HOPPER) return !ok;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int backward = 0; backward < (shapes[i].dense || (shapes[i].D > 128 && gpu == a100) ? 1 : 2); backward++)
            ok = first_kernel_compiles(&shapes[i], backward) && ok;
    for (size_t i = 0; i < sizeof D / sizeof *D; i++)
        for (int k = 0; k < 4; k++) ok = workspace_suffices(D[i], k / 2 ? FP16 : BF16, k % 2) && ok;
    return !ok;
}
