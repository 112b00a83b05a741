"""A reference out of a training script of your own, which records itself (script.py):

    python -m trivium.oracle reference FOLDER train.py ARGUMENTS...

It trains once as it is, and eight times with each result moved by a rounding. What they differ by is what rounding
explains, for each tensor and step: scale-DTYPE.json, which `trivium oracle check` reads."""
import json
import math
import os
import re
import shutil
import subprocess
import sys

import safetensors.torch
import torch
from torch.utils._python_dispatch import TorchDispatchMode

RUNS = 8
DTYPES = {torch.float64: "fp64", torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
ROUNDING = {"fp64": 2 ** -53, "fp32": 2 ** -24, "bf16": 2 ** -24, "fp16": 2 ** -24}     # of what is stored
SUMS = re.compile(r"mm$|matmul|linear|conv|sum|mean|norm|softmax|var|nll|embedding.*backward|scaled_dot|attention|pool")


def tensors_in(x):
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    return [t for part in x for t in tensors_in(part)] if isinstance(x, (list, tuple)) else []


class Shaking(TorchDispatchMode):
    """Monte Carlo arithmetic (Parker 1997): a result may come out a unit in the last place larger or smaller. So may
    each term of a sum, for another order of summation rounds elsewhere."""

    def __init__(self, seed):
        super().__init__()
        self.seed, self.generators = seed, {}

    def shaken(self, x):
        if not isinstance(x, torch.Tensor) or x.dtype not in DTYPES or not x.numel():
            return x
        if x.device not in self.generators:
            self.generators[x.device] = torch.Generator(x.device).manual_seed(self.seed)
        u = torch.rand(x.shape, generator=self.generators[x.device], device=x.device, dtype=torch.float64)
        return (x.double() * (1 + torch.finfo(x.dtype).eps * (2 * u - 1))).to(x.dtype)

    def shaken_in(self, x, least=torch.float16):
        if isinstance(x, (list, tuple)):
            return type(x)(self.shaken_in(t, least) for t in x)
        return x if least is torch.float32 and getattr(x, "dtype", None) in (torch.bfloat16, torch.float16) else \
            self.shaken(x)

    def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
        kwargs = kwargs or {}
        if any(hasattr(t, "placements") for t in kinds):
            return NotImplemented                       # a DTensor: its inner calls come back to this function
        schema, name = func._schema, func._schema.name.split("::")[1]
        given = tensors_in(args) + tensors_in(list(kwargs.values()))
        if func.namespace != "aten" or not given or name == "copy_":
            return func(*args, **kwargs)
        written = [x for a, x in zip(schema.arguments, args) if a.alias_info and a.alias_info.is_write]
        if written:
            result = func(*args, **kwargs)
            for x in tensors_in(written):
                if x.dim():                             # of numbers these are counters
                    x.copy_(self.shaken(x))
            return result
        if any(r.alias_info for r in schema.returns):   # a view
            return func(*args, **kwargs)
        if SUMS.search(name):                           # products in 16 bits are summed in fp32
            args = self.shaken_in(tuple(args), torch.float32)
        result = func(*args, **kwargs)
        return self.shaken_in(result) if isinstance(result, (list, tuple)) else self.shaken(result)


def read(folder, step):
    tensors = {}
    for name in sorted(os.listdir(f"{folder}/step-{step}")):
        for key, x in safetensors.torch.load_file(f"{folder}/step-{step}/{name}").items():
            tensors.setdefault(key.split("#")[0], []).append((name, key, x.double()))
    return tensors


def apart(run, reference):
    """Largest difference of a tensor's pieces by its largest element."""
    if [(p[0], p[1], p[2].shape) for p in run] != [(p[0], p[1], p[2].shape) for p in reference]:
        return math.inf
    most = max(float(y.abs().max()) for _, _, y in reference)
    off = max(float((x - y).abs().max()) for (_, _, x), (_, _, y) in zip(run, reference))
    return off / most if most > 0 else off


def check_seeded(head, first):
    """Weights, samples or dropout of another seed move activations by their own size, and an untrained model's loss
    by little. In 16 bits a rounding may send a token to another expert: there the first activation is looked at."""
    forward = [row["name"] for row in head["order"] if row["phase"] == "forward"]
    if head["dtype"] in ("bf16", "fp16"):
        forward = forward[:1]
    far = [x for x in forward if first[x] > 0.1] + [x for x in ("loss",) if first.get(x, 0) > 0.01]
    far += [x for x in first if not math.isfinite(first[x])]
    if far:
        sys.exit(f"reference: the script does not compute the same twice ({far[0]} of step 1 differs by "
                 f"{first[far[0]]:.2g}); seed it, by torch.manual_seed, and its data's order")


def measure(folder):
    """How far do the shaken runs take each tensor? Writes scale-DTYPE.json."""
    with open(f"{folder}/recording.json") as f:
        head = json.load(f)
    least, steps = ROUNDING[head["dtype"]], [read(folder, n + 1) for n in range(head["steps"])]
    head["order"] = [row for row in head["order"] if all(row["name"] in step for step in steps)]
    levels = math.log2(sum(x.numel() for name, row in steps[0].items() if name.endswith(".param")
                           for _, _, x in row))
    scales = []
    for n, step in enumerate(steps):
        shaken = [read(f"{folder}/shaken-{k}", n + 1) for k in range(1, RUNS + 1)]
        scales.append({})
        for name in (row["name"] for row in head["order"]):
            number = sum(x.numel() for _, _, x in step[name]) == 1
            off = [apart(run.get(name, []), step[name]) for run in shaken]
            if number and n:                            # a single number may be near by luck
                off.append(scales[n - 1][name])
            scales[n][name] = max(least * (levels if number else 1), *off)
    check_seeded(head, scales[0])
    with open(f"{folder}/scale-{head['dtype']}.json", "w") as f:
        json.dump({"runs": RUNS, "rounding": least, "steps": scales}, f)
    with open(f"{folder}/recording.json", "w") as f:
        json.dump(head, f)
    print(f"{folder}: {head['steps']} steps, {len(head['order'])} tensors each, in {head['dtype']}: a reference")


def main(words):
    if len(words) < 2 or words[0].startswith("-"):
        sys.exit("python -m trivium.oracle reference FOLDER SCRIPT.py|COMMAND...: trains as the script does, which "
                 f"says `with record(...)`, {RUNS + 1} times, in {RUNS} of them with roundings moved")
    folder, command = words[0], words[1:]
    if os.path.exists(folder):
        sys.exit(f"reference: {folder} is there; give a new folder, or remove it")
    if command[0].endswith(".py"):
        command = [sys.executable, *command]
    for k in range(RUNS + 1):
        out = f"{folder}/shaken-{k}" if k else folder
        done = subprocess.run(command, env={**os.environ, "TRIVIUM_ORACLE_OUT": out, "TRIVIUM_ORACLE_SHAKE": str(k)})
        if done.returncode or not os.path.exists(f"{out}/recording.json"):
            sys.exit(f"reference: {' '.join(command)} ended with {done.returncode}, and has recorded "
                     f"{'no step' if not os.path.exists(f'{out}/recording.json') else 'some steps'}")
    measure(folder)
    for k in range(1, RUNS + 1):
        shutil.rmtree(f"{folder}/shaken-{k}")


if __name__ == "__main__":
    main(sys.argv[1:])
