/* The record of a run with servers, as a table and as a file, and whether a run can follow it. */
#include "server/server_log.h"

#include "lib/base/grow.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t *server_log_add(struct server_log *l) {
    l->cell = table_grow(l->cell, l->n, sizeof *l->cell * (size_t)server_log_width(l));
    return server_log_row(l, l->n++);
}

void server_log_fini(struct server_log *l) {
    free(l->cell);
    *l = (struct server_log){.n = 0};
}

const int64_t *server_log_find(const struct server_log *l, int server, int worker, int64_t clock) {
    for (int i = 0; i < l->n; i++) {
        const int64_t *row = server_log_row(l, i);
        if (row[LOG_SERVER] == server && row[LOG_WORKER] == worker && row[LOG_CLOCK] == clock) return row;
    }
    return NULL;
}

/* ---- writing ---- */
static enum status close_file(FILE *f, const char *path) {
    bool failed = ferror(f);
    if (fclose(f) == 0 && !failed) return OK;
    return FAIL(E_IO, "server-record=%.256s cannot be written: %s", path, strerror(errno));
}

static enum status open_file(const char *path, const char *mode, FILE **out) {
    *out = fopen(path, mode);
    return *out ? OK : FAIL(E_IO, "server-record=%.256s cannot be opened: %s", path, strerror(errno));
}

enum status server_log_begin(const struct server_log *l, const char *path) {
    FILE *f;
    TRY(open_file(path, "w", &f));
    fprintf(f, "# %d servers %d workers\nserver worker clock seconds", l->n_servers, l->n_workers);
    for (int k = 0; k < l->n_servers; k++) fprintf(f, " version%d", k);
    fprintf(f, "\n");
    return close_file(f, path);
}

static void print_row(FILE *f, const struct server_log *l, const int64_t *row) {
    fprintf(f, "%" PRId64 " %" PRId64 " %" PRId64 " %.6f", row[LOG_SERVER], row[LOG_WORKER], row[LOG_CLOCK],
            1e-6 * (double)row[LOG_MICROSECONDS]);
    for (int k = 0; k < l->n_servers; k++) fprintf(f, " %" PRId64, row[LOG_VERSION + k]);
    fprintf(f, "\n");
}

/* One server's rows go to everybody, and rank 0 keeps them. */
static enum status append_of(const struct server_log *mine, int server, const struct group *group, FILE *f) {
    bool is_me = group_rank(group) == server;
    struct server_log theirs = {mine->n_servers, mine->n_workers, 0, NULL};
    int32_t n = is_me ? mine->n : 0;
    TRY(comm_broadcast(group, &n, 1, INT32, server));
    for (int i = 0; i < n; i++) {
        int64_t *row = server_log_add(&theirs);
        if (is_me) memcpy(row, server_log_row(mine, i), sizeof *row * (size_t)server_log_width(mine));
    }
    int64_t bytes = (int64_t)sizeof(int64_t) * n * server_log_width(&theirs);
    enum status status = n ? comm_broadcast(group, theirs.cell, bytes, UINT8, server) : OK;
    for (int i = 0; i < n && f && status == OK; i++) print_row(f, &theirs, server_log_row(&theirs, i));
    server_log_fini(&theirs);
    return status;
}

enum status server_log_append(struct server_log *mine, const struct group *group, const char *path) {
    FILE *f = NULL;
    enum status opened = group_rank(group) == 0 ? open_file(path, "a", &f) : OK, status = OK;
    for (int k = 0; k < mine->n_servers && status == OK; k++) status = append_of(mine, k, group, f);
    if (f && opened == OK) opened = close_file(f, path);
    mine->n = 0;
    TRY(status);
    return opened;
}

/* ---- reading ---- */
static enum status bad_line(const char *path, int line, const char *why) {
    return FAIL(E_FORMAT, "server-order=%.256s, line %d: %s; give a file that --server-record has written", path, line,
                why);
}

static enum status read_row(struct server_log *l, char *text, const char *path, int line) {
    int64_t *row = server_log_add(l);
    char *rest = text;
    for (int i = 0; i < server_log_width(l); i++) {
        char *word = strtok_r(i ? NULL : text, " \t\n", &rest), *end = word;
        double number = word ? strtod(word, &end) : -1;
        if (!word || *end || !(number >= 0 && number < 0x1p53)) return bad_line(path, line, "numbers from 0 are wanted");
        row[i] = (int64_t)(i == LOG_MICROSECONDS ? 0 : number);
    }
    if (row[LOG_SERVER] >= l->n_servers || row[LOG_WORKER] >= l->n_workers)
        return bad_line(path, line, "there is no such server or worker in this run");
    return strtok_r(NULL, " \t\n", &rest) ? bad_line(path, line, "it is too long for so many servers") : OK;
}

enum status server_log_read(struct server_log *l, const char *path, int n_servers, int n_workers) {
    char text[32768];
    *l = (struct server_log){n_servers, n_workers, 0, NULL};
    FILE *f = fopen(path, "r");
    if (!f) return FAIL(E_IO, "server-order=%.256s cannot be read: %s", path, strerror(errno));
    enum status status = OK;
    for (int line = 1; status == OK && fgets(text, sizeof text, f); line++)
        if (text[0] >= '0' && text[0] <= '9') status = read_row(l, text, path, line);
    fclose(f);
    return status;
}

/* ---- can it be followed? ---- */
/* Of every server: how far it is in its rows; of every server and worker, its finished clocks, and up to which clock it
 * has been answered. */
struct player {
    const struct server_log *log;
    const int64_t ***queue;            /* [server][position] */
    const int64_t ***row;              /* [worker][clock]: of server 0 */
    int64_t *at, *finished, *answered; /* [server], [server][worker], [server][worker] */
    int64_t n_clocks;
};

static int64_t *of(const struct player *p, int64_t *table, int server, int worker) {
    return &table[server * p->log->n_workers + worker];
}

/* Servers answer with the version that the row of the next clock says. */
static void answer(struct player *p, int server) {
    for (int w = 0; w < p->log->n_workers; w++) {
        int64_t clock = *of(p, p->finished, server, w), *answered = of(p, p->answered, server, w);
        if (clock == p->n_clocks || *answered == clock || !p->row[w][clock]) continue;
        if (p->row[w][clock][LOG_VERSION + server] == p->at[server]) *answered = clock;
    }
}

static bool may_apply(const struct player *p, int server) {
    if (p->at[server] == p->log->n_workers * p->n_clocks) return false;
    const int64_t *row = p->queue[server][p->at[server]];
    if (!row || row[LOG_CLOCK] != *of(p, p->finished, server, (int)row[LOG_WORKER])) return false;
    for (int k = 0; k < p->log->n_servers; k++)
        if (*of(p, p->answered, k, (int)row[LOG_WORKER]) < row[LOG_CLOCK]) return false;
    return true;
}

static enum status play(struct player *p) {
    bool moved = true;
    while (moved) {
        moved = false;
        for (int k = 0; k < p->log->n_servers; k++)
            for (answer(p, k); may_apply(p, k); answer(p, k)) {
                ++*of(p, p->finished, k, (int)p->queue[k][p->at[k]][LOG_WORKER]);
                p->at[k]++;
                moved = true;
            }
    }
    for (int k = 0; k < p->log->n_servers; k++)
        if (p->at[k] < p->log->n_workers * p->n_clocks)
            return FAIL(E_CONFIG, "server-order: server %d can never apply its gradient %" PRId64 " of %" PRId64 "; each of "
                        "%d workers needs its %" PRId64 " clocks in order, and versions that are there", k, p->at[k] + 1,
                        p->log->n_workers * p->n_clocks, p->log->n_workers, p->n_clocks);
    return OK;
}

static enum status sort_rows(struct player *p, bool (*meets)(const void *self, int64_t clock), const void *self) {
    const struct server_log *l = p->log;
    int64_t *n = calloc((size_t)l->n_servers, sizeof *n), all = l->n_workers * p->n_clocks;
    enum status status = OK;
    for (int i = 0; i < l->n && n && status == OK; i++) {
        const int64_t *row = server_log_row(l, i), **first = &p->row[row[LOG_WORKER]][0];
        size_t bytes = sizeof *row * (size_t)l->n_servers;
        if (row[LOG_CLOCK] >= p->n_clocks || n[row[LOG_SERVER]] == all) {
            status = FAIL(E_CONFIG, "server-order: worker %" PRId64 "'s clock %" PRId64 " is one too many of %" PRId64
                          " steps; use --steps as the recorded run had", row[LOG_WORKER], row[LOG_CLOCK], p->n_clocks);
            break;
        }
        first += row[LOG_CLOCK];
        p->queue[row[LOG_SERVER]][n[row[LOG_SERVER]]++] = row;
        bool met = true;
        for (int k = 0; k < l->n_servers && row[LOG_CLOCK] > 0 && meets(self, row[LOG_CLOCK]); k++)
            met &= row[LOG_VERSION + k] == row[LOG_CLOCK] * l->n_workers;
        if (!met || (*first && memcmp(&(*first)[LOG_VERSION], &row[LOG_VERSION], bytes)))
            status = FAIL(E_CONFIG, "server-order: worker %" PRId64 "'s clock %" PRId64 " had other versions %s", row[LOG_WORKER],
                          row[LOG_CLOCK], met ? "on another server" : "than those of all before, and this run evaluates "
                          "or saves there; use --eval-every and --save-every as the recorded run had");
        *first = row;
    }
    free(n);
    return status;
}

enum status server_log_check(const struct server_log *l, int64_t n_clocks, bool (*meets)(const void *self, int64_t clock),
                             const void *self) {
    int64_t cells = l->n_servers * l->n_workers;
    struct player p = {l, table_new(l->n_servers, sizeof *p.queue), table_new(l->n_workers, sizeof *p.row),
                       table_new(l->n_servers, sizeof *p.at), table_new((int)cells, sizeof *p.finished),
                       table_new((int)cells, sizeof *p.answered), n_clocks};
    for (int k = 0; k < l->n_servers; k++) p.queue[k] = table_new((int)(l->n_workers * n_clocks), sizeof **p.queue);
    for (int w = 0; w < l->n_workers; w++) p.row[w] = table_new((int)n_clocks, sizeof **p.row);
    enum status status = sort_rows(&p, meets, self);
    if (status == OK) status = play(&p);
    for (int k = 0; k < l->n_servers; k++) free(p.queue[k]);
    for (int w = 0; w < l->n_workers; w++) free(p.row[w]);
    free(p.queue), free(p.row), free(p.at), free(p.finished), free(p.answered);
    return status;
}
