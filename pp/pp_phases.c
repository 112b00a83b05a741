/* Orders by phases: "F1B1W1" five times, then "B0W0" twice, and so on. */
#include "pp/pp_orders.h"

/* The next microbatch, by kind and chunk. */
struct progress { int next[N_TAPES][2]; };

static bool forwards_left(const struct schedule *s, const struct progress *p) {
    return p->next[ACTION_F][0] < s->n_microbatches || p->next[ACTION_F][1] < s->n_microbatches;
}

static void add_letter(const char *letter, struct progress *p, struct schedule *s) {
    enum action_kind kind = *letter == 'F' ? ACTION_F : *letter == 'B' ? ACTION_B : ACTION_W;
    int chunk = letter[1] - '0', *next = &p->next[kind][chunk];
    int ready = kind == ACTION_F ? s->n_microbatches : p->next[kind - 1][chunk];
    if (*next < ready) pp_add(s, action_of(kind, chunk, (*next)++));
}

void pp_phases(const struct pp_phase *phases, int n_phases, struct schedule *out) {
    struct progress p = {{{0}}};
    for (int k = 0; k < n_phases; k++) {
        const struct pp_phase *phase = &phases[k];
        for (int i = 0; phase->times == UNTIL_FORWARDS_END ? forwards_left(out, &p) : i < phase->times; i++)
            for (const char *letter = phase->letters; *letter; letter += 2) add_letter(letter, &p, out);
    }
}
