/* ranks: 1 2 4  more: 8  device: cpu  threads: 1
 *
 * Tables in host memory or in a file, with a cache of some rows. Losses, norms, tables and optimizer states have the
 * same bits as without a cache. Cache sizes go from the rows of one step to all rows; trials vary sharding,
 * microbatches, late updates, evaluations in between and checkpoints. Planned bytes equal measured bytes in every tier,
 * and the disk moves the bytes that the cache counts. In some trials the disk is slow, so that a missing wait shows. */
#include "driver/recipe.h"
#include "emb/emb.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/data/clicks.h"
#include "lib/device/disk_private.h"
#include "lib/rows/learned_rows.h"
#include "models/dlrm/dlrm.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FEATURES = 8, BAG = 3, ROWS = 200, BATCH = 16, STEPS = 6, SIZES = 3, PAGE_ROW = DISK_PAGE / sizeof(double) };

struct trial { const char *arch; int by, micro, delay, zero, store, hidden, io; double window; };
static const struct trial TRIALS[] = {
    {"dlrm", EMB_BY_TABLE, 0, 0, 0, EMB_IN_HOST, 6, DISK_AUTO, 24},
    {"dlrm", EMB_BY_ROW, 1, 2, 1, EMB_IN_HOST, 6, DISK_AUTO, 24},
    {"dlrm", EMB_BY_TABLE, 1, 0, 0, EMB_ON_DISK, 6, DISK_THREADS, 24},
    {"wide-deep", EMB_BY_ROW, 0, 0, 2, EMB_ON_DISK, 6, DISK_AUTO, 0.1},
    {"dlrm", EMB_BY_TABLE, 0, 3, 0, EMB_ON_DISK, 8, DISK_THREADS, 0.15},
    {"dlrm", EMB_BY_ROW, 1, 1, 3, EMB_ON_DISK, 6, DISK_AUTO, 24},
    {"dlrm", EMB_BY_TABLE, 0, 0, 0, EMB_ON_DISK, PAGE_ROW, DISK_AUTO, 24},
};
enum { N_TRIALS = sizeof TRIALS / sizeof *TRIALS };

/* The same clicks for all tests of this process. */
static const struct data_file *clicks(void) {
    static struct data_file *file;
    double best;
    if (file) return file;
    assert_ok(clicks_synth(test_path("clicks"), &(struct clicks_layout){3, FEATURES, BAG, ROWS, 0}, 600, 7, &best));
    assert_ok(data_open(test_path("clicks"), &file));
    return file;
}

static struct plan plan_of(const struct trial *t, int64_t cache) {
    struct plan p;
    struct offload_options *o = offload_options(&p);
    assert_ok(recipe_plan(&p));
    assert_ok(recipe_arch(&p, t->arch));
    *dlrm_options(&p) = (struct dlrm_options){.features = FEATURES, .bag = BAG, .dense = 3, .emb_lr = 0.05};
    snprintf(dlrm_options(&p)->top, sizeof dlrm_options(&p)->top, "9");
    p.layers = p.heads = p.seq = 1;
    p.hidden = t->hidden, p.vocab = ROWS, p.global_batch = BATCH, p.micro_batch = t->micro, p.steps = 20;
    p.clip = 0.05, p.precision = PRECISION_FP64, p.device = PLAN_DEVICE_CPU;
    o->io = t->io, o->window = t->window;
    *emb_options(&p) = (struct emb_options){.by = t->by, .delay = t->delay, .cache = cache};
    if (cache) emb_options(&p)->store = t->store;
    plan_set_number(&p, "zero", t->zero);
    snprintf(o->path, sizeof o->path, "%s", test_path("offload"));
    mkdir(o->path, 0700);
    return p;
}

/* ---- a slow disk ---- */
static ssize_t slow_read(int fd, void *to, size_t bytes, off_t at) {
    usleep(100);
    return disk_system_calls.read(fd, to, bytes, at);
}
static ssize_t slow_write(int fd, const void *from, size_t bytes, off_t at) {
    usleep(1000);
    return disk_system_calls.write(fd, from, bytes, at);
}
static const struct disk_calls slow = {.read = slow_read, .write = slow_write};

static enum status open_run(struct run *r, struct plan p, enum run_watch watch) {
    struct data_split train, val;
    memset(r, 0, sizeof *r);
    TRY(plan_settle(&p, comm_world_size()));
    TRY(run_create(r, &train_recipe, &p, watch));
    TRY(clicks_split(clicks(), 0.1, &train, &val));
    run_set_data(r, &train, &val);
    if (r->disk && offload_options(&p)->io == DISK_THREADS) r->disk->calls = &slow;
    return OK;
}

/* ---- the same bits ---- */
static void hash(uint64_t *h, const void *bytes, int64_t n) {        /* FNV-1a */
    for (int64_t i = 0; i < n; i++) *h = (*h ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
}

static enum status hash_weights(const struct run *r, uint64_t *h) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        const struct device *device = run_tier_device(r, w->weight_tier);
        int64_t bytes = w->own_n * (int64_t)dtype_size(w->type.dtype);
        void *own = malloc((size_t)bytes + 1);
        enum status status = own ? device->download(device, own, param_own_weight(w), bytes) : E_MEMORY;
        if (status == OK) hash(h, own, bytes);
        free(own);
        TRY(status);
    }
    return OK;
}

static enum status steps(struct run *r, int n, uint64_t *h) {
    for (int i = 0; i < n; i++) {
        TRY(run_step(r));
        hash(h, &r->last.loss, sizeof r->last.loss);
        hash(h, &r->last.grad_norm, sizeof r->last.grad_norm);
    }
    return OK;
}

static enum status begin_hash(struct run *r, int n, uint64_t *h) {
    *h = 1469598103934665603u;
    TRY(steps(r, n, h));
    return run_emit(r, EVENT_STATE_READ);
}

/* Hash the losses and norms of all steps, and the final weights. */
static enum status train(struct run *r, uint64_t *h) {
    TRY(begin_hash(r, STEPS, h));
    return hash_weights(r, h);
}

/* The smallest legal cache, three quarters of the way to all rows of a rank, and all rows. The same on every rank. */
static int64_t cache_size(const struct trial *t, int i) {
    int64_t rows = FEATURES * ROWS / comm_world_size(), ids = BATCH * FEATURES * BAG;
    if (t->by == EMB_BY_TABLE) ids /= comm_world_size();
    int64_t least = ids < rows ? ids : rows;
    return (int64_t[SIZES]){least, rows - (rows - least) / 4, rows}[i];
}

/* If a row fills a page, the disk's traffic equals the cache's counts to the byte. A write first reads its page. */
static bool traffic_is_told(const struct run *r, const struct trial *t, struct disk_traffic before) {
    struct hot_traffic rows = learned_rows_traffic(r);
    struct disk_traffic now = r->disk ? disk_traffic(r->disk) : before;
    int64_t read = now.read_bytes - before.read_bytes, written = now.written_bytes - before.written_bytes;
    if (rows.fetched == 0 || rows.written == 0 || rows.ahead == 0 || rows.ahead >= rows.fetched) return false;
    if (t->store == EMB_IN_HOST) return read == 0 && written == 0;
    if (t->hidden != PAGE_ROW) return written > 0 && read >= written && written % DISK_PAGE == 0;
    return read == (rows.fetched + rows.written) * DISK_PAGE && written == rows.written * DISK_PAGE;
}

static bool has_same_bits(const struct trial *t, int64_t cache, uint64_t expected) {
    struct run r;
    struct difference d = {0};
    struct disk_traffic before = {0};
    uint64_t found = 0;
    bool told = false;
    enum status status = open_run(&r, plan_of(t, cache), WATCH_LIFETIMES);
    if (status == OK && r.disk) before = disk_traffic(r.disk);
    if (status == OK) status = begin_hash(&r, STEPS, &found);
    if (status == OK) told = traffic_is_told(&r, t, before);
    if (status == OK) status = hash_weights(&r, &found);
    if (status == OK) status = layout_compare_bytes(&r, STEPS, &d);
    run_destroy(&r);
    status_report();
    bool ok = status == OK && found == expected && told && d.memory == 0 && d.wire < 1e-12;
    if (!ok) fprintf(stderr, "trial %d, cache %d: %s, same %d, reported %d, %g B and wire %g off\n", (int)(t - TRIALS),
                     (int)cache, status_name(status), found == expected, told, d.memory, d.wire);
    return agree_all(ok);
}

/* Trials that also run on more than two ranks. Two ranks are enough to test the disk. */
static bool is_for_many(int trial) { return trial == 0 || trial == 1 || trial == 3; }

TEST(test_tables_in_a_cache_have_the_same_bits) {
    bool ok = true;
    for (const struct trial *t = TRIALS; t < TRIALS + N_TRIALS; t++) {
        struct run r;
        if (comm_world_size() > 2 && !is_for_many((int)(t - TRIALS))) continue;
        uint64_t expected = 0;
        enum status status = open_run(&r, plan_of(t, 0), WATCH_NOTHING);
        if (status == OK) status = train(&r, &expected);
        run_destroy(&r);
        status_report();
        ok = agree_all(ok && status == OK);
        int stride = comm_world_size() > 2 ? 2 : 1;
        for (int i = 0; i < SIZES && ok; i += stride) ok = has_same_bits(t, cache_size(t, i), expected);
    }
    assert_true(ok);
}

/* ---- evaluation ---- */
/* Evaluation reads rows that no step has named, and takes slots of the cache for them. */
static enum status evaluate_between(struct run *r, uint64_t *h) {
    *h = 1469598103934665603u;
    for (int i = 0; i < 3; i++) {
        struct evaluated out;
        TRY(steps(r, 2, h));
        TRY(run_evaluate_until(r, 0, NULL, NULL, &out));
        hash(h, &out.loss, sizeof out.loss);
        hash(h, &out.auc, sizeof out.auc);
    }
    TRY(run_emit(r, EVENT_STATE_READ));
    return hash_weights(r, h);
}

TEST(test_evaluation_leaves_the_cache_right) {
    bool ok = true;
    for (int i = 1; i < 4; i += 2) {
        uint64_t bits[2] = {0};
        for (int k = 0; k < 2 && ok; k++) {
            struct run r;
            enum status status = open_run(&r, plan_of(&TRIALS[i], k ? cache_size(&TRIALS[i], 0) : 0), WATCH_NOTHING);
            if (status == OK) status = evaluate_between(&r, &bits[k]);
            run_destroy(&r);
            status_report();
            ok = agree_all(status == OK);
        }
        ok = agree_all(ok && bits[0] == bits[1]);
    }
    assert_true(ok);
}

/* ---- checkpoints ---- */
/* Three steps, a checkpoint, and STEPS more, of which *h is the hash. */
static enum status save(const struct trial *t, int64_t cache, const char *folder, uint64_t *h) {
    struct run r;
    uint64_t first = 0;
    enum status status = open_run(&r, plan_of(t, cache), WATCH_NOTHING);
    if (status == OK) status = steps(&r, 3, &first);
    if (status == OK) status = checkpoint_save(&r, folder, 0);
    if (status == OK) status = train(&r, h);
    run_destroy(&r);
    return status;
}

/* Load the checkpoint into a run whose cache has rows from four other steps; then run STEPS steps. */
static enum status load(const struct trial *t, int64_t cache, const char *folder, uint64_t *h) {
    struct run r;
    char step[CHECKPOINT_PATH_MAX];
    uint64_t first = 0;
    enum status status = open_run(&r, plan_of(t, cache), WATCH_NOTHING);
    if (status == OK) status = steps(&r, 4, &first);
    if (status == OK) status = checkpoint_resolve(folder, step);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
    if (status == OK) status = train(&r, h);
    run_destroy(&r);
    return status;
}

TEST(test_checkpoints_go_in_and_out_of_the_cache) {
    bool ok = true;
    for (int i = 1; i < 4; i++)
        for (int k = 0; k < 3 && ok; k++) {                          /* saved from a cache; loaded into one; both */
            const struct trial *t = &TRIALS[i];
            uint64_t expected = 0, found = 1;
            char folder[CHECKPOINT_PATH_MAX], name[32];
            if (comm_world_size() > 2 && !is_for_many(i)) continue;
            snprintf(name, sizeof name, "saved-%d-%d", i, k);
            snprintf(folder, sizeof folder, "%s", test_path(name));
            enum status status = comm_broadcast(group_world(), folder, sizeof folder, UINT8, 0);
            if (status == OK) status = save(t, k == 1 ? 0 : cache_size(t, 1), folder, &expected);
            if (agree_all(status == OK)) status = load(t, k == 0 ? 0 : cache_size(t, 0), folder, &found);
            status_report();
            ok = agree_all(status == OK && found == expected);
            if (!ok) fprintf(stderr, "trial %d, %d: %s\n", i, k, status_name(status));
        }
    assert_true(ok);
}

/* ---- a table larger than memory ---- */
static enum status train_within(double limit, int64_t cache, uint64_t *h) {
    struct run r;
    struct plan p = plan_of(&TRIALS[N_TRIALS - 1], cache);
    p.memory_limit = limit;
    enum status status = open_run(&r, p, WATCH_NOTHING);
    if (status == OK) status = train(&r, h);
    run_destroy(&r);
    return status;
}

/* The tables have 6.25 MiB over all ranks. */
TEST(test_a_table_larger_than_memory_trains_from_disk) {
    double limit = comm_world_size() == 1 ? 6 : comm_world_size() == 2 ? 4 : comm_world_size() == 4 ? 2 : 1;
    uint64_t here = 0, cached = 1;
    enum status status = train_within(0, 0, &here), refused = OK;
    if (status == OK) refused = train_within(limit, 0, &cached);
    status_clear();
    if (status == OK) status = train_within(limit, cache_size(&TRIALS[N_TRIALS - 1], 0), &cached);
    status_report();
    assert_true(agree_all(status == OK && refused == E_MEMORY && here == cached));
}

/* ---- refusals ---- */
static void refused(struct plan p, const char *what, const char *remedy) {
    struct run r;
    assert_ok(plan_settle(&p, 0));
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, what, remedy);
    run_destroy(&r);
}

TEST(test_emb_cache_refuses) {
    struct plan p = plan_of(&TRIALS[0], BATCH * FEATURES * BAG - 1);
    p.mesh.dp = 1;
    refused(p, "emb-cache=383 rows, and a step can name 384 rows", "use emb-cache 384");
    p = plan_of(&TRIALS[2], 0);
    emb_options(&p)->store = EMB_ON_DISK;
    refused(p, "emb-store=disk, and emb-cache=0", "give emb-cache");
    p = plan_of(&TRIALS[2], 400);
    offload_options(&p)->path[0] = 0;
    refused(p, "needs a folder", "give --offload-path");
    p = plan_of(&TRIALS[2], 400);
    p.hidden = 4 * PAGE_ROW, offload_options(&p)->window = 0.02;
    refused(p, "offload-window=0.02 MiB", "use offload-window 0.032");
    p = plan_of(&TRIALS[0], 0);
    assert_ok(recipe_arch(&p, "gpt"));
    p.hidden = 8, emb_options(&p)->cache = 1;
    refused(p, "arch=gpt has none", "leave");
}

TESTS(unit_test(test_tables_in_a_cache_have_the_same_bits), unit_test(test_evaluation_leaves_the_cache_right),
      unit_test(test_checkpoints_go_in_and_out_of_the_cache),
      unit_test(test_a_table_larger_than_memory_trains_from_disk), unit_test(test_emb_cache_refuses))
