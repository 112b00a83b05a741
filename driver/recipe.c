/* The one list of all techniques and models. To add a technique or a model, include its header and add it to its list.
 * Techniques rewrite the program in the list's order: cp cuts the sequence, ep the experts, tp the layers' matrices;
 * then pp picks this rank's layers, and the others mark params and slots. elastic comes last, because it keeps the
 * state of all. To remove a technique or a model, delete its folder and its lines in this file
 * (tests/more/delete.sh). */
#include "driver/recipe.h"

#include "cp/cp.h"
#include "dp/dp.h"
#include "dp_variants/local/local.h"
#include "dp_variants/main_rank/main_rank.h"
#include "dp_variants/server/server.h"
#include "driver/commands.h"
#include "driver/show/schedule.h"
#include "driver/train/train_options.h"
#include "elastic/elastic.h"
#include "emb/emb.h"
#include "ep/ep.h"
#include "mixed_precision/fp8.h"
#include "mixed_precision/mixed_precision.h"
#include "models/bert/bert.h"
#include "models/decode/decode.h"
#include "models/dlrm/dlrm.h"
#include "models/gpt/gpt.h"
#include "models/llama/llama.h"
#include "models/t5/t5.h"
#include "lib/experts/experts.h"
#include "lib/rows/learned_rows.h"
#include "muon/muon.h"
#include "oracle/copies.h"
#include "park/park.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tp/tp.h"
#include "zero/zero.h"

#include <stdlib.h>
#include <string.h>

static const struct technique *const TECHNIQUES[] = {
    &technique_emb,
    &technique_rows,
    &technique_cp,
    &technique_ep,
    &technique_router_bias,
    &technique_tp,
    &technique_pp,
    &technique_muon,
    &technique_mixed_precision,
    &technique_fp8,
    &technique_recompute,
    &technique_park,
    &technique_zero,
    &technique_main_rank,
    &technique_server,
    &technique_local,
    &technique_dp_coded,
    &technique_dp_noise,
    &technique_dp,
    &technique_copies,
    &technique_elastic,
};
_Static_assert(sizeof TECHNIQUES / sizeof *TECHNIQUES <= MAX_TECHNIQUES, "a run has room for MAX_TECHNIQUES");

static const struct model *const MODELS[] = {
    &model_gpt,
    &model_llama,
    &model_mixtral, &model_moe, &model_gpt_oss,
    &model_bert,
    &model_t5,
    &model_dlrm,
    &model_wide_deep,
};

const struct recipe train_recipe = {TECHNIQUES, sizeof TECHNIQUES / sizeof *TECHNIQUES, MODELS,
                                    sizeof MODELS / sizeof *MODELS, &train_job};

static const struct technique *const GENERATE_TECHNIQUES[] = {
    &technique_tp,
    &technique_mixed_precision,
    &technique_decode,
};

const struct recipe generate_recipe = {GENERATE_TECHNIQUES, sizeof GENERATE_TECHNIQUES / sizeof *GENERATE_TECHNIQUES,
                                       NULL, 0, NULL};

/* Commands and views that belong to one technique. The comment in a line names the technique. */
const struct recipe_command recipe_commands[] = {
    {"generate", generate_main},     /* technique_decode */
    {"schedule", schedule_main},     /* technique_pp */
    {NULL, NULL},
};
static const struct pipeline_views *const PIPELINE_VIEWS[] = {
    &pipeline_views,                 /* technique_pp */
    NULL,
};
const struct pipeline_views *recipe_draws_pipeline(void) { return PIPELINE_VIEWS[0]; }

void generate_plan(struct plan *p, int64_t sequences) {
    p->global_batch = p->micro_batch = sequences;
    p->loss_chunk = 0;
    if (p->device == PLAN_DEVICE_AUTO) p->device = PLAN_DEVICE_CPU;
}

/* ---- options ---- */

enum status recipe_options(struct option_table *out) {
    static struct option_table made;
    struct option_table table = made;
    *out = (struct option_table){0};
    enum status status = made.n ? OK : recipe_options_join(&train_recipe, &table);
    if (status != OK) free((void *)table.option);
    TRY(status);
    *out = made = table;
    return OK;
}

enum status recipe_options_create(const struct option_table *more, void *target, struct options **out) {
    struct option_table tables[2];
    *out = NULL;
    TRY(recipe_options(&tables[0]));
    if (more) tables[1] = *more;
    memset(target, 0, sizeof(struct plan));                          /* plans are compared byte by byte */
    ((struct plan *)target)->recipe = &train_recipe;
    ((struct plan *)target)->arch = train_recipe.models[0];
    return options_create(tables, more ? 2 : 1, target, out);
}

enum status recipe_plan(struct plan *p) {
    struct options *o;
    enum status status = recipe_options_create(NULL, p, &o);
    options_destroy(&o);
    return status;
}
