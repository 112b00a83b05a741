/* The snapshots that a rank keeps (lesson 19, "When does a snapshot count?" and after).
 * lib/comm/membership/membership.h has each function's contract. */
#include "lib/comm/membership/membership.h"

#include <stddef.h>

/* TODO: which epoch's snapshots certainly exist on every rank? */
int32_t membership_from(const struct membership *now, bool committed) { return (void)now, (void)committed, -1; }

/* TODO: make two epochs with two snapshots each; -1 means "none" in every field. */
void membership_store_clear(struct membership_store *s) { *s = (struct membership_store){0}; }

/* TODO: which of this epoch's snapshots count? */
int64_t membership_newest(const struct membership_store *s, int32_t epoch) { return (void)s, (void)epoch, -1; }

/* TODO: compare own_step only, because the ranks have agreed on a step that counts. */
const struct membership_snapshot *membership_find(const struct membership_store *s, int32_t epoch, int64_t step) {
    return (void)s, (void)epoch, (void)step, NULL;
}

/* TODO: which of the two epochs' entries? The first snapshot of a new epoch replaces one, and `from` must stay. Then
 * which of the entry's two snapshots? Set the replaced one to {-1, -1}. */
struct membership_snapshot *membership_room(struct membership_store *s, int32_t epoch, int32_t from) {
    return (void)epoch, (void)from, &s->kept[0].of[0];
}
