"""A reference out of a training script of your own, which records itself (script.py):

    python -m trivium.oracle reference FOLDER train.py ARGUMENTS...

It trains twice as it is, to see whether it computes the same, and eight times with each result moved by a rounding.
What they differ by is what rounding explains, for each tensor and step: scale-DTYPE.json, which `trivium oracle check`
reads."""
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
        exact = name in ("copy_", "histc") or not any(x.dtype in DTYPES for x in given)     # counts have no roundings,
        exact = exact or kwargs.get("dtype", torch.float32) not in DTYPES                   # nor have their sums
        if func.namespace != "aten" or exact:
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
    """Largest difference of a tensor's pieces by its largest element; infinite where one is no number. None: other
    pieces."""
    if [(p[0], p[1], p[2].shape) for p in run] != [(p[0], p[1], p[2].shape) for p in reference]:
        return None
    most = [float(y.abs().max()) for _, _, y in reference if y.numel()]
    off = [float((x - y).abs().max()) for (_, _, x), (_, _, y) in zip(run, reference) if y.numel()]
    if not all(map(math.isfinite, most + off)):         # max of Python drops a NaN that is not the first
        return math.inf
    return max(off, default=0) / (max(most, default=0) or 1)


def head_of(folder):
    with open(f"{folder}/recording.json") as f:
        return json.load(f)


def refuse_infinity(name, n, where):
    sys.exit(f"reference: {name} of step {n} has infinity or NaN{where}, and nothing can be held against that; lower "
             "the learning rate or the loss scale, or record fewer steps (steps=)")


def not_the_same(folder, again):
    """(Step, name, how far apart) of the first tensor of two runs that no rounding explains, or None.

    As a rule all of them are the same to the last bit. Where a GPU adds in any order, the first that differs does so in
    the second half of its digits, and what follows may differ by more: only the activations of step 1 may not, unless
    in 16 bits a rounding sends a token to another expert. Weights, samples or dropout of another seed move the
    first tensor that has them by its own size."""
    head = head_of(folder)
    half = math.sqrt(torch.finfo(next(x for x, name in DTYPES.items() if name == head["dtype"])).eps)
    for n in range(1, head["steps"] + 1):
        one, two = read(folder, n), read(again, n)
        phases = {row["name"]: row["phase"] for row in head["order"]}
        phases.update((name, "") for name in (*one, *two) if name not in phases)
        for name in (x for x in phases if x in one or x in two):
            off = apart(two.get(name, []), one.get(name, []))
            if off == math.inf:
                refuse_infinity(name, n, "")
            if off is None or off > half:
                return n, name, off
            if off > 0 and (n > 1 or phases[name] != "forward" or head["dtype"] in ("bf16", "fp16")):
                return None
    return None


def check_seeded(folder, again):
    found = not_the_same(folder, again)
    if found:
        n, name, off = found
        how = "has other pieces" if off is None else f"differs by {off:.2g}"
        sys.exit(f"reference: the script does not compute the same twice ({name} of step {n} {how}); seed it, by "
                 "torch.manual_seed, and its data's order")


def scales_of(steps, folder, order, least):
    """The scale of each tensor in `order` in each step, and the names of tensors that a shaken run lacks."""
    levels = math.log2(sum(x.numel() for name, row in steps[0].items() if name.endswith(".param")
                           for _, _, x in row))
    scales, lacking = [], set()
    for n, step in enumerate(steps):
        shaken = [read(f"{folder}/shaken-{k}", n + 1) for k in range(1, RUNS + 1)]
        scales.append({})
        for name in order:
            number = sum(x.numel() for _, _, x in step[name]) == 1
            off = [apart(run.get(name, []), step[name]) for run in shaken]
            if None in off:                             # as of an expert that a rounding gives other tokens
                lacking.add(name)
                continue
            if math.inf in off:
                refuse_infinity(name, n + 1, f" in shaken run {off.index(math.inf) + 1}")
            if number and n and name in scales[n - 1]:  # a single number may be near by luck
                off.append(scales[n - 1][name])
            scales[n][name] = max(least * (levels if number else 1), *off)
    return scales, lacking


def measure(folder):
    """How far do the shaken runs take each tensor? Writes scale-DTYPE.json. Tensors that not all steps of all runs have
    are left out."""
    head = head_of(folder)
    least, steps = ROUNDING[head["dtype"]], [read(folder, n + 1) for n in range(head["steps"])]
    names = list(dict.fromkeys([row["name"] for row in head["order"]] + [name for step in steps for name in step]))
    everywhere = [name for name in names if all(name in step for step in steps)]
    scales, lacking = scales_of(steps, folder, everywhere, least)
    kept = {name for name in everywhere if name not in lacking}
    if len(kept) < len(names):
        out = [name for name in names if name not in kept]
        print(f"reference: left out {len(out)} tensors that not all steps have, or not in one shape: "
              f"{', '.join(out[:3])}", file=sys.stderr)
    head["order"] = [row for row in head["order"] if row["name"] in kept]
    with open(f"{folder}/scale-{head['dtype']}.json", "w") as f:
        json.dump({"runs": RUNS, "rounding": least,
                   "steps": [{name: x for name, x in step.items() if name in kept} for step in scales]}, f)
    with open(f"{folder}/recording.json", "w") as f:
        json.dump(head, f)
    print(f"{folder}: {head['steps']} steps, {len(head['order'])} tensors each, in {head['dtype']}: a reference")


def main(words):
    if len(words) < 2 or words[0].startswith("-"):
        sys.exit("python -m trivium.oracle reference FOLDER SCRIPT.py|COMMAND...: trains as the script does, which "
                 f"says `with record(...)`, {RUNS + 2} times, in {RUNS} of them with roundings moved")
    folder, command = words[0], words[1:]
    if os.path.exists(folder):
        sys.exit(f"reference: {folder} is there; give a new folder, or remove it")
    if command[0].endswith(".py"):
        command = [sys.executable, *command]
    for k, out in enumerate([folder, f"{folder}/again", *(f"{folder}/shaken-{k}" for k in range(1, RUNS + 1))]):
        shake = max(0, k - 1)
        done = subprocess.run(command, env={**os.environ, "TRIVIUM_ORACLE_OUT": out,
                                            "TRIVIUM_ORACLE_SHAKE": str(shake)})
        if done.returncode or not os.path.exists(f"{out}/recording.json"):
            sys.exit(f"reference: {' '.join(command)} ended with {done.returncode}, and has recorded "
                     f"{'no step' if not os.path.exists(f'{out}/recording.json') else 'some steps'}")
        if head_of(out)["steps"] != head_of(folder)["steps"]:
            sys.exit(f"reference: the script takes {head_of(folder)['steps']} steps, and then "
                     f"{head_of(out)['steps']}; seed it, and record no more than it always takes (steps=)")
        if k == 1:
            check_seeded(folder, out)
            shutil.rmtree(out)
    measure(folder)
    for k in range(1, RUNS + 1):
        shutil.rmtree(f"{folder}/shaken-{k}")


if __name__ == "__main__":
    main(sys.argv[1:])
