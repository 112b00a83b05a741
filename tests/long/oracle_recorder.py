"""What the recorder of tools/oracle writes, number by number; and mistakes planted in it, each noticed by a claim.

    oracle_recorder.py          at the project's root, with torch and safetensors. MISTAKES=0: the claims alone;
ONLY=WORD: those with that word

A claim runs in forks of this process, one a rank, over gloo: PyTorch is imported once."""
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile

try:
    import safetensors.torch
    import torch
    import torch.distributed as dist
    import torch.distributed._functional_collectives as functional
    import torch.distributed.tensor
except ImportError:
    print("skip oracle_recorder no Python with torch and safetensors here (python3 tools/oracle/venv.py makes one)")
    sys.exit()

ADAPTERS = os.path.abspath("tools/oracle")
CLAIMS, MISTAKES = [], []


def claim(ranks, *mistakes):
    """mistakes: (file, what stands there, what is planted). They must make the claim fail."""
    def add(check):
        CLAIMS.append((check, ranks))
        MISTAKES.extend((check, ranks, *m) for m in mistakes)
        return check
    return add


def equal(found, wanted):
    assert found == wanted, f"{found}, and not {wanted}"


class Plain:
    """In place of a reference."""
    names, global_batch = {"a.act", "transformer.h.0.attn.c_attn.act"}, 4


def written(step, rank=0, folder="run"):
    """name: (values, metadata)"""
    with safetensors.safe_open(f"{folder}/step-{step}/rank-{rank}.safetensors", "pt") as f:
        return {k: (f.get_tensor(k), json.loads((f.metadata() or {}).get(k, "{}"))) for k in f.keys()}


def pieces(step, name, rank=0):
    return [(x.tolist(), m["first"]) for k, (x, m) in sorted(written(step, rank).items()) if k.split("#")[0] == name]


# ---- recorder.py ----
@claim(2, ("recorder.py", "first[::-1], of[::-1]", "first, of[::-1]"),
       ("recorder.py", "*(local.T, first", "*(local, first"))
def a_shard_of_a_transposed_matrix_lies_where_it_says(rank):
    from recorder import Recorder
    mesh = dist.init_device_mesh("cpu", (2,))
    model = torch.nn.ModuleDict({"qkv": torch.nn.Linear(3, 4, bias=False)})
    whole = torch.arange(12.).reshape(4, 3)
    shard = dist.tensor.distribute_tensor(whole, mesh, [dist.tensor.Shard(0)])
    model["qkv"].weight = torch.nn.Parameter(shard)
    recorder = Recorder("run", Plain, model, names={"qkv": "transformer.h.0.attn.c_attn"}, rank=rank)
    recorder.step(loss=rank)
    (name, (x, where)), = ((k, v) for k, v in written(1, rank).items() if ".param" in k)
    equal(name.split("#")[0], "transformer.h.0.attn.c_attn.weight.param")
    equal(where, {"first": [0, 2 * rank], "of": [3, 4]})
    equal(x.tolist(), whole.T[:, 2 * rank:2 * rank + 2].tolist())


@claim(4, ("recorder.py", "index = index * tensor.device_mesh.size(axis) + tensor", "index = index + tensor"),
       ("recorder.py", "parts *= tensor", "parts += tensor"))
def a_summand_of_two_axes_has_a_number_of_its_own(rank):
    from recorder import piece_of
    mesh = dist.init_device_mesh("cpu", (2, 2))
    summand = dist.tensor.DTensor.from_local(torch.ones(3), mesh, [dist.tensor.Partial(), dist.tensor.Partial()])
    equal(piece_of(summand)[1:], ([0], [3], [rank, 4]))


@claim(1, ("recorder.py", '".act_grad", samples, scale)', '".act_grad", self.first, self.scale)'),
       ("recorder.py", "local * scale, [samples]", "local, [samples]"))
def gradients_of_activations_belong_to_the_forward_pass_of_their_samples(rank):
    from recorder import Recorder
    model = torch.nn.ModuleDict({"a": torch.nn.Linear(1, 1)})
    recorder, outputs = Recorder("run", Plain, model), []
    for first, scale in ((0, 0.5), (2, 0.25)):          # a pipeline: both go forward before one goes backward
        recorder.samples(first, 2, scale)
        outputs.append(model["a"](torch.ones(2, 1)))
    for y in reversed(outputs):
        y.sum().backward()
    recorder.step(loss=1)
    equal(sorted(pieces(1, "a.act_grad"), key=lambda p: p[1]), [([[0.5], [0.5]], [0, 0]), ([[0.25], [0.25]], [2, 0])])


@claim(1, ("recorder.py", "for group in optimizer.param_groups:", "for group in optimizer.param_groups[:1]:"),
       ("recorder.py", '["lr"][n]', '["lr"][n - 1]'), ("recorder.py", "|_checkpoint_wrapped_module", ""))
def all_groups_have_the_rate_of_the_step_and_wrappers_leave_no_name(rank):
    import recorder
    reference = recorder.Reference.__new__(recorder.Reference)
    reference.adamw = {"lr": [1, 2, 3]}
    optimizer = torch.optim.SGD([{"params": [torch.zeros(1)]}, {"params": [torch.zeros(1)]}], lr=9)
    reference.set_rate(optimizer, 1)
    equal([g["lr"] for g in optimizer.param_groups], [2, 2])
    equal(recorder.plain_name("module._orig_mod.h.0._checkpoint_wrapped_module.ln"), "h.0.ln")


# ---- calls.py ----
@claim(4, ("recorder.py", "self.calls.paused = True", "self.calls.paused = False"),
       ("recorder.py", "self.calls.step = self.n + 1", "self.calls.step = self.n"),
       ("calls.py", 'group.size() if op == "reduce_scatter" else 1)', "1)"),
       ("calls.py", "peer=ranks[peer]", "peer=peer"), ("calls.py", "count * dtype.itemsize", "count * 4"),
       ("calls.py", '"broadcast_": ("broadcast", 0),\n', "\n"), ("calls.py", "self.sequence += 1", "pass"),
       ("calls.py", "tag=tag[0] if tag else 0", "tag=0"))
def each_call_is_written_with_group_count_bytes_peer_and_step(rank):
    from recorder import Recorder

    class Gathering(Recorder):
        def gradient_of(self, p):
            dist.all_reduce(torch.zeros(5))             # what a recorder gathers is no call of the run
            return p

    pairs = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    pair = pairs[rank % 2]
    recorder = Gathering("run", Plain, torch.nn.Linear(1, 1), rank=rank)
    dist.all_reduce(torch.zeros(8, dtype=torch.bfloat16))
    recorder.gradients()
    recorder.step(loss=1)
    dist.broadcast(torch.zeros(3), 0)
    functional.wait_tensor(functional.reduce_scatter_tensor(torch.zeros(8), "sum", 0, dist.group.WORLD))
    (dist.recv if rank < 2 else dist.send)(torch.zeros(2), (rank + 2) % 4, group=pair, tag=6)
    with open(f"run/collectives-{rank}.jsonl") as f:
        rows = [json.loads(line) for line in f]
    keys = ("step", "sequence", "op", "group", "count", "dtype", "bytes", "peer", "tag")
    own = [rank % 2, rank % 2 + 2]
    equal([tuple(row.get(k) for k in keys) for row in rows], [
        (1, 0, "all_reduce", [0, 1, 2, 3], 8, "bf16", 24, None, None),
        (2, 1, "broadcast", [0, 1, 2, 3], 3, "fp32", 12, None, None),
        (2, 2, "reduce_scatter", [0, 1, 2, 3], 2, "fp32", 24, None, None),
        (2, 3, "recv" if rank < 2 else "send", own, 2, "fp32", 0 if rank < 2 else 8, (rank + 2) % 4, 6)])


# ---- script.py ----
@claim(2, ("script.py", "for t in local)).hexdigest()", "for t in local[:1])).hexdigest()"),
       ("script.py", "return different.index(own), len(different)", "return dist.get_rank(), len(different)"))
def ranks_with_the_same_inputs_have_the_same_share(rank):
    from script import share_of
    same = torch.ones(2)
    equal(share_of((same, {"more": torch.full((2,), float(rank))})), (rank, 2))
    equal(share_of((same, {"more": same})), (0, 1))


class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.frozen = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)

    def forward(self, x):
        with torch.no_grad():
            self.frozen(x)
        return self.a(self.a(x))


@claim(1, ("script.py", "not self.inside or not torch.is_grad_enabled() or x", "not self.inside or x"),
       ("script.py", 'name if call == 1 else f"{name}@{call}"', "name"),
       ("script.py", '"act_grad": "backward"', '"act_grad": "forward"'),
       ("script.py", "sum(self.sizes[:at]) + first[0]", "sum(self.sizes[:at - 1]) + first[0]"),
       ("script.py", "min(1.0, float(most) / (norm + 1e-6))", "float(most) / (norm + 1e-6)"),
       ("script.py", "self.gradients([parameters] if isinstance(parameters, torch.Tensor) else parameters)", "pass"),
       ("script.py", "self.calls_of.clear()", "pass"))
def a_script_of_two_microbatches_is_recorded(rank):
    from script import record
    torch.manual_seed(0)
    model = Twice()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with record("run", steps=1):
        for n in (2, 3):
            (model(torch.ones(n, 1)).mean() / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
        before = model.a.weight.grad.item()
        model.a.weight.grad *= 7                        # what is clipped is read before
        optimizer.step()
    step = written(1)
    equal(sorted({k.split("#")[0] for k in step if ".act" in k}),
          ["a.act", "a.act_grad", "a@2.act", "a@2.act_grad"])
    equal(sorted((first, len(x)) for x, first in pieces(1, "a@2.act")), [([0, 0], 2), ([2, 0], 3)])
    equal(step["clip_factor"][0].item(), 1)
    assert abs(step["a.weight.grad"][0].item() - before) < 1e-6
    with open("run/recording.json") as f:
        phases = {row["name"]: row["phase"] for row in json.load(f)["order"]}
    equal([phases[x] for x in ("a.act", "loss", "a.act_grad", "a.weight.grad", "grad_norm", "a.weight.param")],
          ["forward", "loss", "backward", "backward", "norm", "update"])


# ---- reference.py ----
def write_run(folder, value):
    os.makedirs(f"{folder}/step-1")
    safetensors.torch.save_file({"a.act": torch.tensor([1., value]), "w.param": torch.ones(2)},
                                f"{folder}/step-1/rank-0.safetensors")
    with open(f"{folder}/recording.json", "w") as f:
        json.dump({"dtype": "fp32", "steps": 1, "order": [{"name": "a.act", "phase": "forward"}]}, f)


@claim(1, ("reference.py", "max(least * (levels if number else 1), *off)", "max(least, off[-1])"),
       ("reference.py", "str(shake)", "str(min(shake, 1))"), ("reference.py", "shake = max(0, k - 1)", "shake = k"),
       ("reference.py", "(max(most, default=0) or 1)", "(most[0] or 1)"))
def each_shaken_run_has_a_seed_of_its_own_and_the_furthest_counts(rank):
    import reference
    seeds = []

    class Done:
        returncode = 0

    def run(command, env):
        seeds.append(int(env["TRIVIUM_ORACLE_SHAKE"]))
        write_run(env["TRIVIUM_ORACLE_OUT"], 4 + (0.5 if len(seeds) == 5 else 0))
        return Done
    reference.subprocess.run = run
    reference.main(["ref", "none.py"])
    equal(seeds, [0, 0, *range(1, reference.RUNS + 1)])
    with open("ref/scale-fp32.json") as f:
        equal(json.load(f)["steps"][0]["a.act"], 0.125)
    one, two = (("", "a", torch.tensor([x], dtype=torch.float64)) for x in (1., 8.))
    other = ("", "a", torch.tensor([10.], dtype=torch.float64))
    equal(reference.apart([one, other], [one, two]), 0.25)


@claim(1, ("reference.py", "if SUMS.search(name):  ", "if 0:  "), ("reference.py", "x.copy_(self.shaken(x))", "pass"))
def terms_of_sums_and_what_is_written_in_place_are_shaken(rank):
    from reference import Shaking
    x, y = torch.tensor([1., -1.]), torch.ones(100)
    with Shaking(1):
        total = x.sum()
        y.mul_(3)
    assert total != 0 and abs(total) < 1e-6, total
    assert (y != 3).any() and (y - 3).abs().max() < 1e-6


# ---- running them ----
def run_rank(check, rank, ranks, adapters):
    code = 1
    try:
        sys.path.insert(0, adapters)
        sys.stderr = io.StringIO()
        if ranks > 1:
            dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/meet", rank=rank, world_size=ranks)
        check(rank)
        code = 0
    except BaseException as e:
        with open("why", "w") as f:
            f.write(f"{type(e).__name__}: {e}".split("\n")[0])
    finally:
        os._exit(code)


def fails(check, ranks, adapters):
    """What a rank says; None: all are right."""
    with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):
        pids = []
        for rank in range(ranks):
            pids.append(os.fork())
            if pids[-1] == 0:
                run_rank(check, rank, ranks, adapters)
        wrong = [code for code in (os.waitpid(pid, 0)[1] for pid in pids) if code]
        if not wrong:
            return None
        with open("why") as f:
            return f.read()


def main():
    torch.set_num_threads(1)
    only = os.environ.get("ONLY", "")
    for check, ranks in [c for c in CLAIMS if only in c[0].__name__]:
        why = fails(check, ranks, ADAPTERS)
        print(f"{'ok' if why is None else 'not ok'} oracle_recorder_{check.__name__} {why or ''}", flush=True)
    for check, ranks, name, old, new in MISTAKES if os.environ.get("MISTAKES") != "0" else ():
        if only not in check.__name__:
            continue
        with tempfile.TemporaryDirectory() as adapters:
            for file in ("recorder.py", "script.py", "calls.py", "reference.py"):
                shutil.copy(f"{ADAPTERS}/{file}", adapters)
            with open(f"{adapters}/{name}") as f:
                text = f.read()
            with open(f"{adapters}/{name}", "w") as f:
                f.write(text.replace(old, new))
            there, why = text.count(old) == 1, fails(check, ranks, adapters)
        print(f"{'ok' if there and why else 'not ok'} oracle_recorder_notices {name}: {' '.join(new.split())}: "
              f"{(why or 'no claim failed') if there else 'the source lacks the text to replace'}", flush=True)


if __name__ == "__main__":
    main()
