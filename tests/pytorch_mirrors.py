"""Held against runs of this project: the scripts of docs/pytorch. Called by tests/pytorch.sh.

    pytorch_mirrors.py SCRIPTS CALLS WORK <rows

A row: NAME|RANKS|BOUND, of SCRIPTS/NAME.py. WORK/ref is its reference and WORK/NAME what `oracle record` wrote of the
same layout. Losses and norms of all steps must agree within BOUND, relative, and the bytes that rank 0 sends exactly,
by what is called. CALLS has calls.py, which writes the calls. Calls of 4 numbers or fewer (losses, norms) are left out.
PyTorch is loaded once: ranks are forks."""
import collections
import importlib
import json
import os
import sys
import traceback

import safetensors.torch
import torch
import torch.distributed as dist

SMALL = 4
SAME = {"all_to_allv": "all_to_all", "recv": None, "barrier": None}


def folder_of(scripts, name, work):
    return f"{work}/{name}.{os.path.basename(scripts)}"


def train(scripts, name, rank, n, work):
    """One rank, in a process of its own."""
    out = folder_of(scripts, name, work)
    from calls import Calls
    dist.init_process_group("gloo", init_method=f"file://{out}/store", rank=rank, world_size=n)
    mirror, rows = importlib.import_module(name), []
    folder = f"{work}/{getattr(mirror, 'REFERENCE', 'ref')}"
    reference = importlib.import_module("gpt").Reference(folder, getattr(mirror, "DTYPE", torch.float64))
    with Calls(out, rank) as calls:
        for loss, norm, *scale in mirror.train(reference, rank, n):
            rows.append([loss.item(), *(scale or [norm.item()])])
            calls.step += 1
    if rank == 0:
        with open(f"{out}/steps.json", "w") as f:
            json.dump(rows, f)
    dist.destroy_process_group()


def fork(scripts, name, n, work):
    os.makedirs(folder_of(scripts, name, work))
    children = []
    for rank in range(n):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                torch.set_num_threads(1)
                train(scripts, name, rank, n, work)
                code = 0
            except BaseException:
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(code)
        children.append(pid)
    codes = [os.waitpid(pid, 0)[1] for pid in children]
    if any(codes):
        raise RuntimeError(f"{name}.py failed on rank {next(r for r, c in enumerate(codes) if c)}")


def numbers(folder, n_steps):
    out = []
    for step in range(1, n_steps + 1):
        with safetensors.torch.safe_open(f"{folder}/step-{step}/rank-0.safetensors", "pt") as f:
            out.append([float(f.get_tensor(name)) for name in ("loss", "grad_norm")])
    return out


def bytes_sent(folder):
    """{call: bytes of rank 0, all steps}"""
    total = collections.Counter()
    path = f"{folder}/collectives-0.jsonl"
    for row in map(json.loads, open(path) if os.path.exists(path) else []):
        op = SAME.get(row["op"], row["op"])
        if op and row["count"] > SMALL:
            total[op] += row["bytes"]
    return dict(total)


def compare_scales(name, bound, work, out):
    """Check a run with a loss scale, by its metrics: scales exactly, losses within the bound."""
    with open(f"{out}/steps.json") as f:
        got = json.load(f)
    with open(f"{work}/{name}.jsonl") as f:
        want = [[row["loss"], row["loss_scale"]] for row in map(json.loads, f) if "loss_scale" in row]
    far = max(abs(a[0] / b[0] - 1) for a, b in zip(got, want))
    scales = [row[1] for row in got]
    if scales != [row[1] for row in want] or len(set(scales)) < 3 or not far <= bound:
        return f"scales and losses are {got}, and here {want}"
    print(f"# {name}: {len(got)} steps, {far:.1e}, scales {scales}", flush=True)
    return None


def compare(name, bound, work, out):
    if os.path.exists(f"{work}/{name}.jsonl"):
        return compare_scales(name, bound, work, out)
    with open(f"{out}/steps.json") as f:
        got = json.load(f)
    want = numbers(f"{work}/{name}", len(got))
    far = max(abs(a / b - 1) for row, other in zip(got, want) for a, b in zip(row, other))
    if not (far <= bound and len(got) >= 2):
        return f"losses and norms differ by {far:.1e} of themselves, more than {bound}: {got} and {want}"
    sent, billed = bytes_sent(out), bytes_sent(f"{work}/{name}")
    if sent != billed:
        return f"rank 0 sends {sent} bytes, and here {billed}"
    print(f"# {name}: {len(got)} steps, {far:.1e}, {sent}", flush=True)
    return None


def main():
    scripts, calls, work = sys.argv[1:]
    sys.path[:0] = [scripts, calls]
    torch.ones(2).sum()                              # what PyTorch sets up at its first use, before the first fork
    for row in sys.stdin.read().split():
        name, n, bound = row.split("|")
        try:
            fork(scripts, name, int(n), work)
            wrong = compare(name, float(bound), work, folder_of(scripts, name, work))
        except Exception as e:                       # the other rows are of interest all the same
            wrong = f"{type(e).__name__}: {e}"
        print(f"not ok pytorch_{name}_is_the_same {wrong}" if wrong else f"ok pytorch_{name}_is_the_same", flush=True)


if __name__ == "__main__":
    main()
