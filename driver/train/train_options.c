/* The options of a training job: their table, and checks of their combinations. */
#include "driver/train/train_options.h"

#include "driver/train/straggler.h"
#include "lib/base/nvtx.h"
#include "lib/data/data.h"
#include <inttypes.h>

/* In a plan the job's options follow the shared options (recipe.h). */
#define AT(field) offsetof(struct plan, field)
#define OWN(field) AT(own) + sizeof(struct shared_options) + offsetof(struct train_options, field)
#define BIG 1e15

static const struct option OPTIONS[] = {
    {"cluster", OPTION_TEXT, "", 0, 0, NULL, "",
     "what plan, auto, compare's predictions, trace's shares are computed for: a file, or one of configs/clusters by "
     "its name; empty: cpu-2core on a CPU, dgx-a100 on GPUs; compare: no predictions; trace: no shares",
     "machine", OWN(cluster)},
    {"memory-limit", OPTION_REAL, "0", 0, 1e12, NULL, "MiB",
     "a run with a rank that needs more device memory is refused, and auto chooses within it; 0: no limit but the "
     "cluster's", "machine", AT(memory_limit)},
    {"peak-tflops", OPTION_REAL, "0", 0, 1e9, NULL, "TFLOP/s", "peak of the whole job, for mfu; 0: measured", "machine",
     OWN(peak_tflops)},

    {"data", OPTION_TEXT, "", 0, 0, NULL, "",
     "text, llm.c .bin, Megatron .bin (with its .idx), .npy, or what data-format says; several of a kind: a,"
     "b or a pattern; empty: configs/demo.txt", "data", OWN(data)},
    {"data-format", OPTION_CHOICE, "auto", 0, 0, DATA_AS_CHOICES, "",
     "as what data and val-data are read; auto: as what they are recognised as; u16, u32: tokens without a header, as "
     "in nanoGPT's train.bin; text: any bytes", "data", OWN(data_as)},
    {"data-ahead", OPTION_INT, "0", 0, 64, NULL, "steps",
     "a thread reads the samples of the next N steps during this one; 0: each step reads its own", "data",
     OWN(data_ahead)},
    {"val-data", OPTION_TEXT, "", 0, 0, NULL, "", "validation file; empty: the last val-fraction of data", "data",
     OWN(val_data)},
    {"tokenizer", OPTION_TEXT, "", 0, 0, NULL, "",
     "what makes tokens of text data: a folder with tokenizer.json, or with vocab.json and merges.txt, or a file of "
     "tiktoken's or sentencepiece's; empty: a token is a byte", "data", OWN(tokenizer)},
    {"val-fraction", OPTION_REAL, "0.1", 0, 0.9, NULL, "", "part of data held out; 0: no evaluation", "data",
     OWN(val_fraction)},
    {"eval-every", OPTION_INT, "250", 0, BIG, NULL, "steps",
     "evaluate every N steps and after the last; 0: only after the last", "data", OWN(eval_every)},
    {"eval-batches", OPTION_INT, "0", 0, BIG, NULL, "batches",
     "global batches of an evaluation; 0: all of the validation data", "data", OWN(eval_batches)},

    {"save", OPTION_TEXT, "", 0, 0, NULL, "",
     "folder for checkpoints: after the last step, and each save-every; empty: none", "checkpoints", AT(save)},
    {"save-every", OPTION_INT, "0", 0, BIG, NULL, "steps", "save every N steps as well; 0: only after the last",
     "checkpoints", AT(save_every)},
    {"save-async", OPTION_BOOL, "off", 0, 0, NULL, "",
     "copy the state and continue training while a thread writes it; costs memory for the copy", "checkpoints",
     OWN(save_async)},
    {"keep", OPTION_INT, "2", 0, BIG, NULL, "", "newest checkpoints of this run that are kept; 0: all",
     "checkpoints", OWN(keep)},
    {"spike-guard", OPTION_REAL, "0", 0, 1e6, NULL, "",
     "if the loss exceeds the mean of the last 64 by X standard deviations, or is not finite: restore the last "
     "checkpoint and skip the samples since; 0: off", "checkpoints", OWN(spike_guard)},
    {"time-limit", OPTION_REAL, "0", 0, 1e9, NULL, "s",
     "save and exit with code 75 after this time; 0: none. SIGUSR1 requests the same at any time", "checkpoints",
     OWN(time_limit)},
    {"mtbf", OPTION_REAL, "0", 0, 1e12, NULL, "s",
     "mean time between failures of the machines in use: the summary then says how often to save; 0: unknown",
     "checkpoints", OWN(mtbf)},
    {"resume", OPTION_TEXT, "", 0, 0, NULL, "",
     "continue from a checkpoint, saved in any layout: a step's folder, or what save named; the model's sizes are its "
     "own, and need not be said", "checkpoints", OWN(resume)},
    {"other-data", OPTION_BOOL, "off", 0, 0, NULL, "",
     "resume with data, a split, a tokenizer or masks other than the checkpoint's, which is refused without it",
     "checkpoints", OWN(other_data)},
    {"init", OPTION_TEXT, "", 0, 0, NULL, "", "start from a checkpoint's weights, at step 0; the model's "
     "sizes are its own, and need not be said", "checkpoints", OWN(init)},

    {"from", OPTION_TEXT, "", 0, 0, NULL, "file",
     "options from a file of another program: config.json of Hugging Face, Megatron-LM's arguments, ds_config.json, "
     "torchtitan's TOML, nanotron's YAML; a table says what becomes of each key; options that are typed win",
     "files of others", OWN(from)},
    {"ignore", OPTION_TEXT, "", 0, 0, OPTION_LIST, "", "from: keys of the file that are left out", "files of others",
     OWN(ignore)},

    {"metrics", OPTION_TEXT, "metrics.jsonl", 0, 0, NULL, "",
     "one JSON object per line; an earlier run's file becomes metrics-1.jsonl, metrics-2.jsonl, ...; empty: none",
     "output", OWN(metrics)},
    {"metrics-append", OPTION_BOOL, "off", 0, 0, NULL, "",
     "append to the metrics file, as a restart does; where a step occurs twice, the later row counts", "output",
     OWN(metrics_append)},
    {"profile", OPTION_BOOL, "off", 0, 0, NULL, "",
     "at the end, where rank 0's time went: each operation and step of a layer, forward and backward", "output",
     OWN(profile)},
    {"nvtx", OPTION_BOOL, "off", 0, 0, NULL, "",
     "steps, microbatches and rows as NVTX ranges, for nsys: what is queued in each has its name", "output", OWN(nvtx)},
    {"trace", OPTION_TEXT, "", 0, 0, NULL, "",
     "file for a time line of some steps, all ranks on one clock: Perfetto's (and Chrome's) JSON; empty: none",
     "output", OWN(trace)},
    {"trace-first", OPTION_INT, "0", 0, BIG, NULL, "step",
     "the first step that is traced, counted from 1; 0: this run's third, or earlier in a run too short for that",
     "output", OWN(trace_first)},
    {"trace-steps", OPTION_INT, "2", 1, 1000, NULL, "steps", "how many are traced", "output", OWN(trace_steps)},
    {"inject", OPTION_TEXT, "", 0, 0, NULL, "",
     "slow=RANK,FACTOR: this rank takes FACTOR times as long to compute, to see what a slow machine does to the rest; "
     "link=RANK,FACTOR: its emulated links are FACTOR times as slow; cpu only; empty: none", "output", OWN(inject)},
    {"log", OPTION_CHOICE, "info", 0, 0, "quiet|warn|info|debug", "", "verbosity of the log", "output", OWN(log)},
};

static enum status check_inject(const struct plan *p) {
    const char *text = train_options(p)->inject;
    struct straggler_inject inject;
    TRY(straggler_inject_parse(text, plan_ranks(p), &inject));
    if (inject.what == INJECT_SLOW_LINK && !plan_emulates_links(p))
        return FAIL(E_CONFIG, "inject=%.64s makes an emulated link slower, and there is none; give --link-inside or "
                    "--link-between", text);
    return OK;
}

static enum status check_trace(const struct plan *p) {
    const struct train_options *o = train_options(p);
    if (o->nvtx && !nvtx_is_built())
        return FAIL(E_CONFIG, "nvtx=on, and this build has no NVTX: nvtx3/nvToolsExt.h was not found; put its folder "
                              "into CPATH and make again, or leave nvtx out");
    if (o->nvtx && o->trace[0])
        return FAIL(E_CONFIG,
                    "nvtx=on with trace=%.64s: both record a run's rows, and one can; leave nvtx out, or trace",
                    o->trace);
    if (!o->trace[0] && o->trace_first > 0)
        return FAIL(E_CONFIG, "trace-first=%" PRId64 " without trace; give --trace a file, or leave trace-first out",
                    o->trace_first);
    if (o->trace[0] && o->trace_first > p->steps)
        return FAIL(E_CONFIG,
                    "trace-first=%" PRId64 " is after the last step, and steps=%" PRId64 "; use a smaller one, or 0",
                    o->trace_first, p->steps);
    return OK;
}

static enum status check_checkpoints(const struct plan *p) {
    const struct train_options *o = train_options(p);
    if (p->save_every > 0 && !p->save[0])
        return FAIL(E_CONFIG, "save-every=%" PRId64 ", and no place to save; give --save a folder", p->save_every);
    if (o->save_async && !p->save[0]) return FAIL(E_CONFIG, "save-async, and no place to save; give --save a folder");
    if (o->spike_guard > 0 && (!p->save[0] || p->save_every == 0))
        return FAIL(E_CONFIG,
                    "spike-guard=%g goes back to the last checkpoint, and none is made; give --save and --save-every",
                    o->spike_guard);
    if (o->time_limit > 0 && !p->save[0])
        return FAIL(E_CONFIG, "time-limit=%g s, and no place to save what is done by then; give --save a folder",
                    o->time_limit);
    if (o->resume[0] && o->init[0])
        return FAIL(E_CONFIG, "resume=%.64s continues a run, and init=%.64s begins one; give one of them", o->resume,
                    o->init);
    return OK;
}

static enum status check(const struct plan *p) {
    TRY(check_inject(p));
    TRY(check_trace(p));
    return check_checkpoints(p);
}

double straggler_link_slowdown(const struct plan *p) {
    struct straggler_inject inject;
    if (straggler_inject_parse(train_options(p)->inject, plan_ranks(p), &inject) != OK) status_clear();
    return inject.what == INJECT_SLOW_LINK && inject.rank == comm_world_rank() ? inject.factor : 1;
}

const struct job train_job = {{OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct train_options)}, check};
