/* LAUNCH(kernel, grid, block, shared_bytes, stream)(arguments...), and the permission for large shared memory.
 *
 * A launch is checked when it is issued, as CUDA does. Then the grid, the kernel and its arguments become one block of
 * plain bytes that can be run now, or copied and run when its stream comes to it (simt_submit, simt_test.h). */
#pragma once

struct simt_kernel { const char *name, *file; int line; };   /* a LAUNCH in the source */

struct simt_launch {
    const struct simt_kernel *kernel;
    const void *function;
    dim3 grid, block;
    size_t shared_bytes;
    void *stream;
};

extern "C" {
/** Is the launch within the limits? If not, simt_take_error returns the error. */
bool simt_launch_allowed(const struct simt_launch *);
/** Run all blocks, one after the other; thread(context) is the kernel with its arguments. */
void simt_launch_run(const struct simt_launch *, void (*thread)(void *), void *context);
cudaError_t simt_allow_shared(const void *kernel, int attribute, int bytes);
extern void (*simt_submit)(void *stream, void (*run)(void *context), void *context, size_t bytes);
}

/* Unnamed, because objects of different element types have the same names with parameters of other sizes. */
namespace {
template <class Thread> struct simt_work {
    struct simt_launch launch;
    Thread thread;
    SIMT_MACHINE static void run_thread(void *context) { (*(const Thread *)context)(); }
    static void run(void *context) {
        struct simt_work *work = (struct simt_work *)context;
        simt_launch_run(&work->launch, run_thread, &work->thread);
    }
};

template <class... Parameters> struct simt_launcher {
    void (*function)(Parameters...);
    struct simt_launch launch;
    void operator()(Parameters... parameters) const {
        if (!simt_launch_allowed(&launch)) return;
        auto thread = [kernel = function, parameters...]() SIMT_MACHINE { kernel(parameters...); };
        typedef simt_work<decltype(thread)> work;
        static_assert(std::is_trivially_copyable<work>::value, "a kernel's arguments are plain bytes");
        work w = {launch, thread};
        if (simt_submit) simt_submit(launch.stream, work::run, &w, sizeof w);
        else work::run(&w);
    }
};

template <class... Parameters>
inline simt_launcher<Parameters...> simt_launch_of(void (*function)(Parameters...), const struct simt_kernel *kernel,
                                                   dim3 grid, dim3 block, size_t shared_bytes, void *stream) {
    return {function, {kernel, (const void *)function, grid, block, shared_bytes, stream}};
}
}

#define LAUNCH(kernel, grid, block, shared_bytes, stream) \
    simt_launch_of(kernel, ({ \
                       static const struct simt_kernel simt_kernel_ = {#kernel, __FILE__, __LINE__}; \
                       &simt_kernel_; \
                   }), \
                   (grid), (block), (size_t)(shared_bytes), (void *)(stream))

/* tests/simt keeps the attributes of kernels; the fake of the runtime does not. */
#define cudaFuncSetAttribute(kernel, attribute, value) \
    simt_allow_shared((const void *)(kernel), (int)(attribute), (value))
