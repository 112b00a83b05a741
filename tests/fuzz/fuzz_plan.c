/* parses: lib/base lib/comm/mesh.c lib/comm/mesh_ranks.c lib/comm/hops/comm_rules.c lib/comm/hops/comm_links.c
 * lib/comm/comm_world.c lib/comm/hops/hops.c lib/comm/hops/hops_flat.c lib/comm/hops/hops_halving.c
 * lib/comm/hops/hops_levels.c lib/comm/hops/hops_tree.c lib/run/plan.c lib/run/plan_options.c lib/ops/codec.c
 * lib/ops/optimizer.c lib/ops/adamw.c lib/ops/sgd.c lib/ops/muon.c lib/run/plan_codec.c lib/run/plan_comm.c
 * lib/run/plan_sums.c lib/run/recipe.c driver/train/straggler.c driver/train/train_options.c driver/recipe.c
 * driver/command.c driver/show/show_params.c */
/* The plan of a command line: presets, sizes that must divide, layouts; and `show memory --params`. The first two
 * bytes are the number of ranks, the rest words, one per line. */
#include "driver/recipe.h"
#include "driver/show/show_views.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 64 };

/* --config would read any file that the input names. */
static int words_of(char *text, char **words) {
    int n = 0;
    for (char *at = text; at && n < MAX_WORDS;) {
        char *word = strsep(&at, "\n");
        if (strncmp(word, "--config", 8) != 0) words[n++] = word;
    }
    return n;
}

static void plan_must_hold(const struct plan *p, int world) {
    MUST(p->mesh.dp >= 1 && p->mesh.tp >= 1 && p->mesh.pp >= 1 && plan_ranks(p) == world);
    MUST((p->hidden % p->heads == 0 || model_options(p)->head_dim) && p->micro_batch >= 1 && p->n_microbatches >= 1);
    MUST(p->workers >= 1 && p->workers <= p->mesh.dp);
    MUST(p->workers * p->micro_batch * p->n_microbatches == p->global_batch);
    for (int64_t step = 0; step < 3; step++) MUST(plan_lr(p, step * p->steps / 2) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static FILE *printed; /* what show_params prints */
    struct fuzz_bytes in = {data, size};
    int world = 1 + (int)fuzz_number(&in, 2);
    char *text = fuzz_text(in.at, in.left), *words[MAX_WORDS];
    struct plan plan;
    struct options *o;
    if (!printed) MUST(printed = freopen("/dev/null", "w", stdout));
    MUST(recipe_options_create(NULL, &plan, &o) == OK);
    enum status status = options_parse(o, words_of(text, words), words);
    if (status == OK) status = recipe_preset(&plan, o);
    if (status == OK) {
        (void)show_params(&plan, 1e17, false);
        (void)show_params(&plan, 1e17, true);
        status = plan_settle(&plan, world);
    }
    MUST(status == OK || status == E_USAGE || status == E_CONFIG);
    if (status == OK) plan_must_hold(&plan, world);
    options_destroy(&o);
    free(text);
    return 0;
}
