/* ranks: 2 4  device: cpu
 *
 * The table of the sharding puzzle as a technique that replaces tp/tp.c: it shards the axes that the table names, and
 * inserts enter and exit where the table has them. The run is then compared with the serial run. */
#include "driver/recipe.h"
#include "lib/ops/cross_entropy.h"
#include "lib/ops/embedding.h"
#include "lib/ops/linear.h"
#include "models/gpt/gpt.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp_cross_entropy.h"
#include "tp/tp_region.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum cut { COLUMN, ROW, REPLICATED };
/* axes: a parameter of the model, with the axis that its product makes and the axis that the product sums over (0:
 * none). line: the parameter's line in the table. */
struct axes { const char *name; char column, row; };
struct line { const struct axes *of; bool given; enum cut cut; bool enter, exit, all; };
enum { N_LINES = 16 };
static const struct axes AXES[N_LINES] = {
    {"wte", 'C', 'V'}, {"wpe", 'C', 'T'}, {"ln1.g", 'C', 0}, {"ln1.b", 'C', 0}, {"qkv.w", 'H', 'C'}, {"qkv.b", 'H', 0},
    {"proj.w", 'C', 'H'}, {"proj.b", 'C', 0}, {"ln2.g", 'C', 0}, {"ln2.b", 'C', 0}, {"fc.w", 'K', 'C'},
    {"fc.b", 'K', 0}, {"fc2.w", 'C', 'K'}, {"fc2.b", 'C', 0}, {"lnf.g", 'C', 0}, {"lnf.b", 'C', 0}};
static struct line table[N_LINES];

/* ---- reading ---- */
static struct line *line_of(const char *name) {
    for (int i = 0; i < N_LINES; i++)
        if (!strcmp(AXES[i].name, name)) return &table[i];
    return NULL;
}

/* The index of `word` among the words separated by '|'; -1: none. */
static int word_of(const char *word, const char *words) {
    int at = 0;
    for (size_t n; *words; words += n + (words[n] == '|'), at++) {
        n = strcspn(words, "|");
        if (strlen(word) == n && !strncmp(word, words, n)) return at;
    }
    return -1;
}

static enum status read_line(char *text, int number) {
    char name[16], cut[16], in[16], out[16], counted[16], more[2];
    int n = sscanf(text, "%15s %15s %15s %15s %15s %1s", name, cut, in, out, counted, more);
    if (n <= 0 || name[0] == '#') return OK;
    struct line *l = line_of(name);
    if (n != 5) return FAIL(E_FORMAT, "line %d: wanted are five words: param cut enter exit counted", number);
    if (!l) return FAIL(E_FORMAT, "line %d: the model has no parameter %s", number, name);
    if (l->given) return FAIL(E_FORMAT, "line %d: %s a second time", number, name);
    int c = word_of(cut, "column|row|replicated"), e = word_of(in, "no|yes"), x = word_of(out, "no|yes"),
        all = word_of(counted, "first|all");
    if (strchr(text, '?')) return FAIL(E_TODO, "line %d: %s is yours to decide", number, name);
    if (c < 0 || e < 0 || x < 0 || all < 0)
        return FAIL(E_FORMAT,
                    "line %d: %s: cut is column, row or replicated, enter and exit yes or no, counted all or first",
                    number, name);
    *l = (struct line){l->of, true, (enum cut)c, e == 1, x == 1, all == 1};
    return OK;
}

static enum status read_table(void) {
    char text[256];
    const char *path = getenv("SUBMISSION");
    FILE *file = path ? fopen(path, "r") : NULL;
    enum status status = file ? OK : FAIL(E_IO, "cannot open the table %s", path ? path : "(SUBMISSION is not set)");
    for (int i = 0; i < N_LINES; i++) table[i] = (struct line){.of = &AXES[i]};
    for (int number = 1; status == OK && fgets(text, sizeof text, file); number++) status = read_line(text, number);
    if (file) fclose(file);
    for (int i = 0; status == OK && i < N_LINES; i++)
        if (!table[i].given) status = FAIL(E_FORMAT, "the table does not say how %s is cut", AXES[i].name);
    return status;
}

/* ---- the technique ---- */
static bool wanted(const struct plan *plan) { return plan->mesh.tp > 1; }

static const struct line *line_of_param(const struct param *w) { return line_of(strchr(w->name, '.') + 1); }
static char axis_cut(const struct line *l) { return l->cut == COLUMN ? l->of->column : l->cut == ROW ? l->of->row : 0; }

static enum status refuse_stream(const struct line *l) {
    if (l->cut == ROW && !l->of->row) return FAIL(E_CONFIG, "%s is a vector: it has no rows to be cut by", l->of->name);
    if (axis_cut(l) == 'T')
        return FAIL(E_CONFIG, "%s cut by rows is cut by positions, and every rank has all tokens here", l->of->name);
    if (axis_cut(l) == 'C')
        return FAIL(E_CONFIG, "%s cut by %ss is cut along C, and the residual stream has all C channels on every rank",
                    l->of->name, l->cut == ROW ? "row" : "column");
    return OK;
}

static enum status narrow(const struct plan *plan, struct param *w) {
    const struct line *l = line_of_param(w);
    TRY(refuse_stream(l));
    for (int k = 0; k < w->type.shape.n_axes; k++) {
        struct axis *a = &w->type.shape.axis[k];
        if (a->tag != axis_cut(l)) continue;
        a->n = (a->global + plan->mesh.tp - 1) / plan->mesh.tp;
        a->first = a->n * plan->place.rank.tp;
        a->cut |= 1u << AXIS_TP;
    }
    return OK;
}

static struct step region(const struct plan *plan, const struct op *op, int block, int in, int out) {
    return (struct step){.op = op, .n_in = 1, .n_out = 1, .in = {in}, .out = {out}, .block = block,
                         .mesh_axis = AXIS_TP, .parts = (int)plan->mesh.tp, .part = plan->place.rank.tp};
}

static int slot_like(struct program *p, int slot) {
    static int n;
    char name[NAME_MAX_LEN];
    snprintf(name, sizeof name, "cut%d", n++);
    int made = program_add_slot(p, "puzzle", name);
    p->slots[made].type = p->slots[slot].type;
    return made;
}

static void insert_exit(const struct plan *plan, struct program *p, int at) {
    int whole = p->steps[at].out[0], part = slot_like(p, whole);
    p->steps[at].out[0] = part;
    struct step s = region(plan, &op_tp_exit, p->steps[at].block, part, whole);
    program_insert(p, at + 1, &s);
}
static void insert_enter(const struct plan *plan, struct program *p, int at) {
    int whole = p->steps[at].in[0], entered = slot_like(p, whole);
    struct step s = region(plan, &op_tp_enter, p->steps[at].block, whole, entered);
    p->steps[at].in[0] = entered;
    program_insert(p, at, &s);
}

/* wte is used twice: by the lookup, which can have an exit, and by the head, which can have an enter. */
static void insert_regions(const struct plan *plan, struct program *p, int at) {
    struct step *s = &p->steps[at];
    if (s->op == &op_cross_entropy && line_of("wte")->cut == ROW) {
        s->op = &op_tp_cross_entropy;
        s->mesh_axis = AXIS_TP, s->parts = (int)plan->mesh.tp, s->part = plan->place.rank.tp;
    }
    if (s->op != &op_linear && s->op != &op_embedding) return;
    const struct line *l = line_of_param(&p->params[s->weight[0]]);
    bool lookup = s->op == &op_embedding, tied = !strcmp(l->of->name, "wte");
    if (l->exit && lookup == tied) insert_exit(plan, p, at);
    if (l->enter && !lookup) insert_enter(plan, p, at);
}

/* Tensors between regions must be whole: C and T are never cut (refuse_stream), H and K only inside regions. */
static enum status rewrite(const struct plan *plan, struct program *p) {
    for (int i = 0; i < p->n_params; i++) TRY(narrow(plan, &p->params[i]));
    for (int i = p->n_steps - 1; i >= 0; i--) insert_regions(plan, p, i);
    return OK;
}

static const struct technique technique_puzzle = {.name = "tp", .wanted = wanted, .rewrite = rewrite};
static const struct technique *const PUZZLE[] = {&technique_puzzle};
static const struct recipe puzzle_recipe = {.techniques = PUZZLE, .n_techniques = 1};

/* ---- a run of it ---- */
struct result {
    enum status read, made;
    double loss[PARITY_STEPS], norm[PARITY_STEPS], bytes, least, whole, wire, wire_least;
};
static struct result result;   /* computed once, and read by every test */

static struct plan puzzle_plan(int tp) {
    struct plan plan = parity_plan();
    plan.layers = 2;
    plan.loss_chunk = 0;
    plan.mesh.tp = tp;
    plan.check_types = 0;                 /* types would refuse a wrong table, but its numbers count */
    return plan;
}

static double state_bytes(const struct run *r) {
    const int64_t *bytes = r->memory.bytes[TIER_DEVICE];
    return (double)(bytes[ROLE_PARAM] + bytes[ROLE_GRAD] + bytes[ROLE_OPTIM]);
}

/* The bytes of tp/tp.c, and of one rank alone. */
static enum status compare_plans(int tp) {
    struct plan cut = puzzle_plan(tp), one = puzzle_plan(1);
    struct run r;
    TRY(plan_settle(&cut, tp));
    TRY(plan_settle(&one, 1));
    TRY(run_compile(&r, &train_recipe, &cut, 0, NULL, NULL));
    result.least = state_bytes(&r);
    result.wire_least = r.bill.wire_bytes[AXIS_TP];
    run_destroy(&r);
    TRY(run_compile(&r, &train_recipe, &one, 0, NULL, NULL));
    result.whole = state_bytes(&r);
    run_destroy(&r);
    return OK;
}

static enum status train(const struct plan *plan) {
    struct run r = {0};
    enum status status = run_create(&r, &puzzle_recipe, plan, WATCH_NOTHING);
    result.made = status;
    result.bytes = state_bytes(&r);
    result.wire = r.bill.wire_bytes[AXIS_TP];
    if (status == OK) status = layout_use_demo(&r);
    for (int i = 0; i < r.program.n_params; i++)                     /* by the table's `all`, not by the cuts as in a
                                                                      * usual run */
        r.program.params[i].in_norm = line_of_param(&r.program.params[i])->all || r.plan.place.rank.tp == 0;
    for (int i = 0; status == OK && i < PARITY_STEPS; i++) {
        status = run_step(&r);
        result.loss[i] = r.last.loss;
        result.norm[i] = r.last.grad_norm;
    }
    run_destroy(&r);
    return status;
}

/* Read the file and make the run once; subtract the serial run's numbers. All ranks read the same file, so all fail or
 * none. */
static enum status play(void) {
    static bool played;
    static enum status status;
    static char said[1024];
    if (played) return status == OK ? OK : FAIL(status, "%s", said);
    played = true;
    struct reference ref = {0};
    struct plan serial = puzzle_plan(1), plan = puzzle_plan(comm_world_size());
    status = result.read = read_table();
    if (status == OK) status = compare_plans(comm_world_size());
    if (status == OK) status = reference_init(&ref, &serial);
    if (status == OK) status = plan_settle(&plan, comm_world_size());
    if (status == OK) status = train(&plan);
    snprintf(said, sizeof said, "%s", status == OK ? "" : status_message());
    for (int i = 0; i < PARITY_STEPS; i++) {
        result.loss[i] = fabs(result.loss[i] / ref.loss[i] - 1);
        result.norm[i] = fabs(result.norm[i] / ref.norm[i] - 1);
    }
    reference_fini(&ref);
    return status;
}

TEST(test_sharding_is_a_program) {
    assert_ok(play());
}
TEST(test_sharding_goes_forward) {
    assert_ok(play());
    assert_close(agree_max(result.loss[0]), 0, 1e-10);
}
TEST(test_sharding_goes_backward) {
    assert_ok(play());
    assert_close(agree_max(result.loss[1]), 0, 1e-10);
    assert_close(agree_max(result.loss[2]), 0, 1e-10);
}
TEST(test_sharding_counts_everything_once) {
    assert_ok(play());
    for (int i = 0; i < PARITY_STEPS; i++) assert_close(agree_max(result.norm[i]), 0, 1e-10);
}

TEST(test_sharding_saves_memory) {
    assert_ok(play());
    if (comm_is_rank_0())
        printf("    a rank's states: %.0f bytes of %.0f whole; %.0f are enough\n", result.bytes, result.whole,
               result.least);
    assert_true(result.bytes <= result.least);
}
TEST(test_sharding_talks_no_more_than_needed) {
    assert_ok(play());
    if (comm_is_rank_0())
        printf("    sent a step: %.0f bytes; %.0f are enough\n", result.wire, result.wire_least);
    assert_true(result.bytes <= result.least);   /* a sharding that cuts nothing sends nothing */
    assert_true(result.wire <= result.wire_least);
}

TESTS(unit_test(test_sharding_is_a_program), unit_test(test_sharding_goes_forward),
      unit_test(test_sharding_goes_backward), unit_test(test_sharding_counts_everything_once),
      unit_test(test_sharding_saves_memory), unit_test(test_sharding_talks_no_more_than_needed))
