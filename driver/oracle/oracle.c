/* trivium oracle: record what a run computes, and find the first number that is wrong. */
#include "driver/commands.h"

#include "driver/command.h"
#include "driver/recipe.h"
#include "driver/setup.h"
#include "driver/train/train_options.h"
#include "lib/comm/comm.h"
#include "oracle/reference.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char HELP[] =
    "trivium oracle record --out DIR [--depth " RECORD_DEPTHS "] [options of train]\n"
    "trivium oracle check RUN REFERENCE [--out DIR]\n"
    "trivium oracle show DIR [STEP [NAME]]\n\n"
    "  record   train and keep the numbers of each step. One rank in fp64 (the default) makes a reference: weights to "
    "start from,\n"
    "           tokens, every tensor, and how far rounding may take each. Under launch, in any layout and precision: "
    "what its ranks have\n"
    "  check    the first tensor of RUN that differs from the REFERENCE's by more than rounding explains: step, phase, "
    "name, how\n"
    "           far, and what it looks like. --out: also as a page, DIR/check.html, and DIR/check.json\n"
    "  show     which tensors a recording has, with their shapes and ranks; or one of them\n\n"
    "Other programs write RUN with tools/oracle, or as docs/oracle-format.md says. Exit code of check: 0 all is right, "
    "1 something is wrong, 2 bad request.\n";

/* ---- record ---- */
/* setup comes first, because the options' offsets count from its plan. */
struct request { struct setup setup; char out[OPTION_TEXT_MAX]; int depth; };
static const struct option OPTIONS[] = {
    {"out", OPTION_TEXT, "", 0, 0, NULL, "", "the folder to make", "oracle", offsetof(struct request, out)},
    {"depth", OPTION_CHOICE, "layers", 0, 0, RECORD_DEPTHS, "", "how much of a step: numbers; weights and gradients; "
     "what blocks give; what all modules give", "oracle", offsetof(struct request, depth)},
};

/* Defaults of record: fp64, no dropout and, without --model, 125 thousand parameters, which make 26 MB of numbers.
 * Options that the user set have precedence. */
static const struct { const char *name, *value; bool is_size; } SMALL[] = {
    {"layers", "4", true}, {"hidden", "48", true}, {"heads", "4", true}, {"seq", "32", true},
    {"global-batch", "8", false}, {"steps", "5", false}, {"warmup", "2", false},
    {"clip", "0.5", false}, {"dropout", "0", false}, {"loss-chunk", "0", false}, {"precision", "fp64", false},
    {"threads", "1", false}};

/* A dynamic loss scale would skip the first steps. This fixed scale represents gradients from 1e-7 to 60. */
static const double fp16_loss_scale = 1024;

static enum status read_request(struct request *q, int argc, char **argv) {
    const struct option_table own = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
    struct options *o;
    TRY(recipe_options_create(&own, q, &q->setup.options));
    TRY(options_parse(o = q->setup.options, argc, argv));
    if (train_options(&q->setup.plan)->inject[0])
        return FAIL(E_USAGE, "inject is an option of train; oracle does not support it; leave it out");
    bool named = options_source(o, "model") != FROM_DEFAULT;
    for (size_t i = 0; i < sizeof SMALL / sizeof *SMALL; i++)
        if (!(SMALL[i].is_size && named) && options_source(o, SMALL[i].name) < FROM_FILE)
            TRY(options_set(o, SMALL[i].name, SMALL[i].value, FROM_FILE));
    if (q->setup.plan.precision == PRECISION_FP16 && options_source(o, "loss-scale") < FROM_FILE)
        TRY(options_set(o, "loss-scale", "1024", FROM_FILE));
    if (!q->out[0]) return FAIL(E_USAGE, "oracle record does not say where; give --out DIR");
    return setup_open(&q->setup, comm_world_size());
}

static enum status make_folder(const char *path) {
    if (mkdir(path, 0777) == 0) return OK;
    return FAIL(E_IO, "cannot make %s: %s%s", path, strerror(errno),
                errno == EEXIST ? "; give --out a new folder, or remove it" : "; give --out a folder that can be made");
}

static enum status record(int argc, char **argv) {
    static struct request q;
    TRY(fail_agree(group_world(), read_request(&q, argc, argv)));
    const struct plan *p = &q.setup.plan;
    struct plan fp16 = *p;
    void *scale;
    if (plan_option(&fp16, "loss-scale", &scale)) *(double *)scale = fp16_loss_scale;
    const struct record_request r = {&train_recipe, p, &fp16, fp16_loss_scale, &q.setup.train,
                                     (enum record_depth)q.depth, q.out};
    bool reference = plan_ranks(p) == 1 && p->precision == PRECISION_FP64 && model_options(p)->dropout == 0;
    TRY(fail_agree(group_world(), record_check(p, reference)));
    TRY(fail_agree(group_world(), comm_is_rank_0() ? make_folder(q.out) : OK));
    setup_threads(p, comm_local_size());
    enum status status = reference ? record_reference(&r) : record_run(&r);
    if (status != OK && comm_is_rank_0()) rmdir(q.out);              /* removes an empty folder only */
    TRY(status);
    if (comm_is_rank_0())
        printf("%s: %" PRId64 " steps, %s%s\n", q.out, p->steps, reference ? "a reference" : "a recording, to be held "
               "against a reference with oracle check", "");
    setup_fini(&q.setup);
    return OK;
}

static int record_main(int argc, char **argv) { return command_main_of_ranks(record, OK, argc, argv); }

/* ---- the command ---- */
static const struct { const char *name; int (*main)(int argc, char **argv); } COMMANDS[] = {
    {"record", record_main}, {"check", oracle_check_main}, {"show", oracle_show_main}};

int oracle_main(int argc, char **argv) {
    bool help = options_ask_for_help(argc, argv);
    for (size_t i = 0; argc > 0 && !help && i < sizeof COMMANDS / sizeof *COMMANDS; i++)
        if (!strcmp(argv[0], COMMANDS[i].name)) return COMMANDS[i].main(argc - 1, argv + 1);
    fputs(HELP, help ? stdout : stderr);
    return help ? 0 : 2;
}
