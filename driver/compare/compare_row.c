#include "driver/compare/compare_row.h"

#include <math.h>
#include <stdlib.h>

void compare_row_fini(struct compare_row *row) {
    free(row->ranks);
    row->ranks = NULL;
    trace_data_fini(&row->trace);
    json_decref(row->timeline);
}

int64_t compare_rank_predicted(const struct compare_rank *rank) {
    return roles_total(rank->predicted[TIER_DEVICE]) + roles_total(rank->predicted[TIER_HOST]);
}

static int64_t device_total(const struct compare_rank *rank) { return roles_total(rank->predicted[TIER_DEVICE]); }

const char *compare_row_name(const struct compare_row *row) { return row->strategy[0] ? row->strategy : "(as it is)"; }

const char *compare_row_status(const struct compare_row *row) {
    if (row->status == OK) return "ran";
    return row->started ? "failed" : "refused";
}

static void raise_to(int64_t *most, int64_t value) {
    if (value > *most) *most = value;
}

static void fold_memory(struct compare_summary *s, const struct compare_rank *rank) {
    for (enum role role = 0; role < N_ROLES; role++) {
        raise_to(&s->predicted[role], rank->predicted[TIER_DEVICE][role]);
        raise_to(&s->measured[role], rank->measured[TIER_DEVICE][role]);
    }
    for (enum tier tier = 0; tier < N_TIERS; tier++) {
        raise_to(&s->predicted_tier[tier], roles_total(rank->predicted[tier]));
        raise_to(&s->measured_tier[tier], roles_total(rank->measured[tier]));
    }
    raise_to(&s->resident, rank->resident_bytes);
    raise_to(&s->unaccounted, rank->resident_bytes - compare_rank_predicted(rank));
}

static void fold_traffic(struct compare_summary *s, const struct compare_rank *rank, int n_ranks) {
    for (enum mesh_axis axis = 0; axis < N_MESH_AXES; axis++) {
        if (rank->sent_bytes[axis] > s->sent_bytes[axis]) s->sent_bytes[axis] = rank->sent_bytes[axis];
        s->waited_s[axis] += rank->waited_s[axis] / n_ranks;
    }
    s->bubble_s += rank->bubble_s / n_ranks;
}

struct compare_summary compare_summarise(const struct compare_row *row) {
    struct compare_summary s = {.unaccounted = INT64_MIN};
    double step_s = 0, flops = 0, replay = 0;
    for (int i = 0; i < row->n_ranks; i++) {
        const struct compare_rank *rank = &row->ranks[i];
        fold_memory(&s, rank);
        fold_traffic(&s, rank, row->n_ranks);
        step_s += rank->step_s / row->n_ranks;
        flops += rank->flops;
        replay += rank->replay_flops;
    }
    s.bubble_share = s.bubble_s / step_s;
    s.extra_flops = replay / flops;
    return s;
}

void compare_row_add_pass(struct compare_row *row, double step_s, double work_s) {
    double n = row->n_passes + 1, tokens = row->tokens_per_s * row->step_s;
    row->pass_step_s[row->n_passes] = step_s;
    row->pass_work_s[row->n_passes++] = work_s;
    row->step_s += (step_s - row->step_s) / n;
    row->work_s += (work_s - row->work_s) / n;
    if (n > 1) row->tokens_per_s = tokens / row->step_s;
}

void compare_rows_scale(struct compare_row *rows, int n_rows) {
    double one = 0;
    for (int i = n_rows - 1; i >= 0; i--)
        if (rows[i].status == OK && rows[i].n_ranks == 1) one = rows[i].tokens_per_s;
    for (int i = 0; i < n_rows && one > 0; i++) rows[i].scale_factor = rows[i].tokens_per_s / (rows[i].n_ranks * one);
}

int compare_faster(const struct compare_row *rows, int n_rows, const struct compare_row *than, bool predicted) {
    int n = 0;
    for (int i = 0; i < n_rows; i++)
        n += rows[i].status == OK && (predicted ? rows[i].predicted_step_s < than->predicted_step_s
                                                : rows[i].step_s < than->step_s);
    return n;
}

double compare_row_spread(const struct compare_row *row) {
    double least = row->pass_step_s[0], most = least;
    for (int i = 1; i < row->n_passes; i++) {
        least = fmin(least, row->pass_step_s[i]);
        most = fmax(most, row->pass_step_s[i]);
    }
    return row->n_passes > 1 ? (most - least) / row->step_s : 0;
}

int compare_fullest(const struct compare_row *row) {
    int most = 0;
    for (int i = 1; i < row->n_ranks; i++)
        if (device_total(&row->ranks[i]) > device_total(&row->ranks[most])) most = i;
    return most;
}
