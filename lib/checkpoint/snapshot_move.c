#include "lib/checkpoint/snapshot.h"

#include "lib/base/grow.h"
#include "lib/comm/comm.h"
#include "lib/comm/comm_request.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A byte range of a snapshot, and the window in which it is read. */
struct range { int32_t snapshot, window; int64_t at, bytes; };
struct ranges { struct range *at; int64_t n, next; };    /* next: the first range not yet sent or received */
struct peer { struct ranges asked; char *in; int64_t taken; };   /* asked: ranges that this peer needs */

struct snapshot_mover {
    const struct snapshot_set *set;
    bool noting;
    struct ranges wanted;
    int64_t read;                        /* number of wanted ranges that have been read */
    int64_t noted_bytes;                 /* bytes in the last window so far */
    int64_t window, n_windows;           /* window: the one in memory now; -1: none */
    int size, rank;
    struct peer *peer;                   /* [size] */
};

enum status snapshot_mover_open(const struct snapshot_set *set, struct snapshot_mover **out) {
    struct snapshot_mover *m = *out = calloc(1, sizeof *m);
    if (m) m->peer = calloc((size_t)comm_world_size(), sizeof *m->peer);
    if (m && m->peer) {
        m->set = set;
        m->size = comm_world_size();
        m->rank = comm_world_rank();
        return OK;
    }
    free(m);
    *out = NULL;
    return FAIL(E_MEMORY, "no memory to ask %d ranks for snapshots", comm_world_size());
}

static void forget(struct snapshot_mover *m) {
    free(m->wanted.at);
    m->wanted = (struct ranges){NULL, 0, 0};
    for (int p = 0; p < m->size; p++) {
        free(m->peer[p].asked.at);
        free(m->peer[p].in);
        m->peer[p] = (struct peer){{NULL, 0, 0}, NULL, 0};
    }
    m->read = m->noted_bytes = 0;
    m->window = -1;
    m->n_windows = 0;
}

void snapshot_mover_close(struct snapshot_mover **mover) {
    if (!*mover) return;
    forget(*mover);
    free((*mover)->peer);
    free(*mover);
    *mover = NULL;
}

/* ---- asking ---- */
static void note(struct snapshot_mover *m, int i, int64_t at, int64_t bytes) {
    struct ranges *w = &m->wanted;
    if (w->n == 0 || m->noted_bytes + bytes > m->set->window) {
        m->n_windows++;
        m->noted_bytes = 0;
    }
    m->noted_bytes += bytes;
    w->at = table_grow(w->at, (int)w->n, sizeof *w->at);
    w->at[w->n++] = (struct range){i, (int32_t)(m->n_windows - 1), at, bytes};
}

/* Send each rank p the list of ranges that this rank needs from it; receive p's list. */
static enum status exchange_lists(struct snapshot_mover *m, const int64_t *n_out, const int64_t *n_in) {
    struct comm_request *request = calloc(2 * (size_t)m->size, sizeof *request);
    struct range **out = calloc((size_t)m->size, sizeof *out);
    enum status status = request && out ? OK : FAIL(E_MEMORY, "no memory for %d lists", 2 * m->size);
    for (int p = 0; p < m->size && status == OK; p++) {
        struct ranges *asked = &m->peer[p].asked;
        int64_t n = 0;
        out[p] = malloc((size_t)n_out[p] * sizeof **out + 1);
        asked->at = malloc((size_t)n_in[p] * sizeof *asked->at + 1);
        asked->n = n_in[p];
        if (!out[p] || !asked->at) status = FAIL(E_MEMORY, "no memory for the list of rank %d", p);
        for (int64_t k = 0; k < m->wanted.n && status == OK; k++)
            if (m->set->holder[m->wanted.at[k].snapshot] == p) out[p][n++] = m->wanted.at[k];
        if (status == OK && n_in[p])
            status = comm_recv_start(group_world(), asked->at, n_in[p] * (int64_t)sizeof **out, UINT8, p, 0,
                                     &request[2 * p]);
        if (status == OK && n)
            status = comm_send_start(group_world(), out[p], n * (int64_t)sizeof **out, UINT8, p, 0,
                                     &request[2 * p + 1]);
    }
    for (int k = 0; k < 2 * m->size && status == OK; k++) status = comm_wait(&request[k]);
    for (int p = 0; p < m->size && out; p++) free(out[p]);
    free(out);
    free(request);
    return status;
}

static enum status ask(struct snapshot_mover *m) {
    int64_t *n = calloc(2 * (size_t)m->size, sizeof *n);
    if (!n) return FAIL(E_MEMORY, "no memory for %d counts", 2 * m->size);
    for (int64_t k = 0; k < m->wanted.n; k++) n[m->set->holder[m->wanted.at[k].snapshot]]++;
    enum status status = comm_all_to_all(group_world(), n, n + m->size, (int64_t)sizeof *n, UINT8);
    if (status == OK) status = exchange_lists(m, n, n + m->size);
    free(n);
    double most = (double)m->n_windows;
    TRY(status);
    TRY(comm_all_reduce(group_world(), &most, 1, FP64, COMM_MAX));
    m->n_windows = (int64_t)most;
    return OK;
}

/* ---- a window ---- */
static int64_t bytes_in(const struct ranges *r, int64_t window) {
    int64_t bytes = 0;
    for (int64_t k = r->next; k < r->n && r->at[k].window == window; k++) bytes += r->at[k].bytes;
    return bytes;
}

/* Pack the bytes that rank p reads from this rank in the next window; NULL: no memory. */
static char *pack(struct snapshot_mover *m, int p, int64_t bytes) {
    struct ranges *asked = &m->peer[p].asked;
    char *out = malloc((size_t)bytes + 1), *to = out;
    for (; out && asked->next < asked->n && asked->at[asked->next].window == m->window; asked->next++) {
        const struct range *r = &asked->at[asked->next];
        memcpy(to, m->set->here[r->snapshot] + r->at, (size_t)r->bytes);
        to += r->bytes;
    }
    return out;
}

static enum status start_window(struct snapshot_mover *m, int p, int64_t in, char **out, struct comm_request *request) {
    struct peer *peer = &m->peer[p];
    int64_t bytes = bytes_in(&peer->asked, m->window);
    free(peer->in);
    peer->taken = 0;
    peer->in = malloc((size_t)in + 1);
    *out = pack(m, p, bytes);
    if (!peer->in || !*out) return FAIL(E_MEMORY, "no memory for a window of snapshots");
    if (in) TRY(comm_recv_start(group_world(), peer->in, in, UINT8, p, 0, &request[0]));
    return bytes ? comm_send_start(group_world(), *out, bytes, UINT8, p, 0, &request[1]) : OK;
}

/* Exchange the next window between all ranks. */
static enum status bring_window(struct snapshot_mover *m) {
    int64_t *in = calloc((size_t)m->size, sizeof *in);
    char **out = calloc((size_t)m->size, sizeof *out);
    struct comm_request *request = calloc(2 * (size_t)m->size, sizeof *request);
    enum status status = in && out && request ? OK : FAIL(E_MEMORY, "no memory for a window of snapshots");
    struct ranges *w = &m->wanted;
    m->window++;
    for (; in && w->next < w->n && w->at[w->next].window == m->window; w->next++)
        in[m->set->holder[w->at[w->next].snapshot]] += w->at[w->next].bytes;
    for (int p = 0; p < m->size && status == OK; p++) status = start_window(m, p, in[p], &out[p], &request[2 * p]);
    for (int k = 0; k < 2 * m->size && status == OK; k++) status = comm_wait(&request[k]);
    for (int p = 0; p < m->size && out; p++) free(out[p]);
    free(in);
    free(out);
    free(request);
    return status;
}

/* ---- reading ---- */
enum status snapshot_mover_read(struct snapshot_mover *m, int i, int64_t at, int64_t bytes, void *to) {
    int holder = m->set->holder[i];
    if (holder == m->rank) {
        memcpy(to, m->set->here[i] + at, (size_t)bytes);
        return OK;
    }
    if (m->noting) {
        note(m, i, at, bytes);
        memset(to, 0, (size_t)bytes);
        return OK;
    }
    const struct range *r = &m->wanted.at[m->read];
    if (m->read == m->wanted.n || r->snapshot != i || r->at != at || r->bytes != bytes)
        return FAIL(E_INTERNAL, "a load reads %" PRId64 " bytes of snapshot %d that it did not announce", bytes, i);
    while (m->window < r->window) TRY(bring_window(m));
    memcpy(to, m->peer[holder].in + m->peer[holder].taken, (size_t)bytes);
    m->peer[holder].taken += bytes;
    m->read++;
    return OK;
}

/* A rank whose load has failed or ended early still serves the other ranks' requests. */
enum status snapshot_mover_run(struct snapshot_mover *m, enum status (*load)(void *self), void *self) {
    char why[1024];
    forget(m);
    m->noting = true;
    enum status status = load(self);
    m->noting = false;
    TRY(fail_agree(group_world(), status));
    TRY(ask(m));
    status = load(self);
    if (status == E_COMM || status == E_TIMEOUT || status == E_EPOCH) return status;
    snprintf(why, sizeof why, "%s", status_message());
    while (m->window + 1 < m->n_windows) TRY(bring_window(m));
    return status == OK ? OK : FAIL(status, "%s", why);
}
