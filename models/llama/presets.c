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
    {"llama3.1-8b",
     "layers=32 hidden=4096 heads=32 kv-heads=8 ffn=14336 seq=131072 vocab=128256 rope-theta=500000 "
     "rope-scaling=llama3:8:8192 tie=off"},
    {"llama3.2-1b",
     "layers=16 hidden=2048 heads=32 kv-heads=8 ffn=8192 seq=131072 vocab=128256 rope-theta=500000 "
     "rope-scaling=llama3:32:8192 tie=on"},
    {"mistral-7b-v0.1",
     "layers=32 hidden=4096 heads=32 kv-heads=8 ffn=14336 seq=32768 vocab=32000 window=4096 tie=off"},
    {"mistral-7b",                                                                 /* version 0.3 */
     "layers=32 hidden=4096 heads=32 kv-heads=8 ffn=14336 seq=32768 vocab=32768 rope-theta=1000000 tie=off"},
    {"mistral-nemo-12b",
     "layers=40 hidden=5120 heads=32 kv-heads=8 head-dim=128 ffn=14336 seq=131072 vocab=131072 rope-theta=1000000 "
     "tie=off"},
    {"qwen2.5-0.5b",
     "layers=24 hidden=896 heads=14 kv-heads=2 ffn=4864 seq=32768 vocab=151936 rope-theta=1000000 norm-eps=1e-6 "
     "attention-bias=qkv tie=on"},
    {"qwen2.5-7b",
     "layers=28 hidden=3584 heads=28 kv-heads=4 ffn=18944 seq=131072 vocab=152064 rope-theta=1000000 norm-eps=1e-6 "
     "attention-bias=qkv tie=off"},
    {"qwen3-0.6b",
     "layers=28 hidden=1024 heads=16 kv-heads=8 head-dim=128 ffn=3072 seq=40960 vocab=151936 rope-theta=1000000 "
     "norm-eps=1e-6 qk-norm=head tie=on"},
    {"qwen3-1.7b",
     "layers=28 hidden=2048 heads=16 kv-heads=8 ffn=6144 seq=40960 vocab=151936 rope-theta=1000000 norm-eps=1e-6 "
     "qk-norm=head tie=on"},
    {"qwen3-4b",
     "layers=36 hidden=2560 heads=32 kv-heads=8 head-dim=128 ffn=9728 seq=40960 vocab=151936 rope-theta=1000000 "
     "norm-eps=1e-6 qk-norm=head tie=on"},
    {"qwen3-8b",
     "layers=36 hidden=4096 heads=32 kv-heads=8 ffn=12288 seq=40960 vocab=151936 rope-theta=1000000 norm-eps=1e-6 "
     "qk-norm=head tie=off"},
    {"olmo2-1b",
     "layers=16 hidden=2048 heads=16 ffn=8192 seq=4096 vocab=100352 rope-theta=500000 norm-eps=1e-6 qk-norm=all "
     "post-norm=on tie=off"},
    {"olmo2-7b",
     "layers=32 hidden=4096 heads=32 ffn=11008 seq=4096 vocab=100352 rope-theta=500000 norm-eps=1e-6 qk-norm=all "
     "post-norm=on tie=off"},
    {"olmo2-13b",
     "layers=40 hidden=5120 heads=40 ffn=13824 seq=4096 vocab=100352 rope-theta=500000 norm-eps=1e-6 qk-norm=all "
     "post-norm=on tie=off"},
    {"smollm2-135m",
     "layers=30 hidden=576 heads=9 kv-heads=3 ffn=1536 seq=8192 vocab=49152 rope-theta=100000 tie=on"},
    {NULL, NULL},
};

const struct model_preset mixtral_presets[] = {
    {"tiny", "layers=4 hidden=128 heads=4 kv-heads=2 ffn=344 seq=64 tie=off experts=4 experts-per-token=2"},
    {"mixtral-8x7b",
     "layers=32 hidden=4096 heads=32 kv-heads=8 ffn=14336 seq=32768 vocab=32000 rope-theta=1000000 tie=off experts=8 "
     "experts-per-token=2"},
    {NULL, NULL},
};
