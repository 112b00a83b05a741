/* ranks: 2  more: 1 4  device: any
 *
 * States (with zero 3 also weights) in a file: weights, moments, masters, losses and norms have the same bits as
 * without offload, in every layout and precision and through windows of many blocks. Measured bytes equal planned ones
 * in every tier, and the disk's traffic equals the bill. Checkpoints move to and from other layouts; a shortened file
 * ends the run in one line. States in host memory are tested, too: on a GPU their update uses the same window. */
#include "driver/recipe.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/comm/comm.h"
#include "lib/device/disk_private.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "zero/zero.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEPS = 3 };

/* order: the dimensions that get the world's factors of two, in this order. */
struct trial { const char *order; int zero, offload, precision, io; double window; int validate, to; };
static const struct trial TRIALS[] = {
    {"dtp", 1, OFFLOAD_OPTIMIZER, PRECISION_FP32, DISK_THREADS, 0.2, 0, OFFLOAD_TO_DISK},
    {"dpt", 2, OFFLOAD_OPTIMIZER, PRECISION_BF16, DISK_AUTO, 0.4, 0, OFFLOAD_TO_DISK},
    {"dtp", 3, OFFLOAD_OPTIMIZER, PRECISION_FP64, DISK_AUTO, 0.3, 0, OFFLOAD_TO_DISK},
    {"tpd", 1, OFFLOAD_OPTIMIZER, PRECISION_BF16, DISK_AUTO, 0.3, 0, OFFLOAD_TO_DISK},
    {"ptd", 2, OFFLOAD_OPTIMIZER, PRECISION_FP32, DISK_AUTO, 24, 0, OFFLOAD_TO_DISK},
    {"dpt", 3, OFFLOAD_PARAMS, PRECISION_BF16, DISK_AUTO, 0.4, 0, OFFLOAD_TO_DISK},
    {"dtp", 3, OFFLOAD_PARAMS, PRECISION_FP32, DISK_THREADS, 0.3, 0, OFFLOAD_TO_DISK},
    {"pdt", 1, OFFLOAD_OPTIMIZER, PRECISION_FP32, DISK_AUTO, 0.2, 1, OFFLOAD_TO_DISK},
    {"dtp", 2, OFFLOAD_OPTIMIZER, PRECISION_FP32, DISK_AUTO, 0.2, 0, OFFLOAD_TO_HOST},
    {"dtp", 3, OFFLOAD_PARAMS, PRECISION_BF16, DISK_AUTO, 0.2, 0, OFFLOAD_TO_HOST},
};
enum { N_TRIALS = sizeof TRIALS / sizeof *TRIALS };

static struct plan plan_of(const struct trial *t, bool offload) {
    struct plan p = parity_plan();
    struct offload_options *o = offload_options(&p);
    const char *next = t->order;
    for (int world = comm_world_size(); world > 1; world /= 2, next++)
        *(*next == 'd' ? &p.mesh.dp : *next == 't' ? &p.mesh.tp : &p.mesh.pp) *= 2;
    p.device = test_device()->kind == DEVICE_CUDA ? PLAN_DEVICE_CUDA : PLAN_DEVICE_CPU;
    p.precision = t->precision, p.micro_batch = 2, o->io = t->io, o->window = t->window;
    if (t->validate)
        p.micro_batch = 1, model_options(&p)->tie = 0, p.loss_chunk = 0, pp_options(&p)->schedule = SCHEDULE_ZB_H2;
    pp_options(&p)->optim_sync = t->validate;
    if (p.device == PLAN_DEVICE_CUDA) p.clip = 0;                    /* see same_numbers */
    plan_set_number(&p, "zero", t->zero);
    if (!offload) return p;
    zero_options(&p)->offload = t->offload, zero_options(&p)->offload_to = t->to;
    snprintf(o->path, sizeof o->path, "%s", test_path("offload"));
    mkdir(o->path, 0700);
    return p;
}

static enum status steps(struct run *r, int n, double *numbers) {
    for (int i = 0; i < n; i++) {
        TRY(run_step(r));
        numbers[2 * i] = r->last.loss, numbers[2 * i + 1] = r->last.grad_norm;
    }
    return OK;
}

/* ---- the same bits ---- */
static bool same_array(const struct run *a, enum tier ta, const void *x, const struct run *b, enum tier tb,
                       const void *y, int64_t bytes) {
    void *copy[2] = {malloc((size_t)bytes + 1), malloc((size_t)bytes + 1)};
    const struct device *da = run_tier_device(a, ta), *db = run_tier_device(b, tb);
    bool same = copy[0] && copy[1] && da->download(da, copy[0], x, bytes) == OK &&
                db->download(db, copy[1], y, bytes) == OK && memcmp(copy[0], copy[1], (size_t)bytes) == 0;
    free(copy[0]);
    free(copy[1]);
    return same;
}

static bool same_param(const struct run *a, const struct run *b, int i) {
    const struct param *w = &a->program.params[i], *v = &b->program.params[i];
    int64_t state = w->own_n * (int64_t)dtype_size(w->state_dtype);
    int64_t weight = w->own_n * (int64_t)dtype_size(w->type.dtype);   /* other elements come with the next forward */
    if (!param_is_stored(w)) return true;
    return same_array(a, w->weight_tier, param_own_weight(w), b, v->weight_tier, param_own_weight(v), weight) &&
           same_array(a, w->state_tier, param_state(w, 0), b, v->state_tier, param_state(v, 0), state) &&
           same_array(a, w->state_tier, param_state(w, 1), b, v->state_tier, param_state(v, 1), state) &&
           (!w->master || same_array(a, w->state_tier, param_master(w), b, v->state_tier, param_master(v), state));
}

/* A slow disk, so that a missing wait for it shows. */
static ssize_t slow_read(int fd, void *to, size_t bytes, off_t at) {
    usleep(500);
    return disk_system_calls.read(fd, to, bytes, at);
}
static ssize_t slow_write(int fd, const void *from, size_t bytes, off_t at) {
    usleep(15000);
    return disk_system_calls.write(fd, from, bytes, at);
}
static const struct disk_calls slow = {.read = slow_read, .write = slow_write};

/* Losses are equal to the bit; norms, too, on a CPU. On a GPU the host sums host memory's norms in another order. */
static bool same_numbers(const double a[2 * STEPS], const double b[2 * STEPS]) {
    double bound = test_device()->kind == DEVICE_CUDA ? 1e-14 : 0;
    bool same = true;
    for (int i = 0; i < STEPS; i++)
        same &= a[2 * i] == b[2 * i] && fabs(a[2 * i + 1] - b[2 * i + 1]) <= bound * fabs(a[2 * i + 1]);
    return same;
}

struct result { double numbers[2][2 * STEPS], memory, wire; bool same, traffic; int n_blocks, redone; };

static struct disk_traffic traffic_of(const struct run *r) {
    return r->disk ? disk_traffic(r->disk) : (struct disk_traffic){0};
}

static enum status compare(struct run r[2], const struct trial *t, struct result *x) {
    TRY(layout_open(&r[0], plan_of(t, false), WATCH_NOTHING));
    TRY(layout_open(&r[1], plan_of(t, true), WATCH_LIFETIMES));
    if (t->io == DISK_THREADS) r[1].disk->calls = &slow;
    struct disk_traffic before = traffic_of(&r[1]);
    TRY(steps(&r[0], STEPS, x->numbers[0]));
    TRY(steps(&r[1], STEPS, x->numbers[1]));
    struct disk_traffic after = traffic_of(&r[1]);
    x->n_blocks = r[1].blocks.n_blocks;
    x->redone = (int)r[1].n_redone;
    x->same = same_numbers(x->numbers[0], x->numbers[1]);
    for (int i = r[0].program.n_params; i-- > 0;)                    /* the last written is the first read */
        x->same &= same_param(&r[0], &r[1], i);
    /* a wrong guess copies back and forth and updates once more: not in the bill */
    x->traffic = t->validate || (after.read_bytes - before.read_bytes == STEPS * r[1].bill.disk_read_bytes &&
                                 after.written_bytes - before.written_bytes == STEPS * r[1].bill.disk_written_bytes &&
                                 (after.wait_s > before.wait_s) == (t->to == OFFLOAD_TO_DISK));
    struct difference d = {0};
    TRY(layout_compare_bytes(&r[1], STEPS, &d));
    x->memory = d.memory, x->wire = d.wire;
    return OK;
}

static bool check(const struct trial *t, int number) {
    struct run r[2] = {{.n_step = 0}, {.n_step = 0}};
    struct result x = {.same = false};
    enum status status = compare(r, t, &x);
    bool small = t->window > 1 || comm_world_size() > 2 || !r[1].blocks.bytes;
    bool many = small || x.n_blocks > OPTIM_SLOTS + 1;
    bool ok = agree_all(status == OK && x.same && x.traffic && many && x.memory == 0 && (t->validate || x.wire == 0) &&
                        x.redone == (t->validate ? STEPS : 0));
    if (!ok && comm_is_rank_0())
        fprintf(stderr, "trial %d: %s, same %d, traffic %d, %d blocks, %g B and wire %g off, redone %d\n", number,
                status_name(status), x.same, x.traffic, x.n_blocks, x.memory, x.wire, x.redone);
    status_report();
    for (int i = 0; i < 2; i++) run_destroy(&r[i]);
    return ok;
}

TEST(test_offload_to_disk_has_the_same_bits) {
    bool ok = true;
    for (int i = 0; i < N_TRIALS; i++) {
        bool for_cuda = comm_world_size() <= 2 && (i == 1 || i + 2 >= N_TRIALS);
        if (test_device()->kind == DEVICE_CUDA && !for_cuda) continue;
        ok &= check(&TRIALS[i], i);
    }
    assert_true(agree_all(ok));
}

/* ---- checkpoints ---- */
static void shared_path(const char *name, char path[CHECKPOINT_PATH_MAX]) {
    snprintf(path, CHECKPOINT_PATH_MAX, "%s", test_path(name));
    (void)comm_broadcast(group_world(), path, CHECKPOINT_PATH_MAX, UINT8, 0);
}

/* Train two steps, save (at once, or during the following steps), and record the following steps' numbers. */
static enum status train_and_save(struct plan p, const char *folder, bool async, double *numbers) {
    struct run r;
    struct checkpoint_saver *saver = NULL;
    struct checkpoint_saved saved;
    double first[4];
    plan_set_number(&p, "save-async", async);
    snprintf(p.save, sizeof p.save, "%s", folder);
    enum status status = layout_open(&r, p, WATCH_NOTHING);
    if (status == OK) status = steps(&r, 2, first);
    if (status == OK) status = async ? checkpoint_save_start(&r, folder, 0, &saver) : checkpoint_save(&r, folder, 0);
    if (status == OK) status = steps(&r, STEPS, numbers);
    if (status == OK && async) status = checkpoint_save_poll(&saver, true, &saved);
    checkpoint_save_abandon(&saver);
    run_destroy(&r);
    return status;
}

static enum status load_and_train(struct plan p, const char *folder, double *numbers) {
    char step[CHECKPOINT_PATH_MAX];
    struct run r;
    enum status status = layout_open(&r, p, WATCH_NOTHING);
    if (status == OK) status = checkpoint_resolve(folder, step);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
    if (status == OK) status = steps(&r, STEPS, numbers);
    run_destroy(&r);
    return status;
}

/* Load from a file's checkpoint into memory, and back: equal to the bit, because the layout is the same. */
TEST(test_offload_checkpoints_load_elsewhere_and_back) {
    static const int trials[] = {1, 5};
    bool ok = true;
    if (test_device()->kind == DEVICE_CUDA) skip();
    for (int i = 0; i < 2 && ok; i++)
        for (int from_disk = 0; from_disk < 2; from_disk++) {
            const struct trial *t = &TRIALS[trials[i]];
            char name[32], folder[CHECKPOINT_PATH_MAX];
            double expected[2 * STEPS], found[2 * STEPS];
            snprintf(name, sizeof name, "saved-%d-%d", i, from_disk);
            shared_path(name, folder);
            enum status status = train_and_save(plan_of(t, from_disk), folder, i, expected);
            if (status == OK) status = load_and_train(plan_of(t, !from_disk), folder, found);
            ok &= agree_all(status == OK && memcmp(found, expected, sizeof found) == 0);
            status_report();
        }
    assert_true(agree_all(ok));
}

/* ---- a refused step, and a file that is gone ---- */
static enum status poison(struct run *r, void *self, const struct event *e) {
    const struct param *w = &r->program.params[0];
    const float infinite = INFINITY;
    (void)self, (void)e;
    return w->present && w->own_n ? r->device->upload(r->device, param_own_grad(w), &infinite, sizeof infinite) : OK;
}

TEST(test_a_refused_step_touches_no_file) {
    struct run r;
    if (test_device()->kind == DEVICE_CUDA) skip();
    double numbers[2];
    enum status status = layout_open(&r, plan_of(&TRIALS[0], true), WATCH_NOTHING), refused = OK;
    if (status == OK) status = steps(&r, 1, numbers);
    if (status == OK) status = run_subscribe(&r, EVENT_GRAD_UNSCALE, poison, NULL);
    struct disk_traffic before = disk_traffic(r.disk);
    if (status == OK) refused = run_step(&r);
    struct disk_traffic after = disk_traffic(r.disk);
    bool ok = status == OK && refused == E_NUMERIC && before.read_bytes == after.read_bytes &&
              before.written_bytes == after.written_bytes;
    status_clear();
    run_destroy(&r);
    assert_true(agree_all(ok));
}

TEST(test_a_shortened_file_ends_the_run_in_one_line) {
    struct run r;
    double numbers[2];
    if (comm_world_size() > 1 || test_device()->kind == DEVICE_CUDA) skip();
    for (int io = DISK_AUTO; io <= DISK_THREADS; io += DISK_THREADS) {
        struct trial t = TRIALS[0];
        t.io = io;
        assert_ok(layout_open(&r, plan_of(&t, true), WATCH_NOTHING));
        assert_ok(steps(&r, 1, numbers));
        assert_int_equal(ftruncate(r.disk->fd, 8 * DISK_PAGE), 0);
        assert_fails(run_step(&r), E_IO, "offload file", "ends at", "--resume");
        run_destroy(&r);
    }
}

TESTS(unit_test(test_offload_to_disk_has_the_same_bits), unit_test(test_offload_checkpoints_load_elsewhere_and_back),
      unit_test(test_a_refused_step_touches_no_file), unit_test(test_a_shortened_file_ends_the_run_in_one_line))
