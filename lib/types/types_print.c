/* Types as a table: a column for each factor of the mesh. */
#include "lib/types/types.h"

#include "lib/base/grow.h"
#include <stdlib.h>

static void print_type(const struct factors *f, const struct typed *t, FILE *out) {
    for (int i = 0; i < f->n; i++) fprintf(out, " %-5s", spread_text(t->at[i]));
}

static void print_head(const struct factors *f, const char *what, const char *then, FILE *out) {
    fprintf(out, "%-28s", what);
    for (int i = 0; i < f->n; i++) fprintf(out, " %-5s", f->at[i].name);
    fprintf(out, "   gradient:");
    for (int i = 0; i < f->n; i++) fprintf(out, " %-5s", f->at[i].name);
    fprintf(out, "%s\n", then);
}

static void print_line(const struct factors *f, const char *name, const struct typed *x, const struct typed *dx,
                       FILE *out) {
    fprintf(out, "%-28s", name);
    print_type(f, x, out);
    fprintf(out, "            ");
    print_type(f, dx, out);
}

static void print_slot(const struct program *p, const struct types *t, int slot, bool *printed, FILE *f) {
    if (printed[slot]) return;
    printed[slot] = true;
    print_line(&t->factors, p->slots[slot].name, &t->slot[slot], &t->slot_grad[slot], f);
    fputc('\n', f);
}

static void print_param(const struct program *p, const struct types *t, int i, FILE *f) {
    const struct param *w = &p->params[i];
    print_line(&t->factors, w->name, &t->param[i], &t->param_grad[i], f);
    fprintf(f, "  ");
    for (enum mesh_axis a = AXIS_SELF + 1; a < AXIS_MESH; a++)
        if (w->reduce >> a & 1 && mesh_size(a, &p->place) > 1) fprintf(f, " %s", mesh_axis_name(a));
    fputc('\n', f);
}

void types_print(const struct program *p, const struct types *t, FILE *f) {
    bool *printed = table_new(p->n_slots, sizeof *printed);
    print_head(&t->factors, "slot", "", f);
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        for (int k = 0; k < s->n_in; k++) print_slot(p, t, s->in[k], printed, f);
        for (int k = 0; k < s->n_out; k++) print_slot(p, t, s->out[k], printed, f);
    }
    fputc('\n', f);
    print_head(&t->factors, "param", "   summed over", f);
    for (int i = 0; i < p->n_params; i++)
        if (p->params[i].present) print_param(p, t, i, f);
    free(printed);
}
