/* The options of a plan that are not one technique's or model's alone: in configuration files, on command lines, and in
 * docs/options.md. */
#include "lib/run/plan.h"

#include <stddef.h>

#define AT(field) offsetof(struct plan, field)
#define SHARED(field) (AT(own) + offsetof(struct shared_options, field))
#define BIG 1e15

static const struct option OPTIONS[] = {
    {"model", OPTION_TEXT, "tiny", 0, 0, NULL, "",
     "preset: tiny, gpt2-124m ... gpt2-1558m, gpt3-125m ... gpt3-175b, mt-nlg-530b, tinyllama-1.1b, llama2-7b ... "
     "llama2-70b, llama3-8b, llama3-70b, llama3.1-8b, llama3.2-1b, mistral-7b, mistral-nemo-12b, qwen2.5-0.5b, "
     "qwen2.5-7b, qwen3-0.6b ... qwen3-8b, olmo2-1b ... olmo2-13b, seed-oss-36b, smollm2-135m, mixtral-8x7b, "
     "qwen3-30b-a3b, qwen3-235b-a22b. Of other kinds: bert-base, bert-large, t5-small ... t5-11b, t5-v1_1-small ... "
     "t5-v1_1-xxl, flan-t5-small ... flan-t5-xxl, dlrm-criteo, wide-deep. Sizes below override it", "model", AT(model)},
    {"arch", OPTION_TEXT, "", 0, 0, NULL, "",
     "gpt, llama, mixtral, moe, gpt_oss, bert, t5, dlrm or wide-deep: the architecture to use when "
     "several define --model NAME "
     "(all define tiny); default: the first", "model", AT(arch_name)},
    {"layers", OPTION_INT, NULL, 1, 10000, NULL, "", "layers; of t5 half encode, half decode", "model", AT(layers)},
    {"hidden", OPTION_INT, NULL, 1, 1e6, NULL, "channels", "width of the residual stream", "model", AT(hidden)},
    {"heads", OPTION_INT, NULL, 1, 1e6, NULL, "", "attention heads; must divide hidden", "model", AT(heads)},
    {"kv-heads", OPTION_INT, "0", 0, 1e6, NULL, "",
     "llama: heads of keys and values, each shared by as many heads (grouped-query attention); must divide heads; 0: "
     "as many as heads", "model", SHARED(model.kv_heads)},
    {"head-dim", OPTION_INT, "0", 0, 1e6, NULL, "channels", "llama, t5: channels of a head; 0: hidden / heads", "model",
     SHARED(model.head_dim)},
    {"ffn", OPTION_INT, "0", 0, 1e7, NULL, "channels", "units of the MLP; 0: 4 hidden", "model", SHARED(model.ffn)},
    {"activation", OPTION_CHOICE, "auto", 0, 0, "auto|relu|gelu|gelu-tanh|geglu|swiglu", "",
     "of the MLP; auto: gpt gelu-tanh, bert gelu, t5 relu, llama swiglu. geglu and swiglu have 2 ffn units, of which "
     "half are factors", "model", SHARED(model.activation)},
    {"norm-eps", OPTION_REAL, "0", 0, 1e6, NULL, "", "added to a norm's variance; 0: bert 1e-12, t5 1e-6, others 1e-5",
     "model", SHARED(model.norm_eps)},
    {"experts", OPTION_INT, "0", 0, 1e6, NULL, "",
     "experts of each layer, in place of one MLP; a router sends each token to some of them; 0: a dense MLP", "model",
     SHARED(model.experts)},
    {"experts-per-token", OPTION_INT, "2", 1, 1e6, NULL, "", "experts that a token is sent to", "model",
     SHARED(model.experts_per_token)},
    {"moe-group", OPTION_INT, "0", 0, 16777216, NULL, "tokens",
     "neighboring tokens of a sample that compete for the places of an expert; 0: seq, at most 256", "model",
     SHARED(model.moe_group)},
    {"capacity", OPTION_REAL, "1.25", 0, 1e6, NULL, "",
     "places of an expert in a group: capacity x group x experts-per-token / experts, rounded up; tokens beyond are "
     "dropped; 0: none is, at experts / experts-per-token times the memory unless --moe-packed",
     "model", SHARED(model.capacity)},
    {"moe-packed", OPTION_BOOL, "off", 0, 0, NULL, "",
     "rows of experts directly after one another, without empty places: with --capacity 0 dropless, at the cost of the "
     "rows that there are", "model", SHARED(model.moe_packed)},
    {"aux-loss", OPTION_REAL, "0.01", 0, 1e6, NULL, "", "weight of the loss that evens out the load of experts",
     "model", SHARED(model.aux_loss)},
    {"z-loss", OPTION_REAL, "0.001", 0, 1e6, NULL, "", "weight of the loss that keeps the router's logits small",
     "model", SHARED(model.z_loss)},
    {"seq", OPTION_INT, NULL, 1, 1e9, NULL, "tokens", "sequence length", "model", AT(seq)},
    {"vocab", OPTION_INT, NULL, 1, 2e9, NULL, "tokens", "vocabulary; the preset's, else the data's (256 for text)",
     "model", AT(vocab)},
    {"dropout", OPTION_REAL, "0", 0, 0.999, NULL, "", "probability of dropping: embedding, attention, both residuals",
     "model", SHARED(model.dropout)},
    {"attention", OPTION_CHOICE, "blocked", 0, 0, "blocked|materialised", "",
     "blocked never stores T x T; materialised does, for teaching", "model", SHARED(model.attention)},
    {"tie", OPTION_BOOL, "on", 0, 0, NULL, "",
     "the head's matrix is the embedding's, as in GPT-2; off: a matrix of its own, which asynchronous pipelines need",
     "model", SHARED(model.tie)},
    {"dropout-masks", OPTION_CHOICE, "redraw", 0, 0, "redraw|store", "",
     "redraw draws them again in backward, from the counter; store keeps them, as most frameworks do, and materialised "
     "attention's dropped probabilities (blocked attention always redraws: it stores nothing T x T)",
     "model", SHARED(model.dropout_masks)},
    {"loss-chunk", OPTION_INT, "-1", -1, 1e12, NULL, "tokens",
     "tokens of a microbatch whose logits exist at a time, so that head and loss are one operation (cpu only). 0: all "
     "of them, two operations; -1: on cpu as many as hidden, in fp32 and fp64 at least 1024, else 0",
     "model", AT(loss_chunk)},

    {"steps", OPTION_INT, "100", 1, BIG, NULL, "steps", "optimizer steps", "training", AT(steps)},
    {"global-batch", OPTION_INT, "8", 1, 1e12, NULL, "sequences", "sequences per step, over all ranks", "training",
     AT(global_batch)},
    {"micro-batch", OPTION_INT, "0", PLAN_AUTO, 1e12, "auto", "sequences",
     "sequences per microbatch of a rank; 0: all of its share, or at least 2 pp microbatches; auto: the fastest on the "
     "cluster that memory-limit has room for", "training", AT(micro_batch)},
    {"lr", OPTION_REAL, "5e-4", 0, 1e6, NULL, "", "peak learning rate", "training", AT(lr)},
    {"min-lr", OPTION_REAL, "-1", -1, 1e6, NULL, "", "learning rate at the last step; -1: lr / 10", "training",
     AT(min_lr)},
    {"warmup", OPTION_INT, "0", 0, BIG, NULL, "steps", "linear warmup", "training", AT(warmup)},
    {"optimizer", OPTION_CHOICE, "adamw", 0, 0, OPTIMIZER_WORDS, "", "what updates the weights", "training",
     AT(optimizer)},
    {"weight-decay", OPTION_REAL, "0.1", 0, 1e6, NULL, "",
     "on matrices only; adamw and muon: decoupled; sgd: added to the gradient", "training", AT(weight_decay)},
    {"beta1", OPTION_REAL, "0.9", 0, 0.999999, NULL, "", "Adam: decay of the first moment", "training", AT(beta1)},
    {"beta2", OPTION_REAL, "0.95", 0, 0.999999999, NULL, "", "Adam: decay of the second moment", "training", AT(beta2)},
    {"eps", OPTION_REAL, "1e-8", 0, 1, NULL, "", "Adam: added to the root of the second moment", "training", AT(eps)},
    {"momentum", OPTION_REAL, "0.9", 0, 0.999999, NULL, "", "sgd: decay of the sum of gradients; 0: no sum is kept",
     "training", AT(momentum)},
    {"clip", OPTION_REAL, "1", 0, 1e12, NULL, "", "largest global gradient norm; 0: no clipping", "training", AT(clip)},
    {"seed", OPTION_INT, "1234", 0, BIG, NULL, "", "initial weights, dropout and the order of samples follow from it",
     "training", AT(seed)},

    {"precision", OPTION_CHOICE, "auto", 0, 0, "fp32|fp64|bf16|fp16|auto", "",
     "what the model computes in; bf16 and fp16 keep fp32 master weights; auto: bf16 on cuda, fp32 on cpu", "precision",
     AT(precision)},

    {"sums", OPTION_CHOICE, "fast", 0, 0, "fast|fixed", "",
     "fixed: the same bits in every layout, losses and weights, whatever dp, tp, pp, zero, schedule, micro-batch and "
     "threads are; costs time and memory (cpu; fp32, or bf16 with grad-fp32; powers of two)", "precision", AT(sums)},

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
     "parallelism", AT(mesh.ep)},
    {"pp", OPTION_INT, "1", 1, PLAN_MAX_STAGES, NULL, "ranks", "pipeline stages", "parallelism", AT(mesh.pp)},
    {"bucket-mb", OPTION_REAL, "25", 0.000001, 1e6, NULL, "MiB", "dp, zero: size of a gradient bucket", "parallelism",
     SHARED(grad.bucket_mb)},
    {"grad-codec", OPTION_CHOICE, "none", 0, 0, "none|bf16|fp16|int8|sign|topk", "",
     "dp, zero: send gradients as bf16, as fp16, in blocks of int8, as signs, or only the largest", "parallelism",
     SHARED(grad.codec)},
    {"grad-feedback", OPTION_CHOICE, "auto", 0, 0, "auto|on|off", "",
     "grad-codec: add what a code has rounded away to the next step's gradient; auto: for sign and topk", "parallelism",
     SHARED(grad.feedback)},
    {"topk", OPTION_REAL, "1", 0.001, 100, NULL, "percent",
     "grad-codec topk: send the largest PERCENT of the gradients", "parallelism", SHARED(grad.topk)},
    {"offload-path", OPTION_TEXT, "", 0, 0, NULL, "",
     "offload-to=disk: a folder on a local disk; each rank has a file there, as large as what it offloads, that no one "
     "else sees", "parallelism", SHARED(offload.path)},
    {"offload-io", OPTION_CHOICE, "auto", 0, 0, "auto|uring|threads", "",
     "offload-to=disk: the engine of reads and writes; auto: io_uring where the build and the system have it",
     "parallelism", SHARED(offload.io)},
    {"offload-window", OPTION_REAL, "24", 0.05, 1e6, NULL, "MiB",
     "offload: host memory of a rank in which its update reads, computes and writes, a third each", "parallelism",
     SHARED(offload.window)},

    {"device", OPTION_CHOICE, "auto", 0, 0, "auto|cpu|cuda", "",
     "where ranks compute; auto: cuda where this machine has a GPU. Rank r of a host takes GPU r modulo their number",
     "machine", AT(device)},
    {"comm", OPTION_CHOICE, "auto", 0, 0, "auto|mpi|nccl", "",
     "cuda: transport of device memory; mpi stages it through the host, and lets ranks share a GPU; auto: nccl "
     "where each rank has a GPU, or NCCL lets ranks share one", "machine", AT(comm)},
    {"attention-core", OPTION_CHOICE, "auto", 0, 0, "auto|own|cudnn", "",
     "cuda, blocked attention: this project's own kernels, or cuDNN's; auto: cuDNN's where it has them", "machine",
     AT(attention_core)},
    {"fuse", OPTION_BOOL, "on", 0, 0, NULL, "", "cuda: run neighboring operations as one kernel where there is one",
     "machine", AT(fuse)},
    {"gemm", OPTION_CHOICE, "packed", 0, 0, "packed|plain", "",
     "cpu: matrix products by fast packed kernels, or by three plain loops that can be read in a minute and take much "
     "longer", "machine", AT(gemm)},
    {"gemm-algorithms", OPTION_TEXT, "", 0, 0, NULL, "",
     "cuda: a file of the fastest of cuBLASLt's algorithms for each product; products that it lacks are timed before "
     "the first step, and added. Runs with one file have the same bits; empty: the library's first choice",
     "machine", AT(gemm_algorithms)},
    {"comm-timeout", OPTION_REAL, "600", 0.1, 1e7, NULL, "s", "deadline of every wait for a peer", "machine",
     SHARED(comm.timeout)},
    {"comm-algorithm", OPTION_TEXT, "auto", 0, 0, NULL, "",
     "how collectives on host memory go (show comm): library, pairwise, ring, halving, halving-near, doubling, tree, "
     "double-tree, hierarchical or main. auto: large sums and gathers pairwise, the rest by the MPI library; with "
     "link-inside or link-between what is fastest by simulation. Or by axis: dp=hierarchical,tp=ring",
     "machine", SHARED(comm.algorithm)},
    {"ranks-per-node", OPTION_INT, "0", 0, 1e6, NULL, "ranks",
     "emulate nodes of this many ranks: for what depends on nodes, and is counted by them; 0: nodes are hosts, and "
     "in show mesh 8 ranks",
     "machine", SHARED(comm.ranks_per_node)},
    {"link-inside", OPTION_TEXT, "", 0, 0, NULL, "",
     "emulate links within a node: latency and bandwidth, such as 20us,10GB/s; empty: as they are", "machine",
     SHARED(comm.link_inside)},
    {"link-between", OPTION_TEXT, "", 0, 0, NULL, "",
     "emulate links between nodes: latency, bandwidth, and whether each rank has its own NIC or a node's ranks share "
     "one: 2ms,50MB/s,node; empty: as they are", "machine", SHARED(comm.link_between)},
    {"placement", OPTION_CHOICE, "block", 0, 0, "block|cyclic", "",
     "of ranks on emulated nodes: neighbors on one node, or dealt round the nodes", "machine", SHARED(comm.placement)},
    {"threads", OPTION_INT, "0", 0, 4096, NULL, "",
     "OpenMP threads per rank; 0: cores / ranks of this host, and in show 1", "machine", AT(threads)},
    {"check-collectives", OPTION_BOOL, "off", 0, 0, NULL, "",
     "compare operation, count and dtype across the group before each collective", "machine", AT(check_collectives)},
    {"check-types", OPTION_BOOL, "on", 0, 0, NULL, "",
     "before anything runs, refuse a program whose tensors do not fit together (show types); off: to see what a "
     "mistake does", "machine", AT(check_types)},
};
const struct option_table plan_options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
