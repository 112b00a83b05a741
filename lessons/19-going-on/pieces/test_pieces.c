/* ranks: 1  device: cpu */
/* Transfers compared with a loop over all elements, for every layout of up to five ranks and every set of deaths. */
#include "lessons/19-going-on/pieces/pieces.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 5, SPARES = 2, SLOTS = RANKS + SPARES, MOST = 64, ELEMENTS = 60 };

static struct membership epoch_of(int n, const int *slots) {
    struct membership e = {.number = 1, .from = 0, .n = n};
    for (int i = 0; i < n; i++) e.slot[i] = slots[i];
    return e;
}

static bool has_element(const struct membership *from, int64_t n, int32_t slot, int64_t e) {
    int place = membership_place(from, slot), left = (place + from->n - 1) % from->n;
    if (place < 0) return false;
    for (int k = 0; k < 2; k++) {
        int i = k ? left : place;
        if (n * i / from->n <= e && e < n * (i + 1) / from->n) return true;
    }
    return false;
}

static int32_t owner_of(const struct membership *from, int64_t n, int64_t e) {
    for (int i = 0; i < from->n; i++)
        if (n * i / from->n <= e && e < n * (i + 1) / from->n) return from->slot[i];
    return -1;
}

static const char *text_of(const struct transfer *x) {
    static char text[96];
    snprintf(text, sizeof text, "%d to %d: [%lld, %lld)", (int)x->from_slot, (int)x->to_slot, (long long)x->first,
             (long long)(x->first + x->n));
    return text;
}

/* The plan as text, "1 to 4: [4, 8); 2 to 0: ..." */
static const char *plan(int64_t n, const struct membership *from, const struct membership *now) {
    static char all[1024];
    struct transfer out[MOST];
    int n_out;
    assert_ok(pieces_plan(n, from, now, out, MOST, &n_out));
    all[0] = 0;
    for (int k = 0; k < n_out; k++) strcat(strcat(all, k ? "; " : ""), text_of(&out[k]));
    return all;
}

TEST(test_pieces_of_the_same_layout) {
    struct membership from = epoch_of(4, (int[]){0, 1, 2, 3}), now = epoch_of(4, (int[]){0, 9, 2, 3});
    assert_int_equal(pieces_first(16, 4, 3), 12);
    assert_int_equal(pieces_first(7, 4, 1), 1);
    assert_int_equal(pieces_first(7, 4, 4), 7);
    assert_string_equal(plan(16, &from, &now), "2 to 9: [4, 8)");
    assert_string_equal(plan(16, &from, &from), "");
    now = epoch_of(4, (int[]){9, 1, 2, 3});
    assert_string_equal(plan(16, &from, &now), "1 to 9: [0, 4)");
}

/* Place 0 has [0, 4) and a copy of [12, 16) of the old layout, and lacks element 4 of its new [0, 5). */
TEST(test_pieces_of_a_smaller_layout) {
    struct membership from = epoch_of(4, (int[]){0, 1, 2, 3}), now = epoch_of(3, (int[]){0, 2, 3});
    assert_string_equal(plan(16, &from, &now), "2 to 0: [4, 5)");
    now = epoch_of(2, (int[]){1, 3});
    assert_string_equal(plan(16, &from, &now), "");
    now = epoch_of(1, (int[]){0});
    from = epoch_of(2, (int[]){0, 1});
    assert_string_equal(plan(5, &from, &now), "");
}

TEST(test_pieces_of_what_is_gone) {
    struct membership from = epoch_of(4, (int[]){5, 6, 7, 8}), now = epoch_of(2, (int[]){5, 8});
    struct transfer out[MOST];
    int n_out = 7;
    assert_fails(pieces_plan(16, &from, &now, out, MOST, &n_out), E_DATA, "shard 1", "6", "7");
    assert_int_equal(n_out, 0);
    now = epoch_of(2, (int[]){6, 7});                    /* without 8 and 5, its right neighbor */
    assert_fails(pieces_plan(16, &from, &now, out, MOST, &n_out), E_DATA, "shard 3", "8", "5");
    now = epoch_of(1, (int[]){8});
    assert_ok(pieces_plan(1, &from, &now, out, MOST, &n_out));       /* the only element is in shard 3 */
}

/* ---- every layout ---- */
enum broken { MISSING, TWICE, NOT_THERE, IN_VAIN, OTHER_SENDER, UNSORTED, APART, N_BROKEN };
static const char *const said[] = {"an element does not come", "an element comes twice",
                                   "the sender has not got it", "the receiver has it already",
                                   "the owner lives, and somebody else sends", "transfers are not sorted",
                                   "two transfers could be one"};
struct search { bool broken[N_BROKEN]; char where[N_BROKEN][160]; int64_t plans; };

static void found(struct search *s, enum broken what, int64_t n, const struct membership *from,
                  const struct membership *now) {
    if (s->broken[what]) return;
    s->broken[what] = true;
    int at = snprintf(s->where[what], sizeof s->where[what], "%d elements, members", (int)n);
    for (int i = 0; i < from->n; i++)
        at += snprintf(s->where[what] + at, sizeof s->where[what] - (size_t)at, " %d", (int)from->slot[i]);
    at += snprintf(s->where[what] + at, sizeof s->where[what] - (size_t)at, ", then");
    for (int i = 0; i < now->n; i++)
        at += snprintf(s->where[what] + at, sizeof s->where[what] - (size_t)at, " %d", (int)now->slot[i]);
}

static void look_at_receiver(struct search *s, int64_t n, const struct membership *from, const struct membership *now,
                             int p,
                             const struct transfer *out, int n_out) {
    int times[ELEMENTS] = {0};
    int32_t slot = now->slot[p];
    for (int k = 0; k < n_out; k++) {
        if (out[k].to_slot != slot) continue;
        for (int64_t e = out[k].first; e < out[k].first + out[k].n && e >= 0 && e < n; e++) {
            int32_t owner = owner_of(from, n, e);
            times[e]++;
            if (!has_element(from, n, out[k].from_slot, e)) found(s, NOT_THERE, n, from, now);
            if (has_element(from, n, slot, e)) found(s, IN_VAIN, n, from, now);
            if (membership_place(now, owner) >= 0 && owner != out[k].from_slot) found(s, OTHER_SENDER, n, from, now);
        }
    }
    for (int64_t e = n * p / now->n; e < n * (p + 1) / now->n; e++) {
        if (times[e] == 0 && !has_element(from, n, slot, e)) found(s, MISSING, n, from, now);
        if (times[e] > 1) found(s, TWICE, n, from, now);
    }
}

static void look_at(struct search *s, int64_t n, const struct membership *from, const struct membership *now) {
    struct transfer out[MOST];
    int n_out = 0, lost = 0;
    for (int64_t e = 0; e < n; e++) {
        bool there = false;
        for (int p = 0; p < now->n; p++) there |= has_element(from, n, now->slot[p], e);
        lost += !there;
    }
    enum status status = pieces_plan(n, from, now, out, MOST, &n_out);
    if (lost) {
        assert_fails(status, E_DATA, "gone");
        return;
    }
    assert_ok(status);
    s->plans++;
    for (int p = 0; p < now->n; p++) look_at_receiver(s, n, from, now, p, out, n_out);
    for (int k = 1; k < n_out; k++) {
        int a = membership_place(now, out[k - 1].to_slot), b = membership_place(now, out[k].to_slot);
        if (a > b || (a == b && out[k - 1].first >= out[k].first)) found(s, UNSORTED, n, from, now);
        if (a == b && out[k - 1].from_slot == out[k].from_slot && out[k - 1].first + out[k - 1].n == out[k].first)
            found(s, APART, n, from, now);
    }
}

/* Either the living form a smaller epoch, or spares replace the dead. */
static void with_deaths(struct search *s, int64_t n, const struct membership *from, unsigned dead) {
    struct membership fewer = {.number = 2, .from = 1}, filled = *from;
    int spare = RANKS;
    for (int i = 0; i < from->n; i++) {
        if (!(dead >> i & 1)) fewer.slot[fewer.n++] = from->slot[i];
        else if (spare < SLOTS) filled.slot[i] = spare++;
        else filled.n = 0;
    }
    if (fewer.n) look_at(s, n, from, &fewer);
    if (filled.n) look_at(s, n, from, &filled);
    for (int i = 0; i < fewer.n / 2; i++) {              /* the same in reverse order */
        int32_t slot = fewer.slot[i];
        fewer.slot[i] = fewer.slot[fewer.n - 1 - i], fewer.slot[fewer.n - 1 - i] = slot;
    }
    if (fewer.n) look_at(s, n, from, &fewer);
}

static struct search everything(void) {
    static const int64_t sizes[] = {0, 1, 3, 7, 12, 60};
    struct search s = {.plans = 0};
    for (int m = 1; m <= RANKS; m++) {
        struct membership from = epoch_of(m, (int[]){3, 1, 4, 0, 2});
        for (unsigned dead = 0; dead < 1u << m; dead++)
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) with_deaths(&s, sizes[k], &from, dead);
    }
    return s;
}

static void hold(const enum broken *what, int n) {
    struct search s = everything();
    assert_true(s.plans > 300);
    for (int k = 0; k < n; k++)
        if (s.broken[what[k]]) fail_msg("%s: %s", s.where[what[k]], said[what[k]]);
}

TEST(test_pieces_in_every_layout) {
    hold((enum broken[]){MISSING, TWICE, NOT_THERE, OTHER_SENDER}, 4);
}
TEST(test_pieces_send_nothing_in_vain) {
    hold((enum broken[]){IN_VAIN, APART}, 2);
}
TEST(test_pieces_are_in_order) {
    hold((enum broken[]){UNSORTED}, 1);
}

TEST(test_pieces_refuse_what_does_not_fit) {
    struct membership from = epoch_of(5, (int[]){0, 1, 2, 3, 4}), now = epoch_of(3, (int[]){0, 2, 4});
    struct transfer out[MOST];
    int n_out = 9;
    assert_ok(pieces_plan(60, &from, &now, out, MOST, &n_out));
    assert_true(n_out > 1);
    assert_fails(pieces_plan(60, &from, &now, out, n_out - 1, &n_out), E_INTERNAL, "more than");
    assert_int_equal(n_out, 0);
}

TESTS(unit_test(test_pieces_of_the_same_layout), unit_test(test_pieces_of_a_smaller_layout),
      unit_test(test_pieces_of_what_is_gone), unit_test(test_pieces_in_every_layout),
      unit_test(test_pieces_send_nothing_in_vain), unit_test(test_pieces_are_in_order),
      unit_test(test_pieces_refuse_what_does_not_fit))
