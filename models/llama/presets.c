/* Sizes by name, from the config.json published with each model. */
#include "models/llama/llama.h"

const struct model_preset llama_presets[] = {
    {"tiny", "layers=4 hidden=128 heads=4 kv-heads=2 ffn=344 seq=64 tie=off"},  /* vocab comes from the data */
    {"tinyllama-1.1b", "layers=22 hidden=2048 heads=32 kv-heads=4 ffn=5632 seq=2048 vocab=32000 tie=off"},
    {"llama2-7b", "layers=32 hidden=4096 heads=32 ffn=11008 seq=4096 vocab=32000 tie=off"},
    {"llama2-13b", "layers=40 hidden=5120 heads=40 ffn=13824 seq=4096 vocab=32000 tie=off"},
    {"llama2-70b", "layers=80 hidden=8192 heads=64 kv-heads=8 ffn=28672 seq=4096 vocab=32000 tie=off"},
    {"llama3-8b",
     "layers=32 hidden=4096 heads=32 kv-heads=8 ffn=14336 seq=8192 vocab=128256 rope-theta=500000 tie=off"},
    {"llama3-70b",
     "layers=80 hidden=8192 heads=64 kv-heads=8 ffn=28672 seq=8192 vocab=128256 rope-theta=500000 tie=off"},
    {NULL, NULL},
};

const struct model_preset mixtral_presets[] = {
    {"tiny", "layers=4 hidden=128 heads=4 kv-heads=2 ffn=344 seq=64 tie=off experts=4 experts-per-token=2"},
    {"mixtral-8x7b",
     "layers=32 hidden=4096 heads=32 kv-heads=8 ffn=14336 seq=32768 vocab=32000 rope-theta=1000000 tie=off experts=8 "
     "experts-per-token=2"},
    {NULL, NULL},
};
