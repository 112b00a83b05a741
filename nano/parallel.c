/* The place of each rank, the messages between ranks, and random numbers that are equal on all ranks.
 *
 * Ranks form a grid of p x d x t. A rank is in three groups, one for each coordinate: the ranks of a group
 * differ only in this coordinate.
 *
 *   tensor    t ranks share a layer's matrices      all-reduce of activations, twice per layer and pass
 *   data      d ranks hold the same weights         all-reduce of gradients, once per step
 *   pipeline  p ranks hold consecutive layers       neighbors send activations up and their gradients down
 *
 * With t=2 d=2 p=2:   rank  0 1 2 3 4 5 6 7     tensor {0 1} {2 3} {4 5} {6 7}
 *                     data {0 2} {1 3} {4 6} {5 7}     pipeline {0 4} {1 5} {2 6} {3 7} */
#include "nano.h"

#include <math.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct grid grid;
static MPI_Comm tensor, data, pipeline, tie;

#define NUMBER (sizeof(real) == 8 ? MPI_DOUBLE : MPI_FLOAT)

void fail(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    if (grid.n) fprintf(stderr, "[rank %d/%d] ", grid.rank, grid.n);
    vfprintf(stderr, format, rest);
    fputc('\n', stderr);
    va_end(rest);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

void grid_init(int t, int d, int p) {
    MPI_Comm_rank(MPI_COMM_WORLD, &grid.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &grid.n);
    if (t < 1 || d < 1 || p < 1 || t * d * p != grid.n) {
        if (grid.rank == 0) fail("tp=%d dp=%d pp=%d needs %d ranks, and there are %d", t, d, p, t * d * p, grid.n);
        MPI_Barrier(MPI_COMM_WORLD);                 /* rank 0 ends the job */
    }
    grid = (struct grid){grid.rank, grid.n, t, d, p, grid.rank % t, grid.rank / t % d, grid.rank / (t * d)};
    /* a group: the ranks that agree in the other two coordinates */
    MPI_Comm_split(MPI_COMM_WORLD, grid.p_i * d + grid.d_i, grid.rank, &tensor);
    MPI_Comm_split(MPI_COMM_WORLD, grid.p_i * t + grid.t_i, grid.rank, &data);
    MPI_Comm_split(MPI_COMM_WORLD, grid.d_i * t + grid.t_i, grid.rank, &pipeline);
    int outer = p > 1 && (grid.p_i == 0 || grid.p_i == p - 1);
    MPI_Comm_split(MPI_COMM_WORLD, outer ? grid.d_i * t + grid.t_i : MPI_UNDEFINED, grid.rank, &tie);
}

static void sum(real *x, int64_t n, MPI_Comm group) { MPI_Allreduce(MPI_IN_PLACE, x, (int)n, NUMBER, MPI_SUM, group); }
void tp_sum(real *x, int64_t n) { if (grid.t > 1) sum(x, n, tensor); }
void dp_sum(real *x, int64_t n) { if (grid.d > 1) sum(x, n, data); }
void tie_sum(real *x, int64_t n) { if (tie != MPI_COMM_NULL) sum(x, n, tie); }
void dp_reduce_scatter(real *x, int64_t n) {
    real *own = malloc(sizeof(real) * (size_t)n);
    MPI_Reduce_scatter_block(x, own, (int)n, NUMBER, MPI_SUM, data);
    memcpy(x + grid.d_i * n, own, sizeof(real) * (size_t)n);
    free(own);
}
void dp_all_gather(real *x, int64_t n) { MPI_Allgather(MPI_IN_PLACE, 0, NUMBER, x, (int)n, NUMBER, data); }
double world_sum(double x) {
    MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return x;
}

/* In each direction one message may be in flight while this rank computes; a copy holds its data until then. */
static struct { MPI_Request request; real *copy; } sent[2] = {{MPI_REQUEST_NULL, NULL}, {MPI_REQUEST_NULL, NULL}};

void stage_send(int way, const real *x, int64_t n) {
    int i = way == UP;
    MPI_Wait(&sent[i].request, MPI_STATUS_IGNORE);
    sent[i].copy = realloc(sent[i].copy, sizeof(real) * (size_t)n);
    memcpy(sent[i].copy, x, sizeof(real) * (size_t)n);
    MPI_Isend(sent[i].copy, (int)n, NUMBER, grid.p_i + way, way == UP, pipeline, &sent[i].request);
}
void stage_receive(int way, real *x, int64_t n) {
    MPI_Recv(x, (int)n, NUMBER, grid.p_i - way, way == UP, pipeline, MPI_STATUS_IGNORE);
}
void stage_finish(void) {
    for (int i = 0; i < 2; i++) MPI_Wait(&sent[i].request, MPI_STATUS_IGNORE);
}

/* ---- random numbers ----
 * Each rank that holds element i of a weight draws the number of (seed, the weight's name, i). So every layout
 * begins with the same weights, and no rank sends them. Philox-4x32-10: Salmon and others 2011, "Parallel random
 * numbers: as easy as 1, 2, 3". */

static uint64_t hash_of(const char *name) {          /* FNV-1a */
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t mix(uint64_t x) {                    /* SplitMix64 */
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}
static uint64_t key_of(uint64_t seed, const char *name, uint64_t step) {
    return mix(mix(mix(seed) ^ hash_of(name)) ^ step);
}

double random_normal(uint64_t seed, const char *name, int64_t element) {
    uint64_t key = key_of(seed, name, 0);
    uint32_t c[4] = {(uint32_t)element, (uint32_t)(element >> 32), 0, 0}, k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    for (int round = 0; round < 10; round++, k[0] += 0x9E3779B9u, k[1] += 0xBB67AE85u) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1],
                            (uint32_t)a};
        memcpy(c, next, sizeof c);
    }
    double u = (c[1] + 0.5) * 0x1p-32, v = (c[2] + 0.5) * 0x1p-32;
    return sqrt(-2 * log(u)) * cos(6.283185307179586476925 * v);   /* Box and Muller */
}

/* The i-th sample in an epoch's order: a permutation of 0 .. n-1 that needs no table. Eight rounds of a Feistel
 * network permute 0 .. 4^half - 1; a place >= n goes through the rounds again. */
int64_t random_permute(uint64_t seed, const char *name, uint64_t epoch, uint64_t n, uint64_t i) {
    uint64_t key = key_of(seed, name, epoch);
    int half = 1;
    while ((UINT64_C(1) << 2 * half) < n) half++;
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t round = 0; round < 8; round++) {
            uint64_t next = left ^ (mix(mix(key ^ round) ^ right) & mask);
            left = right, right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return (int64_t)i;
}
