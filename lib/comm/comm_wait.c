/* Waiting: check, yield the core, check again, until done or until the deadline.
 *
 * Ranks may outnumber cores, so a rank that spins keeps its peer from running: with 8 ranks on 2 cores that costs 35 to
 * 100 times the time. sched_yield between two checks reduces that to 1.1 to 1.3 times; short sleeps and progress
 * threads are worse (docs/architecture.md, "Waiting"). A check also advances all other operations, since MPI works only
 * while it is called.
 *
 * A rank that stands by is the exception: it waits for ranks to finish long work in which it takes no part. It sleeps
 * between two checks, which delays no other rank, and it has no deadline.
 *
 * A waiting rank answers the roll calls of other ranks, about every millisecond. At its own deadline it sends a roll
 * call (comm_roll.c) and gives the operation up. MPI has no way to take back a collective, so it may still touch its
 * buffers, and the group cannot be used any more. The driver reports the message and ends the job.
 *
 * For device memory comm_wait puts a wait into the compute stream and returns. The deadline then holds where the host
 * reads the GPU's results: comm_wait_device checks a mark in the same way, and sends the roll call for the oldest
 * unfinished operation on the device. */
#include "lib/base/give_way.h"
#include "lib/comm/comm_device.h"
#include "lib/comm/flight/comm_roll.h"
#include "lib/comm/flight/flight.h"
#include "lib/comm/hops/comm_hops.h"
#include "lib/comm/membership/comm_membership.h"

static const double answer_every_s = 1e-3;
static double next_answer_s; /* kept from wait to wait, so that a rank also answers during many short waits */
static const struct comm_request *waiting;
static const struct timespec idle_sleep = {0, 5000000};
static bool idle;

enum { MAX_GIVEN_UP = 8 };
static struct comm_request given_up[MAX_GIVEN_UP];
static int n_given_up;

const struct comm_request *comm_waiting(void) { return waiting; }
void comm_wait_standing_by(bool on) { idle = on; }

static int64_t in_flight[N_COMM_OPS];

int64_t comm_in_flight(enum comm_op op) { return in_flight[op]; }
void comm_count_in_flight(struct comm_request *request) {
    request->counted = true;
    in_flight[request->op]++;
}
static void no_longer_in_flight(struct comm_request *request) {
    in_flight[request->op] -= request->counted;
    request->counted = false;
}

/* ---- serving other ranks meanwhile ---- */
static struct comm_service service;
static bool serving;

void comm_serve(struct comm_service s) { service = s; }

static enum status serve(void) {
    if (!service.call || serving) return OK;
    serving = true;
    enum status status = service.call(service.self);
    serving = false;
    return status;
}

static enum status test_until(struct comm_request *request, double deadline_s, bool *done) {
    for (long turns = 0;; turns++) {
        TRY(request->backend->test(request, done));
        if (*done) return OK;
        comm_hops_progress();
        comm_device_progress();
        TRY(serve());
        double now_s = clock_s(); /* after the test, so that a rank that was stopped still finds its messages */
        if (now_s >= deadline_s && !idle) return OK;
        if (now_s >= next_answer_s) {
            roll_answer();
            flight_seen(now_s);
            next_answer_s = now_s + answer_every_s;
        }
        if (idle) nanosleep(&idle_sleep, NULL);
        else give_way(turns);
    }
}

static void keep_given_up(struct comm_request *request) {
    no_longer_in_flight(request);
    if (n_given_up < MAX_GIVEN_UP) given_up[n_given_up] = *request;
    n_given_up++;
    request->handle = NULL;
}

bool comm_given_up_done(void) {
    if (n_given_up > MAX_GIVEN_UP) return false;
    for (int i = 0; i < n_given_up; i++) {
        bool done = !given_up[i].handle;
        if (!done && given_up[i].backend->test(&given_up[i], &done) != OK) status_clear();
        if (!done) return false;
    }
    return true;
}

void comm_given_up_drop(void) { n_given_up = 0; }

static void mark_wait(const struct comm_request *request) {
    if (request->span) span_mark(comm_recorder(), request->span - 1, SPAN_WAITS, NULL);
}

/* The span of an operation on a stream ends where its backend has put a mark into that stream. */
static void close_span(const struct comm_request *request, double from_s) {
    struct spans *spans = comm_recorder();
    if (!request->span || !spans) return;
    struct span *x = span_at(spans, request->span - 1);
    x->wait_s = from_s;
    if (request->backend->queues) x->end_s = clock_s();
    else span_close(spans, request->span - 1);
}

enum status comm_wait(struct comm_request *request) {
    if (!request->handle) return OK;
    bool done = false;
    double timeout_s = comm_settings_in_force()->timeout_s, from_s = clock_s();
    waiting = request;
    flight_waits(request->flight, from_s);
    mark_wait(request);
    double entered_s = comm_enter();
    enum status status = test_until(request, from_s + timeout_s, &done);
    comm_leave(entered_s);
    request->group->ledger.entry[request->op].wait_s += clock_s() - from_s;
    close_span(request, from_s);
    if (status == OK && !done) {
        struct mail_state mine = roll_state(request);
        char operation[128], found[1536];
        roll_call(request, found, sizeof found);
        roll_describe(operation, sizeof operation, &mine);
        keep_given_up(request);
        status = FAIL(E_TIMEOUT, "%s did not finish within %g s; %s; raise --comm-timeout if it is only slow",
                      operation, timeout_s, found);
    }
    if (status == OK) {                                              /* after a failure the record stays "waits" */
        no_longer_in_flight(request);
        flight_waits(0, 0);
        flight_state_is(request->flight, request->backend->queues ? FLIGHT_QUEUED : FLIGHT_DONE);
    }
    waiting = NULL;
    return status;
}

enum status comm_test(struct comm_request *request, bool *done) {
    *done = !request->handle;
    if (*done) return OK;
    if (request->backend->queues) mark_wait(request);                /* on a stream, this test is the wait */
    double entered_s = comm_enter();
    TRY(request->backend->test(request, done));
    comm_leave(entered_s);
    if (!*done) return OK;
    no_longer_in_flight(request);
    close_span(request, clock_s());
    flight_state_is(request->flight, request->backend->queues ? FLIGHT_QUEUED : FLIGHT_DONE);
    return OK;
}

/* ---- waiting for a GPU ---- */

/* No operation of this rank is open, so the work on the GPU is only slow, or hangs by itself. */
static enum status device_is_late(const struct device *device, const char *what, double timeout_s) {
    return FAIL(E_TIMEOUT,
                "%s did not finish on %s within %g s, and no operation with other ranks is open there; raise "
                "--comm-timeout if it is only slow",
                what, device->name, timeout_s);
}

static enum status operation_is_late(const struct comm_request *oldest, double since_s, const char *what,
                                     double timeout_s) {
    struct mail_state mine = roll_state(oldest);
    char operation[128], found[1536];
    waiting = oldest;
    roll_call(oldest, found, sizeof found);
    waiting = NULL;
    roll_describe(operation, sizeof operation, &mine);
    return FAIL(E_TIMEOUT,
                "%s did not finish within %g s: %s on the device, issued %.1f s ago, has not ended; %s; raise "
                "--comm-timeout if it is only slow",
                what, timeout_s, operation, since_s, found);
}

enum status comm_device_late(const char *what) {
    double started_s, timeout_s = comm_settings_in_force()->timeout_s;
    const struct comm_request *oldest = comm_device_oldest(&started_s);
    enum status status = oldest ? operation_is_late(oldest, clock_s() - started_s, what, timeout_s)
                                : device_is_late(comm_device() ? comm_device() : device_cpu(), what, timeout_s);
    comm_device_abort();
    return status;
}

enum status comm_wait_device(const struct device_mark *mark, const char *what) {
    const struct device *device = comm_device() ? comm_device() : device_cpu();
    double deadline_s = clock_s() + comm_settings_in_force()->timeout_s, unused_s;
    for (;;) {
        bool done = false;
        TRY(device->mark_done(device, mark, &done));
        if (done) return OK;
        if (comm_epoch_has_changed()) return E_EPOCH;        /* the work may depend on a rank that is gone */
        waiting = comm_device_oldest(&unused_s);             /* this rank's answer to a roll call */
        comm_progress();
        waiting = NULL;
        TRY(comm_device_check());
        if (clock_s() >= deadline_s) return comm_device_late(what);
        give_way(0);
    }
}

enum status comm_wait_queued(const struct device *device, const char *what) {
    struct device_mark mark = {0};
    if (device->kind == DEVICE_CPU) return OK;
    enum status status = device->mark_set(device, &mark);
    if (status == OK) status = comm_wait_device(&mark, what);
    device->mark_fini(device, &mark);
    return status;
}

void comm_progress(void) {
    double entered_s = comm_enter();
    flight_seen(clock_s());
    roll_answer(); /* reading mail also makes MPI advance its own operations */
    comm_hops_progress();
    comm_device_progress();
    comm_leave(entered_s);
    (void)serve();
}
