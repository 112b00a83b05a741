/* trivium show: print the program, memory and messages of a run without running it. All views call run_compile, as a
 * run does. run_compile is pure, so one process can show any rank of any layout. */
#include "driver/commands.h"

#include "driver/command.h"
#include "driver/recipe.h"
#include "driver/setup.h"
#include "driver/show/show_comm.h"
#include "driver/show/show_views.h"
#include "lib/comm/hops/comm_rules.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* plan comes first, because the offsets of its options count from it */
struct request {
    struct plan plan;
    int64_t rank;
    int json, rows, decode, op, crossings;
    double params, mib;
    int64_t ranks;
    char out[OPTION_TEXT_MAX];
};

static const struct option OPTIONS[] = {
    {"rank", OPTION_INT, "0", 0, 1e9, NULL, "",
     "program, types, memory and comm: whose program, types or messages to show, or whose memory to draw; with json, "
     "whose memory over a step to list", "show",
     offsetof(struct request, rank)},
    {"rows", OPTION_BOOL, "off", 0, 0, NULL, "", "program: also the rows that the steps are lowered to", "show",
     offsetof(struct request, rows)},
    {"decode", OPTION_BOOL, "off", 0, 0, NULL, "",
     "program, types and memory: as trivium generate runs it, one token at a time with a cache", "show",
     offsetof(struct request, decode)},
    {"json", OPTION_BOOL, "off", 0, 0, NULL, "", "as JSON", "show", offsetof(struct request, json)},
    {"params", OPTION_REAL, "0", 0, 1e17, NULL, "",
     "memory: no model, but the states of N parameters, by formula (dp, zero, precision); 0: the model", "show",
     offsetof(struct request, params)},
    {"mib", OPTION_REAL, "0", 0, 1e9, NULL, "MiB",
     "comm: no model, but one operation of this many MiB by every algorithm, or by the one that is named; 0: a step of "
     "the "
     "model",
     "show", offsetof(struct request, mib)},
    {"op", OPTION_CHOICE, "all_reduce", 0, 0, "all_reduce|all_gather|reduce_scatter|broadcast|reduce|all_to_all", "",
     "comm: which operation", "show", offsetof(struct request, op)},
    {"ranks", OPTION_INT, "8", 2, 1024, NULL, "", "comm: among how many ranks", "show",
     offsetof(struct request, ranks)},
    {"crossings", OPTION_BOOL, "off", 0, 0, NULL, "",
     "comm: with mib, the bandwidths between nodes at which each algorithm and codec beats a ring", "show",
     offsetof(struct request, crossings)},
    {"out", OPTION_TEXT, "", 0, 0, NULL, "",
     "memory, comm: also write a page into this directory: the bytes of a rank over one step, by role; with params, "
     "those of the four ZeRO stages; with mib, each rank's messages over time",
     "show", offsetof(struct request, out)},
};

/* ---- show program ---- */
static void print_rewrite(void *self, const char *name, const struct program *p) {
    const struct request *request = self;
    if (name == request->plan.arch->name)
        printf("the model: %" PRId64 " parameters; step, op, inputs | params -> output, its type and axes\n"
               "axes: B sequences, T positions, C channels, 3 of q, k and v, H heads, D channels of a head, K hidden "
               "units, V vocabulary;\nH 2/4@0: two of four, from the first\n",
               request->plan.arch->n_params(&request->plan));
    else printf("\nafter %s, on rank %" PRId64 ":\n", name, request->rank);
    program_print(p, stdout);
}

/* A storage's name is that of its last value, because ops in place overwrite the earlier ones. */
static const char *storage_name(const struct chunk *k, int storage) {
    const char *name = "";
    for (int v = 0; v < k->n_values; v++)
        if (k->values[v].storage == storage) name = k->values[v].name;
    return name;
}

/* Print the storages that a microbatch keeps from its forward to its backward. */
static void print_saved(const struct run *r) {
    int64_t total = 0;
    printf("\nsaved from forward to backward, a microbatch:\n");
    for (int k = 0; k < r->program.n_chunks; k++) {
        const struct chunk *c = &r->chunks[k];
        for (int i = 0; i < c->n_storages; i++) {
            const struct storage *s = &c->storages[i];
            if (!s->bytes || s->birth.tape != TAPE_F || storage_class(s) == SCRATCH) continue;
            printf("  %-18s %12" PRId64 " bytes%s\n", storage_name(c, i), s->bytes,
                   s->tier == TIER_HOST ? ", in host memory" : "");
            total += s->bytes;
        }
    }
    printf("  %-18s %12" PRId64 " bytes, %d microbatch%s per step\n", "in all", total, r->schedule.n_microbatches,
           r->schedule.n_microbatches == 1 ? "" : "es");
}

static void print_operands(const struct chunk *k, const char *label, const int *v, int n) {
    for (int i = 0; i < n; i++)
        if (v[i] >= 0)
            printf(" %s=%s@%" PRId64, label, k->values[v[i]].name, k->storages[k->values[v[i]].storage].offset);
}

static void print_row(const struct run *r, const struct chunk *k, enum tape_kind tape, int i) {
    static const char *const kinds[N_ROW_KINDS] = {"forward", "replay", "backward_input", "backward_weight", "wait",
                                                   "PARAM_AHEAD", "PARAM_NEEDED", "PARAM_DONE", "GRAD_READY", "PARK",
                                                   "UNPARK", "COPIED"};
    const struct row *x = &k->tapes[tape].rows[i];
    const struct program *p = &r->program;
    const char *name = row_kind_is_copy(x->kind)    ? p->slots[x->id].name
                       : row_kind_is_event(x->kind) ? p->params[x->id].name
                                                    : p->steps[x->id].op->name;
    printf("%c %4d  %-16s %-22s", "FBW"[tape], i, kinds[x->kind], name);
    print_operands(k, "in", x->in, MAX_IN);
    print_operands(k, "out", x->out, MAX_OUT);
    print_operands(k, "dout", x->dout, MAX_OUT);
    print_operands(k, x->accumulate ? "din+" : "din", x->din, MAX_IN);
    print_operands(k, "work", &x->work, 1);
    putchar('\n');
}

static void print_rows(const struct run *r) {
    printf("\nrows of the tapes F, B and W; value@offset in bytes, in the microbatch's frame (what lives from F to B) "
           "or in scratch:\n");
    for (int k = 0; k < r->program.n_chunks; k++)
        for (enum tape_kind t = 0; t < N_TAPES; t++)
            for (int i = 0; i < r->chunks[k].tapes[t].n; i++) print_row(r, &r->chunks[k], t, i);
}

static void print_schedule(const struct run *r) {
    printf(r->program.n_chunks > 1 ? "\nschedule (microbatch.chunk):" : "\nschedule:");
    for (int i = 0; i < r->schedule.n; i++)
        printf(r->program.n_chunks > 1 ? " %s%d.%d" : " %s%d", action_name(r->schedule.actions[i].kind),
               r->schedule.actions[i].microbatch, r->schedule.actions[i].chunk);
    printf("\n(F forward, B backward, W backward of the weights alone, of a microbatch; send and recv: from and to the "
           "next stage)\n");
    if (!plan_has_samples(&r->plan))
        printf("none of it runs on rank %d, which only serves\n", mesh_rank_of(&r->plan.place));
}

static enum status show_program(struct request *q) {
    struct run r;
    TRY(run_compile(&r, q->decode ? &generate_recipe : &train_recipe, &q->plan, (int)q->rank, print_rewrite, q));
    print_saved(&r);
    print_schedule(&r);
    if (q->rows) print_rows(&r);
    run_destroy(&r);
    return OK;
}

/* ---- show options ---- */
static void add_option(void *self, const struct option *o, const char *value, enum option_source source) {
    static const char *const sources[] = {"default", "data", "preset", "file", "command line"};
    json_t *entry = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "name", o->name, "value", value, "source",
                              sources[source], "unit", o->unit ? o->unit : "", "meaning", o->meaning, "choices",
                              o->choices ? o->choices : o->type == OPTION_BOOL ? "off|on" : "");
    json_array_append_new(self, entry);
}
static void print_option(void *self, const struct option *o, const char *value, enum option_source source) {
    static const char *const sources[] = {"", "from the data", "from the preset", "from the file", "as given"};
    (void)self;
    printf("%-18s %-24s %-16s %s\n", o->name, value, sources[source], o->meaning);
}

static enum status show_options(struct request *q, struct options *o) {
    if (!q->json) {
        options_each(o, print_option, NULL);
        return OK;
    }
    json_t *all = json_array();
    options_each(o, add_option, all);
    return command_print(all, JSON_INDENT(2));
}

/* The meaning of an option names its views before a colon; without a colon the option is for all views. */
static enum status refuse_what_is_for_another(const struct options *o, const char *what) {
    for (size_t i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++) {
        const char *meaning = OPTIONS[i].meaning, *colon = strchr(meaning, ':'), *named = strstr(meaning, what);
        if (!colon || (named && named < colon) || options_source(o, OPTIONS[i].name) == FROM_DEFAULT) continue;
        return FAIL(E_USAGE, "--%s is for show %.*s; show %s does not read it", OPTIONS[i].name, (int)(colon - meaning),
                    meaning, what);
    }
    return OK;
}

static enum status refuse_what_it_does_not_read_here(const struct request *q, const struct options *o,
                                                     const char *what) {
    struct comm_rule rule[COMM_MAX_AXES];
    struct plan plan = q->plan;
    TRY(plan_settle_comm(&plan));
    TRY(comm_rules_parse(comm_options(&plan)->algorithm, rule));
    return show_refuse_unread(o, what, &(struct show_asked){q->out[0], q->json, q->params > 0, q->mib > 0, q->crossings,
                                                            rule[0].algorithm});
}

/* Is `word` one of the words in `words`? */
static bool is_one_of(const char *word, const char *words) {
    size_t n = strlen(word);
    for (const char *at = words; n && (at = strstr(at, word)); at++)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static enum status show(void *request, struct options *o, int argc, char **argv) {
    struct request *q = request;
    const char *what = argc > 0 ? argv[0] : "";
    if (!is_one_of(what, "program types memory mesh comm options"))
        return FAIL(E_USAGE, "show what? use show program, types, memory, mesh, comm or options, not '%s'", what);
    TRY(options_parse(o, argc - 1, argv + 1));
    TRY(refuse_what_is_for_another(o, what));
    if (q->json && is_one_of(what, "program types"))
        return FAIL(E_USAGE, "--json is for show memory, mesh, comm and options; a program is text");
    TRY(refuse_what_it_does_not_read_here(q, o, what));
    if (!strcmp(what, "memory") && q->params > 0) {
        TRY(show_params_refuse_unread(o));
        TRY(optimizer_check_options(plan_optimizer(&q->plan), o));
        TRY(show_params(&q->plan, q->params, q->json));
        return q->out[0] ? show_params_page(&q->plan, q->params, q->out, q->json) : OK;
    }
    if (!strcmp(what, "comm") && q->crossings && q->mib <= 0)
        return FAIL(E_USAGE, "--crossings compares all-reduces, and mib=0 has no size; give --mib 25, a bucket");
    if (!strcmp(what, "comm") && q->mib > 0) {
        const struct comm_question question = {(enum comm_op)q->op, q->mib * 1048576, (int)q->ranks,
                                               (int)q->rank, q->out, q->json};
        return (q->crossings ? show_comm_crossings : show_comm_operation)(&q->plan, &question);
    }
    if (q->decode && q->plan.mesh.dp > 1)
        return FAIL(E_CONFIG, "dp=%" PRId64 ": decoding has one sequence; leave dp out", q->plan.mesh.dp);
    if (q->decode) generate_plan(&q->plan, 1);
    TRY(setup_plan(o, &q->plan, 0));
    if (!strcmp(what, "options")) return show_options(q, o);
    if (!strcmp(what, "mesh")) return show_mesh(&q->plan, q->json);
    if (q->rank >= plan_ranks(&q->plan))
        return FAIL(E_CONFIG, "rank=%" PRId64 " is not one of the %d ranks; use 0 to %d", q->rank, plan_ranks(&q->plan),
                    plan_ranks(&q->plan) - 1);
    if (!strcmp(what, "program")) return show_program(q);
    if (!strcmp(what, "types")) return show_types(&q->plan, q->decode ? &generate_recipe : &train_recipe, (int)q->rank);
    if (!strcmp(what, "comm")) return show_comm_step(&q->plan, (int)q->rank, q->json);
    TRY(show_memory(&q->plan, q->json, options_source(o, "rank") == FROM_DEFAULT ? -1 : (int)q->rank));
    if (q->out[0]) TRY(show_memory_page(&q->plan, (int)q->rank, q->out, q->json));
    return show_memory_limit(&q->plan);
}

int show_main(int argc, char **argv) {
    static const struct option_table own = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
    static const struct command_alone c = {"trivium show program|types|memory|mesh|comm|options [options]\n", &own, 1,
                                           true, sizeof(struct request), show};
    return command_main(&c, argc, argv);
}
