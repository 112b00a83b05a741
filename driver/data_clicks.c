#include "driver/commands.h"

#include "driver/command.h"
#include "lib/data/clicks.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct request { char to[OPTION_TEXT_MAX]; int64_t samples, dense, features, bag, rows, seed; };

#define AT(field) offsetof(struct request, field)
static const struct option COMMON[] = {
    {"to", OPTION_TEXT, "", 0, 0, NULL, "", "the file to write", "output", AT(to)},
    {"rows", OPTION_INT, "1000", 1, 2e9, NULL, "", "rows of every feature's table, into which ids are hashed", "output",
     AT(rows)},
};
static const struct option SYNTH[] = {
    {"samples", OPTION_INT, "100000", 1, 1e12, NULL, "", "how many", "output", AT(samples)},
    {"features", OPTION_INT, "8", 1, 100000, NULL, "", "features with ids", "output", AT(features)},
    {"bag", OPTION_INT, "3", 1, 100000, NULL, "ids", "a sample has 1 to N ids of each", "output", AT(bag)},
    {"dense", OPTION_INT, "4", 1, 100000, NULL, "", "dense features", "output", AT(dense)},
    {"seed", OPTION_INT, "1", 0, 1e15, NULL, "", "all numbers follow from it", "output", AT(seed)},
};
#define TABLE(options) {options, sizeof options / sizeof *options}
static const struct option_table TABLES[] = {TABLE(COMMON), TABLE(SYNTH)};

static bool is_synth(const char *word) { return !strcmp(word, "synth-clicks"); }
bool data_clicks_is(const char *word) { return is_synth(word) || !strcmp(word, "criteo"); }

static enum status synth(const struct request *q) {
    const struct clicks_layout c = {(int)q->dense, (int)q->features, (int)q->bag, (int)q->rows, 0};
    double best;
    TRY(clicks_synth(q->to, &c, q->samples, (uint64_t)q->seed, &best));
    printf("%s: %" PRId64 " samples, %d dense and %d features of up to %d ids, tables of %d rows; the best AUC that "
           "any model can have over the last tenth is %.5f\n",
           q->to, q->samples, c.dense, c.features, c.bag, c.rows, best);
    return OK;
}

static enum status criteo(const struct request *q, const char *from) {
    int64_t n;
    TRY(criteo_convert(from, q->to, (int)q->rows, &n));
    printf("%s: %" PRId64 " samples, %d dense and %d features of one id, tables of %" PRId64 " rows\n", q->to, n,
           CRITEO_DENSE, CRITEO_FEATURES, q->rows);
    return OK;
}

static enum status run(void *request, struct options *o, int argc, char **argv) {
    struct request *q = request;
    bool makes = is_synth(argv[0]), named = argc > 1 && strncmp(argv[1], "--", 2);
    if (named == makes)
        return FAIL(E_USAGE, makes ? "data synth-clicks reads no file; use data synth-clicks --to FILE"
                                   : "data criteo needs a text file: data criteo FILE --to OUT");
    TRY(options_parse(o, argc - 1 - named, argv + 1 + named));
    if (!q->to[0]) return FAIL(E_USAGE, "data %s writes a file; say which with --to OUT", argv[0]);
    return makes ? synth(q) : criteo(q, argv[1]);
}

enum status data_clicks(int argc, char **argv) {
    const struct command_alone c = {
        "trivium data synth-clicks --to OUT [options]\ntrivium data criteo FILE --to OUT [--rows V]\n", TABLES,
        is_synth(argv[0]) ? 2 : 1, false, sizeof(struct request), run};
    return command_run(&c, argc, argv);
}

void data_clicks_print(const struct data_file *data) {
    const struct clicks_layout c = clicks_layout(data);
    printf("file:          %s\nformat:        clicks\nsamples:       %" PRId64 "\nsample:        a label, %d dense "
           "features, %d features with up to %d ids\nrows:          %d of each feature's table\n",
           data_path(data), (data_n_tokens(data) - 1) / clicks_words(&c), c.dense, c.features, c.bag, c.rows);
    if (c.best_auc > 0) printf("best AUC:      %.5f over the last tenth\n", c.best_auc);
}
