/* ranks: 1 2 4  device: cpu
 *
 * Buckets over params whose sizes 2 or 4 ranks do not divide. Two have other dtypes, one is tied (ready twice a
 * microbatch), one is absent on this rank. Gradients are small integers, so sums are exact in every dtype here, and
 * tests compare with ==. */
#include "driver/recipe.h"
#include "lib/ops/test_op.h"
#include "lib/program/gradients.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "zero/zero.h"
#include "zero/zero_bucket.h"
#include <stdlib.h>

enum { N_PARAMS = 10, ABSENT = 3, DOUBLE = 6, SHORT = 8, TIED = 0, READY = 10, MICROBATCHES = 2, MOST = 1003 };
static const int SIZE[N_PARAMS] = {1, 7, 33, 50, 5, 131, 17, 3, 65, 999};

/* A microbatch's backward: the tied param first and last, the others in reverse. */
static const int ORDER[] = {0, 9, 8, 7, 6, 5, 4, 2, 1, 0};

/* Tables of a compiled run, made by hand, for the prediction; and the buckets with their memory. */
struct fixture {
    struct program p;
    struct row rows[2 * READY];
    struct chunk chunk;
    struct schedule schedule;
    struct zero_buckets z;
    char *comm;
};

/* As zero.c shards: equal shards, rounded up. keeps_own: only the shard of the gradient stays (stages 2 and 3). */
static void divide(struct param *w, int n_ranks, int rank, bool keeps_own) {
    int64_t n = type_n(&w->type);
    w->shard_n = (n + n_ranks - 1) / n_ranks;
    w->padded_n = w->shard_n * n_ranks;
    w->shard_axis = AXIS_DP;
    w->own_first = w->shard_n * rank;
    w->own_n = w->own_first >= n ? 0 : n - w->own_first < w->shard_n ? n - w->own_first : w->shard_n;
    w->grad_residence = keeps_own ? RESIDENT_OWN : RESIDENT_WHOLE;
}

static void make_params(struct fixture *f, int n_ranks, int rank, bool keeps_own) {
    program_init(&f->p);
    f->p.n_chunks = 1;
    for (int i = 0; i < N_PARAMS; i++) {
        enum dtype dtype = i == DOUBLE ? FP64 : i == SHORT ? BF16 : FP32;
        char name[8];
        snprintf(name, sizeof name, "w%d", i);
        program_add_param(&f->p, "test", name, op_type(dtype, "C", SIZE[i]), 0, 0, true);
        struct param *w = &f->p.params[i];
        w->present = i != ABSENT;
        divide(w, n_ranks, rank, keeps_own);
        w->grad = calloc((size_t)w->padded_n, 8);
    }
}

static void add_row(struct fixture *f, enum row_kind kind, int id) {
    f->rows[f->chunk.tapes[TAPE_B].n++] = (struct row){.kind = kind, .id = id};
}

/* PARAM_DONE rows are in between, which the prediction must skip. */
static void make_rows(struct fixture *f) {
    f->chunk.tapes[TAPE_B].rows = f->rows;
    for (int i = 0; i < READY; i++) {
        add_row(f, ROW_PARAM_DONE, ORDER[i]);
        add_row(f, ROW_GRAD_READY, ORDER[i]);
    }
}

/* Are so_far and status OK? Print the first failure, which may be E_TODO from an exercise. */
static bool well(bool so_far, enum status status) {
    if (so_far && status != OK) print_error("%s\n", status_text());
    status_clear();
    return so_far && status == OK;
}

static bool fixture_init(struct fixture *f, int n_ranks, int rank, bool every, int64_t bytes) {
    *f = (struct fixture){0};
    make_params(f, n_ranks, rank, every);
    f->p.place = mesh_place_of(&(struct mesh_sizes){.dp = n_ranks}, rank);
    make_rows(f);
    bool ok = well(true, schedule_accumulate(MICROBATCHES, &f->schedule));
    ok = well(ok, gradients_mark(&f->p, &f->chunk, &f->schedule));
    const struct compiled compiled = {&f->p, &f->chunk, &f->schedule};
    ok = well(ok, zero_buckets_init(&f->z, &compiled, every, bytes));
    f->comm = malloc((size_t)zero_buckets_comm_bytes(&f->z) + 1);
    zero_buckets_place(&f->z, device_cpu(), f->comm);
    return ok && f->comm;
}

static void fixture_fini(struct fixture *f) {
    for (int i = 0; i < N_PARAMS; i++) free(f->p.params[i].grad);
    zero_buckets_fini(&f->z);
    schedule_fini(&f->schedule);
    program_fini(&f->p);
    free(f->comm);
}

static int64_t whole_bytes(const struct param *w) { return w->padded_n * (int64_t)dtype_size(w->grad_type.dtype); }

/* ---- prediction, by hand ---- */
TEST(test_zero_bucket_predicts_each_readiness_or_the_final_one) {
    struct fixture f;
    assert_true(fixture_init(&f, 2, 0, true, 1));
    assert_int_equal(f.z.n_params, 20);
    for (int i = 0; i < MICROBATCHES * READY; i++) assert_int_equal(f.z.params[i], ORDER[i % READY]);
    fixture_fini(&f);
    assert_true(fixture_init(&f, 2, 0, false, 1));
    assert_int_equal(f.z.n_params, 9);                     /* in the second microbatch; of the tied param, the last */
    for (int i = 0; i < 9; i++) assert_int_equal(f.z.params[i], ORDER[i + 1]);
    fixture_fini(&f);
}

/* ---- prediction, against the GRAD_READY events of a GPT's step ---- */
struct record { int n, n_final, all[4096], final[4096]; };

static enum status note(struct run *r, void *self, const struct event *e) {
    struct record *record = self;
    (void)r;
    if (record->n == 4096) return FAIL(E_INTERNAL, "more than 4096 gradients");
    record->all[record->n++] = e->param;
    if (e->final) record->final[record->n_final++] = e->param;
    return OK;
}

static bool predicted(const struct run *r, bool every, const int *seen, int n) {
    const struct compiled compiled = {&r->program, r->chunks, &r->schedule};
    struct zero_buckets z;
    if (!well(true, zero_buckets_init(&z, &compiled, every, 1))) return false;
    bool same = z.n_params == n && !memcmp(z.params, seen, (size_t)n * sizeof *seen);
    zero_buckets_fini(&z);
    return same && n > 0;
}

static enum status run_and_record(struct run *r, int zero, struct record *record) {
    struct plan plan = parity_plan();
    struct data_file *file;
    struct data_split train, val;
    plan.mesh.pp = comm_world_size() == 4 ? 2 : 1;              /* 4 ranks: tied weight on two stages, in chunks */
    plan.mesh.dp = comm_world_size() / plan.mesh.pp;
    pp_options(&plan)->schedule = plan.mesh.pp == 2 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B;
    pp_options(&plan)->chunks = plan.mesh.pp;
    plan.micro_batch = 2;
    zero_options(&plan)->stage = zero;
    TRY(plan_settle(&plan, comm_world_size()));
    TRY(run_create(r, &train_recipe, &plan, WATCH_NOTHING));
    TRY(data_open("configs/demo.txt", &file));
    TRY(data_split_tail(file, plan.seq, 0.1, &train, &val));
    run_set_data(r, &train, &val);
    TRY(run_subscribe(r, EVENT_GRAD_READY, note, record));
    enum status status = run_step(r);
    data_close(&file);
    return status;
}

TEST(test_zero_bucket_predicts_what_a_run_does) {
    for (int zero = 1; zero <= 3; zero++) {
        static struct record record;
        struct run r;
        record.n = record.n_final = 0;
        bool ran = well(true, run_and_record(&r, zero, &record));
        bool all = agree_all(ran && predicted(&r, true, record.all, record.n));
        bool final = agree_all(ran && predicted(&r, false, record.final, record.n_final));
        run_destroy(&r);
        assert_true(all);
        assert_true(final);
    }
}

/* ---- bucket boundaries ---- */
static int64_t bucket_bytes(const struct zero_bucket *b) {
    return b->count * b->n_ranks * (int64_t)dtype_size(b->dtype);
}

/* Each gradient of the sequence is in one bucket, which has room for exactly its members. */
static void check_cover(const struct fixture *f) {
    int next = 0;
    for (int k = 0; k < f->z.n; k++) {
        const struct zero_bucket *b = &f->z.buckets[k];
        int64_t count = 0;
        assert_int_equal(b->first, next);
        assert_true(b->n > 0);
        for (int i = b->first; i < b->first + b->n; i++) {
            count += f->p.params[f->z.params[i]].shard_n;
            assert_int_equal(f->p.params[f->z.params[i]].grad_type.dtype, b->dtype);
        }
        assert_int_equal(b->count, count);
        next += b->n;
    }
    assert_int_equal(next, f->z.n_params);
}

/* A bucket reaches the limit, unless the sequence ends or the dtype changes; without its last gradient it does not. */
static void check_size(const struct fixture *f, int k, int64_t limit) {
    const struct zero_bucket *b = &f->z.buckets[k];
    bool at_end = k + 1 == f->z.n, before_another = !at_end && b[1].dtype != b->dtype;
    int64_t bytes = bucket_bytes(b), last = whole_bytes(&f->p.params[f->z.params[b->first + b->n - 1]]);
    assert_true(bytes >= limit || at_end || before_another);
    assert_true(bytes - last < limit);
}

TEST(test_zero_bucket_cuts_by_size_and_dtype) {
    for (int n_ranks = 1; n_ranks <= 8; n_ranks++)
        for (int64_t limit = 1; limit < 20000; limit = limit * 3 / 2 + 1) {
            struct fixture f;
            assert_true(fixture_init(&f, n_ranks, n_ranks - 1, true, limit));
            check_cover(&f);
            for (int k = 0; k < f.z.n; k++) check_size(&f, k, limit);
            if (limit == 1) assert_int_equal(f.z.n, 20);              /* one gradient each */
            /* buckets: 0 9 | 8 | 7 | 6 | 5 4 2 1 0 0 9 | 8 | 7 | 6 | 5 4 2 1 0 */
            if (limit > 15000) assert_int_equal(f.z.n, 9);
            fixture_fini(&f);
        }
}

/* ---- memory: two slots, each as large as the largest bucket that passes through it ---- */
static void check_slots(const struct fixture *f) {
    const struct zero_slot *s = f->z.slots;
    for (int i = 0; i < ZERO_SLOTS; i++) {
        int64_t full = 0;
        for (int k = i; k < f->z.n; k += ZERO_SLOTS)
            if (bucket_bytes(&f->z.buckets[k]) > full) full = bucket_bytes(&f->z.buckets[k]);
        assert_int_equal(s[i].full_bytes, full);
        assert_int_equal(s[i].shard_bytes, full / f->z.buckets[0].n_ranks);
        assert_int_equal((s[i].full - f->comm) % ARENA_ALIGN, 0);
        assert_int_equal((s[i].shard - f->comm) % ARENA_ALIGN, 0);
        assert_true(s[i].full + full <= s[i].shard);
    }
    assert_true(s[0].full == f->comm && s[0].shard + s[0].shard_bytes <= s[1].full);
    assert_int_equal(s[1].shard + s[1].shard_bytes - f->comm, zero_buckets_comm_bytes(&f->z));
}

TEST(test_zero_bucket_slots_hold_their_largest_bucket) {
    for (int n_ranks = 1; n_ranks <= 4; n_ranks++)
        for (int64_t limit = 1; limit < 20000; limit = limit * 4 + 50) {
            struct fixture f;
            assert_true(fixture_init(&f, n_ranks, 0, true, limit));
            check_slots(&f);
            fixture_fini(&f);
        }
}

/* ---- running ---- */
/* The gradient at the step's t-th GRAD_READY. Padding is zero, as in a run. */
static int gradient_of(int rank, int param, int element, int t) {
    return (element * 7 + param + 1) % 3 * (rank + 1) + t % 2;
}

static void add_gradient(const struct param *w, int param, int t, bool replace, void *buffer) {
    for (int e = 0; e < w->padded_n && replace; e++) dtype_set(buffer, w->grad_type.dtype, e, 0);
    for (int e = 0; e < SIZE[param]; e++)
        dtype_set(buffer, w->grad_type.dtype, e,
                  dtype_get(buffer, w->grad_type.dtype, e) + gradient_of(comm_world_rank(), param, e, t));
}

/* The step's t-th GRAD_READY. Stages 2 and 3 send a new whole gradient. Stage 1 adds to the gradient in the grad arena,
 * and sends it when it is final. The buffer is overwritten at once, so the bucket must have copied it. */
static enum status give(struct fixture *f, int param, int t, bool every, bool final, const struct group *group) {
    const struct param *w = &f->p.params[param];
    double fresh[MOST];
    void *buffer = every ? (void *)fresh : w->grad;
    add_gradient(w, param, t, every, buffer);
    if (!every && !final) return OK;
    enum status status = zero_buckets_ready(&f->z, &f->p, param, buffer, every, group);
    for (int e = 0; e < w->padded_n; e++) dtype_set(buffer, w->grad_type.dtype, e, NAN);
    return status;
}

static int64_t n_scatters(void) { return group_ledger(group_world())->entry[COMM_REDUCE_SCATTER].calls; }

/* How many buckets are complete after `at` gradients of the sequence. */
static int n_complete(const struct zero_buckets *z, int at) {
    int n = 0;
    while (n < z->n && z->buckets[n].first + z->buckets[n].n <= at) n++;
    return n;
}

struct outcome { bool ran, started_in_time, sums, wire; };

static void run_one_step(struct fixture *f, bool every, struct outcome *o) {
    int64_t before = n_scatters();
    for (int t = 0; t < MICROBATCHES * READY; t++) {
        bool final = t >= 11;                              /* 10: the tied param's first use in the last microbatch */
        o->ran = well(o->ran, give(f, ORDER[t % READY], t, every, final, group_world()));
        if (comm_world_size() > 1) o->started_in_time &= n_scatters() - before == n_complete(&f->z, f->z.at);
    }
    o->ran = well(o->ran, zero_buckets_finish(&f->z, &f->p, every));
}

/* This rank's own elements must be sums over all ranks and all GRAD_READY rows of the param. */
static bool own_sums_are_right(const struct fixture *f, int param) {
    const struct param *w = &f->p.params[param];
    int64_t at = w->grad_residence == RESIDENT_OWN ? 0 : w->own_first;
    for (int i = 0; i < w->own_n; i++) {
        int sum = 0;
        for (int t = 0; t < MICROBATCHES * READY; t++)
            for (int rank = 0; rank < comm_world_size() && ORDER[t % READY] == param; rank++)
                sum += gradient_of(rank, param, (int)w->own_first + i, t);
        if (dtype_get(w->grad, w->grad_type.dtype, at + i) != sum) return false;
    }
    return true;
}

/* The bytes that each rank sends, by the bill. */
static double wire_of(const struct zero_buckets *z) {
    const struct mesh_place place = mesh_place_of(&(struct mesh_sizes){.dp = z->buckets[0].n_ranks}, 0);
    struct bill bill = {0};
    zero_buckets_bill(z, &place, &bill);
    double bytes = bill.wire_bytes[AXIS_DP];
    bill_fini(&bill);
    return bytes;
}

static struct outcome run_steps(int64_t limit, bool every) {
    struct outcome o = {true, true, true, true};
    struct fixture f;
    o.ran = fixture_init(&f, comm_world_size(), comm_world_rank(), every, limit);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < N_PARAMS; i++) memset(f.p.params[i].grad, 0, (size_t)whole_bytes(&f.p.params[i]));
        group_ledger_reset(group_world());
        run_one_step(&f, every, &o);
        for (int i = 0; i < N_PARAMS; i++) o.sums &= i == ABSENT || own_sums_are_right(&f, i);
        double sent = group_ledger(group_world())->entry[COMM_REDUCE_SCATTER].bytes;
        o.wire &= sent == wire_of(&f.z);
    }
    fixture_fini(&f);
    return o;
}

static void check_runs(bool every) {
    for (int64_t limit = 1; limit < 20000; limit = limit * 4 + 50) {
        struct outcome o = run_steps(limit, every);
        bool ran = agree_all(o.ran), sums = agree_all(o.sums), in_time = agree_all(o.started_in_time),
             wire = agree_all(o.wire);
        assert_true(ran);
        assert_true(sums);
        assert_true(in_time);
        assert_true(wire);
    }
}

/* Both tests also check that a reduce-scatter starts with its bucket's last gradient, and the ledger's bytes. */
TEST(test_zero_bucket_sums_of_microbatches_land_at_their_owners) {
    check_runs(true);
}
TEST(test_zero_bucket_final_sums_land_at_their_owners) {
    check_runs(false);
}

/* A bucket has all shards 0 of its params, then all shards 1, ... */
TEST(test_zero_bucket_is_laid_out_rank_by_rank) {
    struct fixture f;
    bool right = fixture_init(&f, comm_world_size(), comm_world_rank(), true, 1 << 20);
    assert_true(right);
    assert_ok(give(&f, 0, 0, true, false, group_world()));
    assert_ok(give(&f, 9, 1, true, false, group_world()));           /* ends the bucket: the next dtype differs */
    const struct zero_bucket *b = &f.z.buckets[0];
    assert_int_equal(b->n, 2);
    for (int r = 0, at = 0; r < comm_world_size(); r++)
        for (int k = 0; k < 2; k++) {
            const struct param *w = &f.p.params[f.z.params[k]];
            for (int i = 0; i < w->shard_n; i++, at++) {
                int e = r * (int)w->shard_n + i,
                    value = e < SIZE[f.z.params[k]] ? gradient_of(comm_world_rank(), f.z.params[k], e, k) : 0;
                right &= dtype_get(f.z.slots[0].full, b->dtype, at) == value;
            }
        }
    bool arrived = comm_wait(&f.z.slots[0].request) == OK;
    fixture_fini(&f);
    assert_true(right);
    assert_true(arrived);
}

/* By hand: every GRAD_READY that counts sends the param's padded bytes (n-1)/n. */
TEST(test_zero_bucket_wire_is_its_formula) {
    for (int n = 1; n <= 8; n++) {
        struct fixture f;
        double every = 0, final = 0;
        assert_true(fixture_init(&f, n, 0, true, 600));
        for (int i = 0; i < N_PARAMS; i++) {
            double once = i == ABSENT ? 0 : (double)whole_bytes(&f.p.params[i]) * (n - 1) / n;
            every += MICROBATCHES * (i == TIED ? 2 : 1) * once;
            final += once;
        }
        assert_close(wire_of(&f.z), every, 1e-9);
        fixture_fini(&f);
        assert_true(fixture_init(&f, n, 0, false, 600));
        assert_close(wire_of(&f.z), final, 1e-9);
        fixture_fini(&f);
    }
}

/* ---- faults that must be reported ---- */
TEST(test_zero_bucket_refuses_another_order) {
    struct fixture f;
    double gradient[MOST] = {0};
    assert_true(fixture_init(&f, comm_world_size(), comm_world_rank(), true, 1 << 20));
    assert_ok(zero_buckets_ready(&f.z, &f.p, 0, gradient, true, group_world()));
    assert_fails(zero_buckets_ready(&f.z, &f.p, 8, gradient, true, group_world()), E_INTERNAL, "gradient 1", "w8",
                 "predicted");
    fixture_fini(&f);
}

/* After the end of the sequence no gradient is predicted, not even that of its first param. */
TEST(test_zero_bucket_refuses_a_gradient_too_many) {
    struct fixture f;
    double gradient[MOST] = {0};
    bool ran = fixture_init(&f, comm_world_size(), comm_world_rank(), false, 600);
    for (int i = 0; i < 9 && ran; i++)
        ran = well(ran, zero_buckets_ready(&f.z, &f.p, f.z.params[i], gradient, false, group_world()));
    int extra = zero_buckets_ready(&f.z, &f.p, f.z.params[0], gradient, false, group_world());
    status_clear();
    ran = well(ran, zero_buckets_finish(&f.z, &f.p, false));
    fixture_fini(&f);
    assert_true(ran);
    assert_int_equal(extra, E_INTERNAL);
}

TEST(test_zero_bucket_refuses_to_finish_unfinished) {
    struct fixture f;
    double gradient[MOST] = {0};
    assert_true(fixture_init(&f, comm_world_size(), comm_world_rank(), true, 1 << 20));
    assert_ok(zero_buckets_ready(&f.z, &f.p, 0, gradient, true, group_world()));
    assert_fails(zero_buckets_finish(&f.z, &f.p, true), E_INTERNAL, "1 gradients of 20", "end of backward");
    fixture_fini(&f);
}

TESTS(unit_test(test_zero_bucket_predicts_each_readiness_or_the_final_one),
      unit_test(test_zero_bucket_predicts_what_a_run_does), unit_test(test_zero_bucket_cuts_by_size_and_dtype),
      unit_test(test_zero_bucket_slots_hold_their_largest_bucket),
      unit_test(test_zero_bucket_sums_of_microbatches_land_at_their_owners),
      unit_test(test_zero_bucket_final_sums_land_at_their_owners), unit_test(test_zero_bucket_is_laid_out_rank_by_rank),
      unit_test(test_zero_bucket_wire_is_its_formula), unit_test(test_zero_bucket_refuses_another_order),
      unit_test(test_zero_bucket_refuses_a_gradient_too_many), unit_test(test_zero_bucket_refuses_to_finish_unfinished))
