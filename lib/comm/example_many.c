/* ranks: 4
 *
 * Runs very many collectives of random operation, size, type and group. Several are in flight at once, and are started
 * and tested after random delays. Every element of every result must equal a closed form, and memory must not grow.
 *
 *   TRIVIUM_EXE=build/example_many build/trivium launch -n 4 --comm-transport direct [--nodes 2] 1000000 [SEED
 *   [SECONDS]]
 *
 * Collective k is a function of (seed, k), so it is the same on every rank; each rank has its own delays. Element i of
 * member m's input is (m + 1) (1 + (k + i) mod 7): small integers, whose sums are exact in any type and order. With n
 * members their sum is n (n + 1)/2 (1 + (k + i) mod 7), and their maximum is n (1 + (k + i) mod 7).
 *
 * Every 1024 collectives (eight times in a short run) the program waits for all, makes half of the groups again, and
 * counts the bytes of this process. The second half of the run may use at most 1/4 MiB more than the first; a leak in
 * every fiftieth of a million collectives would exceed that. With SECONDS the run ends after this time, and bytes are
 * not counted; this is for sanitizers, which keep freed memory. */
#include "lib/base/clock.h"
#include "lib/base/rng.h"
#include "lib/comm/comm_request.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { N_GROUPS = 6, IN_FLIGHT = 6, MOST_BYTES = 1 << 20, TURNS = 8, LONGEST_TURN = 1024, GROWTH_BYTES = 256 << 10,
       PERIOD = 7 };
static const enum dtype TYPES[] = {INT32, FP32, FP64};

/* A collective, and this rank's buffers for it. */
struct call {
    struct comm_request request;
    int64_t k, count;                      /* count: elements of a shard, if the operation has shards */
    const struct group *group;             /* NULL: none, or this rank is no member */
    enum comm_op op;
    enum comm_reduction reduction;
    enum dtype dtype;
    int root;
    char *from, *to;                       /* [MOST_BYTES] each */
};

static struct group *groups[N_GROUPS];
static struct call calls[IN_FLIGHT];
static uint64_t seed = 1, n_delays;
static struct { int64_t turn, most[2]; double seconds, started_s; } run;

static uint32_t draw(int64_t k, int what, uint32_t below) {
    return (uint32_t)(rng_uniform(seed, 100 + (uint64_t)what, (uint64_t)k) * below);
}

/* ---- groups: all ranks, all in reverse order, pairs, evens and odds, all but the last, all but the first ---- */
static enum status make_group(int g) {
    const int r = comm_world_rank(), n = comm_world_size();
    const int colour[N_GROUPS] = {0, 0, r / 2, r % 2, r < n - 1 ? 0 : -1, r > 0 ? 0 : -1};
    const int key[N_GROUPS] = {r, -r, r, -r, r, -r};
    char name[16];
    snprintf(name, sizeof name, "group %d", g);
    if (groups[g]) group_destroy(&groups[g]);
    return group_create(name, colour[g], key[g], &groups[g]);
}

/* ---- values ---- */
static int64_t value(int64_t k, int64_t i) { return 1 + (k + i) % PERIOD; }

static void set(const struct call *c, char *at, int64_t i, int64_t x) {
    if (c->dtype == INT32) ((int32_t *)at)[i] = (int32_t)x;
    else if (c->dtype == FP32) ((float *)at)[i] = (float)x;
    else ((double *)at)[i] = (double)x;
}
static double get(const struct call *c, const char *at, int64_t i) {
    if (c->dtype == INT32) return ((const int32_t *)at)[i];
    return c->dtype == FP32 ? (double)((const float *)at)[i] : ((const double *)at)[i];
}

/* n_in, n_out: the number of elements of this rank's input and output. */
static bool has_shards(const struct call *c) {
    return c->op == COMM_ALL_GATHER || c->op == COMM_REDUCE_SCATTER || c->op == COMM_ALL_TO_ALL;
}
static bool is_in_place(const struct call *c) { return !has_shards(c) && c->op != COMM_SEND; }
static int64_t n_in(const struct call *c) {
    return c->count * (has_shards(c) && c->op != COMM_ALL_GATHER ? group_size(c->group) : 1);
}
static int64_t n_out(const struct call *c) {
    return c->count * (has_shards(c) && c->op != COMM_REDUCE_SCATTER ? group_size(c->group) : 1);
}

/* Element i of the output of this member. */
static double wanted(const struct call *c, int64_t i) {
    const int64_t n = group_size(c->group), me = group_rank(c->group), sum = n * (n + 1) / 2;
    switch (c->op) {
    case COMM_ALL_REDUCE: return (double)((c->reduction == COMM_SUM ? sum : n) * value(c->k, i));
    case COMM_REDUCE: return (double)((c->root == me ? sum : me + 1) * value(c->k, i));
    case COMM_BROADCAST: return (double)((c->root + 1) * value(c->k, i));
    case COMM_REDUCE_SCATTER: return (double)(sum * value(c->k, me * c->count + i));
    case COMM_ALL_GATHER: return (double)((i / c->count + 1) * value(c->k, i % c->count));
    case COMM_ALL_TO_ALL: return (double)((i / c->count + 1) * value(c->k, me * c->count + i % c->count));
    default: return (double)(((me + n - 1) % n + 1) * value(c->k, i));       /* a message from the previous member */
    }
}

static enum status check(const struct call *c) {
    const char *at = is_in_place(c) ? c->from : c->to;
    for (int64_t i = 0; i < n_out(c); i++)
        if (get(c, at, i) != wanted(c, i))
            return FAIL(E_INTERNAL, "collective %" PRId64 ", %s of %" PRId64 " %s in %s: element %" PRId64
                        " is %.17g, not %.17g", c->k, comm_op_name(c->op), c->count, dtype_name(c->dtype),
                        group_name(c->group), i, get(c, at, i), wanted(c, i));
    return OK;
}

/* ---- one collective ---- */
/* Sizes of all scales: 2^0 to 2^16 bytes, and one in 64 up to 2^20. */
static void choose(struct call *c, int64_t k) {
    static const enum comm_op OPS[] = {COMM_ALL_REDUCE, COMM_ALL_REDUCE, COMM_REDUCE, COMM_BROADCAST, COMM_ALL_GATHER,
                                       COMM_REDUCE_SCATTER, COMM_ALL_TO_ALL, COMM_SEND};
    struct group *g = groups[draw(k, 0, N_GROUPS)];
    double bits = (draw(k, 1, 64) ? 16 : 20) * rng_uniform(seed, 7, (uint64_t)k);
    int64_t bytes = (int64_t)1 << (int)bits;
    c->k = k;
    c->group = g;
    c->op = OPS[draw(k, 2, sizeof OPS / sizeof *OPS)];
    c->dtype = TYPES[draw(k, 3, sizeof TYPES / sizeof *TYPES)];
    c->reduction = draw(k, 4, 2) ? COMM_SUM : COMM_MAX;
    c->root = (int)draw(k, 5, (uint32_t)group_size(g));
    c->count = 1 + (bytes + draw(k, 6, (uint32_t)bytes)) / 2 / (int64_t)dtype_size(c->dtype);
    int64_t most = MOST_BYTES / (int64_t)dtype_size(c->dtype) / group_size(g);
    if (c->count > most) c->count = most;
    if (c->op == COMM_REDUCE) c->reduction = COMM_SUM;
}

static void fill(const struct call *c) {
    for (int64_t i = 0; i < n_in(c); i++) set(c, c->from, i, (group_rank(c->group) + 1) * value(c->k, i));
    for (int64_t i = 0; i < n_out(c) && !is_in_place(c); i++) set(c, c->to, i, -1);
}

/* Send to the next member, and receive from the previous one. Wait only for the receive. */
static enum status shift(struct call *c) {
    const int n = group_size(c->group), me = group_rank(c->group), tag = (int)(c->k % 100);
    struct comm_request receive = {0};
    TRY(comm_recv_start(c->group, c->to, c->count, c->dtype, (me + n - 1) % n, tag, &receive));
    TRY(comm_send_start(c->group, c->from, c->count, c->dtype, (me + 1) % n, tag, &c->request));
    return comm_wait(&receive);
}

static enum status begin(struct call *c) {
    const struct group *g = c->group;
    switch (c->op) {
    case COMM_ALL_REDUCE: return comm_all_reduce_start(g, c->from, c->count, c->dtype, c->reduction, &c->request);
    case COMM_REDUCE: return comm_reduce_start(g, c->from, c->count, c->dtype, c->reduction, c->root, &c->request);
    case COMM_BROADCAST: return comm_broadcast_start(g, c->from, c->count, c->dtype, c->root, &c->request);
    case COMM_REDUCE_SCATTER: return comm_reduce_scatter_start(g, c->from, c->to, c->count, c->dtype, &c->request);
    case COMM_ALL_GATHER: return comm_all_gather_start(g, c->from, c->to, c->count, c->dtype, &c->request);
    case COMM_ALL_TO_ALL: return comm_all_to_all_start(g, c->from, c->to, c->count, c->dtype, &c->request);
    default: return shift(c);
    }
}

static enum status finish(struct call *c) {
    if (!c->group) return OK;
    TRY(comm_wait(&c->request));
    enum status status = check(c);
    c->group = NULL;
    return status;
}

/* Mostly no delay; for 1 call in 64 up to 200 microseconds, for 1 in 4096 up to 5 ms. */
static void delay(void) {
    double u = rng_uniform(seed, 1000 + (uint64_t)comm_world_rank(), n_delays++);
    struct timespec nap = {0, u < 1.0 / 4096 ? (long)(u * 4096 * 5e6) : u < 1.0 / 64 ? (long)(u * 64 * 2e5) : 0};
    if (nap.tv_nsec) nanosleep(&nap, NULL);
}

static enum status one(int64_t k) {
    struct call *c = &calls[k % IN_FLIGHT];
    bool done;
    TRY(finish(c));
    choose(c, k);
    fill(c);
    delay();
    TRY(begin(c));
    for (int i = 0; i < IN_FLIGHT; i++)
        if (calls[i].group && n_delays % 5 == (uint64_t)i) TRY(comm_test(&calls[i].request, &done));
    return OK;
}

/* ---- all collectives ---- */
/* Resident bytes that this process does not share. */
static int64_t own_bytes(void) {
    long resident = 0, shared = 0;
    malloc_trim(0);
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%*s %ld %ld", &resident, &shared) != 2) resident = shared = 0;
    if (f) fclose(f);
    return (resident - shared) * (int64_t)sysconf(_SC_PAGESIZE);
}

/* Finish all collectives in flight, make half of the groups again, and count the bytes. */
static enum status turn(int64_t k, int64_t n, bool *stop) {
    int32_t late = run.seconds > 0 && clock_s() > run.started_s + run.seconds;
    for (int i = 0; i < IN_FLIGHT; i++) TRY(finish(&calls[(k + i) % IN_FLIGHT]));
    for (int g = (int)(k / run.turn % 2); g < N_GROUPS; g += 2) TRY(make_group(g));
    TRY(comm_all_reduce(group_world(), &late, 1, INT32, COMM_MAX));
    int half = 2 * k >= n;
    int64_t bytes = own_bytes();
    if (bytes > run.most[half]) run.most[half] = bytes;
    *stop = late || k == n;
    return OK;
}

static enum status all(int64_t n) {
    bool stop = n <= 0;
    run.turn = n < TURNS * LONGEST_TURN ? 1 + n / TURNS : LONGEST_TURN;
    for (int g = 0; g < N_GROUPS; g++) TRY(make_group(g));
    for (int64_t k = 0; !stop;) {
        TRY(one(k++));
        if (k % run.turn == 0 || k == n) TRY(turn(k, n, &stop));
        if (stop && comm_is_rank_0()) printf("%" PRId64 " collectives in %.1f s\n", k, clock_s() - run.started_s);
    }
    for (int g = 0; g < N_GROUPS; g++) group_destroy(&groups[g]);
    if (run.seconds > 0 || run.most[1] <= run.most[0] + GROWTH_BYTES) return OK;
    return FAIL(E_MEMORY, "this process has grown from %" PRId64 " to %" PRId64 " KiB in the second half",
                run.most[0] >> 10, run.most[1] >> 10);
}

static enum status make_buffers(void) {
    for (int i = 0; i < IN_FLIGHT; i++) {
        calls[i].from = malloc(MOST_BYTES), calls[i].to = malloc(MOST_BYTES);
        if (!calls[i].from || !calls[i].to) return FAIL(E_MEMORY, "no memory for %d buffers", 2 * IN_FLIGHT);
        for (int64_t k = 0; k < MOST_BYTES; k++) calls[i].from[k] = calls[i].to[k] = 1;  /* allocate the pages now */
    }
    return OK;
}

static void free_buffers(void) {
    for (int i = 0; i < IN_FLIGHT; i++) free(calls[i].from), free(calls[i].to);
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    int64_t n = argc > 1 ? strtoll(argv[1], NULL, 10) : 2000;
    if (argc > 2) seed = strtoull(argv[2], NULL, 10);
    if (argc > 3) run.seconds = strtod(argv[3], NULL);
    run.started_s = clock_s();
    mallopt(M_MMAP_THRESHOLD, 128 << 10);      /* larger blocks return to the system when they are freed */
    if (status == OK) status = make_buffers();
    if (status == OK) status = all(n);
    free_buffers();
    if (status != OK) status_report();
    comm_finish(status == OK, 1);
    return status == OK ? 0 : 1;
}
