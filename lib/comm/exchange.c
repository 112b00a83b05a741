#include "lib/comm/exchange.h"

static int64_t at_least_1(int64_t n) { return n > 0 ? n : 1; }

double exchange_bytes(const struct exchange *x, int n) {
    double whole = (double)x->count * (double)dtype_size(x->dtype);
    return (double)at_least_1(x->times) * comm_algorithm_bytes(x->op, n, whole) / (double)at_least_1(x->every);
}

int64_t exchange_operations(const struct exchange *x) { return at_least_1(x->pieces) * at_least_1(x->times); }
