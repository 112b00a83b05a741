#include "lib/checkpoint/checkpoint_piece.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void checkpoint_param_name(const struct param *w, int replica, char name[CHECKPOINT_NAME_MAX]) {
    int n = snprintf(name, CHECKPOINT_NAME_MAX, "%s", w->name);
    if (replica > 0) snprintf(name + n, CHECKPOINT_NAME_MAX - (size_t)n, "@%d", replica);
}

json_t *checkpoint_piece_json(const struct piece *p) {
    json_t *box = json_array();
    for (int i = 0; i < p->box.n_axes; i++) {
        const struct axis *a = &p->box.axis[i];
        json_array_append_new(box,
                              json_pack("[I, I, I]", (json_int_t)a->first, (json_int_t)a->n, (json_int_t)a->global));
    }
    return json_pack("{s:o, s:[I, I]}", "box", box, "run", (json_int_t)p->first, (json_int_t)p->n);
}

static bool number(const json_t *list, size_t i, int64_t *out) {
    const json_t *x = json_array_get(list, i);
    *out = json_is_integer(x) ? (int64_t)json_integer_value(x) : -1;
    return *out >= 0;
}

enum status checkpoint_piece_parse(const json_t *row, const char *where, struct piece *out) {
    const json_t *box = json_object_get(row, "box"), *run = json_object_get(row, "run");
    int64_t n = 1;
    memset(out, 0, sizeof *out);
    bool ok = json_is_array(box) && json_array_size(box) <= MAX_AXES && json_array_size(run) == 2;
    for (size_t i = 0; ok && i < json_array_size(box); i++) {
        struct axis *a = &out->box.axis[out->box.n_axes++];
        const json_t *axis = json_array_get(box, i);
        *a = (struct axis){.tag = (char)('a' + i)};
        ok = json_array_size(axis) == 3 && number(axis, 0, &a->first) && number(axis, 1, &a->n) &&
             number(axis, 2, &a->global) && a->n <= a->global && a->first <= a->global - a->n &&
             !__builtin_mul_overflow(n, a->n, &n);
    }
    ok = ok && number(run, 0, &out->first) && number(run, 1, &out->n) && out->first <= n && out->n <= n - out->first;
    return ok ? OK : FAIL(E_FORMAT, "%s: its metadata do not say which part of the tensor it has", where);
}

/* The number of elements follows from the shape. It must be the piece's, or reading would go beyond the tensor. */
enum status checkpoint_piece_check(const struct piece *p, const struct safetensors_entry *e, const char *where,
                                   const char *name) {
    int64_t bytes;
    if (!e) return FAIL(E_FORMAT, "%s says that it has %s, and does not", where, name);
    if (e->dtype > FP16)
        return FAIL(E_FORMAT, "%s: %s is of dtype %s; weights and moments are F64, F32, BF16 or F16", where, name,
                    e->dtype_name);
    if (__builtin_mul_overflow(p->n, (int64_t)dtype_size(e->dtype), &bytes) || e->end - e->begin != bytes)
        return FAIL(E_FORMAT, "%s: %s has %" PRId64 " bytes, and its part of the tensor %" PRId64 " elements", where,
                    name, e->end - e->begin, p->n);
    return OK;
}

enum status checkpoint_piece_find(const json_t *row, const struct safetensors *file, const char *where,
                                  const char *name, const struct piece *wanted, struct piece *out,
                                  const struct safetensors_entry **entry) {
    TRY(checkpoint_piece_parse(row, where, out));
    *entry = safetensors_find(file, name);
    TRY(checkpoint_piece_check(out, *entry, where, name));
    for (int i = 0; i < wanted->box.n_axes; i++)
        if (out->box.n_axes != wanted->box.n_axes || out->box.axis[i].global != wanted->box.axis[i].global)
            return FAIL(E_FORMAT, "%s: %s is part of a tensor of another shape", where, name);
    return OK;
}
