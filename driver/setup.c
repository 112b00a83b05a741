#include "driver/setup.h"

#include "driver/recipe.h"
#include "driver/train/train_options.h"
#include "lib/base/configs.h"
#include "lib/base/cores.h"
#include "lib/base/integer.h"
#include "lib/base/kept.h"
#include "lib/base/log.h"
#include "lib/comm/comm.h"
#include "lib/data/bpe.h"
#include "lib/data/clicks.h"
#include "lib/trace/trace.h"
#include "planner/choose.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum status settle_vocab(struct options *o, const struct plan *plan, const struct data_file *data) {
    int64_t vocab = data ? data_vocab(data) : 256;
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, vocab);
    if (vocab) TRY(options_set(o, "vocab", text, FROM_DATA));
    if (plan->vocab == 0)
        return FAIL(E_CONFIG,
                    "%s does not say how large its vocabulary is; give --vocab (50257 for GPT-2's tokens; trivium data "
                    "inspect shows the largest)", data_path(data));
    return OK;
}

static void warn_of_empty(const struct data_file *data) {
    int n = data_n_empty(data);
    if (n > 0 && comm_is_rank_0())
        log_warn("%d of the %d files of %s %s empty, and passed over", n, n + data_n_files(data), data_path(data),
                 n == 1 ? "is" : "are");
}

/* The tokenizer is closed once the files are open, because data_open_as encodes the text. */
static enum status open_files(struct setup *s) {
    const struct train_options *o = train_options(&s->plan);
    char path[OPTION_TEXT_MAX];
    struct bpe *bpe = NULL;
    if (o->data[0]) snprintf(path, sizeof path, "%s", o->data);
    else configs_find("demo.txt", path, sizeof path);
    enum status status = o->tokenizer[0] ? bpe_open_folder(o->tokenizer, &bpe) : OK;
    enum data_as as = (enum data_as)o->data_as;
    if (status == OK) status = data_open_as(path, as, bpe, &s->data);
    if (status == OK && o->val_data[0]) status = data_open_as(o->val_data, as, bpe, &s->val_data);
    bpe_close(&bpe);
    if (status == OK) warn_of_empty(s->data);
    if (status == OK && s->val_data) warn_of_empty(s->val_data);
    return status;
}

/* A model of clicks reads files of clicks only; no other model reads them. */
static enum status check_kind(const struct plan *p, const struct data_file *data) {
    if ((p->arch->clicks != NULL) == (data_format_of(data) == DATA_CLICKS)) return OK;
    if (p->arch->clicks)
        return FAIL(E_DATA, "arch=%s trains on clicks, and %s is %s; make some with trivium data synth-clicks, or "
                    "data criteo", p->arch->name, data_path(data), data_format_name(data));
    if (setup_from(p)[0])
        return FAIL(E_DATA, "%s has clicks, and %s holds a %s, which trains on tokens; give --data a text or tokens",
                    data_path(data), setup_from(p), p->arch->name);
    return FAIL(E_DATA, "%s has clicks, and arch=%s trains on tokens; use --arch dlrm or wide-deep", data_path(data),
                p->arch->name);
}

/* Set the model's sizes from the data. Options that the user set have precedence. */
static enum status settle_clicks(struct options *o, const struct data_file *data) {
    const struct clicks_layout c = clicks_layout(data);
    const struct { const char *name; int n; } sizes[] = {{"features", c.features}, {"bag", c.bag}, {"dense", c.dense}};
    for (int i = 0; c.features && i < 3; i++) {
        char text[32];
        snprintf(text, sizeof text, "%d", sizes[i].n);
        TRY(options_set(o, sizes[i].name, text, FROM_DATA));
    }
    return OK;
}

static enum status open_data(struct setup *s) {
    TRY(open_files(s));
    TRY(check_kind(&s->plan, s->data));
    if (s->val_data) TRY(check_kind(&s->plan, s->val_data));
    TRY(settle_clicks(s->options, s->data));
    return settle_vocab(s->options, &s->plan, s->data);
}

/* Refuse plain bytes for a checkpoint with more than 256 tokens: its tokenizer is probably missing. */
static enum status check_bytes(const struct setup *s) {
    const struct plan *p = &s->plan;
    bool bytes = data_format_of(s->data) == DATA_TEXT && !train_options(p)->tokenizer[0];
    if (!bytes || p->vocab <= 256 || options_source(s->options, "vocab") != FROM_PRESET || !setup_from(p)[0]) return OK;
    return FAIL(E_CONFIG,
                "%s has vocab=%" PRId64 ", and %s is text of which each byte is a token; give the model's --tokenizer "
                "or data with its tokens, or --vocab %" PRId64 " if it reads bytes", setup_from(p), p->vocab,
                data_path(s->data), p->vocab);
}

/* Refuse default marks that the texts contain: such a token would have two meanings. The user's marks stay. */
static enum status check_own_tokens(const struct plan *p, const struct data_file *data) {
    if (!p->arch->own_tokens) return OK;
    const struct own_tokens own = p->arch->own_tokens(p);
    const struct data_taken taken = data_taken(data, p->vocab);
    int64_t last = own.first - own.n + 1;
    if (own.said || own.first < taken.first || last >= taken.end) return OK;
    return FAIL(E_CONFIG,
                "%s of %s: tokens %" PRId64 " to %" PRId64 " by default, and %" PRId64 " to %" PRId64 " are %s; give "
                "--vocab %" PRId64 ", of which no text has the last ones, or --%s with a token that no text has",
                own.what, p->arch->name, last, own.first, taken.first, taken.end - 1, taken.what,
                round_up(taken.end + own.n, 64), own.option);
}

static enum status split_data(struct setup *s) {
    const struct plan *p = &s->plan;
    const double val_fraction = train_options(p)->val_fraction;
    if (p->arch->clicks && s->val_data) {
        TRY(clicks_split(s->data, 0, &s->train, &s->val));
        TRY(clicks_split(s->val_data, 0, &s->val, &(struct data_split){0}));
    } else if (p->arch->clicks) {
        TRY(clicks_split(s->data, val_fraction, &s->train, &s->val));
    } else if (s->val_data) {
        TRY(data_split_whole(s->data, p->seq, &s->train));
        TRY(data_split_whole(s->val_data, p->seq, &s->val));
    } else {
        TRY(data_split_tail(s->data, p->seq, val_fraction, &s->train, &s->val));
    }
    int64_t samples = data_split_samples(&s->train);
    if (samples >= p->global_batch) return OK;
    return FAIL(E_DATA,
                "%s has %" PRId64 " training samples of seq=%" PRId64
                " tokens, fewer than one batch: global-batch=%" PRId64
                "; use a longer text, a smaller batch or a shorter seq",
                data_path(s->data), samples, p->seq, p->global_batch);
}

/* ---- the planner's part ---- */
enum status setup_cluster(const struct plan *plan, struct cluster *out) {
    const char *usual = plan->device == PLAN_DEVICE_CUDA ? "dgx-a100" : "cpu-2core";
    const char *name = train_options(plan)->cluster;
    TRY(cluster_read(name[0] ? name : usual, out));
    cluster_limit_memory(out, (int64_t)(plan->memory_limit * (1 << 20)));
    return OK;
}

enum status setup_trace(struct run *r, int64_t n_steps, struct trace **out) {
    static_assert((int)MAX_TRACE_LEVELS >= (int)MAX_LEVELS, "a cluster may have more levels");
    struct cluster c = {0};
    struct trace_links links = {0};
    if (train_options(&r->plan)->cluster[0]) TRY(setup_cluster(&r->plan, &c));
    links.n = c.n_levels, links.rails = c.rails, links.host_bytes_per_s = c.host_bytes_per_s;
    for (int i = 0; i < c.n_levels; i++) {
        snprintf(links.level[i].name, sizeof links.level[i].name, "%s", c.level[i].name);
        links.level[i].ranks = c.level[i].ranks, links.level[i].bytes_per_s = c.level[i].bytes_per_s;
    }
    return trace_create(r, n_steps, &links, out);
}

enum status setup_target(struct options *o, struct plan *plan, struct cluster *out) {
    if (!train_options(plan)->cluster[0]) TRY(options_set(o, "cluster", "dgx-a100", FROM_DATA));
    TRY(setup_cluster(plan, out));
    if (out->cores > 0) return OK;
    TRY(options_set(o, "device", "cuda", FROM_PRESET));
    return options_set(o, "precision", "bf16", FROM_PRESET);
}

static int threads_of(const struct plan *plan, int local_ranks) {
    int cores = (int)comm_local_cores(), threads = (int)plan->threads;
    if (threads == 0 && getenv("OMP_NUM_THREADS")) threads = omp_get_max_threads();
    if (threads == 0) threads = cores / local_ranks > 0 ? cores / local_ranks : 1;
    return threads;
}

/* Choose auto options with the run's number of threads, because each thread has scratch memory. On several hosts use
 * plan->threads, because the hosts' cores may differ and all ranks must choose alike. */
static enum status choose(struct plan *plan, int world) {
    struct cluster c;
    if (!choose_is_asked(plan)) return OK;
    char chosen[256];
    struct plan p = *plan;
    int64_t replica = p.mesh.tp * p.mesh.cp * p.mesh.pp;
    TRY(plan_settle_device(&p));
    TRY(setup_cluster(&p, &c));
    if (p.mesh.dp == 0 && world > 0 && replica > 0) p.mesh.dp = world / replica;
    if (world > 0 && comm_local_size() == comm_world_size()) p.threads = threads_of(plan, comm_local_size());
    TRY(choose_auto(plan->recipe, &c, &p, chosen, sizeof chosen));
    if (comm_is_rank_0()) log_info("auto: %s", chosen);
    p.mesh.dp = plan->mesh.dp, p.threads = plan->threads, p.device = plan->device, p.precision = plan->precision;
    *plan = p;
    return OK;
}

static enum status settle(struct plan *plan, int world) {
    log_set_level((enum log_level)train_options(plan)->log);
    TRY(choose(plan, world));
    return plan_settle(plan, world);
}

enum status setup_plan(struct options *o, struct plan *plan, int world) {
    TRY(setup_model(o, plan, world != 0));
    if (world == 0) TRY(settle_vocab(o, plan, NULL));
    return settle(plan, world);
}

enum status setup_init(struct setup *s, int argc, char **argv, int world) {
    memset(s, 0, sizeof *s);
    TRY(recipe_options_create(NULL, &s->plan, &s->options));
    TRY(options_parse(s->options, argc, argv));
    return setup_open(s, world);
}

enum status setup_open(struct setup *s, int world) {
    TRY(setup_read(s));
    return setup_settle(s, world);
}

/* Read ahead the file that an option names: --server-order FILE, --schedule file:PATH. The option's module parses the
 * file later, and reports its errors. */
static void keep_file(void *self, const struct option *o, const char *text, enum option_source source) {
    (void)self, (void)source;
    const char *path = NULL;
    if (o->type == OPTION_TEXT && strcmp(o->unit, "file") == 0 && *text) path = text;
    if (o->type == OPTION_CHOICE && strstr(o->choices, ":PATH") && strchr(text, ':')) path = strchr(text, ':') + 1;
    if (path) kept_early(path);
}

/* Read ahead the cluster file that auto options, --profile or --trace use. Without --cluster it is auto's default. */
static enum status keep_cluster(const struct plan *plan) {
    struct cluster c;
    struct plan p = *plan;
    const struct train_options *o = train_options(&p);
    if (!choose_is_asked(&p) && !((o->profile || o->trace[0]) && o->cluster[0])) return OK;
    TRY(plan_settle_device(&p));
    return setup_cluster(&p, &c);
}

enum status setup_read(struct setup *s) {
    TRY(setup_model(s->options, &s->plan, true));
    options_each(s->options, keep_file, NULL);
    TRY(keep_cluster(&s->plan));
    return open_data(s);
}

enum status setup_settle(struct setup *s, int world) {
    TRY(settle(&s->plan, world));
    TRY(check_bytes(s));
    TRY(check_own_tokens(&s->plan, s->data));
    return split_data(s);
}

void setup_fini(struct setup *s) {
    if (s->is_borrowed) return;
    data_close(&s->data);
    data_close(&s->val_data);
    options_destroy(&s->options);
}

static int online_cores(void) { return (int)sysconf(_SC_NPROCESSORS_ONLN); }

int setup_allowed_cores(void) { return (int)fmax(1, cores_allowed()); }

const char *setup_binding(void) {
    static char text[64];
    unsigned char mask[CORES_MASK_BYTES];
    int allowed = cores_mask(mask), cores = online_cores();
    double quota = cores_quota("");
    if (quota < allowed) snprintf(text, sizeof text, "a quota of %.3g of %d cores", quota, cores);
    else if (allowed >= cores) snprintf(text, sizeof text, "free on %d core%s", cores, cores == 1 ? "" : "s");
    else snprintf(text, sizeof text, "bound to %d of %d cores", allowed, cores);
    return text;
}

int setup_threads(const struct plan *plan, int local_ranks) {
    int threads = threads_of(plan, local_ranks), allowed = setup_allowed_cores();
    if (allowed < threads)
        log_warn("%d threads, but this rank may use %d core%s (affinity mask, cgroup quota); start with --bind-to "
                 "none, raise the quota, or set threads", threads, allowed, allowed == 1 ? "" : "s");
    omp_set_num_threads(threads);
    return threads;
}
