/* Files of other projects that hold a Llama, or a Mixtral. */
#include "models/llama/llama.h"
#include "models/llama/llama_hf.h"

const struct model_format llama_formats[] = {
    {"hf", llama_hf_import, llama_hf_export, "llama", llama_hf_check, llama_hf_config_read},
    {0},
};

const struct model_format mixtral_formats[] = {
    {"hf", llama_hf_import, llama_hf_export, "mixtral", llama_hf_check, llama_hf_config_read},
    {0},
};
