/* The file: Trace Event Format (JSON object form). A rank is a process, a lane one of its threads. Times are
 * microseconds since the first span, rounded to nanoseconds, so that spans that nest in memory also nest in the file.
 *
 * Collectives of one group may be in flight at the same time. A thread can only show nested spans, so each collective
 * goes to the first lane of its group ("dp", "dp 2", ...) that has no other collective in flight.
 *
 * Source: Trace Event Format, the Chromium project; ui.perfetto.dev reads it. */
#include "lib/trace/trace_state.h"

#include "lib/base/grow.h"
#include "lib/base/output.h"
#include "lib/base/replace.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* thread numbers; the lanes of a group begin at (axis + 1) x LANES_A_GROUP */
enum { LANE_STEP = 1, LANE_COMPUTE, LANE_PIPELINE, LANES_A_GROUP = 1 << 16 };

struct writer {
    FILE *f;
    const struct trace_data *data;
    const struct plan *plan;
    const struct trace_rank *rank;       /* the rank that is being written */
    struct trace_sent *sent;
    int pid;
    bool comma;
    int error;                           /* errno of the first failure; later failures, and fclose, may set another
                                          * errno */
    /* [axis][lane]: the end of the lane's last collective */
    double *busy_until_s[N_MESH_AXES];
    int n_lanes[N_MESH_AXES];
};

/* ---- pieces of events ---- */
static int64_t ns_of(const struct writer *w, double time_s) {
    return trace_ns(time_s - w->data->start_s);
}
static void print_us(FILE *f, int64_t ns) { fprintf(f, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000)); }

static void begin_event(struct writer *w, const char *phase, const char *name, int tid) {
    fprintf(w->f, "%s{\"ph\":\"%s\",\"name\":\"%s\",\"pid\":%d", w->comma ? ",\n" : "\n", phase, name, w->pid);
    if (tid) fprintf(w->f, ",\"tid\":%d", tid);
    w->comma = true;
}

static void print_time(struct writer *w, const char *key, int64_t ns) {
    fprintf(w->f, ",\"%s\":", key);
    print_us(w->f, ns);
}

static void begin_span(struct writer *w, const char *name, const char *category, int tid, double start_s,
                       double end_s) {
    int64_t start = ns_of(w, start_s), end = ns_of(w, end_s);
    begin_event(w, "X", name, tid);
    fprintf(w->f, ",\"cat\":\"%s\"", category);
    print_time(w, "ts", start);
    print_time(w, "dur", end - start);
}

/* People count steps from 1, so files and messages do too. */
static void print_place(struct writer *w, const struct span *s) {
    fprintf(w->f, ",\"args\":{\"step\":%d", s->step + 1);
    if (s->microbatch >= 0) fprintf(w->f, ",\"microbatch\":%d,\"chunk\":%d", s->microbatch, s->chunk);
}

/* ---- names of processes and threads ---- */
static void name_thing(struct writer *w, const char *what, const char *name, int tid, int sort) {
    begin_event(w, "M", what, tid);
    fprintf(w->f, ",\"args\":{\"name\":\"%s\"}}", name);
    begin_event(w, "M", tid ? "thread_sort_index" : "process_sort_index", tid);
    fprintf(w->f, ",\"args\":{\"sort_index\":%d}}", sort);
}

static void name_rank(struct writer *w) {
    char at[64], name[96];
    snprintf(name, sizeof name, "rank %d %s", w->pid, mesh_place_text(&w->rank->place, at, sizeof at));
    name_thing(w, "process_name", name, 0, w->pid);
    name_thing(w, "thread_name", "step", LANE_STEP, LANE_STEP);
    name_thing(w, "thread_name", "compute", LANE_COMPUTE, LANE_COMPUTE);
    name_thing(w, "thread_name", "pipeline", LANE_PIPELINE, LANE_PIPELINE);
}

/* Axis 0 is the world, whose ranks agree on failures between steps. */
static const char *group_text(int axis) { return axis == 0 ? "world" : mesh_axis_name((enum mesh_axis)axis); }

static void name_lane(struct writer *w, int axis, int lane, int tid) {
    char name[64];
    if (lane == 0) snprintf(name, sizeof name, "%s", group_text(axis));
    else snprintf(name, sizeof name, "%s %d", group_text(axis), lane + 1);
    name_thing(w, "thread_name", name, tid, tid);
}

/* ---- collectives ---- */
static int lane_of(struct writer *w, const struct span *s) {
    int lane = 0, tid;
    double *until = w->busy_until_s[s->axis];
    while (lane < w->n_lanes[s->axis] && until[lane] > s->start_s) lane++;
    tid = LANES_A_GROUP * (s->axis + 1) + lane;
    if (lane == w->n_lanes[s->axis]) {
        until = w->busy_until_s[s->axis] = table_grow(until, lane, sizeof *until);
        w->n_lanes[s->axis]++;
        name_lane(w, s->axis, lane, tid);
    }
    until[lane] = s->end_s;
    return tid;
}

static void write_comm(struct writer *w, const struct span *s) {
    int tid = lane_of(w, s);
    double waited_s = s->wait_s == 0 ? 0 : s->end_s - s->wait_s;
    begin_span(w, trace_span_name(w->rank, s), "comm", tid, s->start_s, s->end_s);
    print_place(w, s);
    fprintf(w->f, ",\"group\":\"%s\",\"count\":%d,\"bytes\":%.0f,\"waited_us\":%.3f}}", group_text(s->axis), s->count,
            s->bytes, 1e6 * waited_s);
    if (s->wait_s == 0) return;
    begin_span(w, "wait", "wait", tid, s->wait_s > s->start_s ? s->wait_s : s->start_s, s->end_s);
    fputc('}', w->f);
}

/* ---- messages: an arrow from the send to the receive ---- */
static void write_arrow(struct writer *w, const struct span *s) {
    bool sends = s->what == SEND_F || s->what == SEND_B;
    int64_t start = ns_of(w, s->start_s), end = ns_of(w, s->end_s);
    begin_event(w, sends ? "s" : "f", "message", LANE_PIPELINE);
    fprintf(w->f, ",\"cat\":\"pipeline\",\"id\":%" PRId64 "%s", trace_message(w->data, w->plan, w->rank, s),
            sends ? "" : ",\"bp\":\"e\"");
    print_time(w, "ts", sends || end == start ? start : end - 1);    /* must lie inside of its span */
    fputc('}', w->f);
}

static void write_action(struct writer *w, const struct span *s) {
    bool compute = action_is_compute((enum action_kind)s->what);
    char name[64];
    snprintf(name, sizeof name, "%s %d", trace_span_name(w->rank, s), s->microbatch);
    begin_span(w, name, compute ? "action" : "pipeline", compute ? LANE_COMPUTE : LANE_PIPELINE, s->start_s, s->end_s);
    print_place(w, s);
    if (!compute) fprintf(w->f, ",\"bytes\":%.0f", s->bytes);
    fputs("}}", w->f);
    if (!compute) write_arrow(w, s);
}

/* ---- a rank ---- */
static void write_span(struct writer *w, const struct span *s) {
    char name[32];
    if (s->kind == SPAN_COMM) write_comm(w, s);
    else if (s->kind == SPAN_ACTION) write_action(w, s);
    else {
        bool step = s->kind == SPAN_STEP || s->kind == SPAN_PHASE;
        snprintf(name, sizeof name, "step %d", s->step + 1);
        begin_span(w, s->kind == SPAN_STEP ? name : trace_span_name(w->rank, s), step ? "step" : "row",
                   step ? LANE_STEP : LANE_COMPUTE, s->start_s, s->end_s);
        print_place(w, s);
        fprintf(w->f, "%s}}", trace_span_work(w->rank, s));
    }
}

static void write_counter(struct writer *w, const char *where, enum role role, double time_s, int64_t bytes) {
    char name[64];
    snprintf(name, sizeof name, "%s %s", where, role_name(role));
    begin_event(w, "C", name, 0);
    print_time(w, "ts", ns_of(w, time_s));
    fprintf(w->f, ",\"args\":{\"bytes\":%" PRId64 "}}", bytes);
}

/* ---- links ---- */
static void write_rate(struct writer *w, const struct link_rate *r) {
    double full = trace_link_bytes_per_s(w->data, r->link);
    const char *link = trace_link_name(w->data, r->link);
    char name[64];
    snprintf(name, sizeof name, "link %s", link);
    begin_event(w, "C", name, 0);
    print_time(w, "ts", r->at_ns);
    fprintf(w->f, ",\"args\":{\"bytes_per_s\":%.17g}}", r->bytes_per_s);
    if (full <= 0) return;
    snprintf(name, sizeof name, "link %s share", link);
    begin_event(w, "C", name, 0);
    print_time(w, "ts", r->at_ns);
    fprintf(w->f, ",\"args\":{\"percent\":%.6g}}", 100 * r->bytes_per_s / full);
}

static void write_links(struct writer *w) {
    int n = 0;
    struct link_message *messages = trace_sent_by(w->sent, w->pid, &n);
    struct link_rate *rates = link_rates(messages, n, &n);
    for (int i = 0; i < n; i++) write_rate(w, &rates[i]);
    free(rates);
    free(messages);
}

static void write_rank(struct writer *w) {
    const struct trace_rank *r = w->rank;
    memset(w->n_lanes, 0, sizeof w->n_lanes);
    name_rank(w);
    for (int i = 0; i < r->n_spans; i++) write_span(w, &r->spans[i]);
    for (int i = 0; i < r->n_memory; i++)
        if (r->planned[r->memory[i].role] > 0)
            write_counter(w, "memory", (enum role)r->memory[i].role, r->memory[i].time_s, r->memory[i].bytes);
    for (enum role role = 0; role < N_ROLES; role++)
        if (r->planned_host[role] > 0)
            write_counter(w, "host memory", role, r->n_spans ? r->spans[0].start_s : w->data->start_s,
                          r->planned_host[role]);
    write_links(w);
}

/* ---- the file's description of the run ---- */
static json_t *roles_json(const int64_t bytes[N_ROLES]) {
    json_t *o = json_object();
    for (enum role role = 0; role < N_ROLES; role++)
        if (bytes[role]) json_object_set_new(o, role_name(role), json_integer((json_int_t)bytes[role]));
    return o;
}

/* A host's name may be any bytes. If they are no valid UTF-8 (for example cut inside a character), each byte that is
 * not ASCII becomes '?'. */
static json_t *host_json(const char *host) {
    char plain[sizeof ((struct trace_rank *)0)->host];
    json_t *x = json_string(host);
    if (x) return x;
    snprintf(plain, sizeof plain, "%s", host);
    for (char *c = plain; *c; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    return json_string(plain);
}

static json_t *ranks_json(const struct trace_data *d) {
    json_t *ranks = json_array();
    for (int i = 0; i < d->n_ranks; i++) {
        const struct trace_rank *r = &d->ranks[i];
        json_array_append_new(ranks, json_pack("{s:i, s:o, s:f, s:f, s:I, s:o, s:o}", "rank", i, "host",
                                               host_json(r->host), "clock_offset_us", 1e6 * r->offset_s,
                                               "clock_uncertainty_us", 1e6 * r->uncertainty_s, "spans_dropped",
                                               (json_int_t)r->dropped, "planned_bytes", roles_json(r->planned),
                                               "planned_host_bytes", roles_json(r->planned_host)));
    }
    return ranks;
}

/* The rates that shares are parts of: {"node": bytes per second, ...}, of the cluster's file. */
static json_t *links_json(const struct trace_data *d) {
    json_t *o = json_object();
    for (int l = 0; l < trace_n_links(d) + 2; l++)
        if (trace_link_bytes_per_s(d, l) > 0)
            json_object_set_new(o, trace_link_name(d, l), json_real(trace_link_bytes_per_s(d, l)));
    return o;
}

static json_t *about_json(const struct trace_data *d, const struct plan *p) {
    struct trace_bubble b = trace_bubble(d);
    json_t *about =
        json_pack("{s:s, s:s, s:I, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:s, s:s, s:o}", "program", "trivium", "model",
                  p->model, "first_step", (json_int_t)d->first_step + 1, "steps", (json_int_t)d->n_steps,
                  "microbatches", p->n_microbatches, "pipeline_window_us", 1e6 * b.window_s, "bubble_us",
                  1e6 * b.idle_s, "forward_us", 1e6 * b.forward_s, "backward_us", 1e6 * b.backward_s,
                  "weight_us", 1e6 * b.weight_s, "clock",
                  "microseconds on rank 0's clock since the first span; a rank's times are off by at most its "
                  "clock_uncertainty_us",
                  "memory",
                  "bytes alive by the plan when a row begins; planned_bytes, which is allocated, is more by what "
                  "packing wastes",
                  "ranks", ranks_json(d));
    if (about) json_object_set_new(about, "link_bytes_per_s", links_json(d));
    for (int k = 0; about && k < N_DIMS; k++) json_object_set_new(about, mesh_dim_name(k), json_integer(p->mesh.at[k]));
    return about;
}

static void note_error(struct writer *w, bool failed) {
    if (failed && !w->error) w->error = errno ? errno : EIO;
}

static void write_all(struct writer *w) {
    json_t *about = about_json(w->data, w->plan);
    if (!about) errno = ENOMEM;
    note_error(w, !about);
    if (!about) return;
    fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":", w->f);
    note_error(w, json_dumpf(about, w->f, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0);
    json_decref(about);
    fputs(",\"traceEvents\":[", w->f);
    w->sent = trace_sent_create(w->data, w->plan);
    for (w->pid = 0; w->pid < w->data->n_ranks && !w->error; w->pid++) {
        w->rank = &w->data->ranks[w->pid];
        write_rank(w);
        note_error(w, ferror(w->f) != 0);
    }
    trace_sent_destroy(&w->sent);
    fputs("\n]}\n", w->f);
    note_error(w, ferror(w->f) != 0);
}

enum status trace_write(const struct trace_data *d, const struct plan *p, const char *path) {
    struct writer w = {.f = replace_begin(path), .data = d, .plan = p};
    if (!w.f) return FAIL(E_IO, "cannot write trace=%s: %s; give another path", path, output_why(errno));
    errno = 0;
    write_all(&w);
    for (int axis = 0; axis < N_MESH_AXES; axis++) free(w.busy_until_s[axis]);
    note_error(&w, !replace_end(path, w.f, w.error == 0));
    return w.error ? FAIL(E_IO, "cannot write trace=%s: %s", path, strerror(w.error)) : OK;
}
