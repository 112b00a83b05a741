/* One clock for all ranks.
 *
 * Idea: ask rank 0 for the time. Rank 0 reads its clock at a moment between sending the request and getting the answer.
 * Assuming the middle, the error is at most half of the round trip, even if the two directions take different times:
 *
 *   sent <= moment <= back     offset = there - (sent + back) / 2     |error| <= (back - sent) / 2
 *
 * Waiting for a core or in a queue only makes the round trip longer, so the request with the shortest round trip has
 * the smallest error. Clocks of two machines also run at different speeds, by some ten microseconds per second. So the
 * offset is measured before and after the recording, and interpolated in between.
 *
 * Source: Cristian, "Probabilistic clock synchronization", 1989; Mills, RFC 5905 (NTP) takes the same minimum. */
#include "lib/trace/trace_state.h"

#include "lib/comm/comm_request.h"

enum { PINGS = 64, PING_TAG = 7, PONG_TAG = 8 };

struct clock_offset clock_offset_of(const struct clock_ping *ping, int n) {
    const struct clock_ping *best = ping;
    for (int i = 1; i < n; i++)
        if (ping[i].back_s - ping[i].sent_s < best->back_s - best->sent_s) best = &ping[i];
    double middle_s = (best->sent_s + best->back_s) / 2;
    return (struct clock_offset){.at_s = middle_s, .offset_s = best->there_s - middle_s,
                                 .uncertainty_s = (best->back_s - best->sent_s) / 2};
}

double clock_at_rank_0(const struct clock_offset *before, const struct clock_offset *after, double time_s) {
    double between_s = after->at_s - before->at_s;
    double drift = between_s > 0 ? (after->offset_s - before->offset_s) / between_s : 0;
    return time_s + before->offset_s + drift * (time_s - before->at_s);
}

static enum status pass(const struct group *g, double *x, int peer, int tag, bool sends) {
    struct comm_request request = {0};
    TRY(sends ? comm_send_start(g, x, 1, FP64, peer, tag, &request)
              : comm_recv_start(g, x, 1, FP64, peer, tag, &request));
    return comm_wait(&request);
}

static enum status answer(const struct group *g, clock_reader *now, int asker) {
    double question = 0;
    for (int i = 0; i < PINGS; i++) {
        TRY(pass(g, &question, asker, PING_TAG, false));
        double time_s = now();
        TRY(pass(g, &time_s, asker, PONG_TAG, true));
    }
    return OK;
}

static enum status ask(const struct group *g, clock_reader *now, struct clock_offset *out) {
    struct clock_ping ping[PINGS];
    for (int i = 0; i < PINGS; i++) {
        double question = 0;
        ping[i].sent_s = now();
        TRY(pass(g, &question, 0, PING_TAG, true));
        TRY(pass(g, &ping[i].there_s, 0, PONG_TAG, false));
        ping[i].back_s = now();
    }
    *out = clock_offset_of(ping, PINGS);
    return OK;
}

/* Rank 0 answers one rank after the other. A rank's first request waits for its turn, so it is never the fastest. */
enum status clock_measure(const struct group *g, clock_reader *now, struct clock_offset *out) {
    *out = (struct clock_offset){.at_s = now()};
    if (group_rank(g) != 0) return ask(g, now, out);
    for (int rank = 1; rank < group_size(g); rank++) TRY(answer(g, now, rank));
    return OK;
}
