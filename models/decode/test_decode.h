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

/* 131 tokens: prime, so that with tp the last rank has a padding row. */
enum { T = 10, V = 131, LAYERS = 2, CHANNELS = 16, HEADS = 4 };

/* The model of all that follows. Experts: 0, a dense one. A token at a time drops none, so training may not either. */
extern const char *decode_arch;
extern int decode_experts;
struct plan decode_plan(int precision);

/** Larger weights than fresh ones: positions, tokens and layers all show in the scores. */
void decode_enlarge(struct run *);
/** `steps` of training by all ranks (dp 2 if there are 4, tp 2, zero 1), a change, a checkpoint. step: its folder, the
 *  same on all ranks. @collective{world} */
enum status decode_make_checkpoint(int steps, void (*change)(struct run *), char step[CHECKPOINT_PATH_MAX]);
/** 0: untrained; 1: trained for a few steps. Made once in a suite, of each arch. @collective{world} */
enum status decode_checkpoint(int n, char step[CHECKPOINT_PATH_MAX]);

/** By the training program, forward, alone in each process. */
enum status decode_whole_logits(const char *step, int precision, int32_t *tokens, double logits[T][V]);

/** tp 1: each process by itself. at_once: number of sequences decoded together. @collective{world} */
enum status decode_open_of(struct run *, struct decoder *, const char *step, int precision, int tp, int sequences,
                           int at_once);
enum status decode_open(struct run *, struct decoder *, const char *step, int precision, int tp);
void decode_close(struct run *, struct decoder *);

/* Rows of one token are too short to share among threads, and cores may be busy. */
int decode_one_thread(void **state);
int decode_all_threads(void **state);
#define alone_test(function) cmocka_unit_test_setup_teardown(function, decode_one_thread, decode_all_threads)
