/* Embedding tables, sharded.
 *
 * Idea: tables are nearly all of a recommendation model, and a sample uses few of their rows. So the dense part is
 * replicated, as with data parallelism, and the tables are sharded over the same ranks. Ranks send neither samples nor
 * rows. They send sums of the rows that they own.
 *
 * F features (a table each), V rows of D numbers in a table, B samples of a replica in a microbatch, n replicas:
 *   by table   a rank has F/n tables and pools their rows for the samples of all n replicas. An all-to-all sends each
 *              replica the pooled vectors of its own samples: (n, F/n, B, D) -> (1, F, B, D)
 *   by row     a rank has V/n rows of every table, and adds up its own rows of each bag. A reduce-scatter adds the
 *              ranks' partial sums: (n, F, B, D) -> (1, F, B, D)
 *
 * Backward is the reverse: the owner gets dpooled of all samples, by an all-to-all or an all-gather. So a row's
 * gradient is complete at its owner, and needs no sum over ranks. Ids are not sent, because every rank can read every
 * sample.
 *
 * Stored where: tables, with one optimizer number a row, F V (D + 1) / n numbers a rank; records of the owner's bags in
 * the gradient arena (lib/ops/rec/embedding_bag.h).
 *
 * Sent when: in each microbatch, S = n F B D. By table, a rank sends S/n (n-1)/n numbers forward and the same backward.
 * By row, it sends S (n-1)/n each way, which is n times more, but no rank alone owns a hot table.
 *
 * Late updates (--emb-delay): lib/rows/optim_rows.h. Tables that are larger than memory (--emb-cache, --emb-store): the
 * rewrite sets the tier of each table and the size of its cache; lib/rows/hot_rows.h moves the rows.
 *
 * What breaks: an owner that adds the squares of the senders' gradients, not the square of their sum; a row's gradient
 * that is summed over the replicas again; an owner that looks up its own samples only.
 *
 * Source: Naumov et al. 2019 and Mudigere et al. 2022 (DLRM: hybrid parallelism, by table and by row); Lian et al. 2021
 * (Persia: late updates of tables, synchronous updates of the dense part). */
#include "emb/emb.h"

#include "lib/base/integer.h"
#include "lib/comm/reshard.h"
#include "lib/comm/sum_scatter.h"
#include "lib/ops/rec/embedding_bag.h"
#include "lib/rows/hot_rows.h"
#include "lib/rows/hot_store.h"
#include "lib/rows/optim_rows.h"
#include "lib/run/model.h"
#include <inttypes.h>
#include <string.h>

static const struct option OPTIONS[] = {
    {"emb-by", OPTION_CHOICE, "table", 0, 0, "table|row", "",
     "dlrm, wide-deep: how the tables are divided over dp: whole tables (dp divides features), or rows of each (dp "
     "divides vocab)",
     "parallelism", offsetof(struct emb_options, by)},
    {"emb-delay", OPTION_INT, "0", 0, ROWS_MAX_DELAY, NULL, "steps",
     "dlrm, wide-deep: a step reads tables without the updates of the N steps before it; 0: with all of them",
     "parallelism", offsetof(struct emb_options, delay)},
    {"emb-cache", OPTION_INT, "0", 0, 2e9, NULL, "rows",
     "dlrm, wide-deep: tables are in emb-store, and of each a rank has this many rows in a cache; 0: all rows are here",
     "parallelism", offsetof(struct emb_options, cache)},
    {"emb-store", OPTION_CHOICE, "host", 0, 0, "host|disk", "",
     "emb-cache: where the tables are: host memory, or a file in offload-path", "parallelism",
     offsetof(struct emb_options, store)},
};

/* Every model with tables uses this technique, even on one rank. */
static bool emb_wanted(const struct plan *plan) {
    const struct emb_options *o = emb_options(plan);
    return plan->arch->clicks || o->delay > 0 || o->by != EMB_BY_TABLE || o->cache > 0 || o->store != EMB_IN_HOST;
}

/* ---- refusals ---- */
static enum status check_mesh(const struct plan *plan) {
    const struct { const char *name; int64_t n; } no[] = {{"tp", plan->mesh.tp}, {"pp", plan->mesh.pp},
                                                           {"cp", plan->mesh.cp}, {"ep", plan->mesh.ep}};
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (no[i].n > 1)
            return FAIL(E_CONFIG, "%s=%" PRId64 " is for layers of a transformer, and arch=%s has none; use --dp",
                        no[i].name, no[i].n, plan->arch->name);
    if (model_options(plan)->experts)
        return FAIL(E_CONFIG, "experts=%" PRId64 ": arch=%s has no layers with experts; leave it out",
                    model_options(plan)->experts, plan->arch->name);
    return OK;
}

static enum status check_run(const struct plan *plan) {
    const char *arch = plan->arch->name;
    if (plan->device == PLAN_DEVICE_CUDA)
        return FAIL(E_CONFIG, "arch=%s: embedding_bag and interaction have no kernels for device=cuda; use --device "
                    "cpu", arch);
    if (plan->precision != PRECISION_FP32 && plan->precision != PRECISION_FP64)
        return FAIL(E_CONFIG, "arch=%s has tables in fp32 or fp64; use --precision fp32", arch);
    if (plan->sums == PLAN_SUMS_FIXED)
        return FAIL(E_CONFIG, "arch=%s has no fixed order of sums; leave --sums out", arch);
    if (grad_options(plan)->codec != CODEC_NONE)
        return FAIL(E_CONFIG, "arch=%s sends gradients as they are; leave --grad-codec out", arch);
    if (plan->seq != 1 || model_options(plan)->dropout > 0)
        return FAIL(E_CONFIG, "arch=%s: seq=%" PRId64 " and dropout=%g, and a sample is one place of which nothing is "
                    "dropped; leave both out", arch, plan->seq, model_options(plan)->dropout);
    if (plan_serving(plan) > 0)
        return FAIL(E_CONFIG, "arch=%s: %" PRId64 " replicas would only serve, and every replica owns tables; leave "
                    "--server-ranks out", arch, plan_serving(plan));
    return OK;
}

static enum status check_store(const struct plan *plan) {
    const struct emb_options *o = emb_options(plan);
    int64_t row = plan->hidden * (int64_t)dtype_size(plan_dtype(plan));
    if (o->store == EMB_IN_HOST) return OK;
    if (!o->cache)
        return FAIL(E_CONFIG, "emb-store=disk, and emb-cache=0 keeps all rows in memory; give emb-cache the number "
                    "of rows that may be there");
    if (!offload_options(plan)->path[0])
        return FAIL(E_CONFIG, "emb-store=disk needs a folder for its files; give --offload-path, on a local disk");
    int64_t least = hot_store_window(INT64_MAX / row - DISK_PAGE, row, 1, 0).pages * DISK_PAGE;
    if (plan_window_bytes(plan) < least)
        return FAIL(E_CONFIG, "offload-window=%g MiB: one row goes to the disk and one comes through at least %.3f MiB "
                    "of pages; use offload-window %.3f", offload_options(plan)->window, (double)least / (1 << 20),
                    (double)least / (1 << 20) + 0.001);
    return OK;
}

static enum status emb_check(const struct plan *plan) {
    if (!plan->arch->clicks)
        return FAIL(E_CONFIG, "emb-by, emb-delay, emb-cache and emb-store are for tables of dlrm and wide-deep, and "
                    "arch=%s has none; leave them out", plan->arch->name);
    TRY(check_mesh(plan));
    TRY(check_store(plan));
    return check_run(plan);
}

/* ---- rewrite ---- */
static struct axis shard(const struct plan *plan, const struct axis *whole) {
    struct axis a = axis_part(whole, mesh_size(AXIS_DP, &plan->place), mesh_index(AXIS_DP, &plan->place));
    a.cut |= 1u << AXIS_DP;
    return a;
}

/* A rank reads the ids of all replicas' samples, not only its own. */
static void see_all_replicas(struct axis *p) { *p = axis_whole('P', p->global); }

static int slot_beside(struct program *p, int slot, const char *suffix) {
    char name[NAME_MAX_LEN];
    snprintf(name, sizeof name, "%.30s.%s", p->slots[slot].name, suffix);
    int made = program_add_slot(p, "", "");
    memcpy(p->slots[made].name, name, sizeof name);
    return made;
}

/* pooled = bag(ids)  ->  pooled.own = bag(ids of all replicas); pooled = exchange(pooled.own) */
static void send_pooled(const struct plan *plan, struct program *p, int at) {
    bool by_row = emb_options(plan)->by == EMB_BY_ROW;
    int pooled = p->steps[at].out[0], own = slot_beside(p, pooled, "own");
    struct step s = {.op = by_row ? &op_sum_scatter : &op_reshard, .n_in = 1, .n_out = 1, .in = {own}, .out = {pooled},
                     .block = p->steps[at].block, .mesh_axis = AXIS_DP, .parts = mesh_size(AXIS_DP, &plan->place),
                     .part = mesh_index(AXIS_DP, &plan->place),
                     .reshard = {.gathers = 'F', .cuts = 'P', .moves = 1u << AXIS_DP}};
    p->steps[at].out[0] = own;
    program_insert(p, at + 1, &s);
}

/* With a cache, move the table to its store, host memory or disk. Its optimizer state stays in device memory. */
static enum status cache_rows(const struct emb_options *o, struct program *p, int table) {
    const struct axis *a = p->params[table].type.shape.axis;
    if (!o->cache) return OK;
    p->params[table].weight_tier = o->store == EMB_ON_DISK ? TIER_DISK : TIER_HOST;
    return program_add_array(p, table, &(struct param_array){
        .name = HOT_ROWS, .n = min64(o->cache, a[0].n * a[1].n) * a[2].n, .role = ROLE_PARAM, .copies = 1,
        .dtype = p->params[table].type.dtype});
}

static enum status shard_tables(const struct plan *plan, struct program *p, const struct step *s) {
    int axis = emb_options(plan)->by == EMB_BY_ROW;                  /* F or V, of the weights (F,V,D) and (F,V) */
    for (int i = 0; i < s->n_weight; i++) {
        struct axis *a = &p->params[s->weight[i]].type.shape.axis[axis];
        *a = shard(plan, a);
    }
    p->params[s->weight[0]].delay = (int)emb_options(plan)->delay;
    return cache_rows(emb_options(plan), p, s->weight[0]);
}

static enum status check_divides(const struct plan *plan, const struct program *p) {
    bool by_row = emb_options(plan)->by == EMB_BY_ROW;
    int64_t n = by_row ? plan->vocab : p->slots[p->data[DATA_TOKENS]].type.shape.axis[1].n;
    if (n % plan->mesh.dp == 0) return OK;
    return FAIL(E_CONFIG, "emb-by=%s: dp=%" PRId64 " does not divide %s=%" PRId64 "; use one of dp=%s, or emb-by %s",
                by_row ? "row" : "table", plan->mesh.dp, by_row ? "vocab" : "features", n, plan_divisors(n, 1024),
                by_row ? "table" : "row");
}

static enum status emb_rewrite(const struct plan *plan, struct program *p) {
    struct axis *ids = p->slots[p->data[DATA_TOKENS]].type.shape.axis;
    TRY(check_divides(plan, p));
    see_all_replicas(&ids[0]);
    if (emb_options(plan)->by == EMB_BY_TABLE) ids[1] = shard(plan, &ids[1]);
    for (int i = p->n_steps - 1; i >= 0; i--) {
        if (p->steps[i].op != &op_embedding_bag) continue;
        TRY(shard_tables(plan, p, &p->steps[i]));
        send_pooled(plan, p, i);
    }
    return OK;
}

/* The cache must hold all rows that one step updates. */
static enum status check_cache(const struct compiled *c, const struct program *p, int i) {
    int64_t most = hot_rows_of_step(p, i, c->schedule->n_microbatches), rows = hot_rows_of(&p->params[i]);
    if (rows == 0 || rows >= most) return OK;
    return FAIL(E_CONFIG, "emb-cache=%" PRId64 " rows, and a step can name %" PRId64 " rows of this rank's %s; use "
                "emb-cache %" PRId64 ", more ranks, or a smaller global-batch", rows, most, p->params[i].name, most);
}

/* Give the cache its table's precision, which is not yet final during the rewrite. */
static enum status type_cache(struct program *p, int i) {
    const struct param_array *hot = param_array(&p->params[i], HOT_ROWS);
    if (!hot) return OK;
    struct param_array typed = *hot;
    typed.dtype = p->params[i].type.dtype;
    return program_add_array(p, i, &typed);
}

/* Techniques that shard or average weights in another way cannot handle tables. */
static enum status emb_lowered(const struct compiled *c, struct program *p) {
    for (int i = 0; i < p->n_params; i++) TRY(check_cache(c, p, i));
    for (int i = 0; i < p->n_params; i++) TRY(type_cache(p, i));
    for (int i = 0; i < p->n_params; i++)
        if (p->params[i].update == UPDATE_ROWS && (p->n_apart || p->params[i].shard_axis != AXIS_SELF))
            return FAIL(E_CONFIG, "%s: its rows belong to one replica each, and cannot be averaged or given to another "
                        "owner; leave --local-steps, --servers and --dp-style out", p->params[i].name);
    return OK;
}

const struct technique technique_emb = {
    .name = "emb", .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct emb_options)},
    .wanted = emb_wanted, .check = emb_check, .rewrite = emb_rewrite, .lowered = emb_lowered};
