#include "oracle/calls.h"

#include "lib/base/grow.h"
#include "lib/base/input.h"
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */
static void log_call(void *self, const struct comm_seen *c) {
    struct call_log *l = self;
    fprintf(l->to, "{\"rank\":%d,\"step\":%" PRId64 ",\"sequence\":%" PRId64 ",\"op\":\"%s\",\"group\":[",
            comm_world_rank(), l->step, l->sequence++, comm_op_name(c->op));
    for (int i = 0; i < c->size; i++) fprintf(l->to, "%s%d", i ? "," : "", c->members[i]);
    fprintf(l->to, "],\"name\":\"%s\",\"count\":%" PRId64 ",\"dtype\":\"%s\",\"bytes\":%.15g", c->group, c->count,
            dtype_name(c->dtype), c->bytes);
    if (c->peer >= 0) fprintf(l->to, ",\"peer\":%d,\"tag\":%d", c->peer, c->tag);
    fprintf(l->to, "}\n");
}

enum status call_log_init(struct call_log *l) {
    *l = (struct call_log){.step = 0};
    l->to = open_memstream(&l->text, &l->n);
    return l->to ? OK : FAIL(E_MEMORY, "no memory to record calls");
}

void call_log_start(struct call_log *l, int64_t step) {
    rewind(l->to);
    l->step = step;
    comm_watch_calls((struct comm_watch){l, log_call});
}

void call_log_stop(struct call_log *l) {
    comm_watch_calls((struct comm_watch){.call = NULL});
    if (l->to) fflush(l->to);
}

enum status call_log_write(const struct call_log *l, const char *folder) {
    char path[1024];
    if (comm_world_size() == 1) return OK;
    snprintf(path, sizeof path, "%s/collectives-%d.jsonl", folder, comm_world_rank());
    FILE *f = fopen(path, "a");
    bool ok = f && fwrite(l->text, 1, l->n, f) == l->n;
    ok = f && fclose(f) == 0 && ok;
    return ok ? OK : FAIL(E_IO, "cannot write %s: %s", path, strerror(errno));
}

void call_log_fini(struct call_log *l) {
    if (l->to) fclose(l->to);
    free(l->text);
    *l = (struct call_log){.to = NULL};
}

/* ---- reading ---- */
/* Number texts in the order of their first use; -1: no memory. A linear search would take n^2 for n texts. */
static int number_of(json_t **numbers, const char *text) {
    if (!*numbers) *numbers = json_object();
    const json_t *number = json_object_get(*numbers, text);
    if (number) return (int)json_integer_value(number);
    int n = (int)json_object_size(*numbers);
    return json_object_set_new(*numbers, text, json_integer(n)) == 0 ? n : -1;
}

static int find_or_add_group(struct calls *c, const json_t *ranks, const char *label) {
    int i = number_of(&c->groups, label);
    if (i < c->n_groups) return i;
    c->group = table_grow(c->group, c->n_groups, sizeof *c->group);
    struct call_group *g = &c->group[c->n_groups];
    *g = (struct call_group){.label = strdup(label), .n_members = (int)json_array_size(ranks)};
    g->member = table_new(g->n_members, sizeof *g->member);
    for (int m = 0; m < g->n_members; m++) g->member[m] = (int)json_integer_value(json_array_get(ranks, (size_t)m));
    return c->n_groups++;
}

/* Write "dp (ranks 0, 1)"; false: `ranks` is no list of ranks with `rank` in it. */
static bool label_of(const json_t *ranks, const char *name, int rank, char *label, size_t bytes) {
    size_t i, n = (size_t)snprintf(label, bytes, "%s (ranks ", name);
    const json_t *x;
    bool has_rank = false;
    if (!json_is_array(ranks) || json_array_size(ranks) < 1 || json_array_size(ranks) > CALL_GROUP_MAX) return false;
    json_array_foreach(ranks, i, x) {
        json_int_t r = json_integer_value(x);
        if (!json_is_integer(x) || r < 0 || r > 1000000 || n + 12 > bytes) return false;
        n += (size_t)snprintf(label + n, bytes - n, "%s%d", i ? ", " : "", (int)r);
        has_rank = has_rank || r == rank;
    }
    snprintf(label + n, bytes - n, ")");
    return has_rank;
}

static bool add_line(struct calls *c, const json_t *root, int of_file) {
    static char label[8 * CALL_GROUP_MAX], key[8 * CALL_GROUP_MAX + 96];
    const char *op = "", *dtype = "", *name = "group";
    json_int_t rank = -1, step = 0, sequence = -1, count = -1, peer = -1, tag = 0;
    json_t *ranks = NULL;
    double bytes = 0;
    if (json_unpack((json_t *)root, "{s:I,s?I,s:I,s:s,s:o,s?s,s:I,s:s,s:F,s?I,s?I}", "rank", &rank, "step", &step,
                    "sequence", &sequence, "op", &op, "group", &ranks, "name", &name, "count", &count, "dtype", &dtype,
                    "bytes", &bytes, "peer", &peer, "tag", &tag) != 0)
        return false;
    if (rank != of_file || count < 0 || !(bytes >= 0) || strlen(op) >= CALL_OP_MAX || strlen(dtype) >= CALL_DTYPE_MAX ||
        strlen(name) > 64 || !label_of(ranks, name, (int)rank, label, sizeof label))
        return false;
    const struct called *last = c->n_calls ? &c->call[c->n_calls - 1] : NULL;
    if (last && last->rank == rank && last->sequence >= sequence) return false;
    struct called x = {.rank = (int)rank, .peer = (int)peer, .order = c->n_calls, .step = step, .sequence = sequence,
                     .count = count, .group = find_or_add_group(c, ranks, label)};
    bool sends = !strncmp(op, "send", 4);
    if (peer >= 0)
        snprintf(key, sizeof key, "%s %d>%d %d", label, (int)(sends ? rank : peer), (int)(sends ? peer : rank),
                 (int)tag);
    x.channel = number_of(&c->channels, peer >= 0 ? key : label);
    c->no_memory = x.group < 0 || x.channel < 0;
    if (c->no_memory) return false;
    memcpy(x.op, op, strlen(op));
    memcpy(x.dtype, dtype, strlen(dtype));
    c->group[x.group].calls++;
    c->group[x.group].bytes += bytes;
    c->call = table_grow(c->call, c->n_calls, sizeof *c->call);
    c->call[c->n_calls++] = x;
    return true;
}

enum { LINE_MAX_BYTES = 1 << 20 };

static enum status read_file(struct calls *c, const char *path, int rank) {
    struct input in;
    enum status status = input_open(&in, "", path, INPUT_FILE, LINE_MAX_BYTES);
    while (status == OK && (status = input_line(&in)) == OK && in.n > 0) {
        json_t *root = json_loadb(in.text, in.n, 0, NULL);
        bool added = root && add_line(c, root, rank);
        if (c->no_memory) status = FAIL(E_MEMORY, "no memory for the groups of %s", path);
        else if (!added)
            status = FAIL(E_FORMAT,
                          "%s, line %" PRId64 ": %.*s is no call; it needs rank (the file's), sequence (ascending), "
                          "op, group (a list with the rank), count, dtype and bytes", path, in.number,
                          (int)strcspn(in.text, "\n") < 60 ? (int)strcspn(in.text, "\n") : 60, in.text);
        json_decref(root);
    }
    input_close(&in);
    return status;
}

/* ---- comparing ---- */
static int by_channel(const void *a, const void *b) {
    const struct called *x = a, *y = b;
    int order = (x->channel > y->channel) - (x->channel < y->channel);
    if (order == 0) order = (x->rank > y->rank) - (x->rank < y->rank);
    return order ? order : (x->order > y->order) - (x->order < y->order);
}

/* One rank's calls of a channel. */
struct list { const struct called *call; int n, rank; };

static bool same_call(const struct called *x, const struct called *y) {
    bool message = x->peer >= 0 && y->peer >= 0;                     /* one sends, one receives */
    if (!message && strcmp(x->op, y->op)) return false;
    bool counted = message || strcmp(x->op, "all_to_allv");          /* each rank has its own counts */
    return !strcmp(x->dtype, y->dtype) && (!counted || x->count == y->count);
}
static const struct called *at(const struct list *l, int i) { return i < l->n ? &l->call[i] : NULL; }
static bool alike(const struct list *x, int i, const struct list *y, int j) {
    const struct called *a = at(x, i), *b = at(y, j);
    return a && b ? same_call(a, b) : a == b;
}

/* How x differs from y at i: two calls are swapped; a call is missing or too many, after which both go on alike; or the
 * calls differ. */
static enum call_fault fault_of(const struct list *x, const struct list *y, int i) {
    if (!at(x, i)) return CALL_MISSING;
    if (!at(y, i)) return CALL_MORE;
    if (x->n == y->n && alike(x, i, y, i + 1) && alike(x, i + 1, y, i)) return CALL_SWAPPED;
    if (x->n < y->n && alike(x, i, y, i + 1)) return CALL_MISSING;
    return x->n > y->n && alike(x, i + 1, y, i) ? CALL_MORE : CALL_DIFFERS;
}

/* The number of lists whose call at place i is like list l's. */
static int count_alike(const struct list *list, int n, int i, int l) {
    int same = 0;
    for (int k = 0; k < n; k++) same += alike(&list[l], i, &list[k], i);
    return same;
}

/* A list whose call at place i is the most frequent one there. */
static int usual_at(const struct list *list, int n, int i) {
    int usual = 0;
    for (int l = 1; l < n; l++)
        if (count_alike(list, n, i, l) > count_alike(list, n, i, usual)) usual = l;
    return usual;
}

/* Find the first place at which members disagree: a list that differs, and one of the majority. */
static void compare_lists(struct calls *c, int group, const struct list *list, int n) {
    int longest = 0;
    for (int l = 0; l < n; l++)
        if (list[l].n > longest) longest = list[l].n;
    for (int i = 0; i < longest; i++) {
        int odd = 0, usual = usual_at(list, n, i);
        while (odd < n && alike(&list[odd], i, &list[usual], i)) odd++;
        if (odd == n) continue;
        const struct list *x = &list[odd], *y = &list[usual];
        bool sure = count_alike(list, n, i, usual) > count_alike(list, n, i, odd);
        c->finding = table_grow(c->finding, c->n_findings, sizeof *c->finding);
        c->finding[c->n_findings++] =
            (struct call_finding){fault_of(x, y, i), sure, group, x->rank, y->rank, at(x, i), at(y, i)};
        return;
    }
}

static bool is_read(const struct calls *c, int rank) { return rank < c->n_ranks && c->read[rank]; }

/* Calls [first, end) are of one channel. Members that have called nothing in it have an empty list. */
static void compare_channel(struct calls *c, int first, int end) {
    const struct called *x = &c->call[first];
    const struct call_group *g = &c->group[x->group];
    const int pair[] = {x->rank, x->peer}, *member = x->peer >= 0 ? pair : g->member;
    int n_members = x->peer >= 0 ? 2 : g->n_members, n = 0;
    struct list *list = table_new(n_members, sizeof *list);
    for (int m = 0; m < n_members; m++) {
        if (!is_read(c, member[m])) continue;
        struct list *l = &list[n++];
        *l = (struct list){.rank = member[m]};
        for (int i = first; i < end; i++)
            if (c->call[i].rank == member[m] && l->n++ == 0) l->call = &c->call[i];
    }
    if (n > 1) compare_lists(c, x->group, list, n);
    free(list);
}

/* Earliest first. Each rank numbers its own calls, so the order is a guess. */
static int by_time(const void *a, const void *b) {
    const struct call_finding *x = a, *y = b;
    const struct called *i = x->call ? x->call : x->others, *j = y->call ? y->call : y->others;
    if (i->step != j->step) return (i->step > j->step) - (i->step < j->step);
    return (i->sequence > j->sequence) - (i->sequence < j->sequence);
}

static void compare(struct calls *c) {
    if (c->n_calls) qsort(c->call, (size_t)c->n_calls, sizeof *c->call, by_channel);
    for (int first = 0, end; first < c->n_calls; first = end) {
        for (end = first; end < c->n_calls && c->call[end].channel == c->call[first].channel;) end++;
        compare_channel(c, first, end);
    }
    for (int g = 0; g < c->n_groups; g++)
        for (int m = 0; m < c->group[g].n_members; m++) c->n_absent += !is_read(c, c->group[g].member[m]);
    if (c->n_findings) qsort(c->finding, (size_t)c->n_findings, sizeof *c->finding, by_time);
}

/* ---- all of it ---- */
static enum status read_all(struct calls *c, const char *folder) {
    char pattern[1024];
    glob_t found = {.gl_pathc = 0};
    enum status status = OK;
    snprintf(pattern, sizeof pattern, "%s/collectives-*.jsonl", folder);
    glob(pattern, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc && status == OK; i++) {
        int rank = atoi(strrchr(found.gl_pathv[i], '-') + 1);
        for (; c->n_ranks <= rank && rank < CALL_RANKS_MAX; c->n_ranks++) {
            c->read = table_grow(c->read, c->n_ranks, sizeof *c->read);
            c->read[c->n_ranks] = false;
        }
        status = rank < 0 || rank >= CALL_RANKS_MAX
                     ? FAIL(E_FORMAT, "%s: ranks are 0 to %d", found.gl_pathv[i], CALL_RANKS_MAX - 1)
                     : read_file(c, found.gl_pathv[i], rank);
        if (status == OK) c->read[rank] = true;
    }
    globfree(&found);
    return status;
}

enum status calls_check(const char *folder, struct calls *c) {
    *c = (struct calls){.n_calls = 0};
    TRY(read_all(c, folder));
    compare(c);
    return OK;
}

void calls_close(struct calls *c) {
    for (int i = 0; i < c->n_groups; i++) {
        free(c->group[i].label);
        free(c->group[i].member);
    }
    json_decref(c->groups);
    json_decref(c->channels);
    free(c->group);
    free(c->call);
    free(c->finding);
    free(c->read);
    *c = (struct calls){.n_calls = 0};
}

/* ---- in words ---- */
/* "rank 1's call 7 is all_reduce of 96 fp32"; NULL: "rank 1 has no further one". */
static void describe(const struct called *x, int rank, char *text, size_t bytes) {
    char peer[32] = "";
    if (!x) {
        snprintf(text, bytes, "rank %d makes no further one", rank);
        return;
    }
    if (x->peer >= 0) snprintf(peer, sizeof peer, " %s rank %d", !strncmp(x->op, "send", 4) ? "to" : "from", x->peer);
    snprintf(text, bytes, "rank %d's call %" PRId64 " is %s of %" PRId64 " %s%s", rank, x->sequence, x->op, x->count,
             x->dtype, peer);
}

void call_finding_text(const struct calls *c, const struct call_finding *f, char *text, size_t bytes) {
    static const char *const FAULTS[] = {
        [CALL_DIFFERS] = "calls differ", [CALL_SWAPPED] = "two calls are in another order",
        [CALL_MISSING] = "a call is missing", [CALL_MORE] = "there is a call too many"};
    char one[160], other[160], on[32] = "";
    const char *fault = FAULTS[f->fault];
    if (f->sure) snprintf(on, sizeof on, " on rank %d", f->rank);
    else if (f->fault == CALL_MISSING || f->fault == CALL_MORE) fault = "a call is missing, or one is too many";
    describe(f->call, f->rank, one, sizeof one);
    describe(f->others, f->other, other, sizeof other);
    snprintf(text, bytes, "%s%s: step %" PRId64 ", group %s: %s; %s", fault, on,
             (f->call ? f->call : f->others)->step, c->group[f->group].label, one, other);
}
