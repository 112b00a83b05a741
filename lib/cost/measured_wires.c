/* The output of nccl-tests (2.13 and newer), as it is printed:
 *
 *   # Collective test starting: all_reduce_perf                                       since 2.16
 *   #  Rank  0 Group  0 Pid  4193 on  node03 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
 *   #       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw ...
 *   #        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
 *        1048576        262144     float     sum      -1    36.95   28.38   49.67       0    36.50   28.73   50.27 ...
 *
 * algbw = size / time, and busbw = algbw times 2 (n-1)/n, (n-1)/n or 1, by the collective: both are checked against the
 * time and the rank lines, so that columns of another meaning are refused. An output without the collective's name has
 * it in redop, root and that factor. */
#include "lib/base/grow.h"
#include "lib/base/input.h"
#include "lib/cost/measured.h"
#include "lib/cost/wire_time.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_SIZES = 4, MOST_ROWS = 4096, MOST_RANKS = 1 << 14, MOST_WORDS = 64, COLUMNS_BEFORE = 5 };
enum { TIME, ALGBW, BUSBW, WRONG, N_TIMED };
static const struct { const char *name; enum comm_op op; } TESTS[] = {
    {"all_reduce", COMM_ALL_REDUCE}, {"all_gather", COMM_ALL_GATHER}, {"reduce_scatter", COMM_REDUCE_SCATTER},
    {"alltoall", COMM_ALL_TO_ALL}, {"sendrecv", COMM_SEND}};
enum { N_TESTS = sizeof TESTS / sizeof *TESTS, UNKNOWN = -1 };

struct line { double size, seconds[2], algbw[2], busbw[2]; char redop[16]; int root, number; };
struct device_line { int group; char host[128]; };
struct output {
    struct input in;
    const char *path;
    int test, n_columns, first[2];       /* of TESTS; of the header's words, and those at which `time` stands */
    bool units;                          /* the line of units was read */
    int n_devices, n;
    struct device_line *device;
    struct line *line;
    int64_t group, inside, hosts, active;    /* active: ranks of a host in all groups */
};

static int at_line(const struct output *o) { return (int)o->in.number; }

/* ---- the head ---- */
static enum status read_test(struct output *o, const char *name) {
    const char *slash = strrchr(name, '/');
    if (slash) name = slash + 1;
    for (int i = 0; i < N_TESTS; i++) {
        size_t length = strlen(TESTS[i].name);
        if (!strncmp(name, TESTS[i].name, length) && !strncmp(name + length, "_perf", 5)) o->test = i;
    }
    if (o->test == UNKNOWN)
        return FAIL(E_FORMAT, "%s: %.*s is not a test that is read; use all_reduce_perf, all_gather_perf, "
                    "reduce_scatter_perf, alltoall_perf or sendrecv_perf", o->path, (int)strcspn(name, " \r\n"), name);
    return OK;
}

static enum status read_device(struct output *o, const char *text) {
    struct device_line d = {0};
    int rank = -1;
    if (sscanf(text, "# Rank %d Group %d Pid %*d on %127s device", &rank, &d.group, d.host) != 3) {
        d.group = 0;
        if (sscanf(text, "# Rank %d Pid %*d on %127s device", &rank, d.host) != 2)
            return FAIL(E_FORMAT, "%s:%d: \"%.40s\" is not # Rank R Group G Pid P on HOST device; give what nccl-tests "
                        "prints, whole", o->path, at_line(o), text);
    }
    if (rank != o->n_devices)
        return FAIL(E_FORMAT, "%s:%d: rank %d follows %d ranks; give one test per file, whole", o->path, at_line(o),
                    rank, o->n_devices);
    if (o->n_devices == MOST_RANKS) return FAIL(E_FORMAT, "%s has more than %d ranks", o->path, MOST_RANKS);
    o->device = table_grow(o->device, o->n_devices, sizeof *o->device);
    o->device[o->n_devices++] = d;
    return OK;
}

static enum status read_header(struct output *o, char *text) {
    static const char *const BEFORE[COLUMNS_BEFORE] = {"size", "count", "type", "redop", "root"};
    static const char *const TIMED[N_TIMED] = {"time", "algbw", "busbw", "#wrong"};
    char *word[MOST_WORDS];
    int found = 0;
    o->n_columns = measured_words(text + strspn(text, "# "), word, MOST_WORDS);
    bool fine = o->n_columns > COLUMNS_BEFORE;
    for (int i = 0; fine && i < COLUMNS_BEFORE; i++) fine = !strcmp(word[i], BEFORE[i]);
    for (int i = COLUMNS_BEFORE; fine && i + N_TIMED <= o->n_columns; i++) {
        if (strcmp(word[i], "time")) continue;
        for (int k = 0; k < N_TIMED; k++) fine = fine && !strcmp(word[i + k], TIMED[k]);
        if (found < 2) o->first[found] = i;
        found++;
    }
    if (!fine || found != 2)
        return FAIL(E_FORMAT, "%s:%d: the columns are not size count type redop root and twice time algbw busbw "
                    "#wrong; use nccl-tests of 2.13 or newer, without -C", o->path, at_line(o));
    return OK;
}

static enum status read_comment(struct output *o, char *text) {
    static const char NAMED[] = "# Collective test starting: ";
    if (!strncmp(text, NAMED, sizeof NAMED - 1)) {
        if (o->test != UNKNOWN || o->n_columns)
            return FAIL(E_FORMAT, "%s:%d: a second test begins; give one test per file", o->path, at_line(o));
        return read_test(o, text + sizeof NAMED - 1);
    }
    if (!strncmp(text + strspn(text, "# "), "Rank ", 5)) return read_device(o, text);
    if (strstr(text, "algbw")) {
        if (o->n_columns)
            return FAIL(E_FORMAT, "%s:%d: a second table begins; give one test per file", o->path, at_line(o));
        return read_header(o, text);
    }
    if (strstr(text, "(B)")) {
        o->units = strstr(text, "(us)") && strstr(text, "(GB/s)");
        if (!o->units)
            return FAIL(E_FORMAT, "%s:%d: the units are not (us) and (GB/s); give what nccl-tests prints", o->path,
                        at_line(o));
    }
    return OK;
}

/* ---- the table ---- */
static bool number_of(const char *word, double *out) {
    char *end;
    *out = strtod(word, &end);
    return *word && !*end && isfinite(*out) && *out >= 0;
}

/* A number as printed has two decimals, or fewer digits if it is wide. */
static bool is_near(double printed, double value) { return fabs(printed - value) <= 0.03 * value + 0.0101; }

static enum status read_timed(struct output *o, char *const *word, int i, struct line *l) {
    double wrong, us;
    if (!number_of(word[TIME], &us) || !number_of(word[ALGBW], &l->algbw[i]) || !number_of(word[BUSBW], &l->busbw[i]) ||
        (strcmp(word[WRONG], "N/A") && !number_of(word[WRONG], &wrong)))
        return FAIL(E_FORMAT, "%s:%d: \"%s %s %s %s\" are not a time, two bandwidths and a count or N/A; give what "
                    "nccl-tests prints", o->path, at_line(o), word[TIME], word[ALGBW], word[BUSBW], word[WRONG]);
    if (strcmp(word[WRONG], "N/A") && wrong > 0)
        return FAIL(E_CONFIG, "%s:%d: #wrong is %g: results were wrong, so the times are of no use; mend the links or "
                    "memory, and run the test again", o->path, at_line(o), wrong);
    l->seconds[i] = us * 1e-6;
    if (l->size > 0 && !strchr(word[TIME], 'e') && (!(us > 0) || !is_near(l->algbw[i], l->size / us / 1e3)))
        return FAIL(E_FORMAT, "%s:%d: %.0f bytes in %g us are %.2f GB/s, and algbw is %g; give what nccl-tests prints",
                    o->path, at_line(o), l->size, us, us > 0 ? l->size / us / 1e3 : 0, l->algbw[i]);
    return OK;
}

static enum status read_row(struct output *o, char *text) {
    char *word[MOST_WORDS];
    double root;
    struct line l = {.number = at_line(o)};
    int n = measured_words(text, word, MOST_WORDS);
    if (!o->n_columns || !o->units)
        return FAIL(E_FORMAT, "%s:%d: a row without the lines of its columns before it; give what nccl-tests prints, "
                    "whole", o->path, at_line(o));
    if (n < o->n_columns)
        return FAIL(E_FORMAT, "%s:%d: %d columns, and the header has %d; give what nccl-tests prints, whole", o->path,
                    at_line(o), n, o->n_columns);
    root = strtod(word[4], NULL);
    if (!number_of(word[0], &l.size))
        return FAIL(E_FORMAT, "%s:%d: size=%s is not a number of bytes; give what nccl-tests prints", o->path,
                    at_line(o), word[0]);
    snprintf(l.redop, sizeof l.redop, "%.15s", word[3]);
    l.root = (int)root;
    for (int i = 0; i < 2; i++) TRY(read_timed(o, &word[o->first[i]], i, &l));
    if (l.size == 0) return OK;
    if (o->n == MOST_ROWS) return FAIL(E_FORMAT, "%s has more than %d rows; give one test", o->path, MOST_ROWS);
    o->line = table_grow(o->line, o->n, sizeof *o->line);
    o->line[o->n++] = l;
    return OK;
}

/* Lines of the program's environment (NCCL INFO, mpirun's) begin with neither # nor a number. */
static enum status read_lines(struct output *o) {
    for (;;) {
        TRY(input_line(&o->in));
        if (o->in.n == 0) return OK;
        char *text = o->in.text + strspn(o->in.text, " \t");
        if (*text == '#') TRY(read_comment(o, text));
        else if (isdigit((unsigned char)*text) && strspn(text, "0123456789") == strcspn(text, " \t\r\n"))
            TRY(read_row(o, text));
    }
}

/* ---- the ranks ---- */
static int64_t ranks_on(const struct output *o, const char *host, int group) {
    int64_t n = 0;
    for (int i = 0; i < o->n_devices; i++)
        n += !strcmp(o->device[i].host, host) && (group < 0 || o->device[i].group == group);
    return n;
}

/* Counts of the first rank's group and host, which every other group and host must have, too. */
static enum status count_ranks(struct output *o) {
    if (o->n_devices == 0)
        return FAIL(E_FORMAT, "%s has no lines # Rank ..., which name the hosts; give what nccl-tests prints, whole",
                    o->path);
    const struct device_line *first = &o->device[0];
    o->inside = ranks_on(o, first->host, first->group), o->active = ranks_on(o, first->host, -1);
    for (int i = 0; i < o->n_devices; i++) {
        const struct device_line *d = &o->device[i];
        if (ranks_on(o, d->host, d->group) != o->inside || ranks_on(o, d->host, -1) != o->active)
            return FAIL(E_CONFIG, "%s: host %s has %" PRId64 " ranks, and host %s %" PRId64 "; start as many on each",
                        o->path, first->host, o->inside, d->host, ranks_on(o, d->host, d->group));
        o->group += d->group == first->group;
    }
    o->hosts = o->group / o->inside;
    if (o->group < 2)
        return FAIL(E_CONFIG,
                    "%s: a group of one rank exchanges nothing; start the test with 2 ranks or more (-g 2, or "
                    "mpirun with an nccl-tests of MPI=1)",
                    o->path);
    return OK;
}

/* ---- which collective ---- */
static double factor_of(enum comm_op op, double n) {
    return op == COMM_SEND ? 1 : (op == COMM_ALL_REDUCE ? 2 : 1) * (n - 1) / n;
}

/* By redop, root and the factor of the fastest row. all_gather and alltoall have the same one. */
static enum status guess_test(struct output *o) {
    const struct line *l = &o->line[0];
    for (int i = 1; i < o->n; i++)
        if (o->line[i].algbw[0] > l->algbw[0]) l = &o->line[i];
    bool sums = strcmp(l->redop, "none") != 0;
    for (int i = 0; i < N_TESTS && o->test == UNKNOWN; i++) {
        bool of_sums = TESTS[i].op == COMM_ALL_REDUCE || TESTS[i].op == COMM_REDUCE_SCATTER;
        double busbw = l->algbw[0] * factor_of(TESTS[i].op, (double)o->group);
        if (l->root < 0 && sums == of_sums && is_near(l->busbw[0], busbw)) o->test = i;
    }
    if (o->test == UNKNOWN)
        return FAIL(E_FORMAT, "%s:%d: redop %s, root %d and busbw / algbw = %.3g are of none of the tests that are "
                    "read; use all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf or sendrecv_perf",
                    o->path, l->number, l->redop, l->root, l->busbw[0] / l->algbw[0]);
    if (TESTS[o->test].op == COMM_ALL_GATHER && o->hosts > 1)
        return FAIL(E_FORMAT,
                    "%s does not say whether all_gather or alltoall was tested; use nccl-tests of 2.16 or newer",
                    o->path);
    return OK;
}

static enum status check_rows(struct output *o) {
    double least = INFINITY, most = 0, least_s = 0, most_s = 0;
    int sizes = 0;
    if (o->n == 0)
        return FAIL(E_FORMAT, "%s has no rows of a table; give what nccl-tests prints, whole", o->path);
    if (o->test == UNKNOWN) TRY(guess_test(o));
    for (int i = 0; i < o->n; i++) {
        const struct line *l = &o->line[i];
        bool is_new = true;
        for (int k = 0; k < i; k++) is_new = is_new && o->line[k].size != l->size;
        sizes += is_new;
        if (l->size < least) least = l->size, least_s = l->seconds[0];
        if (l->size > most) most = l->size, most_s = l->seconds[0];
        double factor = factor_of(TESTS[o->test].op, (double)o->group);
        for (int side = 0; side < 2; side++)
            if (fabs(l->busbw[side] - factor * l->algbw[side]) > 0.03 * l->busbw[side] + 0.02)
                return FAIL(E_FORMAT, "%s:%d: busbw=%g is %.3g times algbw=%g, and %s of %" PRId64 " ranks has %.3g "
                            "times; give what nccl-tests prints, whole", o->path, l->number, l->busbw[side],
                            l->busbw[side] / l->algbw[side], l->algbw[side], TESTS[o->test].name, o->group, factor);
    }
    if (sizes < LEAST_SIZES || most_s < 4 * least_s)
        return FAIL(E_CONFIG,
                    "%s: %d size%s, of which the largest takes %.2g times as long as the smallest; at least %d "
                    "and 4 times give latency and bandwidth: use -b 8 -e 1G -f 2",
                    o->path, sizes, sizes == 1 ? "" : "s", most_s / least_s, LEAST_SIZES);
    return OK;
}

/* ---- which level ---- */
/* A level called node is a host; another innermost level, as an NVLink domain, may have several. */
static enum status find_level(const struct output *o, const struct cluster *c, int *level, struct wire_point *as) {
    const struct level *node = &c->level[0];
    bool is_host = !strcmp(node->name, "node");
    *as = (struct wire_point){.group = (double)o->group, .inside = (double)o->group, .units = 1};
    *level = 0;
    if (o->active > node->ranks)
        return FAIL(E_CONFIG,
                    "%s: %" PRId64 " ranks on host %s, and %s of %s has %" PRId64 "; name the cluster that was "
                    "measured with --cluster",
                    o->path, o->active, o->device[0].host, node->name, c->name, node->ranks);
    if (o->hosts == 1 || (!is_host && o->group <= node->ranks)) return OK;
    if (c->n_levels == 1)
        return FAIL(E_CONFIG,
                    "%s: %" PRId64 " hosts, and %s has no level beyond %s; name the cluster that was measured "
                    "with --cluster",
                    o->path, o->hosts, c->name, node->name);
    *level = wire_level(c, is_host ? o->hosts * node->ranks : o->group, 1);
    as->inside = is_host || o->group % node->ranks ? (double)o->inside : (double)node->ranks;
    as->units = as->group / as->inside;
    if (TESTS[o->test].op == COMM_SEND && as->inside > 1)
        return FAIL(E_CONFIG, "%s: sendrecv over %" PRId64 " hosts leaves each host from one rank of %" PRId64
                    "; use all_gather_perf, or 1 rank on each host", o->path, o->hosts, o->inside);
    return OK;
}

static enum status add_points(const struct output *o, const struct cluster *c, struct wire_points *points) {
    struct wire_point p;
    int level;
    TRY(find_level(o, c, &level, &p));
    struct wire_points *to = &points[level];
    size_t used = strlen(to->from);
    bool is_share = level == 0 || o->active >= c->level[0].ranks || strcmp(c->level[0].name, "node") != 0;
    to->is_share = to->n == 0 ? is_share : to->is_share && is_share;
    snprintf(to->from + used, sizeof to->from - used, "%s%s", used ? ", " : "", o->path);
    p.op = TESTS[o->test].op;
    for (int i = 0; i < 2 * o->n; i++) {
        p.bytes = o->line[i / 2].size, p.seconds = o->line[i / 2].seconds[i % 2];
        to->at = table_grow(to->at, to->n, sizeof *to->at);
        to->at[to->n++] = p;
    }
    return OK;
}

enum status measured_nccl(const char *path, const struct cluster *c, struct wire_points *points) {
    struct output o = {.path = path, .test = UNKNOWN};
    enum status status = input_open(&o.in, "", path, INPUT_FILE, MEASURED_LINE);
    if (status == OK) status = read_lines(&o);
    if (status == OK) status = count_ranks(&o);
    if (status == OK) status = check_rows(&o);
    if (status == OK) status = add_points(&o, c, points);
    input_close(&o.in);
    free(o.device);
    free(o.line);
    return status;
}
