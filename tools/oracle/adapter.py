"""What the adapters here share: their command line, and a training step's parts that are no business of a layout.

    ADAPTER.py REFERENCE RUN [--dtype fp64|fp32|bf16] [--micro-batch N] [--plant BUG]

BUG: one of the adapter's BUGS, to see it named by `trivium oracle check`."""
import argparse
import atexit
import os

import torch
import torch.distributed as dist

from recorder import Reference

# bf16, fp16: weights stay in fp32, and products are in that
DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.float32, "fp16": torch.float32}


# Bugs of a Llama whose parameters are DTensors, sharded over a mesh; plant_shards makes those that are in weights.
TENSOR_BUGS = {
    "no-reduce": "layer 1's MLP does not sum over ranks what its second matrix gives",
    "vocabulary": "a rank's rows of the embedding are shifted by one",
    "heads": "ranks have each other's heads of keys",
    "local-norm": "each rank clips by the norm of its own shards",
    "norm-twice": "squares are summed over ranks, also of what all ranks have",
}


def plant_shards(bug, model, mesh):
    rows, keys = model.model.embed_tokens.weight, model.model.layers[1].self_attn.k_proj.weight
    with torch.no_grad():
        if bug == "vocabulary":
            rows.to_local().copy_(rows.to_local().roll(1, 0))
        if bug == "heads":
            keys.to_local().copy_(keys.full_tensor().chunk(mesh.size())[(mesh.get_local_rank() + 1) % mesh.size()])


def start(doc, bugs, micro_batch=2, dtypes=("fp64", "fp32", "bf16"), **choices):
    """The arguments, with the reference, and rank of ranks. choices: further options, each with what it may be."""
    a = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter,
                                epilog="\n".join(["bugs:"] + [f"  {name:16} {text}" for name, text in bugs.items()]))
    a.add_argument("reference", help="the folder that oracle record made")
    a.add_argument("run", help="the folder to make")
    a.add_argument("--dtype", choices=dtypes, default="fp32")
    a.add_argument("--micro-batch", type=int, default=micro_batch)
    a.add_argument("--plant", choices=bugs)
    for name, values in choices.items():
        a.add_argument("--" + name.replace("_", "-"), choices=values, default=values[0], type=type(values[0]))
    a = a.parse_args()
    if a.dtype == "fp64":
        torch.set_default_dtype(torch.float64)
        torch.float32 = torch.float = torch.float64    # transformers' Llama has norms, softmax and angles in "fp32"
        torch.Tensor.float = torch.Tensor.double        # and its Mixtral the router's softmax
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")
        atexit.register(dist.destroy_process_group)
    a.rank, a.ranks = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    a.reference = Reference(a.reference)
    a.loss_scale = a.reference.head["fp16_loss_scale"] if a.dtype == "fp16" else 1
    return a


def autocast(a):
    return torch.autocast("cpu", torch.float16 if a.dtype == "fp16" else torch.bfloat16, enabled="16" in a.dtype)


def cross_entropy(logits, targets):
    """Mean over all tokens."""
    exact = torch.float64 if logits.dtype == torch.float64 else torch.float32
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).to(exact), targets.flatten())


def loss_of(model, tokens, targets):
    return cross_entropy(model(input_ids=tokens, use_cache=False).logits, targets)


def blocks_of(model):
    """The blocks of a GPT-2, or of a Llama."""
    return model.base_model.h if hasattr(model.base_model, "h") else model.base_model.layers


def own_microbatches(a, recorder, tokens, targets, replica=None, replicas=None, scale=None):
    """The share of replica r of n of the batch, r B/n and on, by parts: tokens, targets, parts left, all parts. Each
    rank is a replica, unless these are given. scale: as of recorder.samples, if another than 1 / n."""
    replica, replicas = (a.rank, a.ranks) if replicas is None else (replica, replicas)
    own = len(tokens) // replicas
    parts = own // a.micro_batch
    for i in range(parts):
        at = replica * own + i * a.micro_batch
        recorder.samples(at, a.micro_batch, scale or 1 / replicas)
        first = i * a.micro_batch if a.plant == "same-samples" else at
        rows = slice(first, first + a.micro_batch)
        yield tokens[rows], targets[rows], parts - 1 - i, parts


def backward_of(a, model, loss_of):
    """For steps: forward and backward of a part of the loss of these samples, which it returns."""
    def train(tokens, targets, part):
        with autocast(a):
            loss = loss_of(model, tokens, targets) * part
        loss.backward()
        return loss.detach()
    return train


def steps(a, recorder, optimizer, train, *share):
    """Each step's number, and the rank's loss, when its gradients are there. share: replica, replicas, scale, as
    own_microbatches has them."""
    for n, batch in enumerate(a.reference.batches()):
        optimizer.zero_grad()
        yield n, sum(train(x, y, 1 / parts) for x, y, _, parts in own_microbatches(a, recorder, *batch, *share))


def sum_over_ranks(x, group=None):
    x = torch.as_tensor(float(x), dtype=torch.float64)
    dist.all_reduce(x, group=group)
    return x


def norm_of(gradients):
    """The norm over all of them: for DTensors that of the whole tensor, for others of the local part."""
    norms = [torch.linalg.vector_norm(g) for g in gradients]
    return torch.linalg.vector_norm(torch.stack([x.full_tensor() if hasattr(x, "full_tensor") else x for x in norms]))


def finish_step(a, recorder, optimizer, n, loss, norm):
    """Step n, from 0: clip by this norm, update, and write what the step was."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    torch.nn.utils.clip_grads_with_norm_(parameters, a.reference.clip, norm, foreach=False)
    a.reference.set_rate(optimizer, n)
    optimizer.step()
    recorder.step(optimizer, loss=loss, grad_norm=norm)
