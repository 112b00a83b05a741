/* A world of ranks in this process that run tables of hops. Tests of algorithms share it (test_hops.c, lesson 26).
 *
 * Values are symbolic: each element of a buffer is the set of ranks whose terms are in it, with a bit per rank. (In a
 * gather an element names its origin.) An ADD must be a disjoint union, so that no term is counted twice. At the end,
 * on every rank that receives the result, each element must be the set of all ranks. */
#pragma once

#include "lib/comm/hops/hop_walk.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 17, MAX_MESSAGES = 4096 };

/* ---- a transport between the ranks of this process ---- */

struct message { const int64_t *from; int64_t bytes; bool taken; };
struct pair { struct message message[MAX_MESSAGES]; int n_sent, n_received; };
struct world {
    int n;
    bool adds;                               /* an ADD adds doubles; false: it unites sets */
    struct pair *pair;                       /* [from * n + to] */
    bool counted_twice, wrong_size;
    struct at { struct world *world; int rank; } at[MAX_RANKS];
};

/* handle[0]: the ticket's message; handle[1]: the receiver's buffer, NULL for the sender. */
static inline enum status world_send(void *self, int peer, const void *from, int64_t bytes, struct hop_ticket *ticket) {
    struct at *at = self;
    struct pair *pair = &at->world->pair[at->rank * at->world->n + peer];
    if (pair->n_sent == MAX_MESSAGES) return FAIL(E_INTERNAL, "the test has room for %d messages", MAX_MESSAGES);
    pair->message[pair->n_sent] = (struct message){from, bytes, false};
    *ticket = (struct hop_ticket){.handle = {&pair->message[pair->n_sent++], NULL}, .stamp = (double)bytes};
    return OK;
}
static inline enum status world_receive(void *self, int peer, void *to, int64_t bytes, struct hop_ticket *ticket) {
    struct at *at = self;
    struct pair *pair = &at->world->pair[peer * at->world->n + at->rank];
    *ticket = (struct hop_ticket){.handle = {&pair->message[pair->n_received++], to}, .stamp = (double)bytes};
    return OK;
}
static inline enum status world_done(void *self, struct hop_ticket *ticket, bool *done) {
    struct at *at = self;
    struct message *message = ticket->handle[0];
    *done = message->taken;
    if (message->taken || !ticket->handle[1] || !message->from) return OK;
    at->world->wrong_size |= message->bytes != (int64_t)ticket->stamp;
    memcpy(ticket->handle[1], message->from, (size_t)message->bytes);
    *done = message->taken = true;
    return OK;
}
static inline enum status world_union(void *self, void *terms, void *into, int64_t n) {
    struct at *at = self;
    for (int64_t i = 0; i < n && at->world->adds; i++) ((double *)into)[i] += ((double *)terms)[i];
    for (int64_t i = 0; i < n && !at->world->adds; i++) {
        at->world->counted_twice |= (((int64_t *)into)[i] & ((int64_t *)terms)[i]) != 0;
        ((int64_t *)into)[i] |= ((int64_t *)terms)[i];
    }
    return OK;
}
static const struct hop_transport in_process = {NULL, world_send, world_receive, world_done, world_union};

/* ---- inputs, and expected outputs ---- */

static inline bool in_parts(enum comm_op op) {
    return op == COMM_ALL_GATHER || op == COMM_REDUCE_SCATTER || op == COMM_ALL_TO_ALL;
}
static inline bool is_sum(enum comm_op op) {
    return op == COMM_ALL_REDUCE || op == COMM_REDUCE_SCATTER || op == COMM_REDUCE;
}

/* Element i of rank r's source: for a sum, bit r; otherwise a number that names its origin. */
static inline int64_t given(const struct hop_shape *shape, int r, int64_t i) {
    return is_sum(shape->op) ? (int64_t)1 << r : 1000 * (r + 1) + i;
}
static inline int64_t wanted(const struct hop_shape *shape, int r, int64_t i) {
    int64_t all = ((int64_t)1 << shape->n) - 1;
    switch (shape->op) {
    case COMM_ALL_REDUCE:
    case COMM_REDUCE_SCATTER: return all;
    case COMM_REDUCE: return r == shape->root ? all : given(shape, r, i);
    case COMM_BROADCAST: return given(shape, shape->root, i);
    case COMM_ALL_GATHER: return given(shape, (int)(i / shape->count), i % shape->count);
    default: return given(shape, (int)(i / shape->count), r * shape->count + i % shape->count);
    }
}
static inline int64_t n_from(const struct hop_shape *shape) {
    return shape->op == COMM_ALL_GATHER ? shape->count : hop_shape_whole(shape);
}
static inline int64_t n_to(const struct hop_shape *shape) {
    return shape->op == COMM_REDUCE_SCATTER ? shape->count : hop_shape_whole(shape);
}

struct rank { int64_t *from, *to; void *memory; struct hop_walk *walk; bool done; };

static inline void open_rank(const struct comm_algorithm *algorithm, const struct hop_shape *shape,
                             struct world *world, const struct hop_transport *transport, int r, struct rank *rank) {
    struct hop_table table;
    assert_ok(hops_make(algorithm, shape, r, &table));
    *rank = (struct rank){calloc((size_t)n_from(shape) + 1, 8), calloc((size_t)n_to(shape) + 1, 8),
                          aligned_alloc(64, (size_t)hop_walk_bytes(&table, 8) + 64), NULL, false};
    for (int64_t i = 0; i < n_from(shape); i++) rank->from[i] = given(shape, r, i);
    bool in_place = !in_parts(shape->op);
    if (in_place) memcpy(rank->to, rank->from, (size_t)(8 * n_to(shape)));
    rank->to[n_to(shape)] = -1;
    const struct hop_buffers buffers = {in_place ? rank->to : rank->from, rank->to};
    assert_ok(hop_walk_open(&table, shape->n, 8, &buffers, rank->memory, transport, &world->at[r], &rank->walk));
}

static inline void close_rank(struct rank *rank) {
    hop_walk_close(&rank->walk);
    free(rank->from), free(rank->to), free(rank->memory);
}

/* Describe the first wrong element; NULL: none. A sum is identified by its terms. */
static inline const char *rank_is_wrong(const struct hop_shape *shape, int r, const struct rank *rank) {
    static char text[256];
    int n = 0;
    for (int64_t i = 0; i < n_from(shape); i++)
        if (rank->from[i] != given(shape, r, i)) return "wrong result: the source was written to";
    if (rank->to[n_to(shape)] != -1) return "wrong result: a rank writes beyond its result";
    for (int64_t i = 0; i < n_to(shape); i++) {
        if (rank->to[i] == wanted(shape, r, i)) continue;
        n = snprintf(text, sizeof text, "wrong result: element %lld of rank %d ", (long long)i, r);
        if (!is_sum(shape->op)) return text;
        n += snprintf(text + n, sizeof text - (size_t)n, "is the sum of the terms of ranks");
        for (int q = 0; q < shape->n; q++)
            if (rank->to[i] >> q & 1) n += snprintf(text + n, sizeof text - (size_t)n, " %d", q);
        snprintf(text + n, sizeof text - (size_t)n, " only");
        return text;
    }
    return NULL;
}

/* Run the tables of all ranks, a step of a random rank at a time. @return the error, or NULL */
static inline const char *run(const struct comm_algorithm *algorithm, const struct hop_shape *shape, unsigned seed) {
    struct world world = {.n = shape->n, .pair = calloc((size_t)(shape->n * shape->n), sizeof *world.pair)};
    struct rank rank[MAX_RANKS];
    int n_done = 0, idle = 0;
    const char *wrong = NULL;
    srand(seed);
    for (int r = 0; r < shape->n; r++) {
        world.at[r].world = &world, world.at[r].rank = r;
        open_rank(algorithm, shape, &world, &in_process, r, &rank[r]);
    }
    while (n_done < shape->n && idle < 5000 * shape->n) {
        struct rank *x = &rank[rand() % shape->n];
        if (x->done) continue;
        assert_ok(hop_walk_push(x->walk, &x->done));
        n_done += x->done;
        idle = x->done ? 0 : idle + 1;
    }
    if (n_done < shape->n) wrong = "the ranks wait for each other forever";
    if (world.counted_twice) wrong = "a term is added twice";
    if (world.wrong_size) wrong = "two ranks name different pieces";
    for (int p = 0; p < shape->n * shape->n; p++)
        if (world.pair[p].n_sent != world.pair[p].n_received)
            wrong = "a rank sends what its peer does not take, or waits for what is not sent";
    for (int r = 0; r < shape->n; r++) {
        if (!wrong) wrong = rank_is_wrong(shape, r, &rank[r]);
        close_rank(&rank[r]);
    }
    free(world.pair);
    return wrong;
}
