"""Recording a PyTorch training run for `trivium oracle check` (docs/oracle-format.md). In a training script:

    reference = Reference("reference")                  # made by: trivium oracle record --out reference
    model = reference.load(torch.float32)               # a model of transformers, with the reference's weights
    recorder = Recorder("run", reference, model)
    for n, (tokens, targets) in enumerate(reference.batches()):
        recorder.samples(0, len(tokens))                # before each forward: which samples of the batch they are
        loss = ...
        loss.backward()
        recorder.gradients()                            # before clipping
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), reference.clip)
        ...
        recorder.step(optimizer, loss=loss, grad_norm=norm)

Names are those of the model's modules and parameters, without what wrappers put before them. A DTensor is recorded as
the piece that this rank has, or as its summand where it is partial. So make the recorder before parallelize_module:
its hooks make local tensors of DTensors. Of pieces that are no DTensors, recorder.place says where they lie."""
import atexit
import contextlib
import json
import os
import re

import safetensors.torch
import torch

try:
    from .calls import Calls
except ImportError:                                     # in a checkout: a file next to this one
    from calls import Calls

WRAPPERS = re.compile(r"\b(module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")


def plain_name(name):
    return WRAPPERS.sub("", name)


class Names:
    """What modules of a model of your own are in transformers' model: {"blocks.*.qkv": "transformer.h.*.attn.c_attn"};
    "*" is a number. None: they have the same names. GPT-2's matrices are (in, out) there and (out, in) in an
    nn.Linear."""

    def __init__(self, names=None):
        self.patterns = names and [(re.compile(re.escape(own).replace(r"\*", r"(\d+)") + "$"), theirs)
                                   for own, theirs in names.items()]

    def of_module(self, name):
        name = plain_name(name)
        for own, theirs in self.patterns or []:
            match = own.match(name)
            if match:
                for number in match.groups():
                    theirs = theirs.replace("*", number, 1)
                return theirs
        return None if self.patterns else name

    def parameters(self, model):
        """For each: its name in the other project, the parameter, whether it is theirs transposed."""
        modules = {plain_name(name): module for name, module in model.named_modules()}
        for name, p in model.named_parameters():
            own, _, leaf = plain_name(name).rpartition(".")
            theirs = self.of_module(own)
            if theirs is None:
                raise ValueError(f"names does not say what {own}, which has the parameter {leaf}, is in the reference")
            turned = p.dim() == 2 and isinstance(modules[own], torch.nn.Linear)
            yield f"{theirs}.{leaf}", p, turned and re.search(r"\.c_(attn|fc|proj)$", theirs) is not None


class Reference:
    def __init__(self, folder):
        self.folder = folder
        with open(f"{folder}/recording.json") as f:
            self.head = json.load(f)
        self.names = {row["name"] for row in self.head["order"]}
        self.adamw = self.head["optimizer"]
        self.clip = self.adamw["clip"]
        self.global_batch = self.head["global_batch"]
        self.tied = not self.head["model"].get("untied", 0)     # the head's matrix is the embedding's

    def load(self, dtype, **more):
        """The model of transformers with the reference's weights, without dropout."""
        import transformers
        return transformers.AutoModelForCausalLM.from_pretrained(f"{self.folder}/model", dtype=dtype,
                                                                 attn_implementation="eager", **more).eval()

    def copy_into(self, model, names):
        """The reference's weights into a model of your own, whose modules have these names there (Names)."""
        weights = safetensors.torch.load_file(f"{self.folder}/model/model.safetensors")
        with torch.no_grad():
            for name, p, transposed in Names(names).parameters(model):
                if name not in weights:
                    raise ValueError(f"the reference has no {name}; it has {', '.join(sorted(weights))}")
                p.copy_(weights[name].T if transposed else weights[name])

    def batches(self):
        """Yield each step's tokens and targets, (samples, positions)."""
        with open(f"{self.folder}/tokens.json") as f:
            both = json.load(f)
        return [(torch.tensor(t), torch.tensor(u)) for t, u in zip(both["tokens"], both["targets"])]

    def optimizer(self, parameters, **more):
        """AdamW; matrices decay."""
        parameters = list(parameters)
        groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": self.adamw["weight_decay"]},
                  {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0}]
        return torch.optim.AdamW([g for g in groups if g["params"]], lr=self.adamw["lr"][0],
                                 betas=self.adamw["betas"], eps=self.adamw["eps"], **more)

    def set_rate(self, optimizer, n):
        """The rate of step n, from 0; before optimizer.step()."""
        for group in optimizer.param_groups:
            group["lr"] = self.adamw["lr"][n]


def piece_of(tensor):
    """What this rank has of a tensor, where it lies, and which summand it is: (local, first, of, part). None: a summand
    of another kind, such as an embedding's of a part of the vocabulary, whose rows of other tokens mean nothing."""
    if not hasattr(tensor, "placements"):
        return tensor, [0] * tensor.dim(), list(tensor.shape), None
    from torch.distributed.tensor import Partial
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    _, first = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    index, parts = 0, 1
    for axis, placement in enumerate(tensor.placements):
        if placement.is_partial():
            if type(placement) is not Partial or placement.reduce_op != "sum":
                return None
            index = index * tensor.device_mesh.size(axis) + tensor.device_mesh.get_local_rank(axis)
            parts *= tensor.device_mesh.size(axis)
    return tensor.to_local(), list(first), list(tensor.shape), [index, parts] if parts > 1 else None


class Recorder:
    """names: of a model that is none of transformers (Names). Where torch.distributed runs, calls: write which
    collectives each rank calls, too (calls.py)."""

    def __init__(self, folder, reference, *models, names=None, dtype="fp32", rank=0, by="torch", calls=True):
        self.folder, self.reference, self.models = folder, reference, models
        self.dtype, self.rank, self.by, self.n, self.names = dtype, rank, by, 0, Names(names)
        self.kept, self.metadata = {}, {}
        self.first, self.of, self.scale = 0, reference.global_batch, 1.0
        self.place = lambda name, x: x      # of a module and its output (or the gradient): a DTensor, if x is a piece
        if os.path.exists(f"{folder}/step-1/rank-{rank}.safetensors"):
            raise FileExistsError(f"{folder} has a recording: give another folder, or remove it")
        self.calls = None
        if calls and torch.distributed.is_available() and torch.distributed.is_initialized():
            self.calls = Calls(folder, rank)
            self.calls.__enter__()
            atexit.register(self.calls.__exit__, None, None, None)
        for model in models:
            for name, module in model.named_modules():
                theirs = self.names.of_module(name)
                if theirs and theirs + ".act" in reference.names:
                    self.watch(theirs, module)

    def watch(self, name, module):
        """Record what this module gives; done for all that the reference has, and again where others' hooks were added
        since."""
        module.register_forward_hook(self._hook(name))

    def samples(self, first, n, scale=1.0):
        """Samples [first, first + n) of the step's batch are next. scale: what their loss must be multiplied by to be
        their part of the mean over the whole batch; where every rank takes the mean of its own samples, 1 / ranks."""
        self.first, self.scale = first, scale

    def keep(self, name, x, first=None, of=None, part=None):
        """A tensor of this step: all of it, or the elements from `first` of one of the shape `of`; part: [i, n], the
        i-th of n summands."""
        kept = torch.float64 if x.dtype == torch.float64 else torch.float32
        local = x.detach().to(kept).reshape(x.shape or (1,)).clone().contiguous()
        if not local.numel():
            return
        if part or (of is not None and list(local.shape) != of):
            name = f"{name}#{len(self.kept)}"
            self.metadata[name] = json.dumps({"first": first, "of": of, **({"part": part} if part else {})})
        self.kept[name] = local

    def _hook(self, name):
        def keep(x, suffix, samples, scale=1.0):
            piece = piece_of(self.place(name, x))
            if piece is None:
                return
            local, first, of, part = piece
            self.keep(name + suffix, local * scale, [samples] + first[1:], [self.of] + of[1:], part)

        def after_forward(module, inputs, output):
            x = output[0] if isinstance(output, tuple) else output
            samples, scale = self.first, self.scale
            keep(x, ".act", samples)
            if x.requires_grad:
                x.register_hook(lambda g: keep(g, ".act_grad", samples, scale))
        return after_forward

    def _parameters(self):
        for model in self.models:
            yield from self.names.parameters(model)

    # Where a framework hides them, a subclass says how they are had.
    def gradient_of(self, p):
        return p.grad

    def weight_of(self, p):
        return p

    def moments_of(self, p, optimizer):
        state = optimizer.state.get(p, {})
        return state.get("exp_avg"), state.get("exp_avg_sq")

    def gradients(self):
        """After backward and whatever sums over ranks, before clipping."""
        with self._on_its_own():
            for name, p, transposed in self._parameters():
                self._keep_if_any(name + ".grad", self.gradient_of(p), transposed)

    @contextlib.contextmanager
    def _on_its_own(self):
        """What the recorder gathers is none of the run's calls."""
        if self.calls:
            self.calls.paused = True
        yield
        if self.calls:
            self.calls.paused = False

    def _keep_if_any(self, name, x, transposed=False):
        piece = None if x is None else piece_of(x)
        if piece is None:
            return
        local, first, of, part = piece
        self.keep(name, *(local.T, first[::-1], of[::-1], part) if transposed else piece)

    def step(self, optimizer=None, **numbers):
        """After optimizer.step(): the numbers given (loss, grad_norm), weights and moments. Writes the step."""
        if optimizer and "lr" not in numbers:
            numbers["lr"] = optimizer.param_groups[0]["lr"]
        for name, value in numbers.items():
            self.keep(name, torch.as_tensor(float(value), dtype=torch.float64).reshape(1))
        with self._on_its_own():
            for name, p, transposed in self._parameters():
                self._keep_if_any(name + ".param", self.weight_of(p), transposed)
                for suffix, x in zip((".moment1", ".moment2"), self.moments_of(p, optimizer) if optimizer else ()):
                    self._keep_if_any(name + suffix, x, transposed)
        self.n += 1
        if self.calls:
            self.calls.step = self.n + 1
        os.makedirs(f"{self.folder}/step-{self.n}", exist_ok=True)
        safetensors.torch.save_file(self.kept, f"{self.folder}/step-{self.n}/rank-{self.rank}.safetensors",
                                    self.metadata)
        if self.rank == 0:
            with open(f"{self.folder}/recording.json", "w") as f:
                json.dump(self.head(), f)
        self.kept, self.metadata = {}, {}

    def head(self):
        return {"format": "trivium-recording", "version": 1, "by": f"{self.by} {torch.__version__}",
                "dtype": self.dtype, "steps": self.n}
