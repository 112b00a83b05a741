/* Bytes per second over time, by kind of link: what each rank sends, from the spans that all ranks have recorded.
 *
 *   collective   its algorithm bytes (lib/comm/comm.h), evenly from its start to its end. The group is a tree: the
 *                innermost link to a rank before it joins each rank but the first, and a kind of link has its share of
 *                the n - 1 edges. That is what hierarchical sums and gathers send. An all-to-all sends to each peer
 *                alike
 *   message      from the start of the send to the end of its receive, over the link between the two ranks
 *   parked       from the row that starts the copy to the row that awaits it
 *
 * The rate of a link is the sum of the rates of all messages that are on their way. It is exact: times are whole
 * nanoseconds, and rates are summed as integers, in units of 2^-40 bytes per second. So bytes in are bytes out, and a
 * message that takes no time is a pulse of one nanosecond. */
#include "lib/base/grow.h"
#include "lib/trace/trace_state.h"

#include <math.h>
#include <stdlib.h>

/* ---- rates ---- */
struct edge { int64_t at_ns; int link; __int128 by; };

static int by_time(const void *a, const void *b) {
    const struct edge *x = a, *y = b;
    return x->at_ns != y->at_ns ? (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns) : x->link - y->link;
}

static struct edge *edges_of(const struct link_message *m, int n) {
    struct edge *edges = table_new(2 * n, sizeof *edges);
    for (int i = 0; i < n; i++) {
        int64_t start = m[i].start_ns, end = m[i].end_ns > start ? m[i].end_ns : start + 1;
        __int128 rate = (__int128)ldexp(m[i].bytes * 1e9 / (double)(end - start), 40);
        edges[2 * i] = (struct edge){start, m[i].link, rate};
        edges[2 * i + 1] = (struct edge){end, m[i].link, -rate};
    }
    qsort(edges, 2 * (size_t)n, sizeof *edges, by_time);
    return edges;
}

struct link_rate *link_rates(const struct link_message *m, int n, int *n_rates) {
    __int128 now[MAX_TRACE_LEVELS + 2] = {0};
    struct edge *edges = edges_of(m, n);
    struct link_rate *rates = NULL;
    *n_rates = 0;
    for (int i = 0, link; i < 2 * n;) {
        const struct edge *first = &edges[i];
        __int128 before = now[link = first->link];
        for (; i < 2 * n && edges[i].at_ns == first->at_ns && edges[i].link == link; i++) now[link] += edges[i].by;
        if (now[link] == before) continue;
        rates = table_grow(rates, *n_rates, sizeof *rates);
        rates[(*n_rates)++] = (struct link_rate){first->at_ns, link, ldexp((double)now[link], -40)};
    }
    free(edges);
    return rates;
}

/* ---- links ---- */
int trace_n_links(const struct trace_data *d) { return d->links.n ? d->links.n : 2; }

const char *trace_link_name(const struct trace_data *d, int link) {
    static const char *const unknown[] = {"node", "net"}, *const host[] = {"to host", "from host"};
    int n = trace_n_links(d);
    return link >= n ? host[link - n] : d->links.n ? d->links.level[link].name : unknown[link];
}

double trace_link_bytes_per_s(const struct trace_data *d, int link) {
    if (d->links.n == 0) return 0;
    return link < d->links.n ? d->links.level[link].bytes_per_s : d->links.host_bytes_per_s;
}

int trace_link_between(const struct trace_data *d, int a, int b) {
    const struct trace_links *l = &d->links;
    if (l->n == 0) return d->ranks[a].node != d->ranks[b].node;
    for (int i = 0; i < l->n; i++) {
        bool off_rail = l->rails && i == 1 && a % l->level[0].ranks != b % l->level[0].ranks;
        if (a / l->level[i].ranks == b / l->level[i].ranks && !off_rail) return i;
    }
    return l->n - 1;
}

/* ---- messages of the pipeline ---- */
static bool is_transfer(const struct span *s) {
    return s->kind == SPAN_ACTION && !action_is_compute((enum action_kind)s->what);
}
static bool is_send(const struct span *s) { return is_transfer(s) && (s->what == SEND_F || s->what == SEND_B); }

/* The number of the microbatch in the run, the direction, and the chunk, stage and pipeline of the sender. */
int64_t trace_message(const struct trace_data *d, const struct plan *p, const struct trace_rank *r,
                      const struct span *s) {
    const struct mesh_place *at = &r->place;
    bool backward = s->what == SEND_B || s->what == RECV_B;
    int64_t id = (s->step - d->first_step) * p->n_microbatches + s->microbatch;
    id = (id * 2 + backward) * d->n_chunks + (is_send(s) ? s->chunk : s->row);
    id = id * at->n.pp + (is_send(s) ? at->rank.pp : s->id);
    return id * (plan_ranks(p) / at->n.pp) + mesh_colour(AXIS_PP, at);
}

struct received { int64_t id; double end_s; };

static int by_id(const void *a, const void *b) {
    const struct received *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* ---- what a rank sends ---- */
struct trace_sent {
    const struct trace_data *data;
    const struct plan *plan;
    struct received *received;           /* of all ranks, in the order of ids */
    int n_received;
    int *colour[N_MESH_AXES];            /* [axis][rank]: the first rank of its group; NULL: not yet known */
    double *part[N_MESH_AXES];           /* [axis][first rank][link]: the part of the group's edges; -1: unknown */
};

static void find_received(struct trace_sent *x) {
    for (int r = 0; r < x->data->n_ranks; r++)
        for (int i = 0; i < x->data->ranks[r].n_spans; i++) {
            const struct span *s = &x->data->ranks[r].spans[i];
            if (!is_transfer(s) || is_send(s)) continue;
            x->received = table_grow(x->received, x->n_received, sizeof *x->received);
            x->received[x->n_received++] =
                (struct received){trace_message(x->data, x->plan, &x->data->ranks[r], s), s->end_s};
        }
    if (x->n_received) qsort(x->received, (size_t)x->n_received, sizeof *x->received, by_id);
}

struct trace_sent *trace_sent_create(const struct trace_data *d, const struct plan *p) {
    struct trace_sent *x = table_new(1, sizeof *x);
    *x = (struct trace_sent){.data = d, .plan = p};
    find_received(x);
    return x;
}

void trace_sent_destroy(struct trace_sent **x) {
    for (int axis = 0; *x && axis < N_MESH_AXES; axis++) {
        free((*x)->colour[axis]);
        free((*x)->part[axis]);
    }
    if (*x) free((*x)->received);
    free(*x);
    *x = NULL;
}

/* The group's first rank, for each rank. Axis 0 is the world. */
static const int *colours_of(struct trace_sent *x, int axis) {
    int n = x->data->n_ranks;
    if (x->colour[axis]) return x->colour[axis];
    x->colour[axis] = table_new(n, sizeof(int));
    for (int r = 0; r < n && axis > 0; r++)
        x->colour[axis][r] = mesh_colour((enum mesh_axis)axis, &x->data->ranks[r].place);
    x->part[axis] = table_new(n * trace_n_links(x->data), sizeof(double));
    for (int r = 0; r < n; r++) x->part[axis][r * trace_n_links(x->data)] = -1;
    return x->colour[axis];
}

/* The number of peers for each link: of all members if `me` is one, else of each member's nearest before it. */
static int count_links(struct trace_sent *x, int axis, int first, int me, double *links) {
    const struct trace_data *d = x->data;
    const int *colour = colours_of(x, axis);
    int n = 0;
    for (int l = 0; l < trace_n_links(d); l++) links[l] = 0;
    for (int r = first; r < d->n_ranks; r++) {
        int nearest = trace_n_links(d) - 1;
        if (colour[r] != first || r == (me >= 0 ? me : first)) continue;
        if (me >= 0) nearest = trace_link_between(d, me, r);
        for (int before = first; me < 0 && before < r; before++)
            if (colour[before] == first && trace_link_between(d, before, r) < nearest)
                nearest = trace_link_between(d, before, r);
        links[nearest]++;
        n++;
    }
    return n;
}

static const double *parts_of(struct trace_sent *x, int axis, int first) {
    const int *colour = colours_of(x, axis);
    int n_links = trace_n_links(x->data);
    double *part = &x->part[axis][colour[first] * n_links];
    if (part[0] >= 0) return part;
    int n = count_links(x, axis, first, -1, part);
    for (int l = 0; l < n_links; l++) part[l] /= n > 0 ? n : 1;
    return part;
}

struct messages { struct link_message *at; int n; };

static void add(struct trace_sent *x, struct messages *m, double start_s, double end_s, double bytes, int link) {
    double zero = x->data->start_s;
    if (bytes <= 0) return;
    m->at = table_grow(m->at, m->n, sizeof *m->at);
    m->at[m->n++] = (struct link_message){trace_ns(start_s - zero), trace_ns(end_s - zero), bytes, link};
}

static void add_collective(struct trace_sent *x, struct messages *m, int rank, const struct span *s) {
    int first = colours_of(x, s->axis)[rank];
    double peers[MAX_TRACE_LEVELS];
    const double *part = parts_of(x, s->axis, first);
    int n = s->what == COMM_ALL_TO_ALL ? count_links(x, s->axis, first, rank, peers) : 0;
    for (int l = 0; l < trace_n_links(x->data); l++)
        add(x, m, s->start_s, s->end_s, s->bytes * (n ? peers[l] / n : part[l]), l);
}

/* A message to the rank itself is a copy, and sends nothing. If the trace ends before the receive, or has dropped it,
 * the send's end stands for the receive's. */
static void add_send(struct trace_sent *x, struct messages *m, int rank, const struct span *s) {
    const struct trace_rank *r = &x->data->ranks[rank];
    struct mesh_place peer = r->place;
    struct received wanted = {.id = trace_message(x->data, x->plan, r, s)};
    const struct received *got = NULL;
    if (s->id == peer.rank.pp) return;
    if (x->n_received) got = bsearch(&wanted, x->received, (size_t)x->n_received, sizeof wanted, by_id);
    peer.rank.pp = s->id;
    add(x, m, s->start_s, got && got->end_s > s->end_s ? got->end_s : s->end_s, s->bytes,
        trace_link_between(x->data, rank, mesh_rank_of(&peer)));
}

static void add_copy(struct trace_sent *x, struct messages *m, const struct trace_rank *r, int i) {
    const struct span *s = &r->spans[i], *end = s;
    for (int k = i + 1; k < r->n_spans && end == s; k++) {
        const struct span *later = &r->spans[k];
        if (later->action != s->action || later->step != s->step) break;
        if (later->kind == SPAN_ROW && later->what == ROW_COPIED && later->id == s->id) end = later;
    }
    add(x, m, s->start_s, end->end_s, s->bytes, trace_n_links(x->data) + (s->what == ROW_UNPARK));
}

struct link_message *trace_sent_by(struct trace_sent *x, int rank, int *n) {
    const struct trace_rank *r = &x->data->ranks[rank];
    struct messages m = {0};
    for (int i = 0; i < r->n_spans; i++) {
        const struct span *s = &r->spans[i];
        if (s->kind == SPAN_COMM) add_collective(x, &m, rank, s);
        else if (is_send(s)) add_send(x, &m, rank, s);
        else if (s->kind == SPAN_ROW && (s->what == ROW_PARK || s->what == ROW_UNPARK)) add_copy(x, &m, r, i);
    }
    *n = m.n;
    return m.at;
}
