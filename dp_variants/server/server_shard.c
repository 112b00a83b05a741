#include "dp_variants/server/server_shard.h"

#include "lib/base/integer.h"
#include <string.h>

int64_t server_shard_bytes(const struct program *p, int k, int n_servers) {
    int64_t n = 0;
    for (int i = 0; i < p->n_params; i++) n += server_part(type_n(&p->params[i].type), k, n_servers).n;
    return p->n_params ? n * (int64_t)dtype_size(p->params[0].type.dtype) : 0;
}

int64_t server_header_at(const struct program *p, int k, int n_servers) {
    return round_up(server_shard_bytes(p, k, n_servers), (int64_t)sizeof(int64_t));
}

int64_t server_message_bytes(const struct program *p, int k, int n_servers) {
    return server_header_at(p, k, n_servers) + (int64_t)sizeof(int64_t) * (1 + n_servers);
}

void server_copy_shard(const struct program *p, int k, int n_servers, enum server_array array, enum server_way way,
                       char *message) {
    for (int i = 0; i < p->n_params; i++) {
        const struct param *w = &p->params[i];
        struct server_part part = server_part(type_n(&w->type), k, n_servers);
        int64_t size = (int64_t)dtype_size(w->type.dtype), bytes = part.n * size;
        int64_t first = w->weight_residence == RESIDENT_OWN ? w->own_first : 0;
        char *own = (char *)(array == SERVER_GRADIENTS ? w->grad : w->weight) + (part.first - first) * size;
        memcpy(way == OUT_OF_MESSAGE ? own : message, way == OUT_OF_MESSAGE ? message : own, (size_t)bytes);
        message += bytes;
    }
}

/* ---- room and bill ---- */
int64_t server_take(int64_t *end, int64_t bytes) {
    int64_t at = arena_align(*end);
    *end = at + bytes;
    return at;
}

int64_t server_room_bytes(const struct program *p, const struct server_ranks *x, int rank) {
    int64_t end = 0;
    int me = server_of_rank(x, rank);
    bool works = rank < x->n_workers;
    for (int k = 0; k < x->n_servers && works; k++) server_take(&end, server_message_bytes(p, k, x->n_servers));
    for (int w = 0; w < x->n_workers && me >= 0; w++) server_take(&end, server_message_bytes(p, me, x->n_servers));
    if (works && me >= 0) server_take(&end, server_shard_bytes(p, me, x->n_servers));
    return end;
}

enum status server_loop_cost(const struct plan *plan, const struct program *p, struct bill *bill) {
    const struct server_ranks x = server_ranks_of(plan, AXIS_DP);
    int rank = mesh_index(AXIS_DP, &p->place), me = server_of_rank(&x, rank);
    bill->technique_comm_bytes += server_room_bytes(p, &x, rank);
    bool works = rank < x.n_workers;
    for (int k = 0; k < x.n_servers; k++) {
        int64_t times = k == me ? x.n_workers - works : works;       /* a server's answers; a worker's push */
        if (times > 0)
            bill_exchange(bill, &p->place, (struct exchange){.axis = AXIS_DP, .op = COMM_SEND, .dtype = UINT8,
                                                             .count = server_message_bytes(p, k, x.n_servers),
                                                             .times = times, .when = IN_ROW});
    }
    return OK;
}
