/* A bench for the tests of decoding: small models, their checkpoints, the training program's scores, and decoders. */
#pragma once

#include "driver/recipe.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/comm/comm.h"
#include "models/decode/decode.h"
#include "models/decode/decode_step.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A vocabulary of 131 tokens: prime, so that with tp the last rank has a padding row. */
enum { T = 10, V = 131, LAYERS = 2, CHANNELS = 16, HEADS = 4 };

/* The model of all functions below: arch gpt, llama, moe (with DeepSeek-V3's experts) or gpt_oss. decode_experts: of
 * gpt; 0: dense. Decoding drops no token, so training must drop none.
 * decode_latents: of a llama, channels of the latent of keys and values: 12, 13 (values as wide as keys, queries
 * without a latent, scores with yarn's factor), or 0, none. */
extern const char *decode_arch;
extern int decode_experts, decode_latents;
struct plan decode_plan(int precision);

/** Enlarge the fresh weights, so that positions, tokens and layers all change the scores. */
void decode_enlarge(struct run *);
/** Train `steps` steps on all ranks (dp 2 if there are 4, tp 2, zero 1), apply `change`, write a checkpoint.
 *  step: the checkpoint's folder, the same on all ranks. @collective{world} */
enum status decode_make_checkpoint(int steps, void (*change)(struct run *), char step[CHECKPOINT_PATH_MAX]);
/** Checkpoint 0 is untrained, 1 is trained for a few steps. Each is made once per suite and arch. @collective{world} */
enum status decode_checkpoint(int n, char step[CHECKPOINT_PATH_MAX]);

/** The training program's logits: one forward, alone in each process. */
enum status decode_whole_logits(const char *step, int precision, int32_t *tokens, double logits[T][V]);

/** tp 1: each process decodes alone. at_once: most tokens of a sequence in one read. @collective{world} */
enum status decode_open_of(struct run *, struct decoder *, const char *step, int precision, int tp, int sequences,
                           int at_once);
enum status decode_open(struct run *, struct decoder *, const char *step, int precision, int tp);
void decode_close(struct run *, struct decoder *);

/* Use one thread: rows of one token are too short to share among threads, and cores may be busy. */
int decode_one_thread(void **state);
int decode_all_threads(void **state);
#define alone_test(function) cmocka_unit_test_setup_teardown(function, decode_one_thread, decode_all_threads)
