/* The types that shapes declare. A shard is known by its size and place, except for two tags: B, whose samples come as
 * microbatches, and R, the rows of experts, which each rank counts on its own. */
#include "lib/types/types_rules.h"

#include "lib/base/integer.h"

static bool has_size(char tag) { return tag != 'B' && tag != 'R'; }
/* Only the vocabulary may be padded. */
static bool may_pad(char tag) { return tag == 'V'; }

/* The factors of a cut; false: an axis of the cut is no product of factors. */
static bool factors_of_cut(const struct factors *f, unsigned cut, unsigned *out) {
    bool exact = true;
    *out = 0;
    for (int a = AXIS_SELF + 1; a < N_MESH_AXES; a++)
        if (cut >> a & 1) *out |= f->over[a], exact &= f->exact[a];
    return exact;
}

/* ---- the position of a shard ---- */
struct position { int64_t n, index; };   /* index: this rank's of n, counting the innermost factor first */
static struct position position_of(const struct factors *f, unsigned set) {
    struct position p = {1, 0};
    for (int i = 0; i < f->n; i++)
        if (set >> i & 1) p.index += p.n * f->at[i].index, p.n *= f->at[i].size;
    return p;
}

static unsigned innermost(unsigned set, int n) {
    unsigned in = 0;
    for (int i = 0; n > 0; i++)
        if (set >> i & 1) in |= 1u << i, n--;
    return in;
}

/* The global position of element j of rank `outer`. The rank has two of 2 n pieces: piece outer.index from the start,
 * and piece outer.index from the end. This function does not call axis_zigzag, because it checks axis_zigzag. */
static int64_t zigzag_place(struct position outer, int64_t piece, int64_t j) {
    int64_t number = j < piece ? outer.index : 2 * outer.n - 1 - outer.index;
    return number * piece + j % piece;
}
/* The axis and the zigzag both have two runs, so they are equal if the ends of the runs are equal. */
static bool is_zigzag(const struct axis *a, struct position outer, struct position inner) {
    if (a->global % (2 * outer.n) || a->n * outer.n * inner.n != a->global) return false;
    int64_t piece = a->global / (2 * outer.n), from = a->n * inner.index, turn = piece - from;
    const int64_t ends[] = {0, a->n - 1, a->turn - 1, a->turn, turn - 1, turn};
    bool same = true;
    for (int i = 0; i < (int)(sizeof ends / sizeof *ends); i++)
        if (ends[i] >= 0 && ends[i] < a->n)
            same &= axis_global(a, ends[i]) == zigzag_place(outer, piece, from + ends[i]);
    return same;
}

/* Is this rank's shard one run, in the order of the ranks? Or two pieces of a zigzag over the outer factors, divided
 * over the inner factors? */
static bool lies_here(const struct factors *f, const struct axis *a, unsigned set) {
    struct position all = position_of(f, set);
    if (a->jump == 0 && a->first == a->n * all.index) return true;
    int n = __builtin_popcount(set);
    bool found = false;
    for (int k = 0; k < n && !found; k++) {
        unsigned inner = innermost(set, k);
        found = is_zigzag(a, position_of(f, set & ~inner), position_of(f, inner));
    }
    return found;
}

/* Take factors of the axis's cut, innermost first, until their product explains the axis's size. */
static unsigned take_factors(const struct factors *f, const struct axis *a, unsigned cut) {
    int64_t n = a->n;
    unsigned set = 0;
    for (int i = 0; i < f->n && n < a->global; i++)
        if (cut >> i & 1) set |= 1u << i, n *= f->at[i].size;
    return n < a->global || (n > a->global && !may_pad(a->tag)) ? 0 : set;
}

static void set_spread(struct typed *t, unsigned set, struct spread x) {
    for (int i = 0; i < MAX_FACTORS; i++)
        if (set >> i & 1) t->at[i] = x;
}

static enum status declare(const struct program *p, const struct factors *f, const struct axis *a, const char *name,
                           const char *rewrite, unsigned free, struct typed *t) {
    unsigned cut;
    bool exact = factors_of_cut(f, a->cut, &cut);
    if (!exact) {
        set_spread(t, cut, (struct spread){VARYING, 0});
        return OK;
    }
    unsigned set = has_size(a->tag) ? take_factors(f, a, cut) : cut & free;
    if (p->forward_only && a->tag == 'T') return OK;                 /* generation takes tokens one after another */
    if (has_size(a->tag) && a->n < a->global && !set)
        return FAIL(E_INTERNAL, "types after %s: %s has %lld of the %lld of axis %c, which is no shard over the ranks "
                                "that its cut names", rewrite, name, (long long)a->n, (long long)a->global, a->tag);
    if (has_size(a->tag) && a->n < a->global && !lies_here(f, a, set))
        return FAIL(E_INTERNAL, "types after %s: %s has another shard of axis %c (from %lld) than this rank's place in "
                                "the mesh", rewrite, name, a->tag, (long long)a->first);
    set_spread(t, set, (struct spread){SHARDED, a->tag});
    return OK;
}

enum status types_declared(const struct program *p, const struct factors *f, const struct shape *s, const char *name,
                           const char *rewrite, struct typed *out) {
    *out = (struct typed){0};
    set_spread(out, ~0u, (struct spread){REPLICATED, 0});
    for (int pass = 0; pass < 2; pass++) {                      /* axes without a size take the factors that are left */
        unsigned free = 0;
        for (int i = 0; i < f->n; i++) free |= (unsigned)(out->at[i].kind == REPLICATED) << i;
        for (int k = 0; k < s->n_axes; k++)
            if (has_size(s->axis[k].tag) == (pass == 0)) TRY(declare(p, f, &s->axis[k], name, rewrite, free, out));
    }
    return OK;
}

/* ---- a type and a shape ---- */
static const char *over_text(const struct factors *f, unsigned set, char *text, size_t size) {
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < f->n && n < size; i++)
        if (set >> i & 1) n += (size_t)snprintf(text + n, size - n, "%s%s", n ? " and " : "", f->at[i].name);
    return n ? text : "nothing";
}

static unsigned sharded_along(const struct factors *f, const struct typed *t, char tag) {
    unsigned set = 0;
    for (int i = 0; i < f->n; i++) set |= (unsigned)(t->at[i].kind == SHARDED && t->at[i].tag == tag) << i;
    return set;
}

static enum status axis_agrees(const struct factors *f, const struct axis *a, const char *name, const char *rewrite,
                               const struct typed *t) {
    unsigned set = sharded_along(f, t, a->tag);
    int64_t n = a->n * position_of(f, set).n;
    char text[64];
    if (n == a->global || (n > a->global && may_pad(a->tag))) return OK;
    return FAIL(E_INTERNAL, "types after %s: %s is S(%c) over %s by the rules, and its shape has %lld of %lld", rewrite,
                name, a->tag, over_text(f, set, text, sizeof text), (long long)a->n, (long long)a->global);
}

enum status types_agree(const struct program *p, const struct factors *f, const struct shape *s, const char *name,
                        const char *rewrite, const struct typed *t) {
    unsigned cut, sharded = 0, varying = 0;
    char by_rules[64], by_shape[64];
    for (int i = 0; i < f->n && i < MAX_FACTORS; i++) {
        sharded |= (unsigned)(t->at[i].kind == SHARDED || t->at[i].kind == VARYING) << i;
        varying |= (unsigned)(t->at[i].kind == VARYING) << i;
    }
    for (int k = 0; k < s->n_axes && !varying && !p->forward_only; k++)
        if (has_size(s->axis[k].tag)) TRY(axis_agrees(f, &s->axis[k], name, rewrite, t));
    if (!factors_of_cut(f, shape_cuts(s), &cut) || cut == sharded) return OK;
    return FAIL(E_INTERNAL, "types after %s: %s differs over %s by the rules, and over %s by its shape", rewrite, name,
                over_text(f, sharded, by_rules, sizeof by_rules), over_text(f, cut, by_shape, sizeof by_shape));
}
