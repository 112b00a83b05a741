/* ranks: 1  device: cpu
 *
 * The table of a profile. Every row's time must be in exactly one line, the right one, with the program's names; the
 * rates must be right, and the times of a real step must add up. */
#include "driver/recipe.h"
#include "lib/base/clock.h"
#include "lib/run/profile.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct line { char op[32], of[48], rate[32]; int n; double forward, input, weight, all, share, predicted; };
enum { MAX_LINES = 64 };
struct table { struct line op[MAX_LINES], step[MAX_LINES]; int n_ops, n_steps; double optimizer, rest; char *text; };

/* Read the columns by their position in the line. */
static bool read_line(const char *text, struct line *l) {
    char name[3][48] = {"", "", ""};
    memset(l, 0, sizeof *l);
    memcpy(name[0], text, 22), memcpy(name[1], text + 23, 18);
    sscanf(name[0], "%31s", l->op);
    sscanf(name[1], "%47[^\n]", l->of);
    while (*l->of && l->of[strlen(l->of) - 1] == ' ') l->of[strlen(l->of) - 1] = '\0';
    int end = 0, n = sscanf(text + 41, "%d %lf %lf %lf %lf %lf%% %n", &l->n, &l->forward, &l->input, &l->weight,
                            &l->all, &l->share, &end);
    sscanf(text + 41 + end, "%15[0-9.] %15[a-zA-Z/] %lf", l->rate, l->rate + 16, &l->predicted);
    return n == 6;
}

/* An operation's line names its step if it has only one; otherwise the lines below it name the steps. */
static struct table table_of(const struct run *r, int64_t steps, double step_s, const struct profile_forecast *f) {
    struct table t = {.n_ops = 0};
    size_t size;
    FILE *to = open_memstream(&t.text, &size);
    profile_print(r, steps, step_s, f, to);
    fclose(to);
    for (const char *at = strchr(t.text, '\n') + 1; *at; at = strchr(at, '\n') + 1) {
        struct line l;
        if (sscanf(at, "optimizer %lf", &t.optimizer) == 1) continue;
        if (sscanf(at, "waiting and the rest %lf", &t.rest) == 1) continue;
        assert_true(read_line(at, &l) && t.n_ops < MAX_LINES && t.n_steps < MAX_LINES);
        if (*l.op) t.op[t.n_ops++] = l;
        else snprintf(l.op, sizeof l.op, "%s", t.op[t.n_ops - 1].op);
        if (*l.of) t.step[t.n_steps++] = l;
    }
    return t;
}

static const struct line *step_named(const struct table *t, const char *of) {
    for (int i = 0; i < t->n_steps; i++)
        if (strcmp(t->step[i].of, of) == 0) return &t->step[i];
    fail_msg("no line of %s in\n%s", of, t->text);
    return NULL;
}

/* ---- artificial times ---- */
static double made_up_ms(int step, int kind) { return step + 1 + 0.125 * kind; }

static void compile(struct run *r, struct plan *p, int rank) {
    assert_ok(plan_settle(p, (int)p->mesh.pp));
    assert_ok(run_compile(r, &train_recipe, p, rank, NULL, NULL));
    r->exec.step_seconds = calloc((size_t)r->program.n_steps, sizeof *r->exec.step_seconds);
    r->update_s = 0.25;
    for (int i = 0; i < r->program.n_steps; i++)
        for (int k = 0; k < ROW_WAIT; k++) r->exec.step_seconds[i][k] = 1e-3 * made_up_ms(i, k);
}

static void release(struct run *r, struct table *t) {
    free(t->text);
    free(r->exec.step_seconds);
    r->exec.step_seconds = NULL;
    run_destroy(r);
}

/* Check a line against all steps whose slot has its ending: ".qkv" for "h*.qkv", the whole name for "head.loss". */
static void check_step(const struct run *r, const struct line *l, double *total_ms) {
    double forward = 0, input = 0, weight = 0;
    int n = 0;
    for (int i = 0; i < r->program.n_steps; i++) {
        const struct step *s = &r->program.steps[i];
        const char *slot = r->program.slots[s->out[0]].name, *star = strchr(l->of, '*');
        size_t before = star ? (size_t)(star - l->of) : 0;
        bool same = star ? strncmp(slot, l->of, before) == 0 && strchr("0123456789", slot[before]) &&
                               strcmp(strchr(slot, '.'), star + 1) == 0
                         : strcmp(slot, l->of) == 0;
        if (!same || strcmp(s->op->name, l->op) != 0) continue;
        forward += made_up_ms(i, ROW_FORWARD) + made_up_ms(i, ROW_REPLAY);
        input += made_up_ms(i, ROW_BACKWARD_INPUT), weight += made_up_ms(i, ROW_BACKWARD_WEIGHT), n++;
    }
    assert_int_equal(l->n, n);
    assert_close(l->forward, forward, 6e-4);
    assert_close(l->input, input, 6e-4);
    assert_close(l->weight, weight, 6e-4);
    *total_ms += l->all;
}

/* The table of a run of one step that took one second more than its rows and the update. */
static struct table check_table(struct run *r) {
    double rows_s = 0, total_ms = 0, ops_ms = 0, shares = 0;
    int n = 0;
    for (int i = 0; i < r->program.n_steps; i++)
        for (int k = 0; k < ROW_WAIT; k++) rows_s += 1e-3 * made_up_ms(i, k);
    struct table t = table_of(r, 1, rows_s + 0.25 + 1, NULL);
    for (int i = 0; i < t.n_steps; i++) check_step(r, &t.step[i], &total_ms), n += t.step[i].n;
    for (int i = 0; i < t.n_ops; i++) {
        ops_ms += t.op[i].all, shares += t.op[i].share;
        assert_true(i == 0 || t.op[i].all <= t.op[i - 1].all);       /* the largest first */
    }
    for (int i = 1; i < t.n_steps; i++)                              /* also among an operation's steps */
        assert_true(strcmp(t.step[i].op, t.step[i - 1].op) != 0 || t.step[i].all <= t.step[i - 1].all);
    assert_int_equal(n, r->program.n_steps);
    assert_close(total_ms, 1e3 * rows_s, 1e-3 * t.n_steps);
    assert_close(ops_ms, 1e3 * rows_s, 1e-3 * t.n_ops);
    assert_close(shares, 100 * rows_s / (rows_s + 1.25), 0.05 * t.n_ops + 0.05);
    assert_close(t.optimizer, 250, 6e-4);
    assert_close(t.rest, 1000, 6e-4);
    return t;
}

static struct plan plan_named(const char *arch) {
    struct options *o;
    struct plan p = {0};
    char *argv[] = {"--arch", (char *)arch, "--device", "cpu", "--vocab", "131", "--global-batch", "8",
                    "--micro-batch", "2", "--layers", "4"};
    char *clicks[] = {"--features", "4", "--bag", "2", "--dense", "3"};
    bool of_clicks = strcmp(arch, "dlrm") == 0;
    assert_ok(recipe_options_create(NULL, &p, &o));
    assert_ok(options_parse(o, sizeof argv / sizeof *argv - 2 * of_clicks, argv));
    if (of_clicks) assert_ok(options_parse(o, sizeof clicks / sizeof *clicks, clicks));
    assert_ok(recipe_preset(&p, o));
    options_destroy(&o);
    return p;
}

TEST(test_every_row_is_in_the_line_of_its_step) {
    static const char *const NAMES[][4] = {
        {"gpt", "h*.qkv", "h*.fc2", "embed.tok"}, {"llama", "h*.q", "h*.down", "head.loss"},
        {"bert", "h*.qkv", "h*.fc2", "head.loss"}, {"t5", "e*.kv", "d*.kv", "d*.fc2"},
        {"mixtral", "h*.router", "h*.experts.up", "h*.sent"}, {"dlrm", "bottom.0", "emb.dots", "top.loss"}};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        struct plan p = plan_named(NAMES[i][0]);
        struct run r;
        compile(&r, &p, 0);
        struct table t = check_table(&r);
        for (int k = 1; k < 4; k++) step_named(&t, NAMES[i][k]);
        release(&r, &t);
    }
}

/* A stage's table has only its own layers; the layers of two chunks are in one table. */
TEST(test_a_stage_has_lines_of_what_it_computes) {
    for (int rank = 0; rank < 2; rank++) {
        struct plan p = plan_named("gpt");
        struct run r;
        p.mesh.pp = 2;
        compile(&r, &p, rank);
        struct table t = check_table(&r);
        assert_int_equal(step_named(&t, "h*.qkv")->n, 2);
        assert_true((strstr(t.text, "embed.tok") != NULL) == (rank == 0));
        assert_true((strstr(t.text, "head.loss") != NULL) == (rank == 1));
        release(&r, &t);
    }
}

/* A product's flops are 6 x tokens x weights, or 8 x with a replay. A layernorm has no flops, so its line has a rate in
 * bytes. */
TEST(test_a_rate_is_what_was_computed_in_that_time) {
    for (int kind = 0; kind < 2; kind++) {
        struct plan p = plan_named("gpt");
        struct run r;
        recompute_options(&p)->kind = kind ? RECOMPUTE_FULL : RECOMPUTE_NONE;
        compile(&r, &p, 0);
        struct table t = table_of(&r, 1, 100, NULL);
        const struct line *qkv = step_named(&t, "h*.qkv");
        double tokens = (double)(p.global_batch * p.seq), weights = 3.0 * (double)(p.layers * p.hidden * p.hidden);
        assert_close(atof(qkv->rate), (kind ? 8 : 6) * tokens * weights / qkv->all / 1e6,
                     0.005 * atof(qkv->rate));              /* three digits */
        assert_string_equal(qkv->rate + 16, "Gflop/s");
        const struct line *norm = step_named(&t, "h*.ln1");
        double bytes = 4.0 * (double)p.layers * tokens * (double)p.hidden;
        assert_string_equal(norm->rate + 16, "GB/s");                /* passes over x: 2 forward, 5 backward, 2 for a
                                                                      * replay; and small tensors */
        assert_close(atof(norm->rate) * norm->all * 1e6 / bytes, kind ? 9 : 7, 0.3 * 9);
        release(&r, &t);
    }
}

/* The times are sums over two steps, so the flops of a rate must be, too. */
TEST(test_a_rate_is_that_of_all_steps) {
    struct plan p = plan_named("gpt");
    struct run r;
    compile(&r, &p, 0);
    struct table one = table_of(&r, 1, 100, NULL), two = table_of(&r, 2, 100, NULL);
    assert_close(atof(step_named(&two, "h*.qkv")->rate), 2 * atof(step_named(&one, "h*.qkv")->rate),
                 0.01 * atof(step_named(&two, "h*.qkv")->rate));
    assert_close(step_named(&two, "h*.qkv")->all, step_named(&one, "h*.qkv")->all / 2, 1e-3);
    free(two.text);
    release(&r, &one);
}

TEST(test_what_was_predicted_is_beside_its_line) {
    struct plan p = plan_named("gpt");
    struct run r;
    double sum = 0, all = 0;
    compile(&r, &p, 0);
    struct profile_forecast f = {.row_s = calloc((size_t)r.program.n_steps, sizeof *f.row_s), .update_s = 0.5};
    for (int i = 0; i < r.program.n_steps; i++)
        for (int k = 0; k < ROW_WAIT; k++) all += 1e3 * (f.row_s[i][k] = 0.25 + 0.01 * i);
    struct table t = table_of(&r, 1, 100, &f);
    for (int i = 0; i < t.n_ops; i++) sum += t.op[i].predicted;
    assert_close(sum, all, 1e-3 * t.n_ops);
    assert_non_null(strstr(t.text, " 500.000\n"));
    free(f.row_s);
    release(&r, &t);
}

/* ---- times of a real run ---- */
/* The operations, the optimizer and the rest add up to the whole step, and the columns of each line to its sum. */
TEST(test_the_profile_is_the_whole_step) {
    struct plan p = parity_plan();
    struct run r = {0};
    struct data_file *file;
    struct data_split train, val;
    p.layers = 2, p.global_batch = 4, p.micro_batch = 1;
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_create(&r, &train_recipe, &p, WATCH_NOTHING));
    assert_ok(data_open("configs/demo.txt", &file));
    assert_ok(data_split_tail(file, p.seq, 0, &train, &val));
    run_set_data(&r, &train, &val);
    double start = clock_s(), ms = 0;
    for (int i = 0; i < 2; i++) assert_ok(run_step(&r));
    double step_s = clock_s() - start;
    struct table t = table_of(&r, 2, step_s, NULL);
    run_destroy(&r);
    data_close(&file);
    for (int i = 0; i < t.n_ops; i++) {
        const struct line *l = &t.op[i];
        assert_close(l->all, l->forward + l->input + l->weight, 0.002);   /* four numbers rounded to 0.001 */
        assert_true(l->forward > 0 || l->input > 0);
        ms += l->all;
    }
    const struct line *fc = step_named(&t, "h*.fc");
    assert_true(t.optimizer > 0 && fc->forward > 0 && fc->input > 0 && fc->weight > 0 && atof(fc->rate) > 0);
    assert_true(step_named(&t, "h*.gelu")->weight == 0 && step_named(&t, "embed.tok")->input == 0);   /* no such rows */
    assert_int_equal(t.n_ops, 8);                                    /* embedding, add_position, layernorm, linear,
                                                                      * attention, gelu, bdr, loss */
    assert_close(ms + t.optimizer + t.rest, 1e3 * step_s / 2, 1e-3 * (t.n_ops + 2));
    free(t.text);
}

TESTS(unit_test(test_every_row_is_in_the_line_of_its_step), unit_test(test_a_stage_has_lines_of_what_it_computes),
      unit_test(test_a_rate_is_what_was_computed_in_that_time), unit_test(test_a_rate_is_that_of_all_steps),
      unit_test(test_what_was_predicted_is_beside_its_line), unit_test(test_the_profile_is_the_whole_step))
