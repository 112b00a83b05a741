#include "lib/run/recipe.h"

#include "lib/base/integer.h"
#include "lib/device/device.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#define AT(field) offsetof(struct plan, field)
#define BIG 1e15

static const struct option OPTIONS[] = {
    {"model", OPTION_TEXT, "tiny", 0, 0, NULL, "",
     "preset: tiny, gpt2-124m, gpt2-350m, gpt2-774m, gpt2-1558m, gpt3-125m ... gpt3-175b, tinyllama-1.1b, llama2-7b, "
     "llama2-13b, llama2-70b, llama3-8b, llama3-70b, mixtral-8x7b, bert-base, bert-large, t5-small, t5-base, "
     "t5-large, dlrm-criteo, wide-deep; sizes below override it",
     "model", AT(model)},
    {"arch", OPTION_TEXT, "", 0, 0, NULL, "",
     "gpt, llama, mixtral, bert, t5, dlrm or wide-deep: which of the presets of that name is meant, as all have a "
     "tiny one; without it the first",
     "model", AT(arch_name)},
    {"layers", OPTION_INT, NULL, 1, 10000, NULL, "", "transformer layers; of t5 half encode, half decode", "model",
     AT(layers)},
    {"hidden", OPTION_INT, NULL, 1, 1e6, NULL, "channels", "width of the residual stream", "model", AT(hidden)},
    {"heads", OPTION_INT, NULL, 1, 1e6, NULL, "", "attention heads; must divide hidden", "model", AT(heads)},
    {"kv-heads", OPTION_INT, "0", 0, 1e6, NULL, "",
     "llama: heads of keys and values, each shared by as many heads (grouped-query attention); must divide heads; 0: "
     "as many as heads",
     "model", AT(kv_heads)},
    {"ffn", OPTION_INT, "0", 0, 1e7, NULL, "channels", "hidden units of the MLP; 0: 4 hidden", "model", AT(ffn)},
    {"rope-theta", OPTION_INT, "10000", 2, 1e12, NULL, "", "llama: base of the angles of rotary positions", "model",
     AT(rope_theta)},
    {"experts", OPTION_INT, "0", 0, 1e6, NULL, "",
     "experts of each layer, in place of one MLP; a router sends each token to some of them; 0: a dense MLP", "model",
     AT(experts)},
    {"experts-per-token", OPTION_INT, "2", 1, 1e6, NULL, "", "experts that a token is sent to", "model",
     AT(experts_per_token)},
    {"moe-group", OPTION_INT, "0", 0, 16777216, NULL, "tokens",
     "neighboring tokens of a sample that compete for the places of an expert; 0: seq, at most 256", "model",
     AT(moe_group)},
    {"capacity", OPTION_REAL, "1.25", 0, 1e6, NULL, "",
     "places of an expert in a group: capacity x group x experts-per-token / experts, rounded up; tokens beyond are "
     "dropped; 0: none is, at experts / experts-per-token times the memory unless --moe-packed",
     "model", AT(capacity)},
    {"moe-packed", OPTION_BOOL, "off", 0, 0, NULL, "",
     "rows of experts directly after one another, without empty places: with --capacity 0 dropless, at the cost of the "
     "rows that there are",
     "model", AT(moe_packed)},
    {"aux-loss", OPTION_REAL, "0.01", 0, 1e6, NULL, "", "weight of the loss that evens out the load of experts",
     "model", AT(aux_loss)},
    {"z-loss", OPTION_REAL, "0.001", 0, 1e6, NULL, "", "weight of the loss that keeps the router's logits small",
     "model", AT(z_loss)},
    {"seq", OPTION_INT, NULL, 1, 1e9, NULL, "tokens", "sequence length", "model", AT(seq)},
    {"vocab", OPTION_INT, NULL, 1, 2e9, NULL, "tokens", "vocabulary; the preset's, else the data's (256 for text)",
     "model", AT(vocab)},
    {"dropout", OPTION_REAL, "0", 0, 0.999, NULL, "", "probability of dropping: embedding, attention, both residuals",
     "model", AT(dropout)},
    {"attention", OPTION_CHOICE, "blocked", 0, 0, "blocked|materialised", "",
     "blocked never stores T x T; materialised does, for teaching", "model", AT(attention)},
    {"tie", OPTION_BOOL, "on", 0, 0, NULL, "",
     "the head's matrix is the embedding's, as in GPT-2; off: a matrix of its own, which asynchronous pipelines need",
     "model", AT(tie)},

    {"dropout-masks", OPTION_CHOICE, "redraw", 0, 0, "redraw|store", "",
     "redraw draws them again in backward, from the counter; store keeps them, as most frameworks do, and materialised "
     "attention's dropped probabilities (blocked attention always redraws: it stores nothing T x T)",
     "model", AT(dropout_masks)},

    {"loss-chunk", OPTION_INT, "-1", -1, 1e12, NULL, "tokens",
     "tokens of a microbatch whose logits exist at a time, so that head and loss are one operation (cpu only). 0: all "
     "of them, two operations; -1: on cpu as many as hidden, in fp32 and fp64 at least 1024, else 0",
     "model", AT(loss_chunk)},

    {"steps", OPTION_INT, "100", 1, BIG, NULL, "steps", "optimizer steps", "training", AT(steps)},
    {"global-batch", OPTION_INT, "8", 1, 1e12, NULL, "sequences", "sequences per step, over all ranks", "training",
     AT(global_batch)},
    {"micro-batch", OPTION_INT, "0", PLAN_AUTO, 1e12, "auto", "sequences",
     "sequences per microbatch of a rank; 0: all of its share, or at least 2 pp microbatches; auto: the fastest on the "
     "cluster that memory-limit has room for",
     "training", AT(micro_batch)},
    {"lr", OPTION_REAL, "1e-3", 0, 1e6, NULL, "", "peak learning rate", "training", AT(lr)},
    {"min-lr", OPTION_REAL, "-1", -1, 1e6, NULL, "", "learning rate at the last step; -1: lr / 10", "training",
     AT(min_lr)},
    {"warmup", OPTION_INT, "0", 0, BIG, NULL, "steps", "linear warmup", "training", AT(warmup)},
    {"weight-decay", OPTION_REAL, "0.1", 0, 1e6, NULL, "", "decoupled; on matrices only", "training", AT(weight_decay)},
    {"beta1", OPTION_REAL, "0.9", 0, 0.999999, NULL, "", "Adam: decay of the first moment", "training", AT(beta1)},
    {"beta2", OPTION_REAL, "0.95", 0, 0.999999999, NULL, "", "Adam: decay of the second moment", "training", AT(beta2)},
    {"eps", OPTION_REAL, "1e-8", 0, 1, NULL, "", "Adam: added to the root of the second moment", "training", AT(eps)},
    {"clip", OPTION_REAL, "1", 0, 1e12, NULL, "", "largest global gradient norm; 0: no clipping", "training", AT(clip)},
    {"seed", OPTION_INT, "1234", 0, BIG, NULL, "", "initial weights, dropout and the order of samples follow from it",
     "training", AT(seed)},

    {"precision", OPTION_CHOICE, "auto", 0, 0, "fp32|fp64|bf16|fp16|auto", "",
     "what the model computes in; bf16 and fp16 keep fp32 master weights; auto: bf16 on cuda, fp32 on cpu", "precision",
     AT(precision)},

    {"sums", OPTION_CHOICE, "fast", 0, 0, "fast|fixed", "",
     "fixed: the same bits in every layout, losses and weights, whatever dp, tp, pp, zero, schedule, micro-batch and "
     "threads are; costs time and memory (cpu; fp32, or bf16 with grad-fp32; powers of two)",
     "precision", AT(sums)},

    {"dp", OPTION_INT, "0", 0, 1e7, NULL, "ranks", "data parallel replicas; 0: world / (tp cp pp)", "parallelism",
     AT(mesh.dp)},
    {"tp", OPTION_INT, "1", 1, 1e6, NULL, "ranks", "tensor parallel size; must divide heads", "parallelism",
     AT(mesh.tp)},
    {"cp", OPTION_INT, "1", 1, 1e6, NULL, "ranks", "context parallel size: shards of the sequence", "parallelism",
     AT(mesh.cp)},
    {"cp-heads", OPTION_INT, "1", 1, 1e6, NULL, "ranks",
     "of cp's ranks, this many neighbors shard heads, and the rest is a ring, or gathers (USP); divides cp",
     "parallelism", AT(mesh.cp_heads)},
    {"ep", OPTION_INT, "1", 1, 1e6, NULL, "ranks",
     "expert parallel size: this many neighbors of the dp x cp replicas shard the experts; adds no ranks",
     "parallelism",
     AT(mesh.ep)},
    {"pp", OPTION_INT, "1", 1, PLAN_MAX_STAGES, NULL, "ranks", "pipeline stages", "parallelism", AT(mesh.pp)},
    {"bucket-mb", OPTION_REAL, "25", 0.000001, 1e6, NULL, "MiB", "dp, zero: size of a gradient bucket", "parallelism",
     AT(bucket_mb)},
    {"grad-codec", OPTION_CHOICE, "none", 0, 0, "none|bf16|fp16|int8|sign|topk", "",
     "dp, zero: send gradients as bf16, as fp16, in blocks of int8, as signs, or only the largest", "parallelism",
     AT(grad_codec)},
    {"grad-feedback", OPTION_CHOICE, "auto", 0, 0, "auto|on|off", "",
     "grad-codec: add what a code has rounded away to the next step's gradient; auto: for sign and topk", "parallelism",
     AT(grad_feedback)},
    {"topk", OPTION_REAL, "1", 0.001, 100, NULL, "percent",
     "grad-codec topk: send the largest PERCENT of the gradients", "parallelism", AT(topk)},
    {"offload-path", OPTION_TEXT, "", 0, 0, NULL, "",
     "offload-to=disk: a folder on a local disk; each rank has a file there, as large as what it offloads, that no one "
     "else sees", "parallelism", AT(offload_path)},
    {"offload-io", OPTION_CHOICE, "auto", 0, 0, "auto|uring|threads", "",
     "offload-to=disk: who reads and writes; auto: io_uring where the build and the system have it", "parallelism",
     AT(offload_io)},
    {"offload-window", OPTION_REAL, "24", 0.05, 1e6, NULL, "MiB",
     "offload: host memory of a rank in which its update reads, computes and writes, a third each", "parallelism",
     AT(offload_window)},

    {"device", OPTION_CHOICE, "auto", 0, 0, "auto|cpu|cuda", "",
     "where ranks compute; auto: cuda where this machine has a GPU. Rank r of a host takes GPU r modulo their number",
     "machine", AT(device)},
    {"comm", OPTION_CHOICE, "auto", 0, 0, "auto|mpi|nccl", "",
     "cuda: transport of device memory; mpi stages it through the host, and lets ranks share a GPU; auto: nccl "
     "where each rank has a GPU",
     "machine", AT(comm)},
    {"attention-core", OPTION_CHOICE, "auto", 0, 0, "auto|own|cudnn", "",
     "cuda, blocked attention: this project's own kernels, or cuDNN's; auto: cuDNN's where it has them", "machine",
     AT(attention_core)},
    {"fuse", OPTION_BOOL, "on", 0, 0, NULL, "", "run neighboring operations as one kernel where there is one",
     "machine", AT(fuse)},
    {"gemm", OPTION_CHOICE, "packed", 0, 0, "packed|plain", "",
     "cpu: matrix products by fast packed kernels, or by three plain loops that can be read in a minute and take much "
     "longer",
     "machine", AT(gemm)},
    {"comm-timeout", OPTION_REAL, "600", 0.1, 1e7, NULL, "s", "deadline of every wait for a peer", "machine",
     AT(comm_timeout)},
    {"comm-algorithm", OPTION_TEXT, "auto", 0, 0, NULL, "",
     "how collectives on host memory go (show comm): library, pairwise, ring, halving, halving-near, doubling, tree, "
     "double-tree, hierarchical or main. auto: large sums and gathers pairwise, the rest by the MPI library; with "
     "link-inside or link-between what is fastest by simulation. Or by axis: dp=hierarchical,tp=ring",
     "machine", AT(comm_algorithm)},
    {"ranks-per-node", OPTION_INT, "0", 0, 1e6, NULL, "ranks",
     "emulate nodes of this many ranks: for what depends on nodes, and is counted by them; 0: nodes are hosts, and "
     "in show mesh 8 ranks",
     "machine",
     AT(ranks_per_node)},
    {"link-inside", OPTION_TEXT, "", 0, 0, NULL, "",
     "emulate links within a node: latency and bandwidth, such as 20us,10GB/s; empty: as they are", "machine",
     AT(link_inside)},
    {"link-between", OPTION_TEXT, "", 0, 0, NULL, "",
     "emulate links between nodes: latency, bandwidth, and whether each rank has its own NIC or a node's ranks share "
     "one: 2ms,50MB/s,node; empty: as they are",
     "machine", AT(link_between)},
    {"placement", OPTION_CHOICE, "block", 0, 0, "block|cyclic", "",
     "of ranks on emulated nodes: neighbors on one node, or dealt round the nodes", "machine", AT(placement)},
    {"threads", OPTION_INT, "0", 0, 4096, NULL, "",
     "OpenMP threads per rank; 0: cores / ranks of this host, and in show 1", "machine", AT(threads)},
    {"check-collectives", OPTION_BOOL, "off", 0, 0, NULL, "",
     "compare operation, count and dtype across the group before each collective", "machine", AT(check_collectives)},
    {"check-types", OPTION_BOOL, "on", 0, 0, NULL, "",
     "before anything runs, refuse a program whose tensors do not fit together (show types); off: to see what a "
     "mistake does", "machine", AT(check_types)},
    {"cluster", OPTION_TEXT, "", 0, 0, NULL, "",
     "what plan, auto and compare's predictions are computed for: a file, or one of configs/clusters by its name; "
     "empty: cpu-2core on a CPU, dgx-a100 on GPUs; compare: no predictions",
     "machine", AT(cluster)},
    {"memory-limit", OPTION_REAL, "0", 0, 1e12, NULL, "MiB",
     "a run with a rank that needs more device memory is refused, and auto chooses within it; 0: no limit but the "
     "cluster's",
     "machine", AT(memory_limit)},
    {"peak-tflops", OPTION_REAL, "0", 0, 1e9, NULL, "TFLOP/s", "peak of the whole job, for mfu; 0: measured", "machine",
     AT(peak_tflops)},

    {"data", OPTION_TEXT, "", 0, 0, NULL, "",
     "text, llm.c .bin or Megatron .bin (with its .idx beside it); several of a kind: a,b or a pattern; empty: "
     "configs/demo.txt",
     "data", AT(data)},
    {"val-data", OPTION_TEXT, "", 0, 0, NULL, "", "validation file; empty: the last val-fraction of data", "data",
     AT(val_data)},
    {"tokenizer", OPTION_TEXT, "", 0, 0, NULL, "",
     "folder of a byte-level BPE (vocab.json, merges.txt) that makes tokens of text data; empty: a token is a byte",
     "data", AT(tokenizer)},
    {"val-fraction", OPTION_REAL, "0.1", 0, 0.9, NULL, "", "part of data held out; 0: no evaluation", "data",
     AT(val_fraction)},
    {"eval-every", OPTION_INT, "250", 0, BIG, NULL, "steps",
     "evaluate every N steps and after the last; 0: only after the last", "data", AT(eval_every)},
    {"eval-batches", OPTION_INT, "0", 0, BIG, NULL, "batches",
     "global batches of an evaluation; 0: all of the validation data", "data", AT(eval_batches)},

    {"save", OPTION_TEXT, "", 0, 0, NULL, "",
     "folder for checkpoints: after the last step, and each save-every; empty: none", "checkpoints", AT(save)},
    {"save-every", OPTION_INT, "0", 0, BIG, NULL, "steps", "save every N steps as well; 0: only after the last",
     "checkpoints", AT(save_every)},
    {"save-async", OPTION_BOOL, "off", 0, 0, NULL, "",
     "copy the state and continue training while a thread writes it; costs memory for the copy", "checkpoints",
     AT(save_async)},
    {"keep", OPTION_INT, "2", 0, BIG, NULL, "", "newest checkpoints that are kept; 0: all", "checkpoints", AT(keep)},
    {"spike-guard", OPTION_REAL, "0", 0, 1e6, NULL, "",
     "if the loss exceeds the mean of the last 64 by X standard deviations, or is not finite: restore the last "
     "checkpoint and skip the samples since; 0: off",
     "checkpoints", AT(spike_guard)},
    {"time-limit", OPTION_REAL, "0", 0, 1e9, NULL, "s",
     "save and exit with code 75 after this time; 0: none. SIGUSR1 requests the same at any time", "checkpoints",
     AT(time_limit)},
    {"mtbf", OPTION_REAL, "0", 0, 1e12, NULL, "s",
     "mean time between failures of the machines in use: the summary then says how often to save; 0: unknown",
     "checkpoints", AT(mtbf)},
    {"resume", OPTION_TEXT, "", 0, 0, NULL, "",
     "continue from a checkpoint, saved in any layout: a step's folder, or what save named", "checkpoints", AT(resume)},
    {"init", OPTION_TEXT, "", 0, 0, NULL, "", "start from a checkpoint's weights, at step 0", "checkpoints", AT(init)},

    {"metrics", OPTION_TEXT, "metrics.jsonl", 0, 0, NULL, "", "one JSON object per line; empty: none", "output",
     AT(metrics)},
    {"metrics-append", OPTION_BOOL, "off", 0, 0, NULL, "",
     "append to the metrics file, as a restart does; where a step occurs twice, the later row counts", "output",
     AT(metrics_append)},
    {"profile", OPTION_BOOL, "off", 0, 0, NULL, "",
     "at the end, where rank 0's time went: each operation, forward and backward", "output", AT(profile)},
    {"trace", OPTION_TEXT, "", 0, 0, NULL, "",
     "file for a time line of some steps, all ranks on one clock: Perfetto's (and Chrome's) JSON; cpu only; empty: "
     "none",
     "output", AT(trace)},
    {"trace-first", OPTION_INT, "0", 0, BIG, NULL, "step",
     "the first step that is traced, counted from 1; 0: this run's third, or earlier in a run too short for that",
     "output", AT(trace_first)},
    {"trace-steps", OPTION_INT, "2", 1, 1000, NULL, "steps", "how many are traced", "output", AT(trace_steps)},
    {"inject", OPTION_TEXT, "", 0, 0, NULL, "",
     "slow=RANK,FACTOR: this rank takes FACTOR times as long to compute, to see what a slow machine does to the rest; "
     "link=RANK,FACTOR: its emulated links are FACTOR times as slow; cpu only; empty: none",
     "output", AT(inject)},
    {"log", OPTION_CHOICE, "info", 0, 0, "quiet|warn|info|debug", "", "verbosity of the log", "output", AT(log)},
};
const struct option_table plan_options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};

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

static enum status settle_world(struct plan *p, int world) {
    char text[128];
    int64_t *dp = &p->mesh.dp;
    double n = mesh_n_ranks(&p->mesh);                               /* with dp=0: of one replica */
    if (*dp == 0 && world > 0) {
        if (fmod(world, n) != 0)
            return FAIL(E_CONFIG,
                        "%s needs a multiple of %.0f ranks, and there are %d; start that many, or use smaller sizes",
                        mesh_sizes_text(&p->mesh, text, sizeof text), n, world);
        *dp = world / (int64_t)n;
    }
    for (int d = 0; d < N_DIMS; d++)
        if (p->mesh.at[d] == 0) p->mesh.at[d] = 1;
    n = mesh_n_ranks(&p->mesh);
    if (n > INT_MAX)
        return FAIL(E_CONFIG, "%s needs %.0f ranks, and the limit is %d; use smaller sizes",
                    mesh_sizes_text(&p->mesh, text, sizeof text), n, INT_MAX);
    if (world > 0 && n != world)
        return FAIL(E_CONFIG,
                    "%s needs %.0f ranks, and there are %d; use `trivium launch -n %.0f` (or so many slots of --host), "
                    "or leave --dp out",
                    mesh_sizes_text(&p->mesh, text, sizeof text), n, world, n);
    return OK;
}

bool plan_is_asynchronous(const struct plan *p) {
    for (int i = 0; p->recipe && i < p->recipe->n_techniques; i++) {
        const struct technique *t = p->recipe->techniques[i];
        if (t->asynchronous && t->wanted(p) && t->asynchronous(p)) return true;
    }
    return false;
}

int64_t plan_serving(const struct plan *p) {
    int64_t n = 0;
    for (int i = 0; p->recipe && i < p->recipe->n_techniques; i++) {
        const struct technique *t = p->recipe->techniques[i];
        if (t->serving && t->wanted(p)) n += t->serving(p);
    }
    return n;
}

static enum status settle_mesh(struct plan *p) {
    for (int i = 0; p->recipe && i < p->recipe->n_techniques; i++) {
        const struct technique *t = p->recipe->techniques[i];
        if (t->settle && t->wanted(p)) TRY(t->settle(p));
    }
    return OK;
}

static int64_t chosen_micro_batch(const struct plan *p, int64_t share) {
    for (int i = 0; p->recipe && i < p->recipe->n_techniques; i++) {
        const struct technique *t = p->recipe->techniques[i];
        if (t->micro_batch && t->wanted(p)) return t->micro_batch(p, share);
    }
    return share;
}

static enum status settle_batch(struct plan *p) {
    int64_t n = p->workers = p->mesh.dp - plan_serving(p), below = p->global_batch / n * n;
    if (below != p->global_batch)
        return FAIL(E_CONFIG, "dp=%" PRId64 "%s does not divide global-batch=%" PRId64 "; use global-batch %" PRId64,
                    n, n < p->mesh.dp ? " (without those that only serve)" : "", p->global_batch, below + n);
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

/* Each chunk goes through the whole vocabulary's weights and their gradient once more: few tokens are slow. In 16 bits,
 * where the chunk's logits then fit into caches, fewer are best (docs/benchmarks/). */
static int64_t chosen_loss_chunk(const struct plan *p) {
    bool narrow = p->precision == PRECISION_BF16 || p->precision == PRECISION_FP16;
    return narrow || p->hidden > 1024 ? p->hidden : 1024;
}

/* Bytes are counted in 64 bits from here on. More than a layer keeps of a token: 24 rows of hidden, 4 of the MLP's
 * hidden units, and 5 of a T x T score if it is stored. */
static enum status check_countable(const struct plan *p) {
    double tokens = (double)p->micro_batch * p->n_microbatches * (double)p->seq;
    double scores = p->attention == ATTENTION_MATERIALISED ? 5.0 * (double)p->heads * (double)p->seq : 0;
    double layer = 24.0 * (double)p->hidden + 4.0 * (double)plan_ffn(p) + scores;
    double numbers = (double)(p->layers + 1) * layer + 8.0 * (double)p->vocab;
    if (8 * tokens * numbers < 0x1p62) return OK;
    return FAIL(E_CONFIG,
                "a step of %.3g tokens per replica, with up to %.3g numbers each, is more than 64 bits can count; "
                "use a smaller global-batch, seq or model",
                tokens, numbers);
}

static void ask_techniques(struct plan *p) {
    for (int i = 0; p->recipe && i < p->recipe->n_techniques; i++) {
        const struct technique *t = p->recipe->techniques[i];
        if (t->prefer && t->wanted(p)) t->prefer(p);
    }
}

/* "auto" becomes what this machine has. The two that follow from each other: fp64 and fp32 have no tensor cores to gain
 * by. */
enum status plan_settle_device(struct plan *p) {
    if (p->device == PLAN_DEVICE_AUTO) p->device = device_cuda_count() > 0 ? PLAN_DEVICE_CUDA : PLAN_DEVICE_CPU;
    if (p->precision == PRECISION_AUTO) p->precision = p->device == PLAN_DEVICE_CUDA ? PRECISION_BF16 : PRECISION_FP32;
    if (p->device == PLAN_DEVICE_CUDA && p->trace[0])
        return FAIL(E_CONFIG,
                    "trace=%.64s times rows as they return, and device=cuda only queues them; leave it out, and use "
                    "nsys",
                    p->trace);
    if (p->device == PLAN_DEVICE_CUDA && p->loss_chunk > 0)
        return FAIL(E_CONFIG,
                    "loss-chunk=%" PRId64 " is only there on the cpu, and device=cuda; leave it out, or use 0",
                    p->loss_chunk);
    if (p->device == PLAN_DEVICE_CUDA && p->gemm == PLAN_GEMM_PLAIN)
        return FAIL(E_CONFIG, "gemm=plain is only there on the cpu, and device=cuda; leave it out, or use device=cpu");
    ask_techniques(p);
    bool in_chunks = p->device == PLAN_DEVICE_CPU && p->sums == PLAN_SUMS_FAST;
    if (p->loss_chunk < 0) p->loss_chunk = in_chunks ? chosen_loss_chunk(p) : 0;
    if (p->device == PLAN_DEVICE_CPU && p->comm == PLAN_COMM_NCCL)
        return FAIL(E_CONFIG, "comm=nccl moves GPU memory, and device=cpu; use comm=mpi, or leave comm out");
    if (p->device == PLAN_DEVICE_CPU && p->attention_core == ATTENTION_CORE_CUDNN)
        return FAIL(E_CONFIG, "attention-core=cudnn is for GPUs, and device=cpu; leave attention-core out");
    return OK;
}

static enum status check_experts(const struct plan *p) {
    if (p->experts == 0) return OK;
    if (p->experts_per_token > p->experts)
        return FAIL(E_CONFIG, "experts-per-token=%" PRId64 " is more than experts=%" PRId64 "; use at most that",
                    p->experts_per_token, p->experts);
    if (plan_is_asynchronous(p))
        return FAIL(E_CONFIG,
                    "experts=%" PRId64 " have losses of every stage, which an asynchronous schedule cannot give to "
                    "one step; use schedule=1f1b",
                    p->experts);
    return OK;
}

enum status plan_settle(struct plan *p, int world) {
    TRY(plan_settle_device(p));
    if (p->hidden % p->heads)
        return FAIL(E_CONFIG, "heads=%" PRId64 " does not divide hidden=%" PRId64 "; use one of %s", p->heads,
                    p->hidden, plan_divisors(p->hidden, 256));
    if (p->heads % plan_kv_heads(p))
        return FAIL(E_CONFIG, "kv-heads=%" PRId64 " does not divide heads=%" PRId64 "; use one of %s", p->kv_heads,
                    p->heads, plan_divisors(p->heads, 256));
    TRY(check_experts(p));
    TRY(settle_world(p, world));
    TRY(settle_mesh(p));
    TRY(settle_batch(p));
    TRY(plan_check_sums(p));
    TRY(plan_check_codec(p));
    TRY(check_countable(p));
    TRY(plan_settle_comm(p));
    if (p->min_lr < 0) p->min_lr = p->lr / 10;
    if (!p->trace[0] && p->trace_first > 0)
        return FAIL(E_CONFIG, "trace-first=%" PRId64 " without trace; give --trace a file, or leave it out",
                    p->trace_first);
    if (p->trace[0] && p->trace_first > p->steps)
        return FAIL(E_CONFIG,
                    "trace-first=%" PRId64 " is after the last step, and steps=%" PRId64 "; use a smaller one, or 0",
                    p->trace_first, p->steps);
    if (p->save_every > 0 && !p->save[0])
        return FAIL(E_CONFIG, "save-every=%" PRId64 ", and no place to save; give --save a folder", p->save_every);
    if (p->save_async && !p->save[0]) return FAIL(E_CONFIG, "save-async, and no place to save; give --save a folder");
    if (p->spike_guard > 0 && (!p->save[0] || p->save_every == 0))
        return FAIL(E_CONFIG,
                    "spike-guard=%g goes back to the last checkpoint, and none is made; give --save and --save-every",
                    p->spike_guard);
    if (p->time_limit > 0 && !p->save[0])
        return FAIL(E_CONFIG, "time-limit=%g s, and no place to save what is done by then; give --save a folder",
                    p->time_limit);
    if (p->resume[0] && p->init[0])
        return FAIL(E_CONFIG, "resume=%.64s continues a run, and init=%.64s begins one; give one of them", p->resume,
                    p->init);
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
