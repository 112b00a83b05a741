#include "driver/calibrate/calibrate_file.h"

#include "lib/base/log.h"
#include "lib/base/output.h"
#include "lib/base/replace.h"
#include "lib/comm/comm.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static void write_figure(FILE *f, const char *key, double value, const char *source) {
    fprintf(f, "# %s\n%s = %.4g\n", source, key, value);
}

static void write_movers(FILE *f, const struct measured *m, const struct cluster *c) {
    fprintf(f, "# measured: each op's rows, together\nop-gbs = ");
    for (int i = 0, n = 0; i < m->n_movers; i++) {
        const struct rates *x = &m->mover[i].rows;
        double rate;
        fit_rate(x->units, x->seconds, x->n, c->launch_s, &rate);
        if (rate > 0) fprintf(f, "%s%s:%.3g", n++ ? "," : "", m->mover[i].op, rate / 1e9);
    }
    fprintf(f, "\n");
}

static void write_attention(FILE *f, const struct measured *m, const struct cluster *c, double peak) {
    static const char *const KEYS[] = {"attention-forward-part", "attention-backward-part"};
    for (int i = 0; i < 2; i++) {
        double rate, error = fit_rate(m->attention[i].units, m->attention[i].seconds, m->attention[i].n, c->launch_s,
                                      &rate);
        char source[96];
        snprintf(source, sizeof source, "measured: %d rows, median error %.0f%%", m->attention[i].n, 100 * error);
        if (rate > 0) write_figure(f, KEYS[i], fmin(1, rate / peak), source);
    }
}

/* Of all ops that move, the rate of their sum: what an op takes that no calibration has seen. */
static double common_rate(const struct measured *m) {
    double bytes = 0, seconds = 0;
    for (int i = 0; i < m->n_movers; i++)
        for (int k = 0; k < m->mover[i].rows.n; k++)
            bytes += m->mover[i].rows.units[k], seconds += m->mover[i].rows.seconds[k];
    return bytes / seconds;
}

static void write_rows(FILE *f, const struct measured *m, enum dtype dtype, struct cluster *c) {
    char source[160];
    double error = fit_products(m->products, m->n_products, m->peak[dtype], c);
    snprintf(source, sizeof source, "measured: %d products, and how far this formula is from them: median %.1f%%",
             m->n_products, 100 * error);
    write_figure(f, "product-part", c->product_part, source);
    write_figure(f, "product-m0", c->product_m0, "the same");
    write_figure(f, "product-n0", c->product_n0, "the same");
    write_figure(f, "product-k0", c->product_k0, "the same");
    write_figure(f, "launch-us", 1e6 * c->launch_s, "the same: a row of no work");
    write_figure(f, "memory-gbs", common_rate(m) / 1e9, "measured: all ops that only move, together");
    write_movers(f, m, c);
    write_attention(f, m, c, m->peak[dtype]);
}

static void write_wires(FILE *f, const struct measured *m, int ranks) {
    struct level l;
    fit_wires(m->wires, m->n_wires, ranks, &l);
    write_figure(f, "node-gbs", l.bytes_per_s / 1e9, "measured: all_reduce, all_gather and messages, the fastest size");
    write_figure(f, "node-us", 1e6 * l.alpha_s, "the same, up to 16 KiB");
    fprintf(f, "# the same, larger ones\nnode-curve = ");
    for (int i = 0; i < l.part_by_size.n; i++)
        fprintf(f, "%s%.0f:%.2f", i ? ", " : "", l.part_by_size.at[i], l.part_by_size.is[i]);
    fprintf(f, "\n");
}

static double memory_gib(void) {
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 1073741824.0;
}

static void write_file(FILE *f, const struct measured *m, enum dtype dtype) {
    int n = comm_world_size();
    double spread = m->between_s / m->all_s;
    struct cluster c = {.name = ""};
    char host[64];
    comm_host_name(host, sizeof host);
    fprintf(f, "# Measured by trivium calibrate with %d ranks, in %s. "
               "The middle half of a row's steps lie within %.0f%%\n",
            n, dtype_name(dtype), 100 * spread);
    fprintf(f, "name = %s\n# cores that all ranks share\ncores = %d\n", host, n);
    write_figure(f, "memory-gib", memory_gib() / n, "of the machine, for each of as many ranks");
    write_figure(f, "reserve-gib", 0.1, "an estimate: code, libraries and MPI of a rank");
    write_figure(f, "tflops-fp32", m->peak[FP32] / 1e12, "measured: multiply-adds, one core");
    write_figure(f, "tflops-fp64", m->peak[FP64] / 1e12, "the same");
    write_rows(f, m, dtype, &c);
    write_wires(f, m, n);
    write_figure(f, "switch-us", 1e6 * m->switch_s, "measured: a model cut by tp, all ranks on one core");
    write_figure(f, "cold-us", 1e6 * m->cold_s, "the same, beside a core for each");
}

enum status calibrate_write(const char *path, const struct measured *m, enum dtype dtype) {
    struct cluster c;
    double spread = m->between_s / m->all_s;
    FILE *f = replace_begin(path);
    if (!f) return FAIL(E_IO, "cannot write %s: %s; give --out another file", path, output_why(errno));
    write_file(f, m, dtype);
    if (!replace_end(path, f, true)) return FAIL(E_IO, "cannot write all of %s; give --out another file", path);
    if (spread > 0.15)
        log_warn("steps of one row differ by %.0f%%: something else runs here; calibrate again when it does not",
                 100 * spread);
    TRY(cluster_read(path, &c));                                     /* what is written can be read */
    printf("of a core %.4g Gflop/s at most, products %.0f%% of it; ops that move %.3g GB/s; exchanges %.3g GB/s and "
           "%.3g us\nfrom %d products, %d other ops, %d exchanges; use it with --cluster %s\n",
           c.flops_per_s[dtype] / 1e9, 100 * c.product_part, c.memory_bytes_per_s / 1e9, c.level[0].bytes_per_s / 1e9,
           1e6 * c.level[0].alpha_s, m->n_products, m->n_movers, m->n_wires, path);
    return OK;
}
