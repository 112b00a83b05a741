/* build/bench-step: does the host wait for the GPU anywhere inside a training step?
 *
 *   build/bench-step [--json FILE] [train's options]    e.g. --layers 2 --hidden 768 --heads 12 --seq 1024
 *
 * The proof: before a step is started, the compute stream is blocked by a host function that returns only on request.
 * Nothing after it can run. If run_step_start returns while the stream is still blocked, then no call in it, of this
 * project or of cuBLASLt, cuDNN or NCCL, waited for the work of the step or for anything before it. If a call
 * does wait, the block gives way after HOLD_S seconds, and the run fails. Warm-up steps load the kernels and make
 * the libraries' plans, which may wait. Calls of the CUDA runtime that wait, from this project's code, are counted by
 * name too (the linker's --wrap), so that a failure says where to look.
 *
 * What breaks it: a GPU takes about a thousand launches ahead, and then the host waits for room. So the model has few
 * layers; a deeper model queues the same calls more often. Between cudaProfilerStart and Stop lies one step,
 * unblocked, for `nsys profile --capture-range=cudaProfilerApi`. The emulated device counts its host's waits itself,
 * and that count must agree. */
#include "driver/recipe.h"
#include "driver/setup.h"
#include "driver/train/train_options.h"
#include "lib/base/clock.h"
#include "lib/run/run.h"
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <jansson.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const double HOLD_S = 10;
enum { WARM_STEPS = 3, CHECKED_STEPS = 3 };

extern int64_t simt_host_waits(void) __attribute__((weak));            /* the emulated device's counter */
extern cudaError_t cudaProfilerStart(void) __attribute__((weak));
extern cudaError_t cudaProfilerStop(void) __attribute__((weak));

/* ---- waits by name: the linker sends this project's calls through these ---- */
static bool watching;
static struct { const char *name; int n; } waits[8];
static void note(const char *name) {
    int i = 0;
    if (!watching) return;
    while (i < 7 && waits[i].name && strcmp(waits[i].name, name)) i++;
    waits[i].name = name;
    waits[i].n++;
}
#define WAITING(name, parameters, arguments)                                                                           \
    cudaError_t __real_##name parameters;                                                                              \
    cudaError_t __wrap_##name parameters;                                                                              \
    cudaError_t __wrap_##name parameters {                                                                             \
        note(#name);                                                                                                   \
        return __real_##name arguments;                                                                                \
    }
WAITING(cudaStreamSynchronize, (cudaStream_t stream), (stream))
WAITING(cudaDeviceSynchronize, (void), ())
WAITING(cudaEventSynchronize, (cudaEvent_t event), (event))
WAITING(cudaMalloc, (void **out, size_t bytes), (out, bytes))
WAITING(cudaFree, (void *memory), (memory))
WAITING(cudaMemcpy, (void *to, const void *from, size_t n, enum cudaMemcpyKind kind), (to, from, n, kind))

static int named_waits(void) {
    int n = 0;
    for (int i = 0; i < 8; i++) n += waits[i].n;
    return n;
}

/* ---- the block ---- */
struct gate { atomic_bool open, passed; };

static void stand_in_the_way(void *self) {
    struct gate *gate = self;
    double end = clock_s() + HOLD_S;
    while (!atomic_load(&gate->open) && clock_s() < end) sched_yield();
    atomic_store(&gate->passed, true);
}

struct result { double queue_ms, step_ms; int blocked_steps, let_through, counted; bool emulated; };
static int waits_of(const struct result *x) { return x->let_through + x->counted + named_waits(); }

/* Queue a step behind the block. */
static enum status step_behind_a_block(struct run *r, struct result *out) {
    static struct gate gate;         /* static: after an error return the driver's thread may still read it */
    gate = (struct gate){0};
    cudaError_t error = cudaLaunchHostFunc((cudaStream_t)r->device->stream, stand_in_the_way, &gate);
    if (error != cudaSuccess) return FAIL(E_DEVICE, "cudaLaunchHostFunc: %s", cudaGetErrorString(error));
    double start = clock_s();
    int64_t counted = out->emulated ? simt_host_waits() : 0;
    watching = true;
    enum status status = run_step_start(r);
    watching = false;
    if (out->emulated) out->counted += (int)(simt_host_waits() - counted);
    double queue_ms = 1e3 * (clock_s() - start);
    bool still_blocked = !atomic_load(&gate.passed);
    atomic_store(&gate.open, true);
    if (status != OK) return status;
    TRY(run_step_finish(r));
    if (queue_ms > out->queue_ms) out->queue_ms = queue_ms;
    if (still_blocked) out->blocked_steps++;
    else out->let_through++;
    return OK;
}

static enum status step_for_a_profiler(struct run *r, struct result *out) {
    double start = clock_s();
    if (cudaProfilerStart) cudaProfilerStart();
    TRY(run_step_start(r));
    if (cudaProfilerStop) cudaProfilerStop();
    TRY(run_step_finish(r));
    out->step_ms = 1e3 * (clock_s() - start);
    return OK;
}

static enum status check(struct run *r, struct result *out) {
    out->emulated = simt_host_waits != NULL;
    for (int i = 0; i < WARM_STEPS; i++) TRY(run_step(r));
    for (int i = 0; i < CHECKED_STEPS; i++) TRY(step_behind_a_block(r, out));
    return step_for_a_profiler(r, out);
}

/* ---- the report ---- */
static enum status report(const struct run *r, const struct result *x, const char *json) {
    printf("%s, %" PRId64 " layers: %d of %d steps were queued while the device stood still, %d waits%s",
           r->device->name, r->plan.layers, x->blocked_steps, CHECKED_STEPS, waits_of(x),
           x->emulated ? " (emulated, and counted there too)\n" : "; ");
    if (!x->emulated) printf("queued in at most %.2f ms, a step takes %.2f ms\n", x->queue_ms, x->step_ms);
    json_t *names = json_object();
    for (int i = 0; i < 8 && waits[i].name; i++) {
        printf("  waits in a step: %s, %d times\n", waits[i].name, waits[i].n);
        json_object_set_new(names, waits[i].name, json_integer(waits[i].n));
    }
    json_t *all = json_pack("{s:s, s:b, s:I, s:i, s:i, s:i, s:f, s:f, s:o}", "device", r->device->name, "emulated",
                            (int)x->emulated, "layers", (json_int_t)r->plan.layers, "steps", CHECKED_STEPS,
                            "steps_queued_behind_a_blocked_gpu", x->blocked_steps, "waits", waits_of(x), "queue_ms",
                            x->queue_ms, "step_ms", x->step_ms, "waiting_calls", names);
    int failed = json && json_dump_file(all, json, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    json_decref(all);
    return failed ? FAIL(E_IO, "cannot write %s", json) : OK;
}

static enum status run(int argc, char **argv, const char *json) {
    static struct setup setup;
    struct run r = {0};
    struct result result = {0};
    enum status status = setup_init(&setup, argc, argv, comm_world_size());
    if (status == OK && setup.plan.device != PLAN_DEVICE_CUDA)
        status = FAIL(E_CONFIG, "device=cpu; a step on the CPU is done when it returns, so give --device cuda");
    TRY_DONE(fail_agree(group_world(), status));
    TRY(plan_use_comm(&setup.plan, false, straggler_link_slowdown(&setup.plan)));
    setup_threads(&setup.plan, comm_local_size());
    TRY_DONE(run_create(&r, &train_recipe, &setup.plan, WATCH_NOTHING));
    run_set_data(&r, &setup.train, &setup.val);
    TRY_DONE(check(&r, &result));
    if (comm_is_rank_0()) TRY_DONE(report(&r, &result, json));
    if (waits_of(&result) > 0)
        status =
            FAIL(E_DEVICE,
                 "the host waited for the device inside a step: %d of %d steps were not queued while it was stopped",
                 result.let_through, CHECKED_STEPS);
done:
    run_destroy(&r);
    setup_fini(&setup);
    return status;
}

int main(int argc, char **argv) {
    const char *json = NULL;
    enum status status = comm_start(&argc, &argv);
    if (argc > 2 && !strcmp(argv[1], "--json")) {
        json = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (status == OK) status = run(argc - 1, argv + 1, json);
    status_report();
    comm_finish(status == OK, status_exit_code(status));
    return status_exit_code(status);
}
