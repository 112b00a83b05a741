/* Two ranks hold the same elements with different values. */
#include "oracle/suspect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The sum of this tensor and another one of the run is the reference's: a tied weight has become two weights. */
bool suspect_untied(const struct evidence *e, char detail[160]) {
    for (int i = 0; i < e->run->n; i++) {
        const struct kept_piece *p = &e->run->piece[i];
        const double *other = e->run->values + p->at;
        int first;
        bool fits = box_n(&p->box) == e->x.n && e->x.n > 1 && kept_find(e->reference, p->name, &first) == 0;
        for (int64_t j = 0; fits && j < e->x.n; j++) fits = fabs(e->x.x[j] + other[j] - e->y.x[j]) <= e->limit;
        if (!fits) continue;
        snprintf(detail, 160, "with %.100s, which the reference has not, it is right", p->name);
        return true;
    }
    return false;
}

static bool is_right(const struct evidence *e, const struct kept_piece *p) {
    for (int64_t i = 0; i < box_n(&p->box); i++)
        if (!(fabs(e->run->values[p->at + i] - e->y.x[box_place(&p->box, i)]) <= e->limit)) return false;
    return true;
}

bool suspect_one_rank(const struct evidence *e, char detail[160]) {
    int first, n = kept_find(e->run, e->c.name, &first), right = 0, wrong = 0, which = 0;
    char *has = calloc((size_t)e->ranks + 1, 1);    /* of each rank: nothing, 1 right pieces, 2 a wrong one */
    for (int i = first; has && e->c.verdict == TENSOR_APART && i < first + n; i++) {
        const struct kept_piece *p = &e->run->piece[i];
        if (p->rank < e->ranks && has[p->rank] < 2) has[p->rank] = p->parts == 1 && is_right(e, p) ? 1 : 2;
    }
    for (int r = 0; has && r < e->ranks; r++) {
        right += has[r] == 1;
        if (has[r] == 2) wrong++, which = r;
    }
    free(has);
    if (!right || !wrong) return false;
    snprintf(detail, 160, "%d of %d ranks have it right; rank %d, for one, has not", right, right + wrong, which);
    return true;
}
