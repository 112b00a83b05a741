#include "planner/failure.h"

#include <math.h>

/* The x below which a standard normal lies with chance p: 80 halvings of [-10, 10]. */
static double normal_quantile(double p) {
    double low = -10, high = 10;
    for (int i = 0; i < 80; i++) {
        double x = (low + high) / 2;
        if (0.5 * erfc(-x / sqrt(2)) < p) low = x;
        else high = x;
    }
    return (low + high) / 2;
}

double failure_mtbf(double mtbf_rank_s, double n) { return mtbf_rank_s > 0 ? mtbf_rank_s / n : INFINITY; }

double failure_of_any(double n, double p) { return -expm1(n * log1p(-p)); }

double failure_slowest(double n, double cv, double slow_part, double slow_factor) {
    double largest = n < 2 ? 0 : normal_quantile((n - 0.375) / (n + 0.25));
    return (1 + cv * largest) * (1 + failure_of_any(n, slow_part) * (slow_factor - 1));
}

double failure_interval_young(double stall_s, double mtbf_s) {
    return stall_s > 0 && mtbf_s > 0 ? sqrt(2 * stall_s * mtbf_s) : NAN;
}

double failure_interval_daly(double stall_s, double mtbf_s) {
    double x = stall_s / (2 * mtbf_s);
    if (!(stall_s > 0 && mtbf_s > 0)) return NAN;
    return x >= 1 ? mtbf_s : failure_interval_young(stall_s, mtbf_s) * (1 + sqrt(x) / 3 + x / 9) - stall_s;
}

double failure_goodput(double interval_s, double stall_s, double mtbf_s, double restart_s) {
    return interval_s / (mtbf_s * exp(restart_s / mtbf_s) * expm1((interval_s + stall_s) / mtbf_s));
}
