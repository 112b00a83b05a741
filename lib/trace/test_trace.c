/* ranks: 1 2 4  device: any
 *
 * Traces of real steps, in layouts that use every lane. Every action, row and collective must be recorded once, in its
 * place, on one clock, and tracing must change no number. */
#include "driver/recipe.h"
#include "lib/trace/trace.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARM = 1, TRACED = 2, MAX_LAYOUTS = 4 };

static int list_layouts(struct plan *p) {
    int world = comm_world_size(), n = world == 1 ? 2 : world == 2 ? 4 : 3;
    for (int i = 0; i < n; i++) {
        p[i] = parity_plan();
        p[i].layers = 4;
        p[i].micro_batch = 2;
        p[i].steps = WARM + TRACED;
        if (test_device()->kind == DEVICE_CPU) continue;
        p[i].device = PLAN_DEVICE_CUDA;
        p[i].global_batch = 8, p[i].hidden = p[i].heads = 4;         /* an emulated GPU is slow */
    }
    if (world == 1) plan_set_word(&p[1], "park", "all", 0);
    if (world == 2) {
        p[0].mesh.pp = 2;
        p[1].mesh.tp = 2;
        p[2].mesh.dp = 2;
        plan_set_number(&p[2], "zero", 3);
        p[3].mesh.pp = 2;
        pp_options(&p[3])->schedule = SCHEDULE_ZB_V;                 /* the second chunks go back up the ranks */
    }
    if (world == 4) {
        p[0].mesh.pp = p[0].mesh.dp = 2;
        p[1].mesh.tp = p[1].mesh.pp = 2;
        pp_options(&p[1])->schedule = SCHEDULE_INTERLEAVED;
        pp_options(&p[1])->chunks = 2;
        p[2].mesh.dp = p[2].mesh.tp = 2;
        plan_set_number(&p[2], "zero", 1);
        plan_set_number(&p[2], "sp", true);
    }
    return n;
}

/* ---- a traced run ---- */
struct traced {
    struct run run;
    struct trace_data data;              /* at rank 0 */
    double loss[TRACED], norm[TRACED];
    double ledger_bytes[N_MESH_AXES];    /* bytes of the traced steps' collectives, over all ranks */
    double sent_bytes;                   /* bytes of the messages */
};

static void add_ledgers(const struct mesh *mesh, double sign, double *bytes) {
    for (int axis = AXIS_TP; axis < N_MESH_AXES; axis++)
        for (int op = 0; op < N_COMM_OPS; op++) {
            const struct ledger_entry *e = &group_ledger(mesh->group[axis])->entry[op];
            bytes[op == COMM_SEND ? 0 : axis] += sign * e->bytes;
        }
}

static enum status run_steps(struct traced *t) {
    double bytes[N_MESH_AXES] = {0};
    add_ledgers(&t->run.mesh, -1, bytes);
    for (int i = 0; i < TRACED; i++) {
        TRY(run_step(&t->run));
        t->loss[i] = t->run.last.loss;
        t->norm[i] = t->run.last.grad_norm;
    }
    add_ledgers(&t->run.mesh, 1, bytes);
    memcpy(t->ledger_bytes, bytes, sizeof bytes);
    return OK;
}

static enum status run_traced(struct traced *t) {
    struct trace *trace;
    TRY(trace_create(&t->run, TRACED, NULL, &trace));
    enum status status = trace_start(trace);
    if (status == OK) status = run_steps(t);
    if (status == OK) status = trace_stop(trace);
    if (status == OK) status = trace_gather(trace, &t->data);
    trace_destroy(&trace);
    return status;
}

/* @collective{world} */
static enum status train(struct plan p, bool traced, struct traced *t) {
    *t = (struct traced){0};
    TRY(layout_open(&t->run, p, WATCH_NOTHING));
    for (int i = 0; i < WARM; i++) TRY(run_step(&t->run));
    TRY(traced ? run_traced(t) : run_steps(t));
    TRY(comm_all_reduce(group_world(), t->ledger_bytes, N_MESH_AXES, FP64, COMM_SUM));
    t->sent_bytes = t->ledger_bytes[0];
    return OK;
}

static void finish(struct traced *t) {
    trace_data_fini(&t->data);
    run_destroy(&t->run);
}

/* ---- spans ---- */
/* Every step must have the schedule's actions, in order. Any rank's schedule can be compiled here: it is pure. */
static const char *check_actions(const struct traced *t) {
    for (int rank = 0; rank < t->data.n_ranks; rank++) {
        const struct trace_rank *r = &t->data.ranks[rank];
        struct run compiled = {0};
        if (run_compile(&compiled, &train_recipe, &t->run.plan, rank, NULL, NULL) != OK) return "does not compile";
        int n = compiled.schedule.n, seen = 0;
        const char *wrong = NULL;
        for (int i = 0; i < r->n_spans; i++) {
            const struct span *s = &r->spans[i];
            if (s->kind != SPAN_ACTION) continue;
            const struct action *a = &compiled.schedule.actions[seen % n];
            if ((int)a->kind != s->what || a->chunk != s->chunk || a->microbatch != s->microbatch ||
                s->action != seen % n)
                wrong = "another action";
            if (s->step != WARM + seen++ / n) wrong = "an action of another step";
        }
        run_destroy(&compiled);
        if (wrong || seen != TRACED * n) return wrong ? wrong : "not as many actions as the schedule has";
        if (r->dropped) return "spans were dropped";
    }
    return t->data.n_ranks == comm_world_size() && t->data.first_step == WARM && t->data.n_steps == TRACED
               ? NULL
               : "not the steps that were traced";
}

/* Copies between rows that run as one kernel lie at its beginning or end. */
static bool lies_between(const struct span *s, const struct span *row) {
    return row_kind_is_copy((enum row_kind)s->what) && row->other >= 0 && s->row > row->row &&
           s->start_s == s->end_s && (s->start_s == row->start_s || s->start_s == row->end_s);
}

/* Rows must lie inside their action, one after the other, in the order of the tape. */
static const char *check_rows(const struct traced *t) {
    for (int rank = 0; rank < t->data.n_ranks; rank++) {
        const struct trace_rank *r = &t->data.ranks[rank];
        const struct span *action = NULL, *row = NULL;
        int n_rows = 0;
        for (int i = 0; i < r->n_spans; i++) {
            const struct span *s = &r->spans[i];
            if (s->kind == SPAN_ACTION) {
                action = s;
                row = NULL;
            }
            if (s->kind != SPAN_ROW) continue;
            n_rows++;
            if (!action || s->start_s < action->start_s || s->end_s > action->end_s ||
                s->microbatch != action->microbatch)
                return "a row outside of its action";
            if (!strlen(trace_span_name(r, s))) return "a row without a name";
            if (row && lies_between(s, row)) continue;
            if (row && (s->start_s < row->end_s || s->row <= row->row))
                return "a row before the one before it has ended";
            row = s;
        }
        if (n_rows < TRACED * r->n_steps) return "fewer rows than steps of the program";
    }
    return NULL;
}

static bool is_send(const struct span *s) {
    return s->kind == SPAN_ACTION && (s->what == SEND_F || s->what == SEND_B);
}

/* The collectives' bytes must be the ledger's, axis by axis; the bytes of sends to other ranks must
 * be the bytes that were sent. */
static const char *check_bytes(const struct traced *t) {
    double bytes[N_MESH_AXES] = {0};
    for (int rank = 0; rank < t->data.n_ranks; rank++)
        for (int i = 0; i < t->data.ranks[rank].n_spans; i++) {
            const struct span *s = &t->data.ranks[rank].spans[i];
            if (s->kind == SPAN_COMM) bytes[s->axis] += s->bytes;
            else if (is_send(s) && s->id != t->data.ranks[rank].place.rank.pp) bytes[0] += s->bytes;
            if (s->kind == SPAN_COMM &&
                (s->end_s < s->start_s || (s->wait_s != 0 && (s->wait_s < s->start_s || s->wait_s > s->end_s))))
                return "a collective that ends before its wait";
        }
    for (int axis = AXIS_TP; axis < N_MESH_AXES; axis++)
        if (bytes[axis] != t->ledger_bytes[axis]) return mesh_axis_name((enum mesh_axis)axis);
    return bytes[0] == t->sent_bytes ? NULL : "other bytes sent";
}

/* ---- one clock: no message is received before it is sent ---- */
static const struct span *find_send(const struct trace_rank *r, const struct span *receive, int chunk) {
    int wanted = receive->what == RECV_F ? SEND_F : SEND_B;
    for (int i = 0; i < r->n_spans; i++) {
        const struct span *s = &r->spans[i];
        if (s->kind == SPAN_ACTION && s->what == wanted && s->microbatch == receive->microbatch &&
            s->step == receive->step && s->chunk == chunk)
            return s;
    }
    return NULL;
}

static const char *check_messages(const struct traced *t) {
    int between = t->data.n_ranks / (int)t->run.plan.mesh.pp;        /* ranks of one stage */
    for (int rank = 0; rank < t->data.n_ranks; rank++)
        for (int i = 0; i < t->data.ranks[rank].n_spans; i++) {
            const struct span *s = &t->data.ranks[rank].spans[i];
            if (s->kind != SPAN_ACTION || (s->what != RECV_F && s->what != RECV_B)) continue;
            int from = s->id * between + rank % between;
            const struct span *sent = find_send(&t->data.ranks[from], s, s->row);
            if (!sent || sent->bytes != s->bytes || sent->id != rank / between || sent->row != s->chunk)
                return "received and not sent";
            double uncertainty_s = t->data.ranks[rank].uncertainty_s + t->data.ranks[from].uncertainty_s;
            if (s->end_s < sent->start_s - uncertainty_s) return "received before it was sent";
        }
    return NULL;
}

/* ---- memory: at most the plan's bytes, at least the resident bytes, in the order of time ---- */
static const char *check_memory(const struct traced *t) {
    for (int rank = 0; rank < t->data.n_ranks; rank++) {
        const struct trace_rank *r = &t->data.ranks[rank];
        int64_t most[N_ROLES] = {0}, last[N_ROLES] = {0}, first[N_ROLES] = {0};
        for (int i = 0; i < r->n_memory; i++) {
            const struct trace_memory *m = &r->memory[i];
            if (i > 0 && m->time_s < r->memory[i - 1].time_s) return "memory that goes back in time";
            if (i < N_ROLES) first[m->role] = m->bytes;
            last[m->role] = m->bytes;
            if (m->bytes > most[m->role]) most[m->role] = m->bytes;
        }
        for (int role = 0; role < N_ROLES; role++)
            if (most[role] > r->planned[role] || first[role] != last[role])
                return "memory above the plan, or left over";
        if (most[ROLE_ACT] < r->planned[ROLE_ACT] / 2 || last[ROLE_ACT] != 0)
            return "activations that come to nothing near the plan";
    }
    return NULL;
}

/* ---- the file ---- */
enum { MAX_LANES = 1024, MAX_DEPTH = 16 };
struct lane { json_int_t pid, tid; double ends[MAX_DEPTH]; int depth; };

/* In the file's order, a span of a lane lies inside of an open span, or begins after its end. */
static const char *check_nesting(const json_t *event, struct lane *lanes, int *n_lanes) {
    json_int_t pid = json_integer_value(json_object_get(event, "pid")),
               tid = json_integer_value(json_object_get(event, "tid"));
    double start = json_number_value(json_object_get(event, "ts")),
           end = start + json_number_value(json_object_get(event, "dur"));
    const double ns = 1e-3;
    int i = 0;
    while (i < *n_lanes && (lanes[i].pid != pid || lanes[i].tid != tid)) i++;
    if (i == MAX_LANES) return "too many lanes";
    if (i == *n_lanes) lanes[(*n_lanes)++] = (struct lane){.pid = pid, .tid = tid};
    struct lane *l = &lanes[i];
    while (l->depth > 0 && l->ends[l->depth - 1] <= start + ns / 2) l->depth--;
    if (l->depth == MAX_DEPTH) return "too deep";
    if (l->depth > 0 && end > l->ends[l->depth - 1] + ns / 2) return "a span that reaches out of another";
    if (start < 0 || end < start) return "a span that ends before it starts";
    l->ends[l->depth++] = end;
    return NULL;
}

struct census { int spans, actions, sends, receives, counters, processes; };

static const char *check_event(const json_t *event, struct lane *lanes, int *n_lanes, struct census *c) {
    const char *ph = json_string_value(json_object_get(event, "ph")),
               *name = json_string_value(json_object_get(event, "name"));
    const char *cat = json_string_value(json_object_get(event, "cat"));
    if (!ph || !name) return "an event without a phase or a name";
    if (!strcmp(ph, "X")) {
        c->spans++;
        c->actions += cat && !strcmp(cat, "action");
        return check_nesting(event, lanes, n_lanes);
    }
    c->sends += !strcmp(ph, "s");
    c->receives += !strcmp(ph, "f");
    c->counters += !strcmp(ph, "C");
    c->processes += !strcmp(name, "process_name");
    return NULL;
}

/* Each arrow must have one begin and one end. */
static bool arrows_match(const json_t *events, int n_arrows) {
    json_t *open = json_object();
    size_t i;
    const json_t *event;
    bool fine = true;
    json_array_foreach(events, i, event) {
        const char *ph = json_string_value(json_object_get(event, "ph"));
        char key[32];
        if (strcmp(ph, "s") != 0) continue;
        snprintf(key, sizeof key, "%lld", (long long)json_integer_value(json_object_get(event, "id")));
        fine = fine && !json_object_get(open, key);
        json_object_set_new(open, key, json_true());
    }
    json_array_foreach(events, i, event) {
        const char *ph = json_string_value(json_object_get(event, "ph"));
        char key[32];
        if (strcmp(ph, "f") != 0) continue;
        snprintf(key, sizeof key, "%lld", (long long)json_integer_value(json_object_get(event, "id")));
        fine = fine && json_object_del(open, key) == 0;
    }
    fine = fine && json_object_size(open) == 0 && n_arrows >= 0;
    json_decref(open);
    return fine;
}

static const char *check_events(const struct traced *t, const json_t *events) {
    static struct lane lanes[MAX_LANES];
    struct census c = {0};
    int n_lanes = 0, n_actions = 0, n_messages = 0;
    size_t i;
    const json_t *event;
    json_array_foreach(events, i, event) {
        const char *wrong = check_event(event, lanes, &n_lanes, &c);
        if (wrong) return wrong;
    }
    for (int rank = 0; rank < t->data.n_ranks; rank++)
        for (int k = 0; k < t->data.ranks[rank].n_spans; k++) {
            const struct span *s = &t->data.ranks[rank].spans[k];
            if (s->kind != SPAN_ACTION) continue;
            n_actions += action_is_compute((enum action_kind)s->what);
            n_messages += s->what == SEND_F || s->what == SEND_B;
        }
    if (c.actions != n_actions || c.processes != t->data.n_ranks || c.counters == 0)
        return "not all of the actions, ranks and counters";
    if (c.sends != n_messages || c.receives != n_messages || !arrows_match(events, n_messages))
        return "arrows that lead nowhere";
    return NULL;
}

/* ---- links: nodes of two ranks ---- */
static const struct trace_links two_levels = {.n = 2, .host_bytes_per_s = 4e9,
                                              .level = {{"node", 2, 2e9}, {"net", INT64_MAX, 5e8}}};
enum { N_TRACKS = 4, MAX_LINK_RANKS = 4 };
static const char *const TRACKS[N_TRACKS] = {"link node", "link net", "link to host", "link from host"};

/* What each counter says: bytes, the integral of the rate over time, and the same as parts of the full rate. */
struct track { double bytes, parts_s, rate, percent, at_us, share_at_us; bool is_known; };

static void add_counter(const json_t *event, struct track *tracks) {
    const char *name = json_string_value(json_object_get(event, "name"));
    const json_t *args = json_object_get(event, "args");
    double at_us = json_number_value(json_object_get(event, "ts"));
    for (int k = 0; k < N_TRACKS; k++) {
        struct track *x = &tracks[json_integer_value(json_object_get(event, "pid")) * N_TRACKS + k];
        if (strncmp(name, TRACKS[k], strlen(TRACKS[k])) != 0) continue;
        if (!strcmp(name + strlen(TRACKS[k]), " share")) {
            x->parts_s += x->percent / 100 * (at_us - x->share_at_us) / 1e6;
            x->share_at_us = at_us, x->is_known = true;
            x->percent = json_number_value(json_object_get(args, "percent"));
        } else {
            x->bytes += x->rate * (at_us - x->at_us) / 1e6;
            x->at_us = at_us;
            x->rate = json_number_value(json_object_get(args, "bytes_per_s"));
        }
    }
}

/* Sums of scalars over the mesh (loss, norm) are in no bill. */
static double mesh_bytes(const struct trace_rank *r) {
    double bytes = 0;
    for (int i = 0; i < r->n_spans; i++)
        if (r->spans[i].kind == SPAN_COMM && r->spans[i].axis == AXIS_MESH) bytes += r->spans[i].bytes;
    return bytes;
}

/* A rank's bytes of all steps, by track, from its bill: over a pair's link; of a group of four, a third between nodes.
 * Without levels all ranks are on this host. */
static void bill_links(const struct traced *t, int rank, const struct run *r, double bytes[N_TRACKS]) {
    for (int axis = AXIS_TP; axis < N_MESH_AXES; axis++) {
        const struct mesh_place *at = &r->plan.place;
        int n = mesh_size((enum mesh_axis)axis, at), stride = mesh_stride((enum mesh_axis)axis, at);
        double far = t->data.links.n == 0 ? 0 : n == 4 ? 1. / 3 : stride >= 2;
        double sent = TRACED * r->bill.wire_bytes[axis] + (axis == AXIS_MESH ? mesh_bytes(&t->data.ranks[rank]) : 0);
        bytes[0] += (1 - far) * sent;
        bytes[1] += far * sent;
    }
    bytes[2] = bytes[3] = TRACED * (double)r->bill.parked_bytes / 2;
}

static const char *check_rank_links(const struct traced *t, int rank, const struct track *x) {
    struct run compiled = {0};
    double bytes[N_TRACKS] = {0};
    if (run_compile(&compiled, &train_recipe, &t->run.plan, rank, NULL, NULL) != OK) return "does not compile";
    bill_links(t, rank, &compiled, bytes);
    run_destroy(&compiled);
    for (int k = 0; k < N_TRACKS; k++) {
        double full = k < 2 ? two_levels.level[k].bytes_per_s : two_levels.host_bytes_per_s;
        if (llround(x[k].bytes) != llround(bytes[k]) || x[k].rate != 0) return "other bytes than the bill's";
        if (x[k].is_known != (t->data.links.n > 0 && bytes[k] > 0)) return "a share without a rate, or none with one";
        if (x[k].is_known && fabs(x[k].parts_s * full / x[k].bytes - 1) > 1e-5) return "another share of the rate";
    }
    return NULL;
}

static const char *check_links(const struct traced *t, const json_t *events) {
    struct track tracks[MAX_LINK_RANKS * N_TRACKS] = {{0}};
    size_t i;
    const json_t *event;
    const char *wrong = NULL;
    json_array_foreach(events, i, event)
        if (!strcmp(json_string_value(json_object_get(event, "ph")), "C")) add_counter(event, tracks);
    for (int rank = 0; rank < t->data.n_ranks && !wrong; rank++)
        wrong = check_rank_links(t, rank, &tracks[rank * N_TRACKS]);
    return wrong;
}

static const char *check_one_file(const struct traced *t) {
    const char *path = test_path("trace.json");
    json_error_t error;
    if (trace_write(&t->data, &t->run.plan, path) != OK) return status_text();
    json_t *file = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!file) return "no JSON";
    const json_t *ranks = json_object_get(json_object_get(file, "otherData"), "ranks");
    const char *wrong = check_events(t, json_object_get(file, "traceEvents"));
    if (!wrong) wrong = check_links(t, json_object_get(file, "traceEvents"));
    if (json_array_size(ranks) != (size_t)t->data.n_ranks ||
        !json_object_get(json_array_get(ranks, 0), "clock_uncertainty_us"))
        wrong = "nothing said of the clocks";
    json_decref(file);
    return wrong;
}

static const char *check_file(const struct traced *t) {
    struct traced known = *t;
    known.data.links = two_levels;
    const char *wrong = check_one_file(t);
    return wrong ? wrong : check_one_file(&known);
}

/* ---- all checks, in every layout ---- */
static const char *check_all(const struct traced *t) {
    static const struct { const char *name; const char *(*check)(const struct traced *); } CHECKS[] = {
        {"actions", check_actions}, {"rows", check_rows}, {"bytes", check_bytes}, {"messages", check_messages},
        {"memory", check_memory}, {"file", check_file}};
    static char text[128];
    if (!comm_is_rank_0()) return t->data.n_ranks ? "data beyond rank 0" : NULL;
    for (size_t i = 0; i < sizeof CHECKS / sizeof *CHECKS; i++) {
        const char *wrong = CHECKS[i].check(t);
        snprintf(text, sizeof text, "%s: %s", CHECKS[i].name, wrong ? wrong : "");
        if (wrong) return text;
    }
    return NULL;
}

TEST(test_a_trace_says_what_happened) {
    struct plan plans[MAX_LAYOUTS];
    for (int i = 0, n = list_layouts(plans); i < n; i++) {
        struct traced t;
        const char *wrong = train(plans[i], true, &t) == OK ? check_all(&t) : status_text();
        if (wrong) print_error("%s: %s\n", layout_name(&plans[i]), wrong);
        bool fine = agree_all(!wrong);
        finish(&t);
        assert_true(fine);
    }
}

/* A copy of the params in host memory; the caller frees it. */
static void *params_of(const struct run *r) {
    const struct arena *a = &r->arenas[TIER_DEVICE][ROLE_PARAM];
    void *copy = malloc((size_t)a->bytes + 1);
    assert_ok(r->device->download(r->device, copy, a->base, a->bytes));
    return copy;
}

/* Losses, norms, weights and sent bytes are equal bit for bit. */
TEST(test_tracing_changes_no_number) {
    struct plan plans[MAX_LAYOUTS];
    list_layouts(plans);
    struct traced with, without;
    bool fine = train(plans[0], true, &with) == OK && train(plans[0], false, &without) == OK;
    void *a = params_of(&with.run), *b = params_of(&without.run);
    fine = fine && !memcmp(with.loss, without.loss, sizeof with.loss) &&
           !memcmp(with.norm, without.norm, sizeof with.norm) &&
           !memcmp(with.ledger_bytes, without.ledger_bytes, sizeof with.ledger_bytes) &&
           !memcmp(a, b, (size_t)with.run.arenas[TIER_DEVICE][ROLE_PARAM].bytes);
    free(a);
    free(b);
    fine = agree_all(fine);
    finish(&with);
    finish(&without);
    assert_true(fine);
}

TEST(test_a_file_that_cannot_be_written_is_named) {
    struct plan p = parity_plan();
    struct trace_data none = {0};
    assert_fails(trace_write(&none, &p, "/nonexistent/trace.json"), E_IO, "trace=/nonexistent/trace.json",
                 "another path");
}

TEST(test_a_full_disk_is_named) {
    enum { MANY = 64 };                                              /* more than one buffer, so that not only the last
                                                                      * write fails */
    static struct trace_rank ranks[MANY];
    struct plan p = parity_plan();
    const struct trace_data d = {.n_ranks = MANY, .ranks = ranks, .n_steps = 1};
    assert_fails(trace_write(&d, &p, "/dev/full"), E_IO, "trace=/dev/full", "No space left");
}

/* With a host name in Latin-1, or in UTF-8 cut inside a character, the file is still JSON. A valid UTF-8 name is
 * unchanged. */
TEST(test_a_host_may_have_any_name) {
    static const char *const expected[] = {"k?ln", "knoten?", "k\xc3\xb6ln"};
    struct plan p = parity_plan();
    struct trace_rank ranks[] = {{.host = "k\xf6ln"}, {.host = "knoten\xc3"}, {.host = "k\xc3\xb6ln"}};
    const struct trace_data d = {.n_ranks = 3, .ranks = ranks, .n_steps = 1};
    char path[] = "/tmp/trivium-trace-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    enum status status = trace_write(&d, &p, path);
    json_t *x = json_load_file(path, 0, NULL), *named = json_object_get(json_object_get(x, "otherData"), "ranks");
    unlink(path);
    assert_ok(status);
    assert_int_equal(json_array_size(named), 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(json_string_value(json_object_get(json_array_get(named, i), "host")), expected[i]);
    json_decref(x);
}

/* ---- the bubble of two ranks and one step, by hand; a third rank only serves, and does not count ----
 *
 *   rank 0   F0 F1 .  .  B0 B0 .  .  B1 B1       F: 1, B: 2; the window is 10, work is 6 on both, idle 4
 *   rank 1   .  F0 B0 B0 F1 B1 B1 .  .  .  */
TEST(test_bubble_is_what_is_left_of_the_window) {
    struct span a[] = {{.kind = SPAN_ACTION, .what = ACTION_F, .start_s = 0, .end_s = 1},
                       {.kind = SPAN_ACTION, .what = ACTION_F, .start_s = 1, .end_s = 2, .microbatch = 1},
                       {.kind = SPAN_ACTION, .what = RECV_B, .start_s = 2, .end_s = 4},
                       {.kind = SPAN_ACTION, .what = ACTION_B, .start_s = 4, .end_s = 6},
                       {.kind = SPAN_ACTION, .what = ACTION_B, .start_s = 8, .end_s = 10, .microbatch = 1}};
    struct span b[] = {{.kind = SPAN_ACTION, .what = ACTION_F, .start_s = 1, .end_s = 2},
                       {.kind = SPAN_ACTION, .what = ACTION_B, .start_s = 2, .end_s = 4},
                       {.kind = SPAN_ACTION, .what = ACTION_F, .start_s = 4, .end_s = 5, .microbatch = 1},
                       {.kind = SPAN_ACTION, .what = ACTION_B, .start_s = 5, .end_s = 7, .microbatch = 1}};
    struct trace_rank ranks[] = {{.n_spans = 5, .spans = a}, {.n_spans = 4, .spans = b}, {.n_spans = 0}};
    const struct trace_data d = {.n_ranks = 3, .ranks = ranks, .start_s = 0, .end_s = 20, .n_steps = 1};
    struct trace_bubble bubble = trace_bubble(&d);
    assert_close(bubble.window_s, 10, 1e-12);
    assert_close(bubble.forward_s, 1, 1e-12);
    assert_close(bubble.backward_s, 2, 1e-12);
    assert_close(bubble.idle_s, 4, 1e-12);
}

TESTS(unit_test(test_a_trace_says_what_happened), unit_test(test_tracing_changes_no_number),
      unit_test(test_a_file_that_cannot_be_written_is_named), unit_test(test_a_full_disk_is_named),
      unit_test(test_a_host_may_have_any_name), unit_test(test_bubble_is_what_is_left_of_the_window))
