/* Rates of rows: of products from a table, and of all kinds of rows from a trace. Both are inverted with the formulas
 * of op_time.h, so that the plan's time of the measured rows is the measured time. */
#include "lib/base/grow.h"
#include "lib/base/input.h"
#include "lib/base/json_file.h"
#include "lib/cost/fit.h"
#include "lib/cost/measured.h"
#include "lib/cost/op_time.h"
#include "lib/ops/cost.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_TO_FIT_SHAPES = 12, MOST_WORDS = 64 };

/* ---- names of dtypes, as benchmarks write them ---- */
static const struct { const char *text; enum dtype dtype; bool known; } SPELLINGS[] = {
    {"bfloat16", BF16, true}, {"bf16", BF16, true},      {"float16", FP16, true},     {"fp16", FP16, true},
    {"half", FP16, true},     {"float8", FP8_E4M3, true}, {"fp8", FP8_E4M3, true},    {"float64", FP64, true},
    {"fp64", FP64, true},     {"double", FP64, true},    {"tf32", FP32, false},       {"float32", FP32, true},
    {"fp32", FP32, true}};

/* The dtypes that a header names, each once; what is found is blanked, as float16 is a part of bfloat16.
 * @return a bit a dtype */
static unsigned dtypes_in(char *lower, bool *unknown) {
    unsigned found = 0;
    for (size_t i = 0; i < sizeof SPELLINGS / sizeof *SPELLINGS; i++)
        for (char *at; (at = strstr(lower, SPELLINGS[i].text));) {
            memset(at, ' ', strlen(SPELLINGS[i].text));
            found |= 1u << SPELLINGS[i].dtype;
            *unknown |= !SPELLINGS[i].known;
        }
    return found;
}

/* ---- a table of products ---- */
struct table {
    struct input in;
    const char *path;
    unsigned dtypes;
    bool unknown, giga;
    int column[4], n_head, n_columns;    /* of m, n, k and TFLOP/s; words of the header and of a row */
    int n;
    struct timed_product *product;
    double fastest;                      /* flops per second */
};

static void read_head(struct table *t, char *text) {
    static const char *const NAMES[] = {"m", "n", "k"};
    char *word[MOST_WORDS], lower[256];
    int column[4] = {-1, -1, -1, -1}, n;
    snprintf(lower, sizeof lower, "%.255s", text);
    for (char *c = lower; *c; c++) *c = (char)tolower((unsigned char)*c);
    t->giga |= strstr(lower, "gflop") != NULL;
    n = measured_words(lower + strspn(lower, "# "), word, MOST_WORDS);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 4; k++)
            if (k == 3 ? strstr(word[i], "flop") != NULL : !strcmp(word[i], NAMES[k])) column[k] = i;
    if (column[0] >= 0 && column[1] >= 0 && column[2] >= 0) {
        memcpy(t->column, column, sizeof column);
        t->n_head = n;
    }
    snprintf(lower, sizeof lower, "%.255s", text);
    for (char *c = lower; *c; c++) *c = (char)tolower((unsigned char)*c);
    t->dtypes |= dtypes_in(lower, &t->unknown);
}

/* A header may have words before its columns ("bf16: m n k TFLOP/s"), or behind ("m,n,k,TFLOP/s (bf16)"). */
static void match_columns(struct table *t, int n) {
    int first = t->column[0], last = t->column[0];
    for (int k = 1; k < 4; k++) {
        first = t->column[k] < first ? t->column[k] : first;
        last = t->column[k] > last ? t->column[k] : last;
    }
    bool shift = n != t->n_head && (n == t->n_head - first || n == last + 1 - first);
    for (int k = 0; k < 4 && shift; k++) t->column[k] -= first;
    t->n_columns = n == t->n_head || n == last + 1 || shift ? n : t->n_head;
}

static enum status read_product(struct table *t, char *text) {
    char *word[MOST_WORDS];
    double value[4];
    int n = measured_words(text, word, MOST_WORDS);
    if (t->n == 0) match_columns(t, n);
    if (n != t->n_columns)
        return FAIL(E_FORMAT, "%s:%d: %d columns, and the header has %d; use m n k TFLOP/s", t->path, (int)t->in.number,
                    n, t->n_columns);
    for (int i = 0; i < 4; i++) {
        char *end;
        const char *from = word[t->column[i]];
        value[i] = strtod(from, &end);
        if (*end || !isfinite(value[i]) || !(value[i] > 0) ||
            (i < 3 && (value[i] != floor(value[i]) || value[i] > 1e9)))
            return FAIL(E_FORMAT, "%s:%d: \"%.40s\" is not %s above 0; use m n k TFLOP/s", t->path, (int)t->in.number,
                        from, i < 3 ? "a whole number" : "a rate");
    }
    for (int i = 0; i < n; i++) t->dtypes |= isalpha((unsigned char)*word[i]) ? dtypes_in(word[i], &t->unknown) : 0;
    double flops = 2 * value[0] * value[1] * value[2], rate = value[3] * 1e12;
    t->product = table_grow(t->product, t->n, sizeof *t->product);
    t->product[t->n++] = (struct timed_product){
        {(int64_t)value[0], (int64_t)value[1], (int64_t)value[2], 1}, flops / rate};
    t->fastest = fmax(t->fastest, rate);
    return OK;
}

static enum status read_table(struct table *t) {
    for (;;) {
        TRY(input_line(&t->in));
        if (t->in.n == 0) return OK;
        char *text = t->in.text + strspn(t->in.text, " \t\r\n");
        if (!*text) continue;
        if (isdigit((unsigned char)*text) || (t->n && *text != '#')) {
            if (t->n == 0 && t->column[3] < 0)
                return FAIL(E_FORMAT, "%s: the header has m, n and k, and no TFLOP/s; use m n k TFLOP/s", t->path);
            if (t->n == 1 << 16) return FAIL(E_FORMAT, "%s has more than %d products", t->path, 1 << 16);
            TRY(read_product(t, text));
        } else read_head(t, text);
    }
}

static enum status check_table(const struct table *t, const struct cluster *c, enum dtype *out) {
    if (t->giga) return FAIL(E_FORMAT, "%s is in GFLOP/s; use m n k TFLOP/s", t->path);
    if (t->unknown)
        return FAIL(E_FORMAT, "%s: no cluster has a peak in tf32; use a table of fp64, fp32, bf16, fp16 or fp8",
                    t->path);
    if (t->dtypes == 0 || t->dtypes & (t->dtypes - 1))
        return FAIL(E_FORMAT,
                    "%s: the header must name one dtype, and names %s; use fp64, fp32, bf16, fp16 or fp8, as in "
                    "\"# bf16: m n k TFLOP/s\"",
                    t->path, t->dtypes ? "several" : "none");
    while (!(t->dtypes >> *out & 1)) (*out)++;
    const char *name = *out == FP8_E4M3 ? "fp8" : dtype_name(*out);
    if (t->n < 3) return FAIL(E_CONFIG, "%s: %d product%s; give 3 or more", t->path, t->n, t->n == 1 ? "" : "s");
    if (!(c->flops_per_s[*out] > 0))
        return FAIL(E_CONFIG,
                    "%s is of products in %s, and %s has no peak for them; add tflops-%s to the cluster's file",
                    t->path, name, c->name, name);
    if (t->fastest > 1.02 * c->flops_per_s[*out])
        return FAIL(E_CONFIG, "%s: %.4g TFLOP/s in %s are more than the peak of %s, %.4g; name the cluster that was "
                    "measured with --cluster", t->path, t->fastest / 1e12, name, c->name, c->flops_per_s[*out] / 1e12);
    return OK;
}

/* ---- product_part ---- */
/* The seconds of a product if large ones reached the peak. */
static double ideal_seconds(const struct cluster *c, const struct matmul *p, double peak) {
    struct cluster at_peak = *c;
    at_peak.product_part = 1;
    return 2.0 * (double)p->m * (double)p->n * (double)p->k * (double)p->batch / product_efficiency(&at_peak, p) / peak;
}

/* The one constant, with the shape's constants as they are. */
static double fit_part(const struct table *t, const struct cluster *c, double peak) {
    double sum = 0, squares = 0;
    for (int i = 0; i < t->n; i++) {
        double r = ideal_seconds(c, &t->product[i].product, peak) / t->product[i].seconds;
        sum += r, squares += r * r;
    }
    return fmin(1, squares / sum);
}

static bool varies(const struct table *t, size_t side) {
    int64_t least = INT64_MAX, most = 0;
    for (int i = 0; i < t->n; i++) {
        int64_t x = *(const int64_t *)((const char *)&t->product[i].product + side);
        least = x < least ? x : least, most = x > most ? x : most;
    }
    return most >= 8 * least;
}

/* With many shapes of sides that differ by 8 times or more, what a short side costs is fitted, too. */
static void set_products(const struct table *t, enum dtype dtype, struct cluster *c, struct measured *m) {
    double peak = c->flops_per_s[dtype], was = c->product_part;
    struct cluster fitted = *c;
    bool shapes = t->n >= LEAST_TO_FIT_SHAPES && varies(t, offsetof(struct matmul, m)) &&
                  varies(t, offsetof(struct matmul, n)) && varies(t, offsetof(struct matmul, k));
    if (shapes && dtype != FP8_E4M3) fit_products(t->product, t->n, peak, &fitted);
    else fitted.product_part = fit_part(t, c, peak);
    char what[48];
    snprintf(what, sizeof what, "products in %s", dtype == FP8_E4M3 ? "fp8" : dtype_name(dtype));
    measured_add(m, what, "TFLOP/s", t->path, peak * fitted.product_part / 1e12, peak * was / 1e12);
    if (dtype == FP8_E4M3) {            /* product_part is that of the model's dtype */
        c->flops_per_s[FP8_E4M3] = c->flops_per_s[FP8_E5M2] = peak * fitted.product_part / was;
        return;
    }
    fitted.launch_s = c->launch_s;      /* of a row, which a benchmark of products in a loop does not have */
    const struct { const char *name; double is, was; } SIDES[] = {{"product-m0", fitted.product_m0, c->product_m0},
                                                                  {"product-n0", fitted.product_n0, c->product_n0},
                                                                  {"product-k0", fitted.product_k0, c->product_k0}};
    for (int i = 0; i < 3 && shapes; i++) measured_add(m, SIDES[i].name, "", t->path, SIDES[i].is, SIDES[i].was);
    *c = fitted;
}

/* Two files of one figure contradict each other. */
static enum status check_first(const struct measured *m, const char *path, const char *what) {
    for (int i = 0; i < m->n; i++)
        if (!strncmp(m->figure[i].what, what, strlen(what)))
            return FAIL(E_USAGE, "%s and %s both measure %s; leave one out", m->figure[i].from, path,
                        m->figure[i].what);
    return OK;
}

enum status measured_products(const char *path, struct cluster *c, struct measured *m) {
    struct table t = {.path = path, .column = {0, 1, 2, 3}, .n_head = 4};
    enum dtype dtype = FP64;
    enum status status = input_open(&t.in, "", path, INPUT_FILE, MEASURED_LINE);
    if (status == OK) status = read_table(&t);
    if (status == OK) status = check_table(&t, c, &dtype);
    if (status == OK) status = check_first(m, path, dtype == FP8_E4M3 ? "products in fp8" : "products in ");
    if (status == OK) set_products(&t, dtype, c, m);
    input_close(&t.in);
    free(t.product);
    return status;
}

/* ---- a trace ---- */
/* Sums over rows. ideal_s: at the peak; seconds: measured, less the launches. */
struct sum { double units, ideal_s, seconds; int n; };
struct moved { char op[32]; struct sum sum; };
struct rows {
    const char *path;
    struct sum products, attention[2], stream;
    struct moved mover[MAX_MOVERS];
    int n_movers, n;
    enum dtype dtype;
};

static void add_to(struct sum *s, double units, double ideal_s, double seconds) {
    s->units += units, s->ideal_s += ideal_s, s->seconds += seconds, s->n++;
}

static enum status dtype_of(const struct rows *r, const char *name, const struct cluster *c, enum dtype *out) {
    for (*out = FP64; *out < N_DTYPES && strcmp(dtype_name(*out), name); (*out)++) {}
    if (*out == N_DTYPES || !(c->flops_per_s[*out] > 0))
        return FAIL(E_CONFIG, "%s: rows in %.20s, and %s has no peak for them; add tflops-%.20s to the cluster's file",
                    r->path, name, c->name, name);
    return OK;
}

static struct sum *mover_of(struct rows *r, const struct cluster *c, const char *name) {
    size_t n = strcspn(name, " ");
    for (int i = 0; i < c->n_movers; i++) {
        if (strlen(c->mover[i].name) != n || strncmp(c->mover[i].name, name, n)) continue;
        int at = 0;
        while (at < r->n_movers && strcmp(r->mover[at].op, c->mover[i].name)) at++;
        if (at == r->n_movers) snprintf(r->mover[r->n_movers++].op, sizeof r->mover->op, "%s", c->mover[i].name);
        return &r->mover[at].sum;
    }
    return &r->stream;
}

/* Rows in which ranks exchange, or of two steps, have no flops and bytes in the file. */
static enum status add_row(struct rows *r, const json_t *event, const struct cluster *c) {
    const char *name = json_string_value(json_object_get(event, "name")), *text;
    const json_t *args = json_object_get(event, "args"), *products = json_object_get(args, "products");
    double flops = json_number_value(json_object_get(args, "flops")), ideal_s = 0;
    double bytes = json_number_value(json_object_get(args, "bytes"));
    double seconds = 1e-6 * json_number_value(json_object_get(event, "dur")) - c->launch_s;
    enum dtype dtype;
    if (!name || !(text = json_string_value(json_object_get(args, "dtype")))) return OK;
    TRY(dtype_of(r, text, c, &dtype));
    r->n++;
    if (!(flops > 0)) {
        if (bytes > 0) add_to(mover_of(r, c, name), bytes, 0, seconds);
        return OK;
    }
    for (size_t i = 0; i < json_array_size(products); i++) {
        json_int_t side[4] = {0};
        for (size_t k = 0; k < 4; k++) side[k] = json_integer_value(json_array_get(json_array_get(products, i), k));
        if (side[0] < 1 || side[1] < 1 || side[2] < 1 || side[3] < 1)
            return FAIL(E_FORMAT, "%s: products of \"%.60s\" are not m, n, k and how many; write the trace again with "
                        "trivium train --trace", r->path, name);
        const struct matmul p = {side[0], side[1], side[2], side[3]};
        ideal_s += ideal_seconds(c, &p, c->flops_per_s[dtype]);
    }
    if (ideal_s > 0) {
        double memory_s = bytes / op_bytes_per_s(c, "");
        if (memory_s < ideal_s / c->product_part) add_to(&r->products, flops, ideal_s, seconds), r->dtype = dtype;
    } else
        add_to(&r->attention[strstr(name, " backward_input") != NULL], flops, flops / c->flops_per_s[dtype], seconds);
    return OK;
}

static enum status read_trace(const json_t *trace, const struct cluster *c, struct rows *r) {
    const json_t *about = json_object_get(trace, "otherData"), *events = json_object_get(trace, "traceEvents");
    const char *program = json_string_value(json_object_get(about, "program"));
    size_t n_ranks = json_array_size(json_object_get(about, "ranks"));
    if (!program || strcmp(program, "trivium") || !json_is_array(events))
        return FAIL(E_FORMAT,
                    "%s is JSON, and not a trace of trivium train --trace; give one, or what nccl-tests prints",
                    r->path);
    if (c->cores && (int64_t)n_ranks > c->cores)
        return FAIL(E_CONFIG, "%s: %zu ranks waited for the %d cores of %s; trace %d ranks or fewer", r->path, n_ranks,
                    (int)c->cores, c->name, (int)c->cores);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const char *category = json_string_value(json_object_get(event, "cat"));
        if (category && !strcmp(category, "row")) TRY(add_row(r, event, c));
    }
    if (r->n == 0)
        return FAIL(E_FORMAT,
                    "%s: no row has its flops and bytes; write the trace again with this trivium train --trace",
                    r->path);
    return OK;
}

static enum status set_part(const struct rows *r, const struct sum *s, const char *what, double peak, double *part,
                            struct measured *m) {
    if (s->n == 0 || !(s->seconds > 0)) return OK;
    double is = s->ideal_s / s->seconds;
    if (is > 1.1)
        return FAIL(E_CONFIG, "%s: %s reach %.3g times the peak; name the cluster that was measured with --cluster",
                    r->path, what, is);
    is = fmin(1, is);
    TRY(check_first(m, r->path, what));
    measured_add(m, what, "TFLOP/s", r->path, peak * is / 1e12, peak * *part / 1e12);
    *part = is;
    return OK;
}

static enum status set_rates(const struct rows *r, struct cluster *c, struct measured *m) {
    char what[48];
    double peak = c->flops_per_s[r->dtype], stream = c->memory_bytes_per_s * c->stream_part;
    snprintf(what, sizeof what, "products in %s", dtype_name(r->dtype));
    TRY(set_part(r, &r->products, what, peak, &c->product_part, m));
    TRY(set_part(r, &r->attention[0], "attention forward", peak, &c->attention_forward_part, m));
    TRY(set_part(r, &r->attention[1], "attention backward", peak, &c->attention_backward_part, m));
    if (r->stream.n && r->stream.seconds > 0) {
        double is = r->stream.units / r->stream.seconds;
        measured_add(m, "memory-bound rows", "GB/s", r->path, is / 1e9, stream / 1e9);
        c->stream_part = is / c->memory_bytes_per_s;
    }
    for (int i = 0; i < r->n_movers; i++)
        for (int k = 0; k < c->n_movers; k++) {
            const struct sum *s = &r->mover[i].sum;
            if (strcmp(c->mover[k].name, r->mover[i].op) || !(s->seconds > 0)) continue;
            measured_add(m, c->mover[k].name, "GB/s", r->path, s->units / s->seconds / 1e9,
                         c->mover[k].bytes_per_s / 1e9);
            c->mover[k].bytes_per_s = s->units / s->seconds;
        }
    return OK;
}

enum status measured_trace(const char *path, struct cluster *c, struct measured *m) {
    enum { MOST_BYTES = 1 << 30 };
    struct rows r = {.path = path};
    json_t *trace;
    TRY(json_file_read(path, MOST_BYTES, 0, &trace));
    enum status status = read_trace(trace, c, &r);
    if (status == OK) status = set_rates(&r, c, m);
    json_decref(trace);
    return status;
}
