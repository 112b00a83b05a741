/* y[r] = W[token[r]], zeros for rows of another shard; dW[token[r]] += dy[r]. See embedding.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/embedding.h"

kernel CPU(embedding_forward), CPU(embedding_backward_weight);

static const struct axis *vocabulary(const struct call *call) { return &call->weight[0].type->shape.axis[0]; }
static int64_t n_channels(const struct call *call) { return call->weight[0].type->shape.axis[1].n; }

static enum status check_tokens(const int32_t *token, int64_t n, int64_t global) {
    for (int64_t r = 0; r < n; r++)
        if (token[r] >= global)
            return FAIL(E_DATA, "token %d at position %lld is beyond the vocabulary of %lld", (int)token[r],
                        (long long)r, (long long)global);
    return OK;
}

/* The token's row in this shard of the table, or -1. */
static int64_t local_row(int32_t token, const struct axis *vocab) {
    int64_t k = token - vocab->first;
    return token >= 0 && k >= 0 && k < vocab->n ? k : -1;
}

enum status CPU(embedding_forward)(const struct call *call) {
    const int32_t *token = call->in[0].data;
    const struct axis *vocab = vocabulary(call);
    const elem *w = call->weight[0].data;
    elem *y = call->out[0].data;
    int64_t R = type_n(call->in[0].type), C = n_channels(call);
    size_t row_bytes = (size_t)C * sizeof(elem);
    TRY(check_tokens(token, R, vocab->global));
#pragma omp parallel for
    for (int64_t r = 0; r < R; r++) {
        int64_t k = local_row(token[r], vocab);
        if (k >= 0)
            memcpy(y + r * C, w + k * C, row_bytes);
        else
            memset(y + r * C, 0, row_bytes);
    }
    return OK;
}

/* A token may occur many times, so threads divide the columns, and each adds all rows, in order, to its columns. */
enum status CPU(embedding_backward_weight)(const struct call *call) {
    const int32_t *token = call->in[0].data;
    const struct axis *vocab = vocabulary(call);
    const elem *dy = call->dout[0].data;
    int64_t R = type_n(call->in[0].type), C = n_channels(call);
#pragma omp parallel for
    for (int64_t first = 0; first < C; first += COLUMNS) {
        int64_t n = min64(COLUMNS, C - first);
        for (int64_t r = 0; r < R; r++) {
            int64_t k = local_row(token[r], vocab);
            if (k < 0) continue;
            real row[COLUMNS];
            for (int64_t c = 0; c < n; c++) row[c] = load(dy[r * C + first + c]);
            grad_add(&call->dweight[0], k * C + first, row, n);
        }
    }
    return OK;
}
