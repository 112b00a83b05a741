/* Files of other projects that hold a BERT. */
#include "models/bert/bert.h"
#include "models/bert/bert_hf.h"

const struct model_format bert_formats[] = {
    {"hf", bert_hf_import, bert_hf_export, "bert", bert_hf_check, bert_hf_config_read},
    {0},
};
