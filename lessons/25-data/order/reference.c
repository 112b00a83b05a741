/* The order of samples, and documents in rows. */
#include "lessons/25-data/order/order.h"

#include "lib/base/rng.h"
#include <stdlib.h>

enum status order_sample(const struct order *o, int64_t step, int64_t i, int64_t *index) {
    int64_t s = o->first + step * o->global_batch + i;
    uint64_t epoch = (uint64_t)(s / o->n_samples), place = (uint64_t)(s % o->n_samples);
    *index = (int64_t)rng_permute(o->seed, rng_stream("data.shuffle"), epoch, (uint64_t)o->n_samples, place);
    return OK;
}

enum status order_of_replica(const struct order *o, int64_t step, struct replica r, int64_t m, int64_t b,
                             int64_t *index) {
    return order_sample(o, step, (m * r.n_ranks + r.rank) * r.micro_batch + b, index);
}

enum status order_resized(const struct order *o, int64_t steps, int64_t global_batch, struct order *after) {
    *after = *o;
    after->first = o->first + steps * o->global_batch;
    after->global_batch = global_batch;
    return OK;
}

/* The row with the least room that is enough; n_rows if there is none. */
static int64_t best(const int64_t *room, int64_t n_rows, int64_t length) {
    int64_t found = n_rows;
    for (int64_t row = 0; row < n_rows; row++)
        if (room[row] >= length && (found == n_rows || room[row] < room[found])) found = row;
    return found;
}

enum status order_pack(const int64_t *length, int64_t n, int64_t T, struct packed *place, int64_t *n_rows) {
    int64_t *room = malloc(((size_t)n + 1) * sizeof *room);
    enum status status = room ? OK : FAIL(E_MEMORY, "no memory for the room of %lld rows", (long long)n);
    *n_rows = 0;
    for (int64_t i = 0; i < n && status == OK; i++) {
        if (length[i] < 1 || length[i] > T) {
            status = FAIL(E_DATA, "document %lld has %lld tokens, and a row %lld", (long long)i, (long long)length[i],
                          (long long)T);
            break;
        }
        int64_t row = best(room, *n_rows, length[i]);
        if (row == *n_rows) room[(*n_rows)++] = T;
        place[i] = (struct packed){row, T - room[row]};
        room[row] -= length[i];
    }
    free(room);
    return status;
}

enum status order_row(const int32_t *const *document, const int64_t *length, int64_t n, int64_t T, struct row row) {
    int64_t t = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < length[i]; k++, t++) {
            row.token[t] = document[i][k];
            row.target[t] = k + 1 < length[i] ? document[i][k + 1] : -1;
            row.segment[t] = (int32_t)i + 1;
            row.position[t] = (int32_t)k;
        }
    for (; t < T; t++) {
        row.token[t] = row.segment[t] = row.position[t] = 0;
        row.target[t] = -1;
    }
    return OK;
}

enum status order_sees(const int32_t *segment, int64_t q, int64_t k, int *sees) {
    *sees = segment[q] != 0 && segment[q] == segment[k] && k <= q;
    return OK;
}
