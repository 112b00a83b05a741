/* ranks: 1  device: cpu
 *
 * Predicted step times against published ones. ANCHORS=FILE appends every row to FILE. */
#include "driver/recipe.h"
#include "lib/base/sort.h"
#include "mixed_precision/mixed_precision.h"
#include "planner/price.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/test.h"
#include "tp/tp.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct printed { char name[16]; double cell[12]; };

/* Read a table's rows, without its comment and heading. A cell that is a word is the row's name. */
static int read_table(const char *file, struct printed *rows, int most) {
    char path[128], line[512];
    int n = 0;
    snprintf(path, sizeof path, "tests/anchors/%s.csv", file);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (bool heading = true; fgets(line, sizeof line, f) && n < most;) {
        if (*line == '#') continue;
        if (heading) {
            heading = false;
            continue;
        }
        int k = 0;
        for (char *cell = strtok(line, ",\n"); cell; cell = strtok(NULL, ",\n"), k++) {
            if (k == 0) snprintf(rows[n].name, sizeof rows[n].name, "%s", cell);
            rows[n].cell[k] = atof(cell);
        }
        n++;
    }
    fclose(f);
    return n;
}

static struct plan gpt(double layers, double hidden, double heads, int64_t seq, int64_t vocab) {
    struct plan p;
    assert_ok(recipe_plan(&p));
    snprintf(p.model, sizeof p.model, "anchor");
    p.layers = (int64_t)layers, p.hidden = (int64_t)hidden, p.heads = (int64_t)heads, p.seq = seq, p.vocab = vocab;
    p.precision = PRECISION_BF16, model_options(&p)->dropout = 0.1;
    mixed_precision_options(&p)->grad_fp32 = 1, model_options(&p)->dropout_masks = MASKS_STORE;   /* both stacks' */
    p.device = p.hidden / p.heads > 128 ? PLAN_DEVICE_CPU : PLAN_DEVICE_CUDA;   /* the kernels' limit */
    return p;
}

static struct cluster with_stack(const char *cluster, const char *stack) {
    struct cluster c;
    assert_ok(cluster_read(cluster, &c));
    assert_ok(stack_read(stack, &c));
    return c;
}

static struct plan korthikanti(const double *x, int sp, int recompute) {
    struct plan p = gpt(x[3], x[2], x[1], 2048, 51200);
    model_options(&p)->attention = ATTENTION_MATERIALISED;
    recompute_options(&p)->kind = recompute;
    plan_set_number(&p, "sp", sp);
    return p;
}

static double seconds_of(struct plan p, int64_t micro, int64_t batch, int tp, int pp, int gpus, int chunks,
                         const struct cluster *c, struct price *price) {
    p.mesh.tp = tp, p.mesh.pp = pp, p.mesh.dp = gpus / tp / pp, p.micro_batch = micro, p.global_batch = batch;
    pp_options(&p)->schedule = chunks > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B, pp_options(&p)->chunks = chunks;
    assert_ok(plan_settle(&p, gpus));
    assert_ok(price_plan(&train_recipe, &p, c, NULL, price));
    return price->step_s;
}

/* Seconds of a step: predicted, published, and of the model's arithmetic at the peak. full: full recomputation. */
struct anchor { double ours, theirs, ideal; bool full; };
struct anchors { int n; struct anchor at[32]; };
static void compare(struct anchors *e, const char *table, const char *name, double ours, double theirs, bool full,
                    const struct price *p) {
    e->at[e->n++] = (struct anchor){ours, theirs, p->mfu * p->step_s, full};
    FILE *f = getenv("ANCHORS") ? fopen(getenv("ANCHORS"), "a") : NULL;
    if (!f) return;
    fprintf(f, "%-6s %-8s %7.3f s, published %7.3f: %+5.1f%%  mfu %.1f%%  %.1f GB |", table, name, ours, theirs,
            100 * (ours / theirs - 1), 100 * p->mfu, (double)p->total_bytes / 1e9);
    for (int i = 0; i < N_PRICE_PHASES; i++)
        fprintf(f, " %s %.1f", price_phase_name((enum price_phase)i), 100 * p->phase_s[i] / p->step_s);
    fprintf(f, "\n");
    fclose(f);
}

/* sc21's rows, then two for each row of korthikanti (full; sp and selective), then mcore's. */
static struct anchors rows_of_all_tables(void) {
    struct printed rows[16];
    struct cluster a100, h100;
    struct anchors e = {0};
    struct price price;
    a100 = with_stack("dgx-a100", "megatron-2021");
    h100 = with_stack("dgx-h100", "megatron-core-tp-overlap");
    /* micro-batch and chunks: Megatron-LM, examples/sc21/run_table_1.sh */
    static const int MICRO[] = {16, 16, 16, 8, 4, 2, 2, 1, 1, 1}, CHUNKS[] = {1, 1, 1, 1, 1, 3, 2, 2, 3, 1};
    for (int i = 0, n = read_table("megatron_sc21_table1", rows, 16); i < n; i++) {
        const double *x = rows[i].cell;
        struct plan p = gpt(x[3], x[2], x[1], 2048, 51200);
        model_options(&p)->attention = ATTENTION_MATERIALISED;
        recompute_options(&p)->kind = RECOMPUTE_FULL;
        double flops = 96. * x[7] * 2048 * x[3] * x[2] * x[2] * (1 + 2048 / 6. / x[2] + 51200 / 16. / x[3] / x[2]);
        seconds_of(p, MICRO[i], (int64_t)x[7], (int)x[4], (int)x[5], (int)x[6], CHUNKS[i], &a100, &price);
        compare(&e, "sc21", rows[i].name, price.step_s, flops / x[6] / x[8] / 1e12, true, &price);
    }
    for (int i = 0, n = read_table("korthikanti", rows, 16); i < n; i++)
        for (int sp = 0; sp < 2; sp++) {
            const double *x = rows[i].cell;
            struct plan p = korthikanti(x, sp, sp ? RECOMPUTE_SELECTIVE : RECOMPUTE_FULL);
            int chunks = i == 1 || i == 2 ? 3 : 1;
            seconds_of(p, (int64_t)x[7], (int64_t)x[6], 8, (int)x[4], (int)x[5], chunks, &a100, &price);
            compare(&e, sp ? "sp" : "full", rows[i].name, price.step_s, x[sp ? 9 : 8], !sp,
                    &price);
        }
    for (int i = 0, n = read_table("megatron_core_h100", rows, 16); i < n; i++) {
        const double *x = rows[i].cell;
        struct plan p = gpt(x[3], x[2], x[1], 4096, 131072);
        model_options(&p)->tie = 0;
        plan_set_number(&p, "sp", x[4] > 1);
        plan_set_number(&p, "zero", 1);
        double best = INFINITY;
        struct price its = {0};
        for (int micro = 1; micro <= 4; micro *= 2)
            for (int v = 1; v <= x[3] / x[5]; v++) {
                int64_t m = (int64_t)(x[7] / (x[6] / x[4] / x[5])) / micro;
                if (m * micro * (x[6] / x[4] / x[5]) != x[7] || (v > 1 && x[5] == 1)) continue;
                if ((int)(x[3] / x[5]) % v || (v > 1 && m % (int)x[5])) continue;
                seconds_of(p, micro, (int64_t)x[7], (int)x[4], (int)x[5], (int)x[6], v, &h100, &price);
                if (price.fits && price.step_s < best) best = price.step_s, its = price;
            }
        double per = 2 * (4 * x[2] * x[2] + 8 * x[2] * x[2]) + 4. * 4096 * x[2];
        double flops = 3 * (x[3] * per + 2. * 131072 * x[2]) * x[7] * 4096;
        compare(&e, "mcore", rows[i].name, best, flops / x[6] / x[8] / 1e12, false, &its);
    }
    assert_int_equal(e.n, 27);
    return e;
}

/* What a layer keeps, with the stack's stored masks, is what Korthikanti et al. 2022, section 4, count: sbh/t (34 +
 * 5as/h) with tp and sp, and 34 sbh/t with selective recomputation. Statistics, which they leave out, are 16 s b / t of
 * layernorms, and 4 s b a / t of attention that is not replayed. */
TEST(test_activations_are_korthikanti_s) {
    struct printed rows[16];
    const struct cluster c = with_stack("dgx-a100", "megatron-2021");
    read_table("korthikanti", rows, 16);
    for (int kind = RECOMPUTE_NONE; kind <= RECOMPUTE_SELECTIVE; kind++) {
        const double *x = rows[0].cell, s = 2048, b = 4, h = x[2], a = x[1], t = 8;
        struct price price;
        double bytes[2];
        for (int i = 0; i < 2; i++) {
            struct plan p = korthikanti(x, 1, kind);
            p.layers = 4 + i;
            seconds_of(p, 4, 4, 8, 1, 8, 1, &c, &price);
            bytes[i] = (double)price.bytes[ROLE_ACT];
        }
        double theirs = s * b * h / t * (34 + (kind ? 0 : 5 * a * s / h));
        double statistics = s * b * (16 + (kind ? 0 : 4 * a)) / t;
        assert_close(bytes[1] - bytes[0], (theirs + statistics), 0.001 * theirs);
    }
}

/* All errors are within 14.0%, half of them within 3.3%, as README and planner/README.md say. */
TEST(test_published_step_times) {
    struct anchors rows = rows_of_all_tables();
    double errors[27];
    for (int i = 0; i < 27; i++) errors[i] = fabs(rows.at[i].ours / rows.at[i].theirs - 1);
    sort_doubles(errors, 27);
    assert_true(errors[26] < 0.1405);
    assert_true(errors[13] < 0.0335);
}

/* ---- against one constant ---- */
/* A model of one constant: step = model flops / (GPUs x peak x u), with u fitted to the same 27 rows (0.41).
 *   rows     its rms of log(predicted / published) is 0.162, the planner's is 0.050. With a third more flops for whole
 *            recomputation it is 0.099, because tuned runs then lie at 41 to 57% of the peak
 *   order    the MFU of 245 pairs of rows differs by more than a tenth; the planner orders 240 right, a constant none
 *   replay   published for four models, full recomputation takes 1.29 to 1.32 times as long as sp and selective; the
 *            planner predicts 1.35 to 1.40, a constant 1
 *   limits   without either none of the four fits an A100's memory, and with either all do
 *   bad ones layouts that fit, and that a constant rates like the published one, take 2.2 to 4.6 times as long by the
 *            planner. No published step time confirms these */
static double rms_of_constant(const struct anchors *a, double replay) {
    double u = 0, sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < a->n; i++) {
            double x = log(a->at[i].ideal * (a->at[i].full ? replay : 1) / a->at[i].theirs);
            if (pass == 0) u += x / a->n;
            else sum += (x - u) * (x - u);
        }
    return sqrt(sum / a->n);
}

static double rms_of_ours(const struct anchors *a) {
    double sum = 0;
    for (int i = 0; i < a->n; i++) sum += pow(log(a->at[i].ours / a->at[i].theirs), 2);
    return sqrt(sum / a->n);
}

TEST(test_rows_beside_one_constant) {
    struct anchors a = rows_of_all_tables();
    int pairs = 0, right = 0;
    assert_true(rms_of_constant(&a, 1) > 2.5 * rms_of_ours(&a));
    assert_true(rms_of_constant(&a, 4 / 3.0) > 1.5 * rms_of_ours(&a));
    for (int i = 0; i < a.n; i++)
        for (int k = 0; k < i; k++) {
            const struct anchor *x = &a.at[i], *y = &a.at[k];
            double theirs = log(x->ideal / x->theirs * y->theirs / y->ideal);
            if (fabs(theirs) < 0.1) continue;
            pairs++, right += theirs * log(x->ideal / x->ours * y->ours / y->ideal) > 0;
        }
    assert_true(pairs > 200 && right > 0.95 * pairs);
    for (int i = 10; i < 18; i += 2) {                               /* korthikanti's: full, then sp and selective */
        const struct anchor *full = &a.at[i], *other = &a.at[i + 1];
        assert_true(full->theirs > 1.25 * other->theirs && full->ours > 1.25 * other->ours);
        assert_close(full->ideal, other->ideal, 1e-9 * full->ideal);
    }
}

TEST(test_limits_beside_one_constant) {
    struct printed rows[16];
    const struct cluster c = with_stack("dgx-a100", "megatron-2021");
    struct price none, sp, full;
    for (int i = 0, n = read_table("korthikanti", rows, 16); i < n; i++) {
        const double *x = rows[i].cell;
        int64_t micro = (int64_t)x[7], batch = (int64_t)x[6];
        int pp = (int)x[4], gpus = (int)x[5], chunks = i == 1 || i == 2 ? 3 : 1;
        seconds_of(korthikanti(x, 0, RECOMPUTE_NONE), micro, batch, 8, pp, gpus, chunks, &c, &none);
        seconds_of(korthikanti(x, 1, RECOMPUTE_SELECTIVE), micro, batch, 8, pp, gpus, chunks, &c, &sp);
        seconds_of(korthikanti(x, 0, RECOMPUTE_FULL), micro, batch, 8, pp, gpus, chunks, &c, &full);
        assert_true(none.total_bytes > c.memory_bytes && sp.fits && full.fits);
    }
}

/* 175B on 64 GPUs: tp over four nodes; 4 and 2 microbatches for 8 stages; 8 for 32 stages. */
TEST(test_bad_layouts_beside_one_constant) {
    static const struct { int tp, pp, micro, chunks, recompute; } BAD[] = {
        {32, 2, 1, 3, RECOMPUTE_SELECTIVE}, {8, 8, 16, 1, RECOMPUTE_FULL}, {8, 8, 32, 1, RECOMPUTE_FULL},
        {2, 32, 4, 1, RECOMPUTE_FULL}};
    struct printed rows[16];
    const struct cluster c = with_stack("dgx-a100", "megatron-2021");
    struct price good, bad;
    read_table("korthikanti", rows, 16);
    const double *x = rows[1].cell;
    seconds_of(korthikanti(x, 1, RECOMPUTE_SELECTIVE), 1, 64, 8, 8, 64, 3, &c, &good);
    assert_close(good.step_s, x[9], 0.05 * x[9]);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        struct plan p = korthikanti(x, BAD[i].tp > 2, BAD[i].recompute);
        seconds_of(p, BAD[i].micro, 64, BAD[i].tp, BAD[i].pp, 64, BAD[i].chunks, &c, &bad);
        assert_true(bad.fits && bad.step_s > 2 * good.step_s);
        assert_close(bad.mfu * bad.step_s, good.mfu * good.step_s, 1e-9);
    }
}

TESTS(unit_test(test_activations_are_korthikanti_s), unit_test(test_published_step_times),
      unit_test(test_rows_beside_one_constant),
      unit_test(test_limits_beside_one_constant), unit_test(test_bad_layouts_beside_one_constant))
