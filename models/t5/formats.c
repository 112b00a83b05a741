/* Files of other projects that hold a T5. */
#include "models/t5/t5.h"
#include "models/t5/t5_hf.h"

const struct model_format t5_formats[] = {
    {"hf", t5_hf_import, t5_hf_export, "t5", t5_hf_check, t5_hf_config_read},
    {0},
};
