/* Kernels that nvcc compiled, run by the interpreter of their PTX instead of a GPU.
 *
 * nvcc makes two things of a .cu file: PTX for the GPU, and host code that hands a launch to the CUDA runtime. This
 * file is the part of the runtime that the host code calls: it passes PTX, grid, arguments and all of device memory to
 * tools/ptx/server.py over a socket, waits, and reads the memory back. tests/simt's fakes are the rest of the runtime.
 * So the launchers, their grids and their arguments are the real ones, too.
 *
 *   module  I BYTES, text                                 the PTX of the I-th object that was linked
 *   sizes   I KERNEL                  -> sizes of its arguments in bytes
 *   launch  I KERNEL grid(3) block(3) shared n_bytes n_blocks, arguments, (address, bytes) of each block, the blocks
 *                                     -> "ok" and the blocks, or one line that says what went wrong
 *
 * PTX_SOCKET: the socket's file descriptor. */
#include "tests/simt/fake.h"

#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <unistd.h>
#include <vector>

struct kernel { int module; std::string name; std::vector<size_t> sizes; bool known; };

static std::map<char *, size_t> memory;                     /* device memory that is allocated */
static bool failed;                                         /* a launch failed since the last simt_take_error */

/* By host function. Objects register kernels before main in no fixed order, so a function holds the map. */
static std::map<const void *, kernel> &kernels(void) {
    static std::map<const void *, kernel> all;
    return all;
}

/* ---- the socket ---- */
[[noreturn]] static void give_up(const char *what) {
    fprintf(stderr, "ptx: %s: %s\n", what,
            "the interpreter is gone (its reason is above); PTX_SOCKET is set by tools/ptx/run");
    _exit(3);
}
static int server(void) {
    static const int fd = getenv("PTX_SOCKET") ? atoi(getenv("PTX_SOCKET")) : -1;
    return fd;
}
static void send_bytes(const void *from, size_t n) {
    for (const char *p = (const char *)from; n > 0;) {
        ssize_t sent = write(server(), p, n);
        if (sent <= 0) give_up("write");
        p += sent, n -= (size_t)sent;
    }
}
static void receive_bytes(void *to, size_t n) {
    for (char *p = (char *)to; n > 0;) {
        ssize_t got = read(server(), p, n);
        if (got <= 0) give_up("read");
        p += got, n -= (size_t)got;
    }
}
static std::string receive_line(void) {
    std::string line;
    for (char c; receive_bytes(&c, 1), c != '\n';) line += c;
    return line;
}
static void send_line(const std::string &line) { send_bytes((line + "\n").data(), line.size() + 1); }

/* ---- a launch ---- */
struct call { const kernel *k; dim3 grid, block; size_t shared; std::vector<char> arguments; };

static bool run(const call &c) {
    char numbers[200];
    snprintf(numbers, sizeof numbers, " %u %u %u %u %u %u %zu %zu %zu", c.grid.x, c.grid.y, c.grid.z, c.block.x,
             c.block.y, c.block.z, c.shared, c.arguments.size(), memory.size());
    send_line("launch " + std::to_string(c.k->module) + " " + c.k->name + numbers);
    send_bytes(c.arguments.data(), c.arguments.size());
    for (const auto &m : memory) {
        uint64_t place[2] = {(uint64_t)m.first, m.second};
        send_bytes(place, sizeof place);
    }
    for (const auto &m : memory) send_bytes(m.first, m.second);
    std::string answer = receive_line();
    if (answer == "ok")
        for (const auto &m : memory) receive_bytes(m.first, m.second);
    else {
        printf("ptx: %s\n", answer.c_str());
        failed = true;
    }
    return true;
}

extern "C" {

void simt_memory_allocated(void *at, size_t bytes) { memory[(char *)at] = bytes; }
void simt_memory_freed(void *at) { memory.erase((char *)at); }
int simt_take_error(void) {
    bool was = failed;
    failed = false;
    return was;
}

/* A fat binary's wrapper points to its header (16 bytes; the last 8 are the size of the rest). An uncompressed binary
 * contains the PTX as plain text. */
void **__cudaRegisterFatBinary(void *wrapper) {
    static int n_modules;
    const char *header = *(const char *const *)((const char *)wrapper + 8);
    size_t bytes = (size_t)*(const uint64_t *)(header + 8) + 16;
    const char *text = (const char *)memmem(header, bytes, ".version", 8);
    if (server() < 0 || !text) {
        fprintf(stderr, "ptx: %s\n", text ? "PTX_SOCKET is not set: run this by tools/ptx/run" : "no PTX in an object");
        _exit(3);
    }
    send_line("module " + std::to_string(n_modules) + " " +
              std::to_string(strnlen(text, bytes - (size_t)(text - header))));
    send_bytes(text, strnlen(text, bytes - (size_t)(text - header)));
    return (void **)(intptr_t)++n_modules;
}
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
void __cudaRegisterFunction(void **module, const char *host, char *, const char *name, int, uint3 *, uint3 *, dim3 *,
                            dim3 *, int *) {
    kernels()[host] = kernel{(int)(intptr_t)module - 1, name, {}, false};
}

static call configured;                                     /* by the latest <<<...>>> */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
    configured = call{(const kernel *)stream, grid, block, shared, {}};
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    *grid = configured.grid, *block = configured.block, *shared = configured.shared;
    *(const void **)stream = configured.k;
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host) {
    auto found = kernels().find(host);
    if (found == kernels().end()) return fake_fail(cudaErrorInvalidValue, "no such kernel");
    kernel &k = found->second;
    if (!k.known) {
        send_line("sizes " + std::to_string(k.module) + " " + k.name);
        std::string line = receive_line();
        for (char *at = &line[0], *end; k.sizes.push_back(strtoull(at, &end, 10)), *end; at = end) {}
        k.known = true;
    }
    *out = (cudaKernel_t)&k;
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t handle, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t stream) {
    call c = {(const kernel *)handle, grid, block, shared, {}};
    for (size_t i = 0; i < c.k->sizes.size(); i++)
        c.arguments.insert(c.arguments.end(), (char *)arguments[i], (char *)arguments[i] + c.k->sizes[i]);
    return fake_enqueue(stream, "kernel", [c] { return run(c); });
}
}
