/* trivium schedule: check, time and draw a pipeline schedule. The schedules are those that training runs
 * (pp/pp_schedule.c). The command prints each computed time next to its closed form. */
#include "driver/show/schedule.h"

#include "driver/chart/chart.h"
#include "driver/command.h"
#include "lib/run/plan.h"
#include "pp/pp_table.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

struct request {
    int schedule;
    char file[OPTION_TEXT_MAX];
    int64_t pp, microbatches, chunks;
    double time_f, time_b, time_w, time_c, held;
    int64_t memory;
    int json, csv, all;
    struct schedule_sizes sizes;
    char svg[OPTION_TEXT_MAX];
};

#define AT(field) offsetof(struct request, field)
static const struct option OPTIONS[] = {
    {"schedule", OPTION_CHOICE, "1f1b", 0, 0, PP_SCHEDULES, "",
     "pipeline schedule: the order of forwards and backwards", "schedule", AT(schedule)},
    {"pp", OPTION_INT, "4", 1, PLAN_MAX_STAGES, NULL, "ranks", "pipeline stages", "schedule", AT(pp)},
    {"microbatches", OPTION_INT, "8", 1, 1 << 20, NULL, "", "microbatches per step: global-batch / dp / micro-batch",
     "schedule", AT(microbatches)},
    {"chunks", OPTION_INT, "1", 1, 1024, NULL, "", "model chunks per stage, for schedules that take them",
     "schedule", AT(chunks)},
    {"time-f", OPTION_REAL, "1", 1e-6, 1e6, NULL, "",
     "time of a microbatch's forward in all layers of a stage; a chunk takes its share", "time", AT(time_f)},
    {"time-b", OPTION_REAL, "2", 1e-6, 1e6, NULL, "", "time of its backward", "time", AT(time_b)},
    {"time-w", OPTION_REAL, "0", 0, 1e6, NULL, "",
     "how much of that is weight gradients, which some schedules run apart; 0: half of it", "time", AT(time_w)},
    {"time-c", OPTION_REAL, "0", 0, 1e6, NULL, "", "time of a message from stage to stage; no stage is busy meanwhile",
     "time", AT(time_c)},
    {"memory", OPTION_INT, "0", 0, 1 << 20, NULL, "microbatches",
     "zb-2p: how many a rank keeps activations of; 0: 2 pp", "schedule", AT(memory)},
    {"held", OPTION_REAL, "1", 0.001, 1, NULL, "", "zb-2p: the share of activations that weight gradients need",
     "schedule", AT(held)},
    {"all", OPTION_BOOL, "off", 0, 0, NULL, "", "every schedule of this pp, microbatches and times, in one table",
     "output", AT(all)},
    {"act-mib", OPTION_REAL, "1", 0, 1e9, NULL, "MiB", "what a stage keeps of a microbatch, for --all", "output",
     AT(sizes.activations)},
    {"message-mib", OPTION_REAL, "1", 0, 1e9, NULL, "MiB", "of a message from stage to stage, for --all", "output",
     AT(sizes.message)},
    {"json", OPTION_BOOL, "off", 0, 0, NULL, "", "as JSON", "output", AT(json)},
    {"csv", OPTION_BOOL, "off", 0, 0, NULL, "", "as a file that --schedule file:PATH reads", "output", AT(csv)},
    {"svg", OPTION_TEXT, "", 0, 0, NULL, "", "also draw the chart into this file", "output", AT(svg)},
};

/* ---- as text ---- */
static void print_head(const struct schedule_chart *c) {
    schedule_chart_title(c, stdout);
    printf("; forward %g, backward %g", c->time.f, c->time.bi + c->time.w);
    if (c->row->split_weight) printf(", %g of it weight gradients", c->time.w);
    if (c->transfer > 0) printf(", transfer %g", c->transfer);
    printf("\n\n");
}

static void print_bubble(const struct schedule_chart *c) {
    const struct pp_shape shape = schedule_chart_shape(c);
    printf("\nstep     %g = %g of work + %g idle, on every stage\n", c->timeline.makespan, c->work, c->idle);
    printf("bubble   %g; ", c->bubble);
    if (c->row->bubble)
        printf("closed form %s = %g%s; ", c->row->bubble_text, c->row->bubble(&shape, &c->time),
               c->transfer > 0 ? " without transfers" : "");
    printf("%.1f%% of the step, %.1f%% of the work\n", 100 * c->bubble / c->timeline.makespan,
           100 * c->bubble / c->work);
    if (c->idle > c->bubble * (1 + 1e-9))
        printf("         from a stage's own first action to its last; with a sum over all stages at the end, %g\n",
               c->idle);
    printf("checked  each forward has its backward, each send its receive; no deadlock with %d staging buffer%s a "
           "direction\n", c->send_depth, c->send_depth == 1 ? "" : "s");
}

static void print_peaks(const struct schedule_chart *c) {
    const struct pp_shape shape = schedule_chart_shape(c);
    printf("\nstage   peak in flight%s%s\n", c->row->peak ? "   closed form" : "",
           c->n_chunks > 1 ? "   (chunks of microbatches)" : "   (microbatches)");
    for (int i = 0; i < c->n_stages; i++) {
        printf("%5d   %14d", i, pp_peak_in_flight(&c->stages[i]));
        if (c->row->peak) printf("   %11d", c->row->peak(&shape, i));
        putchar('\n');
    }
}

/* ---- as JSON ---- */
static json_t *actions_json(const struct schedule_chart *c, int stage, bool compute) {
    json_t *all = json_array();
    for (int i = 0; i < c->stages[stage].n; i++) {
        const struct action *a = &c->stages[stage].actions[i];
        struct timeline_span span = c->timeline.span[stage][i];
        if (action_is_compute(a->kind) != compute) continue;
        json_array_append_new(all, json_pack("{s:s, s:i, s:i, s:i, s:f, s:f}", "kind", action_name(a->kind), "chunk",
                                             a->chunk, "microbatch", a->microbatch, "age", a->age, "start", span.start,
                                             "end", span.end));
    }
    return all;
}

static enum status print_json(const struct schedule_chart *c) {
    json_t *stages = json_array(), *peaks = json_array();
    for (int i = 0; i < c->n_stages; i++) {
        json_array_append_new(stages, json_pack("{s:i, s:i, s:o, s:o}", "stage", i, "weight_versions",
                                                schedule_versions(&c->stages[i]), "actions", actions_json(c, i, true),
                                                "transfers", actions_json(c, i, false)));
        json_array_append_new(peaks, json_integer(pp_peak_in_flight(&c->stages[i])));
    }
    return command_print(
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:o, s:o}", "schedule",
                  c->row->name, "weight_copies", c->row->place->n_pipes, "pp", c->n_stages, "microbatches",
                  c->n_microbatches, "chunks", c->n_chunks, "time_f", c->time.f, "time_b", c->time.bi + c->time.w,
                  "time_w", c->time.w, "time_c", c->transfer, "makespan", c->timeline.makespan, "idle", c->idle,
                  "bubble", c->bubble, "bubble_fraction", c->bubble / c->timeline.makespan, "bubble_over_work",
                  c->bubble / c->work, "send_depth", c->send_depth, "peak_in_flight", peaks, "stages", stages),
        JSON_INDENT(2));
}

/* ---- as a file ---- */
static enum status print_csv(const struct schedule_chart *c) {
    const struct pp_shape shape = schedule_chart_shape(c);
    if (c->row->place->n_pipes > 1)
        return FAIL(E_CONFIG, "schedule=%s is two pipelines, and a file describes one; use another schedule",
                    c->row->name);
    printf("# ");
    schedule_chart_title(c, stdout);
    printf("\n");
    pp_table_write(c->row, &shape, c->stages, stdout);
    return OK;
}

/* ---- the command ---- */
static enum status write_svg(const struct schedule_chart *c, const char *path) {
    FILE *f;
    TRY(chart_file_open(path, &f));
    schedule_chart_svg(c, f);
    return chart_file_close(path, f);
}

static enum status show(const struct request *q, struct schedule_chart *c) {
    TRY(schedule_chart_make(c));
    if (q->svg[0]) TRY(write_svg(c, q->svg));
    if (q->csv) return print_csv(c);
    if (q->json) return print_json(c);
    print_head(c);
    schedule_chart_text(c, stdout);
    print_bubble(c);
    print_peaks(c);
    if (q->svg[0]) printf("\nthe chart is in %s\n", q->svg);
    return OK;
}

/* Refuse an option that the user gave and that the requested output does not read. */
static enum status refuse_unread(const struct request *q, const struct options *o) {
    const bool timed = q->all || q->schedule == SCHEDULE_ZB_2P, file = q->schedule == SCHEDULE_FILE;
    const struct { const char *option; bool is_read; const char *remedy; } needs[] = {
        {"memory", timed, "give --schedule zb-2p or --all"}, {"held", timed, "give --schedule zb-2p or --all"},
        {"act-mib", q->all, "give --all"}, {"message-mib", q->all, "give --all"},
        {"schedule", !q->all, "leave --all out"}, {"svg", !q->all, "leave --all out"},
        {"csv", !q->all, "leave --all out"}, {"json", !q->all, "leave --all out"},
        {"chunks", !q->all, "leave --all out"}, {"json", !q->csv, "leave --csv out"},
        {"chunks", !file, "give --schedule interleaved"},
    };
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const char *name = needs[i].option;
        if (needs[i].is_read || options_source(o, name) == FROM_DEFAULT) continue;
        return FAIL(E_USAGE, "--%s: this schedule does not read it; %s, or leave --%s out", name, needs[i].remedy,
                    name);
    }
    return OK;
}

/* Refuse numbers of stages and microbatches that differ from the schedule file's. */
static enum status check_table(const struct request *q, const struct options *o, const struct pp_table *t) {
    const struct { const char *option; int64_t given, in_file; } sizes[] = {
        {"pp", q->pp, t->n_ranks}, {"microbatches", q->microbatches, t->n_microbatches}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (options_source(o, sizes[i].option) != FROM_DEFAULT && sizes[i].given != sizes[i].in_file)
            return FAIL(E_CONFIG, "%s=%" PRId64 ", and %s is a schedule of %" PRId64 "; leave --%s out",
                        sizes[i].option, sizes[i].given, q->file, sizes[i].in_file, sizes[i].option);
    return OK;
}

static enum status parse_and_show(void *request, struct options *o, int argc, char **argv) {
    struct request *q = request;
    TRY(options_parse(o, argc, argv));
    TRY(refuse_unread(q, o));
    double weight = q->time_w > 0 ? q->time_w : q->time_b / 2;
    if (weight >= q->time_b)
        return FAIL(E_CONFIG, "time-w=%g is part of time-b=%g, which is the whole backward; use less", q->time_w,
                    q->time_b);
    struct schedule_chart c = {.row = pp_schedule_at(q->schedule), .n_stages = (int)q->pp,
                               .n_chunks = (int)q->chunks, .n_microbatches = (int)q->microbatches, 
                               .time = {q->time_f, q->time_b - weight, weight}, .transfer = q->time_c,
                               .memory = (int)q->memory, .held = q->held};
    const struct pp_table *table;
    if (q->schedule == SCHEDULE_FILE) {
        TRY(pp_table_of(q->file, &table));
        TRY(check_table(q, o, table));
        c.row = &table->row, c.n_stages = table->n_ranks, c.n_chunks = 1, c.n_microbatches = table->n_microbatches;
    }
    enum status status = q->all ? schedule_all(&c, &q->sizes) : show(q, &c);
    schedule_chart_fini(&c);
    return status;
}

int schedule_main(int argc, char **argv) {
    static const struct option_table own = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
    static const struct command_alone c = {"trivium schedule [options]\n", &own, 1, false,
                                           sizeof(struct request), parse_and_show};
    return command_main(&c, argc, argv);
}
