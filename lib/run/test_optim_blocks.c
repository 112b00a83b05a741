/* ranks: 1
 *
 * The update in blocks. Every own element of every offloaded param is in exactly one part; the arrays of a block do not
 * overlap, and lie inside the slot. For every window, a step reads and writes the bytes of the formula. */
#include "driver/recipe.h"
#include "lib/device/arena.h"
#include "lib/device/disk.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "zero/zero.h"
#include <stdio.h>
#include <stdlib.h>
#include "lib/comm/comm.h"
#include "lib/comm/hops/comm_rules.h"
#include "lib/run/sent.h"

static struct plan disk_plan(int precision, int offload, double window) {
    struct plan p = parity_plan();
    struct offload_options *o = offload_options(&p);
    p.precision = precision, p.mesh.dp = 2, p.micro_batch = 2, o->window = window;
    snprintf(o->path, sizeof o->path, "/tmp");
    *zero_options(&p) = (struct zero_options){.stage = 3, .offload = offload, .offload_to = OFFLOAD_TO_DISK};
    return p;
}

static void compile(struct run *r, struct plan p, int device) {
    p.device = device;
    assert_ok(plan_settle(&p, 2));
    p.device = device;
    assert_ok(run_compile(r, &train_recipe, &p, 1, NULL, NULL));
}

/* Each part begins where the param's previous part ended. */
static void check_every_element_once(const struct run *r) {
    int64_t *next = calloc((size_t)r->program.n_params, sizeof *next);
    assert_non_null(next);
    for (int i = 0; i < r->blocks.n_parts; i++) {
        const struct block_part *part = &r->blocks.parts[i];
        assert_int_equal(part->first, next[part->param]);
        assert_true(part->n > 0);
        next[part->param] += part->n;
    }
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        assert_int_equal(next[i], optim_is_offloaded(&r->program, w) ? w->own_n : 0);
    }
    free(next);
}

static void check_slots(const struct run *r) {
    const struct optim_blocks *o = &r->blocks;
    int64_t most = 0;
    for (int b = 0; b < o->n_blocks; b++) {
        char *used = calloc(1, (size_t)o->slot_bytes);
        assert_non_null(used);
        for (int i = o->blocks[b].first_part; i < o->blocks[b].first_part + o->blocks[b].n_parts; i++)
            for (enum fixed_array a = 0; a < N_FIXED_ARRAYS; a++) {
                const struct param *w = &r->program.params[o->parts[i].param];
                int64_t bytes = o->parts[i].n * (int64_t)dtype_size(w->arrays[a].dtype);
                if (o->parts[i].at[a] < 0) continue;
                assert_int_equal(o->parts[i].at[a] % DISK_PAGE, 0);
                if (w->arrays[a].tier == TIER_DISK) bytes = round_up(bytes, DISK_PAGE);
                assert_true(o->parts[i].at[a] + bytes <= o->slot_bytes);
                most = max64(most, b % OPTIM_SLOTS * o->slot_bytes + o->parts[i].at[a] + bytes);
                for (int64_t k = 0; k < bytes; k++) assert_int_equal(used[o->parts[i].at[a] + k]++, 0);
            }
        free(used);
    }
    assert_int_equal(o->bytes, most);
    assert_int_equal(r->memory.bytes[TIER_HOST][ROLE_WORK], most);
    assert_true(o->slot_bytes * OPTIM_SLOTS <= (int64_t)(offload_options(&r->plan)->window * (1 << 20)));
}

/* A file holds m and v, with bf16 weights also a master, and with `params` also weights. Weights that are rounded
 * masters are not read. */
static void check_formula(const struct run *r, int64_t weight_size, bool master, bool params) {
    int64_t read = 0, written = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!param_is_stored(w) || w->own_n == 0) continue;
        int64_t state = round_up(w->own_n * (weight_size == 8 ? 8 : 4), DISK_PAGE);
        int64_t weight = params ? round_up(w->own_n * weight_size, DISK_PAGE) : 0;
        read += (master ? 3 : 2) * state + (master ? 0 : weight);
        written += (master ? 3 : 2) * state + weight;
    }
    assert_int_equal(r->blocks.read_bytes, read);
    assert_int_equal(r->blocks.written_bytes, written);
    assert_int_equal(r->bill.disk_written_bytes, written);
    assert_true(params ? r->bill.disk_read_bytes > read : r->bill.disk_read_bytes == read);
}

TEST(test_blocks_cover_every_element_once) {
    static const double windows[] = {0.4, 0.7, 3, 24};
    static const struct { int precision; int64_t size; bool master; } kinds[] = {
        {PRECISION_FP64, 8, false}, {PRECISION_FP32, 4, false}, {PRECISION_BF16, 2, true}};
    for (int k = 0; k < 3; k++)
        for (int offload = OFFLOAD_OPTIMIZER; offload <= OFFLOAD_PARAMS; offload++)
            for (int i = 0; i < 4; i++)
                for (int device = PLAN_DEVICE_CPU; device <= PLAN_DEVICE_CUDA; device++) {
                    struct run r;
                    if (device == PLAN_DEVICE_CUDA && kinds[k].precision == PRECISION_FP64) continue;
                    compile(&r, disk_plan(kinds[k].precision, offload, windows[i]), device);
                    assert_true(i > 0 || r.blocks.n_blocks > OPTIM_SLOTS);
                    check_every_element_once(&r);
                    check_slots(&r);
                    check_formula(&r, kinds[k].size, kinds[k].master, offload == OFFLOAD_PARAMS);
                    run_destroy(&r);
                }
}

/* On a CPU, AdamW updates states in host memory in place, without slots. On a GPU, gradients and weights use slots. */
TEST(test_blocks_of_the_host_tier) {
    for (int device = PLAN_DEVICE_CPU; device <= PLAN_DEVICE_CUDA; device++) {
        struct plan p = disk_plan(PRECISION_BF16, OFFLOAD_OPTIMIZER, 0.7);
        struct run r;
        zero_options(&p)->offload_to = OFFLOAD_TO_HOST;
        compile(&r, p, device);
        assert_int_equal(r.blocks.n_blocks > 0, device == PLAN_DEVICE_CUDA);
        assert_int_equal(r.blocks.read_bytes + r.blocks.written_bytes, 0);
        if (r.blocks.n_blocks) check_every_element_once(&r), check_slots(&r);
        run_destroy(&r);
    }
}

TEST(test_blocks_refuse_a_window_that_holds_none) {
    struct plan p = disk_plan(PRECISION_FP64, OFFLOAD_PARAMS, 0.06);
    struct run r;
    p.device = PLAN_DEVICE_CPU;
    assert_ok(plan_settle(&p, 2));
    assert_fails(run_compile(&r, &train_recipe, &p, 1, NULL, NULL), E_CONFIG, "2048 elements", "--offload-window");
    run_destroy(&r);
}

/* The messages and bytes of exchanges, counted by hand: pieces, times, nodes, the library. (The parity tests
 * compare the counts with real runs: tests/layouts.c.) */

static struct sent sent_of(const char *algorithm, const struct exchange *x) {
    struct sent_rules rules = {.nodes = {2, false}};
    const struct mesh_sizes four_replicas = {.dp = 4, .tp = 1, .cp = 1, .pp = 1};
    struct sent sent;
    assert_ok(comm_rules_parse(algorithm, rules.rule));
    assert_ok(sent_by_exchange(&rules, &four_replicas, 1, x, &sent));
    return sent;
}

/* Rank 1 is the last rank of its node, so all its messages to rank 2 leave the node: 2 (n-1) messages of a quarter. */
TEST(test_pieces_and_times_are_counted) {
    struct exchange x = {.axis = AXIS_DP, .op = COMM_ALL_REDUCE, .count = 3 * 1600, .dtype = FP32, .pieces = 3,
                         .times = 2};
    struct sent sent = sent_of("ring", &x);
    assert_string_equal(sent.algorithm, "ring");
    assert_int_equal(sent.operations, 6);
    assert_int_equal(sent.count.messages[0], 0);
    assert_int_equal(sent.count.messages[1], 6 * 6);
    assert_int_equal(sent.count.bytes[1], 6 * 6 * 400 * 4);
    x.count++;                                              /* one piece of 1601: 416 + 416 + 416 + 353 */
    sent = sent_of("ring", &x);
    assert_int_equal(sent.operations, 6);
    assert_int_equal(sent.count.messages[1], 6 * 6);
    assert_int_equal(sent.count.bytes[1], 4 * 6 * 400 * 4 + 2 * 2 * (416 + 353 + 416) * 4);
}

/* The count of a gather is of the whole. Rank 1 sends to rank 0 inside its node, and to ranks 2 and 3 outside. */
TEST(test_parts_go_inside_and_between) {
    struct sent sent = sent_of("pairwise", &(struct exchange){.axis = AXIS_DP, .op = COMM_ALL_GATHER, .count = 400,
                                                              .dtype = FP64});
    assert_int_equal(sent.count.messages[0], 1);
    assert_int_equal(sent.count.messages[1], 2);
    assert_int_equal(sent.count.bytes[0], 800);
    assert_int_equal(sent.count.bytes[1], 1600);
}

/* The library carries small operations, and its messages are unknown. A group of one rank sends nothing. A build
 * without MPI has no library. */
TEST(test_the_library_does_not_say) {
    if (!comm_has_mpi()) skip();
    struct exchange x = {.axis = AXIS_DP, .op = COMM_ALL_REDUCE, .count = 100, .dtype = FP32};
    struct sent sent = sent_of("auto", &x);
    assert_string_equal(sent.algorithm, "library");
    assert_close(sent.library_bytes, 2 * 400 * 3. / 4, 0);
    assert_int_equal(sent.count.messages[0] + sent.count.messages[1], 0);
    x.axis = AXIS_TP;
    sent = sent_of("ring", &x);
    assert_int_equal(sent.count.messages[0] + sent.count.messages[1], 0);
}

static int64_t memory_of(const char *algorithm, struct exchange *x, int n) {
    struct sent_rules rules = {.nodes = {2, false}};
    const struct mesh_sizes four_replicas = {.dp = 4, .tp = 1, .cp = 1, .pp = 1};
    const struct bill bill = {.exchanges = x, .n_exchanges = n};
    int64_t bytes[N_MESH_AXES];
    assert_ok(comm_rules_parse(algorithm, rules.rule));
    assert_ok(sent_memory(&rules, &four_replicas, 1, &bill, bytes));
    assert_int_equal(bytes[AXIS_TP], 0);
    return bytes[AXIS_DP];
}

/* An all-reduce of 1600 elements takes two buffers of 1600 bytes. A large one takes two segments, for up to eight at a
 * time. A ring's reduce-scatter takes a copy of 8 MiB and two segments. */
TEST(test_memory_is_that_of_a_full_line) {
    struct exchange x[] = {
        {.axis = AXIS_DP, .op = COMM_ALL_REDUCE, .count = 1600, .dtype = FP32, .times = 3},
        {.axis = AXIS_DP, .op = COMM_ALL_GATHER, .count = 1600, .dtype = FP32},
        {.axis = AXIS_DP, .op = COMM_ALL_REDUCE, .count = 1 << 20, .dtype = FP32, .times = 100},
        {.axis = AXIS_DP, .op = COMM_REDUCE_SCATTER, .count = 2 << 20, .dtype = FP32, .times = 2},
    };
    assert_int_equal(memory_of("pairwise", x, 2), 3 * 2 * 1600);
    assert_int_equal(memory_of("pairwise", x, 3), 4 << 20);
    assert_int_equal(memory_of("ring", x, 4), (8 << 20) + 2 * (256 << 10));
}

TESTS(unit_test(test_blocks_cover_every_element_once), unit_test(test_blocks_of_the_host_tier),
      unit_test(test_blocks_refuse_a_window_that_holds_none), unit_test(test_memory_is_that_of_a_full_line),
      unit_test(test_pieces_and_times_are_counted), unit_test(test_parts_go_inside_and_between),
      unit_test(test_the_library_does_not_say))
