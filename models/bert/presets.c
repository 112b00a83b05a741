/* Sizes by name: Devlin et al. 2019, section 3, and the published vocabulary of the uncased models. */
#include "models/bert/bert.h"

const struct model_preset bert_presets[] = {
    {"tiny", "layers=4 hidden=128 heads=4 seq=64"},   /* vocab comes from the data */
    {"bert-base", "layers=12 hidden=768 heads=12 seq=512 vocab=30522"},
    {"bert-large", "layers=24 hidden=1024 heads=16 seq=512 vocab=30522"},
    {NULL, NULL},
};
