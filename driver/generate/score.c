/* trivium score: the probability of a click for every sample of a file, in one process.
 *
 * A serving machine may have no room for the tables, so score loads the dense part of the model only. The rows of a
 * batch's ids are read from the checkpoint's files, which hold tables cut by table or by row (lib/device/piece.h). The
 * program is the model with small tables: one row for each place of a batch. Ids are replaced by their places. */
#include "driver/commands.h"

#include "driver/recipe.h"
#include "driver/setup.h"
#include "lib/base/clock.h"
#include "lib/base/output.h"
#include "lib/base/replace.h"
#include "lib/checkpoint/checkpoint_tensor.h"
#include "lib/data/clicks.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* run comes first, because the executor passes the run's address to its hooks. */
struct scoring {
    struct run run;
    struct exec_hooks hooks;             /* the run's own */
    struct checkpoint_reader *reader;
    int64_t rows;                        /* of a table in the checkpoint */
    int64_t n_looked_up;
    FILE *out;                           /* NULL: no --out */
};

/* setup comes first, because the options' offsets count from its plan. */
struct request { struct setup setup; char checkpoint[OPTION_TEXT_MAX], out[OPTION_TEXT_MAX]; };
static const struct option OPTIONS[] = {
    {"checkpoint", OPTION_TEXT, "", 0, 0, NULL, "",
     "whose weights: a step's folder, or what train's --save named; saved in any layout", "score",
     offsetof(struct request, checkpoint)},
    {"out", OPTION_TEXT, "", 0, 0, NULL, "", "a file for the probabilities, one a line; empty: none", "score",
     offsetof(struct request, out)},
};

/* ---- the executor's hooks ---- */
/* Read row `id` of feature f's table into row `place` of the small table. */
static enum status look_up(struct scoring *s, const struct param *w, int64_t f, int64_t id, int64_t place) {
    int64_t D = w->type.shape.axis[2].n;
    struct piece row = {.box = w->type.shape, .first = (f * s->rows + id) * D, .n = D};
    row.box.axis[1] = axis_whole('V', s->rows);
    char *to = (char *)w->weight + (f * w->type.shape.axis[1].n + place) * D * (int64_t)dtype_size(w->type.dtype);
    if (id >= s->rows)
        return FAIL(E_DATA, "id %" PRId64 " is beyond the %" PRId64 " rows of a table", id, s->rows);
    s->n_looked_up++;
    return checkpoint_read_part(s->reader, w->name, &row, w->type.dtype, to);
}

static enum status look_up_in_all(struct scoring *s, int64_t f, int64_t id, int64_t place) {
    for (int i = 0; i < s->run.program.n_params; i++) {
        const struct param *w = &s->run.program.params[i];
        if (w->update == UPDATE_ROWS) TRY(look_up(s, w, f, id, place));
    }
    return OK;
}

/* Fetch a batch, look up the rows of its ids, and replace ids by places. */
static enum status fetch(void *self, int microbatch, int32_t *const data[N_DATA]) {
    struct scoring *s = self;
    int32_t *ids = data[DATA_TOKENS];
    const struct axis *a = s->run.program.slots[s->run.program.data[DATA_TOKENS]].type.shape.axis;
    TRY(s->hooks.fetch(self, microbatch, data));
    int64_t places = a[2].n * a[3].n;
    for (int64_t i = 0; i < a[1].n * places; i++) {
        if (ids[i] < 0) continue;
        TRY(look_up_in_all(s, i / places, ids[i], i % places));
        ids[i] = (int32_t)(i % places);
    }
    return OK;
}

static enum status see_scores(void *self, const void *logits, const int32_t *labels) {
    struct scoring *s = self;
    const struct type *t = &s->run.program.slots[s->run.program.scores].type;
    for (int64_t i = 0; s->out && i < type_n(t); i++)
        if (labels[i] >= 0) fprintf(s->out, "%.9g\n", 1 / (1 + exp(-dtype_get(logits, t->dtype, i))));
    return s->hooks.see_scores(self, logits, labels);
}

/* ---- the model ---- */
static enum status load_dense(struct scoring *s) {
    for (int i = 0; i < s->run.program.n_params; i++) {
        const struct param *w = &s->run.program.params[i];
        if (w->update == UPDATE_DENSE)
            TRY(checkpoint_read_weight(s->reader, w->name, &w->type.shape, w->type.dtype, w->weight));
    }
    return OK;
}

/* If vocab is the data's number of rows, refuse a checkpoint with another number, because ids are hashed into it. */
static enum status check_rows(const struct request *q, const struct scoring *s, int64_t there) {
    const struct data_file *data = q->setup.data;
    int64_t rows = clicks_layout(data).rows;
    if (rows == there || q->setup.plan.vocab != rows) return OK;
    return FAIL(E_DATA, "%s has ids of tables of %" PRId64 " rows, and those of %s have %" PRId64 "; make the clicks "
                "with --rows %" PRId64, data_path(data), rows, checkpoint_folder(s->reader), there, there);
}

static enum status check(const struct request *q, const struct scoring *s) {
    const struct plan *p = &q->setup.plan;
    const struct checkpoint_model m = checkpoint_model_of(s->reader);
    const int64_t cache = plan_number(p, "emb-cache");
    if (cache)
        return FAIL(E_CONFIG, "emb-cache=%" PRId64 ": score looks rows up where the checkpoint has them; leave it out",
                    cache);
    TRY(check_rows(q, s, m.vocab));
    return checkpoint_model_compare(&m, p, checkpoint_folder(s->reader));
}

static enum status open_model(const struct request *q, struct scoring *s) {
    struct plan p = q->setup.plan;
    struct data_split all, none;
    int64_t bag = clicks_layout(q->setup.data).bag;
    TRY(check(q, s));
    s->rows = p.vocab;
    p.vocab = p.global_batch * bag;
    p.undrawn = true;
    TRY(run_create(&s->run, &train_recipe, &p, WATCH_NOTHING));
    TRY(clicks_split(q->setup.data, 0, &all, &none));
    run_set_data(&s->run, &all, &all);
    s->hooks = s->run.exec.hooks;
    s->run.exec.hooks.fetch = fetch;
    s->run.exec.hooks.see_scores = see_scores;
    return load_dense(s);
}

/* ---- all of it ---- */
static enum status open_out(const struct request *q, struct scoring *s) {
    if (!q->out[0]) return OK;
    s->out = replace_begin(q->out);
    return s->out ? OK : FAIL(E_IO, "%s cannot be written (%s); give --out another name", q->out, output_why(errno));
}

static enum status close_out(const struct request *q, struct scoring *s) {
    bool written = !s->out || replace_end(q->out, s->out, true);
    s->out = NULL;
    return written ? OK : FAIL(E_IO, "%s cannot be written (%m); is there room?", q->out);
}

static enum status score(const struct request *q, struct scoring *s) {
    struct evaluated out;
    double start = clock_s();
    TRY(open_model(q, s));
    TRY(open_out(q, s));
    TRY(run_evaluate_until(&s->run, 0, NULL, NULL, &out));
    TRY(close_out(q, s));
    printf("%" PRId64 " samples: loss %.12g, auc %.12g; %" PRId64 " rows looked up, %.2f s\n",
           data_split_samples(&s->run.val), out.loss, out.auc, s->n_looked_up, clock_s() - start);
    return OK;
}

static enum status check_arch(const char *arch, const char *where) {
    for (int i = 0; i < train_recipe.n_models; i++)
        if (train_recipe.models[i]->clicks && !strcmp(train_recipe.models[i]->name, arch)) return OK;
    return FAIL(E_CONFIG, "%s holds a %s, and score is for models of clicks; give --checkpoint that of a dlrm or "
                "wide-deep", where, arch);
}

/* Take the model from the checkpoint. Options that the user set stay; `check` compares them with the checkpoint. */
static enum status open_checkpoint(const struct request *q, struct scoring *s) {
    if (!q->checkpoint[0])
        return FAIL(E_USAGE, "score needs the weights of a model; use --checkpoint DIR, what train's --save named");
    TRY(checkpoint_open(q->checkpoint, &s->reader));
    const struct checkpoint_model m = checkpoint_model_of(s->reader);
    TRY(check_arch(m.arch[0] ? m.arch : "gpt", checkpoint_folder(s->reader)));
    return options_set(q->setup.options, "arch", m.arch, FROM_DATA);
}

static enum status run_request(struct request *q, struct scoring *s, int argc, char **argv) {
    const struct option_table more = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
    TRY(recipe_options_create(&more, q, &q->setup.options));
    if (options_ask_for_help(argc, argv)) {
        options_help(q->setup.options, stdout);
        return OK;
    }
    TRY(options_parse(q->setup.options, argc, argv));
    TRY(open_checkpoint(q, s));
    TRY(setup_open(&q->setup, 1));
    setup_threads(&q->setup.plan, 1);
    return score(q, s);
}

int score_main(int argc, char **argv) {
    static struct request q;
    static struct scoring s;
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = run_request(&q, &s, argc, argv);
    status_report();
    if (s.out) replace_end(q.out, s.out, false);
    run_destroy(&s.run);
    checkpoint_close(&s.reader);
    setup_fini(&q.setup);
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
