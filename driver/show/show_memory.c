/* See show_views.h. */
#include "driver/show/show_views.h"

#include "driver/chart/memory_chart.h"
#include "driver/command.h"
#include "driver/recipe.h"
#include "driver/report/report.h"
#include "lib/cost/activations.h"
#include "lib/run/sent.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory_line {
    struct mesh_place place;
    int rank;
    int64_t bytes[N_ROLES], total, host, disk, parked, disk_read, disk_written;   /* the last three per step */
    double flops[N_ROW_KINDS], wire[N_MESH_AXES];                                 /* per step, from the bill */
};

/* The activations that each block saves. All ranks of a stage save the same, so the first pipeline's ranks suffice. */
struct saved { int n; struct block *blocks; struct activations *activations; };

static void saved_fini(struct saved *s) {
    free(s->blocks);
    free(s->activations);
}

static enum status saved_add(struct saved *s, const struct run *r) {
    const struct program *p = &r->program;
    if (mesh_colour(AXIS_PP, &r->plan.place) != 0) return OK;
    if (!s->n) {
        s->blocks = calloc((size_t)p->n_blocks, sizeof *s->blocks);
        s->activations = calloc((size_t)p->n_blocks, sizeof *s->activations);
        if (!s->blocks || !s->activations) return FAIL(E_MEMORY, "no memory for a table of %d blocks", p->n_blocks);
        memcpy(s->blocks, p->blocks, (size_t)p->n_blocks * sizeof *s->blocks);
        s->n = p->n_blocks;
    }
    for (int k = 0; k < p->n_chunks; k++) TRY(activations_count(p, &r->chunks[k], s->activations));
    return OK;
}

static bool same_kind(const struct saved *s, int i, int j) {
    return i == j || (s->blocks[i].is_layer && s->blocks[j].is_layer);
}
static bool same_saved(const struct saved *s, int i, int j) {
    const struct activations *a = &s->activations[i], *b = &s->activations[j];
    return same_kind(s, i, j) && a->bytes == b->bytes && a->statistics == b->statistics && a->parked == b->parked;
}

/* Print a line for the first block of each kind. Layers that save different bytes (some are recomputed, say) have a
 * line for each group, with its first layer and its number of layers. */
static void print_saved_kind(const struct saved *s, int i) {
    int kind = 0, same = 0;
    for (int j = 0; j < s->n; j++) {
        if (j < i && same_saved(s, i, j)) return;
        kind += same_kind(s, i, j);
        same += same_saved(s, i, j);
    }
    if (!s->blocks[i].is_layer) printf("%s", s->blocks[i].name);
    else if (same == kind) printf("a layer");
    else printf("a layer like %s (%d of %d)", s->blocks[i].name, same, kind);
    const struct activations *a = &s->activations[i];
    printf(" saves %" PRId64 " bytes (+ %" PRId64 " of statistics) a microbatch", a->bytes, a->statistics);
    if (a->parked) printf(", and %" PRId64 " in host memory", a->parked);
    putchar('\n');
}

static json_t *saved_json(const struct saved *s) {
    json_t *all = json_array();
    for (int i = 0; i < s->n; i++)
        json_array_append_new(all, json_pack("{s:s, s:I, s:I, s:I}", "block", s->blocks[i].name, "bytes",
                                             (json_int_t)s->activations[i].bytes, "statistics",
                                             (json_int_t)s->activations[i].statistics, "parked",
                                             (json_int_t)s->activations[i].parked));
    return all;
}

static enum status compile_line(const struct plan *plan, int rank, struct memory_line *line, struct saved *saved) {
    struct run r;
    TRY(run_compile(&r, &train_recipe, plan, rank, NULL, NULL));
    enum status status = saved_add(saved, &r);
    *line = (struct memory_line){.place = r.plan.place, .rank = rank, .parked = r.bill.parked_bytes};
    for (enum role role = 0; role < N_ROLES; role++) {
        line->total += line->bytes[role] = r.memory.bytes[TIER_DEVICE][role];
        line->host += r.memory.bytes[TIER_HOST][role];
        line->disk += r.memory.bytes[TIER_DISK][role];
    }
    line->disk_read = r.bill.disk_read_bytes;
    line->disk_written = r.bill.disk_written_bytes;
    memcpy(line->flops, r.bill.flops, sizeof line->flops);
    memcpy(line->wire, r.bill.wire_bytes, sizeof line->wire);
    run_destroy(&r);
    return status;
}

static void print_memory_line(const struct memory_line *l) {
    printf("%5d ", l->rank);
    for (int d = N_DIMS; d-- > 0;)
        if (mesh_dim_is_shown((enum mesh_dim)d, l->place.n.at[d])) printf(" %3d", l->place.rank.at[d]);
    for (enum role role = 0; role < N_ROLES; role++) printf(" %12" PRId64, l->bytes[role]);
    printf(" %13" PRId64, l->total);
    if (l->host) printf("  + %" PRId64 " in host memory", l->host);
    if (l->disk) printf("  + %" PRId64 " on disk", l->disk);
    putchar('\n');
}

/* In MiB: the memory that a GPU or a container needs. */
static void print_largest(const struct memory_line *l, int64_t collectives) {
    printf("the most: rank %d, %.1f MiB", l->rank, (double)l->total / (1 << 20));
    if (l->host) printf(" and %.1f MiB in host memory", (double)l->host / (1 << 20));
    if (l->disk) printf(" and %.1f MiB on disk", (double)l->disk / (1 << 20));
    if (collectives) printf("; its collectives take at most %.1f MiB of their own", (double)collectives / (1 << 20));
    if (l->parked) printf("; parking copies %.1f MiB a step", (double)l->parked / (1 << 20));
    putchar('\n');
}

/* Only the update hides disk traffic, and it is short, so the disk's time extends the step. The time of a step is
 * unknown, so the printed rate is for a step of one second. */
static void print_disk(const struct memory_line *l) {
    const double share = 0.1;
    double bytes = (double)(l->disk_read + l->disk_written);
    if (!l->disk) return;
    printf("disk: rank %d reads %" PRId64 " and writes %" PRId64 " bytes a step; for a step of 1 s to take at most "
           "%.0f%% longer, the disk must give %.1f MB/s to each rank\n", l->rank, l->disk_read, l->disk_written,
           100 * share, bytes / share / 1e6);
}

/* Temporary bytes of a rank's collectives, allocated at their start and freed at their end. 0 if sent.h has no rules:
 * on a GPU, whose library allocates by itself, and for fixed sums, which have their own tables. */
static enum status collectives_bytes(const struct plan *plan, int rank, int64_t *total) {
    struct sent_rules rules;
    int64_t bytes[N_MESH_AXES];
    struct run r;
    *total = 0;
    if (plan->device == PLAN_DEVICE_CUDA || plan->sums == PLAN_SUMS_FIXED) return OK;
    TRY(sent_rules_of(plan, &rules));
    enum status status = run_compile(&r, &train_recipe, plan, rank, NULL, NULL);
    if (status == OK) status = sent_memory(&rules, &plan->mesh, rank, &r.bill, bytes);
    for (int a = 0; a < N_MESH_AXES && status == OK; a++) *total += bytes[a];
    run_destroy(&r);
    return status;
}

static json_t *bytes_json(const struct memory_line *l) {
    json_t *bytes = json_object();
    for (enum role role = 0; role < N_ROLES; role++)
        json_object_set_new(bytes, role_name(role), json_integer(l->bytes[role]));
    return bytes;
}

/* Bytes that the rank sends in a step, for each axis with several ranks. */
static json_t *wire_json(const struct memory_line *l) {
    json_t *wire = json_object();
    for (enum mesh_axis a = AXIS_SELF + 1; a < AXIS_MESH; a++)
        if (mesh_size(a, &l->place) > 1) json_object_set_new(wire, mesh_axis_name(a), json_real(l->wire[a]));
    return wire;
}

static json_t *flops_json(const struct memory_line *l) {
    return json_pack("{s:f, s:f, s:f, s:f}", "forward", l->flops[ROW_FORWARD], "replay", l->flops[ROW_REPLAY],
                     "backward_input", l->flops[ROW_BACKWARD_INPUT], "backward_weight", l->flops[ROW_BACKWARD_WEIGHT]);
}

static json_t *memory_json(const struct memory_line *l) {
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "rank", l->rank,
                     "pp_rank", l->place.rank.pp, "dp_rank", l->place.rank.dp, "cp_rank", l->place.rank.cp, "tp_rank",
                     l->place.rank.tp, "bytes", bytes_json(l), "total", (json_int_t)l->total, "host",
                     (json_int_t)l->host, "parked_per_step", (json_int_t)l->parked, "disk", (json_int_t)l->disk,
                     "disk_read_bytes", (json_int_t)l->disk_read, "disk_write_bytes", (json_int_t)l->disk_written,
                     "wire_bytes", wire_json(l), "flops", flops_json(l));
}

/* Ranks of one stage differ by at most a padded vocabulary row or a sample, so layouts of more than 64 ranks show one
 * replica per stage, and one server if there are servers. */
static bool is_shown(const struct plan *plan, int rank) {
    struct mesh_place place = mesh_place_of(&plan->mesh, rank);
    if (place.rank.dp == plan->workers) place.rank.dp = 0;
    return plan_ranks(plan) <= 64 || mesh_colour(AXIS_PP, &place) == 0;
}

static enum status timeline_of(const struct plan *plan, int rank, json_t **out) {
    struct run r;
    char mesh[128];
    enum status status = run_compile(&r, &train_recipe, plan, rank, NULL, NULL);
    json_t *name = json_string(mesh_sizes_text(&plan->mesh, mesh, sizeof mesh));
    if (status == OK) status = memory_chart_json(&r, name, out);
    else json_decref(name);
    run_destroy(&r);
    return status;
}

enum status show_memory(const struct plan *plan, bool json, int timeline_rank) {
    json_t *ranks = json_array(), *timeline = NULL;
    struct saved saved = {0};
    struct memory_line largest = {0}, most_disk = {0};
    enum status status = OK;
    if (!json) {
        printf("%" PRId64 " parameters, precision %s, micro-batch %" PRId64 "; planned bytes of a rank, by role: "
               "param weights, grad gradients, optim moments and masters,\n"
               "act activations and their gradients, comm buckets, gathered weights and staging, work scratch of "
               "kernels, save checkpoints\n rank ",
               plan->arch->n_params(plan), show_precision(plan), plan->micro_batch);
        for (int d = N_DIMS; d-- > 0;)
            if (mesh_dim_is_shown((enum mesh_dim)d, plan->mesh.at[d])) printf(" %3s", mesh_dim_name(d));
        for (enum role role = 0; role < N_ROLES; role++) printf(" %12s", role_name(role));
        printf(" %13s\n", "total");
    }
    for (int rank = 0; rank < plan_ranks(plan) && status == OK; rank++) {
        struct memory_line line;
        if (!is_shown(plan, rank)) continue;
        status = compile_line(plan, rank, &line, &saved);
        if (status != OK) break;
        if (json) json_array_append_new(ranks, memory_json(&line));
        else print_memory_line(&line);
        if (line.total > largest.total) largest = line;
        if (line.disk_read > most_disk.disk_read) most_disk = line;
    }
    int64_t collectives = 0;
    if (status == OK) status = collectives_bytes(plan, largest.rank, &collectives);
    if (status == OK && !json) print_largest(&largest, collectives);
    if (status == OK && !json) print_disk(&most_disk);
    for (int i = 0; i < saved.n && status == OK && !json; i++) print_saved_kind(&saved, i);
    json_t *all = json_pack("{s:I, s:i, s:i, s:o, s:o, s:I}", "parameters", (json_int_t)plan->arch->n_params(plan),
                            "n_ranks", plan_ranks(plan), "microbatches", plan->n_microbatches, "ranks", ranks,
                            "activations", saved_json(&saved), "collectives", (json_int_t)collectives);
    saved_fini(&saved);
    if (status == OK && timeline_rank >= 0) status = timeline_of(plan, timeline_rank, &timeline);
    if (timeline) json_object_set_new(all, "timeline", timeline);
    if (status == OK && json) return command_print(all, JSON_INDENT(2));
    json_decref(all);
    return status;
}

enum status show_memory_page(const struct plan *plan, int rank, const char *dir, bool json) {
    json_t *timeline;
    TRY(timeline_of(plan, rank, &timeline));
    return report_page(dir, "memory", json_pack("{s:s, s:o}", "kind", "memory", "timeline", timeline), json);
}

enum status show_memory_limit(const struct plan *plan) {
    for (int rank = 0; rank < plan_ranks(plan) && plan->memory_limit > 0; rank++) {
        struct run r;
        if (!is_shown(plan, rank)) continue;
        TRY(run_compile(&r, &train_recipe, plan, rank, NULL, NULL));
        enum status status = run_check_memory(&r);
        run_destroy(&r);
        TRY(status);
    }
    return OK;
}
