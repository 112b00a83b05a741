#include "driver/calibrate/calibrate_measure.h"

#include "lib/base/log.h"
#include "lib/base/output.h"
#include "lib/base/replace.h"
#include "lib/comm/comm.h"
#include "lib/cost/op_time.h"
#include "lib/ops/gemm/peak.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>

static void write_figure(FILE *f, const char *key, double value, const char *source) {
    fprintf(f, "# %s\n%s = %.4g\n", source, key, value);
}

static double seconds_of(const struct mover_times *t) {
    double sum = 0;
    for (int i = 0; i < t->rows.n; i++) sum += t->rows.seconds[i];
    return sum;
}
static int by_time(const void *a, const void *b) {
    double x = seconds_of(a), y = seconds_of(b);
    return (x < y) - (x > y);
}

/* Write the slowest ops first, because a line of the file has at most 197 bytes. The others get the common speed. */
static void write_movers(FILE *f, struct measured *m, const struct cluster *c) {
    char line[190] = "op-gbs = ", one[64];
    size_t n = strlen(line);
    qsort(m->mover, (size_t)m->n_movers, sizeof *m->mover, by_time);
    for (int i = 0, some = 0; i < m->n_movers; i++) {
        const struct rates *x = &m->mover[i].rows;
        double rate;
        fit_rate(x->units, x->seconds, x->n, c->launch_s, &rate);
        snprintf(one, sizeof one, rate >= 1e11 ? "%s%s:%.0f" : "%s%s:%.3g", some ? "," : "", m->mover[i].op,
                 rate / 1e9);
        if (!(rate > 0) || n + strlen(one) >= sizeof line) continue;
        n += (size_t)snprintf(line + n, sizeof line - n, "%s", one), some = 1;
    }
    fprintf(f, "# measured: each op's rows, together\n%s\n", line);
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

/* The rate of all moving ops together, for ops that were not calibrated. */
static double common_rate(const struct measured *m) {
    double bytes = 0, seconds = 0;
    for (int i = 0; i < m->n_movers; i++)
        for (int k = 0; k < m->mover[i].rows.n; k++)
            bytes += m->mover[i].rows.units[k], seconds += m->mover[i].rows.seconds[k];
    return bytes / seconds;
}

/* memory_bytes_per_s: the measured speed of copies; 0 if only ops are measured. */
static void write_rows(FILE *f, struct measured *m, enum dtype dtype, double memory_bytes_per_s, struct cluster *c) {
    char source[160];
    double error = fit_products(m->products, m->n_products, m->peak[dtype], c);
    snprintf(source, sizeof source, "measured: %d products, and how far this formula is from them: median %.1f%%",
             m->n_products, 100 * error);
    write_figure(f, "product-part", c->product_part, source);
    write_figure(f, "product-m0", c->product_m0, "the same");
    write_figure(f, "product-n0", c->product_n0, "the same");
    write_figure(f, "product-k0", c->product_k0, "the same");
    if (c->launch_s < m->speeds.launch_s) c->launch_s = m->speeds.launch_s;
    write_figure(f, "launch-us", 1e6 * c->launch_s, "the same: a row of no work");
    if (memory_bytes_per_s > 0) {
        write_figure(f, "memory-gbs", memory_bytes_per_s / 1e9, "measured: copies, read and written; the median of 9");
        write_figure(f, "stream-part", fmin(1, common_rate(m) / memory_bytes_per_s),
                     "measured: all ops that only move, together, by copies");
    } else {
        write_figure(f, "memory-gbs", common_rate(m) / 1e9, "measured: all ops that only move, together");
    }
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

static void write_file(FILE *f, struct measured *m, enum dtype dtype) {
    int n = comm_world_size();
    double spread = m->between_s / m->all_s;
    struct cluster c = {.name = ""};
    char host[64];
    comm_host_name(host, sizeof host);
    fprintf(f, "# Measured by trivium calibrate with %d ranks, in %s. "
               "The middle half of a row's steps lie within %.0f%%\n", n, dtype_name(dtype), 100 * spread);
    fprintf(f, "name = %s\n# cores that all ranks share\ncores = %d\n", host, n);
    write_figure(f, "memory-gib", memory_gib() / n, "of the machine, for each of as many ranks");
    write_figure(f, "reserve-gib", 0.1, "an estimate: code, libraries and MPI of a rank");
    write_figure(f, "tflops-fp32", m->peak[FP32] / 1e12, "measured: multiply-adds, one core");
    write_figure(f, "tflops-fp64", m->peak[FP64] / 1e12, "the same");
    write_rows(f, m, dtype, 0, &c);
    write_wires(f, m, n);
    write_figure(f, "switch-us", 1e6 * m->switch_s, "measured: a model cut by tp, all ranks on one core");
    write_figure(f, "cold-us", 1e6 * m->cold_s, "the same, with a core for each");
}

/* ---- a GPU ---- */
/* The fp32 peak with which the main precision's constants predict the measured time of the fp32 products. */
static double fp32_peak(const struct measured *m, const struct cluster *c) {
    double flops = 0, seconds = 0;
    for (int i = 0; i < m->n_fp32; i++) {
        const struct matmul *p = &m->fp32[i].product;
        flops += 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch / product_efficiency(c, p);
        seconds += fmax(m->fp32[i].seconds - c->launch_s, 0.1 * m->fp32[i].seconds);
    }
    return seconds > 0 ? flops / seconds : 0;
}

static void write_peaks(FILE *f, const struct measured *m, enum dtype dtype, const struct cluster *c) {
    char key[32], source[96];
    bool known = peak_flops_of_gpu(m->gpu, dtype) > 0;
    snprintf(key, sizeof key, "tflops-%s", dtype_name(dtype));
    write_figure(f, key, m->peak[dtype] / 1e12, known ? "data sheet" : "measured: the fastest product, as no data "
                                                                       "sheet of this GPU is known");
    snprintf(source, sizeof source, "measured: so that %d products in fp32 take what they took", m->n_fp32);
    if (m->n_fp32 > 0) write_figure(f, "tflops-fp32", fp32_peak(m, c) / 1e12, source);
    if (dtype != BF16 && dtype != FP16) return;
    snprintf(key, sizeof key, "tflops-%s", dtype_name(dtype == BF16 ? FP16 : BF16));
    write_figure(f, key, m->peak[dtype] / 1e12, "as the other type of 16 bits, which was measured");
}

/* With one rank no link is measured: write an estimate. */
static void write_links(FILE *f, const struct measured *m) {
    if (m->n_wires > 0) {
        write_wires(f, m, comm_world_size());
        return;
    }
    write_figure(f, "node-gbs", fmin(m->speeds.up, m->speeds.down) / 1e9,
                 "an estimate: as a copy from or to the host. No link was measured; calibrate with a rank for each "
                 "GPU");
    write_figure(f, "node-us", 10, "an estimate");
}

static double fastest_product(const struct measured *m) {
    double most = 0;
    for (int i = 0; i < m->n_products; i++) {
        const struct matmul *p = &m->products[i].product;
        most = fmax(most, 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch / m->products[i].seconds);
    }
    return most;
}

static void write_gpu_file(FILE *f, struct measured *m, enum dtype dtype) {
    const struct gpu_speeds *s = &m->speeds;
    struct cluster c = {.name = ""};
    double known = peak_flops_of_gpu(m->gpu, dtype);
    m->peak[dtype] = known > 0 ? known : fastest_product(m);
    fprintf(f, "# Measured by trivium calibrate on %s with %d rank%s, in %s, by events. The middle half of a row's "
               "steps lie within %.0f%%\nname = %.60s\n",
            m->gpu, comm_world_size(), comm_world_size() == 1 ? "" : "s", dtype_name(dtype),
            100 * m->between_s / m->all_s, m->gpu);
    write_figure(f, "memory-gib", (double)s->memory_bytes / s->ranks / 1073741824.0, "of the GPU, by the ranks on it");
    write_figure(f, "reserve-gib", (double)s->used_bytes / s->ranks / 1073741824.0,
                 "measured: in use when the program holds nothing: context, libraries, other programs");
    write_rows(f, m, dtype, s->copy, &c);
    write_peaks(f, m, dtype, &c);
    write_figure(f, "host-gbs", fmin(s->up, s->down) / 1e9, "measured: pinned memory to the GPU and back, the slower");
    write_figure(f, "host-memory-gbs", s->host_copy / comm_local_size() / 1e9,
                 "measured: copies in the host's memory, read and written, by the ranks of it");
    write_links(f, m);
}

static void say_of_gpu(const struct measured *m, const struct cluster *c, enum dtype dtype, const char *path) {
    printf("of %s %.4g Tflop/s at most, products %.0f%% of it; memory %.4g GB/s, ops that move %.0f%% of it; %.3g us "
           "a kernel; the host %.3g GB/s\nfrom %d products, %d other ops, %d exchanges; use it with --cluster %s\n",
           m->gpu, c->flops_per_s[dtype] / 1e12, 100 * c->product_part, c->memory_bytes_per_s / 1e9,
           100 * c->stream_part, 1e6 * m->speeds.launch_s, c->host_bytes_per_s / 1e9, m->n_products, m->n_movers,
           m->n_wires, path);
}

enum status calibrate_write(const char *path, struct measured *m, enum dtype dtype) {
    struct cluster c;
    double spread = m->between_s / m->all_s;
    FILE *f = replace_begin(path);
    if (!f) return FAIL(E_IO, "cannot write %s: %s; give --out another file", path, output_why(errno));
    if (m->gpu) write_gpu_file(f, m, dtype);
    else write_file(f, m, dtype);
    if (!replace_end(path, f, true)) return FAIL(E_IO, "cannot write all of %s; give --out another file", path);
    if (spread > 0.15)
        log_warn("steps of one row differ by %.0f%%: something else runs here; calibrate again when it does not",
                 100 * spread);
    TRY(cluster_read(path, &c));                                     /* check that the file can be read */
    if (m->gpu) {
        say_of_gpu(m, &c, dtype, path);
        return OK;
    }
    printf("of a core %.4g Gflop/s at most, products %.0f%% of it; ops that move %.3g GB/s; exchanges %.3g GB/s and "
           "%.3g us\nfrom %d products, %d other ops, %d exchanges; use it with --cluster %s\n",
           c.flops_per_s[dtype] / 1e9, 100 * c.product_part, c.memory_bytes_per_s / 1e9, c.level[0].bytes_per_s / 1e9,
           1e6 * c.level[0].alpha_s, m->n_products, m->n_movers, m->n_wires, path);
    return OK;
}
