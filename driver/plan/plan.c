/* trivium plan: a layout on a cluster you do not have. The program of every stage is compiled, as for a run,
 * and priced (planner/price.h). */
#include "driver/commands.h"

#include "driver/chart/chart.h"
#include "driver/command.h"
#include "driver/plan/plan_search.h"
#include "driver/recipe.h"
#include "driver/setup.h"
#include "driver/train/train_options.h"
#include "lib/base/replace.h"
#include "planner/search.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

static const struct option OPTIONS[] = {
    {"gpus", OPTION_INT, "0", 0, 1 << 24, NULL, "ranks",
     "search the layouts of N, but for what is given: tp, pp, cp (sequences of 16384 and more), ep, micro-batch, 1f1b, "
     "interleaved, zb-h1, zb-v, zero, recompute none, selective and full. All else is priced as given; 0: the layout "
     "is given", "plan",
     offsetof(struct plan_request, gpus)},
    {"top", OPTION_INT, "5", 1, MAX_BEST, NULL, "", "with gpus: how many layouts to show", "plan",
     offsetof(struct plan_request, top)},
    {"measured", OPTION_TEXT, "", 0, 0, OPTION_LIST, "", "files of measurements, in place of the cluster's figures: of "
     "nccl-tests, of products (m n k TFLOP/s), a trace", "plan", offsetof(struct plan_request, measured)},
    {"against", OPTION_TEXT, "", 0, 0, OPTION_LIST, "", "with gpus: other clusters; a table of peak, memory, links, "
     "price, step and the price of a token", "plan", offsetof(struct plan_request, against)},
    {"json", OPTION_BOOL, "off", 0, 0, NULL, "", "as JSON", "plan", offsetof(struct plan_request, json)},
    {"write", OPTION_TEXT, "", 0, 0, NULL, "", "with gpus: a file for the options of the first layout, for --config",
     "plan", offsetof(struct plan_request, write)},
    {"out", OPTION_TEXT, "", 0, 0, NULL, "", "with gpus: a directory for plan.html, a page with pictures of the search",
     "plan", offsetof(struct plan_request, out)},
    {"stack", OPTION_TEXT, "trivium", 0, 0, NULL, "", "the program that trains: trivium, or a section of "
     "configs/stacks.ini, or of a file as in ./mine.ini:NAME", "plan", offsetof(struct plan_request, stack)},
    {"svg", OPTION_TEXT, "", 0, 0, NULL, "", "without gpus: draw the pipeline of the layout into this file", "plan",
     offsetof(struct plan_request, svg)},
    {"run", OPTION_BOOL, "off", 0, 0, NULL, "",
     "with gpus: write them (to plan.ini unless write names a file) and start the run on this machine", "plan",
     offsetof(struct plan_request, run)},
};

#define GIB 1073741824.0
static const char *layout_of(const struct plan *p) {
    static char text[128];
    return mesh_sizes_text(&p->mesh, text, sizeof text);
}
static double tokens_of(const struct plan *p) { return (double)p->global_batch * (double)p->seq; }

/* ---- as text ---- */
void plan_print_phases(const struct price *x) {
    printf("  of which");
    for (int i = 0; i < N_PRICE_PHASES; i++)
        if (x->phase_s[i] > 0.0005 * x->step_s)
            printf(" %s %.1f%%", price_phase_name((enum price_phase)i), 100 * x->phase_s[i] / x->step_s);
    printf("\n");
}

static void print_memory(const struct price *x, const struct cluster *c) {
    double all = (double)c->memory_bytes / GIB, reserve = (double)c->reserve_bytes / GIB;
    printf("  memory  %.2f GiB of %.1f, less a reserve of %.1f: %s\n  of which", (double)x->total_bytes / GIB, all,
           reserve, x->fits ? "it fits" : "it does not fit");
    for (int i = 0; i < N_ROLES; i++)
        if (x->bytes[i]) printf(" %s %.2f", role_name((enum role)i), (double)x->bytes[i] / GIB);
    if (x->fullest > 0) printf("  (stage %d)", x->fullest);
    printf("\n");
    if (x->host_bytes)
        printf("  host    %.2f GiB of each rank's are in the host's memory\n", (double)x->host_bytes / GIB);
}

static void print_text(const struct plan *p, const struct cluster *c, const struct price *x) {
    printf("%s on %d x %s%s%s: %s, micro-batch %" PRId64 ", %d microbatches\n", setup_name(p), plan_ranks(p), c->name,
           *c->stack.name ? ", " : "", c->stack.name, layout_of(p), p->micro_batch, p->n_microbatches);
    printf("  step    %.4g s, %.4g tokens/s, mfu %.1f%%\n", x->step_s, tokens_of(p) / x->step_s, 100 * x->mfu);
    plan_print_phases(x);
    print_memory(x, c);
}

/* ---- as JSON ---- */
json_t *plan_phases_json(const struct price *x) {
    json_t *phases = json_object();
    for (int i = 0; i < N_PRICE_PHASES; i++)
        json_object_set_new(phases, price_phase_name((enum price_phase)i), json_real(x->phase_s[i]));
    return phases;
}

json_t *plan_bytes_json(const struct price *x) {
    json_t *bytes = json_object();
    for (int i = 0; i < N_ROLES; i++) json_object_set_new(bytes, role_name((enum role)i), json_integer(x->bytes[i]));
    return bytes;
}

static enum status print_json(const struct plan_request *q, const struct cluster *c, const struct price *x) {
    return command_print(
        json_pack("{s:{s:s, s:s, s:s, s:i, s:f, s:f, s:f, s:I, s:I, s:I, s:b, s:o, s:o, s:o}}", "plan", "cluster",
                  c->name, "model", q->plan.model, "layout", layout_of(&q->plan), "ranks", plan_ranks(&q->plan),
                  "step_s", x->step_s, "tokens_per_s", tokens_of(&q->plan) / x->step_s, "mfu", x->mfu, "memory_bytes",
                  (json_int_t)x->total_bytes, "room_bytes", (json_int_t)(c->memory_bytes - c->reserve_bytes),
                  "host_bytes", (json_int_t)x->host_bytes, "fits", x->fits, "phases_s", plan_phases_json(x), "bytes",
                  plan_bytes_json(x), "measured", measured_json(&q->figures)), JSON_INDENT(2));
}

/* ---- the command ---- */
/* Draw the pipeline of the given layout; all decisions are fixed. */
static enum status draw_pipeline(const struct plan_request *q, const struct cluster *c) {
    struct layout l = layout_of_plan(&q->plan);
    FILE *f;
    if (q->plan.mesh.pp <= 1)
        return FAIL(E_CONFIG, "svg draws a pipeline, and pp=1 has none; give --pp 2 or more, or leave svg out");
    void *split;
    if (!recipe_draws_pipeline()) return FAIL(E_CONFIG, "this program draws no pipelines; leave svg out");
    if (plan_option(&q->plan, "pp-split", &split))
        snprintf(l.split, sizeof l.split, "%.*s", (int)sizeof l.split - 1, (const char *)split);
    TRY(chart_file_open(q->svg, &f));
    enum status status = recipe_draws_pipeline()->draw(&train_recipe, &q->plan, ~0u, c, &l, f, NULL);
    if (status == OK) return chart_file_close(q->svg, f);
    (void)replace_end(q->svg, f, false);
    return status;
}

static enum status plan(void *request, struct options *o, int argc, char **argv) {
    struct plan_request *q = request;
    struct cluster c;
    struct price x;
    TRY(options_parse(o, argc, argv));
    TRY(setup_target(o, &q->plan, &c));
    TRY(stack_read(q->stack, &c));
    TRY(stack_set_options(&c.stack, o));
    TRY(cluster_measure(q->measured, train_options(&q->plan)->cluster, &c, &q->figures));
    if (q->gpus && q->svg[0]) return FAIL(E_USAGE, "--svg draws one layout, and --gpus searches; use --out");
    if (q->against[0] && (q->json || q->run || q->out[0] || q->write[0] || options_source(o, "top") > FROM_PRESET))
        return FAIL(E_USAGE, "--against prints a table alone; leave --json, --out, --write, --run and --top out");
    if (*c.stack.name && (q->run || q->write[0] || q->against[0]))
        return FAIL(E_USAGE, "--stack %s plans for another program; leave --run, --write and --against out", q->stack);
    if (q->gpus) return plan_search(q, o, &c);
    static const char *const OF_A_SEARCH[] = {"against", "out", "write", "run", "top"};
    for (size_t i = 0; i < sizeof OF_A_SEARCH / sizeof *OF_A_SEARCH; i++)
        if (options_source(o, OF_A_SEARCH[i]) > FROM_PRESET)
            return FAIL(E_USAGE, "--%s is of a search; give --gpus, too, or leave it out", OF_A_SEARCH[i]);
    TRY(setup_plan(o, &q->plan, 0));
    const struct price_wish wish = {.uneven = options_source(o, "pp-split") != FROM_DEFAULT};
    TRY(price_plan(&train_recipe, &q->plan, &c, &wish, &x));
    if (q->svg[0]) TRY(draw_pipeline(q, &c));
    if (q->json) return print_json(q, &c, &x);
    measured_print(&q->figures, stdout);
    print_text(&q->plan, &c, &x);
    if (*c.stack.name) stack_write_command(&c.stack, o, q->plan.arch->name, "", stdout);
    return OK;
}

int plan_main(int argc, char **argv) {
    static const struct option_table own = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
    static const struct command_alone c = {"trivium plan [options]\n", &own, 1, true,
                                           sizeof(struct plan_request), plan};
    return command_main(&c, argc, argv);
}
