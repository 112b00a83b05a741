/* Streams and events of the fakes: queues, and places in them.
 *
 * A stream runs its pieces in order; only events order pieces of different streams. A wait for an event means the
 * record that the event had when the wait was issued (CUDA programming guide, "Events"; runtime API,
 * cudaStreamWaitEvent), so no circle of waits can be built. There are no threads: streams run inside the calls that
 * wait or query. */
#include "tests/simt/fake.h"

#include <algorithm>
#include <deque>
#include <random>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vector>

struct job { const char *what; piece run; bool touches; };
struct stream { int device; bool destroyed; std::deque<job> queue; int priority; };
struct record { bool done = false; double at_s = 0; };
struct event { bool timed; std::shared_ptr<record> latest; };

static std::vector<stream *> streams;                       /* oldest first; a device's own (null) stream comes first of
                                                             * all */
static std::vector<event *> events;
static stream *null_stream[64];
static bool running;                                        /* inside a piece */
static int64_t host_waits;

extern "C" int64_t simt_host_waits(void) { return host_waits; }
static double pretended_s;                                  /* seconds that work pretends to take in addition */
extern "C" void simt_pretend(double seconds) { pretended_s += seconds; }

/* ---- the order ---- */
enum order { LATE, OLDEST, EAGER, RANDOM };
static enum order order_wanted(void) {
    const char *text = getenv("SIMT_STREAMS");
    if (!&simt_submit) return EAGER;                        /* without it kernels run at the launch, so all work must */
    static const struct { const char *name; enum order order; } names[] = {{"oldest", OLDEST}, {"eager", EAGER},
                                                                           {"random", RANDOM}};
    for (const auto &n : names)
        if (text && strcmp(text, n.name) == 0) return n.order;
    return LATE;
}
static enum order order_in_force(void) {
    static const enum order order = order_wanted();
    return order;
}
static unsigned draw(unsigned n) {
    static std::mt19937 generator((unsigned)(getenv("SIMT_SEED") ? atoi(getenv("SIMT_SEED")) : 1));
    return (unsigned)(generator() % n);
}

/* ---- running ---- */
/* The job leaves the queue before it runs, so that it does not run twice if it never returns (a test's assertion jumps
 * out). */
static bool run_one(stream *s) {
    if (s->queue.empty()) return false;
    job first = std::move(s->queue.front());
    s->queue.pop_front();
    if (first.touches) fake_memory_open();
    if (first.run()) return true;
    s->queue.push_front(std::move(first));
    return false;
}

static void bury(void) {
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i]->destroyed && streams[i]->queue.empty()) {
            delete streams[i];
            streams.erase(streams.begin() + (long)i--);
        }
}

static bool youngest_first(const std::function<bool()> &enough) {
    bool moved = false;
    for (size_t i = streams.size(); i-- > 0;)
        while (!enough() && run_one(streams[i])) moved = true;
    return moved;
}

/* The compute stream is older than those that copy and send: a missing wait for them shows here. */
static bool oldest_first(const std::function<bool()> &enough) {
    bool moved = false;
    for (size_t i = 0; i < streams.size(); i++)
        while (!enough() && run_one(streams[i])) moved = true;
    return moved;
}

static bool in_any_order(const std::function<bool()> &enough) {
    bool moved = false;
    for (size_t i = 0; i < 4 * streams.size() && !enough(); i++)
        moved |= run_one(streams[draw((unsigned)streams.size())]);
    return moved;
}

/* One round. Host functions and kernels must not call CUDA. If a test jumps out of a piece, `running` stays set until
 * the next call of the host. */
static bool run_streams(const std::function<bool()> &enough) {
    running = true;
    enum order order = order_in_force();
    bool moved = order == RANDOM   ? in_any_order(enough)
                 : order == OLDEST ? oldest_first(enough)
                                   : youngest_first(enough);
    running = false;
    fake_memory_close();
    bury();
    return moved;
}

static bool never(void) { return false; }

void fake_poke(void) { run_streams(never); }

void fake_wait(const std::function<bool()> &done) {
    host_waits++;
    while (!done())
        if (!run_streams(done)) sched_yield();              /* other work waits for another process */
}

/* ---- streams ---- */
static stream *stream_at(cudaStream_t handle) {
    int device = fake_device();
    if (!handle) {
        if (!null_stream[device]) streams.insert(streams.begin(), null_stream[device] = new stream{device, false, {}});
        return null_stream[device];
    }
    for (stream *s : streams)
        if (s == (stream *)handle && !s->destroyed) return s;
    return NULL;
}

int fake_stream_device(cudaStream_t handle) {
    const stream *s = stream_at(handle);
    return s ? s->device : -1;
}

cudaError_t fake_enqueue(cudaStream_t handle, const char *what, piece run, bool touches) {
    stream *s = stream_at(handle);
    if (!s) return fake_fail(cudaErrorInvalidResourceHandle, "%s: no such stream (%p)", what, (void *)handle);
    s->queue.push_back(job{what, std::move(run), touches});
    if (order_in_force() == EAGER) fake_poke();
    return cudaSuccess;
}

static cudaError_t create_stream(cudaStream_t *out, unsigned flags, int priority) {
    if (flags != cudaStreamNonBlocking)
        return fake_fail(cudaErrorInvalidValue, "a stream that waits for the null stream: not in this double; use "
                           "cudaStreamNonBlocking");
    stream *s = new stream{fake_device(), false, {}, priority};
    streams.push_back(s);
    *out = (cudaStream_t)s;
    return cudaSuccess;
}

static event *event_at(cudaEvent_t handle) {
    auto found = std::find(events.begin(), events.end(), (event *)handle);
    return found == events.end() ? NULL : *found;
}
static cudaError_t no_such_event(const char *call) {
    return fake_fail(cudaErrorInvalidResourceHandle, "%s: no such event", call);
}
static double clock_now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec + pretended_s;
}

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) { return create_stream(out, flags, 0); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
    return create_stream(out, flags, priority);
}
cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority) {
    stream *s = handle ? stream_at(handle) : NULL;
    if (!s) return fake_fail(cudaErrorInvalidResourceHandle, "cudaStreamGetPriority: no such stream");
    *priority = s->priority;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0, *greatest = -5;
    return cudaSuccess;
}
/* Queued work still runs (runtime API, cudaStreamDestroy). */
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
    stream *s = handle ? stream_at(handle) : NULL;
    if (!s) return fake_fail(cudaErrorInvalidResourceHandle, "cudaStreamDestroy: no such stream");
    s->destroyed = true;
    bury();
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    stream *s = stream_at(handle);
    if (!s) return fake_fail(cudaErrorInvalidResourceHandle, "cudaStreamSynchronize: no such stream");
    fake_wait([s] { return s->queue.empty(); });
    return fake_async_error();
}
/* The answer is computed before the streams run, so that the first query never finds fresh work done. "Not ready" is no
 * error for cudaGetLastError (programming guide, "Error checking"). */
cudaError_t cudaStreamQuery(cudaStream_t handle) {
    stream *s = stream_at(handle);
    if (!s) return fake_fail(cudaErrorInvalidResourceHandle, "cudaStreamQuery: no such stream");
    bool done = s->queue.empty();
    if (!done) fake_poke();
    return done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaDeviceSynchronize(void) {
    int device = fake_device();
    fake_wait([device] {
        for (const stream *s : streams)
            if (s->device == device && !s->queue.empty()) return false;
        return true;
    });
    return fake_async_error();
}
cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *data) {
    return fake_enqueue(handle, "cudaLaunchHostFunc", [=] {
        function(data);
        return true;
    }, false);
}

/* ---- events ---- */
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
    event *e = new event{!(flags & cudaEventDisableTiming), nullptr};
    events.push_back(e);
    *out = (cudaEvent_t)e;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *out) { return cudaEventCreateWithFlags(out, cudaEventDefault); }
/* Issued waits keep the record that they wait for. */
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
    event *e = event_at(handle);
    if (!e) return no_such_event("cudaEventDestroy");
    events.erase(std::find(events.begin(), events.end(), e));
    delete e;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
    event *e = event_at(handle);
    if (!e) return no_such_event("cudaEventRecord");
    std::shared_ptr<record> here = std::make_shared<record>();
    e->latest = here;
    return fake_enqueue(stream, "cudaEventRecord", [here] {
        here->at_s = clock_now_s();
        here->done = true;
        return true;
    }, false);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned) {
    event *e = event_at(handle);
    if (!e) return no_such_event("cudaStreamWaitEvent");
    std::shared_ptr<record> meant = e->latest;
    if (!meant) return cudaSuccess;                         /* never recorded: nothing to wait for */
    return fake_enqueue(stream, "cudaStreamWaitEvent", [meant] { return meant->done; }, false);
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
    event *e = event_at(handle);
    if (!e) return no_such_event("cudaEventQuery");
    bool done = !e->latest || e->latest->done;
    if (!done) fake_poke();
    return done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
    event *e = event_at(handle);
    if (!e) return no_such_event("cudaEventSynchronize");
    std::shared_ptr<record> meant = e->latest;
    fake_wait([meant] { return !meant || meant->done; });
    return fake_async_error();
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    event *a = event_at(from), *b = event_at(to);
    if (!a || !b) return no_such_event("cudaEventElapsedTime");
    if (!a->timed || !b->timed || !a->latest || !b->latest)
        return fake_fail(cudaErrorInvalidResourceHandle,
                         "cudaEventElapsedTime: an event without timing, or never recorded");
    if (!a->latest->done || !b->latest->done) return cudaErrorNotReady;
    *ms = (float)(1e3 * (b->latest->at_s - a->latest->at_s));
    return cudaSuccess;
}

}

/* ---- kernels ---- */
/* The arguments are copied at the launch, as CUDA does. */
static void submit(void *stream, void (*run)(void *), void *context, size_t bytes) {
    std::shared_ptr<void> copy(aligned_alloc(64, (bytes + 63) / 64 * 64 + 64), free);
    memcpy(copy.get(), context, bytes);
    int device = fake_stream_device((cudaStream_t)stream);
    if (device >= 0 && device != fake_device()) {
        fake_fail(cudaErrorInvalidResourceHandle, "a kernel for GPU %d on a stream of GPU %d", fake_device(), device);
        return;
    }
    fake_enqueue((cudaStream_t)stream, "kernel", [copy, run] {
        run(copy.get());
        return true;
    });
}

__attribute__((constructor)) static void take_launches(void) {
    if (&simt_submit) simt_submit = submit;
}
