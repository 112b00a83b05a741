/* Chaos at work: what chaos_act draws is done to the ranks of a job, by the agent of one host or the lighthouse of
 * several. */
#ifndef TRIVIUM_LAUNCH_CHAOS_WREAK_H
#define TRIVIUM_LAUNCH_CHAOS_WREAK_H

#include "launch/chaos.h"
#include "launch/next_membership.h"

/* seed: 0: there is none; mean_s, hang_s: as chaos_act has them; act_s: when the next act is. goes_on_s[s]: when a
 * stopped one does, INFINITY if it is to die, or 0. rests_s[s]: it is not slowed again before: it has to move within
 * hang_s, and may have to wait for a core. */
struct wreak {
    int seed, n_acts;
    double mean_s, hang_s, act_s, goes_on_s[OWN_MOST_RANKS], rests_s[OWN_MOST_RANKS];
    struct chaos_costs costs;
};
/* How it reaches process s: a signal; or it is to cut its connection to another one. node[s]: which host it is on. */
struct wreak_hand {
    void *of;
    void (*signal)(void *of, int s, int number);
    void (*cut)(void *of, int s, int other);
    const int *node;
};

/** At each turn: counts what is done, from the first step to the end. all_is_done: no more acts. @collective{none} */
void wreak_chaos(struct wreak *, const struct plan_view *, bool all_is_done, const struct wreak_hand *, double now_s);

#endif
