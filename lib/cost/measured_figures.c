/* The list of replaced figures, and words of a line. */
#include "lib/cost/measured.h"

#include <string.h>

int measured_words(char *text, char **word, int most) {
    int n = 0;
    char *rest;
    for (char *w = strtok_r(text, " \t\r\n,;", &rest); w && n < most; w = strtok_r(NULL, " \t\r\n,;", &rest))
        word[n++] = w;
    return n;
}

/* ---- figures ---- */
void measured_add(struct measured *m, const char *what, const char *unit, const char *name, double is, double was) {
    if (m->n == MAX_FIGURES) return;
    struct figure *f = &m->figure[m->n++];
    *f = (struct figure){.is = is, .was = was};
    snprintf(f->what, sizeof f->what, "%s", what);
    snprintf(f->unit, sizeof f->unit, "%s", unit);
    snprintf(f->from, sizeof f->from, "%.255s", name);
}

void measured_print(const struct measured *m, FILE *to) {
    for (int i = 0; i < m->n; i++) {
        const struct figure *f = &m->figure[i];
        fprintf(to, "%s %.4g%s%s, measured: %s (was %.4g, %s)\n", f->what, f->is, *f->unit ? " " : "", f->unit, f->from,
                f->was, m->cluster);
    }
}

json_t *measured_json(const struct measured *m) {
    json_t *all = json_array();
    for (int i = 0; i < m->n; i++) {
        const struct figure *f = &m->figure[i];
        json_array_append_new(all, json_pack("{s:s, s:f, s:s, s:s, s:f, s:s}", "figure", f->what, "value", f->is,
                                             "unit", f->unit, "file", f->from, "was", f->was, "cluster", m->cluster));
    }
    return all;
}
