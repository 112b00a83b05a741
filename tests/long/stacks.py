#!/usr/bin/env python3
"""plan --stack NAME prints how NAME's program is started with the layout; that program's own parser reads it again, and
has the same sizes. The programs are not here: a row is skipped unless a variable of the environment has a folder with
one, and this Python what that one imports.

    MEGATRON    NVIDIA/Megatron-LM (megatron/training)          DEEPSPEED   deepspeedai/DeepSpeed
    MEGATRON_2021    itself, of 2022                             TORCHTITAN  pytorch/torchtitan, tag v0.2.2
    MEGATRON_DEEPSPEED    deepspeedai/Megatron-DeepSpeed        NANOTRON    huggingface/nanotron
    PARSERS     the Python (default: this one)

BUILD: where the program is (default: build)."""
import json
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = os.path.join(os.environ.get("BUILD", "build"), "trivium")
PYTHON = os.environ.get("PARSERS", sys.executable)
GPUS = 128
LLAMA = {"layers": 80, "hidden": 8192, "heads": 64, "kv-heads": 8, "ffn": 28672, "seq": 8192, "global": 256}
GPT = {"layers": 96, "hidden": 12288, "heads": 96, "seq": 2048, "global": 512}
QWEN = {"layers": 28, "hidden": 1024, "heads": 16, "kv-heads": 8, "ffn": 3072, "seq": 40960, "global": 128,
        "head": 128, "eps": 1e-6, "qk": True}
ASKED = {"llama3-70b": LLAMA, "gpt3-175b": GPT, "qwen3-0.6b": QWEN}

# What reads the arguments in sys.argv[2:] or the file sys.argv[2] and prints its sizes as JSON; sys.argv[1]: its folder
FIRST = """
import json, os, sys, typing, warnings
warnings.simplefilter("ignore")
if not hasattr(typing, "override"):
    typing.override = lambda f: f
os.environ.update(WORLD_SIZE=os.environ["GPUS"], RANK="0", LOCAL_RANK="0", CUDA_DEVICE_MAX_CONNECTIONS="1")
sys.path.insert(0, sys.argv.pop(1))
"""
MEGATRON = """
a = parse()
print(json.dumps({"layers": a.num_layers, "hidden": a.hidden_size, "heads": a.num_attention_heads,
    "kv-heads": groups(a), "ffn": a.ffn_hidden_size, "seq": a.seq_length, "global": a.global_batch_size,
    "micro": a.micro_batch_size, "tp": a.tensor_model_parallel_size, "pp": a.pipeline_model_parallel_size,
    "of_a_chunk": a.num_layers_per_virtual_pipeline_stage, "sp": a.sequence_parallel, "zero": zero(a),
    **({"head": a.kv_channels, "eps": a.layernorm_epsilon, "qk": a.qk_layernorm} if "qk_layernorm" in a else {})}))
"""
READERS = {
    "MEGATRON": """
from megatron.training.arguments import parse_args as parse
groups = lambda a: a.num_query_groups if a.group_query_attention else None
zero = lambda a: int(a.use_distributed_optimizer)
""" + MEGATRON,
    "MEGATRON_2021": """
import importlib.util
spec = importlib.util.spec_from_file_location("arguments", os.path.join(sys.path[0], "megatron/arguments.py"))
arguments = importlib.util.module_from_spec(spec); spec.loader.exec_module(arguments)
parse, groups = arguments.parse_args, lambda a: None
zero = lambda a: int(a.use_distributed_optimizer)
""" + MEGATRON,
    "MEGATRON_DEEPSPEED": """
sys.path.insert(0, os.environ["DEEPSPEED"])
import importlib.util
spec = importlib.util.spec_from_file_location("arguments", os.path.join(sys.path[0 + 1], "megatron/arguments.py"))
arguments = importlib.util.module_from_spec(spec); spec.loader.exec_module(arguments)
parse = arguments.parse_args
groups = lambda a: a.num_key_value_heads if a.num_key_value_heads != a.num_attention_heads else None
zero = lambda a: a.zero_stage
""" + MEGATRON,
    "DEEPSPEED": """
from deepspeed.runtime import config
config.dist.get_rank = lambda: 0                               # else it takes a world of one
class Mpu:
    get_data_parallel_world_size = staticmethod(lambda: int(os.environ["DP"]))
c = config.DeepSpeedConfig(json.load(open(sys.argv[1])), mpu=Mpu)
print(json.dumps({"micro": c.train_micro_batch_size_per_gpu, "zero": c.zero_config.stage,
    "accumulation": c.gradient_accumulation_steps, "global": c.train_batch_size}))
""",
    "TORCHTITAN": """
from torchtitan.config.manager import ConfigManager
c = ConfigManager().parse_args(["--job.config_file", sys.argv[1]])
p, t = c.parallelism, c.training
print(json.dumps({"seq": t.seq_len, "global": t.global_batch_size, "tp": p.tensor_parallel_degree,
    "pp": p.pipeline_parallel_degree, "micro": p.pipeline_parallel_microbatch_size,
    "dp": p.data_parallel_replicate_degree * p.data_parallel_shard_degree, "flavor": c.model.flavor}))
""",
    "NANOTRON": """
import yaml
from unittest.mock import MagicMock
for name in ("", ".flash_attn_interface", ".layers", ".layers.rotary", ".losses", ".losses.cross_entropy", ".ops",
             ".ops.triton", ".ops.triton.layer_norm"):         # needs a GPU to be built, and no size rests on it
    sys.modules["flash_attn" + name] = MagicMock(__version__="2.8")
sys.path.insert(0, os.path.join(sys.path[0], "src"))
from nanotron.config import ParallelismArgs, get_config_from_dict
from nanotron.config.models_config import LlamaConfig
asked = yaml.safe_load(open(sys.argv[1]))
p = get_config_from_dict(asked["parallelism"], ParallelismArgs)
m = get_config_from_dict(asked["model"]["model_config"], LlamaConfig)
t = asked["tokens"]
print(json.dumps({"layers": m.num_hidden_layers, "hidden": m.hidden_size, "heads": m.num_attention_heads,
    "kv-heads": m.num_key_value_heads, "ffn": m.intermediate_size, "seq": t["sequence_length"], "tp": p.tp, "pp": p.pp,
    "dp": p.dp, "micro": t["micro_batch_size"], "zero": asked["optimizer"]["zero_stage"]}))
""",
}
# stack, model, and which reader takes which part of what is printed
ROWS = [("megatron-core", "llama3-70b", {"MEGATRON": 0}), ("megatron-core", "gpt3-175b", {"MEGATRON": 0}),
        ("megatron-core", "qwen3-0.6b", {"MEGATRON": 0}), ("megatron-2021", "gpt3-175b", {"MEGATRON_2021": 0}),
        ("deepspeed", "llama3-70b", {"MEGATRON_DEEPSPEED": 0, "DEEPSPEED": 1}),
        ("torchtitan", "llama3-70b", {"TORCHTITAN": 0}), ("nanotron", "llama3-70b", {"NANOTRON": 0})]


def plan(stack, model):
    command = [PROGRAM, "plan", "--model", model, "--cluster", "dgx-h100", "--gpus", str(GPUS), "--stack", stack,
               "--global-batch", str(ASKED[model]["global"])]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    layout = json.loads(subprocess.run(command + ["--json", "on"], capture_output=True, text=True, check=True).stdout)
    return said, layout["search"]["best"][0]["options"]


def parts(said):
    """What stands under "the first of these": command lines, and files by the lines after their names."""
    block = re.search(r"the first of these:\n(.*?)\n\nwhat the fastest", said, re.S).group(1)
    block = re.sub(r"^  without a key there:.*$", "", block, flags=re.M).rstrip()
    found = re.split(r"^  (?=pretrain_gpt|[a-z_]+\.(?:json|toml|yaml):$)", block, flags=re.M)[1:]
    return [p if p.startswith("pretrain") else p.split("\n", 1)[1] for p in found]


def read_by(reader, part, dp):
    """The sizes that the project's own parser finds."""
    code = FIRST + READERS[reader]
    with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
        file.write(part)
    words = part.replace("\\\n", " ").split()[1:] if part.startswith("pretrain") else [file.name]
    done = subprocess.run([PYTHON, "-c", code, os.environ[reader]] + words, capture_output=True, text=True,
                          env=dict(os.environ, GPUS=str(GPUS), DP=str(dp)))
    os.remove(file.name)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if done.returncode == 0 and lines else done.stderr[-1500:]


def wanted(model, options):
    of = dict(re.findall(r"--([a-z-]+) (\S+)", options))
    layers = ASKED[model]["layers"]
    chunks = int(of.get("chunks", 0))
    return dict({"eps": 1e-5, "qk": False}, **ASKED[model], dp=int(of["dp"]), tp=int(of["tp"]), pp=int(of["pp"]),
                micro=int(of["micro-batch"]), zero=int(of["zero"]), sp=of.get("sp") == "on", flavor="70B",
                of_a_chunk=layers // (int(of["pp"]) * chunks) if chunks else None,
                accumulation=ASKED[model]["global"] // (int(of["dp"]) * int(of["micro-batch"])))


def check(stack, model, reader, part, options):
    name = f"stacks_{stack}_{model}_is_read_by_{reader.lower()}"
    if reader not in os.environ:
        return print(f"skip {name}: {reader} names no folder")
    should = wanted(model, options)
    found = read_by(reader, part, should["dp"])
    wrong = found if isinstance(found, str) else {
        k: (v, should.get(k)) for k, v in found.items() if v != should.get(k) and not (k == "ffn" and v is None)}
    print(f"not ok {name}: {wrong}" if wrong else f"ok {name}: {len(found)} sizes, {options}")


if __name__ == "__main__":
    for stack, model, readers in ROWS:
        said, options = plan(stack, model)
        for reader, at in readers.items():
            check(stack, model, reader, parts(said)[at], options)
