/* ranks: 1  device: cpu */
#include "lib/cost/cluster.h"
#include "lib/cost/fit.h"
#include "lib/cost/op_time.h"
#include "lib/cost/wire_time.h"
#include "lib/ops/cost.h"
#include "tests/test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char GOOD[] = "memory-gib = 80\nmemory-gbs = 2000\ntflops-bf16 = 300\nnode-ranks = 8\nnode-gbs = 200\n";

static enum status read_text(const char *a, const char *b, struct cluster *c) {
    char path[] = "/tmp/trivium-cluster-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    fprintf(f, "%s%s", a, b);
    fclose(f);
    enum status status = cluster_read(path, c);
    unlink(path);
    return status;
}

TEST(test_presets_are_read_in_units_of_the_struct) {
    struct cluster c;
    assert_ok(cluster_read("dgx-a100", &c));
    assert_string_equal(c.name, "dgx-a100");
    assert_int_equal(c.memory_bytes, 79ll << 30);
    assert_close(c.flops_per_s[BF16], 312e12, 0);
    assert_close(c.memory_bytes_per_s, 2.039e12, 1);
    assert_int_equal(c.n_levels, 2);
    assert_int_equal(c.level[0].ranks, 8);
    assert_close(c.level[1].bytes_per_s, 20e9, 0);
    assert_close(c.level[1].alpha_s, 8e-6, 1e-18);
    assert_true(c.level[1].ranks == INT64_MAX);
    assert_close(c.mtbf_rank_s, 50676 * 3600., 0);
    assert_ok(cluster_read("dgx-h100", &c));
    assert_close(c.flops_per_s[FP8_E5M2], 1979e12, 0);
}

/* Every figure of a preset has a comment before it that names its source. */
TEST(test_every_figure_of_a_preset_has_a_source) {
    static const char *const PRESETS[] = {
        "configs/clusters/dgx-a100.ini", "configs/clusters/dgx-h100.ini",    "configs/clusters/dgx-h200.ini",
        "configs/clusters/dgx-b200.ini", "configs/clusters/gb200-nvl72.ini", "configs/clusters/a100-pcie.ini",
        "configs/clusters/rtx-4090.ini"};
    for (size_t i = 0; i < sizeof PRESETS / sizeof *PRESETS; i++) {
        struct cluster c;
        assert_ok(cluster_read(PRESETS[i], &c));
        char line[512], before = ' ';
        int n = 0;
        FILE *f = fopen(PRESETS[i], "r");
        assert_non_null(f);
        for (; fgets(line, sizeof line, f); before = line[0]) {
            if (line[0] == '#' || !strncmp(line, "name", 4)) continue;
            if (before != '#') print_error("%s: %s", PRESETS[i], line);
            assert_int_equal(before, '#');
            n++;
        }
        fclose(f);
        assert_true(n > 20);
    }
}

TEST(test_levels_are_any_number) {
    static const char WITHOUT[] = "memory-gib = 80\nmemory-gbs = 2000\ntflops-bf16 = 300\n";
    struct cluster c;
    assert_ok(read_text(WITHOUT, "levels = pair:2:400:1, node:8:200:2 pod:64:50:5, site:0:25:9\nrails = off\n", &c));
    assert_int_equal(c.n_levels, 4);
    assert_string_equal(c.level[2].name, "pod");
    assert_close(c.level[2].bytes_per_s, 50e9, 0);
    assert_close(c.level[3].alpha_s, 9e-6, 1e-18);
    assert_true(c.level[1].ranks == 8 && c.level[3].ranks == INT64_MAX && !c.rails);
    assert_fails(read_text(WITHOUT, "levels = node:8:200\n", &c), E_CONFIG, "\"node:8:200\" is not name:ranks:GB/s:us");
    assert_fails(read_text(WITHOUT, "levels = node:8:200:1, pod:12:9:1\n", &c), E_CONFIG, "pod-ranks=12");
    assert_fails(read_text(WITHOUT, "levels = a:1:9:1 b:2:9:1 c:4:9:1 d:8:9:1 e:16:9:1 f:32:9:1 g:64:9:1 h:128:9:1 "
                           "i:256:9:1\n", &c), E_CONFIG, "more than 8");
    assert_fails(read_text(GOOD, "levels = node:8:200:1\n", &c), E_CONFIG, "levels and node-gbs");
    assert_fails(read_text(GOOD, "rails = on\n", &c), E_CONFIG, "rails=on, and 1 of three levels");
    assert_ok(cluster_read("gb200-nvl72", &c));
    assert_true(c.n_levels == 3 && c.rails && c.level[0].ranks == 72);
}

TEST(test_curve_goes_through_its_points) {
    struct cluster c;
    assert_ok(read_text(GOOD, "node-curve = 16:0.1, 64:0.4, 256:0.8\n", &c));
    const struct curve *curve = &c.level[0].part_by_size;
    assert_close(curve_at(curve, 1), 0.1, 0);
    assert_close(curve_at(curve, 32), 0.2, 1e-15);                   /* half way, in logarithms */
    assert_close(curve_at(curve, 64), 0.4, 1e-15);
    assert_close(curve_at(curve, 1e9), 0.8, 0);
    assert_close(curve_at(&(struct curve){0}, 3), 1, 0);
}

TEST(test_speeds_of_ops) {
    struct cluster c;
    assert_ok(read_text(GOOD, "op-gbs = gelu:8.1, adamw:34 rope:5\n", &c));
    assert_int_equal(c.n_movers, 3);
    assert_string_equal(c.mover[1].name, "adamw");
    assert_close(c.mover[1].bytes_per_s, 34e9, 1e-3);
}

TEST(test_cluster_refuses) {
    struct cluster c;
    assert_fails(cluster_read("no-such", &c), E_DATA, "called no-such",
                 "use one of a100-pcie, cpu-2core, dgx-a100, dgx-b200, dgx-h100, dgx-h200, gb200-nvl72, "
                 "rtx-4090 (",
                 "./no-such.ini");
    assert_fails(read_text(GOOD, "node-gb = 3\n", &c), E_USAGE, "node-gb", "node-gbs");
    assert_fails(read_text(GOOD, "node-gbs = 3\n", &c), E_FORMAT, "set on line 5 already");
    assert_fails(read_text(GOOD, "stream-part = 1.5\n", &c), E_USAGE, "stream-part", "1.5");
    assert_fails(read_text(GOOD, "net-us = 5\n", &c), E_CONFIG, "net-gbs is not", "give its speed");
    assert_fails(read_text(GOOD, "rack-ranks = 12\nrack-gbs = 3\n", &c), E_CONFIG, "rack-ranks=12",
                 "multiple of node-ranks=8");
    assert_fails(read_text("memory-gib = 8\nmemory-gbs = 9\ntflops-bf16 = 3\nnode-gbs = 9\n", "net-gbs = 1\n", &c),
                 E_CONFIG, "node has all ranks", "give node-ranks");
    assert_fails(read_text("memory-gib = 8\nmemory-gbs = 9\ntflops-bf16 = 3\n", "", &c), E_CONFIG, "give node-gbs");
    assert_fails(read_text("memory-gib = 8\nmemory-gbs = 9\nnode-gbs = 3\n", "", &c), E_CONFIG, "no peak");
    assert_fails(read_text("tflops-bf16 = 8\nmemory-gbs = 9\nnode-gbs = 3\n", "", &c), E_CONFIG, "memory-gib=0");
    assert_fails(read_text(GOOD, "reserve-gib = 80\n", &c), E_CONFIG, "reserve-gib=80", "memory-gib=80");
    assert_fails(read_text(GOOD, "node-curve = 16:0.1 8:0.4\n", &c), E_CONFIG, "node-curve", "8 follows 16");
    assert_fails(read_text(GOOD, "node-curve = 16:0.1 x\n", &c), E_CONFIG, "\"x\" is not bytes:part");
    assert_fails(read_text(GOOD, "net-curve = 16:0.1\n", &c), E_CONFIG, "net-gbs is not");
    assert_fails(read_text(GOOD, "op-gbs = gelu:3 adamw\n", &c), E_CONFIG, "\"adamw\" is not op:speed");
    assert_fails(read_text(GOOD, "op-gbs = gelu:0\n", &c), E_CONFIG, "\"gelu:0\"", "1e-6");
    char many[256] = "op-gbs =";
    for (int i = 0; i <= MAX_MOVERS; i++) snprintf(many + strlen(many), sizeof many - strlen(many), " op:1");
    assert_fails(read_text(GOOD, many, &c), E_CONFIG, "more than 32 ops");
}

/* ---- stacks ---- */
static const char *const STACKS[] = {"megatron-2021", "megatron-core", "megatron-core-tp-overlap", "deepspeed",
                                     "torchtitan", "nanotron"};
enum { N_STACKS = sizeof STACKS / sizeof *STACKS };

/* Figures of a line of a section: a list of products has one for each cluster. */
static int figures_of(const char *line) {
    int colons = 0;
    for (const char *c = line; *c; c++) colons += *c == ':';
    return colons ? colons : 1;
}

/* Each key has a comment before it or before the key before it, and a section at most three fitted figures. */
TEST(test_every_key_of_a_stack_has_a_source) {
    char line[512], comment[1024] = "", section[64] = "";
    int fitted = 0, sections = 0, keys = 0;
    FILE *f = fopen("configs/stacks.ini", "r");
    assert_non_null(f);
    for (bool after_comment = false; fgets(line, sizeof line, f); after_comment = line[0] == '#') {
        if (line[0] == '#') {
            if (!after_comment) comment[0] = 0;
            strncat(comment, line, sizeof comment - strlen(comment) - 1);
        } else if (line[0] == '[') {
            assert_int_equal(sscanf(line, "[%63[a-z0-9-]]", section), 1);
            assert_true(sections < N_STACKS);
            assert_string_equal(section, STACKS[sections++]);
            fitted = 0, comment[0] = 0;
        } else if (strchr(line, '=')) {
            if (!strncmp(line, "base", 4)) continue;
            if (!*comment) fail_msg("[%s] has no source of %s", section, line);
            if (strstr(comment, "fitted") && !strstr(comment, "not fitted")) fitted += figures_of(line);
            if (fitted > 3) fail_msg("[%s] has more than three fitted figures", section);
            keys++;
        }
    }
    fclose(f);
    assert_true(sections == N_STACKS && keys > 40);
}

TEST(test_a_stack_changes_a_cluster) {
    struct cluster ours, c;
    assert_ok(cluster_read("dgx-a100", &ours));
    c = ours;
    assert_ok(stack_read("trivium", &c));
    assert_memory_equal(&c, &ours, sizeof c);
    for (int i = 0; i < N_STACKS; i++) {
        assert_ok(cluster_read("dgx-a100", &c));
        assert_ok(stack_read(STACKS[i], &c));
        assert_string_equal(c.stack.name, STACKS[i]);
    }
    assert_ok(cluster_read("dgx-b200", &c));
    assert_ok(stack_read("megatron-core-tp-overlap", &c));           /* what a section has not is its base's */
    assert_true(c.stack.tp_hidden_part == 0.95 && c.stack.buckets && c.product_part < ours.product_part);
    assert_ok(cluster_read("dgx-b200", &c));
    assert_ok(stack_read("configs/stacks.ini:megatron-core", &c));
    assert_true(c.stack.tp_hidden_part == 0 && c.reserve_bytes == (int64_t)(2.5 * 1073741824));
    assert_ok(cluster_read("dgx-b200", &c));
    cluster_limit_memory(&c, 1 << 30);                               /* a limit is all for what is counted */
    assert_ok(stack_read("megatron-core", &c));
    assert_true(c.reserve_bytes == 0 && c.memory_bytes == 1 << 30);
}

static enum status read_stack(const char *text) {
    char path[] = "/tmp/trivium-stack-XXXXXX", name[64];
    struct cluster c;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    assert_ok(cluster_read("dgx-a100", &c));
    snprintf(name, sizeof name, "%s:mine", path);
    enum status status = stack_read(name, &c);
    unlink(path);
    return status;
}

TEST(test_stack_refuses) {
    struct cluster c;
    assert_ok(cluster_read("dgx-a100", &c));
    assert_fails(stack_read("megatron", &c), E_DATA, "has no [megatron]", "use one of megatron-2021, megatron-core,");
    assert_fails(stack_read("a-name-that-is-much-longer-than-any", &c), E_DATA, "at most 31");
    assert_ok(read_stack("[other]\nno-key = 3\n[mine]\nmoves = 2\n"));
    assert_fails(read_stack("[mine]\nmove = 2\n"), E_USAGE, "move", "moves");
    assert_fails(read_stack("[other]\nmoves = 2\n"), E_DATA, "has no [mine]; use one of other");
    assert_fails(read_stack("[mine]\nproducts = dgx-a100:2\n"), E_FORMAT, "\"dgx-a100:2\"", "1e-6 to 1");
    assert_fails(read_stack("[mine]\nbase = a\n[a]\nbase = b\n"), E_CONFIG, "its base a has a base", "name b");
    assert_ok(cluster_read("cpu-2core", &c));
    assert_fails(stack_read("deepspeed", &c), E_CONFIG, "share cores", "--cluster dgx-a100");
}

enum { MAX_TIMED = 64 };

static struct cluster core(void) {
    return (struct cluster){.flops_per_s = {[FP32] = 1e11}, .product_part = 0.8, .product_m0 = 5, .product_n0 = 9,
                            .product_k0 = 20, .launch_s = 3e-6, .memory_bytes_per_s = 2e10, .stream_part = 1,
                            .attention_forward_part = 1, .attention_backward_part = 1, .n_levels = 1,
                            .level = {{"node", INT64_MAX, 7e9, 4e-6, {0}}}};
}

static int all_products(const struct cluster *c, struct timed_product *out) {
    int n = 0;
    for (int64_t m = 32; m <= 1024; m *= 4)
        for (int64_t columns = 32; columns <= 1024; columns *= 4)
            for (int64_t k = 32; k <= 1024; k *= 4) {
                struct cost cost = {0};
                cost_product(&cost, m, columns, k, 1);
                out[n++] = (struct timed_product){{m, columns, k, 1},
                                                  op_seconds(c, "linear", FP32, &cost, ROW_FORWARD).total};
            }
    return n;
}

/* The fit to times that the model computed gives the model's constants back. */
TEST(test_products_give_the_constants_back) {
    struct cluster c = core(), found = {.name = ""};
    struct timed_product p[MAX_TIMED];
    int n = all_products(&c, p);
    assert_close(fit_products(p, n, 1e11, &found), 0, 1e-9);
    assert_close(found.product_part, c.product_part, 1e-7);
    assert_close(found.product_m0, c.product_m0, 1e-5);
    assert_close(found.product_n0, c.product_n0, 1e-5);
    assert_close(found.product_k0, c.product_k0, 1e-5);
    assert_close(found.launch_s, c.launch_s, 1e-12);
}

/* With scattered times, the sum of the predicted times is still the sum of the measured times. */
TEST(test_the_sum_is_right) {
    struct cluster c = core(), found = {.flops_per_s = {[FP32] = 1e11}};
    struct timed_product p[MAX_TIMED];
    int n = all_products(&c, p);
    double measured_s = 0, predicted_s = 0;
    for (int i = 0; i < n; i++) p[i].seconds *= i % 3 ? 1 : 2;
    fit_products(p, n, 1e11, &found);
    for (int i = 0; i < n; i++) {
        struct cost cost = {0};
        cost_product(&cost, p[i].product.m, p[i].product.n, p[i].product.k, 1);
        found.memory_bytes_per_s = found.stream_part = 1;
        predicted_s += op_seconds(&found, "linear", FP32, &cost, ROW_FORWARD).total;
        measured_s += p[i].seconds;
    }
    assert_close(predicted_s, measured_s, 1e-9 * measured_s);
}

/* A constant that would be negative becomes 0, and the others are the best fit without it. */
TEST(test_none_is_negative) {
    const double known[][2] = {{1, 1}, {2, 1}, {4, 1}}, seconds[] = {0.5, 1.5, 3.5};     /* t = x - 0.5 */
    double x[2];
    fit_relative(*known, seconds, 3, 2, x);
    assert_close(x[1], 0, 0);
    double slope = (1 / 0.5 + 2 / 1.5 + 4 / 3.5) / (1 / 0.25 + 4 / 2.25 + 16 / 12.25);
    assert_close(x[0], slope, 1e-12);
}

TEST(test_rates_leave_the_launch_out) {
    const double bytes[] = {1e4, 1e5, 1e6};
    double seconds[3], rate;
    for (int i = 0; i < 3; i++) seconds[i] = bytes[i] / 8e9 + 3e-6;
    assert_close(fit_rate(bytes, seconds, 3, 3e-6, &rate), 0, 1e-12);
    assert_close(rate, 8e9, 1);
    assert_true(isnan(fit_rate(bytes, seconds, 0, 3e-6, &rate)));
    assert_close(rate, 0, 0);
    /* the time is shorter than a launch, so there is no rate */
    fit_rate(bytes, seconds, 1, 1, &rate);
    assert_close(rate, 0, 0);
}

TEST(test_wires_give_the_level_back) {
    static const enum comm_op OPS[] = {COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_SEND};
    struct cluster c = core(), found = c;
    struct timed_wire w[MAX_TIMED];
    int n = 0;
    for (int i = 0; i < 3; i++)
        for (double bytes = 1024; bytes < 1e7; bytes *= 4)
            w[n++] = (struct timed_wire){OPS[i], bytes, wire_seconds(&c, OPS[i], bytes, 2, 1, 1)};
    found.level[0] = (struct level){.alpha_s = 0};
    fit_wires(w, n, 2, &found.level[0]);
    assert_close(found.level[0].bytes_per_s, 7e9, 10);
    assert_close(found.level[0].alpha_s, 4e-6, 1e-12);
    for (int i = 0; i < found.level[0].part_by_size.n; i++) assert_close(found.level[0].part_by_size.is[i], 1, 1e-8);
    assert_int_equal(found.level[0].part_by_size.n, 5);
}

static struct cluster gpu(void) {
    struct cluster c;
    assert_ok(cluster_read("dgx-a100", &c));
    c.product_part = 0.79, c.stream_part = 0.672;                    /* the file's fitted values may change */
    return c;
}
static struct cost product_of(int64_t m, int64_t n, int64_t k, int64_t batch, double bytes) {
    struct cost c = {.bytes = bytes};
    cost_product(&c, m, n, k, batch);
    return c;
}

/* 108 tiles of 256 x 128 fill every processor once. One more row begins a second wave with one tile. */
TEST(test_tiles_and_waves) {
    struct cluster c = gpu();
    c.product_k0 = 0, c.product_part = 1;
    assert_close(product_efficiency(&c, &(struct matmul){108 * 256, 128, 64, 1}), 1, 1e-15);
    assert_close(product_efficiency(&c, &(struct matmul){256, 128, 64, 108}), 1, 1e-15);
    double more = product_efficiency(&c, &(struct matmul){108 * 256 + 1, 128, 64, 1});
    assert_true(more < 0.96 && more > 0.5);
    /* a matrix half as wide as the tile: the narrower tile is slower, but the matrix covers all of it */
    assert_close(product_efficiency(&c, &(struct matmul){108 * 128, 64, 64, 1}), 0.82, 1e-15);
    assert_true(product_efficiency(&c, &(struct matmul){256, 32, 64, 1}) < 0.02);
    c.product_k0 = 128;
    assert_close(product_efficiency(&c, &(struct matmul){256, 128, 128, 108}), 0.5, 1e-15);
}

TEST(test_a_row_takes_the_longer_of_its_two_times) {
    struct cluster c = gpu();
    const struct matmul p = {4096, 4096, 4096, 1};
    struct cost cost = product_of(p.m, p.n, p.k, p.batch, 3. * 4096 * 4096 * 2);
    struct seconds s = op_seconds(&c, "linear", BF16, &cost, ROW_FORWARD);
    assert_close(s.compute, 2. * 4096 * 4096 * 4096 / (312e12 * product_efficiency(&c, &p)), 1e-12);
    assert_close(s.memory, 3. * 4096 * 4096 * 2 / (2039e9 * 0.672), 1e-12);
    assert_close(s.total, s.compute + 5e-6, 1e-15);
    cost = (struct cost){.bytes = 1e9};
    s = op_seconds(&c, "linear", BF16, &cost, ROW_FORWARD);
    assert_close(s.total, s.memory + 5e-6, 0);
    assert_close(op_seconds(&c, "linear", BF16, &(struct cost){0}, ROW_FORWARD).total, 0, 0);
}

/* Blocked attention has its own fraction of the peak, and the blocks that it skips take no time. */
TEST(test_attention_by_tiles) {
    struct cluster c = gpu();
    struct cost cost = {.flops = 4e12, .left_out = 2e12};
    assert_close(op_seconds(&c, "linear", BF16, &cost, ROW_FORWARD).compute, 2e12 / (0.55 * 312e12), 1e-12);
    assert_close(op_seconds(&c, "linear", BF16, &cost, ROW_BACKWARD_INPUT).compute, 2e12 / (0.45 * 312e12), 1e-12);
}

/* The time of several products is the sum of their times. */
TEST(test_products_add_up) {
    struct cluster c = gpu();
    struct cost two = product_of(512, 512, 64, 8, 0), one = two, other = product_of(512, 64, 512, 8, 0);
    cost_product(&two, 512, 64, 512, 8);
    double sum = op_seconds(&c, "linear", BF16, &one, ROW_FORWARD).compute +
                 op_seconds(&c, "linear", BF16, &other, ROW_FORWARD).compute;
    assert_close(op_seconds(&c, "linear", BF16, &two, ROW_FORWARD).compute, sum, 1e-18);
}

/* Without tiles, a product of m = 64 rows reaches half of product_part if m0 is 64. Delays of n and k add up. */
TEST(test_short_sides_take_longer) {
    struct cluster c = gpu();
    c.tile_units = 0, c.product_part = 0.8, c.product_m0 = 64, c.product_n0 = 16, c.product_k0 = 0;
    assert_close(product_efficiency(&c, &(struct matmul){64, 1 << 30, 512, 1}), 0.4, 1e-7);
    assert_close(product_efficiency(&c, &(struct matmul){64, 8, 512, 1}), 0.8 / (1 + 1 + 2), 1e-15);
    c.product_k0 = 512;
    assert_close(product_efficiency(&c, &(struct matmul){64, 8, 512, 1}), 0.8 / (1 + 1 + 2 + 1), 1e-15);
}

/* An op that op-gbs names has its own speed. Other ops have the stream speed. */
TEST(test_an_op_may_have_its_own_speed) {
    struct cluster c = gpu();
    c.mover[0] = (struct mover){"gelu", 1e9}, c.n_movers = 1;
    const struct cost moved = {.bytes = 2e9};
    assert_close(op_seconds(&c, "gelu", FP32, &moved, ROW_FORWARD).memory, 2, 1e-15);
    assert_close(op_seconds(&c, "gelu2", FP32, &moved, ROW_FORWARD).memory, 2e9 / (2039e9 * 0.672), 1e-12);
}

TESTS(unit_test(test_every_key_of_a_stack_has_a_source), unit_test(test_a_stack_changes_a_cluster),
      unit_test(test_stack_refuses), unit_test(test_presets_are_read_in_units_of_the_struct),
      unit_test(test_every_figure_of_a_preset_has_a_source), unit_test(test_levels_are_any_number),
      unit_test(test_curve_goes_through_its_points), unit_test(test_speeds_of_ops), unit_test(test_cluster_refuses),
      unit_test(test_products_give_the_constants_back), unit_test(test_the_sum_is_right),
      unit_test(test_none_is_negative), unit_test(test_rates_leave_the_launch_out),
      unit_test(test_wires_give_the_level_back), unit_test(test_tiles_and_waves),
      unit_test(test_a_row_takes_the_longer_of_its_two_times), unit_test(test_attention_by_tiles),
      unit_test(test_products_add_up), unit_test(test_short_sides_take_longer),
      unit_test(test_an_op_may_have_its_own_speed))
