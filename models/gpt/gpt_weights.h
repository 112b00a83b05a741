/* GPT-2's weights and their names in other projects (gpt_hf.h, gpt_llmc.h).
 *
 *   ours          shape          llm.c                                 Hugging Face
 *   embed.wte     (V, C)         wte, rows up to a multiple of 128     (names: gpt_published.c)
 *   embed.wpe     (T, C)         wpe
 *   hN.ln1.g/b    (C)            ln1w, ln1b
 *   hN.qkv.w, b   (3, H, D, C)   qkvw, qkvb                            transposed: (C, 3 C)
 *   hN.proj.w, b  (C, H, D)      attprojw, attprojb                    transposed: (C, C)
 *   hN.ln2.g/b    (C)            ln2w, ln2b
 *   hN.fc.w, b    (K, C)         fcw, fcb                              transposed: (C, 4 C)
 *   hN.fc2.w, b   (C, K)         fcprojw, fcprojb                      transposed: (4 C, C)
 *   head.lnf.g/b  (C)            lnfw, lnfb
 *
 * In all three formats qkv is query, key, value, each with its heads in order. So only matrices must be transposed, and
 * only for Hugging Face, whose GPT-2 stores them as (in, out) (its Conv1D, as in OpenAI's TensorFlow code). All three
 * compute the same function: GELU in its tanh form, layernorm with epsilon 1e-5, the head tied to wte, scores divided
 * by sqrt(D). */
#pragma once

#include "lib/checkpoint/checkpoint_tensor.h"
#include "lib/run/published.h"

struct gpt_weight { char name[PUBLISHED_NAME_MAX]; struct shape shape; };   /* our name; the whole shape */

/* In llm.c's order, which is the table's: each row for all layers, then the next row. */
struct gpt_weights { struct checkpoint_model model; struct gpt_weight *weight; int n; };

/** Can these files hold the model? They need a tied head, dense layers and an MLP of 4 x hidden; or dense layers alone.
 *  files: how the message names them. @errors E_CONFIG */
enum status gpt_weights_check(const struct checkpoint_model *, const char *files);
enum status gpt_weights_check_dense(const struct checkpoint_model *, const char *files);

/** The weights of a model with these sizes, already checked. @errors E_MEMORY; those of gpt_build  @collective{none} */
enum status gpt_weights_init(struct gpt_weights *, const struct checkpoint_model *);
void gpt_weights_fini(struct gpt_weights *);
