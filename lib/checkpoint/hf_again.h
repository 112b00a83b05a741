/* Tensors of Hugging Face's files that say once more what another one says: tied ones, which some versions save and
 * others do not. What is left out is compared first: where it differs, the file is of another model.
 *
 * Source: huggingface/transformers, _tied_weights_keys of each model, and PreTrainedModel.tie_weights. */
#pragma once

#include "lib/checkpoint/hf_files.h"
#include "lib/checkpoint/hf_weights.h"

/** The tensor that a model's weight of this name is read from; entry NULL: none is there. */
struct hf_tensor hf_again_find(const struct hf_weights *, const struct hf_files *, const struct checkpoint_model *,
                               const char *name);
/** Does the tensor say nothing that is not read from another? *extra: so it is. @errors E_FORMAT: it should, and says
 *  something else; E_IO */
enum status hf_again_check(const struct hf_weights *, const struct hf_files *, const struct checkpoint_model *,
                           struct hf_tensor, bool *extra);
