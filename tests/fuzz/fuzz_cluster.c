/* parses: lib/base lib/cost/cluster.c lib/cost/wire_time.c lib/cost/op_time.c lib/comm/exchange.c lib/device/dtype.c */
/* A cluster's file. An accepted file gives seconds that are finite and not negative, and more bytes take no less. */
#include "lib/cost/op_time.h"
#include "lib/cost/wire_time.h"
#include "tests/fuzz/fuzz.h"
#include <math.h>

static void check_wires(const struct cluster *c) {
    static const enum comm_op OPS[] = {COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_ALL_TO_ALL, COMM_BROADCAST, COMM_SEND};
    for (int64_t n = 1; n <= 4096; n *= 8)
        for (int64_t stride = 1; stride <= 64; stride *= 8)
            for (int i = 0; i < 5; i++) {
                double t = wire_seconds(c, OPS[i], 1e6, n, stride, 1);
                MUST(isfinite(t) && t >= 0);
                MUST(n == 1 || wire_seconds(c, OPS[i], 2e6, n, stride, 1) >= t);
                MUST(wire_level(c, n, stride) >= 0 && wire_level(c, n, stride) < c->n_levels);
            }
}

static void check_rows(const struct cluster *c) {
    struct cost cost = {.flops = 2e9, .bytes = 1e6, .product = {{1000, 100, 10000, 1}}, .n_products = 1};
    for (int d = 0; d < N_DTYPES; d++) {
        if (!(c->flops_per_s[d] > 0)) continue;
        struct seconds s = op_seconds(c, "gelu", (enum dtype)d, &cost, ROW_FORWARD);
        MUST(isfinite(s.total) && s.total >= s.compute && s.total >= s.memory && s.compute > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct cluster c;
    enum status status = cluster_read(fuzz_file(data, size), &c);
    MUST(status == OK || status == E_USAGE || status == E_FORMAT || status == E_CONFIG);
    if (status != OK) return 0;
    MUST(c.memory_bytes > c.reserve_bytes && c.n_levels > 0);
    check_wires(&c);
    check_rows(&c);
    return 0;
}
