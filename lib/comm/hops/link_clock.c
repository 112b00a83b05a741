/* Emulated links of one rank. See link_clock.h.
 *
 * A link is represented by the time until which it is occupied. A rank's own links are in its own memory, the NIC of a
 * node in words that its ranks share. Messages land in the order in which they have left. */
#include "lib/comm/hops/link_clock.h"

#include "lib/comm/hops/hop_simulate.h"

#include <stdlib.h>
#include <string.h>

void link_clock_free(struct link_clock *clock) {
    free(clock->expected);
    *clock = (struct link_clock){0};
}

/* Occupy a link that the ranks of a node share: the rank whose exchange of the word succeeds gets it. */
static double pass_shared(_Atomic(uint64_t) *word, double (*pass)(double *, double, double), double now, double busy) {
    for (uint64_t was = *word;;) {
        double free_at, result;
        memcpy(&free_at, &was, sizeof was);
        result = pass(&free_at, now, busy);
        uint64_t is;
        memcpy(&is, &free_at, sizeof is);
        if (atomic_compare_exchange_weak(word, &was, is)) return result;
    }
}

static double pass(struct link_clock *clock, const struct hop_ticket *ticket, int way,
                   double (*how)(double *, double, double), double now) {
    double *own = &clock->own[ticket->between][way];
    if (!ticket->between || !clock->links->nic_per_node) return how(own, now, ticket->busy_s);
    return pass_shared(&clock->nic[ticket->node * LINK_WAYS + way], how, now, ticket->busy_s);
}

void link_describe(const struct link_clock *clock, int node, int peer_node, int64_t bytes, struct hop_ticket *ticket) {
    ticket->node = node;
    ticket->between = node != peer_node;
    ticket->busy_s = (double)bytes * clock->links->s_per_byte[ticket->between];
}

void link_send(struct link_clock *clock, double now, struct hop_ticket *ticket) {
    ticket->stamp = pass(clock, ticket, LINK_OUT, link_leave, now);
}

enum status link_expect(struct link_clock *clock, struct hop_ticket *ticket) {
    if (clock->n_expected == clock->room) {
        int room = 2 * clock->room + 16;
        struct hop_ticket **more = realloc(clock->expected, (size_t)room * sizeof *more);
        if (!more) return FAIL(E_MEMORY, "no memory for %d messages in flight", clock->n_expected + 1);
        clock->expected = more;
        clock->room = room;
    }
    clock->expected[clock->n_expected++] = ticket;
    return OK;
}

void link_land_all(struct link_clock *clock, double now) {
    for (;;) {
        int first = -1;
        for (int i = 0; i < clock->n_expected; i++) {
            const struct hop_ticket *ticket = clock->expected[i];
            if (!ticket->stamped || ticket->stamp > now) continue;
            if (first < 0 || ticket->stamp < clock->expected[first]->stamp) first = i;
        }
        if (first < 0) return;
        struct hop_ticket *ticket = clock->expected[first];
        ticket->there = pass(clock, ticket, LINK_IN, link_land, ticket->stamp);
        ticket->there += clock->links->latency_s[ticket->between];
        ticket->landed = true;
        clock->n_expected--;
        memmove(clock->expected + first, clock->expected + first + 1,
                (size_t)(clock->n_expected - first) * sizeof *clock->expected);
    }
}
