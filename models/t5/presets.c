/* Sizes by name: Raffel et al. 2020, section 3.7; of T5 1.1 and Flan-T5, and the vocabulary, the published checkpoints'
 * config.json. layers: of both stacks. */
#include "models/t5/t5.h"

#define SEQ_VOCAB "seq=512 vocab=32128"
#define UNTIED " activation=geglu tie=off " SEQ_VOCAB
#define GATED(size, sizes) {"t5-v1_1-" size, sizes UNTIED}, {"flan-t5-" size, sizes UNTIED}
const struct model_preset t5_presets[] = {
    {"tiny", "layers=4 hidden=128 heads=4 seq=64"},   /* vocab comes from the data */
    {"t5-small", "layers=12 hidden=512 heads=8 " SEQ_VOCAB},
    {"t5-base", "layers=24 hidden=768 heads=12 " SEQ_VOCAB},
    {"t5-large", "layers=48 hidden=1024 heads=16 " SEQ_VOCAB},
    {"t5-3b", "layers=48 hidden=1024 heads=32 head-dim=128 ffn=16384 " SEQ_VOCAB},
    {"t5-11b", "layers=48 hidden=1024 heads=128 head-dim=128 ffn=65536 " SEQ_VOCAB},
    GATED("small", "layers=16 hidden=512 heads=6 head-dim=64 ffn=1024"),
    GATED("base", "layers=24 hidden=768 heads=12 ffn=2048"),
    GATED("large", "layers=48 hidden=1024 heads=16 ffn=2816"),
    GATED("xl", "layers=48 hidden=2048 heads=32 ffn=5120"),
    GATED("xxl", "layers=48 hidden=4096 heads=64 ffn=10240"),
    {NULL, NULL},
};
