/* The snapshots that a rank keeps, and which of them to overwrite next, by the rule of membership.c. */
#include "lib/comm/membership/membership.h"

#include <stddef.h>

int32_t membership_from(const struct membership *now, bool committed) { return committed ? now->number : now->from; }

void membership_store_clear(struct membership_store *s) {
    for (int k = 0; k < 2; k++) {
        s->kept[k].epoch = -1;
        for (int i = 0; i < 2; i++) s->kept[k].of[i] = (struct membership_snapshot){-1, -1};
    }
}

int64_t membership_newest(const struct membership_store *s, int32_t epoch) {
    int64_t newest = -1;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 2; i++) {
            const struct membership_snapshot *x = &s->kept[k].of[i];
            if (s->kept[k].epoch == epoch && x->own_step == x->left_step && x->own_step > newest) newest = x->own_step;
        }
    return newest;
}

const struct membership_snapshot *membership_find(const struct membership_store *s, int32_t epoch, int64_t step) {
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 2; i++)
            if (epoch >= 0 && s->kept[k].epoch == epoch && s->kept[k].of[i].own_step == step) return &s->kept[k].of[i];
    return NULL;
}

struct membership_snapshot *membership_room(struct membership_store *s, int32_t epoch, int32_t from) {
    int k = 0;
    if (s->kept[0].epoch != epoch && s->kept[1].epoch != epoch) {    /* the epoch's first snapshot: drop an old epoch */
        k = s->kept[0].epoch == from && from >= 0 ? 1 : 0;
        s->kept[k].epoch = epoch;
        for (int i = 0; i < 2; i++) s->kept[k].of[i] = (struct membership_snapshot){-1, -1};
    } else if (s->kept[1].epoch == epoch) {
        k = 1;
    }
    struct membership_snapshot *at = &s->kept[k].of[s->kept[k].of[0].own_step > s->kept[k].of[1].own_step];
    *at = (struct membership_snapshot){-1, -1};
    return at;
}
