/* Sizes by name: Raffel et al. 2020, section 3.7, and the published checkpoints' vocabulary. layers: of both stacks. */
#include "models/t5/t5.h"

const struct model_preset t5_presets[] = {
    {"tiny", "layers=4 hidden=128 heads=4 seq=64"},   /* vocab comes from the data */
    {"t5-small", "layers=12 hidden=512 heads=8 seq=512 vocab=32128"},
    {"t5-base", "layers=24 hidden=768 heads=12 seq=512 vocab=32128"},
    {"t5-large", "layers=48 hidden=1024 heads=16 seq=512 vocab=32128"},
    {NULL, NULL},
};
