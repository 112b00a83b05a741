"""DeepSpeed's ZeRO on the CPU, over gloo (pip install deepspeed; DS_ACCELERATOR=cpu):

    torchrun --nproc-per-node 2 deepspeed_zero.py REFERENCE RUN [--stage 1|2|3] [--dtype fp32|bf16] [--plant BUG]

Each rank trains on its own share of the batch: rank r of n has samples r B/n and on. The engine divides the loss by the
number of microbatches, averages over ranks, and clips. Gradients, weights in fp32 and moments are gathered whole."""
import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")
import deepspeed  # noqa: E402
import torch  # noqa: E402
from deepspeed.utils import (safe_get_full_fp32_param, safe_get_full_grad,  # noqa: E402
                             safe_get_full_optimizer_state)

from adapter import DTYPES, loss_of, start, sum_over_ranks  # noqa: E402
from recorder import Recorder  # noqa: E402

BUGS = {
    "divided-twice": "the loss is divided by the number of microbatches, and the engine divides again",
    "own-clipping": "clip_grad_norm_ of the model's parameters in place of gradient_clipping: they have no gradients",
    "decay-all": "biases and norms decay too",
    "tied": "the head has its own copy of the embedding, which is not updated with it",
    "same-samples": "all ranks train on the first rank's samples",
    "late-rate": "the rate is set after the step that it is meant for",
    "betas": "the optimizer has the betas of PyTorch, 0.9 and 0.999, not the run's",
    "own-loss": "the loss that is printed is that of one rank's samples",
    "dropped": "the last microbatch of each step is left out, and the others' mean is taken",
}


class ZeroRecorder(Recorder):
    def gradient_of(self, p):
        return safe_get_full_grad(p)

    def weight_of(self, p):
        return safe_get_full_fp32_param(p)

    def moments_of(self, p, optimizer):
        return [safe_get_full_optimizer_state(p, key) for key in ("exp_avg", "exp_avg_sq")]


def link_moments(optimizer):
    """DeepSpeed 0.19.8 (stages 1, 2) does so once, after the first group's update, when other groups have none yet."""
    if hasattr(optimizer, "_hp_optimizer_states_linked"):
        optimizer._hp_optimizer_states_linked = False
        optimizer._lazy_init_hp_params_optimizer_state()


def settings(a, parts):
    return {"train_micro_batch_size_per_gpu": a.micro_batch, "gradient_accumulation_steps": parts,
            "gradient_clipping": 0 if a.plant == "own-clipping" else a.reference.clip,
            "bf16": {"enabled": a.dtype == "bf16"}, "data_types": {"grad_accum_dtype": "fp32"},
            "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False, "steps_per_print": 10 ** 9,
            "zero_optimization": {"stage": a.stage}}


def main():
    a = start(__doc__, BUGS, stage=[1, 2, 3])
    reference = a.reference
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False)
    model = reference.load(DTYPES[a.dtype])
    if a.plant == "tied":
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    own = reference.global_batch // a.ranks
    parts = own // a.micro_batch - (a.plant == "dropped")
    optimizer = reference.optimizer(model.parameters())
    if a.plant == "decay-all":
        optimizer.param_groups[1]["weight_decay"] = reference.adamw["weight_decay"]
    for group in optimizer.param_groups if a.plant == "betas" else []:
        group["betas"] = (0.9, 0.999)
    by = f"deepspeed {deepspeed.__version__}, torch"
    recorder = ZeroRecorder(a.run, reference, model, dtype=a.dtype, rank=a.rank, by=by)
    engine, optimizer, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings(a, parts))
    for n, (tokens, targets) in enumerate(reference.batches()):
        total = 0.0
        for i in range(parts):
            first = (0 if a.plant == "same-samples" else a.rank * own) + i * a.micro_batch
            rows = slice(first, first + a.micro_batch)
            recorder.samples(a.rank * own + i * a.micro_batch, a.micro_batch, 1 / a.ranks)
            loss = loss_of(engine, tokens[rows], targets[rows])
            engine.backward(loss / parts if a.plant == "divided-twice" else loss)
            total += loss.detach() / parts
            if i == parts - 1:
                recorder.gradients()
                reference.set_rate(optimizer, max(n - (a.plant == "late-rate"), 0))
                if a.plant == "own-clipping":
                    torch.nn.utils.clip_grad_norm_(model.parameters(), reference.clip)
            engine.step()
        link_moments(optimizer)
        total = total if a.plant == "own-loss" else sum_over_ranks(total) / a.ranks
        recorder.step(optimizer, loss=total, grad_norm=engine.get_global_grad_norm() or 0)


if __name__ == "__main__":
    main()
