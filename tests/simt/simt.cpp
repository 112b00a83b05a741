/* A launch: check its limits, then run its blocks one after the other, each with fresh shared memory. See
 * docs/simt.md. */
#include "tests/simt/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
uint32_t simt_serial;
void (*simt_submit)(void *stream, void (*run)(void *), void *context, size_t bytes);

namespace simt {
struct running now;
}
using namespace simt;

/* ---- errors, as CUDA's runtime reports them ---- */
static cudaError_t error = cudaSuccess;
static char error_text[400];

static bool refuse(cudaError_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(cudaError_t code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_text, sizeof error_text, format, arguments);
    va_end(arguments);
    error = code;
    return false;
}

int simt_take_error(void) {
    cudaError_t taken = error;
    error = cudaSuccess;
    return (int)taken;
}
const char *simt_error_text(void) { return error_text; }

/* ---- limits: CUDA C++ programming guide, "Technical specifications per compute capability", 9.0 ---- */
static const struct simt_limits h100 = {1024, 0x7fffffff, 65535, 64, 48 << 10, 227 << 10};
static struct simt_limits limits = h100;

void simt_set_limits(const struct simt_limits *wanted) { limits = wanted ? *wanted : h100; }
struct simt_limits simt_get_limits(void) { return limits; }

/* Kernels that may have more dynamic shared memory than the default. */
enum { MAX_OPTED_IN = 1024 };
static struct { const void *kernel; int64_t bytes; } opted_in[MAX_OPTED_IN];
static int n_opted_in;

cudaError_t simt_allow_shared(const void *kernel, int attribute, int bytes) {
    if (attribute != (int)cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (!kernel || bytes < 0 || bytes > limits.shared_bytes_opt_in) {
        refuse(cudaErrorInvalidValue, "%d bytes of dynamic shared memory asked for a kernel; a block has at most %lld",
               bytes, (long long)limits.shared_bytes_opt_in);
        return cudaErrorInvalidValue;
    }
    int i = 0;
    while (i < n_opted_in && opted_in[i].kernel != kernel) i++;
    if (i == MAX_OPTED_IN) return cudaErrorInvalidValue;
    if (i == n_opted_in) n_opted_in++;
    opted_in[i].kernel = kernel;
    opted_in[i].bytes = bytes;
    return cudaSuccess;
}

static int64_t shared_limit(const void *kernel) {
    for (int i = 0; i < n_opted_in; i++)
        if (opted_in[i].kernel == kernel && opted_in[i].bytes > limits.shared_bytes) return opted_in[i].bytes;
    return limits.shared_bytes;
}

bool simt_launch_allowed(const struct simt_launch *l) {
    const char *name = l->kernel->name;
    uint64_t threads = (uint64_t)l->block.x * l->block.y * l->block.z;
    dim3 g = l->grid, b = l->block;
    if (threads == 0 || g.x == 0 || g.y == 0 || g.z == 0)
        return refuse(cudaErrorInvalidConfiguration, "%s: grid (%u,%u,%u) of blocks (%u,%u,%u) has a size of zero",
                      name, g.x, g.y, g.z, b.x, b.y, b.z);
    if (b.x > limits.threads || b.y > limits.threads || b.z > limits.block_z || threads > (uint64_t)limits.threads)
        return refuse(cudaErrorInvalidConfiguration,
                      "%s: a block of (%u,%u,%u) threads; the limit is %lld, of the last %lld", name, b.x, b.y, b.z,
                      (long long)limits.threads, (long long)limits.block_z);
    if (g.x > limits.grid_x || g.y > limits.grid_yz || g.z > limits.grid_yz)
        return refuse(cudaErrorInvalidConfiguration, "%s: a grid of (%u,%u,%u) blocks; the limits are %lld, %lld, %lld",
                      name, g.x, g.y, g.z, (long long)limits.grid_x, (long long)limits.grid_yz,
                      (long long)limits.grid_yz);
    if ((int64_t)l->shared_bytes > shared_limit(l->function))
        return refuse(cudaErrorInvalidValue,
                      "%s: %zu bytes of dynamic shared memory; allowed are %lld, with GPU_ALLOW_SHARED up to %lld",
                      name, l->shared_bytes, (long long)shared_limit(l->function),
                      (long long)limits.shared_bytes_opt_in);
    return true;
}

/* ---- order ---- */
static bool order_known;

void simt_set_order(enum simt_order order) {
    now.reverse = order == SIMT_REVERSE;
    order_known = true;
}
enum simt_order simt_get_order(void) {
    if (!order_known) {
        const char *text = getenv("SIMT_ORDER");
        bool reverse = text && strcmp(text, "reverse") == 0;
        if (text && *text && !reverse && strcmp(text, "forward") != 0)
            fprintf(stderr, "simt: SIMT_ORDER=%s is neither forward nor reverse; forward is taken\n", text);
        simt_set_order(reverse ? SIMT_REVERSE : SIMT_FORWARD);
    }
    return now.reverse ? SIMT_REVERSE : SIMT_FORWARD;
}

/* ---- running ---- */
namespace simt {
struct uint3 block_index(uint32_t n) {
    dim3 g = now.launch->grid;
    uint64_t total = (uint64_t)g.x * g.y * g.z, i = now.reverse ? total - 1 - n : n;
    return {(unsigned)(i % g.x), (unsigned)(i / g.x % g.y), (unsigned)(i / g.x / g.y)};
}
}

/* Blocks are numbered over all launches. Before the numbers overflow they start again, and the checker drops its
 * marks. */
static void number_blocks(uint64_t n) {
    if (simt_serial + n >= UINT32_MAX) simt_serial = 0, check_forget();
    now.first_serial = simt_serial + 1;
}

void simt_launch_run(const struct simt_launch *l, void (*thread)(void *), void *context) {
    uint64_t n = (uint64_t)l->grid.x * l->grid.y * l->grid.z;
    simt_get_order();
    gridDim = l->grid;
    blockDim = l->block;
    now.launch = l;
    now.launch_number++;
    now.n_threads = (int)(l->block.x * l->block.y * l->block.z);
    number_blocks(n);
    traffic_launch_starts();
    for (uint64_t i = 0; i < n; i++) {
        simt_serial++;
        blockIdx = block_index((uint32_t)i);
        shared_start(l->shared_bytes);
        bool ended = block_run(thread, context);
        traffic_block_ends();
        if (!ended) {
            refuse(cudaErrorLaunchFailure, "%s: block (%u,%u,%u) was given up", l->kernel->name, blockIdx.x, blockIdx.y,
                   blockIdx.z);
            break;
        }
    }
    traffic_launch_ends();
    now.launch = NULL;
}
