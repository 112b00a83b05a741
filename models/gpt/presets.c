/* Sizes by name. GPT-2's own; GPT-3's (Brown et al. 2020, table 2.1; head counts such that heads divide hidden); and
 * Megatron-Turing NLG's (Smith et al. 2022, table 1), with heads of 160 channels. */
#include "models/gpt/gpt.h"

const struct model_preset gpt_presets[] = {
    {"tiny", "layers=4 hidden=128 heads=4 seq=64"},  /* vocab comes from the data */
    {"gpt2-124m", "layers=12 hidden=768 heads=12 seq=1024 vocab=50257"},
    {"gpt2-350m", "layers=24 hidden=1024 heads=16 seq=1024 vocab=50257"},
    {"gpt2-774m", "layers=36 hidden=1280 heads=20 seq=1024 vocab=50257"},
    {"gpt2-1558m", "layers=48 hidden=1600 heads=25 seq=1024 vocab=50257"},
    {"gpt3-125m", "layers=12 hidden=768 heads=12 seq=2048 vocab=50257"},
    {"gpt3-350m", "layers=24 hidden=1024 heads=16 seq=2048 vocab=50257"},
    {"gpt3-760m", "layers=24 hidden=1536 heads=16 seq=2048 vocab=50257"},
    {"gpt3-1.3b", "layers=24 hidden=2048 heads=16 seq=2048 vocab=50257"},
    {"gpt3-2.7b", "layers=32 hidden=2560 heads=32 seq=2048 vocab=50257"},
    {"gpt3-6.7b", "layers=32 hidden=4096 heads=32 seq=2048 vocab=50257"},
    {"gpt3-13b", "layers=40 hidden=5120 heads=40 seq=2048 vocab=50257"},
    {"gpt3-175b", "layers=96 hidden=12288 heads=96 seq=2048 vocab=50257"},
    {"mt-nlg-530b", "layers=105 hidden=20480 heads=128 seq=2048 vocab=50257"},
    {NULL, NULL},
};
