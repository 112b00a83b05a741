/* From a plan to tables. Any process can compile the tables of any rank. Each technique checks the plan, the model
 * builds the program, each technique rewrites it. Then follow lowering, the schedule, the memory plan and the bill. */
#include "lib/run/run_state.h"
#include "lib/program/gradients.h"
#include "lib/program/sums.h"
#include "lib/types/types.h"
#include "lib/run/combine.h"
#include "lib/run/run_state.h"

#include "lib/base/grow.h"
#include "lib/ops/reduce.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Write a technique's name and the options that may have switched it on, as in "zero (zero, offload, shard)". Options
 * of the plan count if they begin with the name, as in "cp (cp-heads, cp-by)". @return text */
static const char *options_of(const struct technique *t, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "%s", t->name), n = strlen(t->name);
    const char *between = " (";
    const struct option_table tables[] = {plan_options, {t->options.option, t->options.n}};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < tables[k].n && used < size; i++) {
            const char *name = tables[k].option[i].name;
            if (k == 0 && (strncmp(name, t->name, n) != 0 || name[n] != '-')) continue;
            used += (size_t)snprintf(text + used, size - used, "%s%s", between, name);
            between = ", ";
        }
    if (*between == ',' && used < size) snprintf(text + used, size - used, ")");
    return text;
}

/* Refuse two techniques with the same claim. If one of them refuses its own option, return that error instead. */
static enum status refuse_claim(const struct run *r, const struct technique *t) {
    const struct technique *holder = t;
    for (int i = 0; i < r->n_active; i++)
        if (r->active[i]->claims & t->claims) holder = r->active[i];
    if (holder->check) TRY(holder->check(&r->plan));
    if (t->check) TRY(t->check(&r->plan));
    char one[256], other[256];
    return FAIL(E_CONFIG, "%s and %s both claim the same part of the run; leave out what is given of %s, or of %s",
                holder->name, t->name, options_of(holder, one, sizeof one), options_of(t, other, sizeof other));
}

/* Refuse a plan that switches on a technique that the plan's recipe has and this run's recipe lacks: the run would
 * silently ignore it. */
static enum status refuse_absent(const struct run *r) {
    const struct recipe *all = r->plan.recipe;
    char text[256];
    for (int i = 0; all && i < all->n_techniques; i++) {
        const struct technique *t = all->techniques[i];
        bool present = false;
        for (int k = 0; k < r->recipe->n_techniques; k++) present |= !strcmp(r->recipe->techniques[k]->name, t->name);
        if (!present && t->wanted(&r->plan))
            return FAIL(E_CONFIG, "%s is requested, and this command does not support it; leave out what is given "
                        "of %s", t->name, options_of(t, text, sizeof text));
    }
    return OK;
}

/* Refuse a codec if the technique that sums gradients does not support codecs: it would silently ignore the codec. */
static enum status refuse_uncoded(const struct run *r) {
    const char *codec = codec_name((enum codec_kind)grad_options(&r->plan)->codec);
    char text[256];
    for (int i = 0; i < r->n_active && grad_options(&r->plan)->codec != CODEC_NONE; i++)
        if (r->active[i]->claims & CLAIM_GRAD_SUM && !r->active[i]->codes)
            return FAIL(E_CONFIG,
                        "grad-codec=%s is for the sums of dp and zero, and %s sums gradients in its own way; use "
                        "grad-codec none, or leave out what is given of %s",
                        codec, r->active[i]->name, options_of(r->active[i], text, sizeof text));
    return OK;
}

static enum status refuse_other_gradients(const struct run *r) {
    int codec = grad_options(&r->plan)->codec;
    for (int i = 0; i < r->program.n_params && codec != CODEC_NONE; i++) {
        const struct param *w = &r->program.params[i];
        if (w->present && w->grad_type.dtype != FP32)
            return FAIL(E_CONFIG,
                        "grad-codec=%s codes fp32 gradients, and that of %s is %s; use grad-fp32 on, precision fp32, "
                        "or grad-codec none",
                        codec_name((enum codec_kind)codec), w->name, dtype_name(w->grad_type.dtype));
    }
    return OK;
}

/* Choose the active techniques: those that the plan switches on, except those that yield to an earlier claim. */
static enum status choose_techniques(struct run *r) {
    unsigned taken = 0;
    bool in_stem = true;
    for (int i = 0; i < r->recipe->n_techniques; i++) {
        const struct technique *t = r->recipe->techniques[i];
        in_stem &= !(t->claims & CLAIM_SCHEDULE);
        if (!t->wanted(&r->plan)) continue;
        if (t->claims & taken) {
            if (t->yields) continue;
            return refuse_claim(r, t);
        }
        taken |= t->claims;
        r->active[r->n_active++] = t;
        r->n_stem += in_stem;
    }
    return refuse_uncoded(r);
}

/* The function that gets the program after every rewrite. A NULL struct watch also skips the check of types, which
 * would make a search among thousands of programs a fifth slower. The plan that a search finds is checked at its run.
 */
struct watch { rewrite_watcher *watcher; void *self; };

/* run_fetch writes all sequences of a microbatch into a slot of the data, so no rewrite may shard axis B there.
 * Programs of clicks have another reader, which reads shards. */
static enum status refuse_sharded_batch(const struct run *r, const char *name) {
    const struct program *p = &r->program;
    for (int d = 0; d < N_DATA && p->features < 0; d++) {
        if (p->data[d] < 0) continue;
        const struct axis *b = shape_axis(&p->slots[p->data[d]].type.shape, 'B');
        if (!b || b->n != r->plan.micro_batch)
            return FAIL(E_INTERNAL, "after %s a slot of the data has %" PRId64 " of a microbatch's %" PRId64
                                    " sequences, and a rank reads all of them; shard axis T",
                        name, b ? b->n : 0, r->plan.micro_batch);
    }
    return OK;
}

static enum status look(struct run *r, const char *name, const struct watch *watch) {
    TRY(refuse_sharded_batch(r, name));
    TRY(program_infer(&r->program));
    if (!watch) return OK;
    if (r->plan.check_types) TRY(types_check(&r->program, name));
    if (watch->watcher) watch->watcher(watch->self, name, &r->program);
    return OK;
}

static enum status build_program(struct run *r, const struct watch *watch) {
    TRY(r->plan.arch->build(&r->plan, &r->program));
    return look(r, r->plan.arch->name, watch);
}

/* Let each technique check the plan before the build, because types are computed for a mesh that must be possible. */
static enum status check_techniques(const struct run *r) {
    for (int i = 0; i < r->n_active; i++)
        if (r->active[i]->check) TRY(r->active[i]->check(&r->plan));
    return OK;
}

static enum status rewrite_program(struct run *r, int from, int to, const struct watch *watch) {
    for (int i = from; i < to; i++) {
        const struct technique *t = r->active[i];
        if (!t->rewrite) continue;
        TRY(t->rewrite(&r->plan, &r->program));
        TRY(look(r, t->name, watch));
    }
    return OK;
}

static enum status make_schedule(struct run *r) {
    for (int i = 0; i < r->n_active; i++)
        if (r->active[i]->schedule) return r->active[i]->schedule(&r->plan, &r->schedule);
    return schedule_accumulate(r->plan.n_microbatches, &r->schedule);
}

/* A replica without samples has a program, and runs no row of it. */
static enum status leave_actions_out(struct run *r) {
    struct schedule *s = &r->schedule;
    int64_t serving = plan_serving(&r->plan);
    if (serving && (s->n_frames || s->validates))
        return FAIL(E_CONFIG, "%" PRId64 " replicas only serve, and this schedule begins a step before the last one's "
                    "update; use a schedule with a flush, and optim-sync wait", serving);
    if (!plan_has_samples(&r->plan)) s->n = 0;
    return OK;
}

/* ---- the parts that stages share ---- */
/* The key of a stem: the plan without its rank and without the options of techniques after the pipeline. */
static struct plan key_of_stem(const struct run *r) {
    struct plan key = r->plan;
    bool later = false;
    memset(&key.place, 0, sizeof key.place);
    for (int i = 0; i < r->recipe->n_techniques; i++) {
        const struct technique *t = r->recipe->techniques[i];
        void *own = plan_own(&key, &t->options);
        if (later && own) memset(own, 0, t->options.bytes);
        later |= t->claims & CLAIM_SCHEDULE;
    }
    return key;
}

static struct program take_program(struct run *r) {
    struct program p = r->program;
    program_init(&r->program);
    return p;
}

static enum status make_stem(struct run *r, int n_stages, struct run_stem *stem) {
    const struct plan key = key_of_stem(r);
    if (stem->n_stages && !memcmp(&stem->key, &key, sizeof key)) return OK;
    run_stem_fini(stem);
    TRY(build_program(r, NULL));
    TRY(rewrite_program(r, 0, r->n_stem, NULL));
    *stem = (struct run_stem){key, n_stages, take_program(r), table_new(n_stages, sizeof *stem->stages),
                              table_new(n_stages, sizeof *stem->schedules)};
    return OK;
}

static int n_until_pipeline(const struct run *r) {
    return r->n_stem + (r->n_stem < r->n_active && r->active[r->n_stem]->claims & CLAIM_SCHEDULE);
}

static enum status schedule_all(const struct run *r, struct run_stem *stem) {
    for (int i = 0; i < r->n_active; i++)
        if (r->active[i]->schedules) return r->active[i]->schedules(&r->plan, stem->schedules);
    for (int i = 0; i < stem->n_stages; i++) TRY(schedule_accumulate(r->plan.n_microbatches, &stem->schedules[i]));
    return OK;
}

static enum status cut_stage(struct run *r, struct run_stem *stem, struct program *stage) {
    if (stage->n_steps) return OK;
    program_copy(&stem->whole, &r->plan.place, &r->program);
    TRY(rewrite_program(r, r->n_stem, n_until_pipeline(r), NULL));
    if (!stem->schedules->n) TRY(schedule_all(r, stem));
    program_drop_unused(&r->program);
    *stage = take_program(r);
    return OK;
}

static enum status copy_stage(struct run *r, int stage, int n_stages, struct run_stem *stem) {
    TRY(make_stem(r, n_stages, stem));
    TRY(cut_stage(r, stem, &stem->stages[stage]));
    program_copy(&stem->stages[stage], &r->plan.place, &r->program);
    schedule_copy(&stem->schedules[stage], r->program.n_chunks, &r->schedule);
    return OK;
}

void run_stem_fini(struct run_stem *s) {
    program_fini(&s->whole);
    for (int i = 0; i < s->n_stages; i++) program_fini(&s->stages[i]), schedule_fini(&s->schedules[i]);
    free(s->stages);
    free(s->schedules);
    *s = (struct run_stem){.n_stages = 0};
}

/* ---- tables ---- */
static enum status lower_chunks(struct run *r) {
    int n = r->program.n_chunks;
    TRY(refuse_other_gradients(r));
    if (r->program.fixed_sums && !r->program.forward_only) sums_split_uses(&r->program);
    r->chunks = calloc((size_t)n, sizeof *r->chunks);
    if (!r->chunks) return FAIL(E_MEMORY, "no memory for %d model chunks", n);
    for (int k = 0; k < n; k++) {
        if (!plan_has_samples(&r->plan)) {
            chunk_fini(&r->chunks[k]);                               /* a chunk without rows */
            continue;
        }
        TRY(chunk_lower(&r->program, k, r->schedule.split_weight, &r->chunks[k]));
        if (r->plan.fuse) chunk_join(&r->program, &r->chunks[k]);
    }
    TRY(gradients_mark(&r->program, r->chunks, &r->schedule));
    const struct compiled compiled = {&r->program, r->chunks, &r->schedule};
    for (int i = 0; i < r->n_active; i++)
        if (r->active[i]->lowered) TRY(r->active[i]->lowered(&compiled, &r->program));
    return OK;
}

static enum status check_losses(const struct run *r) {
    int n = 0;
    for (int k = 0; k < r->program.n_chunks; k++) n += r->chunks[k].n_losses;
    return r->plan.check_types && plan_has_samples(&r->plan) ? types_check_losses(&r->program, n) : OK;
}

static int64_t run_work_bytes(const struct run *r) {
    int64_t techniques = r->bill.technique_work_bytes[TIER_DEVICE], sums = reduce_work(r->program.device);
    return arena_align((1 + STEPS_AHEAD * N_SCALARS) * sizeof(double)) +
           (techniques ? arena_align(sums) + techniques : sums);
}

static enum status bill_and_plan(struct run *r) {
    const struct compiled compiled = {&r->program, r->chunks, &r->schedule};
    if (r->program.fixed_sums) TRY(sums_mark(&r->program, r->chunks, &r->schedule));
    if (r->schedule.validates) TRY(shadow_add(&r->program));
    memory_plan_params(&r->program, &r->schedule, &r->memory);
    for (int i = 0; i < r->n_active; i++)
        if (r->active[i]->cost) TRY(r->active[i]->cost(&r->plan, &compiled, &r->bill));
    combine_bill(&r->program, &r->bill);
    TRY(optim_blocks_make(&r->program, plan_window_bytes(&r->plan), &r->blocks));
    int64_t techniques = r->bill.technique_work_bytes[TIER_HOST] += run_ahead_bytes(r);
    r->memory.bytes[TIER_HOST][ROLE_WORK] =
        techniques ? round_up(r->blocks.bytes, DISK_PAGE) + techniques : r->blocks.bytes;
    r->memory.bytes[TIER_HOST][ROLE_COMM] = r->bill.technique_host_bytes;
    r->bill.disk_read_bytes += r->blocks.read_bytes;
    r->bill.disk_written_bytes += r->blocks.written_bytes;
    TRY(memory_plan_rest(&r->program, r->chunks, &r->schedule, r->bill.technique_comm_bytes, run_work_bytes(r),
                         &r->memory));
    bool copies = r->plan.save[0] && plan_says(&r->plan, "save-async");
    int64_t copy = copies ? memory_save_bytes(&r->program, r->bill.technique_save_bytes) : 0;
    r->memory.bytes[TIER_HOST][ROLE_SAVE] = r->bill.snapshot_bytes ? arena_align(copy) + r->bill.snapshot_bytes : copy;
    bill_rows(&r->program, r->chunks, &r->schedule, &r->bill);
    bill_sends(&r->program, &r->schedule, &r->bill);
    memcpy(r->bill.bytes, r->memory.bytes[TIER_DEVICE], sizeof r->bill.bytes);
    return OK;
}

/* ---- the whole compilation ---- */
static enum status begin(struct run *r, const struct recipe *recipe, const struct plan *plan, int rank) {
    *r = (struct run){.plan = *plan, .recipe = recipe};
    plan_place(&r->plan, rank);
    program_init(&r->program);
    if (!plan->settled) return FAIL(E_INTERNAL, "the plan is as it was requested; call plan_settle first");
    r->program.place = r->plan.place;
    r->program.optimizer = plan_optimizer(plan);
    r->program.device = plan->device == PLAN_DEVICE_CUDA ? DEVICE_CUDA : DEVICE_CPU;
    r->program.n_threads = plan->threads ? (int)plan->threads : 1;
    r->program.fixed_sums = plan->sums == PLAN_SUMS_FIXED;
    r->program.plain_gemm = plan->gemm == PLAN_GEMM_PLAIN;
    TRY(refuse_absent(r));
    TRY(choose_techniques(r));
    return check_techniques(r);
}

enum status run_compile(struct run *r, const struct recipe *recipe, const struct plan *plan, int rank,
                        rewrite_watcher *watcher, void *watcher_self) {
    const struct watch watch = {watcher, watcher_self};
    TRY(begin(r, recipe, plan, rank));
    TRY(build_program(r, &watch));
    TRY(rewrite_program(r, 0, r->n_active, &watch));
    TRY(make_schedule(r));
    TRY(leave_actions_out(r));
    TRY(lower_chunks(r));
    TRY(check_losses(r));
    return bill_and_plan(r);
}

enum status run_compile_stage(struct run *r, const struct recipe *recipe, const struct plan *plan, int stage,
                              int n_stages, struct run_stem *stem) {
    TRY(begin(r, recipe, plan, stage * (plan_ranks(plan) / n_stages)));
    TRY(copy_stage(r, stage, n_stages, stem));
    TRY(rewrite_program(r, n_until_pipeline(r), r->n_active, NULL));
    TRY(lower_chunks(r));
    return bill_and_plan(r);
}
