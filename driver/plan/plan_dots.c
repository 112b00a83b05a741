#include "driver/plan/plan_dots.h"

#include "lib/base/grow.h"
#include <stdlib.h>
#include <string.h>

void plan_dots_init(struct plan_dots *d) {
    *d = (struct plan_dots){{.most = MOST_DOTS_THAT_FIT, .stride = 1}, {.most = MOST_DOTS_THAT_DO_NOT, .stride = 1}, 0};
}

void plan_dots_fini(struct plan_dots *d) {
    free(d->fit.dot);
    free(d->no_fit.dot);
    *d = (struct plan_dots){0};
}

static struct plan_dot dot_of(const struct found *f) {
    struct plan_dot d = {.layout = f->layout, .step_s = f->price.step_s, .bytes = f->price.total_bytes};
    part_seconds(f->price.phase_s, f->price.step_s, d.part_s);
    return d;
}

static void add(struct dot_sample *s, const struct found *f) {
    s->dot = table_grow(s->dot, s->n, sizeof *s->dot);
    s->dot[s->n++] = dot_of(f);
}

static void thin(struct dot_sample *s) {
    for (int i = 0; 2 * i < s->n; i++) s->dot[i] = s->dot[2 * i];
    s->n = (s->n + 1) / 2;
    s->stride *= 2;
}

void plan_dots_take(void *self, const struct found *f) {
    struct plan_dots *d = self;
    struct dot_sample *s = f->price.fits ? &d->fit : &d->no_fit;
    if (s->seen++ % s->stride) return;
    if (s->n == s->most) thin(s);
    if ((s->seen - 1) % s->stride == 0) add(s, f);
}

void plan_dots_put(struct plan_dots *d, const struct found *f) {
    struct dot_sample *s = &d->fit;
    for (int i = 0; i < s->n; i++)
        if (!memcmp(&s->dot[i].layout, &f->layout, sizeof f->layout)) {
            s->dot[i] = dot_of(f);
            return;
        }
    add(s, f);
    d->refined++;
}

static enum status price_dot(struct plan_dot *d, const struct recipe *recipe, const struct plan *asked, unsigned fixed,
                             const struct cluster *c) {
    struct plan p = *asked;
    struct found f = {.layout = d->layout};
    const struct price_wish wish = {.only_the_step = true};
    layout_apply(&d->layout, fixed, &p);
    if (!layout_is_legal(recipe, &p)) return FAIL(E_CONFIG, "a layout that was priced cannot be any more");
    TRY(price_plan(recipe, &p, c, &wish, &f.price));
    *d = dot_of(&f);
    return OK;
}

/* The search may skip the compilation of a stage that turns out to be impossible: remove such a layout's dot. */
enum status plan_dots_price_the_rest(struct plan_dots *d, const struct recipe *recipe, const struct plan *asked,
                                     unsigned fixed, const struct cluster *c) {
    struct dot_sample *s = &d->no_fit;
    int kept = 0;
    for (int i = 0; i < s->n; i++) {
        enum status status = price_dot(&s->dot[i], recipe, asked, fixed, c);
        if (status == E_CONFIG) {
            status_clear();
            continue;
        }
        TRY(status);
        s->dot[kept++] = s->dot[i];
    }
    s->n = kept;
    return OK;
}
