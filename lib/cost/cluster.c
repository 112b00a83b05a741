/* Read a cluster's file. Its keys are a table of options, as for a run, so that a misspelt key, a repeated key or a
 * value out of range is an error with its line. The units are those of data sheets; a key's name has its unit. */
#include "lib/cost/cluster.h"

#include "lib/base/configs.h"
#include "lib/base/option.h"
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB 1073741824.0
#define GB 1e9

struct level_keys { int64_t ranks; double gbs, us; char curve[OPTION_TEXT_MAX]; };
struct file {
    char name[OPTION_TEXT_MAX], op_gbs[OPTION_TEXT_MAX];
    double memory_gib, reserve_gib, tflops[N_DTYPES], product_part, product_m0, product_n0, product_k0;
    double attention_forward, attention_backward;
    double memory_gbs, stream_part, launch_us, host_gbs, host_memory_gbs, call_us, overlap_part, overlap_slowdown;
    double mtbf_hours, jitter_cv;
    double watts, price_per_hour, switch_us, cold_us;
    int64_t cores, tile_units;
    struct level_keys level[N_LEVEL_KEYS];
    char levels[OPTION_TEXT_MAX];
    bool rails;
};

#define AT(field) offsetof(struct file, field)
#define REAL(key, initial, min, max, unit, meaning, group, field)                                                      \
    {key, OPTION_REAL, initial, min, max, NULL, unit, meaning, group, AT(field)}
#define FLOPS(dtype, field) REAL("tflops-" dtype, "0", 0, 1e9, "1e12/s", "peak of products in " dtype, "a rank", field)
#define LEVEL(name, what, i)                                                                                           \
    {name "-ranks", OPTION_INT, "0", 0, 1 << 30, NULL, "", "ranks of " what "; 0: all", "levels", AT(level[i].ranks)}, \
        REAL(name "-gbs", "0", 0, 1e6, "GB/s", "each way, that a large collective reaches in " what, "levels",         \
             level[i].gbs),                                                                                            \
        REAL(name "-us", "0", 0, 1e9, "us", "until a message in " what " begins to arrive", "levels", level[i].us),    \
        {name "-curve", OPTION_TEXT, NULL, 0, 0, NULL, "", "bytes:part, ...: of that speed, by size", "levels",        \
         AT(level[i].curve)}

static const struct option OPTIONS[] = {
    {"name", OPTION_TEXT, NULL, 0, 0, NULL, "", "as printed", "a rank", AT(name)},
    REAL("memory-gib", "0", 0, 1e6, "GiB", "of a rank", "a rank", memory_gib),
    REAL("reserve-gib", "0", 0, 1e6, "GiB", "taken by what no plan holds: the driver's context, NCCL, fragments",
         "a rank", reserve_gib),
    {"cores", OPTION_INT, "0", 0, 1 << 20, NULL, "", "that all ranks share; 0: each rank is a processor", "a rank",
     AT(cores)},
    REAL("switch-us", "0", 0, 1e6, "us", "of an operation between more ranks than cores: waiting for one", "a rank",
         switch_us),
    REAL("cold-us", "0", 0, 1e6, "us", "of the same: caches are another rank's then", "a rank", cold_us),
    FLOPS("fp64", tflops[FP64]), FLOPS("fp32", tflops[FP32]), FLOPS("bf16", tflops[BF16]), FLOPS("fp16", tflops[FP16]),
    FLOPS("fp8", tflops[FP8_E4M3]), FLOPS("fp4", tflops[FP4_E2M1]),
    REAL("product-part", "1", 1e-6, 1, "", "of the peak, that large products reach", "a rank", product_part),
    REAL("product-m0", "0", 0, 1e6, "", "the rows of a result at which a product reaches half of that", "a rank",
         product_m0),
    REAL("product-n0", "0", 0, 1e6, "", "the same of its columns", "a rank", product_n0),
    REAL("product-k0", "0", 0, 1e6, "", "the same of what is summed", "a rank", product_k0),
    {"tile-units", OPTION_INT, "0", 0, 1 << 20, NULL, "", "processors that share a product's tiles; 0: no tiles",
     "a rank", AT(tile_units)},
    REAL("attention-forward-part", "1", 1e-6, 1, "", "of the peak, that attention by tiles reaches", "a rank",
         attention_forward),
    REAL("attention-backward-part", "1", 1e-6, 1, "", "the same, backward", "a rank", attention_backward),
    REAL("memory-gbs", "0", 0, 1e6, "GB/s", "of a rank's memory", "a rank", memory_gbs),
    REAL("stream-part", "1", 1e-6, 1, "", "of it, that an op reaches which only moves", "a rank", stream_part),
    {"op-gbs", OPTION_TEXT, NULL, 0, 0, NULL, "GB/s", "op:speed, ...: of ops that only move, instead of that",
     "a rank", AT(op_gbs)},
    REAL("launch-us", "0", 0, 1e6, "us", "of every row", "a rank", launch_us),
    REAL("host-gbs", "0", 0, 1e6, "GB/s", "between a rank and its host", "a rank", host_gbs),
    REAL("host-memory-gbs", "0", 0, 1e6, "GB/s", "of the host's memory, a rank's share of it", "a rank",
         host_memory_gbs),
    LEVEL("node", "a node", LEVEL_NODE), LEVEL("rack", "a rack", LEVEL_RACK), LEVEL("net", "the network", LEVEL_NET),
    {"levels", OPTION_TEXT, NULL, 0, 0, NULL, "", "name:ranks:GB/s:us, ...: levels of any number, the innermost first, "
     "instead of node-, rack- and net-; ranks 0: all", "levels", AT(levels)},
    {"rails", OPTION_BOOL, "off", 0, 0, NULL, "", "the second level joins rank k of every node; what else leaves a "
     "node goes over the third", "levels", AT(rails)},
    REAL("call-us", "0", 0, 1e6, "us", "of every collective and message", "levels", call_us),
    REAL("overlap-part", "1", 0, 1, "", "of an exchange that other work can hide", "levels", overlap_part),
    REAL("overlap-slowdown", "0", 0, 10, "", "computation during an exchange takes 1 + this times as long", "levels",
         overlap_slowdown),
    REAL("mtbf-hours", "0", 0, 1e9, "h", "mean time between failures of a rank; 0: none", "failures", mtbf_hours),
    REAL("jitter-cv", "0", 0, 1, "", "standard deviation of a node's steps by their mean", "failures", jitter_cv),
    REAL("watts", "0", 0, 1e6, "W", "of a rank with its share of all else; 0: not known", "cost", watts),
    REAL("price-per-hour", "0", 0, 1e6, "", "of a rank; 0: not known", "cost", price_per_hour),
};
static const struct option_table TABLE = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
static const char *const LEVEL_NAMES[N_LEVEL_KEYS] = {"node", "rack", "net"};

/* ---- curves ---- */
double curve_at(const struct curve *c, double x) {
    if (c->n == 0) return 1;
    if (x <= c->at[0]) return c->is[0];
    for (int i = 1; i < c->n; i++)
        if (x <= c->at[i]) {
            double part = log(x / c->at[i - 1]) / log(c->at[i] / c->at[i - 1]);
            return c->is[i - 1] * pow(c->is[i] / c->is[i - 1], part);
        }
    return c->is[c->n - 1];
}

double level_speed(const struct level *l, double bytes) { return l->bytes_per_s * curve_at(&l->part_by_size, bytes); }

/* Parse "16:0.1, 64:0.4": pairs bytes:part. */
static enum status read_curve(const char *path, const char *level, const char *text, struct curve *out) {
    *out = (struct curve){0};
    while (*text) {
        double x, y;
        int used = 0;
        if (sscanf(text, " %lf:%lf%n", &x, &y, &used) != 2 || !(x >= 1 && x <= 1e12) || !(y >= 1e-6 && y <= 1))
            return FAIL(E_CONFIG, "%s: %s-curve: \"%.40s\" is not bytes:part, of at least 1 and from 1e-6 to 1", path,
                        level, text);
        if (out->n == MAX_CURVE) return FAIL(E_CONFIG, "%s: %s-curve has more than %d points", path, level, MAX_CURVE);
        if (out->n && x <= out->at[out->n - 1])
            return FAIL(E_CONFIG, "%s: %s-curve: sizes must ascend, and %g follows %g", path, level, x,
                        out->at[out->n - 1]);
        out->at[out->n] = x, out->is[out->n++] = y;
        text += used + (int)strspn(text + used, " ,");
    }
    return OK;
}

/* ---- ops that only move data ---- */
/* Parse "gelu:8.1, adamw:34": pairs op:GB/s. */
static enum status read_movers(const char *path, const char *text, struct cluster *c) {
    while (*text) {
        struct mover *m = &c->mover[c->n_movers];
        int used = 0;
        if (c->n_movers == MAX_MOVERS) return FAIL(E_CONFIG, "%s: op-gbs names more than %d ops", path, MAX_MOVERS);
        if (sscanf(text, " %31[a-z0-9_]:%lf%n", m->name, &m->bytes_per_s, &used) != 2 ||
            !(m->bytes_per_s >= 1e-6 && m->bytes_per_s <= 1e6))
            return FAIL(E_CONFIG, "%s: op-gbs: \"%.40s\" is not op:speed, of 1e-6 to 1e6", path, text);
        m->bytes_per_s *= GB;
        c->n_movers++;
        text += used + (int)strspn(text + used, " ,");
    }
    return OK;
}

/* ---- levels ---- */
static enum status add_level(const char *path, const char *name, const struct level_keys *k, struct cluster *c) {
    const struct level *inner = c->n_levels ? &c->level[c->n_levels - 1] : NULL;
    int64_t ranks = k->ranks ? k->ranks : INT64_MAX;
    if (inner && inner->ranks == INT64_MAX)
        return FAIL(E_CONFIG, "%s: %s has all ranks, so there is no %s beyond; give %s-ranks", path, inner->name, name,
                    inner->name);
    if (inner && (ranks <= inner->ranks || (k->ranks && ranks % inner->ranks)))
        return FAIL(E_CONFIG, "%s: %s-ranks=%" PRId64 " must be a multiple of %s-ranks=%" PRId64, path, name, k->ranks,
                    inner->name, inner->ranks);
    if (c->n_levels == MAX_LEVELS) return FAIL(E_CONFIG, "%s: levels has more than %d of them", path, MAX_LEVELS);
    struct level *l = &c->level[c->n_levels++];
    *l = (struct level){.ranks = ranks, .bytes_per_s = k->gbs * GB, .alpha_s = k->us * 1e-6};
    snprintf(l->name, sizeof l->name, "%.15s", name);
    return read_curve(path, name, k->curve, &l->part_by_size);
}

/* Parse "nvlink:72:720:3, rail:576:40:8": levels name:ranks:GB/s:us. */
static enum status read_list(const char *path, const char *text, struct cluster *c) {
    while (*text) {
        struct level_keys k = {0};
        char name[16];
        int used = 0;
        if (sscanf(text, " %15[a-z0-9]:%" SCNd64 ":%lf:%lf%n", name, &k.ranks, &k.gbs, &k.us, &used) != 4 ||
            !(k.ranks >= 0 && k.ranks <= 1 << 30 && k.gbs >= 1e-6 && k.gbs <= 1e6 && k.us >= 0 && k.us <= 1e9))
            return FAIL(E_CONFIG, "%s: levels: \"%.40s\" is not name:ranks:GB/s:us, with a speed of 1e-6 to 1e6", path,
                        text);
        TRY(add_level(path, name, &k, c));
        text += used + (int)strspn(text + used, " ,");
    }
    return OK;
}

static enum status read_levels(const char *path, const struct file *f, struct cluster *c) {
    TRY(read_list(path, f->levels, c));
    for (int i = 0; i < N_LEVEL_KEYS; i++) {
        const struct level_keys *k = &f->level[i];
        if (k->gbs == 0 && (k->ranks || k->us > 0 || *k->curve))
            return FAIL(E_CONFIG, "%s: %s-ranks, -us or -curve is given, and %s-gbs is not; give its speed", path,
                        LEVEL_NAMES[i], LEVEL_NAMES[i]);
        if (k->gbs == 0) continue;
        if (*f->levels)
            return FAIL(E_CONFIG, "%s: levels and %s-gbs both name levels; leave one out", path, LEVEL_NAMES[i]);
        TRY(add_level(path, LEVEL_NAMES[i], k, c));
    }
    if (c->n_levels == 0) return FAIL(E_CONFIG, "%s: no level has a speed; give node-gbs", path);
    if (f->rails && c->n_levels < 3)
        return FAIL(E_CONFIG, "%s: rails=on, and %d of three levels; give node-gbs, rack-gbs and net-gbs, or rails=off",
                    path, c->n_levels);
    c->level[c->n_levels - 1].ranks = INT64_MAX;
    c->rails = f->rails;
    return OK;
}

/* ---- the whole file ---- */
static enum status convert(const char *path, const struct file *f, struct cluster *c) {
    double peak = 0;
    *c = (struct cluster){.memory_bytes = (int64_t)(f->memory_gib * GIB),
                          .reserve_bytes = (int64_t)(f->reserve_gib * GIB),
                          .cores = f->cores,
                          .switch_s = f->switch_us * 1e-6,
                          .cold_s = f->cold_us * 1e-6,
                          .product_part = f->product_part,
                          .product_m0 = f->product_m0,
                          .product_n0 = f->product_n0,
                          .product_k0 = f->product_k0,
                          .tile_units = f->tile_units,
                          .attention_forward_part = f->attention_forward,
                          .attention_backward_part = f->attention_backward,
                          .memory_bytes_per_s = f->memory_gbs * GB,
                          .stream_part = f->stream_part,
                          .launch_s = f->launch_us * 1e-6,
                          .host_bytes_per_s = f->host_gbs * GB,
                          .host_memory_bytes_per_s = f->host_memory_gbs * GB,
                          .call_s = f->call_us * 1e-6,
                          .overlap_part = f->overlap_part,
                          .overlap_slowdown = f->overlap_slowdown,
                          .mtbf_rank_s = f->mtbf_hours * 3600,
                          .jitter_cv = f->jitter_cv,
                          .watts = f->watts,
                          .price_per_hour = f->price_per_hour};
    snprintf(c->name, sizeof c->name, "%.63s", *f->name ? f->name : path);
    for (int d = 0; d < N_DTYPES; d++) {
        c->flops_per_s[d] = f->tflops[d == FP8_E5M2 ? FP8_E4M3 : d] * 1e12;
        peak = fmax(peak, c->flops_per_s[d]);
    }
    if (!(peak > 0)) return FAIL(E_CONFIG, "%s: no peak; give tflops-bf16 or that of another type", path);
    if (!(f->memory_gbs > 0 && f->memory_gib > 0))
        return FAIL(E_CONFIG, "%s: memory-gbs=%g and memory-gib=%g must both be above 0", path, f->memory_gbs,
                    f->memory_gib);
    if (c->reserve_bytes >= c->memory_bytes)
        return FAIL(E_CONFIG, "%s: reserve-gib=%g leaves nothing of memory-gib=%g", path, f->reserve_gib,
                    f->memory_gib);
    TRY(read_movers(path, f->op_gbs, c));
    return read_levels(path, f, c);
}

static int is_ini(const struct dirent *e) {
    size_t n = strlen(e->d_name);
    return n > 4 && !strcmp(e->d_name + n - 4, ".ini");
}

/* The names of the folder's files without ".ini": "cpu-2core, dgx-a100"; "" if it has none. */
static const char *known_names(const char *folder, char *text, size_t size) {
    struct dirent **files = NULL;
    int n = scandir(folder, &files, is_ini, alphasort);
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        int length = (int)strlen(files[i]->d_name) - 4;
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%.*s", i ? ", " : "", length, files[i]->d_name);
        free(files[i]);
    }
    free(files);
    return text;
}

static enum status refuse_name(const char *name) {
    char names[1024] = "", folder[OPTION_TEXT_MAX];
    if (configs_find("clusters", folder, sizeof folder) && *known_names(folder, names, sizeof names))
        return FAIL(E_DATA, "no cluster is called %s; use one of %s (of %s/), or a path as in ./%s.ini", name, names,
                    folder, name);
    return FAIL(E_DATA, "cluster=%s is a name, and neither the project of this program nor the current directory has "
                "%s; give a path as in ./%s.ini", name, folder, name);
}

enum status cluster_read(const char *name_or_path, struct cluster *out) {
    struct file f = {0};
    struct options *o;
    char path[OPTION_TEXT_MAX], found[OPTION_TEXT_MAX];
    bool is_path = strpbrk(name_or_path, "/.") != NULL;
    int n = snprintf(path, sizeof path, is_path ? "%s" : "clusters/%s.ini", name_or_path);
    if (n >= (int)sizeof path) return FAIL(E_DATA, "a cluster's name has %d bytes; at most %zu", n, sizeof path);
    if (!is_path && !configs_find(path, found, sizeof found)) return refuse_name(name_or_path);
    if (!is_path) strcpy(path, found);
    TRY(options_create(&TABLE, 1, &f, &o));
    enum status status = options_read_file(o, path);
    options_destroy(&o);
    return status == OK ? convert(path, &f, out) : status;
}

void cluster_limit_memory(struct cluster *c, int64_t bytes) {
    if (bytes == 0 || c->memory_bytes - c->reserve_bytes <= bytes) return;
    c->memory_bytes = bytes;
    c->reserve_bytes = 0;
}
