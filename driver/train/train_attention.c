/* Choose attention's kernels, ours or cuDNN's, and make their plans for the run's rows before the first step. */
#include "driver/train/train_state.h"
#include "lib/ops/attention/attention_cores.h"
#include "lib/ops/attention/attention_pair.h"

static enum status add_row(const struct run *r, const struct row *row, struct attention_cores *cores) {
    struct attention_pair pairs[ATTENTION_PAIRS];
    const bool backward = row->kind == ROW_BACKWARD_INPUT;
    struct call call = program_call(&r->program, &r->program.steps[row->id]);
    call.accumulate = row->accumulate;
    call.device = r->device;
    const int n = call.step->op->pairs(&call, backward, pairs);
    for (int i = 0; i < n; i++) TRY(attention_cores_add(cores, &pairs[i], backward));
    return OK;
}

static bool is_attention(const struct run *r, const struct row *row) {
    return (row->kind == ROW_FORWARD || row->kind == ROW_BACKWARD_INPUT) && r->program.steps[row->id].op->pairs;
}

static enum status add_tape(const struct run *r, const struct tape *t, struct attention_cores *cores) {
    for (int i = 0; i < t->n; i++)
        if (is_attention(r, &t->rows[i])) TRY(add_row(r, &t->rows[i], cores));
    return OK;
}

enum status train_attention(const struct run *r, const char **text) {
    struct attention_cores cores = {{{0}}};
    *text = "materialised";
    if (r->device->kind != DEVICE_CUDA || model_options(&r->plan)->attention != ATTENTION_BLOCKED) return OK;
    for (int c = 0; c < r->program.n_chunks; c++)
        for (int k = 0; k < N_TAPES; k++) TRY(add_tape(r, &r->chunks[c].tapes[k], &cores));
    *text = attention_cores_text(&cores);
    return OK;
}
