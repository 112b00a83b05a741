#include "oracle/reference.h"

#include "lib/base/json_file.h"
#include "lib/base/log.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/checkpoint/checkpoint_model.h"
#include "lib/checkpoint/checkpoint_tensor.h"
#include "lib/comm/comm.h"
#include "oracle/verdict.h"
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a run, step by step ---- */
typedef enum status step_visit(void *self, int64_t step, struct recorder *);

static enum status train(const struct record_request *q, struct run *run, struct recorder *r, step_visit *visit,
                         void *self) {
    run_set_data(run, q->train, q->train);
    for (int64_t step = 1; step <= q->plan->steps; step++) {
        recorder_begin(r);
        TRY(run_step(run));
        enum status status = recorder_end(r);
        if (status == OK) status = visit(self, step, r);
        TRY(fail_agree(group_world(), status));                      /* a full disk fails only one rank */
    }
    return OK;
}

static enum status each_step(const struct record_request *q, const struct plan *plan, struct shaking shaking,
                             step_visit *visit, void *self) {
    struct run run = {0};
    struct recorder r = {.run = NULL};
    TRY(run_create(&run, q->recipe, plan, WATCH_NOTHING));
    enum status status = recorder_attach(&r, &run, q->depth, shaking);
    if (status == OK) status = train(q, &run, &r, visit, self);
    recorder_detach(&r);
    if (status != E_TIMEOUT && status != E_COMM) run_destroy(&run);  /* other ranks may not come */
    return status;
}

/* ---- a recording ---- */
static enum dtype recorded_dtype(const struct plan *p) {
    return p->precision == PRECISION_FP64 ? FP64 : plan_product_dtype(p);
}

static enum status write_step(void *self, int64_t step, struct recorder *r) {
    const struct record_request *q = self;
    if (r->run->skipped)
        return FAIL(E_NUMERIC, "step %" PRId64 " was skipped: gradients overflow in fp16; give a smaller --loss-scale",
                    step);
    TRY(recording_write(q->folder, step, comm_world_rank(), &r->kept, recorded_dtype(q->plan)));
    return call_log_write(&r->calls, q->folder);
}

static json_t *layout_json(const struct plan *p) {
    char text[128];
    return json_pack("{s:I,s:s}", "ranks", (json_int_t)plan_ranks(p), "text",
                     mesh_sizes_text(&p->mesh, text, sizeof text));
}

static enum status write_head(const struct record_request *q, json_t *head) {
    json_object_set_new(head, "by", json_string("trivium"));
    json_object_set_new(head, "layout", layout_json(q->plan));
    return recording_write_head(q->folder, head, recorded_dtype(q->plan), q->plan->steps);
}

enum status record_run(const struct record_request *q) {
    TRY(each_step(q, q->plan, (struct shaking){0}, write_step, (void *)q));
    json_t *head = json_object();
    enum status status = comm_is_rank_0() ? write_head(q, head) : OK;
    json_decref(head);
    return fail_agree(group_world(), status);
}

/* ---- a reference's other files ---- */
static const struct model_format *hf_format(const struct plan *p) {
    const struct model_format *f = p->arch->formats;
    while (f && f->name && strcmp(f->name, "hf")) f++;
    return f && f->name ? f : NULL;
}

static enum status export_model(const struct record_request *q, const struct run *run) {
    char saved[RECORDING_PATH_MAX], model[RECORDING_PATH_MAX];
    struct checkpoint_reader *reader;
    const struct model_format *f = hf_format(q->plan);
    snprintf(saved, sizeof saved, "%s/start", q->folder);
    snprintf(model, sizeof model, "%s/model", q->folder);
    TRY(checkpoint_save((struct run *)run, saved, 0));
    if (mkdir(model, 0777) != 0) return FAIL(E_IO, "cannot make %s: %s", model, strerror(errno));
    strcat(model, "/model.safetensors");
    TRY(checkpoint_open(saved, &reader));
    enum status status = f->export(reader, N_DTYPES, model);
    checkpoint_close(&reader);
    return status;
}

static enum status write_start(const struct record_request *q) {
    struct run run = {0};
    TRY(run_create(&run, q->recipe, q->plan, WATCH_NOTHING));
    enum status status = export_model(q, &run);
    run_destroy(&run);
    return status;
}

static json_t *row_json(const int32_t *x, int64_t n) {
    json_t *row = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(row, json_integer(x[i]));
    return row;
}

static enum status add_batch(const struct record_request *q, int64_t step, int32_t *room, json_t *tokens,
                             json_t *targets) {
    const struct plan *p = q->plan;
    for (int64_t b = 0; b < p->global_batch; b++) {
        int64_t sample = data_shuffled(q->train, (uint64_t)p->seed, step * p->global_batch + b);
        TRY(data_sample(q->train, sample, p->vocab, room, room + p->seq));
        json_array_append_new(tokens, row_json(room, p->seq));
        json_array_append_new(targets, row_json(room + p->seq, p->seq));
    }
    return OK;
}

/* A mistake in how a row of the embedding is read shows only if a token reads it. */
static void say_rows(const json_t *tokens, int64_t vocab) {
    bool *read = calloc((size_t)vocab, sizeof *read);
    int64_t n = 0;
    size_t i, j, k;
    json_t *step, *sample, *token;
    json_array_foreach(tokens, i, step) json_array_foreach(step, j, sample) json_array_foreach(sample, k, token)
        if (read && !read[json_integer_value(token)]) read[json_integer_value(token)] = true, n++;
    if (n < vocab) log_info("the samples have %" PRId64 " of the vocabulary's %" PRId64 " tokens: check does not see "
                            "how rows of the others are read; more --steps or a smaller --vocab leave fewer", n, vocab);
    free(read);
}

static enum status write_tokens(const struct record_request *q) {
    char path[RECORDING_PATH_MAX];
    json_t *tokens = json_array(), *targets = json_array();
    int32_t *room = calloc(2 * (size_t)q->plan->seq, sizeof *room);
    enum status status = room ? OK : FAIL(E_MEMORY, "no memory for a sample");
    for (int64_t step = 0; step < q->plan->steps && status == OK; step++) {
        json_t *t = json_array(), *u = json_array();
        json_array_append_new(tokens, t), json_array_append_new(targets, u);
        status = add_batch(q, step, room, t, u);
    }
    free(room);
    say_rows(tokens, q->plan->vocab);
    json_t *both = json_pack("{s:o,s:o}", "tokens", tokens, "targets", targets);
    snprintf(path, sizeof path, "%s/tokens.json", q->folder);
    if (status == OK && json_dump_file(both, path, JSON_COMPACT) != 0)
        status = FAIL(E_IO, "cannot write %s: %s", path, strerror(errno));
    json_decref(both);
    return status;
}

static json_t *optimizer_json(const struct plan *p) {
    json_t *lr = json_array();
    for (int64_t n = 0; n < p->steps; n++) json_array_append_new(lr, json_real(plan_lr(p, n)));
    return json_pack("{s:s,s:o,s:[f,f],s:f,s:f,s:s,s:f}", "name", "adamw", "lr", lr, "betas", p->beta1, p->beta2, "eps",
                     p->eps, "weight_decay", p->weight_decay, "decays", "matrices", "clip", p->clip);
}

static enum status write_reference_head(const struct record_request *q) {
    struct checkpoint_model model = checkpoint_model_of_plan(q->plan);
    json_t *head = json_object(), *order = NULL;
    enum status status = record_order(q->plan, q->depth, &order);
    json_object_set_new(head, "order", order);
    json_object_set_new(head, "model", checkpoint_model_json(&model));
    json_object_set_new(head, "global_batch", json_integer(q->plan->global_batch));
    json_object_set_new(head, "optimizer", optimizer_json(q->plan));
    json_object_set_new(head, "fp16_loss_scale", json_real(q->fp16_loss_scale));
    if (status == OK) status = write_head(q, head);
    json_decref(head);
    return status;
}

/* ---- scales ---- */
void scale_path(const char *folder, enum dtype dtype, char out[RECORDING_PATH_MAX]) {
    snprintf(out, RECORDING_PATH_MAX, "%s/scale-%s.json", folder, dtype_name(dtype));
}

/* The least scales, because results are stored with a rounding: of_numbers for numbers, stored for tensors. overflow:
 * the first skipped step, from 1. */
struct scaling { const struct recording *reference; json_t *steps; double of_numbers, stored; int64_t overflow; };

static enum status widen(const struct scaling *s, json_t *of_step, struct kept *reference, struct kept *run,
                         const char *name) {
    struct whole x, y;
    enum status status = kept_whole(run, name, &x);
    if (status == OK) status = kept_whole(reference, name, &y);
    else y.x = NULL;
    if (status == OK) {
        double least = x.n == 1 ? s->of_numbers : s->stored, now = whole_difference(x.x, y.x, NULL, x.n, NULL);
        double before = fmax(least, json_real_value(json_object_get(of_step, name)));
        json_object_set_new(of_step, name, json_real(fmax(now, before)));
    }
    whole_fini(&x);
    whole_fini(&y);
    return status;
}

static enum status compare_step(void *self, int64_t step, struct recorder *r) {
    struct scaling *s = self;
    struct kept *run = &r->kept;
    if (r->run->skipped && !s->overflow) s->overflow = step;
    if (s->overflow) return OK;
    struct kept reference = {0};
    json_t *of_step = json_array_get(s->steps, (size_t)step - 1);
    enum status status = recording_read(s->reference, step, &reference);
    const char *last = "";
    int first;
    kept_find(run, "", &first);                                      /* sorted: pieces of a name lie together */
    for (int i = 0; i < run->n && status == OK; i++) {
        const char *name = run->piece[i].name;
        if (strcmp(name, last)) status = widen(s, of_step, &reference, run, name);
        last = name;
    }
    kept_fini(&reference);
    return status;
}

/* The largest of eight draws is reliable for a tensor of many elements. A single number may be near the reference's in
 * all eight by luck, so its scale is the largest up to its step. */
static void pool_numbers(const struct scaling *s) {
    static const char *const NUMBER[] = {"loss", "grad_norm", "clip_factor"};
    for (size_t step = 1; step < json_array_size(s->steps); step++)
        for (size_t i = 0; i < sizeof NUMBER / sizeof *NUMBER; i++) {
            json_t *now = json_array_get(s->steps, step), *before = json_array_get(s->steps, step - 1);
            double most = fmax(json_real_value(json_object_get(now, NUMBER[i])),
                               json_real_value(json_object_get(before, NUMBER[i])));
            json_object_set_new(now, NUMBER[i], json_real(most));
        }
}

/* Trivium sums in fp64 in every precision. Another program may sum as many terms as there are weights in its precision;
 * in pairs that loses up to a rounding per level. Source: Higham 2002 (Accuracy and Stability), section 4.2. */
static double rounding_of_sums(const struct plan *p, double rounding) {
    return rounding * log2((double)p->arch->n_params(p));
}

/* Half a unit in the last place of 1. */
static double rounding_of(enum dtype d) {
    static const double ROUNDING[] = {
        [FP64] = DBL_EPSILON / 2, [FP32] = FLT_EPSILON / 2, [BF16] = 0x1p-8, [FP16] = 0x1p-11};
    return ROUNDING[d];
}

static enum status shaken_run(const struct record_request *q, int64_t number, enum plan_precision precision,
                              enum dtype dtype, struct scaling *s) {
    struct plan plan = precision == PRECISION_FP16 ? *q->fp16 : *q->plan;
    plan.precision = precision;
    plan.micro_batch = 1;
    while (plan.micro_batch << 1 <= (int64_t)1 << number % 4 && plan.global_batch % (plan.micro_batch << 1) == 0)
        plan.micro_batch <<= 1;
    TRY(plan_settle(&plan, 1));
    return each_step(q, &plan, (struct shaking){rounding_of(dtype), (uint64_t)number + 1}, compare_step, s);
}

static enum status write_scale(const struct record_request *q, const struct recording *r, enum plan_precision precision,
                               enum dtype dtype) {
    char path[RECORDING_PATH_MAX];
    double stored = fmin(rounding_of(dtype), rounding_of(FP32));
    struct scaling s = {r, json_array(), rounding_of_sums(q->plan, stored), stored, 0};
    enum status status = OK;
    for (int64_t i = 0; i < q->plan->steps; i++) json_array_append_new(s.steps, json_object());
    for (int number = 0; number < SHAKEN_RUNS && status == OK && !s.overflow; number++)
        status = shaken_run(q, number, precision, dtype, &s);
    if (s.overflow)
        log_warn("%s has no scales of fp16: gradients overflow at step %" PRId64 " with a loss scale of %g", q->folder,
                 s.overflow, q->fp16_loss_scale);
    pool_numbers(&s);
    scale_path(q->folder, dtype, path);
    json_t *root = json_pack("{s:i,s:f,s:o}", "runs", SHAKEN_RUNS, "rounding", rounding_of(dtype), "steps", s.steps);
    size_t how = JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(4);
    if (status == OK && !s.overflow && json_dump_file(root, path, how) != 0)
        status = FAIL(E_IO, "cannot write %s: %s", path, strerror(errno));
    json_decref(root);
    return status;
}

static enum status write_scales(const struct record_request *q) {
    static const struct { enum plan_precision precision; enum dtype dtype; } ALL[] = {
        {PRECISION_FP64, FP64}, {PRECISION_FP32, FP32}, {PRECISION_BF16, BF16}, {PRECISION_FP16, FP16}};
    struct recording r;
    enum status status = recording_open(q->folder, &r);
    for (int i = 0; i < 4 && status == OK; i++) status = write_scale(q, &r, ALL[i].precision, ALL[i].dtype);
    recording_close(&r);
    return status;
}

enum status scale_read(const char *folder, enum dtype dtype, json_t **out) {
    char path[RECORDING_PATH_MAX];
    *out = NULL;
    scale_path(folder, dtype, path);
    if (access(path, R_OK) != 0)
        return FAIL(E_DATA, "%s: %s; is it a reference, with this precision?", path, strerror(errno));
    TRY(json_file_read(path, RECORDING_JSON_MAX, 0, out));
    return json_is_array(json_object_get(*out, "steps")) ? OK : FAIL(E_FORMAT, "%s has no list of steps", path);
}

double scale_of(const json_t *scale, int64_t step, const char *name) {
    const json_t *of_step = json_array_get(json_object_get(scale, "steps"), (size_t)step - 1);
    const json_t *x = json_object_get(of_step, name);
    return json_is_number(x) ? json_number_value(x) : NAN;
}

/* ---- all of it ---- */
enum status record_check(const struct plan *p, bool reference) {
    struct checkpoint_model model = checkpoint_model_of_plan(p);
    const struct model_format *f = hf_format(p);
    if (!f) return FAIL(E_CONFIG, "arch=%s has no file of Hugging Face's to start others from", p->arch->name);
    if (reference && p->arch->sample)
        return FAIL(E_CONFIG,
                    "arch=%s makes tokens and targets of its own of a text, which a reference does not tell others; "
                    "use gpt, llama, mixtral or moe",
                    p->arch->name);
    if (reference && plan_says(p, "fp8"))
        return FAIL(E_CONFIG,
                    "fp8=on rounds products to 8 bits, and a reference, of one rank in precision=fp64, has no such "
                    "roundings; leave fp8 out, or use precision bf16 for a recording");
    if (reference && f->check) TRY(f->check(&model));
    return record_check_names(p);
}

enum status record_reference(const struct record_request *q) {
    const struct plan *p = q->plan;
    if (plan_ranks(p) != 1 || p->precision != PRECISION_FP64 || model_options(p)->dropout > 0)
        return FAIL(E_CONFIG,
                    "a reference is of one rank, in fp64, without dropout; others cannot draw the same masks");
    TRY(write_start(q));
    TRY(write_tokens(q));
    TRY(write_reference_head(q));
    TRY(each_step(q, p, (struct shaking){0}, write_step, (void *)q));
    return write_scales(q);
}
