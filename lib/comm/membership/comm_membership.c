/* The epochs of a job whose ranks may change, and fixed answers for a job whose ranks never change. */
#include "lib/comm/membership/comm_membership.h"

#include "lib/comm/comm.h"
#include "lib/comm/membership/membership_table.h"
#include "lib/comm/transport/host_transport.h"

static const struct membership_table *job;

void comm_membership_is(const struct membership_table *table) { job = table; }

static enum status never_changes(void) { return FAIL(E_INTERNAL, "ranks of a job under MPI do not change"); }
void comm_membership_leave(void) {
    if (job) job->leave();
}
enum status comm_membership_enter(struct comm_place *place) { return job ? job->enter(place) : never_changes(); }

int comm_epoch(void) { return comm_world_place()->epoch; }
void comm_epoch_members(struct membership *now, struct membership *from) {
    *now = (struct membership){.n = comm_world_size(), .from = -1};
    *from = (struct membership){.number = -1};
    for (int i = 0; i < now->n && i < MEMBERSHIP_MOST_RANKS; i++) now->slot[i] = i;
    if (job) job->members(now, from);
}

void comm_epoch_shape(const struct membership_shape *shape) {
    if (job) job->shape(shape);
}
int comm_epoch_wants_shape(void) { return job ? job->wants_shape() : 0; }

void comm_epoch_keep(int64_t number) {
    if (job) job->keep(number);
}
int64_t comm_epoch_kept(void) { return job ? job->kept() : 0; }
void comm_epoch_done(int64_t step) {
    if (job) job->done(step);
}

void comm_epoch_commit(void) {
    if (job) job->commit();
}
bool comm_epoch_is_committed(void) { return job && job->is_committed(); }
enum status comm_epoch_close(void) { return !job || job->close() ? OK : E_EPOCH; }
bool comm_epoch_is_closed(void) { return job && job->is_closed(); }
bool comm_epoch_has_changed(void) { return job && job->has_changed(); }
bool comm_epoch_changes(void) { return job && job->changes(); }

bool comm_epoch_ends(void) { return job && job->ends(); }
enum status comm_epoch_drain(void) { return job ? job->drain() : never_changes(); }
void comm_epoch_ask_relief(bool wanted) {
    if (job) job->request(wanted ? MEMBER_WANTS_RELIEF : MEMBER_STAYS);
}
