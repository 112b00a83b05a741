"""PyTorch's pipelines (torch.distributed.pipelining) over gloo, a stage a rank (interleaved: two):

    torchrun --nproc-per-node 2 torch_pp.py REFERENCE RUN [--schedule 1f1b|gpipe|interleaved] [--dtype ...]

A stage is a model of transformers without the blocks of others, so names stay. A tied embedding is on the first and on
the last stage: its gradients are summed over both, and it counts once in the norm."""
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

from adapter import DTYPES, autocast, cross_entropy, finish_step, norm_of, start, sum_over_ranks
from recorder import Recorder

SCHEDULES = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe, "interleaved": ScheduleInterleaved1F1B}
BUGS = {
    "divisor": "gradients of microbatches are added, and their losses are means (scale_grads=False)",
    "tied": "the first and the last stage do not sum the gradients of the embedding that both have",
    "norm-per-stage": "each stage clips by the norm of its own gradients",
    "norm-twice": "the norm counts the tied embedding on both stages",
    "layer-twice": "the second stage begins with a layer that the first has, too",
    "targets": "microbatches have the next one's targets",
}


class Stage(torch.nn.Module):
    """Stage k of n: of the model it keeps what this stage has."""

    def __init__(self, model, k, n, twice=False):
        super().__init__()
        self.model, self.is_first, self.is_last = model, k == 0, k == n - 1
        inner = model.base_model
        self.is_gpt = hasattr(inner, "h")
        self.blocks, self.norm = (inner.h, "ln_f") if self.is_gpt else (inner.layers, "norm")
        layers = len(self.blocks)
        self.own = range(k * layers // n - (twice and k == 1), (k + 1) * layers // n)
        for i in set(range(layers)) - set(self.own):
            self.blocks[i] = torch.nn.Identity()
        tied = model.get_input_embeddings().weight is model.lm_head.weight
        if not self.is_first and not (self.is_last and tied):
            model.set_input_embeddings(torch.nn.Identity())
        if not self.is_first and self.is_gpt:
            inner.wpe = torch.nn.Identity()
        if not self.is_last:
            model.lm_head = torch.nn.Identity()
            setattr(inner, self.norm, torch.nn.Identity())

    def examples(self, samples, dtype):
        """What goes in and out. Without them a pipeline tries forward and backward once, and that would be recorded."""
        c, shape = self.model.config, (samples, self.model.config.max_position_embeddings)
        x = torch.empty(*shape, c.hidden_size, dtype=dtype, requires_grad=True)
        return (torch.zeros(shape, dtype=torch.int64) if self.is_first else x,
                torch.empty(*shape, c.vocab_size, dtype=dtype, requires_grad=True) if self.is_last else x)

    def forward(self, x):
        inner, positions = self.model.base_model, torch.arange(x.shape[1])[None]
        if self.is_first:
            x = self.model.get_input_embeddings()(x)
            x = inner.drop(x + inner.wpe(positions)) if self.is_gpt else x
        more = {} if self.is_gpt else {"position_embeddings": inner.rotary_emb(x, positions)}
        mask = torch.full((x.shape[1], x.shape[1]), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)[None, None]
        for i in self.own:
            x = self.blocks[i](x, attention_mask=mask, **more)
        return self.model.lm_head(getattr(inner, self.norm)(x)) if self.is_last else x


def count_microbatches(stage, recorder, size, parts):
    """Forwards of a stage come in the order of microbatches, whatever the schedule."""
    count = [0]

    def before_forward(module, inputs):
        recorder.samples(count[0] % parts * size, size, 1 / parts)
        count[0] += 1
    stage.register_forward_pre_hook(before_forward)


def main():
    a = start(__doc__, BUGS, schedule=list(SCHEDULES))
    reference, last = a.reference, a.rank == a.ranks - 1
    numbers = [a.rank, a.rank + a.ranks] if a.schedule == "interleaved" else [a.rank]
    n_stages = a.ranks * len(numbers)
    modules = [Stage(reference.load(DTYPES[a.dtype]), k, n_stages, a.plant == "layer-twice") for k in numbers]
    recorder = Recorder(a.run, reference, *[m.model for m in modules], dtype=a.dtype, rank=a.rank, by="torch pp")
    parts = reference.global_batch // a.micro_batch
    for m in modules:
        count_microbatches(m, recorder, a.micro_batch, parts)
    stages = [PipelineStage(m, k, n_stages, torch.device("cpu"), *m.examples(a.micro_batch, DTYPES[a.dtype]))
              for k, m in zip(numbers, modules)]
    schedule = SCHEDULES[a.schedule](stages if a.schedule == "interleaved" else stages[0], parts, cross_entropy,
                                     scale_grads=a.plant != "divisor")
    parameters = [p for m in modules for p in m.model.parameters()]
    optimizer = reference.optimizer(parameters)
    ends = dist.new_group([0, a.ranks - 1])
    tied = [m.model.get_input_embeddings().weight for m in modules if reference.tied and (m.is_first or m.is_last)]
    for n, (tokens, targets) in enumerate(reference.batches()):
        optimizer.zero_grad()
        losses = []
        if a.plant == "targets":
            targets = targets.roll(-a.micro_batch, 0)
        with autocast(a):
            schedule.step(*[tokens] if a.rank == 0 else [], target=targets if last else None, losses=losses)
        for w in tied if a.plant != "tied" else []:
            dist.all_reduce(w.grad, group=ends)
        recorder.gradients()
        twice = {id(w) for w in tied} if last and a.plant != "norm-twice" else set()
        norm = norm_of([p.grad for p in parameters if id(p) not in twice])
        if a.plant != "norm-per-stage":
            norm = sum_over_ranks(norm ** 2) ** 0.5
        finish_step(a, recorder, optimizer, n, sum_over_ranks(sum(losses) / parts), norm)


if __name__ == "__main__":
    main()
