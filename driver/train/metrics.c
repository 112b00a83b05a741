#define _GNU_SOURCE /* asprintf */
#include "driver/train/metrics.h"

#include "lib/base/say.h"
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

/* Bypass FILE's buffer, which would write a failed row again with the next row. */
static bool write_line(struct metrics *m, const char *text) {
    char *line;
    if (!metrics_begin(m)) return false;
    int n = asprintf(&line, "%s%s\n", m->cut_off ? "\n" : "", text);
    if (n < 0) return false;
    ssize_t written = TEMP_FAILURE_RETRY(write(fileno(m->file), line, (size_t)n));
    if (written >= 0) m->cut_off = written < n;
    free(line);
    return written == n;
}

/* Releases `row`. */
static enum status write_row(struct metrics *m, json_t *row) {
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    char *text = row ? json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    errno = text ? ENOSPC : ENOMEM;                                  /* a partial write sets no errno */
    bool ok = text && write_line(m, text);
    int why = errno;
    free(text);
    json_decref(row);
    signal(SIGPIPE, before);
    return ok ? OK : FAIL(E_IO, "cannot write metrics=%s: %s", m->path, strerror(why));
}

static void add_experts(json_t *row, const struct metrics_row *r) {
    json_object_set_new(row, "aux_loss", number(r->aux_loss));
    json_object_set_new(row, "expert_load", number(r->expert_load));
    json_object_set_new(row, "dropped", number(r->dropped));
}

static void add_disk(json_t *row, const struct disk_traffic *d) {
    json_object_set_new(row, "disk_read_bytes", json_integer(d->read_bytes));
    json_object_set_new(row, "disk_write_bytes", json_integer(d->written_bytes));
    json_object_set_new(row, "disk_wait_ms", number(1e3 * d->wait_s));
}

enum status metrics_step(struct metrics *m, const struct metrics_row *r) {
    if (!m->file) return OK;
    json_t *row = json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:b, s:o, s:I}",
        "step", (json_int_t)r->step, "loss", number(r->loss), "grad_norm", number(r->grad_norm), "lr", number(r->lr),
        "step_ms", number(1e3 * r->step_s), "tokens_per_s", number(r->tokens_per_s), "mfu", number(r->mfu),
        "flops_per_token", number(r->flops_per_token), "mem_peak_bytes", (json_int_t)r->mem_peak_bytes,
        "comm_bytes", number(r->comm_bytes), "comm_ms", number(1e3 * r->comm_s), "bubble_ms", number(1e3 * r->bubble_s),
        "data_wait_ms", number(1e3 * r->data_s), "skipped", (int)r->skipped, "loss_scale", number(r->loss_scale),
        "tokens_seen", (json_int_t)r->tokens_seen);
    if (row && r->parked_bytes) json_object_set_new(row, "parked_bytes", json_integer(r->parked_bytes));
    if (row && r->run && r->run->train.ahead) json_object_set_new(row, "data_late", json_integer(r->data_late));
    if (row && r->emulated) json_object_set_new(row, "emulated_links", json_true());
    if (row && r->on_disk) add_disk(row, &r->disk);
    if (row && r->experts) add_experts(row, r);
    for (int i = 0; row && r->run && i < r->run->n_active; i++)
        if (r->run->active[i]->report) TRY(r->run->active[i]->report(r->run, r->run->self[i], row));
    return write_row(m, row);
}

enum status metrics_evaluation(struct metrics *m, int64_t step, double val_loss, double val_auc) {
    if (!m->file) return OK;
    json_t *row = json_pack("{s:I, s:o}", "step", (json_int_t)step, "val_loss", number(val_loss));
    if (!isnan(val_auc)) json_object_set_new(row, "val_auc", number(val_auc));
    return write_row(m, row);
}

enum status metrics_save(struct metrics *m, int64_t step, double save_s, double stall_s, int64_t failures) {
    if (!m->file) return OK;
    return write_row(m, json_pack("{s:I, s:o, s:o, s:I}", "step", (json_int_t)step, "save_ms", number(1e3 * save_s),
                                  "stall_ms", number(1e3 * stall_s), "save_failures", (json_int_t)failures));
}

enum status metrics_rollback(struct metrics *m, const struct metrics_rollback *r) {
    if (!m->file) return OK;
    return write_row(m, json_pack("{s:I, s:o, s:o, s:I, s:I, s:I}", "step", (json_int_t)r->step, "spike_loss",
                                  number(r->loss), "spike_limit", number(r->limit), "rolled_back_to",
                                  (json_int_t)r->to_step, "skipped_first_sample", (json_int_t)r->first_sample,
                                  "skipped_samples", (json_int_t)r->n_samples));
}

void metrics_print(const struct metrics_row *r) {
    printf("step %" PRId64 "/%" PRId64 " | loss %.4f | norm %.2f | lr %.2e | %.1f ms | %.0f tok/s | mfu %.1f%%"
           " | mem %.0f MiB", r->step, r->steps, printed(r->loss), printed(r->grad_norm), r->lr, 1e3 * r->step_s,
           r->tokens_per_s, 100 * r->mfu, (double)r->mem_peak_bytes / (1 << 20));
    if (r->loss_scale != 1) printf(" | scale %.0f", r->loss_scale);
    if (r->experts)
        printf(" | aux %.4f load %.2f dropped %.1f%%", r->aux_loss, r->expert_load, 100 * r->dropped);
    printf("%s%s\n", r->emulated ? " | emulated" : "", r->skipped ? " | skipped" : "");
    fflush(stdout);
}

struct ledger_entry metrics_ledger(const struct group *group) {
    struct ledger_entry sum = {0};
    for (int op = 0; op < N_COMM_OPS; op++) {
        const struct ledger_entry *e = &group_ledger(group)->entry[op];
        sum.bytes += e->bytes;
        sum.wait_s += e->wait_s;
        for (int between = 0; between < 2; between++) sum.sent[between] += e->sent[between];
    }
    return sum;
}
