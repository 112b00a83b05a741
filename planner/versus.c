#include "planner/search.h"

#include "lib/base/option.h"
#include "planner/choose.h"
#include <string.h>

enum { MOST_CLUSTERS = 6 };
struct column { struct cluster c; struct found best; bool fits; double ranks, tokens; };

/* ---- rows: what is not known, or does not fit, is 0 and printed as "-" ---- */
static double tflops(const struct column *x) { return x->c.flops_per_s[x->c.cores ? FP32 : BF16] / 1e12; }
static double memory(const struct column *x) { return (double)x->c.memory_bytes / (1 << 30); }
static double memory_gbs(const struct column *x) { return x->c.memory_bytes_per_s / 1e9; }
static double inner_gbs(const struct column *x) { return x->c.level[0].bytes_per_s / 1e9; }
static double outer_gbs(const struct column *x) { return x->c.level[x->c.n_levels - 1].bytes_per_s / 1e9; }
static double price(const struct column *x) { return x->c.price_per_hour; }
static double per_price(const struct column *x) { return price(x) > 0 ? tflops(x) / price(x) : 0; }
static double step(const struct column *x) { return x->fits ? x->best.price.step_s : 0; }
static double speed(const struct column *x) { return x->fits ? x->tokens / step(x) : 0; }
static double cost(const struct column *x) { return price(x) * x->ranks * step(x) / 3600 / x->tokens * 1e6; }
static const struct { const char *name; double (*of)(const struct column *); } ROWS[] = {
    {"peak of products, TFLOP/s", tflops}, {"memory, GiB", memory}, {"its bandwidth, GB/s", memory_gbs},
    {"innermost links, GB/s", inner_gbs}, {"outermost links, GB/s", outer_gbs}, {"price per hour", price},
    {"TFLOP/s by price", per_price}, {"step, s", step}, {"tokens/s", speed}, {"price of a million tokens", cost}};

static void print_row(const struct column *x, int n, size_t row, FILE *to) {
    fprintf(to, "%-26s", ROWS[row].name);
    for (int i = 0; i < n; i++) {
        double value = ROWS[row].of(&x[i]);
        if (value > 0) fprintf(to, " %12.4g", value);
        else fprintf(to, " %12s", "-");
    }
    fprintf(to, "\n");
}

static void print(const struct column *x, int n, FILE *to) {
    char text[192];
    fprintf(to, "%-26s", "a rank; below, all");
    for (int i = 0; i < n; i++) fprintf(to, " %12.12s", x[i].c.name);
    fprintf(to, "\n");
    for (size_t row = 0; row < sizeof ROWS / sizeof *ROWS; row++) print_row(x, n, row, to);
    for (int i = 0; i < n; i++)
        fprintf(to, "%s: %s%s\n", x[i].c.name, layout_text(&x[i].best.layout, text, sizeof text),
                x[i].fits ? "" : " is the smallest, and does not fit");
}

static enum status find(const struct recipe *recipe, const struct plan *asked, unsigned fixed, struct column *x) {
    struct search s;
    enum status status = search_layouts(recipe, asked, fixed, &x->c, (int64_t)x->ranks, true, &s);
    if (status == OK && s.n_best + s.n_families == 0)
        status = FAIL(E_CONFIG, "no layout of gpus=%.0f can be: tp, pp and dp divide it; use a power of two", x->ranks);
    x->fits = status == OK && s.n_best > 0;
    x->best = x->fits ? s.best[0] : s.smallest;
    if (x->fits) status = choose_refine(recipe, asked, fixed, true, &x->c, &x->best);
    search_fini(&s);
    return status;
}

enum status versus_print(const struct recipe *recipe, const struct plan *asked, unsigned fixed,
                         const struct cluster *first, const char *names, int64_t ranks, FILE *to) {
    struct column column[MOST_CLUSTERS] = {{.c = *first}};
    char list[OPTION_TEXT_MAX], *rest;
    int n = 1;
    snprintf(list, sizeof list, "%s", names);
    for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest), n++) {
        if (n == MOST_CLUSTERS) return FAIL(E_CONFIG, "against=%s has more than %d clusters", names, MOST_CLUSTERS - 1);
        TRY(cluster_read(name, &column[n].c));
        cluster_limit_memory(&column[n].c, (int64_t)(asked->memory_limit * (1 << 20)));
        if ((column[n].c.cores > 0) != (first->cores > 0))
            return FAIL(E_CONFIG, "%s or %s has CPUs, and plans in fp32; use clusters of a kind", first->name, name);
    }
    for (int i = 0; i < n; i++) {
        column[i].ranks = (double)ranks, column[i].tokens = (double)asked->global_batch * (double)asked->seq;
        TRY(find(recipe, asked, fixed, &column[i]));
    }
    print(column, n, to);
    return OK;
}
