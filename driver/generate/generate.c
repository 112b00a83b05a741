/* trivium generate: load a checkpoint's weights, read a prompt, and write the text that the model generates.
 *
 * The model's sizes are the checkpoint's. The layout is free: any number of ranks that divides the heads (tp). Every
 * rank reads the same prompt and draws the same tokens; rank 0 prints. models/decode/decode.c explains decoding. */
#include "driver/commands.h"

#include "driver/train/train_options.h"
#include "models/decode/decode.h"
#include "models/decode/decode_step.h"
#include "driver/deadline.h"
#include "driver/generate/generate_text.h"
#include "driver/recipe.h"
#include "driver/setup.h"
#include "lib/base/clock.h"
#include "lib/base/integer.h"
#include "lib/base/log.h"
#include "lib/comm/comm.h"
#include "lib/checkpoint/checkpoint.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* plan comes first, because the offsets of its options count from it. */
struct request {
    struct plan plan;
    char checkpoint[OPTION_TEXT_MAX], prompt[OPTION_TEXT_MAX], prompt_tokens[OPTION_TEXT_MAX];
    int64_t tokens, top_k, sequences;
    double temperature;
};

static const struct option OPTIONS[] = {
    {"checkpoint", OPTION_TEXT, "", 0, 0, NULL, "",
     "whose weights: a step's folder, or what train's --save named; saved in any layout", "text",
     offsetof(struct request, checkpoint)},
    {"prompt", OPTION_TEXT, "", 0, 0, NULL, "",
     "how the text begins, for a model that reads bytes, or with its --tokenizer", "text",
     offsetof(struct request, prompt)},
    {"prompt-tokens", OPTION_TEXT, "", 0, 0, NULL, "tokens", "the same as numbers, for any model: 1,2,3", "text",
     offsetof(struct request, prompt_tokens)},
    {"tokens", OPTION_INT, "0", 0, 1e9, NULL, "tokens", "how many are written; 0: until seq is full", "text",
     offsetof(struct request, tokens)},
    {"sequences", OPTION_INT, "1", 1, 4096, NULL, "",
     "texts that begin with the prompt, each with draws of its own; written side by side, one after the other shown",
     "text", offsetof(struct request, sequences)},
    {"temperature", OPTION_REAL, "1", 0, 1e6, NULL, "",
     "scores are divided by it before the draw; 0: no draw, always the most likely token", "text",
     offsetof(struct request, temperature)},
    {"top-k", OPTION_INT, "0", 0, 1e9, NULL, "tokens", "sample from the k most likely tokens; 0: all", "text",
     offsetof(struct request, top_k)},
    {"seed", OPTION_INT, "1234", 0, 1e15, NULL, "",
     "the draws follow from it: the same seed, the same text, on any number of ranks", "text",
     offsetof(struct request, plan.seed)},
    {"tp", OPTION_INT, "1", 1, 1e6, NULL, "ranks", "tensor parallel size, the number of ranks; must divide heads",
     "machine", offsetof(struct request, plan.mesh.tp)},
    {"device", OPTION_CHOICE, "auto", 0, 0, "auto|cpu|cuda", "",
     "auto: cpu. Attention over a cache has no kernel for GPUs yet", "machine", offsetof(struct request, plan.device)},
};

/* Options of train that generate has, too. Sizes of the model may be given, but must equal the checkpoint's. */
static const char *const SHARED[] = {"layers", "hidden", "heads", "kv-heads", "ffn", "rope-theta", "seq", "vocab",
                                     "tie", "norm-eps", "head-dim", "rope-scaling", "attention-bias", "mlp-bias",
                                     "qk-norm", "post-norm", "window", "window-layers", "attention-cap",
                                     "attention-sinks", "activation", "experts", "experts-per-token", "expert-ffn",
                                     "expert-layers", "router-norm", "kv-lora-rank", "q-lora-rank", "rope-head-dim",
                                     "v-head-dim", "mscale-all-dim", "rope-interleave", "router-scores",
                                     "router-groups", "router-groups-per-token", "router-scale", "shared-experts",
                                     "expert-bias", "router-bias", "swiglu-limit",
                                     "tokenizer", "precision", "threads", "comm-timeout", "check-collectives", "log"};
/* PREFILL: tokens of the prompt in one forward: enough to reuse each weight, few enough to store their scores. */
enum { PREFILL = 64, N_OWN = sizeof OPTIONS / sizeof *OPTIONS, N_SHARED = sizeof SHARED / sizeof *SHARED };

struct generation {
    struct request request;
    struct options *options;
    struct bpe *bpe;                     /* NULL: a token is a byte */
    int32_t *prompt;
    int64_t n_prompt;
    struct run run;
    struct decoder decoder;
    double started_s, first_s;           /* start of the prompt; time of the first generated token */
    int64_t n_written;
    int32_t *texts;                      /* (sequences, tokens); NULL for one sequence */
    bool to_terminal;                    /* rank 0 prints to a terminal: escape control bytes */
};

/* ---- the request ---- */

/* Set the plan to its defaults, because generate has few of its options. */
static enum status plan_defaults(struct plan *plan) {
    struct options *all;
    enum status status = recipe_options_create(NULL, plan, &all);
    options_destroy(&all);
    return status;
}

static enum status create_options(struct request *q, struct options **out) {
    static struct option shared[N_SHARED];
    const struct option_table tables[] = {{OPTIONS, N_OWN}, {shared, N_SHARED}};
    struct option_table all;
    TRY(recipe_options(&all));
    for (int i = 0; i < all.n; i++)
        for (int k = 0; k < N_SHARED; k++)
            if (!strcmp(all.option[i].name, SHARED[k])) shared[k] = all.option[i];
    TRY(plan_defaults(&q->plan));
    return options_create(tables, 2, q, out);
}

static enum status read_sizes(struct generation *g, char step[CHECKPOINT_PATH_MAX]) {
    struct checkpoint_model m;
    if (!g->request.checkpoint[0])
        return FAIL(E_USAGE, "generate needs the weights of a model; use --checkpoint DIR, what train's --save named");
    TRY(checkpoint_resolve(g->request.checkpoint, step));
    TRY(checkpoint_model(step, &m));
    TRY(recipe_arch(&g->request.plan, m.arch[0] ? m.arch : "gpt"));
    return setup_sizes(&m, g->options, FROM_DATA);
}

static enum status settle_plan(struct plan *p, int world) {
    if (p->mesh.tp != world)
        return FAIL(E_CONFIG,
                    "%d rank%s and tp=%" PRId64
                    ": generate divides the model over tp alone; give --tp %d, or launch -n %" PRId64,
                    world, world == 1 ? "" : "s", p->mesh.tp, world, p->mesh.tp);
    p->mesh.dp = 1;
    log_set_level((enum log_level)train_options(p)->log);
    return plan_settle(p, world);
}

static enum status read_prompt(struct generation *g) {
    struct request *q = &g->request;
    int64_t vocab = q->plan.vocab, seq = q->plan.seq;
    const char *tokenizer = train_options(&q->plan)->tokenizer;
    if (tokenizer[0]) TRY(bpe_open_folder(tokenizer, &g->bpe));
    if (!q->prompt[0] == !q->prompt_tokens[0])
        return FAIL(E_USAGE, "give the text's beginning: one of --prompt TEXT and --prompt-tokens 1,2,3");
    if (q->prompt[0]) TRY(text_encode(q->prompt, vocab, g->bpe, &g->prompt, &g->n_prompt));
    else TRY(text_read_tokens(q->prompt_tokens, vocab, &g->prompt, &g->n_prompt));
    if (g->n_prompt >= seq || q->tokens > seq - g->n_prompt)
        return FAIL(E_CONFIG,
                    "the model reads seq=%" PRId64 " tokens, and the prompt has %" PRId64
                    " of them with tokens=%" PRId64 " to follow; %s%s",
                    seq, g->n_prompt, q->tokens,
                    g->n_prompt < seq ? "request fewer tokens (0: as many as fit)" : "shorten the prompt",
                    q->plan.arch->any_seq ? ", or give a larger --seq" : "");
    if (q->tokens == 0) q->tokens = seq - g->n_prompt;
    return OK;
}

static enum status read_request(struct generation *g, int argc, char **argv, char step[CHECKPOINT_PATH_MAX]) {
    TRY(create_options(&g->request, &g->options));
    TRY(options_parse(g->options, argc, argv));
    TRY(read_sizes(g, step));
    generate_plan(&g->request.plan, g->request.sequences);
    TRY(settle_plan(&g->request.plan, comm_world_size()));
    TRY(read_prompt(g));
    g->request.plan.prefill = min64(g->n_prompt, PREFILL);
    return OK;
}

/* ---- the text ---- */

static enum status prepare(struct generation *g, int argc, char **argv) {
    char step[CHECKPOINT_PATH_MAX];
    enum status status = read_request(g, argc, argv, step);
    TRY(fail_agree(group_world(), status));
    const struct plan *p = &g->request.plan;
    deadline_set(comm_options(p)->timeout, "set-up");
    TRY(plan_use_comm(p, false, 1));
    setup_threads(p, comm_local_size());
    TRY(run_create(&g->run, &generate_recipe, p, WATCH_NOTHING));
    deadline_lift();
    TRY(checkpoint_load(&g->run, step, CHECKPOINT_WEIGHTS));
    return fail_agree(group_world(), decoder_init(&g->decoder, &g->run));
}

/* Under mpirun isatty is wrong, because ranks get a terminal also if the output is a file; launch sets a variable. */
static bool is_terminal(void) {
    const char *launched = getenv("TRIVIUM_TERMINAL");
    return launched ? *launched == '1' : !getenv("OMPI_COMM_WORLD_SIZE") && isatty(STDOUT_FILENO);
}

static enum status print_text(const struct generation *g, int32_t token) {
    return comm_is_rank_0() ? text_print(stdout, token, g->request.plan.vocab, g->bpe, g->to_terminal) : OK;
}

/* Print the token of a single sequence at once. Keep the tokens of several sequences for print_all. */
static enum status take_token(void *self, int64_t sequence, int32_t token) {
    struct generation *g = self;
    const struct request *q = &g->request;
    if (g->n_written == 0) g->first_s = clock_s();
    int64_t i = g->n_written++ / q->sequences;
    if (q->sequences == 1) return print_text(g, token);
    g->texts[sequence * q->tokens + i] = token;
    return OK;
}

static enum status print_all(const struct generation *g) {
    const struct request *q = &g->request;
    for (int64_t s = 0; s < q->sequences; s++) {
        if (comm_is_rank_0()) printf("%s---- %" PRId64 "\n", s ? "\n" : "", s + 1);
        for (int64_t i = 0; i < g->n_prompt; i++) TRY(print_text(g, g->prompt[i]));
        for (int64_t i = 0; i < q->tokens; i++) TRY(print_text(g, g->texts[s * q->tokens + i]));
    }
    return OK;
}

static enum status generate(struct generation *g) {
    const struct request *q = &g->request;
    const struct sampling sampling = {q->temperature, q->top_k, (uint64_t)q->plan.seed};
    bool several = q->sequences > 1;
    g->to_terminal = is_terminal();
    g->texts = several ? calloc((size_t)(q->sequences * q->tokens), sizeof *g->texts) : NULL;
    if (several && !g->texts) return FAIL(E_MEMORY, "no memory for %" PRId64 " texts", q->sequences);
    for (int64_t i = 0; i < g->n_prompt && !several; i++) TRY(print_text(g, g->prompt[i]));
    g->started_s = clock_s();
    TRY(decoder_write(&g->decoder, &sampling, g->prompt, g->n_prompt, q->tokens, take_token, g));
    return several ? print_all(g) : OK;
}

/* The prompt's forward gives the first token, so the rate counts the tokens after the first. */
static void summarise(const struct generation *g) {
    double prompt_s = g->first_s - g->started_s, rest_s = clock_s() - g->first_s;
    if (!comm_is_rank_0()) return;
    putchar('\n');
    fflush(stdout);
    if (log_get_level() < LOG_INFO) return;
    fprintf(stderr, "prompt %" PRId64 " tokens in %.2f s, generated %" PRId64 " tokens, %.1f tok/s, cache %.2f MiB%s\n",
            g->n_prompt, prompt_s, g->n_written, g->n_written > 1 ? (double)(g->n_written - 1) / rest_s : 1 / prompt_s,
            (double)(g->request.sequences * decode_cache_bytes(&g->request.plan)) / (1 << 20),
            g->request.plan.mesh.tp > 1 ? " per rank" : "");
}

static void release(struct generation *g) {
    decoder_fini(&g->decoder);
    run_destroy(&g->run);
    options_destroy(&g->options);
    bpe_close(&g->bpe);
    free(g->prompt);
    free(g->texts);
    free(g);
}

static void print_help(void) {
    struct request *q = calloc(1, sizeof *q);
    struct options *o = NULL;
    if (q && create_options(q, &o) == OK) options_help(o, stdout);
    options_destroy(&o);
    free(q);
}

int generate_main(int argc, char **argv) {
    if (options_ask_for_help(argc, argv)) {
        print_help();
        return 0;
    }
    deadline_set_for_start(argc, argv);
    struct generation *g = calloc(1, sizeof *g);
    enum status status = g ? comm_start(&argc, &argv) : FAIL(E_MEMORY, "no memory to start with");
    if (status != OK) {
        status_report();
        return status_exit_code(status);
    }
    status = prepare(g, argc, argv);
    deadline_lift();
    bool prepared = status == OK;
    if (prepared) status = generate(g);
    /* all ranks have the same scores, and fail together if these are not finite */
    bool agreed = status == OK || !prepared || status == E_NUMERIC;
    if (agreed && prepared) status = fail_agree(group_world(), status);
    if (status != OK) status_report();
    else summarise(g);
    int code = status_exit_code(status);
    if (agreed) release(g);
    comm_finish(agreed, code);
    return code;
}
