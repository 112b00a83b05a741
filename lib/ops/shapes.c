#include "lib/ops/shapes.h"
#include <string.h>

enum status shape_refuse(const struct call *call, const char *why) {
    const struct step *step = call->step;
    char x[160] = "-", w[160] = "-";
    if (step->n_in > 0) shape_print(&call->in[0].type->shape, x, sizeof x);
    if (step->n_weight > 0) shape_print(&call->weight[0].type->shape, w, sizeof w);
    return FAIL(E_CONFIG, "%s: %s: in[0] %s %s, weight[0] %s %s", step->op->name, why,
                step->n_in > 0 ? dtype_name(call->in[0].type->dtype) : "", x,
                step->n_weight > 0 ? dtype_name(call->weight[0].type->dtype) : "", w);
}

enum status shape_as_input(const struct call *call, struct type out[MAX_OUT]) {
    out[0] = *call->in[0].type;
    return OK;
}

enum status shape_expect_tags(const struct call *call, int i, const char *tags) {
    const struct shape *s = &call->in[i].type->shape;
    bool ok = s->n_axes == (int)strlen(tags);
    for (int a = 0; ok && a < s->n_axes; a++) ok = s->axis[a].tag == tags[a];
    if (ok) return OK;
    char text[160];
    shape_print(s, text, sizeof text);
    return FAIL(E_CONFIG, "%s: in[%d] is %s; its axes must be %s", call->step->op->name, i, text, tags);
}

enum status shape_expect_vector(const struct call *call, int i) {
    const struct type *x = call->in[0].type, *w = call->weight[i].type;
    if (w->shape.n_axes != 1 || !axis_same(&w->shape.axis[0], &x->shape.axis[x->shape.n_axes - 1]))
        return shape_refuse(call, i ? "weight[1] is not a vector along the last axis of in[0]"
                                    : "weight[0] is not a vector along the last axis of in[0]");
    if (w->dtype != x->dtype) return shape_refuse(call, "input and weight have different dtypes");
    return OK;
}
