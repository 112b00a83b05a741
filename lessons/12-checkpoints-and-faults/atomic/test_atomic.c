/* ranks: 1  device: cpu
 *
 * A disk in memory that can stop after any operation. After a power cut it has every state that is possible: of each
 * file the flushed bytes, and none, half or all of the later bytes; and any subset of the changes of names since the
 * last flush of the folder. The tests read every such state. */
#include "lessons/12-checkpoints-and-faults/atomic/atomic.h"

#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 64, MOST_NAMES = 24, MOST_CHANGES = 64, MOST_SUBSETS = 10, FILE_BYTES = 512, STATE_BYTES = 300,
       NEVER = -1 };

struct content { char data[FILE_BYTES]; int64_t n; };
struct file { struct content now, flushed; };
struct names { char name[MOST_NAMES][ATOMIC_NAME]; int file[MOST_NAMES], n; };
/* "" to "a": created; "a" to "b": renamed; "a" to "": removed */
struct change { char from[ATOMIC_NAME], to[ATOMIC_NAME]; int file; };

struct play {
    struct file files[MOST_FILES];
    int n_files;
    struct names now, flushed;
    struct change changes[MOST_CHANGES];     /* from flushed to now */
    int n_changes;
    int at, stop_at, fail_at;                /* operations so far; the first operation of a stopped disk; the one
                                              * operation that fails */
    bool removing;                           /* the failed operation was a removal */
};

/* ---- names ---- */
static int find(const struct names *d, const char *name) {
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->name[i], name)) return i;
    return -1;
}
static void unlink_name(struct names *d, const char *name) {
    int i = find(d, name);
    if (i < 0) return;
    d->n--;
    memmove(d->name[i], d->name[d->n], ATOMIC_NAME);
    d->file[i] = d->file[d->n];
}
static void apply(struct names *d, const struct change *c) {
    if (c->from[0]) unlink_name(d, c->from);
    if (!c->to[0]) return;
    unlink_name(d, c->to);
    snprintf(d->name[d->n], ATOMIC_NAME, "%s", c->to);
    d->file[d->n++] = c->file;
}
static void change(struct play *p, const char *from, const char *to, int file) {
    assert_true(p->n_changes < MOST_CHANGES && p->now.n < MOST_NAMES);
    struct change *c = &p->changes[p->n_changes++];
    snprintf(c->from, ATOMIC_NAME, "%s", from);
    snprintf(c->to, ATOMIC_NAME, "%s", to);
    c->file = file;
    apply(&p->now, c);
}

/* ---- operations ---- */
static bool works(struct play *p) {
    int at = p->at++;
    return at != p->fail_at && (p->stop_at == NEVER || at < p->stop_at);
}
static enum status broken(const char *what, const char *name) {
    return FAIL(E_IO, "%s %s: Input/output error", what, name);
}

static enum status op_create(void *self, const char *name) {
    struct play *p = self;
    int i = find(&p->now, name);
    if (!works(p)) return broken("create", name);
    if (i >= 0) p->files[p->now.file[i]].now.n = 0;
    else {
        assert_true(p->n_files < MOST_FILES);
        change(p, "", name, p->n_files++);
    }
    return OK;
}

/* The append at which the disk stops writes one half. */
static enum status op_append(void *self, const char *name, const void *data, int64_t bytes) {
    struct play *p = self;
    int i = find(&p->now, name);
    bool gone = p->stop_at != NEVER && p->at > p->stop_at, ok = works(p);
    if (i < 0 || gone) return broken("append to", name);
    struct content *c = &p->files[p->now.file[i]].now;
    int64_t n = ok ? bytes : bytes / 2;
    assert_true(c->n + n <= FILE_BYTES);
    memcpy(c->data + c->n, data, (size_t)n);
    c->n += n;
    return ok ? OK : broken("append to", name);
}

static enum status op_flush(void *self, const char *name) {
    struct play *p = self;
    int i = find(&p->now, name);
    if (!works(p) || i < 0) return broken("flush", name);
    p->files[p->now.file[i]].flushed = p->files[p->now.file[i]].now;
    return OK;
}

static enum status op_rename(void *self, const char *from, const char *to) {
    struct play *p = self;
    int i = find(&p->now, from);
    if (!works(p) || i < 0) return broken("rename", from);
    change(p, from, to, p->now.file[i]);
    return OK;
}

static enum status op_remove(void *self, const char *name) {
    struct play *p = self;
    p->removing |= p->at == p->fail_at;
    if (!works(p) || find(&p->now, name) < 0) return broken("remove", name);
    change(p, name, "", -1);
    return OK;
}

static enum status op_flush_folder(void *self) {
    struct play *p = self;
    if (!works(p)) return broken("flush", "the folder");
    p->flushed = p->now;
    p->n_changes = 0;
    return OK;
}

static struct disk disk_of(struct play *p) {
    return (struct disk){p, op_create, op_append, op_flush, op_rename, op_remove, op_flush_folder};
}

/* ---- readers ---- */

/* Version v of a step's state. */
static void make_state(char state[STATE_BYTES], int64_t step, int version) {
    for (int i = 0; i < STATE_BYTES; i++) state[i] = (char)('!' + (i * 7 + step * 31 + version * 13) % 90);
}

/* A file after a crash. mode: the unflushed bytes that survive: 0 none, 1 half, 2 all. */
static struct content survived(const struct file *f, int mode) {
    if (mode == 0) return f->flushed;
    struct content c = f->now;
    if (mode == 1 && (f->flushed.n != f->now.n || memcmp(f->flushed.data, f->now.data, (size_t)f->now.n)))
        c.n = f->now.n / 2;
    return c;
}

/* The step and version to which `latest` leads; -1: there is no `latest`; -2: it leads to no whole state. */
struct found { int64_t step; int version; };

static struct found look(const struct play *p, const struct names *d, int mode) {
    struct found none = {-1, -1}, harmed = {-2, -2};
    int at = find(d, "latest");
    if (at < 0) return none;
    struct content latest = survived(&p->files[d->file[at]], mode);
    for (int64_t step = 0; step < 5; step++) {
        char name[ATOMIC_NAME], text[ATOMIC_NAME + 1];
        atomic_step_name(step, name);
        snprintf(text, sizeof text, "%s\n", name);
        if (latest.n != (int64_t)strlen(text) || memcmp(latest.data, text, (size_t)latest.n)) continue;
        int file = find(d, name);
        if (file < 0) return harmed;
        struct content c = survived(&p->files[d->file[file]], mode);
        for (int version = 0; version < 3 && c.n == STATE_BYTES; version++) {
            char state[STATE_BYTES];
            make_state(state, step, version);
            if (!memcmp(state, c.data, STATE_BYTES)) return (struct found){step, version};
        }
    }
    return harmed;
}

static bool same(struct found a, struct found b) { return a.step == b.step && a.version == b.version; }

/* Does a reader find one of the two in every state after a power cut? */
static bool always_found(const struct play *p, struct found a, struct found b) {
    /* try all subsets of the first n changes, without the later ones */
    int n = p->n_changes < MOST_SUBSETS ? p->n_changes : MOST_SUBSETS;
    for (int mask = 0; mask < 1 << n; mask++) {
        struct names d = p->flushed;
        for (int i = 0; i < p->n_changes; i++)
            if (i < p->n_changes - n || mask >> (i - (p->n_changes - n)) & 1) apply(&d, &p->changes[i]);
        for (int mode = 0; mode < 3; mode++) {
            struct found f = look(p, &d, mode);
            if (!same(f, a) && !same(f, b)) return false;
        }
    }
    return true;
}
static bool found_now(const struct play *p, struct found a, struct found b) {
    struct found f = look(p, &p->now, 2);
    return same(f, a) || same(f, b);
}

/* ---- saves ---- */
static enum status save(struct play *p, int64_t step, int version, int64_t old) {
    char state[STATE_BYTES];
    struct disk disk = disk_of(p);
    make_state(state, step, version);
    return atomic_save(&disk, step, state, STATE_BYTES, old);
}

static void start(struct play *p) {
    memset(p, 0, sizeof *p);
    p->stop_at = p->fail_at = NEVER;
}

/* The saves before the interrupted one, and the interrupted save, which is the last. */
static const struct story {
    const char *what;
    int n_before;
    struct {
        int64_t step;
        int version;
        int64_t old;
    } save[3];
} stories[] = {
    {"the first save", 0, {{1, 0, -1}}},
    {"the second save", 1, {{1, 0, -1}, {2, 0, -1}}},
    {"a save that lets the one before go", 1, {{1, 0, -1}, {2, 0, 1}}},
    {"the same step again", 1, {{2, 0, -1}, {2, 1, -1}}},
    {"the same step again, old names it", 2, {{1, 0, -1}, {2, 0, 1}, {2, 2, 2}}},
};
enum { N_STORIES = sizeof stories / sizeof *stories };

static struct found told(const struct story *s, int i) {
    return i < 0 ? (struct found){-1, -1} : (struct found){s->save[i].step, s->save[i].version};
}

/* Make the disk before the last save of the story, and count operations from there. */
static void begin(struct play *p, const struct story *s) {
    start(p);
    for (int i = 0; i < s->n_before; i++) assert_ok(save(p, s->save[i].step, s->save[i].version, s->save[i].old));
    p->at = 0;
}
static enum status last(struct play *p, const struct story *s) {
    return save(p, s->save[s->n_before].step, s->save[s->n_before].version, s->save[s->n_before].old);
}
static int n_operations(const struct story *s) {
    struct play p;
    begin(&p, s);
    assert_ok(last(&p, s));
    assert_in_range(p.at, 3, 100);
    return p.at;
}

TEST(test_atomic_replaces_a_file) {
    struct play p;
    start(&p);
    struct disk disk = disk_of(&p);
    for (int i = 0; i < 2; i++) {
        const char *text = i ? "short" : "a longer text";
        assert_ok(atomic_replace(&disk, "notes", text, (int64_t)strlen(text)));
        assert_int_equal(p.now.n, 1);                                /* no other file is left */
        const struct content *c = &p.files[p.now.file[find(&p.now, "notes")]].now;
        assert_int_equal(c->n, strlen(text));
        assert_memory_equal(c->data, text, strlen(text));
    }
}

TEST(test_atomic_save_is_found) {
    for (int i = 0; i < N_STORIES; i++) {
        struct play p;
        begin(&p, &stories[i]);
        assert_ok(last(&p, &stories[i]));
        assert_true(found_now(&p, told(&stories[i], stories[i].n_before), told(&stories[i], stories[i].n_before)));
    }
}

TEST(test_atomic_save_outlives_the_power) {
    for (int i = 0; i < N_STORIES; i++) {
        struct play p;
        begin(&p, &stories[i]);
        assert_ok(last(&p, &stories[i]));
        assert_true(always_found(&p, told(&stories[i], stories[i].n_before), told(&stories[i], stories[i].n_before)));
    }
}

static void stop_everywhere(bool power) {
    for (int i = 0; i < N_STORIES; i++) {
        const struct story *s = &stories[i];
        for (int k = 0, n = n_operations(s); k < n; k++) {
            struct play p;
            begin(&p, s);
            p.stop_at = k;
            assert_int_equal(last(&p, s), E_IO);
            status_clear();
            bool whole = power ? always_found(&p, told(s, s->n_before - 1), told(s, s->n_before))
                               : found_now(&p, told(s, s->n_before - 1), told(s, s->n_before));
            if (!whole)
                fail_msg("%s, %s operation %d of %d: neither the old state nor the new one is found", s->what,
                         power ? "the power goes in" : "killed in", k + 1, n);
        }
    }
}

TEST(test_atomic_killed_anywhere_leaves_a_whole_state) {
    stop_everywhere(false);
}
TEST(test_atomic_power_lost_anywhere_leaves_a_whole_state) {
    stop_everywhere(true);
}

/* If one operation fails, on a full disk for example, the save fails, damages no state, and can be repeated. (A save
 * that cannot remove the old step may fail or not.) */
TEST(test_atomic_failure_is_told_and_can_be_repeated) {
    for (int i = 0; i < N_STORIES; i++) {
        const struct story *s = &stories[i];
        struct found before = told(s, s->n_before - 1), after = told(s, s->n_before);
        for (int k = 0, n = n_operations(s); k < n; k++) {
            struct play p;
            begin(&p, s);
            p.fail_at = k;
            enum status status = last(&p, s);
            status_clear();
            assert_true(status == E_IO || p.removing);
            assert_true(always_found(&p, before, after));
            p.fail_at = NEVER;
            if (!p.removing && find(&p.now, "step-00000001") >= 0) assert_ok(last(&p, s));
            else assert_ok(save(&p, s->save[s->n_before].step, s->save[s->n_before].version, -1));
            assert_true(always_found(&p, after, after));
        }
    }
}

TEST(test_atomic_old_step_goes_and_nothing_else_stays) {
    struct play p;
    start(&p);
    for (int64_t step = 1; step <= 3; step++) assert_ok(save(&p, step, 0, step > 2 ? 1 : -1));
    assert_int_equal(find(&p.now, "step-00000001"), -1);
    assert_true(find(&p.now, "step-00000002") >= 0 && find(&p.now, "step-00000003") >= 0);
    assert_int_equal(p.now.n, 3);
    assert_ok(save(&p, 3, 1, 3));                                    /* old is the step itself, and stays */
    assert_true(find(&p.now, "step-00000003") >= 0);
}

TESTS(unit_test(test_atomic_replaces_a_file), unit_test(test_atomic_save_is_found),
      unit_test(test_atomic_save_outlives_the_power), unit_test(test_atomic_killed_anywhere_leaves_a_whole_state),
      unit_test(test_atomic_power_lost_anywhere_leaves_a_whole_state),
      unit_test(test_atomic_failure_is_told_and_can_be_repeated),
      unit_test(test_atomic_old_step_goes_and_nothing_else_stays))
