/* config.json of a Hugging Face GPT-2. Private to gpt_hf*.c. */
#ifndef TRIVIUM_GPT_GPT_HF_CONFIG_H
#define TRIVIUM_GPT_GPT_HF_CONFIG_H

#include "lib/checkpoint/checkpoint_tensor.h"

/** "DIR/config.json" for "DIR/model.safetensors". @errors E_CONFIG: too long a path */
enum status gpt_hf_config_path(const char *path, char out[CHECKPOINT_PATH_MAX]);

/** Check that the file describes this model, and the function that Trivium computes. Sizes of *model that are 0 are not
 *  compared. *heads: its n_head; 0: not given, or no such file.  @errors E_FORMAT naming key and value */
enum status gpt_hf_config_read(const char *config, const struct checkpoint_model *model, int64_t *heads);

/** Write it. @errors E_IO: also if it exists already; E_MEMORY */
enum status gpt_hf_config_write(const char *config, const struct checkpoint_model *, enum dtype);

#endif
