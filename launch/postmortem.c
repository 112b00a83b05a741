/* trivium postmortem: reads the flight records and prints what each rank did last, and the verdict. */
#include "launch/agent.h"

#include "lib/comm/comm.h"
#include "lib/comm/flight/postmortem.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "trivium postmortem [JOB|DIR] [--json]\n"
    "\n"
    "Compares the flight records of a job's ranks: the first call in which they differ, which ranks are missing and\n"
    "which wait, how far behind each is, and what it did last. JOB: of this host, running or dead (default: the one\n"
    "that started last); its records are trivium-UID/trivium.JOB.RANK in /dev/shm, and can be removed by hand. DIR:\n"
    "where `trivium launch` has put the records of a job that failed; for root, another user's trivium-UID, too.\n"
    "\n"
    "  --json   the same for programs\n";

enum { TEXT = 1536 };

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static void print_text(const struct flight_set *set, const struct postmortem *p) {
    char text[TEXT];
    printf("job %s, %d ranks, %s\n", set->job, set->size, set->alive ? "running" : "ended");
    for (int r = 0; r < set->size; r++) {
        postmortem_rank_text(set, p, r, text, sizeof text);
        printf("  rank %d%s%s: %s\n", r, set->ring[r] ? " @" : "", set->ring[r] ? set->ring[r]->host : "", text);
    }
    postmortem_text(set, p, text, sizeof text);
    printf("verdict: %s\n", text);
}

/* ---- for programs ---- */

static json_t *call_json(const struct flight *f, const struct flight_row *row) {
    if (!f || !row) return json_null();
    static const char *const states[] = {"", "called", "started", "queued", "done"};
    const struct flight_group *group = flight_group_find(f, row->group);
    return json_pack("{s:s, s:I, s:s, s:I, s:s, s:i, s:s, s:i, s:i, s:i, s:i}", "group", group ? group->name : "",
                     "sequence", (json_int_t)row->sequence, "op", comm_op_name((enum comm_op)row->op), "count",
                     (json_int_t)row->count, "dtype", dtype_name((enum dtype)row->dtype), "peer", (int)row->peer,
                     "state", states[row->state], "hop", (int)row->hop, "hops", (int)row->hops, "step", (int)row->step,
                     "tag", (int)row->tag);
}

static json_t *rank_json(const struct flight_set *set, const struct postmortem *p, int rank) {
    const struct flight *f = set->ring[rank];
    const struct postmortem_rank *r = &p->of[rank];
    if (!f) return json_pack("{s:i, s:b}", "rank", rank, "found", 0);
    return json_pack("{s:i, s:b, s:s, s:i, s:I, s:I, s:o, s:o, s:f, s:i, s:I, s:f}", "rank", rank, "found", 1, "host",
                     f->host, "pid", (int)f->pid, "rows", (json_int_t)f->written, "dropped",
                     (json_int_t)flight_dropped(f), "last", call_json(f, r->last), "waits_in", call_json(f, r->waits),
                     "waited_s", r->waited_s, "waits_for", r->waits_for, "behind", (json_int_t)r->behind, "silent_s",
                     r->silent_s);
}

static void print_json(const struct flight_set *set, const struct postmortem *p) {
    char text[TEXT];
    postmortem_text(set, p, text, sizeof text);
    json_t *ranks = json_array();
    for (int r = 0; r < set->size; r++) json_array_append_new(ranks, rank_json(set, p, r));
    json_t *all = json_pack("{s:s, s:i, s:b, s:s, s:i, s:i, s:s, s:o}", "job", set->job, "size", set->size, "running",
                            (int)set->alive, "verdict", postmortem_kind_name(p->kind), "rank", p->rank, "other",
                            p->other, "text", text, "ranks", ranks);
    json_dumpf(all, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(all);
}

static enum status run(const char *what, bool json) {
    struct flight_set set;
    struct postmortem p;
    bool folder = is_folder(what);
    TRY(flight_set_read(folder ? what : flight_folder(), folder ? "" : what, &set));
    enum status status = postmortem_find(&set, &p);
    if (status == OK) (json ? print_json : print_text)(&set, &p);
    if (status == OK) postmortem_fini(&p);
    flight_set_fini(&set);
    return status;
}

int postmortem_main(int argc, char **argv) {
    const char *what = "";
    bool json = false;
    enum status status = OK;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(help, stdout);
            return 0;
        }
        if (strcmp(argv[i], "--json") == 0) json = true;
        else if (argv[i][0] == '-' || *what) status = FAIL(E_USAGE, "postmortem takes one job or folder, and --json; "
                                                           "%s is another word", argv[i]);
        else what = argv[i];
    }
    if (status == OK) status = run(what, json);
    status_report();
    return status_exit_code(status);
}
