/* Passes tokens through the decoding program. The weights and the cache are in the run's param arena; a decoder only
 * keeps the position.
 *
 * With tp, rank r computes the logits of its shard of the vocabulary: V/tp rounded up, padding last. The last
 * position's logits are all-gathered, so that all ranks hold the same bits and each draws the next token itself. The
 * all-gather sends V elements per token (GPT-2, fp32: 196 KiB), little compared with the weights read meanwhile. For
 * top-k, each rank's k best would suffice. */
#include "models/decode/decode_step.h"

#include "lib/base/integer.h"
#include "lib/comm/comm.h"
#include "models/decode/decode.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum status fetch_tokens(void *self, int microbatch, int32_t *const data[N_DATA]) {
    const struct decoder *d = self;
    (void)microbatch;                                                /* one microbatch, no loss */
    memcpy(data[DATA_TOKENS], d->tokens, (size_t)(d->B * d->n) * sizeof **data);
    return OK;
}

/* Every param is resident, so no technique in the recipe needs the events of its use. */
static enum status ignore_param(void *self, const struct param_event *event) {
    (void)self, (void)event;
    return OK;
}

/* (B, n, shard of the vocabulary) */
static const struct type *part_type(const struct run *r) {
    const struct program *p = &r->program;
    return &p->slots[p->blocks[p->n_blocks - 1].out[0]].type;
}
static int64_t shard_n(const struct run *r) { return part_type(r)->shape.axis[2].n; }

int64_t decoder_row(const struct decoder *d) { return shard_n(d->run) * d->run->plan.mesh.tp; }

static int64_t scratch_of(const struct program *p, int step) {
    struct call call = program_call(p, &p->steps[step]);
    return op_work(&call, ROW_FORWARD);
}

/* Offsets and scratch are planned for `at_once` tokens: check that one token needs no more. */
static enum status check_scratch(struct decoder *d) {
    struct program *p = &d->run->program;
    int64_t *planned = calloc((size_t)p->n_steps, sizeof *planned);
    if (!planned) return FAIL(E_MEMORY, "no memory for the scratch of %d steps", p->n_steps);
    for (int i = 0; i < p->n_steps; i++) planned[i] = scratch_of(p, i);
    enum status status = decode_move(p, 0, 1);
    for (int i = 0; i < p->n_steps && status == OK; i++)
        if (scratch_of(p, i) > planned[i])
            status = FAIL(E_INTERNAL, "%s needs %" PRId64 " bytes of scratch for a token, and %" PRId64 " for %" PRId64,
                          p->steps[i].op->name, scratch_of(p, i), planned[i], d->at_once);
    free(planned);
    return status;
}

enum status decoder_init(struct decoder *d, struct run *r) {
    const struct shape *shape = &part_type(r)->shape;
    *d = (struct decoder){.run = r, .B = shape->axis[0].n, .at_once = shape->axis[1].n};
    size_t part = (size_t)(d->B * shard_n(r)), n = part * (size_t)r->plan.mesh.tp;
    d->part = malloc(part * dtype_size(part_type(r)->dtype));
    d->gathered = malloc(n * dtype_size(part_type(r)->dtype));
    d->logits = malloc(n * sizeof *d->logits);
    d->weights = malloc(n * sizeof *d->weights);
    if (!d->part || !d->gathered || !d->logits || !d->weights)
        return FAIL(E_MEMORY, "no memory for the scores of %zu tokens", n);
    r->exec.hooks = (struct exec_hooks){.self = d, .fetch = fetch_tokens, .param_event = ignore_param};
    return check_scratch(d);
}

void decoder_fini(struct decoder *d) {
    free(d->part);
    free(d->gathered);
    free(d->logits);
    free(d->weights);
    *d = (struct decoder){0};
}

/* (B, n, shard) -> of the last position (B, shard) -> of all ranks (tp, B, shard) -> (B, tp, shard) */
static enum status gather(struct decoder *d) {
    const struct run *r = d->run;
    enum dtype dtype = part_type(r)->dtype;
    int64_t tp = r->plan.mesh.tp, V = shard_n(r), row = V * (int64_t)dtype_size(dtype);
    const char *all = exec_out(&r->exec, 0);
    for (int64_t b = 0; b < d->B; b++)
        memcpy((char *)d->part + b * row, all + ((b + 1) * d->n - 1) * row, (size_t)row);
    TRY(comm_all_gather(r->mesh.group[AXIS_TP], d->part, d->gathered, d->B * V, dtype));
    for (int64_t b = 0; b < d->B; b++)
        for (int64_t k = 0; k < tp; k++)
            dtype_convert(d->logits + (b * tp + k) * V, FP64, (char *)d->gathered + (k * d->B + b) * row, dtype, V);
    return OK;
}

static enum status check_tokens(const struct decoder *d, const int32_t *tokens, int64_t n) {
    const struct plan *p = &d->run->plan;
    for (int64_t i = 0; i < d->B * n; i++)
        if (tokens[i] < 0 || tokens[i] >= p->vocab)
            return FAIL(E_CONFIG, "token %" PRId32 " is not in the vocabulary, 0 to %" PRId64, tokens[i], p->vocab - 1);
    if (n < 1 || n > d->at_once)
        return FAIL(E_CONFIG, "%" PRId64 " tokens at once; the program was planned for 1 to %" PRId64, n, d->at_once);
    if (d->position + n > p->seq)
        return FAIL(E_CONFIG,
                    "the model reads seq=%" PRId64 " tokens, and they are read; use fewer tokens, or a shorter prompt",
                    p->seq);
    return OK;
}

enum status decoder_read(struct decoder *d, const int32_t *tokens, int64_t n, const double **logits) {
    struct run *r = d->run;
    TRY(check_tokens(d, tokens, n));
    TRY(run_check_threads(r));
    d->tokens = tokens, d->n = n;
    TRY(decode_move(&r->program, d->position, n));
    TRY(exec_run(&r->exec, &r->schedule, false));
    d->position += n;
    if (!logits) return OK;
    *logits = d->logits;
    return gather(d);
}

/* Read the prompt into all sequences, up to `at_once` tokens at a time. tokens: room for (B, at_once) */
static enum status read_prompt(struct decoder *d, const int32_t *prompt, int64_t n_prompt, int32_t *tokens,
                               const double **logits) {
    for (int64_t first = 0; first < n_prompt; first += d->at_once) {
        int64_t n = min64(d->at_once, n_prompt - first);
        for (int64_t b = 0; b < d->B; b++) memcpy(tokens + b * n, prompt + first, (size_t)n * sizeof *tokens);
        TRY(decoder_read(d, tokens, n, first + n == n_prompt ? logits : NULL));
    }
    return OK;
}

static enum status write_tokens(struct decoder *d, const struct sampling *sampling, int64_t n, int32_t *tokens,
                                const double *logits, decoder_emit *emit, void *self) {
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) TRY(decoder_read(d, tokens, 1, &logits));
        for (int64_t b = 0; b < d->B; b++) {
            TRY(sample_token(sampling, logits + b * decoder_row(d), d->run->plan.vocab, b, d->position, d->weights,
                             &tokens[b]));
            TRY(emit(self, b, tokens[b]));
        }
    }
    return OK;
}

enum status decoder_write(struct decoder *d, const struct sampling *sampling, const int32_t *prompt, int64_t n_prompt,
                          int64_t n, decoder_emit *emit, void *self) {
    const double *logits = NULL;
    int32_t *tokens = malloc((size_t)(d->B * d->at_once) * sizeof *tokens);
    if (!tokens) return FAIL(E_MEMORY, "no memory for %" PRId64 " tokens", d->B * d->at_once);
    enum status status = read_prompt(d, prompt, n_prompt, tokens, &logits);
    if (status == OK) status = write_tokens(d, sampling, n, tokens, logits, emit, self);
    free(tokens);
    return status;
}
