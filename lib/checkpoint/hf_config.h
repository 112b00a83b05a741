/* config.json of Hugging Face's models: the functions that all models share for reading and writing it. */
#pragma once

#include "lib/base/status.h"
#include "lib/device/dtype.h"
#include <jansson.h>

/** Load the file's JSON object; the caller releases it with json_decref. @errors E_DATA: no file; E_FORMAT: no JSON
 *  object */
enum status hf_config_load(const char *path, json_t **out);
/** Load the object, and read a model of it. @errors hf_config_load's; read's */
struct checkpoint_model;
typedef enum status hf_model_read(const char *path, const json_t *config, struct checkpoint_model *out);
enum status hf_config_read(const char *path, hf_model_read *read, struct checkpoint_model *out);
/** Write the object, and release it. config NULL: there was no memory to make it. @errors E_IO, E_MEMORY */
enum status hf_config_save(const char *path, json_t *config);
/** Read rotary positions (hf_rope.c). missing: the theta of a file that says none. seq: max_position_embeddings.
 *  @errors E_FORMAT naming key, value and allowed values */
struct rope_rule;
enum status hf_rope_read(const char *path, const json_t *config, double missing, int64_t seq, struct rope_rule *out);
/** The value of rope_scaling, for json_pack's "o". NULL: no memory. */
json_t *hf_rope_json(const struct rope_rule *);
/** Read the activation at `key` into the model's options. The key has a row in the tables, with names that hf_config.c
 *  has. usual: the arch's own word, which is not said. hf_gated_read: T5's keys of it.
 *  @errors hf_gated_read: E_FORMAT naming keys, values and allowed values */
void hf_activation_read(const json_t *config, const char *key, const char *usual, struct checkpoint_model *);
enum status hf_gated_read(const char *path, const json_t *config, struct checkpoint_model *);
/** Their name for the model's activation; `usual`: for the arch's own. hf_gated_name: T5's feed_forward_proj. Static
 *  storage. */
const char *hf_activation_name(const struct checkpoint_model *, const char *usual);
const char *hf_gated_name(const struct checkpoint_model *);
/** "float32" and so on. Static storage. */
const char *hf_config_dtype(enum dtype);
