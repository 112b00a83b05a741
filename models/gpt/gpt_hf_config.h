/* config.json of a Hugging Face GPT-2. Private to gpt_hf*.c. */
#pragma once

#include "lib/checkpoint/checkpoint_tensor.h"

/** Read the model's sizes from the file.
 *  @errors E_DATA: there is no file; E_FORMAT: it describes no GPT-2 that Trivium computes */
enum status gpt_hf_config_read(const char *path, struct checkpoint_model *out);

/** Write config.json to `path`. @errors E_IO, E_MEMORY */
enum status gpt_hf_config_write(const char *path, const struct checkpoint_model *, enum dtype);
