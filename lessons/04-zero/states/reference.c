/* Bytes that a rank keeps and sends under ZeRO: the states that are not divided, and one n-th of the others. */
#include "lessons/04-zero/states/states.h"

#include <math.h>

/* Bytes per parameter that every rank keeps; bytes per parameter that are divided among the ranks. */
static double kept_whole(int stage, struct states x) {
    return (stage < 3 ? x.weight : 0) + (stage < 2 ? x.grad : 0) + (stage < 1 ? x.optim : 0);
}
static double divided(int stage, struct states x) { return x.weight + x.grad + x.optim - kept_whole(stage, x); }

enum status states_per_param(int stage, int n, struct states x, double *bytes) {
    *bytes = kept_whole(stage, x) + divided(stage, x) / n;
    return OK;
}

enum status states_largest_model(int stage, int n, struct states x, double room, double *params) {
    *params = room / (kept_whole(stage, x) + divided(stage, x) / n);
    return OK;
}

/* Solve params (kept_whole + divided / n) <= room for n. */
enum status states_fewest_ranks(int stage, double params, struct states x, double room, int *n) {
    double shared = params * divided(stage, x), left = room - params * kept_whole(stage, x);
    *n = 0;
    if (shared == 0) *n = left >= 0 ? 1 : 0;
    else if (left > 0) *n = (int)ceil(shared / left);
    return OK;
}

enum status states_sent(int stage, int n, int m, double weight_bytes, double *bytes) {
    double scatter_or_gather = weight_bytes * (n - 1) / n;
    *bytes = scatter_or_gather * (stage < 2 ? 2 : stage == 2 ? m + 1 : 3 * m);
    return OK;
}

enum status states_of_rank(int stage, int n, struct states x, const int64_t *size, int n_tensors, int64_t *bytes) {
    *bytes = 0;
    for (int i = 0; i < n_tensors; i++) {
        int64_t shard = (size[i] + n - 1) / n;
        *bytes += shard * n * (int64_t)kept_whole(stage, x) + shard * (int64_t)divided(stage, x);
    }
    return OK;
}
