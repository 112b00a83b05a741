/* Bytes that a rank keeps and sends under ZeRO. states.h has each function's contract. */
#include "lessons/04-zero/states/states.h"

enum status states_per_param(int stage, int n, struct states x, double *bytes) {
    /* From which stage on is each of the three states divided? */
    (void)stage, (void)n, (void)x, (void)bytes;
    return FAIL(E_TODO, "states_per_param is still to be written");
}

enum status states_largest_model(int stage, int n, struct states x, double room, double *params) {
    (void)stage, (void)n, (void)x, (void)room, (void)params;
    return FAIL(E_TODO, "states_largest_model is still to be written");
}

enum status states_fewest_ranks(int stage, double params, struct states x, double room, int *n) {
    /* The states that are not divided must fit for any n. How much room is left for the others? */
    (void)stage, (void)params, (void)x, (void)room, (void)n;
    return FAIL(E_TODO, "states_fewest_ranks is still to be written");
}

enum status states_sent(int stage, int n, int m, double weight_bytes, double *bytes) {
    (void)stage, (void)n, (void)m, (void)weight_bytes, (void)bytes;
    return FAIL(E_TODO, "states_sent is still to be written");
}

enum status states_of_rank(int stage, int n, struct states x, const int64_t *size, int n_tensors, int64_t *bytes) {
    (void)stage, (void)n, (void)x, (void)size, (void)n_tensors, (void)bytes;
    return FAIL(E_TODO, "states_of_rank is still to be written");
}
