#include "lib/checkpoint/hf_config.h"

#include "lib/base/json_file.h"
#include "lib/checkpoint/hf_keys.h"
#include <unistd.h>

enum { CONFIG_MAX_BYTES = 4 << 20 };

enum status hf_config_load(const char *path, json_t **out) {
    *out = NULL;
    if (access(path, F_OK) != 0)
        return FAIL(E_DATA, "%s is not there; it says the sizes, heads and positions of the tensors next to it", path);
    json_t *config;
    TRY(json_file_read(path, CONFIG_MAX_BYTES, JSON_REJECT_DUPLICATES, &config));
    if (json_is_object(config)) hf_keys_leave_out(*out = config);
    else json_decref(config);
    return *out ? OK : FAIL(E_FORMAT, "%s is no JSON object: another value at line 1", path);
}

enum status hf_config_save(const char *path, json_t *config) {
    if (!config) return FAIL(E_MEMORY, "no memory to write %s", path);
    enum status status = json_file_write(path, config, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(config);
    return status;
}

const char *hf_config_dtype(enum dtype dtype) {
    static const char *const names[N_DTYPES] = {
        [FP64] = "float64", [FP32] = "float32", [BF16] = "bfloat16", [FP16] = "float16"};
    return names[dtype];
}
