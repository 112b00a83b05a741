/* pooled = sum of the rows that a bag names; backward: a record of ids and dpooled. See embedding_bag.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/rec/embedding_bag.h"
#include "lib/ops/rec/rows.h"

kernel CPU(embedding_bag_forward), CPU(embedding_bag_backward_weight);

static enum status check_ids(const int32_t *id, int64_t n, int64_t global) {
    for (int64_t i = 0; i < n; i++)
        if (id[i] >= global)
            return FAIL(E_DATA, "id %d is beyond the %lld rows of a table; give --vocab %lld or more", (int)id[i],
                        (long long)global, (long long)id[i] + 1);
    return OK;
}

enum status CPU(embedding_bag_forward)(const struct call *call) {
    const int32_t *id = call->in[0].data;
    const struct axis *ids = call->in[0].type->shape.axis, *table = call->weight[0].type->shape.axis;
    const elem *w = call->weight[0].data;
    elem *y = call->out[0].data;
    int64_t F = ids[1].n, B = ids[2].n, M = ids[3].n, V = table[1].n, D = table[2].n;
    TRY(check_ids(id, type_n(call->in[0].type), table[1].global));
#pragma omp parallel for
    for (int64_t bag = 0; bag < ids[0].n * F * B; bag++) {
        int64_t first = bag / B % F * V;
        real sum[D];
        for (int64_t d = 0; d < D; d++) sum[d] = 0;
        for (int64_t m = 0; m < M; m++) {
            int64_t v = id[bag * M + m] - table[1].first;
            if (id[bag * M + m] < 0 || v < 0 || v >= V) continue;
            const elem *row = w + (call->row_place ? call->row_place[first + v] : first + v) * D;
            for (int64_t d = 0; d < D; d++) sum[d] += load(row[d]);
        }
        for (int64_t d = 0; d < D; d++) y[bag * D + d] = store(sum[d]);
    }
    return OK;
}

/* The record is written to its last byte, with the padding after the ids and after the vectors. */
enum status CPU(embedding_bag_backward_weight)(const struct call *call) {
    int64_t n_ids = type_n(call->in[0].type), ids = n_ids * (int64_t)sizeof(int32_t);
    int64_t vectors = rows_vectors_at(n_ids), bytes = type_bytes(call->out[0].type);
    char *record = call->dweight[0].data;
    memcpy(record, call->in[0].data, (size_t)ids);
    memset(record + ids, 0, (size_t)(vectors - ids));
    memcpy(record + vectors, call->dout[0].data, (size_t)bytes);
    memset(record + vectors + bytes, 0, (size_t)(arena_align(bytes) - bytes));
    return OK;
}
