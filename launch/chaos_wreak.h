/* Carries out the acts that chaos_act draws, for the agent of one host or the lighthouse of several. */
#pragma once

#include "launch/chaos.h"
#include "launch/next_membership.h"

/* seed: 0 for no chaos; mean_s, hang_s: as in chaos_act; act_s: the time of the next act. goes_on_s[s]: when stopped
 * slot s continues; INFINITY: it stays stopped until it is killed; 0: it runs. rests_s[s]: slot s is not slowed before
 * this time, because it must move within hang_s even if it first waits for a core. */
struct wreak {
    int seed, n_acts;
    double mean_s, hang_s, act_s, goes_on_s[OWN_MOST_RANKS], rests_s[OWN_MOST_RANKS];
    struct chaos_costs costs;
};
/* How an act reaches process s. signal: send it. cut: ask s to cut its connection to `other`. node[s]: host of s. */
struct wreak_hand {
    void *of;
    void (*signal)(void *of, int s, int number);
    void (*cut)(void *of, int s, int other);
    const int *node;
};

/** Call at each turn: count the steps, and carry out the acts that are due. Acts begin after the first step and end
 *  when all_is_done. @collective{none} */
void wreak_chaos(struct wreak *, const struct members *, bool all_is_done, const struct wreak_hand *, double now_s);
