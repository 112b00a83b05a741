/* Gather all ranks' spans at rank 0 of the mesh, on its clock. Each rank packs its data into a parcel: a header of
 * fixed size, and arrays whose lengths the header holds. Then rank 0 receives the parcels, rank by rank. */
#include "lib/base/grow.h"
#include "lib/comm/comm_request.h"
#include "lib/trace/trace_state.h"

#include <stdlib.h>
#include <string.h>

/* Sent as plain bytes, because all ranks run the same binary on one kind of machine. */
struct header {
    struct mesh_place place;
    char host[64];
    double offset_s, uncertainty_s;
    int64_t dropped, planned[N_ROLES], planned_host[N_ROLES], text_bytes;
    int32_t n_spans, n_memory, n_names, n_steps, n_params, node;
};

struct parcel { struct header header; struct span *spans; struct trace_memory *memory; char *text; };

static void parcel_fini(struct parcel *p) {
    free(p->spans);
    free(p->memory);
    free(p->text);
    *p = (struct parcel){0};
}

/* ---- packing this rank's data ---- */
static const struct tape *tape_of(const struct run *r, const struct span *s) {
    return &r->chunks[s->chunk].tapes[r->schedule.actions[s->action].kind];
}

/* The other end of a message, and the bytes of a copy: the table says them, so the step need not. */
static void complete(const struct run *r, struct span *s) {
    if (s->kind == SPAN_ACTION && !action_is_compute((enum action_kind)s->what)) {
        struct hop peer = schedule_hop(&r->schedule, &r->schedule.actions[s->action]);
        s->id = peer.rank, s->row = peer.chunk;
    }
    if (s->kind == SPAN_ROW && (s->what == ROW_PARK || s->what == ROW_UNPARK))
        s->bytes = (double)r->chunks[s->chunk].values[tape_of(r, s)->rows[s->row].in[0]].bytes;
}

/* Copies between two rows that run as one kernel have no spans of their own. What the kernel needs has been awaited
 * when it begins; what it has made is copied when it ends. @return their number */
static int copies_between(const struct run *r, struct span s, struct span *out) {
    int n = 0;
    if (s.kind != SPAN_ROW || s.other < 0) return 0;
    const struct row *rows = tape_of(r, &s)->rows;
    for (int i = s.row + 1; i < s.row + rows[s.row].joined - 1; i++) {
        if (!row_kind_is_copy(rows[i].kind)) continue;
        if (out) {
            double at_s = rows[i].kind == ROW_COPIED ? s.start_s : s.end_s;
            out[n] = s;
            out[n].what = (uint8_t)rows[i].kind, out[n].id = rows[i].id, out[n].row = i, out[n].other = -1;
            out[n].start_s = out[n].end_s = at_s;
        }
        n++;
    }
    return n;
}

static enum status pack_spans(const struct trace *t, struct parcel *p) {
    int n = t->spans.n, at = 0;
    for (int i = 0; i < t->spans.n; i++) n += copies_between(t->run, t->spans.span[i], NULL);
    p->spans = malloc(((size_t)n + 1) * sizeof *p->spans);
    if (!p->spans) return FAIL(E_MEMORY, "no memory for a copy of %d spans; record fewer steps", n);
    for (int i = 0; i < t->spans.n; i++) {
        p->spans[at++] = t->spans.span[i];
        at += copies_between(t->run, t->spans.span[i], &p->spans[at]);
    }
    for (int i = 0; i < n; i++) {
        struct span *s = &p->spans[i];
        complete(t->run, s);
        s->start_s = clock_at_rank_0(&t->before, &t->after, s->start_s);
        s->end_s = clock_at_rank_0(&t->before, &t->after, s->end_s);
        if (s->wait_s != 0) s->wait_s = clock_at_rank_0(&t->before, &t->after, s->wait_s);
    }
    p->header.n_spans = n;
    return OK;
}

static enum status pack_names(const struct run *r, struct parcel *p) {
    struct trace_rank names;
    TRY(trace_names_of(r, &names));
    p->text = names.text, names.text = NULL;
    p->header.text_bytes = names.text_bytes;
    p->header.n_steps = names.n_steps, p->header.n_params = names.n_params, p->header.n_names = names.n_names;
    trace_names_fini(&names);
    return OK;
}

/* ---- memory: the plan's time line, at the recorded start times of its rows ---- */
struct samples { struct parcel *p; int64_t now[N_ROLES]; bool any; };

static void sample(struct samples *to, const struct span *at, const int64_t alive[N_ROLES]) {
    struct parcel *p = to->p;
    for (enum role role = 0; role < N_ROLES; role++) {
        if (to->any && alive[role] == to->now[role]) continue;
        p->memory = table_grow(p->memory, p->header.n_memory, sizeof *p->memory);
        p->memory[p->header.n_memory++] = (struct trace_memory){at->start_s, alive[role], (int32_t)role, at->step};
        to->now[role] = alive[role];
    }
    to->any = true;
}

/* For a pair of rows that ran as one kernel, take the maximum over both rows and the rows between them. */
static void sample_row(struct samples *to, const struct trace *t, const struct span *s) {
    const struct tape *tape = tape_of(t->run, s);
    const struct memory_point *point = &t->timeline.points[t->timeline.first[s->action]];
    int64_t alive[N_ROLES];
    memcpy(alive, point[s->row].alive, sizeof alive);
    for (int i = s->row + 1; s->other >= 0 && i < tape->n; i++) {
        for (enum role role = 0; role < N_ROLES; role++)
            if (point[i].alive[role] > alive[role]) alive[role] = point[i].alive[role];
        if (tape->rows[i].kind == s->what && tape->rows[i].id == s->other) break;
    }
    sample(to, s, alive);
}

/* Outside of the schedule only the resident memory is alive. */
static void pack_memory(const struct trace *t, struct parcel *p) {
    struct samples to = {.p = p};
    for (int i = 0; i < p->header.n_spans; i++) {
        const struct span *s = &p->spans[i];
        if (s->kind == SPAN_ROW) sample_row(&to, t, s);
        else if (s->kind == SPAN_ACTION && !action_is_compute((enum action_kind)s->what))
            sample(&to, s, t->timeline.points[t->timeline.first[s->action]].alive);
        else if (s->kind == SPAN_STEP || (s->kind == SPAN_PHASE && s->what != PHASE_SCHEDULE))
            sample(&to, s, t->timeline.resident);
    }
}

static enum status pack(const struct trace *t, struct parcel *p) {
    const struct run *r = t->run;
    double before_s = t->before.uncertainty_s, after_s = t->after.uncertainty_s;
    double device_s = t->device ? trace_device_uncertainty_s(t->device) : 0;
    p->header = (struct header){.place = r->mesh.place, .offset_s = t->before.offset_s,
                                .uncertainty_s = device_s + (before_s > after_s ? before_s : after_s),
                                .dropped = t->spans.dropped, .node = comm_node(comm_world_rank())};
    comm_host_name(p->header.host, sizeof p->header.host);
    memcpy(p->header.planned, r->memory.bytes[TIER_DEVICE], sizeof p->header.planned);
    memcpy(p->header.planned_host, r->memory.bytes[TIER_HOST], sizeof p->header.planned_host);
    TRY(pack_spans(t, p));
    TRY(pack_names(r, p));
    pack_memory(t, p);
    return OK;
}

/* ---- sending and receiving ---- */
enum { HEADER_TAG = 9, BODY_TAG = 10 };
static const int64_t message_limit = 1 << 30;

static enum status pass(const struct group *g, void *x, int64_t bytes, int peer, int tag, bool sends) {
    for (int64_t at = 0; at < bytes; at += message_limit) {
        int64_t n = bytes - at < message_limit ? bytes - at : message_limit;
        struct comm_request request = {0};
        TRY(sends ? comm_send_start(g, (char *)x + at, n, UINT8, peer, tag, &request)
                  : comm_recv_start(g, (char *)x + at, n, UINT8, peer, tag, &request));
        TRY(comm_wait(&request));
    }
    return OK;
}

static enum status pass_body(const struct group *g, struct parcel *p, int peer, bool sends) {
    const struct header *h = &p->header;
    TRY(pass(g, p->spans, (int64_t)sizeof *p->spans * h->n_spans, peer, BODY_TAG, sends));
    TRY(pass(g, p->memory, (int64_t)sizeof *p->memory * h->n_memory, peer, BODY_TAG, sends));
    return pass(g, p->text, h->text_bytes, peer, BODY_TAG, sends);
}

static enum status receive(const struct group *g, int rank, struct parcel *p) {
    TRY(pass(g, &p->header, sizeof p->header, rank, HEADER_TAG, false));
    p->spans = malloc(((size_t)p->header.n_spans + 1) * sizeof *p->spans);
    p->memory = malloc(((size_t)p->header.n_memory + 1) * sizeof *p->memory);
    p->text = malloc((size_t)p->header.text_bytes + 1);
    if (!p->spans || !p->memory || !p->text)
        return FAIL(E_MEMORY, "no memory for the %d spans of rank %d; record fewer steps", p->header.n_spans, rank);
    return pass_body(g, p, rank, false);
}

/* ---- at rank 0 ---- */
/* Moves the parcel's arrays into *out. */
static enum status unpack(struct parcel *p, struct trace_rank *out) {
    const struct header *h = &p->header;
    *out = (struct trace_rank){.place = h->place, .offset_s = h->offset_s, .uncertainty_s = h->uncertainty_s,
                               .dropped = h->dropped, .node = h->node, .n_spans = h->n_spans,
                               .n_memory = h->n_memory, .n_names = h->n_names, .n_steps = h->n_steps,
                               .n_params = h->n_params, .spans = p->spans, .memory = p->memory, .text = p->text};
    memcpy(out->host, h->host, sizeof out->host);
    memcpy(out->planned, h->planned, sizeof out->planned);
    memcpy(out->planned_host, h->planned_host, sizeof out->planned_host);
    *p = (struct parcel){0};
    return trace_names_find(out);
}

static void note_extent(const struct trace_rank *r, struct trace_data *d) {
    for (int i = 0; i < r->n_spans; i++) {
        if (d->end_s == 0 || r->spans[i].start_s < d->start_s) d->start_s = r->spans[i].start_s;
        if (d->end_s == 0 || r->spans[i].end_s > d->end_s) d->end_s = r->spans[i].end_s;
    }
}

static enum status collect(const struct group *g, struct parcel *mine, struct trace_data *out) {
    int n = group_size(g);
    out->ranks = calloc((size_t)n, sizeof *out->ranks);
    if (!out->ranks) return FAIL(E_MEMORY, "no memory for the traces of %d ranks", n);
    out->n_ranks = n;
    for (int rank = 0; rank < n; rank++) {
        struct parcel p = {0};
        enum status status = OK;
        if (rank > 0) status = receive(g, rank, &p);
        if (status == OK) status = unpack(rank > 0 ? &p : mine, &out->ranks[rank]);
        parcel_fini(&p);
        TRY(status);
        note_extent(&out->ranks[rank], out);
    }
    return OK;
}

/* If rank 0 runs out of memory, its peers wait in their sends until the deadline; the job ends, as after any failure in
 * a step. */
static enum status pass_all(const struct group *g, struct parcel *mine, struct trace_data *out) {
    if (group_rank(g) == 0) return collect(g, mine, out);
    TRY(pass(g, &mine->header, sizeof mine->header, 0, HEADER_TAG, true));
    return pass_body(g, mine, 0, true);
}

enum status trace_gather(struct trace *t, struct trace_data *out) {
    const struct group *g = t->run->mesh.group[AXIS_MESH];
    struct parcel mine = {0};
    *out = (struct trace_data){.first_step = t->first_step, .n_steps = t->run->n_step - t->first_step,
                                .n_chunks = t->run->program.n_chunks, .links = t->links};
    enum status status = fail_agree(g, pack(t, &mine));
    if (status == OK) status = pass_all(g, &mine, out);
    parcel_fini(&mine);
    return status;
}

void trace_data_fini(struct trace_data *d) {
    for (int i = 0; i < d->n_ranks; i++) {
        free(d->ranks[i].spans);
        free(d->ranks[i].memory);
        trace_names_fini(&d->ranks[i]);
    }
    free(d->ranks);
    *d = (struct trace_data){0};
}
