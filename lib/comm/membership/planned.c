/* The agent's plans.
 *
 *   more      spares, new processes or ranks left out before, form one more replica: dp grows again, at most to its
 *             first value
 *   relief    a slow rank (train --replace-stragglers) asks to be replaced, and there is a spare
 *   leaving   a rank has been asked to leave (SIGUSR2): a spare takes its place, or dp decreases by one
 *
 * All three work in the same way (membership.c): the agent asks for the end of this epoch, the ranks agree on a last
 * step and drain after it, and the agent opens the next epoch. No step is repeated.
 *
 * One rank leaves at a time, because its right neighbor has the copy of its shard, and two ranks that leave at once
 * could be neighbors. It stays alive, as a spare that is used only after a death, until the new epoch is committed;
 * then the agent ends it.
 *
 * What breaks: counting processes that have not started yet, because all others would wait for them; making a rank that
 * has just left a member again. */
#include "lib/comm/membership/planned.h"


/* The epoch of the members that stay, without `leaves`, and of the spares that are ready. */
static struct membership without(const struct planned_job *job, int leaves) {
    bool alive[MEMBERSHIP_MOST_RANKS];
    for (int s = 0; s < job->n_slots; s++)
        alive[s] = s != leaves && (job->ready[s] || (job->alive[s] && membership_place(&job->now, s) >= 0));
    return membership_after(&job->now, true, alive, job->n_slots, &job->shape);
}

/* Do members of the next epoch have every shard of this epoch, and is their number at least job->least? */
static bool is_safe(const struct planned_job *job, const struct membership *next) {
    bool copy;
    for (int i = 0; i < job->now.n; i++)
        if (membership_holder(&job->now, &job->shape, i, next, &copy) < 0) return false;
    return next->n > 0 && next->n >= job->least;
}

struct membership planned_anyway(const struct planned_job *job) { return without(job, -1); }

struct planned planned_membership(const struct planned_job *job) {
    struct planned plan = {.leaves = -1, .cannot = -1};
    for (int i = 0; i < job->now.n; i++) {
        int s = job->now.slot[i];
        if (job->request[s] == MEMBER_STAYS) continue;
        struct membership next = without(job, s);
        bool safe = is_safe(job, &next);
        if (safe && (job->request[s] == MEMBER_LEAVES || next.n >= job->now.n))
            return (struct planned){next, s, -1};
        if (!safe && job->request[s] == MEMBER_LEAVES) plan.cannot = s;
    }
    struct membership next = without(job, -1);
    return next.n > job->now.n ? (struct planned){next, -1, -1} : plan;
}
