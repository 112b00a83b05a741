/* The tables of a program: how they grow, and the fields that are inferred from them. */
#include "lib/program/program.h"

#include "lib/base/grow.h"
#include <stdlib.h>
#include <string.h>

void program_init(struct program *p) {
    *p = (struct program){.data = {-1, -1, -1, -1}, .loss = -1, .features = -1, .scores = -1, .n_chunks = 1,
                          .optimizer = &optimizer_adamw};
}

void program_fini(struct program *p) {
    free(p->slots);
    free(p->params);
    free(p->steps);
    free(p->blocks);
    program_init(p);
}

void program_copy(const struct program *p, const struct mesh_place *place, struct program *out) {
    *out = *p;
    out->place = *place;
    out->slots = table_copy(p->slots, p->n_slots, sizeof *p->slots);
    out->params = table_copy(p->params, p->n_params, sizeof *p->params);
    out->steps = table_copy(p->steps, p->n_steps, sizeof *p->steps);
    out->blocks = table_copy(p->blocks, p->n_blocks, sizeof *p->blocks);
}

/* ---- dropping unused entries ---- */
/* Number the marked entries 0, 1, ...; an entry without a mark gets -1. @return the number of marked entries */
static int number_marked(int *marks, int n) {
    int used = 0;
    for (int i = 0; i < n; i++) marks[i] = marks[i] ? used++ : -1;
    return used;
}

static void renumber(int *x, int n, const int *numbers) {
    for (int i = 0; i < n; i++)
        if (x[i] >= 0) x[i] = numbers[x[i]];
}

static void mark_passed_on(const struct program *p, int *slot) {
    for (const struct block *b = p->blocks; b < p->blocks + p->n_blocks; b++)
        for (int i = 0; i < MAX_STREAMS && b->chunk >= 0; i++)
            if (b->in[i] >= 0 && b->in[i] == b->out[i]) slot[b->in[i]] = 1;
}

void program_drop_unused(struct program *p) {
    int *slot = table_new(p->n_slots, sizeof *slot), *param = table_new(p->n_params, sizeof *param);
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        for (int k = 0; k < s->n_in; k++) slot[s->in[k]] = 1;
        for (int k = 0; k < s->n_out; k++) slot[s->out[k]] = 1;
        for (int k = 0; k < s->n_weight; k++) param[s->weight[k]] = 1;
    }
    mark_passed_on(p, slot);
    int n_slots = number_marked(slot, p->n_slots), n_params = number_marked(param, p->n_params);
    for (int i = 0; i < p->n_slots; i++)
        if (slot[i] >= 0) p->slots[slot[i]] = p->slots[i];
    for (int i = 0; i < p->n_params; i++)
        if (param[i] >= 0) p->params[param[i]] = p->params[i];
    for (struct step *s = p->steps; s < p->steps + p->n_steps; s++)
        renumber(s->in, s->n_in, slot), renumber(s->out, s->n_out, slot), renumber(s->weight, s->n_weight, param);
    for (struct block *b = p->blocks; b < p->blocks + p->n_blocks; b++)
        renumber(b->in, MAX_STREAMS, slot), renumber(b->out, MAX_STREAMS, slot);
    renumber(p->data, N_DATA, slot), renumber(&p->loss, 1, slot);
    renumber(&p->features, 1, slot), renumber(&p->scores, 1, slot);
    p->n_slots = n_slots, p->n_params = n_params;
    free(slot);
    free(param);
}

static void join(char out[NAME_MAX_LEN], const char *block, const char *name) {
    snprintf(out, NAME_MAX_LEN, "%s.%s", block, name);
}

int program_add_slot(struct program *p, const char *block, const char *name) {
    p->slots = table_grow(p->slots, p->n_slots, sizeof *p->slots);
    struct slot *s = &p->slots[p->n_slots];
    *s = (struct slot){0};
    join(s->name, block, name);
    return p->n_slots++;
}

int program_add_param(struct program *p, const char *block, const char *name, struct type type, double init_std,
                      double init_constant, bool decay) {
    p->params = table_grow(p->params, p->n_params, sizeof *p->params);
    struct param *w = &p->params[p->n_params];
    *w = (struct param){.type = type, .init_std = init_std, .init_constant = init_constant, .decay = decay,
                        .optimizer = p->optimizer, .counted = true, .in_norm = true, .n_arrays = N_FIXED_ARRAYS};
    w->grad_type = type;
    w->state_dtype = dtype_accumulator(type.dtype);
    join(w->name, block, name);
    return p->n_params++;
}

int program_add_block(struct program *p, const char *name, int in, bool is_layer) {
    p->blocks = table_grow(p->blocks, p->n_blocks, sizeof *p->blocks);
    struct block *b = &p->blocks[p->n_blocks];
    *b = (struct block){.in = {in, -1}, .out = {-1, -1}, .is_layer = is_layer};
    snprintf(b->name, sizeof b->name, "%s", name);
    return p->n_blocks++;
}

bool block_gives(const struct block *b, int slot) {
    for (int i = 0; i < MAX_STREAMS; i++)
        if (b->out[i] == slot) return true;
    return false;
}

int program_insert(struct program *p, int at, const struct step *step) {
    struct step copy = *step;                           /* `step` may point into the table, which moves when it grows */
    p->steps = table_grow(p->steps, p->n_steps, sizeof *p->steps);
    memmove(p->steps + at + 1, p->steps + at, (size_t)(p->n_steps - at) * sizeof copy);
    p->steps[at] = copy;
    p->n_steps++;
    return at;
}

struct call program_call(const struct program *p, const struct step *s) {
    struct call c = {.step = s, .on = p->device, .n_threads = p->n_threads, .plain_gemm = p->plain_gemm,
                     .fixed_sums = p->fixed_sums,
                     .row_place = s->n_weight ? p->params[s->weight[0]].hot_place : NULL};
    for (int i = 0; i < s->n_in; i++) c.in[i].type = &p->slots[s->in[i]].type;
    for (int i = 0; i < s->n_in; i++) c.din[i].type = &p->slots[s->in[i]].grad_type;
    for (int i = 0; i < s->n_out; i++) c.out[i].type = &p->slots[s->out[i]].type;
    for (int i = 0; i < s->n_out; i++) c.dout[i].type = &p->slots[s->out[i]].grad_type;
    for (int i = 0; i < s->n_weight; i++) c.weight[i].type = &p->params[s->weight[i]].type;
    for (int i = 0; i < s->n_weight; i++) c.dweight[i].type = &p->params[s->weight[i]].grad_type;
    return c;
}

static void params_settle(struct program *p) {
    for (int i = 0; i < p->n_params; i++) {
        struct param *w = &p->params[i];
        w->grad_type.shape = w->type.shape;
        if (w->shard_axis) continue;                            /* a rewrite has sharded it, and has set these fields */
        w->own_first = 0;
        w->own_n = w->present && !p->forward_only ? type_n(&w->type) : 0;
    }
}

void *param_own_weight(const struct param *w) {
    int64_t first = w->weight_residence == RESIDENT_OWN ? 0 : w->own_first;
    return (char *)w->weight + first * (int64_t)dtype_size(w->type.dtype);
}

void *param_own_grad(const struct param *w) {
    int64_t first = w->grad_residence == RESIDENT_OWN ? 0 : w->own_first;
    return (char *)w->grad + first * (int64_t)dtype_size(w->grad_type.dtype);
}

struct optimizer_elements param_elements(const struct param *w) {
    struct optimizer_elements e = {w->own_n, param_own_weight(w), w->type.dtype, param_own_grad(w),
                                   w->grad_type.dtype, {NULL}, param_master(w), w->decay, w->optimizer};
    for (int i = 0; i < OPTIMIZER_STATES; i++) e.state[i] = param_state(w, i);
    return e;
}

struct piece param_own_piece(const struct param *w) {
    struct piece p = {w->type.shape, w->own_first, w->present && w->in_norm ? w->own_n : 0};
    return piece_without_padding(p);
}

enum status program_add_array(struct program *p, int param, const struct param_array *array) {
    struct param *w = &p->params[param];
    int i = N_FIXED_ARRAYS;
    while (i < w->n_arrays && strcmp(w->arrays[i].name, array->name) != 0) i++;
    if (i == MAX_ARRAYS)
        return FAIL(E_INTERNAL, "%s of %s is one array more than MAX_ARRAYS=%d", array->name, w->name, MAX_ARRAYS);
    w->arrays[i] = *array;
    if (i == w->n_arrays) w->n_arrays++;
    return OK;
}

const struct param_array *param_array(const struct param *w, const char *name) {
    for (int i = N_FIXED_ARRAYS; i < w->n_arrays; i++)
        if (!strcmp(w->arrays[i].name, name)) return &w->arrays[i];
    return NULL;
}

static bool is_saved(const struct param *w, const struct param_array *a) {
    return a->copies && a->saved_as && (array_is_state(w, a) ? w->in_norm : w->counted);
}

const struct param_array *param_saved(const struct param *w, int i) {
    for (int others = 0; others < 2; others++)
        for (const struct param_array *a = w->arrays; a < w->arrays + w->n_arrays; a++)
            if (is_saved(w, a) && !!*a->saved_as == others && i-- == 0) return a;
    return NULL;
}

int64_t param_resident_n(const struct param *w, enum residence at) {
    if (at == RESIDENT_NONE) return 0;
    if (at == RESIDENT_OWN) return w->shard_n;               /* same size on every rank, so that all-gathers are even */
    return w->padded_n ? w->padded_n : type_n(&w->type);
}
int64_t param_waiting_n(const struct param *w) {
    return w->grad_residence == RESIDENT_OWN ? w->shard_n : type_n(&w->type);
}

int64_t param_state_n(const struct param *w) {
    if (w->update != UPDATE_DENSE) return 0;
    return w->padded_n ? w->shard_n : w->own_n;
}

int param_records_of_step(const struct param *w) {
    return (int)(w->arrays[ARRAY_GRAD].n / w->record_bytes / (w->delay + 1));
}

char *param_records(const struct param *w, uint64_t n_step) {
    int step = (int)(n_step % (uint64_t)(w->delay + 1));
    return (char *)w->grad + step * param_records_of_step(w) * w->record_bytes;
}

/* ---- the axes over which a gradient is summed; the rank that counts a param or a loss ---- */
static unsigned cuts_seen(const struct program *p, const struct step *s) {
    unsigned cuts = 0;
    for (int i = 0; i < s->n_in; i++) cuts |= shape_cuts(&p->slots[s->in[i]].type.shape);
    for (int i = 0; i < s->n_out; i++) cuts |= shape_cuts(&p->slots[s->out[i]].type.shape);
    return cuts;
}

static void count_uses(struct program *p) {
    for (int i = 0; i < p->n_params; i++) p->params[i].uses = 0;
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_weight; k++) p->params[p->steps[i].weight[k]].uses++;
    for (struct param *w = p->params; w < p->params + p->n_params; w++)
        if (w->uses > w->model_uses) w->model_uses = w->uses; /* keep the count of the whole model, before pp cuts it */
}

static void infer_reduce(struct program *p) {
    for (int i = 0; i < p->n_params; i++) p->params[i].reduce = 1u << p->params[i].shared & ~1u;
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        unsigned seen = cuts_seen(p, s);
        for (int k = 0; k < s->n_weight; k++) {
            struct param *w = &p->params[s->weight[k]];
            w->reduce |= mesh_cuts_beyond(seen, shape_cuts(&w->type.shape));
        }
    }
}

/* If several ranks compute the loss of the same targets, only one of them counts it. */
bool program_counts_loss(const struct program *p) {
    int targets = p->data[DATA_TARGETS];
    return targets >= 0 && mesh_speaks(shape_cuts(&p->slots[targets].type.shape), &p->place);
}

/* Is this the rank that counts the param, if its replica is taken as the only one? */
static bool counts_in_replica(const struct program *p, const struct param *w, unsigned cut) {
    struct mesh_place within = mesh_in_first_replica(&p->place);
    return mesh_speaks(cut, &within) && mesh_is_first(w->shared, &within);
}

static void infer_counted(struct program *p) {
    for (int i = 0; i < p->n_params; i++) {
        struct param *w = &p->params[i];
        unsigned cut = shape_cuts(&w->type.shape) | (1u << w->shard_axis & ~1u);
        w->counted = mesh_speaks(cut, &p->place) && mesh_is_first(w->shared, &p->place);
        w->in_norm = p->n_apart ? counts_in_replica(p, w, cut) : w->counted;
    }
}

static void set_slot_type(struct program *p, const struct step *s, int slot, const struct type *type) {
    p->slots[slot].type = p->slots[slot].grad_type = *type;
    if (dtype_is_fp8(type->dtype)) p->slots[slot].grad_type.dtype = p->slots[s->in[0]].grad_type.dtype;
}

static void note_record(struct program *p, const struct step *s) {
    const struct call c = program_call(p, s);                      /* a new call, with the types of the outputs */
    p->params[s->weight[0]].record_bytes = s->op->record(&c);
}

enum status program_infer(struct program *p) {
    for (int i = 0; i < p->n_params; i++) p->params[i].present = false;
    for (int i = 0; i < p->n_slots; i++) p->slots[i].grad_type = p->slots[i].type;
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        struct call c = program_call(p, s);
        struct type out[MAX_OUT] = {0};
        TRY(s->op->shape(&c, out));
        for (int k = 0; k < s->n_out; k++) set_slot_type(p, s, s->out[k], &out[k]);
        for (int k = 0; k < s->n_weight; k++) p->params[s->weight[k]].present = true;
        if (s->op->record) note_record(p, s);
    }
    params_settle(p);
    count_uses(p);
    infer_reduce(p);
    infer_counted(p);
    return OK;
}

int64_t program_n_params(const struct program *p) {
    int64_t n = 0;
    for (int i = 0; i < p->n_params; i++)
        if (p->params[i].update != UPDATE_STATE) n += shape_global_n(&p->params[i].type.shape);
    return n;
}

/* ---- as text ---- */
static void print_operands(const struct program *p, const struct step *s, FILE *f) {
    char text[256] = "";
    size_t n = 0;
    for (int i = 0; i < s->n_in; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? ", " : "", p->slots[s->in[i]].name);
    for (int i = 0; i < s->n_weight; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %s%s", i ? "" : "| ", p->params[s->weight[i]].name);
    fprintf(f, " %-46s", text);
}

static void print_step(const struct program *p, int i, FILE *f) {
    const struct step *s = &p->steps[i];
    char shape[128];
    const struct slot *out = &p->slots[s->out[0]];
    shape_print(&out->type.shape, shape, sizeof shape);
    fprintf(f, "%4d  %-24s", i, s->op->name);
    print_operands(p, s, f);
    fprintf(f, " -> %-16s %s %s", out->name, dtype_name(out->type.dtype), shape);
    const struct dropout_rule *dropout = step_dropout(&p->steps[i]);
    if (dropout && dropout->p > 0) fprintf(f, " dropout %g", dropout->p);
    if (out->replay) fprintf(f, " replay");
    if (out->park) fprintf(f, " park");
    fputc('\n', f);
}

void program_print(const struct program *p, FILE *f) {
    for (int i = 0, block = -1; i < p->n_steps; i++) {
        if (p->steps[i].block != block) {
            block = p->steps[i].block;
            fprintf(f, "%s%s\n", p->blocks[block].name, p->n_chunks > 1 ? " (chunked)" : "");
        }
        print_step(p, i, f);
    }
}
