/* config.json of Hugging Face's models: the functions that all models share for reading and writing it. */
#pragma once

#include "lib/base/status.h"
#include "lib/device/dtype.h"
#include <jansson.h>

/** Load the file's JSON object; the caller releases it with json_decref. @errors E_DATA: no file; E_FORMAT: no JSON
 *  object */
enum status hf_config_load(const char *path, json_t **out);
/** Write the object, and release it. config NULL: there was no memory to make it. @errors E_IO, E_MEMORY */
enum status hf_config_save(const char *path, json_t *config);
/** "float32" and so on. Static storage. */
const char *hf_config_dtype(enum dtype);
