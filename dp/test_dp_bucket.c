/* ranks: 1 2 4  device: cpu
 *
 * Buckets over a table of params with odd sizes (so that there are alignment gaps), one param absent on this rank, and
 * one of another dtype. Gradients are small integers, so sums are exact, and tests compare with ==. */
#include "dp/dp_bucket.h"
#include "lib/ops/test_op.h"
#include "lib/program/memory.h"
#include <stdlib.h>

enum { N_PARAMS = 10, ABSENT = 3, DOUBLE = 6, EXPERT = 8 };
static const int SIZE[N_PARAMS] = {1, 7, 33, 50, 5, 130, 16, 3, 64, 999};

/* @return bytes of the grad arena */
static int64_t make_params(struct program *p) {
    struct memory_plan memory;
    char name[8];
    program_init(p);
    for (int i = 0; i < N_PARAMS; i++) {
        snprintf(name, sizeof name, "w%d", i);
        program_add_param(p, "test", name, op_type(i == DOUBLE ? FP64 : FP32, "C", SIZE[i]), 0, 0, true);
        p->params[i].present = i != ABSENT;
    }
    memory_plan_params(p, &(struct schedule){0}, &memory);
    return memory.bytes[TIER_DEVICE][ROLE_GRAD];
}

static int64_t grad_end(const struct param *w) { return param_grad_offset(w) + type_bytes(&w->grad_type); }

/* ---- bucket boundaries ---- */
static void check_cover(const struct program *p, const struct dp_buckets *d) {
    int members[N_PARAMS] = {0};
    for (int i = 0; i < N_PARAMS; i++) {
        const struct param *w = &p->params[i];
        assert_in_range(d->of_param[i] + 1, w->present ? 1 : 0, w->present ? d->n : 0);
        if (!w->present) continue;
        const struct dp_bucket *b = &d->bucket[d->of_param[i]];
        assert_in_range(i, b->first, b->last);
        assert_true(b->offset <= param_grad_offset(w) && grad_end(w) <= b->offset + b->bytes);
        members[d->of_param[i]]++;
    }
    for (int k = 0; k < d->n; k++) {
        if (members[k] != d->bucket[k].n_params)
            print_error("bucket %d of %d: n_params is %d, of_param gives it %d\n", k, d->n, d->bucket[k].n_params,
                        members[k]);
        assert_int_equal(members[k], d->bucket[k].n_params);
        /* no byte is in two buckets */
        if (k > 0) assert_true(d->bucket[k].offset + d->bucket[k].bytes <= d->bucket[k - 1].offset);
    }
}

TEST(test_dp_bucket_covers_every_present_param_once) {
    static const int64_t sizes[] = {1, 64, 200, 600, 4000, 1 << 20};
    struct program p;
    make_params(&p);
    for (int i = 0; i < 6; i++) {
        struct dp_buckets d;
        assert_ok(dp_buckets_init(&d, &p, sizes[i]));
        check_cover(&p, &d);
        dp_buckets_fini(&d);
    }
    program_fini(&p);
}

/* A bucket reaches the limit, unless the table ends or the dtype changes. Without the param that was added last, which
 * is its first in the table, the bucket is below the limit. */
static void check_size(const struct program *p, const struct dp_bucket *b, int64_t limit) {
    bool cut_by_end = b->first == 0, cut_by_dtype = b->first == DOUBLE || b->first == DOUBLE + 1;
    assert_true(b->bytes >= limit || cut_by_end || cut_by_dtype);
    int second = b->first + 1 == ABSENT ? b->first + 2 : b->first + 1;
    if (b->n_params > 1) assert_true(grad_end(&p->params[b->last]) - param_grad_offset(&p->params[second]) < limit);
}

TEST(test_dp_bucket_respects_size_and_dtype) {
    struct program p;
    make_params(&p);
    for (int64_t limit = 1; limit < 10000; limit = limit * 3 / 2 + 1) {
        struct dp_buckets d;
        assert_ok(dp_buckets_init(&d, &p, limit));
        for (int k = 0; k < d.n; k++) {
            check_size(&p, &d.bucket[k], limit);
            for (int i = d.bucket[k].first; i <= d.bucket[k].last; i++)
                if (p.params[i].present) assert_int_equal(p.params[i].grad_type.dtype, d.bucket[k].dtype);
        }
        int n = limit == 1 ? N_PARAMS - 1 : limit > 8000 ? 3 : d.n;   /* one param each; fp32, fp64, fp32 */
        if (d.n != n) print_error("%d buckets of %lld bytes, where there are %d\n", d.n, (long long)limit, n);
        assert_int_equal(d.n, n);
        int64_t full = d.bucket[0].bytes;
        dp_buckets_fini(&d);
        assert_ok(dp_buckets_init(&d, &p, full));              /* a bucket of exactly `full` bytes is complete */
        check_size(&p, &d.bucket[0], full);
        dp_buckets_fini(&d);
    }
    program_fini(&p);
}

/* An expert's weight is summed over other ranks than its neighbors in the table. */
TEST(test_dp_bucket_has_one_axis) {
    struct program p;
    struct dp_buckets d;
    make_params(&p);
    p.params[EXPERT].reduce = 1u << AXIS_EDP;
    assert_ok(dp_buckets_init(&d, &p, 1 << 20));
    for (int i = 0; i < N_PARAMS; i++)
        if (p.params[i].present) assert_int_equal(d.bucket[d.of_param[i]].axis, param_replicas(&p.params[i]));
    dp_buckets_fini(&d);
    program_fini(&p);
}

/* ---- all-reduces ---- */
static int gradient_of(int rank, int param, int element, int step) {
    return (element * 7 + param + 1) % 11 * (rank + 1) + step;
}

static void write_gradient(const struct param *w, char *base, int param, int step) {
    for (int e = 0; e < SIZE[param]; e++)
        dtype_set(base + param_grad_offset(w), w->grad_type.dtype, e, gradient_of(comm_world_rank(), param, e, step));
}

static bool sums_are_serial(const struct program *p, const char *base, int step) {
    for (int i = 0; i < N_PARAMS; i++)
        for (int e = 0; e < SIZE[i] && p->params[i].present; e++) {
            int sum = 0;
            for (int rank = 0; rank < comm_world_size(); rank++) sum += gradient_of(rank, i, e, step);
            const struct param *w = &p->params[i];
            if (dtype_get(base + param_grad_offset(w), w->grad_type.dtype, e) != sum) return false;
        }
    return true;
}

/* Are so_far and status OK? Print the first failure, which may be E_TODO from an exercise. */
static bool well(bool so_far, enum status status) {
    if (so_far && status != OK) print_error("%s\n", status_text());
    status_clear();
    return so_far && status == OK;
}

static int64_t n_sums(void) { return group_ledger(group_world())->entry[COMM_ALL_REDUCE].calls; }

struct outcome { bool went_well, started_in_time, sums, wire; };

/* One step: gradients become final from the last param to the first, or in the order 0 3 6 9 2 5 8 1 4 7; the same on
 * all ranks. A gradient is written when it becomes final, so an all-reduce that starts earlier misses it. After each,
 * the number of all-reduces started equals the number of complete buckets. */
static void run_one_step(struct outcome *o, struct dp_buckets *d, const struct program *p, char *base, int step) {
    int64_t before = n_sums(), complete = 0;
    int left[N_PARAMS];
    for (int k = 0; k < d->n; k++) left[k] = d->bucket[k].n_params;
    for (int t = 0; t < N_PARAMS; t++) {
        int i = step % 2 ? N_PARAMS - 1 - t : t * 3 % N_PARAMS;
        if (!p->params[i].present) continue;
        write_gradient(&p->params[i], base, i, step);
        o->went_well = well(o->went_well, dp_bucket_ready(d, i, base, group_world()));
        complete += --left[d->of_param[i]] == 0;
        o->started_in_time &= n_sums() - before == complete;
    }
    o->went_well = well(o->went_well, dp_buckets_finish(d));
    o->started_in_time &= o->went_well && complete == d->n;
}

/* The bytes that each of n ranks sends, by the bill. */
static double wire_of(const struct dp_buckets *d, int n) {
    const struct mesh_place place = mesh_place_of(&(struct mesh_sizes){.dp = n}, 0);
    struct bill bill = {0};
    dp_buckets_bill(d, &place, &bill);
    double bytes = bill.wire_bytes[AXIS_DP];
    bill_fini(&bill);
    return bytes;
}

static struct outcome run_steps(int64_t limit) {
    struct outcome o = {true, true, true, true};
    struct program p;
    struct dp_buckets d;
    int64_t bytes = make_params(&p);
    char *base = malloc((size_t)bytes);
    bool cut = o.started_in_time = o.went_well = well(true, dp_buckets_init(&d, &p, limit));
    group_ledger_reset(group_world());
    for (int step = 0; step < 4; step++) {
        memset(base, 0, (size_t)bytes);                    /* clears gaps, too, as dp's attach does */
        if (cut) run_one_step(&o, &d, &p, base, step);
        o.sums &= sums_are_serial(&p, base, step);
    }
    double sent = group_ledger(group_world())->entry[COMM_ALL_REDUCE].bytes;
    o.wire = sent == 4 * wire_of(&d, comm_world_size());
    dp_buckets_fini(&d);
    program_fini(&p);
    free(base);
    return o;
}

TEST(test_dp_bucket_sums_to_serial) {
    for (int64_t limit = 1; limit < 10000; limit = limit * 4 + 50) {
        struct outcome o = run_steps(limit);
        bool sums = agree_all(o.sums);
        assert_true(sums);
    }
}

TEST(test_dp_bucket_starts_with_its_last_gradient_and_not_before) {
    for (int64_t limit = 1; limit < 10000; limit = limit * 4 + 50) {
        struct outcome o = run_steps(limit);
        bool started_in_time = agree_all(o.started_in_time);
        assert_true(started_in_time);
    }
}

/* The formula by hand, for one bucket of all params except the fp64 one. The ledger counts the same bytes. */
TEST(test_dp_bucket_wire_is_its_formula) {
    struct program p;
    struct dp_buckets d;
    int64_t bytes = make_params(&p), spanned = 0;
    assert_ok(dp_buckets_init(&d, &p, 1 << 20));
    for (int k = 0; k < d.n; k++) spanned += d.bucket[k].bytes;
    assert_true(spanned <= bytes);
    for (int n = 1; n <= 16; n *= 2) assert_close(wire_of(&d, n), 2. * (double)spanned * (n - 1) / n, 1e-9);
    dp_buckets_fini(&d);
    program_fini(&p);
    assert_true(agree_all(run_steps(600).wire));
}

/* A gradient that never becomes final must be an error: its bucket's all-reduce never started. */
TEST(test_dp_bucket_refuses_to_finish_unfinished) {
    struct program p;
    struct dp_buckets d;
    int64_t bytes = make_params(&p);
    char *base = calloc(1, (size_t)bytes);
    assert_ok(dp_buckets_init(&d, &p, 4000));
    assert_true(d.bucket[0].n_params > 1);
    assert_ok(dp_bucket_ready(&d, N_PARAMS - 1, base, group_world()));
    assert_fails(dp_buckets_finish(&d), E_INTERNAL, "bucket 0", "1 final gradients of 2");
    dp_buckets_fini(&d);
    program_fini(&p);
    free(base);
}

TESTS(unit_test(test_dp_bucket_covers_every_present_param_once), unit_test(test_dp_bucket_respects_size_and_dtype),
      unit_test(test_dp_bucket_has_one_axis),
      unit_test(test_dp_bucket_sums_to_serial), unit_test(test_dp_bucket_starts_with_its_last_gradient_and_not_before),
      unit_test(test_dp_bucket_wire_is_its_formula), unit_test(test_dp_bucket_refuses_to_finish_unfinished))
