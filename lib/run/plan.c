/* plan_settle: compute the open values of a requested plan, and check all values. */
#include "lib/run/recipe.h"

#include "lib/base/integer.h"
#include "lib/device/device.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>

/* For each technique t that the plan uses */
#define EACH_WANTED(p, t) \
    for (int i_ = 0; (p)->recipe && i_ < (p)->recipe->n_techniques; i_++) \
        for (const struct technique *t = (p)->recipe->techniques[i_]; t && t->wanted(p); t = NULL)

enum dtype plan_dtype(const struct plan *p) { return p->precision == PRECISION_FP64 ? FP64 : FP32; }
enum dtype plan_product_dtype(const struct plan *p) {
    return p->precision == PRECISION_BF16 ? BF16 : p->precision == PRECISION_FP16 ? FP16 : plan_dtype(p);
}

int64_t plan_vocab_rows(const struct plan *p, int64_t parts) {
    int64_t rows = ceil_div(p->vocab, parts);
    return p->device == PLAN_DEVICE_CUDA ? round_up(rows, 64) : rows;
}

const char *plan_divisors(int64_t n, int64_t limit) {
    static char text[256];
    size_t used = 0;
    text[0] = 0;
    for (int64_t d = 1; d <= n && d <= limit && used + 24 < sizeof text; d++)
        if (n % d == 0) used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64, used ? ", " : "", d);
    return text;
}

/* What would be refused with the ranks that it needs, too, is refused for that reason. */
static enum status check_with_its_ranks(struct plan p) {
    TRY(plan_settle(&p, 0));
    EACH_WANTED(&p, t) TRY(t->check ? t->check(&p) : OK);
    return OK;
}

static enum status settle_world(struct plan *p, int world) {
    char text[128];
    int64_t *dp = &p->mesh.dp;
    double n = mesh_n_ranks(&p->mesh);                               /* with dp=0: the ranks of one replica */
    if (*dp == 0 && world > 0) {
        if (fmod(world, n) != 0) {
            TRY(check_with_its_ranks(*p));
            return FAIL(E_CONFIG, "%s needs a multiple of %.0f ranks, and there are %d; use `trivium launch -n %.0f`",
                        mesh_sizes_text(&p->mesh, text, sizeof text), n, world, n);
        }
        *dp = world / (int64_t)n;
    }
    for (int d = 0; d < N_DIMS; d++)
        if (p->mesh.at[d] == 0) p->mesh.at[d] = 1;
    n = mesh_n_ranks(&p->mesh);
    if (n > INT_MAX)
        return FAIL(E_CONFIG, "%s needs %.0f ranks, and the limit is %d; use smaller sizes",
                    mesh_sizes_text(&p->mesh, text, sizeof text), n, INT_MAX);
    if (world <= 0 || n == world) return OK;
    TRY(check_with_its_ranks(*p));
    return FAIL(E_CONFIG, "%s needs %.0f ranks, and there are %d; use `trivium launch -n %.0f` (or as many slots of "
                "--host), or leave --dp out", mesh_sizes_text(&p->mesh, text, sizeof text), n, world, n);
}

const char *plan_synchronous_option(const struct plan *p) {
    EACH_WANTED(p, t) {
        const char *option = t->asynchronous ? t->asynchronous(p) : NULL;
        if (option) return option;
    }
    return NULL;
}

bool plan_is_asynchronous(const struct plan *p) { return plan_synchronous_option(p) != NULL; }

int64_t plan_serving(const struct plan *p) {
    int64_t n = 0;
    EACH_WANTED(p, t) n += t->serving ? t->serving(p) : 0;
    return n;
}

static enum status settle_mesh(struct plan *p) {
    EACH_WANTED(p, t) TRY(t->settle ? t->settle(p) : OK);
    return OK;
}

static int64_t chosen_micro_batch(const struct plan *p, int64_t share) {
    EACH_WANTED(p, t)
        if (t->micro_batch) return t->micro_batch(p, share);
    return share;
}

static enum status settle_batch(struct plan *p) {
    int64_t n = p->workers = p->mesh.dp - plan_serving(p), below = p->global_batch / n * n;
    if (below != p->global_batch)
        return FAIL(E_CONFIG, "dp=%" PRId64 "%s does not divide global-batch=%" PRId64 "; use global-batch %" PRId64
                    ", or dp %" PRId64,
                    n, n < p->mesh.dp ? " (without those that only serve)" : "", p->global_batch, below + n,
                    common_divisor(n, p->global_batch) + p->mesh.dp - n);
    int64_t share = p->global_batch / n;
    if (p->micro_batch == PLAN_AUTO) return FAIL(E_CONFIG, "nothing chooses micro-batch=auto here; give a number");
    if (p->micro_batch == 0) p->micro_batch = chosen_micro_batch(p, share);
    if (share % p->micro_batch)
        return FAIL(E_CONFIG, "micro-batch=%" PRId64 " does not divide global-batch / dp = %" PRId64 "; use one of %s",
                    p->micro_batch, share, plan_divisors(share, PLAN_MAX_MICROBATCHES));
    if (share / p->micro_batch > PLAN_MAX_MICROBATCHES)
        return FAIL(E_CONFIG, "%" PRId64 " microbatches per step; the limit is %d: raise micro-batch",
                    share / p->micro_batch, PLAN_MAX_MICROBATCHES);
    p->n_microbatches = (int)(share / p->micro_batch);
    return OK;
}

/* Each chunk reads the head's whole weight and gradient again, so a small chunk is slow. In 16 bits a smaller chunk is
 * best, because its logits fit into caches (docs/benchmarks/). */
static int64_t chosen_loss_chunk(const struct plan *p) {
    bool narrow = p->precision == PRECISION_BF16 || p->precision == PRECISION_FP16;
    return narrow || p->hidden > 1024 ? p->hidden : 1024;
}

/* Refuse a plan whose bytes overflow 64 bits. The bound is more than a layer stores for a token: 24 rows of hidden, 4
 * rows of the MLP's hidden units, and 5 rows of T scores if scores are stored. */
static enum status check_countable(const struct plan *p) {
    double tokens = (double)p->micro_batch * p->n_microbatches * (double)p->seq;
    double scores = model_options(p)->attention == ATTENTION_MATERIALISED ? 5.0 * (double)p->heads * (double)p->seq : 0;
    double layer = 24.0 * (double)p->hidden + 4.0 * (double)plan_ffn(p) + scores;
    double numbers = (double)(p->layers + 1) * layer + 8.0 * (double)p->vocab;
    if (8 * tokens * numbers < 0x1p62) return OK;
    return FAIL(E_CONFIG,
                "a step of %.3g tokens per replica, with up to %.3g numbers each, is more than 64 bits can count; "
                "use a smaller global-batch, seq or model", tokens, numbers);
}

static void ask_techniques(struct plan *p) {
    EACH_WANTED(p, t)
        if (t->prefer) t->prefer(p);
}

/* Replace "auto" by this machine's device, and by the precision for it: bf16 on a GPU, which has tensor cores for it,
 * else fp32. */
enum status plan_settle_device(struct plan *p) {
    if (p->device == PLAN_DEVICE_AUTO) p->device = device_cuda_count() > 0 ? PLAN_DEVICE_CUDA : PLAN_DEVICE_CPU;
    if (p->precision == PRECISION_AUTO) p->precision = p->device == PLAN_DEVICE_CUDA ? PRECISION_BF16 : PRECISION_FP32;
    if (p->device == PLAN_DEVICE_CUDA && p->loss_chunk > 0)
        return FAIL(E_CONFIG,
                    "loss-chunk=%" PRId64 " is only there on the cpu, and device=cuda; leave it out, or use 0",
                    p->loss_chunk);
    if (p->device == PLAN_DEVICE_CUDA && p->gemm == PLAN_GEMM_PLAIN)
        return FAIL(E_CONFIG, "gemm=plain is only there on the cpu, and device=cuda; leave it out, or use device=cpu");
    if (p->device == PLAN_DEVICE_CPU && p->gemm_algorithms[0])
        return FAIL(E_CONFIG, "gemm-algorithms=%.64s is cuBLASLt's, and device=cpu; leave it out, or use device=cuda",
                    p->gemm_algorithms);
    ask_techniques(p);
    bool in_chunks = p->device == PLAN_DEVICE_CPU && p->sums == PLAN_SUMS_FAST;
    if (p->loss_chunk < 0) p->loss_chunk = in_chunks ? chosen_loss_chunk(p) : 0;
    if (p->device == PLAN_DEVICE_CPU && p->comm == PLAN_COMM_NCCL)
        return FAIL(E_CONFIG, "comm=nccl moves GPU memory, and device=cpu; use comm=mpi, or leave comm out");
    if (p->device == PLAN_DEVICE_CPU && p->attention_core == ATTENTION_CORE_CUDNN)
        return FAIL(E_CONFIG, "attention-core=cudnn is for GPUs, and device=cpu; leave attention-core out");
    return OK;
}

static enum status check_model(const struct plan *p) {
    const struct model_options *m = model_options(p);
    if (p->hidden % p->heads && !m->head_dim)
        return FAIL(E_CONFIG, "heads=%" PRId64 " does not divide hidden=%" PRId64 "; use one of %s", p->heads,
                    p->hidden, plan_divisors(p->hidden, 256));
    if (p->heads % plan_kv_heads(p))
        return FAIL(E_CONFIG, "kv-heads=%" PRId64 " does not divide heads=%" PRId64 "; use one of %s", m->kv_heads,
                    p->heads, plan_divisors(p->heads, 256));
    if (m->experts == 0) return OK;
    if (m->experts_per_token > m->experts)
        return FAIL(E_CONFIG, "experts-per-token=%" PRId64 " is more than experts=%" PRId64 "; use at most %" PRId64,
                    m->experts_per_token, m->experts, m->experts);
    if (plan_is_asynchronous(p))
        return FAIL(E_CONFIG,
                    "experts=%" PRId64 " have losses of every stage, which asynchronous steps cannot add up; use %s",
                    m->experts, plan_synchronous_option(p));
    return OK;
}

enum status plan_settle(struct plan *p, int world) {
    TRY(plan_settle_device(p));
    TRY(check_model(p));
    TRY(settle_world(p, world));
    TRY(settle_mesh(p));
    TRY(settle_batch(p));
    TRY(plan_check_sums(p));
    TRY(plan_check_codec(p));
    TRY(check_countable(p));
    TRY(plan_settle_comm(p));
    if (p->min_lr < 0) p->min_lr = p->lr / 10;
    if (p->recipe && p->recipe->job) TRY(p->recipe->job->check(p));
    if (p->min_lr > p->lr)
        return FAIL(E_CONFIG, "min-lr=%g is above lr=%g; lower it, or leave it out for lr / 10", p->min_lr, p->lr);
    p->settled = true;
    return OK;
}

void plan_place(struct plan *p, int rank) { p->place = mesh_place_of(&p->mesh, rank); }

double plan_lr(const struct plan *p, int64_t n_step) {
    if (n_step < p->warmup) return p->lr * (double)(n_step + 1) / (double)p->warmup;
    if (p->steps - 1 <= p->warmup) return p->lr;
    double done = (double)(n_step - p->warmup) / (double)(p->steps - 1 - p->warmup);
    if (done > 1) done = 1;
    return p->min_lr + (p->lr - p->min_lr) * 0.5 * (1 + cos(3.14159265358979323846 * done));
}
