/* A token through the decoding program. The weights and the cache are in the run's param arena; a decoder only keeps
 * the position.
 *
 * Logits with tp: rank r computes those of its shard of the vocabulary, V/tp rounded up, padding last. They are
 * all-gathered, so every rank has all of them, equal to the bit, and draws the next token by itself. That sends V
 * elements per token (GPT-2, fp32: 196 KiB), little compared with the weights read meanwhile. For top-k, each rank's k
 * best would be enough. */
#include "decode/decode_step.h"

#include "decode/decode.h"
#include "lib/comm/comm.h"
#include <inttypes.h>
#include <stdlib.h>

static enum status fetch_token(void *self, int microbatch, int32_t *tokens, int32_t *targets) {
    const struct decoder *d = self;
    (void)microbatch, (void)targets;                                 /* one microbatch, no loss */
    tokens[0] = d->token;
    return OK;
}

/* Every param is resident, and no technique in the recipe follows their use. */
static enum status ignore_param(void *self, enum row_kind kind, int param, void *buffer, bool final) {
    (void)self, (void)kind, (void)param, (void)buffer, (void)final;
    return OK;
}

static const struct type *part_type(const struct run *r) {
    const struct program *p = &r->program;
    return &p->slots[p->blocks[p->n_blocks - 1].out].type;
}

enum status decoder_init(struct decoder *d, struct run *r) {
    *d = (struct decoder){.run = r};
    int64_t n = type_n(part_type(r)) * r->plan.mesh.tp;
    d->gathered = malloc((size_t)n * dtype_size(part_type(r)->dtype));
    d->logits = malloc((size_t)n * sizeof *d->logits);
    d->weights = malloc((size_t)n * sizeof *d->weights);
    if (!d->gathered || !d->logits || !d->weights)
        return FAIL(E_MEMORY, "no memory for the scores of %" PRId64 " tokens", n);
    r->exec.hooks = (struct exec_hooks){.self = d, .fetch = fetch_token, .param_event = ignore_param};
    return OK;
}

void decoder_fini(struct decoder *d) {
    free(d->gathered);
    free(d->logits);
    free(d->weights);
    *d = (struct decoder){0};
}

static enum status gather(struct decoder *d) {
    const struct run *r = d->run;
    const struct type *part = part_type(r);
    int64_t n = type_n(part);
    TRY(comm_all_gather(r->mesh.group[AXIS_TP], exec_out(&r->exec, 0), d->gathered, n, part->dtype));
    dtype_convert(d->logits, FP64, d->gathered, part->dtype, n * r->plan.mesh.tp);
    return OK;
}

enum status decoder_read(struct decoder *d, int32_t token, const double **logits) {
    struct run *r = d->run;
    if (token < 0 || token >= r->plan.vocab)
        return FAIL(E_CONFIG, "token %" PRId32 " is not in the vocabulary, 0 to %" PRId64, token, r->plan.vocab - 1);
    if (d->position >= r->plan.seq)
        return FAIL(E_CONFIG,
                    "the model reads seq=%" PRId64 " tokens, and they are read; use fewer tokens, or a shorter prompt",
                    r->plan.seq);
    TRY(run_check_threads(r));
    d->token = token;
    TRY(decode_move(&r->program, d->position));
    TRY(exec_run(&r->exec, &r->schedule, false));
    d->position++;
    if (!logits) return OK;
    *logits = d->logits;
    return gather(d);
}

enum status decoder_write(struct decoder *d, const struct sampling *sampling, const int32_t *prompt, int64_t n_prompt,
                          int64_t n, decoder_emit *emit, void *self) {
    const double *logits;
    int32_t token;
    for (int64_t i = 0; i + 1 < n_prompt; i++) TRY(decoder_read(d, prompt[i], NULL));
    token = prompt[n_prompt - 1];
    for (int64_t i = 0; i < n; i++) {
        TRY(decoder_read(d, token, &logits));
        TRY(sample_token(sampling, logits, d->run->plan.vocab, d->position, d->weights, &token));
        TRY(emit(self, token));
    }
    return OK;
}
