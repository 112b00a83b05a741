/* trivium oracle: record what a run computes, and find the first number that is wrong. */
#include "driver/oracle.h"

#include "driver/deadline.h"
#include "driver/recipe.h"
#include "driver/setup.h"
#include "lib/base/log.h"
#include "lib/comm/comm.h"
#include "oracle/suspect.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char HELP[] =
    "trivium oracle record --out DIR [--depth " RECORD_DEPTHS "] [options of train]\n"
    "trivium oracle check RUN REFERENCE\n\n"
    "  record   train and keep the numbers of each step. One rank in fp64 (the default) makes a reference: weights to "
    "start from,\n"
    "           tokens, every tensor, and how far rounding may take each. Under launch, in any layout and precision: "
    "what its ranks have\n"
    "  check    the first tensor of RUN that differs from the REFERENCE's by more than rounding explains: step, phase, "
    "name, and how far\n\n"
    "Other programs write RUN with tools/oracle, or as docs/oracle-format.md says. Exit code of check: 0 all is right, "
    "1 something is wrong, 2 bad request.\n";

/* ---- record ---- */
/* setup first: its plan's options' offsets hold. */
struct request { struct setup setup; char out[OPTION_TEXT_MAX]; int depth; };
static const struct option OPTIONS[] = {
    {"out", OPTION_TEXT, "", 0, 0, NULL, "", "the folder to make", "oracle", offsetof(struct request, out)},
    {"depth", OPTION_CHOICE, "layers", 0, 0, RECORD_DEPTHS, "", "how much of a step: numbers; weights and gradients; "
     "what blocks give; what all modules give", "oracle", offsetof(struct request, depth)},
};

/* Without dropout, in fp64; and if no --model is named, 125 thousand parameters: 26 MB of numbers. What the user says
 * stands above it. */
static const struct { const char *name, *value; bool is_size; } SMALL[] = {
    {"layers", "4", true}, {"hidden", "48", true}, {"heads", "4", true}, {"seq", "32", true},
    {"global-batch", "8", false}, {"micro-batch", "4", false}, {"steps", "5", false}, {"warmup", "2", false},
    {"clip", "0.5", false}, {"dropout", "0", false}, {"loss-chunk", "0", false}, {"precision", "fp64", false},
    {"threads", "1", false}};

static enum status read_request(struct request *q, int argc, char **argv) {
    const struct option_table own = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
    struct options *o;
    TRY(recipe_options_create(&own, q, &q->setup.options));
    TRY(options_parse(o = q->setup.options, argc, argv));
    bool named = options_source(o, "model") != FROM_DEFAULT;
    for (size_t i = 0; i < sizeof SMALL / sizeof *SMALL; i++)
        if (!(SMALL[i].is_size && named) && options_source(o, SMALL[i].name) < FROM_FILE)
            TRY(options_set(o, SMALL[i].name, SMALL[i].value, FROM_FILE));
    if (!q->out[0]) return FAIL(E_USAGE, "oracle record does not say where; give --out DIR");
    return setup_open(&q->setup, comm_world_size());
}

static enum status make_folder(const char *path) {
    if (mkdir(path, 0777) == 0) return OK;
    return FAIL(E_IO, "cannot make %s: %s%s", path, strerror(errno),
                errno == EEXIST ? "; give --out a new folder, or remove it" : "");
}

static enum status record(int argc, char **argv) {
    static struct request q;
    TRY(fail_agree(group_world(), read_request(&q, argc, argv)));
    const struct plan *p = &q.setup.plan;
    const struct record_request r = {&train_recipe, p, &q.setup.train, (enum record_depth)q.depth, q.out};
    bool reference = plan_ranks(p) == 1 && p->precision == PRECISION_FP64 && p->dropout == 0;
    TRY(fail_agree(group_world(), comm_is_rank_0() ? make_folder(q.out) : OK));
    setup_threads(p, comm_local_size());
    TRY(reference ? record_reference(&r) : record_run(&r));
    if (comm_is_rank_0())
        printf("%s: %" PRId64 " steps, %s%s\n", q.out, p->steps, reference ? "a reference" : "a recording, to be held "
               "against a reference with oracle check", "");
    setup_fini(&q.setup);
    return OK;
}

static int record_main(int argc, char **argv) {
    deadline_set_for_start(argc, argv);
    enum status status = comm_start(&argc, &argv);
    deadline_lift();
    bool started = status == OK;
    if (started) status = record(argc, argv);
    status_report();
    int code = status_exit_code(status);
    if (started) comm_finish(status != E_TIMEOUT && status != E_COMM, code);
    return code;
}

/* ---- check ---- */
static const char *layer_of(const char *name, char text[32]) {
    int layer;
    const char *at = strstr(name, ".h.");
    text[0] = 0;
    if (!at) at = strstr(name, ".layers.");
    if (at && sscanf(strchr(at + 1, '.') + 1, "%d", &layer) == 1) snprintf(text, 32, ", layer %d", layer);
    return text;
}

static void say_first(const struct check *k) {
    const struct checked *c = &k->row[k->first];
    char layer[32];
    printf("first wrong: step %" PRId64 ", %s%s: %s\n", c->step, c->phase, layer_of(c->name, layer), c->name);
    switch (c->verdict) {
    case TENSOR_APART:
        printf("  ranks %d and %d differ by %.2g of the largest element, and should have the same values\n", c->rank,
               c->other, c->apart);
        break;
    case TENSOR_IN_PART: printf("  %" PRId64 " elements are on no rank\n", c->missing); break;
    case TENSOR_OF_ANOTHER_SHAPE: printf("  it has another shape than the reference's\n"); break;
    default:
        printf("  it is off by %.2g of %s; rounding explains %.2g, so this is %.3g times too far\n", c->error,
               strchr(c->name, '.') ? "its largest element" : "its value", CHECK_FACTOR * c->scale,
               c->error / (CHECK_FACTOR * c->scale));
    }
    int before = 0;
    for (int i = 0; i < k->first; i++) before += k->row[i].verdict == TENSOR_RIGHT;
    printf("  before it %d tensors are right; after it %d of %d are wrong\n", before, k->n_wrong - 1,
           k->n_compared - before - 1);
}

static enum status say_suspects(const struct check *k) {
    struct suspicion suspect[MAX_SUSPECTS];
    int n;
    TRY(suspect_first(k, suspect, &n));
    for (int i = 0; i < n; i++)
        printf("  suspect: %s: %s (%s)\n    to confirm: %s\n", suspect[i].id, suspect[i].what, suspect[i].detail,
               suspect[i].confirm);
    return OK;
}

static void say_all_right(const struct check *k) {
    double worst = 0;
    const struct checked *at = k->row;
    for (int i = 0; i < k->n; i++)
        if (k->row[i].verdict == TENSOR_RIGHT && k->row[i].error / k->row[i].scale > worst)
            worst = k->row[i].error / k->row[i].scale, at = &k->row[i];
    printf("all right: %d tensors, each within what rounding explains; the nearest to its limit is %s of step %" PRId64
           ", at %.0f%%\n",
           k->n_compared, at->name, at->step, 100 * worst / CHECK_FACTOR);
}

static int check_main(int argc, char **argv) {
    struct check k;
    if (argc != 2) {
        fputs(HELP, stderr);
        return 2;
    }
    enum status status = check_recordings(argv[0], argv[1], &k);
    if (status == OK && k.first >= 0) say_first(&k);
    if (status == OK && k.first >= 0) status = say_suspects(&k);
    if (status == OK && k.first < 0) say_all_right(&k);
    if (status == OK && k.n_compared < k.n) printf("(%d of the reference's %d tensors are not in %s)\n",
                                                   k.n - k.n_compared, k.n, argv[0]);
    bool wrong = k.first >= 0;
    check_close(&k);
    status_report();
    return status != OK ? status_exit_code(status) : wrong;
}

int oracle_main(int argc, char **argv) {
    bool help = options_ask_for_help(argc, argv);
    if (argc > 0 && !help && !strcmp(argv[0], "record")) return record_main(argc - 1, argv + 1);
    if (argc > 0 && !help && !strcmp(argv[0], "check")) return check_main(argc - 1, argv + 1);
    fputs(HELP, help ? stdout : stderr);
    return help ? 0 : 2;
}
