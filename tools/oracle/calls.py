"""What ranks call of each other: collectives-RANK.jsonl, a line a call, for `trivium oracle check`.

Collectives and messages of torch.distributed go through PyTorch's dispatcher, from any caller: a script, DTensor, the
C++ of DistributedDataParallel. A dispatch mode sees them in the order in which they are called. Not seen: calls before
the recorder is made; receives from any source, monitored barriers; what torch.compile has put into a graph; libraries
that talk to NCCL or MPI by themselves. Each line is written before its call: of a run that hangs, the last lines of the
ranks say where."""
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

# PyTorch's calls: the operation, and which argument is one rank's part (where parts make a whole).
C10D = {"allreduce_": ("all_reduce", 0), "allreduce_coalesced_": ("all_reduce", 0), "broadcast_": ("broadcast", 0),
        "reduce_": ("reduce", 0), "allgather_": ("all_gather", 1), "_allgather_base_": ("all_gather", 1),
        "allgather_into_tensor_coalesced_": ("all_gather", 1), "allgather_coalesced_": ("all_gather", 1),
        "reduce_scatter_": ("reduce_scatter", 0), "_reduce_scatter_base_": ("reduce_scatter", 0),
        "reduce_scatter_tensor_coalesced_": ("reduce_scatter", 0), "alltoall_": ("all_to_allv", 1),
        "alltoall_base_": ("all_to_allv", 1), "gather_": ("gather", 1), "scatter_": ("scatter", 0),
        "barrier": ("barrier", None), "send": ("send", 0), "recv_": ("recv", 0)}
FUNCTIONAL = {"all_reduce": "all_reduce", "all_reduce_": "all_reduce", "all_reduce_coalesced": "all_reduce",
              "all_reduce_coalesced_": "all_reduce", "broadcast": "broadcast", "broadcast_": "broadcast",
              "all_gather_into_tensor": "all_gather", "all_gather_into_tensor_out": "all_gather",
              "all_gather_into_tensor_coalesced": "all_gather", "reduce_scatter_tensor": "reduce_scatter",
              "reduce_scatter_tensor_out": "reduce_scatter", "reduce_scatter_tensor_coalesced": "reduce_scatter",
              "all_to_all_single": "all_to_allv"}
DTYPES = {torch.float64: "fp64", torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def tensors_in(x):
    return [x] if isinstance(x, torch.Tensor) else [t for part in x for t in tensors_in(part)]


def sent_bytes(op, n, part):
    """By one rank of n, as a ring does (docs/oracle-format.md). part: bytes of one rank's part, or of the whole."""
    if op in ("all_gather", "reduce_scatter", "all_reduce"):
        return part * (n - 1) * (2 / n if op == "all_reduce" else 1)
    return 0 if op in ("recv", "barrier") else part * (n - 1) / n if op == "all_to_allv" else part


class Calls(TorchDispatchMode):
    """Entered, it writes until it is left. paused: nothing is written."""

    def __init__(self, folder, rank):
        super().__init__()
        os.makedirs(folder, exist_ok=True)
        self.file = open(f"{folder}/collectives-{rank}.jsonl", "w", buffering=1)
        self.rank, self.step, self.sequence, self.paused, self.unknown = rank, 1, 0, False, set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(hasattr(t, "placements") for t in types):
            return NotImplemented                       # a DTensor: its inner calls come back to this function
        if func.namespace in ("c10d", "_c10d_functional") and not self.paused:
            self.see(func.namespace, func._schema.name.split("::")[1], args)
        return func(*args, **(kwargs or {}))

    def see(self, namespace, name, args):
        if namespace == "c10d" and name in C10D:
            op, at = C10D[name]
            group = next(dist.ProcessGroup.unbox(x) for x in args if isinstance(x, torch.ScriptObject))
            peer = args[2] if op in ("send", "recv") else None
            self.write(op, group, tensors_in(args[at]) if at is not None else [], 1, peer, args[3:4])
        elif namespace == "_c10d_functional" and name in FUNCTIONAL:
            op = FUNCTIONAL[name]
            group = dist.distributed_c10d._resolve_process_group(args[-1]) if isinstance(args[-1], str) else args[-1]
            self.write(op, group, tensors_in(args[0]), group.size() if op == "reduce_scatter" else 1)
        elif "wait" not in name and "wrap" not in name and name not in self.unknown:
            self.unknown.add(name)
            print(f"collectives-{self.rank}.jsonl is without {namespace}::{name}", file=sys.stderr)

    def write(self, op, group, tensors, divisor, peer=None, tag=()):
        ranks = dist.get_process_group_ranks(group)
        if len(ranks) == 1:
            return
        count = sum(t.numel() for t in tensors) // divisor
        dtype = tensors[0].dtype if tensors else torch.uint8
        row = {"rank": self.rank, "step": self.step, "sequence": self.sequence, "op": op, "group": ranks,
               "name": group.group_desc if group.group_desc != "undefined" else group.group_name, "count": count,
               "dtype": DTYPES.get(dtype, str(dtype).replace("torch.", "")),
               "bytes": round(sent_bytes(op, len(ranks), count * dtype.itemsize))}
        if peer is not None:
            row.update(peer=ranks[peer], tag=tag[0] if tag else 0)
        self.file.write(json.dumps(row, separators=(",", ":")) + "\n")
        self.sequence += 1
