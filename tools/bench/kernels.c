/* build/bench-kernels: how fast each op runs on a GPU, against the limits of its memory and matrix units.
 *
 *   build/bench-kernels [--filter TEXT] [--model gpt2-124m|gpt2-1558m] [--json FILE] [--small]
 *
 *   --filter TEXT   only cases with TEXT in their name
 *   --model NAME    only these sizes (default: both)
 *   --json FILE     the table as JSON
 *   --small         tiny sizes, few samples: tries the program, for instance on the emulated device; its
 *                   times mean nothing
 *
 * How it measures. Operands hold random numbers. Each case has several sets of them, together more than any cache
 * holds, and runs go around the sets. After a warm-up a sample is enough runs to take a few milliseconds,
 * between two events on the compute stream; the time is the samples' median / runs. The yardsticks are measured in
 * the same minute: a large copy within the device's memory (bytes read plus bytes written), and a large bf16 product.
 * An op's bytes are those that must move: each operand once. So "of copy" is the share of the bandwidth that any kernel
 * could reach. */
#include "tools/bench/kernels.h"

#include "lib/base/sort.h"
#include "lib/device/cuda_try.h"
#include "lib/ops/gemm/peak.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SAMPLES = 32 };
static const double WANTED = 0.85;   /* of the copy bandwidth, for the ops that only move memory */

struct settings { const char *filter, *model, *json; struct scale scale; };
struct times { double median_s, best_s, worst_s; int runs; };
struct ceilings { double copy_bytes_s, product_flops_s, peak_flops_s; };

/* ---- timing ---- */
/* `runs` runs between two events. */
static enum status queue_sample(const struct bench_case *s, int runs, cudaEvent_t from, cudaEvent_t to) {
    CUDA_TRY(cudaEventRecord(from, (cudaStream_t)s->device->stream));
    for (int i = 0; i < runs; i++) TRY(s->run(s, i % s->n_sets));
    CUDA_TRY(cudaEventRecord(to, (cudaStream_t)s->device->stream));
    return OK;
}

static enum status take_samples(const struct bench_case *s, int n, int runs, cudaEvent_t (*event)[2], double *seconds) {
    for (int i = 0; i < n; i++) TRY(queue_sample(s, runs, event[i][0], event[i][1]));
    TRY(s->device->finish(s->device));
    for (int i = 0; i < n; i++) {
        float ms;
        CUDA_TRY(cudaEventElapsedTime(&ms, event[i][0], event[i][1]));
        seconds[i] = fmax(1e-3 * (double)ms / runs, 1e-9);   /* an emulated clock may stand still */
    }
    return OK;
}

/* The number of runs that take sample_s and use every set equally often. */
static int runs_of_sample(const struct bench_case *s, double run_s, double sample_s) {
    double rounds = ceil(sample_s / (run_s * s->n_sets + 1e-9));
    if (rounds < 1) rounds = 1;
    if (rounds * s->n_sets > 4000) rounds = floor(4000.0 / s->n_sets);
    return (int)rounds * s->n_sets;
}

static enum status time_with(const struct bench_case *s, const struct scale *scale, cudaEvent_t (*event)[2],
                             struct times *out) {
    double seconds[MAX_SAMPLES];
    int n = scale->samples;
    TRY(take_samples(s, 1, 2 * s->n_sets, event, seconds));        /* the first runs load modules and choose
                                                                    * algorithms */
    TRY(take_samples(s, 1, s->n_sets, event, seconds));
    out->runs = runs_of_sample(s, seconds[0], scale->sample_s);
    TRY(take_samples(s, 1, out->runs, event, seconds));
    TRY(take_samples(s, n, out->runs, event, seconds));
    sort_doubles(seconds, n);
    out->median_s = seconds[n / 2];
    out->best_s = seconds[0];
    out->worst_s = seconds[n - 1];
    return OK;
}

static enum status time_case(const struct bench_case *s, const struct scale *scale, struct times *out) {
    cudaEvent_t event[MAX_SAMPLES][2];
    for (int i = 0; i < scale->samples; i++)
        for (int k = 0; k < 2; k++) CUDA_TRY(cudaEventCreate(&event[i][k]));
    enum status status = time_with(s, scale, event, out);
    for (int i = 0; i < scale->samples; i++)
        for (int k = 0; k < 2; k++) cudaEventDestroy(event[i][k]);
    return status;
}

/* ---- results are numbers, to the last element ---- */
enum { LOOK = 4096 };

static enum status look_at(const struct device *d, const struct tensor *t, int64_t first, int64_t n, int64_t *bad) {
    static uint64_t buffer[LOOK];
    size_t size = dtype_size(t->type->dtype);
    TRY(d->download(d, buffer, (const char *)t->data + first * (int64_t)size, n * (int64_t)size));
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(dtype_get(buffer, t->type->dtype, i))) ++*bad;
    return OK;
}

/* Check the beginning and the end of each result, which is full of NaN before the runs. */
static enum status check_results(const struct bench_case *s, int64_t *bad) {
    *bad = 0;
    for (int i = 0; i < s->n_results; i++) {
        int64_t n = type_n(s->result[i].type), part = n < LOOK ? n : LOOK;
        TRY(look_at(s->device, &s->result[i], 0, part, bad));
        TRY(look_at(s->device, &s->result[i], n - part, part, bad));
    }
    return OK;
}

/* ---- the yardsticks ---- */
static enum status copy_run(const struct bench_case *s, int set) {
    int64_t half = s->memory_bytes / 2 / s->n_sets;
    char *from = (char *)s->memory + 2 * half * set;
    return s->device->copy(s->device, from + half, from, half);
}

static enum status measure_copy(const struct pool *pool, const struct scale *scale, double *bytes_s) {
    struct bench_case s = {.run = copy_run, .n_sets = 2, .device = pool->device,
                        .memory_bytes = scale->small ? 1 << 20 : (int64_t)4 << 30};
    struct times times = {0};
    TRY(s.device->allocate(s.device, s.memory_bytes, &s.memory));
    enum status status = pool_fill(pool, s.memory, pool->normal_bf16, s.memory_bytes, 0);
    if (status == OK) status = time_case(&s, scale, &times);
    s.device->release(s.device, s.memory, s.memory_bytes);
    if (status == OK) *bytes_s = (double)s.memory_bytes / s.n_sets / times.median_s;
    return status;
}

static enum status measure_product(const struct pool *pool, const struct scale *scale, double *flops_s) {
    struct bench_case s = {.device = pool->device};
    struct times times = {0};
    TRY(large_product(&s, pool, NULL, scale));
    enum status status = time_case(&s, scale, &times);
    if (status == OK) *flops_s = s.flops / times.median_s;
    bench_case_fini(&s);
    return status;
}

/* ---- the table ---- */
static const char *verdict(const struct bench_case *s, double share, int64_t bad) {
    if (bad) return "NOT A NUMBER";
    if (!s->memory_bound) return "";
    return share >= WANTED ? "ok" : "below 85%";
}

static json_t *row_of(const struct bench_case *s, const struct sizes *z, const struct times *t,
                      const struct ceilings *c, int64_t bad) {
    double share = s->bytes / t->median_s / c->copy_bytes_s;
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:b, s:s, s:I}", "op", s->name,
                     "model", z->model, "shape", s->shape, "median_us", 1e6 * t->median_s, "best_us", 1e6 * t->best_s,
                     "worst_us", 1e6 * t->worst_s, "runs_a_sample", t->runs, "sets", s->n_sets, "bytes", s->bytes,
                     "flops", s->flops, "gb_s", 1e-9 * s->bytes / t->median_s, "share_of_copy", share, "tflop_s",
                     1e-12 * s->flops / t->median_s, "wanted", (int)s->memory_bound, "verdict", verdict(s, share, bad),
                     "not_numbers", (json_int_t)bad);
}

static void print_row(const struct bench_case *s, const struct times *t, const struct ceilings *c, int64_t bad) {
    double share = s->bytes / t->median_s / c->copy_bytes_s;
    printf("%-34s %-26s %9.1f %8.0f %6.1f%%", s->name, s->shape, 1e6 * t->median_s, 1e-9 * s->bytes / t->median_s,
           100 * share);
    if (s->flops > 0)
        printf(" %8.1f %5.1f%%", 1e-12 * s->flops / t->median_s, 100 * s->flops / t->median_s / c->product_flops_s);
    else printf(" %8s %6s", "", "");
    printf("  %s\n", verdict(s, share, bad));
    fflush(stdout);
}

static enum status measure(case_maker *make, const struct pool *pool, const struct sizes *z,
                           const struct settings *set, const struct ceilings *c, json_t *rows) {
    struct bench_case s = {.device = pool->device};
    struct times times;
    int64_t bad = 0;
    enum status status = make(&s, pool, z, &set->scale);
    if (status == OK && s.name[0] && (!set->filter || strstr(s.name, set->filter))) {
        TRY_DONE(time_case(&s, &set->scale, &times));
        TRY_DONE(check_results(&s, &bad));
        print_row(&s, &times, c, bad);
        json_array_append_new(rows, row_of(&s, z, &times, c, bad));
    }
done:
    bench_case_fini(&s);
    return status;
}

/* A case that cannot run is a row of its own; the others go on, unless the device is lost. */
static enum status measure_all(const struct pool *pool, const struct settings *set, const struct ceilings *c,
                               json_t *rows) {
    const struct sizes real[] = {{"gpt2-124m", 32, 1024, 768, 12, 50304, 12},
                                 {"gpt2-1558m", 8, 1024, 1600, 25, 50304, 48}};
    const struct sizes small[] = {{"small", 1, 64, 64, 2, 512, 2}};
    const struct sizes *sizes = set->scale.small ? small : real;
    for (int m = 0; m < (set->scale.small ? 1 : 2); m++) {
        if (set->model && strcmp(set->model, sizes[m].model)) continue;
        printf("%s: batch %" PRId64 ", seq %" PRId64 ", hidden %" PRId64 "\n", sizes[m].model, sizes[m].B, sizes[m].T,
               sizes[m].C);
        printf("%-34s %-26s %9s %8s %7s %8s %6s\n", "", "shape", "us", "GB/s", "of copy", "TFLOP/s", "of mm");
        for (case_maker *const *make = case_makers; *make; make++) {
            enum status status = measure(*make, pool, &sizes[m], set, c, rows);
            if (status == OK) continue;
            printf("failed: %s\n", status_message());
            json_array_append_new(rows, json_pack("{s:s, s:s}", "model", sizes[m].model, "error", status_message()));
            status_clear();
            TRY(pool->device->finish(pool->device));
        }
    }
    return OK;
}

/* ---- main ---- */
static json_t *report_of(const struct device *d, const struct ceilings *c, const struct settings *set, json_t *rows) {
    return json_pack("{s:s, s:b, s:f, s:f, s:f, s:f, s:O}", "device", d->name, "small", (int)set->scale.small,
                     "copy_gb_s", 1e-9 * c->copy_bytes_s, "product_tflop_s", 1e-12 * c->product_flops_s, "peak_tflop_s",
                     1e-12 * c->peak_flops_s, "wanted_share", WANTED, "rows", rows);
}

static enum status run(const struct settings *set, json_t *rows) {
    const struct device *d;
    struct pool pool = {0};
    struct ceilings c = {0};
    TRY(device_cuda(0, &d));
    TRY(pool_init(&pool, d, set->scale.small ? 64 << 10 : 64 << 20));
    enum status status = OK;
    TRY_DONE(measure_copy(&pool, &set->scale, &c.copy_bytes_s));
    TRY_DONE(measure_product(&pool, &set->scale, &c.product_flops_s));
    c.peak_flops_s = peak_flops_of_gpu(d->name, BF16);
    printf("%s: copy %.0f GB/s (read + written), bf16 product %.0f TFLOP/s, data sheet %.0f\n", d->name,
           1e-9 * c.copy_bytes_s, 1e-12 * c.product_flops_s, 1e-12 * c.peak_flops_s);
    TRY_DONE(measure_all(&pool, set, &c, rows));
    if (json_array_size(rows) == 0)
        status = FAIL(E_USAGE,
                      "nothing to measure is called --filter %s in --model %s; models are gpt2-124m and gpt2-1558m, or "
                      "small with --small",
                      set->filter ? set->filter : "(any)", set->model ? set->model : "(any)");
done:;
    json_t *report = report_of(d, &c, set, rows);
    if (set->json && json_dump_file(report, set->json, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) && status == OK)
        status = FAIL(E_IO, "cannot write %s", set->json);
    json_decref(report);
    pool_fini(&pool);
    return status;
}

static enum status parse(int argc, char **argv, struct settings *set) {
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(name, "--small")) {
            set->scale = (struct scale){64 << 10, 3, 0, true};
            continue;
        }
        const char **place = !strcmp(name, "--filter") ? &set->filter : !strcmp(name, "--model") ? &set->model
                             : !strcmp(name, "--json") ? &set->json : NULL;
        if (!place || !value)
            return FAIL(E_USAGE,
                        "%s is no option, or lacks its value; use --filter TEXT, --model NAME, --json FILE, --small",
                        name);
        *place = value;
        i++;
    }
    return OK;
}

int main(int argc, char **argv) {
    struct settings set = {.scale = {(int64_t)1 << 30, 15, 4e-3, false}};
    enum status status = parse(argc, argv, &set);
    if (status == OK) {
        json_t *rows = json_array();
        status = run(&set, rows);
        json_decref(rows);
    }
    status_report();
    return status_exit_code(status);
}
