/* Tensors of Hugging Face's files that repeat another one: tied weights, which some versions save twice. A copy is
 * compared before it is left out; if it differs, the file is of another model.
 *
 * Source: huggingface/transformers, _tied_weights_keys of each model, and PreTrainedModel.tie_weights. */
#pragma once

#include "lib/checkpoint/hf_files.h"
#include "lib/checkpoint/hf_weights.h"

/** The tensor from which a model's weight of this name is read; entry NULL: there is none. */
struct hf_tensor hf_again_find(const struct hf_weights *, const struct hf_files *, const struct checkpoint_model *,
                               const char *name);
/** *extra: the tensor only repeats another tensor, which is read. @errors E_FORMAT: it must repeat a tensor, but
 *  differs from it; E_IO */
enum status hf_again_check(const struct hf_weights *, const struct hf_files *, const struct checkpoint_model *,
                           struct hf_tensor, bool *extra);
