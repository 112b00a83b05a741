/* y = x + b[e] of each row of expert e. See expert_linear.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/moe/expert_linear.h"

kernel CPU(expert_bias_forward), CPU(expert_bias_backward_input), CPU(expert_bias_backward_weight);

/* The rows of expert e in a box; e = E: those of no expert. */
struct run { int64_t first, n; };
static struct run run_of(const struct expert_rows *s, int64_t box, int64_t e) {
    struct run r = {box * s->rows, s->rows};
    if (!s->counts) return box == e ? r : (struct run){0, 0};
    for (int64_t i = 0; i < e; i++) r.first += s->counts[box * s->E + i];
    r.n = e < s->E ? s->counts[box * s->E + e] : (box + 1) * s->rows - r.first;
    return r;
}

enum status CPU(expert_bias_forward)(const struct call *call) {
    const elem *x = call->in[0].data, *b = call->weight[0].data;
    elem *y = call->out[0].data;
    struct expert_rows s = expert_rows(call);
#pragma omp parallel for collapse(2)
    for (int64_t box = 0; box < s.boxes; box++)
        for (int64_t e = 0; e <= s.E; e++) {
            struct run run = run_of(&s, box, e);
            for (int64_t r = run.first; r < run.first + run.n; r++)
                for (int64_t k = 0; k < s.K; k++)
                    y[r * s.K + k] = e < s.E ? store(load(x[r * s.K + k]) + load(b[e * s.K + k])) : x[r * s.K + k];
        }
    return OK;
}

/* Only if dx is not dy itself. */
enum status CPU(expert_bias_backward_input)(const struct call *call) {
    const elem *dy = call->dout[0].data;
    elem *dx = call->din[0].data;
    int64_t n = type_n(call->in[0].type);
    int add = accumulates(call, 0);
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) put(dx + i, load(dy[i]), add);
    return OK;
}

enum status CPU(expert_bias_backward_weight)(const struct call *call) {
    const elem *dy = call->dout[0].data;
    struct expert_rows s = expert_rows(call);
#pragma omp parallel for collapse(2)
    for (int64_t e = 0; e < s.E; e++)
        for (int64_t first = 0; first < s.K; first += COLUMNS) {
            int64_t n = min64(COLUMNS, s.K - first);
            real sum[COLUMNS] = {0};
            for (int64_t box = 0; box < s.boxes; box++) {
                struct run run = run_of(&s, box, e);
                for (int64_t r = run.first; r < run.first + run.n; r++)
                    for (int64_t k = 0; k < n; k++) sum[k] += load(dy[r * s.K + first + k]);
            }
            grad_add(&call->dweight[0], e * s.K + first, sum, n);
        }
    return OK;
}
