/* The record of a run with servers, as a table and as a file, and whether a run can follow it. */
#include "dp_variants/server/server_log.h"

#include "lib/base/grow.h"
#include "lib/base/input.h"
#include "lib/base/output.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { MOST_LINE = 1 << 15 };

static int width(const struct server_log *l) { return LOG_VERSION + l->n_servers; }

void server_log_init(struct server_log *l, int n_servers, int n_workers) {
    *l = (struct server_log){n_servers, n_workers, table_new(n_servers, sizeof *l->n),
                             table_new(n_servers, sizeof *l->cell), false};
}

void server_log_fini(struct server_log *l) {
    for (int k = 0; k < l->n_servers; k++) free(l->cell[k]);
    free(l->n);
    free(l->cell);
    *l = (struct server_log){.n_servers = 0};
}

int64_t *server_log_row(const struct server_log *l, int server, int i) {
    return &l->cell[server][(int64_t)i * width(l)];
}

int64_t *server_log_add(struct server_log *l, int server) {
    l->cell[server] = table_grow(l->cell[server], l->n[server], sizeof **l->cell * (size_t)width(l));
    return server_log_row(l, server, l->n[server]++);
}

int server_log_find(const struct server_log *l, int server, int64_t worker, int64_t clock) {
    for (int i = 0; i < l->n[server]; i++) {
        const int64_t *row = server_log_row(l, server, i);
        if (row[LOG_WORKER] == worker && row[LOG_CLOCK] == clock) return i;
    }
    return -1;
}

/* ---- writing ---- */
static enum status open_file(const char *path, const char *mode, FILE **out) {
    *out = output_file(path, mode);
    return *out ? OK : FAIL(E_IO, "server-record=%.256s cannot be opened: %s", path, output_why(errno));
}

static enum status close_file(FILE *f, const char *path) {
    bool failed = ferror(f);
    if (fclose(f) == 0 && !failed) return OK;
    return FAIL(E_IO, "server-record=%.256s cannot be written: %s", path, strerror(errno));
}

enum status server_log_try(const char *path) {
    FILE *f;
    TRY(open_file(path, "a", &f));
    return close_file(f, path);
}

static void print_head(FILE *f, const struct server_log *l) {
    fprintf(f, "# %d servers, %d workers\nserver worker clock seconds", l->n_servers, l->n_workers);
    for (int k = 0; k < l->n_servers; k++) fprintf(f, " version%d", k);
    fprintf(f, "\n");
}

static void print_rows(FILE *f, const struct server_log *l, int server) {
    for (int i = 0; i < l->n[server]; i++) {
        const int64_t *row = server_log_row(l, server, i);
        fprintf(f, "%d %" PRId64 " %" PRId64 " %.6f", server, row[LOG_WORKER], row[LOG_CLOCK],
                1e-6 * (double)row[LOG_MICROSECONDS]);
        for (int k = 0; k < l->n_servers; k++) fprintf(f, " %" PRId64, row[LOG_VERSION + k]);
        fprintf(f, "\n");
    }
}

/* Broadcast one server's rows to all ranks. */
static enum status share(struct server_log *l, int server, const struct group *group, int rank) {
    int32_t n = l->n[server];
    TRY(comm_broadcast(group, &n, 1, INT32, rank));
    while (l->n[server] < n) server_log_add(l, server);
    return comm_broadcast(group, l->cell[server], (int64_t)sizeof(int64_t) * n * width(l), UINT8, rank);
}

enum status server_log_append(struct server_log *l, const struct group *group, int first, const char *path) {
    FILE *f;
    for (int k = 0; k < l->n_servers; k++) TRY(share(l, k, group, first + k));
    if (group_rank(group) == 0) {
        TRY(open_file(path, l->begun ? "a" : "w", &f));
        if (!l->begun) print_head(f, l);
        l->begun = true;
        for (int k = 0; k < l->n_servers; k++) print_rows(f, l, k);
        TRY(close_file(f, path));
    }
    for (int k = 0; k < l->n_servers; k++) l->n[k] = 0;
    return OK;
}

/* ---- reading ---- */
static enum status bad_line(const char *path, int line, const char *why) {
    return FAIL(E_FORMAT, "server-order=%.256s, line %d: %s; give a file that --server-record has written", path, line,
                why);
}

static bool read_number(char **rest, double limit, double *out) {
    char *word = strtok_r(NULL, " \t\n", rest), *end = word;
    if (word) *out = strtod(word, &end);
    return word && end != word && !*end && *out >= 0 && *out < limit;
}

static enum status read_row(struct server_log *l, char *text, const char *path, int line) {
    char *rest = text;                                               /* strtok_r goes on from here */
    double x;
    if (!read_number(&rest, l->n_servers, &x)) return bad_line(path, line, "there is no such server in this run");
    int64_t *row = server_log_add(l, (int)x);
    for (int i = 0; i < width(l); i++) {
        if (!read_number(&rest, i == LOG_WORKER ? l->n_workers : 0x1p53, &x))
            return bad_line(path, line, i == LOG_WORKER ? "there is no such worker here" : "a number is missing");
        row[i] = i == LOG_MICROSECONDS ? 0 : (int64_t)x;
    }
    return read_number(&rest, INFINITY, &x) ? bad_line(path, line, "it is too long for this number of servers") : OK;
}

enum status server_log_read(struct server_log *l, const char *path, int n_servers, int n_workers) {
    struct input in;
    server_log_init(l, n_servers, n_workers);
    enum status status = input_open(&in, "server-order=", path, INPUT_FILE | INPUT_KEPT, MOST_LINE);
    while (status == OK && (status = input_line(&in)) == OK && in.n > 0)
        if (in.text[0] >= '0' && in.text[0] <= '9') status = read_row(l, in.text, path, (int)in.number);
    input_close(&in);
    return status;
}

/* ---- can a run follow the record? ---- */
static enum status check_versions(const struct server_log *l, const int64_t *row, bool met) {
    int i = server_log_find(l, 0, row[LOG_WORKER], row[LOG_CLOCK]);
    const int64_t *first = i < 0 ? NULL : server_log_row(l, 0, i);
    for (int k = 0; k < l->n_servers; k++) {
        if (!first || row[LOG_VERSION + k] != first[LOG_VERSION + k])
            return FAIL(E_CONFIG, "server-order: worker %" PRId64 "'s clock %" PRId64 " has other versions on server 0;"
                        " a gradient is computed once", row[LOG_WORKER], row[LOG_CLOCK]);
        if (met && row[LOG_VERSION + k] != row[LOG_CLOCK] * l->n_workers)
            return FAIL(E_CONFIG, "server-order: worker %" PRId64 "'s clock %" PRId64 " does not have all gradients "
                        "before, and this run evaluates or saves there; use --eval-every and --save-every as the "
                        "recorded run", row[LOG_WORKER], row[LOG_CLOCK]);
    }
    return OK;
}

/* at: rows that each server has applied. Do the weights of `row` exist by then, and do they include its worker's push
 * before? */
static bool may_come(const struct server_log *l, const int64_t *row, const int *at) {
    for (int k = 0; k < l->n_servers; k++) {
        int before = row[LOG_CLOCK] ? server_log_find(l, k, row[LOG_WORKER], row[LOG_CLOCK] - 1) : -1;
        if (row[LOG_CLOCK] && before < 0) return false;
        if (row[LOG_VERSION + k] <= before || row[LOG_VERSION + k] > at[k]) return false;
    }
    return true;
}

static void play(const struct server_log *l, int *at) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int k = 0; k < l->n_servers; k++)
            for (; at[k] < l->n[k] && may_come(l, server_log_row(l, k, at[k]), at); at[k]++) moved = true;
    }
}

enum status server_log_check(const struct server_log *l, int64_t n_clocks, server_meets *meets, const void *self) {
    int *at = table_new(l->n_servers, sizeof *at);
    enum status status = OK;
    for (int k = 0; k < l->n_servers && status == OK; k++)
        for (int i = 0; i < l->n[k] && status == OK; i++) {
            const int64_t *row = server_log_row(l, k, i);
            if (row[LOG_CLOCK] >= n_clocks || server_log_find(l, k, row[LOG_WORKER], row[LOG_CLOCK]) != i)
                status = FAIL(E_CONFIG, "server-order: server %d has worker %" PRId64 "'s clock %" PRId64 " twice, or "
                              "after %" PRId64 " steps; use --steps as the recorded run", k, row[LOG_WORKER],
                              row[LOG_CLOCK], n_clocks);
            else status = check_versions(l, row, row[LOG_CLOCK] > 0 && meets(self, row[LOG_CLOCK]));
        }
    if (status == OK) play(l, at);
    for (int k = 0; k < l->n_servers && status == OK; k++)
        if (at[k] < l->n_workers * n_clocks)
            status = FAIL(E_CONFIG, "server-order: server %d can never apply gradient %d of %" PRId64 "; each of %d "
                          "workers needs its %" PRId64 " clocks in order, and versions that are there by then", k,
                          at[k] + 1, l->n_workers * n_clocks, l->n_workers, n_clocks);
    free(at);
    return status;
}
