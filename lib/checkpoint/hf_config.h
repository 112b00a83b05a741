/* config.json of Hugging Face's models: what reading and writing one have in common. */
#pragma once

#include "lib/base/status.h"
#include "lib/device/dtype.h"
#include <jansson.h>

/** The file's object, to be released with json_decref. @errors E_DATA: not there; E_FORMAT: no JSON object */
enum status hf_config_load(const char *path, json_t **out);
/** Write the object, and release it. NULL: there was no memory for it. @errors E_IO, E_MEMORY */
enum status hf_config_save(const char *path, json_t *config);
/** "float32" and so on. Static storage. */
const char *hf_config_dtype(enum dtype);
