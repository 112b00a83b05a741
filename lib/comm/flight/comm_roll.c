/* The roll call: at its deadline a rank asks all ranks "are you there, and what do you wait for?"
 *
 * The peer that does not come is often not the cause: A waits for B, B waits for C, and C is stopped. So the question
 * goes to every rank of the world, not only to the group. A rank inside comm_wait or comm_progress answers at once,
 * with the operation in which it waits. A rank that does not answer for a second is stopped, dead, or computing without
 * reading its mail. If a rank answers with another operation, the order of calls differs between ranks, or the rank is
 * the next link of the chain.
 *
 *   rank A                         rank B (waits)                  rank C (stopped)
 *   deadline: ping -> B, C         answer -> A: "recv #4 ..."      -
 *   one second later: "no answer from rank C; rank B waits in recv #4 of group pp from rank C"
 *
 * Several ranks reach their deadlines almost at the same time. Each sends a roll call, and answers other ranks
 * meanwhile. A rank that a lower rank pings meanwhile, or has pinged less than a second before, waits for another
 * second, so that the lower rank's message ends the job. */
#include "lib/comm/flight/comm_roll.h"
#include "lib/comm/transport/host_transport.h"
#include "lib/comm/flight/flight.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static const double grace_s = 1.0;
static double lower_called_s = -1e9; /* when a rank below this one last sent a ping */

struct mail_state roll_state(const struct comm_request *request) {
    struct mail_state state = {.peer = -1};
    if (!request) return state;
    const struct group *group = request->group;
    state.waiting = 1;
    state.op = (int32_t)request->op;
    state.size = group->size;
    state.leader = group->members[0];
    if (comm_is_message(request->op)) state.peer = group->members[request->peer];
    state.sequence = request->sequence;
    memcpy(state.group, group->name, sizeof state.group);
    return state;
}

static void answer(int to, const struct mail *ping) {
    if (to < comm_world_rank()) lower_called_s = clock_s();
    comm_host_transport()->mail_send(to, &(struct mail){MAIL_ANSWER, ping->roll, roll_state(comm_waiting())});
}

void roll_answer(void) {
    int from;
    struct mail mail;
    while (comm_host_transport()->mail_receive(&from, &mail))
        if (mail.kind == MAIL_PING) answer(from, &mail); /* an answer that comes after its roll call is dropped */
}

/* Read mail for grace_s seconds. @return does a rank below this one send a roll call, too? */
static bool collect(struct roll_entry *entry, int32_t roll) {
    double from_s = clock_s(), until_s = from_s + grace_s;
    while (clock_s() < until_s) {
        int from;
        struct mail mail;
        while (comm_host_transport()->mail_receive(&from, &mail)) {
            if (mail.kind == MAIL_PING) {
                answer(from, &mail);
            } else if (mail.roll == roll) {
                entry[from].answered = true;
                entry[from].state = mail.state;
            }
        }
        flight_seen(clock_s());
        sched_yield();
    }
    return from_s - lower_called_s < grace_s;
}

void roll_call(const struct comm_request *request, char *text, size_t text_bytes) {
    static int32_t roll; /* number of the roll call, by which its answers are recognized */
    const struct group *group = request->group;
    int n = comm_world_size();
    struct roll_entry *entry = calloc((size_t)n, sizeof *entry);
    if (!entry) {
        snprintf(text, text_bytes, "no memory to find the missing ranks");
        return;
    }
    roll++;
    for (int i = 0; i < group->size; i++) entry[group->members[i]].member = true;
    for (int r = 0; r < n; r++)
        if (r != comm_world_rank())
            comm_host_transport()->mail_send(r, &(struct mail){.kind = MAIL_PING, .roll = roll});
    if (collect(entry, roll)) collect(entry, roll);
    struct mail_state mine = roll_state(request);
    roll_text(text, text_bytes, entry, n, comm_world_rank(), &mine);
    free(entry);
}
