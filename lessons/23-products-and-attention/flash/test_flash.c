/* ranks: 1  device: simt */
/* Attention forward, compared with fp64, and separately its traffic. A report of the memory checker fails the running
 * test. */
#include "lessons/23-products-and-attention/flash/flash.h"
#include "tests/simt/kernel_test.h"

#include <stdio.h>
#include <string.h>

struct head { int T, D; float scale, *y, *lse, *q, *k, *v; enum status status; };

/* Queries and keys between -1 and 1; key j is `slope` j more in its first channel, where all queries are 1. */
static struct head head_create(int T, int D, float scale, float slope) {
    size_t n = (size_t)T * (size_t)D;
    struct head h = {T, D, scale, device_floats(n), device_floats((size_t)T), device_floats(n), device_floats(n),
                     device_floats(n), OK};
    for (size_t i = 0; i < n; i++) {
        h.q[i] = i % (size_t)D ? (float)((int)(i * 7919 % 201) - 100) / 100 : 1;
        h.k[i] = (float)((int)(i * 104729 % 199) - 99) / 99 + (i % (size_t)D ? 0 : slope * (float)(i / (size_t)D));
        h.v[i] = (float)((int)(i * 1299709 % 211) - 105) / 105;
    }
    return h;
}
static void head_destroy(struct head *h) {
    float *all[] = {h->y, h->lse, h->q, h->k, h->v};
    for (int i = 0; i < 5; i++) device_free(all[i]);
}

static void run(struct head *h, enum simt_order order) {
    struct kernel_run before = kernel_begin(order);
    h->status = kernel_end(before, flash(h->y, h->lse, h->q, h->k, h->v, h->T, h->D, h->scale));
}

/* A score has an error of at most D 2^-24 of the sum of its terms' sizes, here at most `size`. Each weight e^(z - lse)
 * is off by as much of itself, and by the error of a sum of T numbers. Values are at most 1, and y is their mean. */
struct right { double lse, y[FLASH_MAX_D], error; };
static struct right right_of(const struct head *h, int t) {
    struct right w = {0};
    double *z = malloc(sizeof *z * (size_t)(t + 1)), most = -INFINITY, sum = 0, size = 0;
    assert_non_null(z);
    for (int j = 0; j <= t; j++) {
        double s = 0, terms = 0;
        for (int d = 0; d < h->D; d++) {
            double term = (double)h->q[t * h->D + d] * (double)h->k[j * h->D + d];
            s += term, terms += fabs(term);
        }
        z[j] = s * (double)h->scale;
        size = fmax(size, terms * (double)h->scale);
        most = fmax(most, z[j]);
    }
    for (int j = 0; j <= t; j++) sum += exp(z[j] - most);
    for (int j = 0; j <= t; j++)
        for (int d = 0; d < h->D; d++) w.y[d] += exp(z[j] - most) / sum * (double)h->v[j * h->D + d];
    w.lse = most + log(sum);
    w.error = ((h->D + 4) * size + h->T + 64) * 0x1p-23;
    free(z);
    return w;
}

static const char *first_wrong(const struct head *h, int of_lse) {
    static char text[200];
    for (int t = 0; t < h->T; t++) {
        struct right w = right_of(h, t);
        if (of_lse && !(fabs((double)h->lse[t] - w.lse) <= w.error)) {
            snprintf(text, sizeof text, "T=%d D=%d: lse[%d] is %.9g, and should be %.9g", h->T, h->D, t,
                     (double)h->lse[t], w.lse);
            return text;
        }
        for (int d = 0; d < h->D && !of_lse; d++) {
            double found = (double)h->y[t * h->D + d];
            if (fabs(found - w.y[d]) <= 2 * w.error) continue;
            snprintf(text, sizeof text, "T=%d D=%d: y[%d,%d] is %.9g, and should be %.9g", h->T, h->D, t, d, found,
                     w.y[d]);
            return text;
        }
    }
    return NULL;
}

static void check(int T, int D, float scale, float slope, enum simt_order order, int of_lse) {
    struct head h = head_create(T, D, scale, slope);
    run(&h, order);
    const char *wrong = h.status == OK ? first_wrong(&h, of_lse) : NULL;
    enum status status = h.status;
    head_destroy(&h);
    assert_ok(status);
    if (wrong) fail_msg("%s", wrong);
}

static const struct { int T, D; } sizes[] = {{33, 32}, {64, 64}, {65, 33}, {100, 7}, {130, 1}, {31, 64}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

TEST(test_flash_of_few_keys) {
    for (int T = 1; T <= 32; T += 5) check(T, 16, 0.25f, 0, SIMT_FORWARD, 0);
    check(32, 16, 0.25f, 0, SIMT_FORWARD, 0);
}
TEST(test_flash_of_every_length) {
    for (int i = 0; i < N_SIZES; i++) check(sizes[i].T, sizes[i].D, 0.25f, 0.01f, SIMT_FORWARD, 0);
}
TEST(test_flash_of_large_scores) {
    static const float slopes[] = {10, -10};                 /* up to 1000, and down to -1000 */
    for (int i = 0; i < 2; i++) check(100, 8, 1, slopes[i], SIMT_FORWARD, 0);
}
TEST(test_flash_has_lse) {
    for (int i = 0; i < N_SIZES; i++) check(sizes[i].T, sizes[i].D, 0.25f, 0.01f, SIMT_FORWARD, 1);
    check(100, 8, 1, 10, SIMT_FORWARD, 1);
}

TEST(test_flash_in_the_opposite_order) {
    for (int i = 0; i < N_SIZES; i++) {
        struct head a = head_create(sizes[i].T, sizes[i].D, 0.25f, 0.01f), b = head_create(a.T, a.D, a.scale, 0.01f);
        run(&a, SIMT_FORWARD);
        run(&b, SIMT_REVERSE);
        enum status status = a.status != OK ? a.status : b.status;
        const char *wrong = status == OK ? first_wrong(&b, 0) : NULL;
        bool same = memcmp(a.y, b.y, (size_t)a.T * (size_t)a.D * sizeof *a.y) == 0;
        head_destroy(&a);
        head_destroy(&b);
        assert_ok(status);
        if (wrong) fail_msg("in the opposite order: %s", wrong);
        if (!same) fail_msg("T=%d D=%d: threads in the opposite order give other numbers", sizes[i].T, sizes[i].D);
    }
}

/* ---- counts, of 128 positions and 64 channels: 4 tiles of 32, each of 256 sectors ---- */
enum { T = 128, D = 64, TILES = T / 32, TILE_SECTORS = 32 * D / 8 };
static struct simt_counts counts(void) {
    struct head h = head_create(T, D, 0.125f, 0);
    simt_count(1);
    run(&h, SIMT_FORWARD);
    struct simt_counts n = simt_counts();
    simt_count(0);
    enum status status = h.status;
    head_destroy(&h);
    assert_ok(status);
    assert_true(simt_checked());                             /* other builds count no traffic */
    long long read = 3LL * T * D * 4, written = (long long)T * (D + 1) * 4;
    if (n.load.bytes < read || n.store.bytes < written)
        fail_msg("of %lld bytes %lld are read, and of %lld bytes %lld written", read, (long long)n.load.bytes, written,
                 (long long)n.store.bytes);
    return n;
}
static void at_most(const char *what, int64_t count, int64_t limit) {
    if (count > limit) fail_msg("T=%d D=%d: %s: %lld; at most %lld", T, D, what, (long long)count, (long long)limit);
}

/* y in any order, once, and lse with a sector for each number. */
TEST(test_flash_stores_no_scores) {
    struct simt_counts n = counts();
    at_most("bytes stored", n.store.bytes, T * (D + 1) * 4);
    at_most("bytes of shared memory per block", n.block_shared, 48 << 10);
}

/* Four blocks read their queries, and keys and values of all four tiles. */
TEST(test_flash_reads_keys_per_tile) {
    at_most("sectors read", counts().load.units, TILES * TILE_SECTORS + TILES * TILES * 2 * TILE_SECTORS);
}

/* 1 + 2 + 3 + 4 tiles of keys and of values. */
TEST(test_flash_leaves_masked_tiles_out) {
    at_most("sectors read", counts().load.units, TILES * TILE_SECTORS + TILES * (TILES + 1) / 2 * 2 * TILE_SECTORS);
}

TEST(test_flash_has_no_bank_conflicts) {
    struct simt_counts n = counts();                         /* a kernel without shared memory fails, too */
    if (n.shared.bytes + n.fragment.bytes < 2LL * T * D * 4) fail_msg("keys and values are not in shared memory");
    at_most("wavefronts that are bank conflicts", n.conflicts, 0);
}

TESTS(unit_test(test_flash_of_few_keys), unit_test(test_flash_of_every_length), unit_test(test_flash_of_large_scores),
      unit_test(test_flash_has_lse), unit_test(test_flash_in_the_opposite_order),
      unit_test(test_flash_stores_no_scores), unit_test(test_flash_reads_keys_per_tile),
      unit_test(test_flash_leaves_masked_tiles_out), unit_test(test_flash_has_no_bank_conflicts))
