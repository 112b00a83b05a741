/* ranks: 1  device: cpu
 * Figures that talks on large-model training quote (tests/anchors/seed_figures.csv), computed by the project's own
 * functions. Every line of the file has a row in rows(), or an entry in HELD with the file that holds it. */
#include "driver/recipe.h"
#include "lib/cost/wire_time.h"
#include "planner/budget.h"
#include "planner/failure.h"
#include "planner/layout.h"
#include "planner/price.h"
#include "tests/test.h"
#include "zero/zero.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- wires: many ranks, one level, no latency ---- */
static double ring_s(double bytes, double bytes_per_s) {
    const struct cluster c = {.n_levels = 1, .level = {{"net", INT64_MAX, bytes_per_s, 0}}};
    return wire_seconds(&c, COMM_ALL_REDUCE, bytes, 1 << 20, 1, 1);
}
/* The part of a step that is work: 9.33 s of work, then 10 GB of gradients. */
static double scaling(double gbs) { return 9.33 / (9.33 + ring_s(10e9, gbs * 1e9)); }
/* The work that keeps a wire of 100 Gb/s busy for 0.4 of the time keeps one of 1 Gb/s busy nearly always. */
static double busy_at_1_gbit(void) {
    double fast = ring_s(1e9, 100e9 / 8), work = fast * (1 - 0.4) / 0.4, slow = ring_s(1e9, 1e9 / 8);
    return slow / (slow + work);
}

/* ---- memory ---- */
static double gb_per_rank(int zero) { return 7.5 * zero_bytes_per_param(zero, 64, 2, 2, 12); }

/* The largest power of two of sequences that fits a card of 16 GB with half a GiB of context. */
static double bert_batch(enum plan_precision precision) {
    double largest = 0;
    for (int64_t batch = 1; batch <= 64; batch *= 2) {
        struct plan p;
        struct run r;
        double bytes = 0.5 * 1073741824;
        assert_ok(recipe_plan(&p));
        assert_ok(recipe_arch(&p, "bert"));
        p.layers = 24, p.hidden = 1024, p.heads = 16, p.seq = 512, p.vocab = 30522, p.precision = precision;
        model_options(&p)->attention = ATTENTION_MATERIALISED;
        p.device = PLAN_DEVICE_CUDA, p.global_batch = p.micro_batch = batch;
        assert_ok(plan_settle(&p, 1));
        assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
        for (int role = 0; role < N_ROLES; role++) bytes += (double)r.memory.bytes[TIER_DEVICE][role];
        if (bytes <= 16e9) largest = (double)batch;
        run_destroy(&r);
    }
    return largest;
}

/* ---- a step's traffic, of a rank of 175B on 1024 ---- */
static double volume(enum mesh_axis axis) {
    struct plan p;
    struct run r;
    assert_ok(recipe_plan(&p));
    p.layers = 96, p.hidden = 12288, p.heads = 96, p.seq = 2048, p.vocab = 50257, p.device = PLAN_DEVICE_CUDA;
    p.precision = PRECISION_BF16, p.mesh.dp = 16, p.mesh.tp = 8, p.mesh.pp = 8, p.micro_batch = 1;
    p.global_batch = 1536;
    assert_ok(plan_settle(&p, 0));
    assert_ok(run_compile(&r, &train_recipe, &p, 512, NULL, NULL));
    double bytes = r.bill.wire_bytes[axis];
    run_destroy(&r);
    return bytes;
}

/* The number of dp groups in a mesh of 8 tp x 4 pp x 3 dp. */
static double groups_of_dp(void) {
    const struct mesh_sizes sizes = {.tp = 8, .pp = 4, .dp = 3};
    double n = 0;
    for (int rank = 0; rank < 96; rank++) {
        const struct mesh_place place = mesh_place_of(&sizes, rank);
        assert_int_equal(mesh_size(AXIS_DP, &place), 3);
        n += mesh_is_first(AXIS_DP, &place);
    }
    return n;
}

/* T_n / (n T): the speed of 8 replicas / 8 times that of one, if the wire takes no time. */
static double scale_factor(void) {
    static struct price x;
    struct cluster c;
    double speed[2];
    assert_ok(cluster_read("dgx-a100", &c));
    c.call_s = 0;
    for (int i = 0; i < c.n_levels; i++) c.level[i].alpha_s = 0, c.level[i].bytes_per_s = 1e30;
    for (int i = 0; i < 2; i++) {
        struct plan p;
        assert_ok(recipe_plan(&p));
        p.layers = 8, p.hidden = 1024, p.heads = 8, p.seq = 512, p.vocab = 4096;
        p.precision = PRECISION_BF16, p.device = PLAN_DEVICE_CUDA;
        p.mesh.dp = i ? 8 : 1, p.micro_batch = 4, p.global_batch = 4 * p.mesh.dp;
        assert_ok(plan_settle(&p, 0));
        assert_ok(price_plan(&train_recipe, &p, &c, NULL, &x));
        speed[i] = (double)p.global_batch / x.step_s;
    }
    return speed[1] / (8 * speed[0]);
}

/* ResNet-50 by its table of layers: stages of (3, 4, 6, 3) blocks of three convolutions, each with a batch norm. acts:
 * elements that the convolutions of one image of 224 x 224 return. */
static double resnet50(double *acts) {
    static const int blocks[4] = {3, 4, 6, 3};
    double params = 7 * 7 * 3 * 64 + 2 * 64 + 2048 * 1000 + 1000, in = 64;
    *acts = 112 * 112 * 64;
    for (int s = 0; s < 4; s++) {
        const double w = 64 << s, side = 56 >> s;
        for (int b = 0; b < blocks[s]; b++, in = 4 * w) {
            const double before = b == 0 && s > 0 ? 2 * side : side;   /* the 3 x 3 halves the image */
            params += in * w + 9 * w * w + 4 * w * w + 2 * (w + w + 4 * w) + (b == 0 ? in * 4 * w + 2 * 4 * w : 0);
            *acts += before * before * w + side * side * (w + 4 * w + (b == 0 ? 4 * w : 0));
        }
    }
    return params;
}

static double days(double flops, double peak, double mfu, double ranks) {
    const struct cluster c = {.n_levels = 1, .level = {{"node", 8, 1, 0}}};
    return budget_make(&c, &(struct budget_of){flops, peak, mfu, ranks, 0, 0, 0}).wall_s / 86400;
}

/* within: half of the last digit that is printed; 0: exactly. */
static const struct checked { const char *id; double off, within; } *rows(int *n) {
    static struct checked all[64];
    int k = 0;
#define ROW(id, computed, quoted, within) (all[k++] = (struct checked){id, (computed) - (quoted), within})
    ROW("allreduce_5GBs", scaling(5), 0.700, 5e-4);
    ROW("allreduce_5GBs", scaling(20), 0.903, 5e-4);
    ROW("bandwidth_use", busy_at_1_gbit(), 1.0, 0.02);
    ROW("gpt3_memory", 175e9 * zero_bytes_per_param(0, 1, 2, 2 + 4, 12), 3.5e12, 1);    /* 4: gradients in fp32, too */
    ROW("gpt3_memory", ceil(3.5e12 / 80e9), 44, 0);
    ROW("card_16gb", 16e9 / zero_bytes_per_param(0, 1, 4, 0, 4), 2.0e9, 0);
    ROW("zero_75", gb_per_rank(0), 120, 0);
    ROW("zero_75", gb_per_rank(1), 31.4, 0.05);
    ROW("zero_75", gb_per_rank(2), 16.6, 0.05);
    ROW("zero_75", gb_per_rank(3), 1.9, 0.05);
    ROW("llama70_memory", 70e9 * zero_bytes_per_param(0, 1, 2, 0, 0), 140e9, 1);
    ROW("llama70_memory", 70e9 * zero_bytes_per_param(0, 1, 0, 2, 0), 140e9, 1);
    ROW("llama70_memory", 70e9 * zero_bytes_per_param(0, 1, 0, 0, 12), 840e9, 1);
    ROW("opt176", 176e9 * zero_bytes_per_param(0, 1, 2, 2, 4), 1.4e12, 0.05e12);
    ROW("pangu200", 200e9 * 4 / 1073741824.0, 754, 10);                                   /* in GiB, of 200e9 rounded */
    ROW("pangu200", 200e9 * 17.5, 3500e9, 1);
    ROW("pangu200", ceil(3500.0 / 32), 110, 0);
    ROW("bert_large", bert_batch(PRECISION_FP16), 8, 0);
    ROW("bert_large", bert_batch(PRECISION_FP32), 4, 0);
    ROW("moe_dense_mlp", 2000. * 1024 + 1024 * 512 + 512 * 256 + 256, 2703616, 0);
    ROW("kv_cache", 2. * 80 * 8192 * 4096 * 8 * 2, 86e9, 0.5e9);
    ROW("kv_cache", 2. * 80 * 8192 * 4096 * 8 * 2 / 8, 10.7e9, 0.05e9);                  /* 8 key heads, not 64 */
    ROW("kv_cache", 80. * 8192 * 4096 * 8 * 2 / 1073741824, 40, 0);                      /* K or V alone, in GiB */
    ROW("act_inference", 8. * 4096 * 8192 * 2, 0.5e9, 0.05e9);
    ROW("six_nd", days(6 * 70e9 * 2e12, 312e12, 0.5, 1024) * 86400, 6 * 70e9 * 2e12 / (312e12 * 0.5 * 1024), 1e-3);
    ROW("megatron_34d", days(8 * 175e9 * 300e9, 312e12, 140. / 312, 1024), 34, 0.5);
    ROW("avail_1000", failure_of_any(1000, 1e-3), 0.63, 0.005);                          /* the talk says 60% */
    ROW("avail_1000", failure_of_any(8000, 1e-3), 0.9997, 5e-5);
    ROW("avail_1000", failure_of_any(8000, 1e-4), 0.55, 0.005);
    ROW("dlrover_day", failure_of_any(1000, 0.0027), 0.933, 5e-4);
    ROW("cards_4k", 4096 * (1. / 60), 68.3, 0.05);
    ROW("scale_factor", scale_factor(), 1, 0.01);
    ROW("mesh_96", groups_of_dp(), 32, 0);
    ROW("volumes", log10(volume(AXIS_TP)), 11.5, 0.5);                                    /* hundreds of GB */
    ROW("volumes", log10(volume(AXIS_DP)), 10, 1);                                        /* GB */
    ROW("volumes", log10(volume(AXIS_PP) / 192), 8, 1);                                   /* a message: MB */
    /* 100 days on 2000 GPUs are 30 on 8000 at 0.83 of the efficiency */
    ROW("days_175b", days(1e23, 1e14, 0.4, 2000) / days(1e23, 1e14, 0.4 * 0.8333, 8000), 100. / 30, 0.01);
    double acts = 0;
    ROW("resnet50", resnet50(&acts), 25557032, 0);
    ROW("resnet50", 256 * 2 * 4 * acts, 25e9, 2.5e9);    /* 256 images: each output, and its norm's, in fp32 */
    *n = k;
    return all;
}

/* Lines that other files hold, or that are no figures. */
static const struct held { const char *id, *by; } HELD[] = {
    {"pipeline_rounds", "pp/test_pp_rows.c"},       {"zero3_traffic", "zero/test_zero_wire.c"},
    {"wasted_time", "launch/test_stop.c"},           {"resnet_curve", "driver/compare/test_compare_page.c"},
};

static bool is_held(const char *id) {
    int n;
    const struct checked *r = rows(&n);
    for (int i = 0; i < n; i++)
        if (!strcmp(r[i].id, id)) return true;
    for (size_t i = 0; i < sizeof HELD / sizeof *HELD; i++)
        if (!strcmp(HELD[i].id, id)) {
            FILE *f = fopen(HELD[i].by, "r");
            if (f) fclose(f);
            return f != NULL;
        }
    return false;
}

TEST(test_quoted_figures) {
    int n, wrong = 0;
    const struct checked *r = rows(&n);
    for (int i = 0; i < n; i++)
        if (!(fabs(r[i].off) <= r[i].within)) wrong += printf("    row %d, %s, is off by %g\n", i, r[i].id, r[i].off);
    assert_int_equal(wrong, 0);
}

TEST(test_every_quoted_figure_is_held) {
    char line[1024];
    int n = 0;
    FILE *f = fopen("tests/anchors/seed_figures.csv", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#' || !strncmp(line, "id,", 3)) continue;
        line[strcspn(line, ",")] = 0;
        if (!is_held(line)) fail_msg("%s has no row here, and no test that holds it", line);
        n++;
    }
    fclose(f);
    assert_int_equal(n, 26);
}

TESTS(unit_test(test_quoted_figures), unit_test(test_every_quoted_figure_is_held))
