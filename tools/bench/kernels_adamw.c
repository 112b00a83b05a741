/* Cases of bench-kernels: the optimizer and the gradient norm, over all of a model's params in one call. */
#include "tools/bench/kernels.h"

#include "lib/device/arena.h"
#include "lib/ops/optimizer.h"
#include "lib/ops/reduce.h"
#include <stdio.h>
#include <stdlib.h>

enum { MAX_PARAMS = 1024 };
struct update {
    struct optimizer_settings settings;
    struct optimizer_elements of[MAX_PARAMS];
    struct reduce_buffer grad[MAX_PARAMS];
    int n;
    double *sum;
    void *work;
    int64_t elements;
};

static void param(struct update *u, int64_t n, bool decay) {
    if (u->n < MAX_PARAMS) u->of[u->n++] = (struct optimizer_elements){.n = n, .weight_dtype = BF16,
                                                                       .grad_dtype = BF16, .decay = decay};
    u->elements += n;
}
static void list_params(struct update *u, const struct sizes *z) {
    int64_t C = z->C;
    param(u, z->V * C, true), param(u, z->T * C, true);
    for (int64_t l = 0; l < z->L; l++) {
        param(u, C, false), param(u, C, false), param(u, 3 * C * C, true), param(u, 3 * C, false);
        param(u, C * C, true), param(u, C, false), param(u, C, false), param(u, C, false);
        param(u, 4 * C * C, true), param(u, 4 * C, false), param(u, 4 * C * C, true), param(u, C, false);
    }
    param(u, C, false), param(u, C, false);
}

/* Weights, gradients, masters and moments, each param aligned as in an arena. v is positive, as squares are. */
static int64_t place(struct update *u, char *memory) {
    const int64_t size[] = {2, 2, 4, 4, 4};
    int64_t at = 0;
    for (int part = 0; part < 5; part++)
        for (int i = 0; i < u->n; i++) {
            struct optimizer_elements *e = &u->of[i];
            void **places[] = {&e->weight, NULL, &e->master, &e->state[0], &e->state[1]};
            if (memory && part == 1) e->grad = memory + at;
            else if (memory) *places[part] = memory + at;
            at += arena_align(e->n * size[part]);
        }
    return at;
}

static enum status fill_update(struct update *u, const struct pool *p, char *memory) {
    int64_t at_master = (char *)u->of[0].master - memory, at_v = (char *)u->of[0].state[1] - memory;
    int64_t all = place(u, NULL);
    TRY(pool_fill(p, memory, p->normal_bf16, at_master, 0));
    TRY(pool_fill(p, memory + at_master, p->normal_fp32, at_v - at_master, 1));
    TRY(pool_fill(p, memory + at_v, p->uniform_fp32, all - at_v, 2));
    double one = 1;
    u->sum = (double *)(memory + all);
    u->work = memory + all + 2 * ARENA_ALIGN;
    double *multiplier = u->sum + ARENA_ALIGN / 8;
    u->settings.grad_multiplier = multiplier;
    for (int i = 0; i < u->n; i++) u->grad[i] = (struct reduce_buffer){u->of[i].grad, BF16, u->of[i].n};
    return p->device->upload(p->device, multiplier, &one, sizeof one);
}

static enum status run_update(const struct bench_case *s, int set) {
    (void)set;
    const struct update *u = s->self;
    return optimizer_update(&optimizer_adamw, s->device, &u->settings, u->of, u->n);
}
static enum status run_norm(const struct bench_case *s, int set) {
    (void)set;
    const struct update *u = s->self;
    return reduce_sum_of_squares(s->device, u->grad, u->n, u->sum, u->work);
}

static enum status make_update(struct bench_case *s, const struct pool *p, const struct sizes *z) {
    struct update *u = calloc(1, sizeof *u);
    if (!u) return FAIL(E_MEMORY, "no memory for a case");
    s->self = u;
    list_params(u, z);
    u->settings = (struct optimizer_settings){.lr = 1e-5, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
                                              .weight_decay = 0.1, .step = 100};
    s->n_sets = 1;       /* a model's states are larger than any cache */
    s->memory_bytes = place(u, NULL) + 2 * ARENA_ALIGN + arena_align(reduce_work(p->device->kind));
    TRY(p->device->allocate(p->device, s->memory_bytes, &s->memory));
    place(u, s->memory);
    snprintf(s->shape, sizeof s->shape, "%.1f M in %d params", 1e-6 * (double)u->elements, u->n);
    return fill_update(u, p, s->memory);
}

/* read: gradient 2, master, m, v 4 each; written: weight 2, master, m, v 4 each */
enum status adamw_case(struct bench_case *s, const struct pool *p, const struct sizes *z, const struct scale *scale) {
    (void)scale;
    TRY(make_update(s, p, z));
    snprintf(s->name, sizeof s->name, "adamw");
    s->run = run_update;
    s->bytes = 28.0 * (double)((struct update *)s->self)->elements;
    s->memory_bound = true;
    return OK;
}
enum status norm_case(struct bench_case *s, const struct pool *p, const struct sizes *z, const struct scale *scale) {
    (void)scale;
    TRY(make_update(s, p, z));
    snprintf(s->name, sizeof s->name, "gradient norm");
    s->run = run_norm;
    s->bytes = 2.0 * (double)((struct update *)s->self)->elements;
    return OK;
}
