/* Layers of pipeline stages in the notation of Megatron-Core's --pipeline-model-parallel-layout.
 *
 *   E, t, L    embedding, a layer, the loss      |    the next virtual stage
 *   x*3, (..)*3    three times                   ,    nothing
 *
 *   "Et*2|(t*2|)*3,tL"     the embedding and 2 layers, 2, 2, 2, and a layer with the loss: 2,2,2,2,1
 *
 * Virtual stages are in the order of --pp-split. Here the embedding is on the first, the loss on the last. Source:
 * Megatron-Core, megatron/core/transformer/pipeline_parallel_layer_layout.py. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** The counts of a text, "2,2,2,2,1": the text itself if it is no notation, else written to out. "": it has an m, a
 *  stage without a layer, or an E or L elsewhere than at its ends, or does not fit.  @collective{none} */
const char *stage_notation_counts(const char *text, char *out, size_t size);
/** Write counts, "2,2,2,2,1", in the notation, "Et*2|(t*2|)*3tL". false: no counts, or it does not fit.
 *  @collective{none} */
bool stage_notation_write(const char *counts, char *out, size_t size);
