/* --check-collectives: before each collective its members compare their calls.
 *
 * Ranks that call different collectives do not fail in MPI: they hang, or they exchange bytes that mean something else.
 * With the check each rank gathers a description (struct card) of every member's call and compares them all with the
 * first. So every member finds the same mismatch, reports the same message and returns E_COMM, and no rank hangs.
 *
 * Cost: one small all_gather per collective. Every start synchronizes the group, so that nothing overlaps. So the check
 * is a tool for finding faults, not for training. The deadline, not the check, finds a member that calls no collective
 * at all. */
#include "lib/comm/comm_backend.h"

#include <stdio.h>
#include <stdlib.h>

struct card { int64_t count; int32_t op, dtype, reduction, root; };

static bool reduces(enum comm_op op) { return op == COMM_ALL_REDUCE || op == COMM_REDUCE || op == COMM_REDUCE_SCATTER; }
static bool has_root(enum comm_op op) { return op == COMM_BROADCAST || op == COMM_REDUCE; }

/* Fields that the operation does not use are zero, so that cards compare byte by byte (the struct has no padding). */
static struct card card_of(const struct comm_call *call) {
    return (struct card){
        .count = call->count,
        .op = (int32_t)call->op,
        .dtype = (int32_t)call->dtype,
        .reduction = reduces(call->op) ? (int32_t)call->reduction : 0,
        .root = has_root(call->op) ? call->peer : 0,
    };
}

/* "all_reduce of 100 fp32", "reduce (max) of 7 fp64 with root 2" */
static void describe(char *text, size_t bytes, const struct group *group, const struct card *card) {
    static const char *const names[] = {"", " (max)", " (min)"}; /* a sum is the default, and is not printed */
    char root[32] = "";
    if (has_root((enum comm_op)card->op)) snprintf(root, sizeof root, " with root %d", group->members[card->root]);
    snprintf(text, bytes, "%s%s of %lld %s%s", comm_op_name((enum comm_op)card->op), names[card->reduction],
             (long long)card->count, dtype_name((enum dtype)card->dtype), root);
}

static enum status compare(const struct group *group, const struct card *cards, int64_t sequence) {
    for (int r = 1; r < group->size; r++) {
        if (memcmp(&cards[r], &cards[0], sizeof *cards) == 0) continue;
        char other[128], first[128];
        describe(other, sizeof other, group, &cards[r]);
        describe(first, sizeof first, group, &cards[0]);
        return FAIL(E_COMM, "rank %d calls %s, rank %d %s (operation #%lld of group %s)", group->members[r], other,
                    group->members[0], first, (long long)sequence, group->name);
    }
    return OK;
}

enum status comm_check(struct group *group, const struct comm_call *call, const struct comm_request *of) {
    struct card *cards = calloc((size_t)group->size, sizeof *cards);
    if (!cards) return FAIL(E_MEMORY, "no memory for the cards of %d ranks", group->size);
    cards[group->rank] = card_of(call);
    struct comm_call show = {COMM_ALL_GATHER, &cards[group->rank], cards, sizeof *cards, .dtype = UINT8};
    /* the request has the caller's operation: if a peer does not come, the message names the operation in which this
     * rank waits */
    struct comm_request request = {.backend = group->backend, .group = group, .op = call->op,
                                   .sequence = of->sequence, .flight = of->flight};
    enum status status = group->backend->start(&show, &request);
    if (status == OK) status = comm_wait(&request);
    if (status == E_TIMEOUT) return status; /* MPI may still write the cards, so they are not freed */
    if (status == OK) status = compare(group, cards, of->sequence);
    free(cards);
    return status;
}
