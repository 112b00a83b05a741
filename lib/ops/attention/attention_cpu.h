/* What the two attention kernels share. Only *_cpu.c files include this. */
#ifndef TRIVIUM_OPS_ATTENTION_CPU_H
#define TRIVIUM_OPS_ATTENTION_CPU_H

#include "lib/ops/attention/attention.h"
#include "lib/ops/dropout_cpu.h"
#include "lib/ops/exp.h"

/* One head of one sample: where its vectors lie. Position t is at q + t * row (k and v the same) and at y + t * y_row.
 */
struct head {
    struct attention_sizes s;
    struct dropout dropout;
    int64_t b, h, y_row;
    int64_t q_at, k_at, v_at, y_at;   /* offsets of position 0 in qkv (and dqkv), and in y (and dy) */
};

static inline struct head head_of(const struct call *call, int64_t b, int64_t h) {
    struct attention_sizes s = attention_sizes(call);
    int64_t q_at = b * s.T * s.row + h * s.D, heads = s.H * s.D;
    struct head head = {
        s, dropout_of(call), b, h, heads, q_at, q_at + heads, q_at + 2 * heads, b * s.T * heads + h * s.D};
    return head;
}

/** m[0 .. n-1] for query t and keys j .. j + n-1. Only when dropout is on. */
static inline void probability_factors(const struct head *head, real *m, int64_t t, int64_t j, int64_t n) {
    for (int64_t i = 0; i < n; i += COLUMNS)
        dropout_factors(&head->dropout, m + i, j + i, min64(COLUMNS, n - i), t, head->s.first_head + head->h,
                        head->dropout.first_sample + head->b);
}

#endif
