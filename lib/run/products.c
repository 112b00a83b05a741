#include "lib/run/products.h"

#include "lib/base/clock.h"
#include "lib/base/json_file.h"
#include "lib/base/log.h"
#include "lib/base/replace.h"
#include "lib/ops/gemm/gemm_choices.h"
#include "lib/ops/linear.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_VERSION = 1, MOST_BYTES = 16 << 20, HEX = 2 * GEMM_ALGORITHM_BYTES };

/* The GPU and the version of the library that a table is for. */
struct machine { char gpu[128]; int64_t library; };

/* The GPU's name is in parentheses in the device's name: "cuda 0 (NVIDIA H100)". */
static struct machine machine_of(const struct device *d) {
    struct machine m = {.library = gemm_library_version()};
    const char *name = strchr(d->name, '(');
    size_t n = name ? strlen(name + 1) : 0;
    if (n) memcpy(m.gpu, name + 1, n - 1 < sizeof m.gpu ? n - 1 : sizeof m.gpu - 1);
    return m;
}

/* ---- the file ---- */
static bool parse_hex(const char *text, unsigned char out[GEMM_ALGORITHM_BYTES]) {
    if (!text || strlen(text) != HEX || strspn(text, "0123456789abcdef") != HEX) return false;
    for (int i = 0; i < GEMM_ALGORITHM_BYTES; i++) {
        unsigned byte;
        sscanf(text + 2 * i, "%2x", &byte);
        out[i] = (unsigned char)byte;
    }
    return true;
}

static bool parse_choice(const char *product, const json_t *json, struct gemm_choice *out) {
    *out = (struct gemm_choice){.seconds = json_number_value(json_object_get(json, "seconds")),
                                .first_s = json_number_value(json_object_get(json, "first_seconds"))};
    if (strlen(product) >= sizeof out->product) return false;
    strcpy(out->product, product);
    return parse_hex(json_string_value(json_object_get(json, "algorithm")), out->algorithm);
}

static enum status check_machine(const char *path, const json_t *file, const struct machine *here) {
    const char *gpu = json_string_value(json_object_get(file, "gpu"));
    int64_t library = json_integer_value(json_object_get(file, "cublaslt"));
    if (gpu && !strcmp(gpu, here->gpu) && library == here->library) return OK;
    return FAIL(E_CONFIG, "gemm-algorithms=%.256s was timed on %.64s with cuBLASLt %" PRId64 ", and this is %.64s with "
                "%" PRId64 "; name another file, or remove it", path, gpu ? gpu : "no GPU", library, here->gpu,
                here->library);
}

static enum status take_file(const char *path, const json_t *file, const struct machine *here) {
    const json_t *products = json_object_get(file, "products");
    const char *format = json_string_value(json_object_get(file, "format")), *product;
    json_t *value;
    if (!format || strcmp(format, "trivium gemm algorithms") || !json_is_object(products) ||
        json_integer_value(json_object_get(file, "version")) != FILE_VERSION)
        return FAIL(E_FORMAT, "gemm-algorithms=%.256s is not a file of algorithms, of version %d; name another file, "
                    "or remove it", path, FILE_VERSION);
    TRY(check_machine(path, file, here));
    json_object_foreach((json_t *)products, product, value) {
        struct gemm_choice choice;
        if (!parse_choice(product, value, &choice))
            return FAIL(E_FORMAT, "gemm-algorithms=%.256s is damaged at %.*s; remove it", path, GEMM_PRODUCT_TEXT,
                        product);
        gemm_choice_add(&choice);
    }
    return OK;
}

static enum status read_file(const char *path, const struct machine *here) {
    json_t *file;
    if (access(path, F_OK) != 0 && errno == ENOENT) return OK;
    TRY(json_file_read(path, MOST_BYTES, JSON_REJECT_DUPLICATES, &file));
    enum status status = take_file(path, file, here);
    json_decref(file);
    return status;
}

static json_t *file_json(const struct machine *here) {
    int n;
    const struct gemm_choice *choices = gemm_choices(&n);
    json_t *products = json_object();
    for (int i = 0; i < n; i++) {
        char hex[HEX + 1];
        for (int k = 0; k < GEMM_ALGORITHM_BYTES; k++) snprintf(hex + 2 * k, 3, "%02x", choices[i].algorithm[k]);
        json_object_set_new(products, choices[i].product,
                            json_pack("{s:s, s:f, s:f}", "algorithm", hex, "seconds", choices[i].seconds,
                                      "first_seconds", choices[i].first_s));
    }
    return json_pack("{s:s, s:i, s:s, s:I, s:o}", "format", "trivium gemm algorithms", "version", FILE_VERSION, "gpu",
                     here->gpu, "cublaslt", (json_int_t)here->library, "products", products);
}

static enum status write_file(const char *path, const struct machine *here) {
    FILE *f = replace_begin(path);
    json_t *file = f ? file_json(here) : NULL;
    bool ok = file && json_dumpf(file, f, JSON_INDENT(1) | JSON_SORT_KEYS) == 0;
    json_decref(file);
    if (f && replace_end(path, f, ok)) return OK;
    return FAIL(E_IO, "cannot write gemm-algorithms=%.256s: %s; name a file in a folder that may be written", path,
                strerror(errno));
}

/* ---- one table for all ranks ---- */
/* Add the root's choices to every rank's table. */
static enum status share(const struct group *g, int root, const struct gemm_choice *mine, int32_t n) {
    TRY(comm_broadcast(g, &n, 1, INT32, root));
    struct gemm_choice *all = calloc((size_t)n + 1, sizeof *all);
    if (!all) return FAIL(E_MEMORY, "no memory for %d algorithms", n);
    if (group_rank(g) == root && n) memcpy(all, mine, (size_t)n * sizeof *all);
    enum status status = n ? comm_broadcast(g, all, n * (int64_t)sizeof *all, UINT8, root) : OK;
    for (int i = 0; status == OK && i < n; i++) gemm_choice_add(&all[i]);
    free(all);
    return status;
}

/* Copy the choices that this rank's rows use. The table also holds choices of the file that no row uses. */
static struct gemm_choice *copy_used(int *n) {
    int n_all;
    const struct gemm_choice *table = gemm_choices(&n_all);
    struct gemm_choice *copy = calloc((size_t)n_all + 1, sizeof *copy);
    *n = 0;
    for (int i = 0; copy && i < n_all; i++)
        if (table[i].used) copy[(*n)++] = table[i];
    return copy;
}

/* Keep the n_read choices of the file. Then add the ranks' choices in rank order; a product's first choice wins. */
static enum status merge(const struct group *g, int n_read) {
    int n;
    struct gemm_choice *mine = copy_used(&n);
    enum status status = fail_agree(g, mine ? OK : FAIL(E_MEMORY, "no memory for %d algorithms", n));
    if (status == OK) gemm_choices_keep(n_read);
    for (int rank = 0; status == OK && rank < group_size(g); rank++)
        status = share(g, rank, mine, group_rank(g) == rank ? n : 0);
    free(mine);
    return status;
}

static enum status same_machine(const struct group *g, const struct machine *here) {
    struct machine first = *here;
    TRY(comm_broadcast(g, &first, sizeof first, UINT8, 0));
    if (!memcmp(&first, here, sizeof first)) return OK;
    return FAIL(E_CONFIG, "gemm-algorithms is for GPUs of one kind: rank 0 has %.64s with cuBLASLt %" PRId64
                ", this one %.64s with %" PRId64 "; leave it out", first.gpu, first.library, here->gpu, here->library);
}

/* ---- before the first step ---- */
static enum status time_products(struct run *r) {
    gemm_choices_time(true);
    enum status status = exec_rows_of(&r->exec, &r->schedule, &op_linear);
    if (status == OK) status = r->device->finish(r->device);
    gemm_choices_time(false);
    return status;
}

static void say(const char *path, int n_read, double took_s) {
    int n, faster = 0;
    double first_s = 0, now_s = 0;
    const struct gemm_choice *c = gemm_choices(&n);
    for (int i = n_read; i < n; i++) {
        first_s += c[i].first_s, now_s += c[i].seconds;
        faster += c[i].seconds < c[i].first_s;
    }
    if (n > n_read)
        log_info("gemm-algorithms: %d products timed in %.2f s, %d of them faster than by the library's first choice: "
                 "one of each takes %.3f ms instead of %.3f", n - n_read, took_s, faster, 1e3 * now_s, 1e3 * first_s);
    log_info("gemm-algorithms: %d products read from %s; table %016" PRIx64, n_read, path, gemm_choices_hash());
}

static enum status choose(struct run *r, const char *path) {
    const struct group *g = r->mesh.group[AXIS_MESH];
    const struct machine here = machine_of(r->device);
    bool first = group_rank(g) == 0;
    double start_s = clock_s();
    int n_read, n;
    TRY(fail_agree(g, same_machine(g, &here)));
    TRY(fail_agree(g, first ? read_file(path, &here) : OK));
    const struct gemm_choice *read = gemm_choices(&n_read);
    TRY(share(g, 0, read, n_read));
    gemm_choices(&n_read);
    TRY(fail_agree(g, time_products(r)));
    TRY(merge(g, n_read));
    gemm_choices(&n);
    TRY(fail_agree(g, first && n > n_read ? write_file(path, &here) : OK));
    if (first) say(path, n_read, clock_s() - start_s);
    return OK;
}

enum status products_choose(struct run *r) {
    gemm_choices_keep(0);
    const char *path = r->plan.gemm_algorithms;
    return path[0] && r->plan.device == PLAN_DEVICE_CUDA ? choose(r, path) : OK;
}
