/* Files of other projects that hold a GPT-2. */
#include "models/gpt/gpt.h"
#include "models/gpt/gpt_hf.h"
#include "models/gpt/gpt_llmc.h"

const struct model_format gpt_formats[] = {
    {"hf", gpt_hf_import, gpt_hf_export, "gpt2", gpt_hf_check, gpt_hf_config_read},
    {"llmc", gpt_llmc_import, gpt_llmc_export, NULL, gpt_llmc_check, NULL},
    {0},
};
