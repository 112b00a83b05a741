/* Device memory and pinned memory of the fakes.
 *
 * Device memory is mapped page by page, and closed (PROT_NONE) while host code runs: host code that follows a device
 * pointer is stopped with a line, where a real program crashes. While streams run, a block opens at the first touch by
 * a kernel or a copy, and stays open until they rest: untouched memory costs nothing, however large. Each block ends
 * at a page that is never open; new memory is all 0xff bytes, NaN in every floating type. Freed memory stays closed, at
 * an address that is not given out again for a while. */
#include "tests/simt/fake.h"

#include <atomic>
#include <deque>
#include <map>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

enum { PAGE = 4096, QUARANTINE = 256 };

struct block { char *at; size_t bytes, mapped; enum place place; int device; bool open; };

static std::map<uintptr_t, struct block> blocks;            /* by address; also the freed ones that are still mapped */
static std::deque<uintptr_t> quarantine;
static size_t used[64];                                     /* bytes, by device */
static bool is_open;                                        /* streams run */
static std::vector<uintptr_t> opened;                       /* since then; reserved for all, because a signal handler
                                                             * adds to it */

static bool guarded(void) {
    static int on = -1;
    const char *text = getenv("SIMT_GUARD");
    if (on < 0) on = &simt_submit && (!text || *text != '0');
    return on;
}

static size_t memory_limit(void) {
    const char *text = getenv("SIMT_MEMORY");
    if (!text) return (size_t)2 << 30;
    char *end;
    double bytes = strtod(text, &end);
    return (size_t)(bytes * (*end == 'K' ? 1024.0 : *end == 'M' ? 1048576.0 : *end == 'G' ? 1073741824.0 : 1.0));
}

/* ---- the owner of an address ---- */
static struct block *block_of(const void *at) {
    auto next = blocks.upper_bound((uintptr_t)at);
    if (next == blocks.begin()) return NULL;
    struct block *b = &std::prev(next)->second;
    return (const char *)at < b->at + b->mapped ? b : NULL;
}

struct range fake_range(const void *at, size_t bytes) {
    const struct block *b = block_of(at);
    if (!b) return (struct range){PLACE_PAGEABLE, 0, true};
    return (struct range){b->place, b->device, (const char *)at + bytes <= b->at + b->bytes};
}

/* ---- the guard ---- */
static struct sigaction before;

static void protect(const struct block *b, int protection) {
    if (b->place == PLACE_DEVICE && mprotect(b->at, (b->bytes + PAGE - 1) / PAGE * PAGE, protection) != 0)
        perror("simt: mprotect");
}

/* Open a closed block that is touched while streams run; then the instruction runs again. The threads of a library's
 * fake may touch the same block at once. */
static bool opens(struct block *b, const void *at) {
    static std::atomic_flag busy = ATOMIC_FLAG_INIT;
    if (!is_open || b->place != PLACE_DEVICE || (const char *)at >= b->at + (b->mapped - PAGE)) return false;
    while (busy.test_and_set(std::memory_order_acquire)) sched_yield();
    if (!b->open) {
        b->open = true;
        opened.push_back((uintptr_t)b->at);
        protect(b, PROT_READ | PROT_WRITE);
    }
    busy.clear(std::memory_order_release);
    return true;
}

static void touched(int signal, siginfo_t *info, void *context) {
    struct block *b = block_of(info->si_addr);
    if (b && opens(b, info->si_addr)) return;
    if (b) {
        char line[200];
        int n = snprintf(line, sizeof line, "simt: %s memory was touched %s: byte %zd of an allocation of %zu bytes\n",
                         b->place == PLACE_FREED ? "freed device" : "device",
                         is_open ? "beyond its end" : "by host code", (char *)info->si_addr - b->at, b->bytes);
        ssize_t written = write(STDERR_FILENO, line, (size_t)n);
        (void)written;
    }
    if (before.sa_flags & SA_SIGINFO && before.sa_sigaction) before.sa_sigaction(signal, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(signal);
    struct sigaction standard = {};
    sigaction(signal, &standard, NULL);                     /* back to the instruction, which now ends the process */
}

/* Test runners install handlers of their own; ours runs before the present one. */
static void watch_faults(void) {
    struct sigaction now;
    sigaction(SIGSEGV, NULL, &now);
    if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == touched) return;
    before = now;
    struct sigaction ours = {};
    ours.sa_sigaction = touched;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &ours, NULL);
}

void fake_memory_open(void) {
    if (is_open) return;
    is_open = true;
    if (guarded()) watch_faults();
}
void fake_memory_close(void) {
    if (!is_open) return;
    is_open = false;
    if (!guarded()) return;
    watch_faults();
    for (uintptr_t at : opened) {
        auto found = blocks.find(at);                       /* it may have been freed meanwhile */
        if (found == blocks.end() || !found->second.open) continue;
        protect(&found->second, PROT_NONE);
        found->second.open = false;
    }
    opened.clear();
}

/* ---- allocating ---- */
static cudaError_t map_block(void **out, size_t bytes, enum place place) {
    size_t whole = (bytes + PAGE - 1) / PAGE * PAGE, mapped = whole + PAGE;
    char *at = (char *)mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return fake_fail(cudaErrorMemoryAllocation, NULL);
    mprotect(at + whole, PAGE, PROT_NONE);
    memset(at, 0xff, whole);
    struct block b = {at, bytes, mapped, place, fake_device(), false};
    blocks[(uintptr_t)at] = b;
    opened.reserve(blocks.size());
    if (guarded()) watch_faults(), protect(&b, PROT_NONE);
    *out = at;
    return cudaSuccess;
}

static void unmap_oldest(void) {
    auto found = blocks.find(quarantine.front());
    quarantine.pop_front();
    munmap(found->second.at, found->second.mapped);
    blocks.erase(found);
}

static cudaError_t free_block(void *at, enum place place, const char *call) {
    if (!at) return cudaSuccess;
    struct block *b = block_of(at);
    if (!b || b->at != at || b->place != place)
        return fake_fail(cudaErrorInvalidValue, "%s(%p): %s", call, at,
                           b && b->place == PLACE_FREED ? "freed before" : "not what was allocated");
    madvise(at, b->bytes, MADV_DONTNEED);
    mprotect(at, (b->bytes + PAGE - 1) / PAGE * PAGE, PROT_NONE);
    b->place = PLACE_FREED;
    b->open = false;
    quarantine.push_back((uintptr_t)at);
    if (quarantine.size() > QUARANTINE) unmap_oldest();
    return cudaSuccess;
}

extern "C" {

cudaError_t cudaMalloc(void **out, size_t bytes) {
    if (!out) return fake_fail(cudaErrorInvalidValue, "cudaMalloc: no place for the result");
    *out = NULL;
    if (bytes == 0) return cudaSuccess;                     /* as CUDA: a null pointer, and success */
    if (used[fake_device()] + bytes > memory_limit()) return fake_fail(cudaErrorMemoryAllocation, NULL);
    cudaError_t error = map_block(out, bytes, PLACE_DEVICE);
    if (error != cudaSuccess) return error;
    used[fake_device()] += bytes;
    if (simt_memory_allocated) simt_memory_allocated(*out, bytes);
    return cudaSuccess;
}

/* Waits for the whole device, as CUDA's does in practice, so no queued work can still use the memory. */
cudaError_t cudaFree(void *at) {
    const struct block *b = at ? block_of(at) : NULL;
    int device = b ? b->device : 0;
    size_t bytes = b ? b->bytes : 0;
    if (at) cudaDeviceSynchronize();
    cudaError_t error = free_block(at, PLACE_DEVICE, "cudaFree");
    if (error != cudaSuccess || !at) return error;
    used[device] -= bytes;
    if (simt_memory_freed) simt_memory_freed(at);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **out, size_t bytes) {
    if (!out) return fake_fail(cudaErrorInvalidValue, "cudaMallocHost: no place for the result");
    *out = NULL;
    return bytes == 0 ? cudaSuccess : map_block(out, bytes, PLACE_PINNED);
}
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned) { return cudaMallocHost(out, bytes); }
/* CUDA does not promise to wait here. A copy that is still queued then finds freed memory, and reports an error. */
cudaError_t cudaFreeHost(void *at) { return free_block(at, PLACE_PINNED, "cudaFreeHost"); }

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *at) {
    struct range r = fake_range(at, 1);
    memset(out, 0, sizeof *out);
    out->type = r.place == PLACE_DEVICE ? cudaMemoryTypeDevice : r.place == PLACE_PINNED ? cudaMemoryTypeHost
                                                                                        : cudaMemoryTypeUnregistered;
    out->device = r.place == PLACE_PAGEABLE ? -1 : r.device;
    out->devicePointer = r.place == PLACE_DEVICE ? (void *)at : NULL;
    out->hostPointer = r.place == PLACE_PINNED ? (void *)at : NULL;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    *total = memory_limit();
    *free_bytes = *total - used[fake_device()];
    return cudaSuccess;
}

}
