#include "lib/cost/op_time.h"

#include "lib/base/integer.h"
#include <math.h>
#include <string.h>

static double tile_fit(const struct cluster *c, const struct matmul *p) {
    static const struct { int64_t m, n; double speed; } TILES[] = {
        {256, 128, 1.0}, {128, 128, 0.95}, {128, 64, 0.82}, {64, 64, 0.65}};
    double best = 0;
    for (size_t i = 0; i < sizeof TILES / sizeof *TILES; i++) {
        int64_t tiles = ceil_div(p->m, TILES[i].m) * ceil_div(p->n, TILES[i].n) * p->batch;
        double matrix = (double)p->m * (double)p->n * (double)p->batch;
        double covered = matrix / ((double)tiles * (double)TILES[i].m * (double)TILES[i].n);
        double waves = (double)tiles / (double)(ceil_div(tiles, c->tile_units) * c->tile_units);
        best = fmax(best, TILES[i].speed * covered * waves);
    }
    return best;
}

double product_efficiency(const struct cluster *c, const struct matmul *p) {
    double e = c->product_part / (1 + c->product_m0 / (double)p->m + c->product_n0 / (double)p->n +
                                  c->product_k0 / (double)p->k);
    return c->tile_units ? e * tile_fit(c, p) : e;
}

/* The flops that would take the same time at the peak speed. */
static double flops_at_peak(const struct cluster *c, const struct cost *cost, enum row_kind kind) {
    double flops = 0;
    if (cost->n_products == 0)
        return (cost->flops - cost->left_out) /
               (kind == ROW_BACKWARD_INPUT ? c->attention_backward_part : c->attention_forward_part);
    for (int i = 0; i < cost->n_products; i++) {
        const struct matmul *p = &cost->product[i];
        flops += 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch / product_efficiency(c, p);
    }
    return flops;
}

double op_bytes_per_s(const struct cluster *c, const char *op) {
    for (int i = 0; i < c->n_movers; i++)
        if (!strcmp(c->mover[i].name, op)) return c->mover[i].bytes_per_s;
    return c->memory_bytes_per_s * c->stream_part;
}

struct seconds op_seconds(const struct cluster *c, const char *op, enum dtype dtype, const struct cost *cost,
                          enum row_kind kind) {
    struct seconds s = {0};
    if (cost->flops == 0 && cost->bytes == 0) return s;
    if (cost->flops > 0) s.compute = flops_at_peak(c, cost, kind) / c->flops_per_s[dtype];
    s.memory = cost->bytes / op_bytes_per_s(c, op);
    s.casts = cost->cast_bytes / op_bytes_per_s(c, "cast_fp8");
    s.total = fmax(s.compute, s.memory) + s.casts + c->launch_s;
    return s;
}
