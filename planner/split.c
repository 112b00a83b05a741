#include "planner/split.h"

#include "lib/base/integer.h"
#include "lib/base/sort.h"
#include <inttypes.h>
#include <stdlib.h>

/* Bounds are values of seconds(), too, so comparing them with a stage's time needs no tolerance. */
struct stages { int n; double layer_s; const double *fixed_s; const int64_t *most; };

static double seconds(const struct stages *s, int stage, int64_t layers) {
    return s->fixed_s[stage] + (double)layers * s->layer_s;
}

/* Layers that a stage may take under a bound; 0: not even one. */
static int64_t room(const struct stages *s, int stage, double bound) {
    int64_t low = 0, high = s->most[stage];
    while (low < high) {
        int64_t k = (low + high + 1) / 2;
        if (seconds(s, stage, k) <= bound) low = k;
        else high = k - 1;
    }
    return low;
}

static bool holds(const struct stages *s, int64_t layers, double bound) {
    int64_t sum = 0;
    for (int i = 0; i < s->n; i++) {
        int64_t k = room(s, i, bound);
        if (k < 1) return false;
        sum += k;
    }
    return sum >= layers;
}

/* The least of the bounds that holds; false: none does. */
static bool least_bound(const struct stages *s, int64_t layers, double *bounds, int64_t n, double *out) {
    int64_t low = 0, high = n - 1;
    sort_doubles(bounds, n);
    if (n == 0 || !holds(s, layers, bounds[n - 1])) return false;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (holds(s, layers, bounds[middle])) high = middle;
        else low = middle + 1;
    }
    *out = bounds[high];
    return true;
}

enum status split_layers(int n, int64_t layers, double layer_s, const double *fixed_s, const int64_t *most,
                         int64_t *layers_of) {
    const struct stages s = {n, layer_s, fixed_s, most};
    int64_t n_bounds = 0;
    double bound;
    double *bounds = malloc(((size_t)n * (size_t)layers + 1) * sizeof *bounds);
    if (!bounds) return FAIL(E_MEMORY, "no memory to split %" PRId64 " layers over %d stages", layers, n);
    for (int i = 0; i < n; i++)
        for (int64_t k = 1; k <= min64(most[i], layers); k++) bounds[n_bounds++] = seconds(&s, i, k);
    bool found = layers >= n && least_bound(&s, layers, bounds, n_bounds, &bound);
    free(bounds);
    if (!found)
        return FAIL(E_CONFIG,
                    "%d stages cannot hold layers=%" PRId64 "; use more stages, more memory, zero or recompute", n,
                    layers);
    for (int i = n - 1; i >= 0; i--) {
        layers_of[i] = min64(room(&s, i, bound), layers - i);         /* leaves one for each stage before */
        layers -= layers_of[i];
    }
    return OK;
}
