/* trivium watch: prints once a second what each rank does. */
#include "launch/agent.h"

#include "lib/base/input.h"
#include "lib/comm/comm.h"
#include "lib/comm/flight/postmortem.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "trivium watch [JOB] [--once] [--json] [--metrics FILE]\n"
    "\n"
    "A job of this host, of several ranks, once a second until it ends (default: the one that started last). Of each\n"
    "rank: the step, its own time and its waiting in the last one, what it sent inside its node and to other nodes\n"
    "(by hops and messages; what the MPI library sends for a collective it does not say), and what it does now.\n"
    "\n"
    "  --once          look once\n"
    "  --json          an object a line, for programs\n"
    "  --metrics FILE  whose last row has the loss (default: metrics.jsonl; empty: none)\n";

struct request { const char *job, *metrics; bool once, json; };

enum { TEXT = 1536, TAIL = 4096 };

/* ---- the last whole row of a step in the metrics file; NULL: there is none, or it is an earlier job's ---- */

static json_t *step_row(const char *line, size_t bytes) {
    json_t *row = json_loadb(line, bytes, 0, NULL);
    if (json_is_integer(json_object_get(row, "step")) && json_object_get(row, "loss")) return row;
    json_decref(row);
    return NULL;
}

/* A job writes to the file for the first time with its first row. */
static bool is_of_job(const struct stat *info, const struct flight_set *set) {
    int64_t written_ns = (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
    for (int r = 0; r < set->size; r++)
        if (set->ring[r] && written_ns >= set->ring[r]->start_ns) return true;
    return false;
}

static json_t *last_row(const char *path, const struct flight_set *set) {
    char tail[TAIL];
    struct stat info;
    FILE *file;
    if (stat(path, &info) != 0 || !is_of_job(&info, set)) return NULL;
    if (input_file("", path, INPUT_FILE, &file) != OK) {
        status_clear();
        return NULL;
    }
    fseek(file, info.st_size > TAIL ? (long)(info.st_size - TAIL) : 0, SEEK_SET);
    size_t n = fread(tail, 1, sizeof tail, file);
    fclose(file);
    json_t *row = NULL;
    for (size_t end = n; end > 0 && !row; end--) {
        if (tail[end - 1] != '\n') continue;
        size_t first = end - 1;
        while (first > 0 && tail[first - 1] != '\n') first--;
        row = step_row(tail + first, end - 1 - first);
    }
    return row;
}

/* ---- the table ---- */

static void print_rank(const struct flight_set *set, const struct postmortem *p, int rank) {
    char text[TEXT];
    const struct flight *f = set->ring[rank];
    postmortem_rank_text(set, p, rank, text, sizeof text);
    if (!f) {
        printf("%4d  %s\n", rank, text);
        return;
    }
    printf("%4d  %-10.10s %7lld %8.1f %8.1f %10.3f %10.3f  %s\n", rank, f->host, (long long)f->step.step,
           1e3 * f->step.own_s, 1e3 * f->step.wait_s, f->step.bytes[0] / (1 << 20), f->step.bytes[1] / (1 << 20), text);
}

static void print_table(const struct flight_set *set, const struct postmortem *p, const json_t *row, bool redraw) {
    if (redraw) fputs("\033[H\033[2J", stdout); /* home, and clear */
    printf("job %s, %d ranks, %s", set->job, set->size, set->alive ? "running" : "ended");
    if (row)
        printf("; metrics: step %lld, loss %.4f, %.1f ms", (long long)json_integer_value(json_object_get(row, "step")),
               json_number_value(json_object_get(row, "loss")), json_number_value(json_object_get(row, "step_ms")));
    printf("\nrank  host          step   own ms  wait ms inside MiB betw. MiB  now\n");
    for (int r = 0; r < set->size; r++) print_rank(set, p, r);
    fflush(stdout);
}

/* ---- the same as JSON ---- */

static json_t *rank_json(const struct flight_set *set, const struct postmortem *p, int rank) {
    char text[TEXT];
    const struct flight *f = set->ring[rank];
    if (!f) return json_pack("{s:i, s:b}", "rank", rank, "found", 0);
    postmortem_rank_text(set, p, rank, text, sizeof text);
    return json_pack("{s:i, s:b, s:s, s:I, s:f, s:f, s:f, s:f, s:b, s:i, s:f, s:f, s:s}", "rank", rank, "found", 1,
                     "host", f->host, "step", (json_int_t)f->step.step, "own_ms", 1e3 * f->step.own_s, "wait_ms",
                     1e3 * f->step.wait_s, "bytes_inside", f->step.bytes[0], "bytes_between", f->step.bytes[1],
                     "waits", p->of[rank].waits != NULL, "waits_for", p->of[rank].waits_for, "waited_s",
                     p->of[rank].waited_s, "silent_s", p->of[rank].silent_s, "now", text);
}

static void print_json(const struct flight_set *set, const struct postmortem *p, json_t *row) {
    json_t *ranks = json_array();
    for (int r = 0; r < set->size; r++) json_array_append_new(ranks, rank_json(set, p, r));
    json_t *all = json_pack("{s:s, s:b, s:O?, s:o}", "job", set->job, "running", (int)set->alive, "metrics", row,
                            "ranks", ranks);
    json_dumpf(all, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(all);
}

static enum status look(const struct request *q, const char *job, struct flight_set *set) {
    struct postmortem p;
    TRY(flight_set_read(flight_folder(), job, set));
    enum status status = postmortem_find(set, &p);
    json_t *row = *q->metrics ? last_row(q->metrics, set) : NULL;
    if (status == OK && q->json) print_json(set, &p, row);
    else if (status == OK) print_table(set, &p, row, !q->once && isatty(STDOUT_FILENO));
    json_decref(row);
    if (status == OK) postmortem_fini(&p);
    return status;
}

static enum status watch(const struct request *q) {
    char job[64];
    snprintf(job, sizeof job, "%s", q->job);
    for (bool again = false;; again = true) {
        struct flight_set set;
        enum status status = look(q, job, &set);
        bool alive = set.alive;
        if (status == OK) snprintf(job, sizeof job, "%s", set.job);
        flight_set_fini(&set);
        if (again && status == E_DATA) { /* the job has ended well and removed its records */
            status_clear();
            return OK;
        }
        if (status != OK || q->once || !alive) return status;
        sleep(1);
    }
}

static enum status parse(int argc, char **argv, struct request *q) {
    *q = (struct request){.job = "", .metrics = "metrics.jsonl"};
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--once") == 0) q->once = true;
        else if (strcmp(argv[i], "--json") == 0) q->json = true;
        else if (strcmp(argv[i], "--metrics") == 0 && i + 1 < argc) q->metrics = argv[++i];
        else if (argv[i][0] != '-' && !*q->job) q->job = argv[i];
        else return FAIL(E_USAGE, "watch takes a job, --once, --json and --metrics FILE; %s is another word", argv[i]);
    }
    return OK;
}

int watch_main(int argc, char **argv) {
    struct request q;
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        fputs(help, stdout);
        return 0;
    }
    enum status status = parse(argc, argv, &q);
    if (status == OK) status = watch(&q);
    status_report();
    return status_exit_code(status);
}
