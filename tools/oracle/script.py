"""A training script of your own, held against a run of it that you trust:

    from trivium.oracle import record
    with record("run"):                                 # around the training loop, which stays as it is
        ...

    python -m trivium.oracle reference ref train.py     # trains ten times, eight of them with roundings moved
    torchrun --nproc-per-node 2 train.py                # writes run/
    trivium oracle check run ref                        # names the first tensor that differs

Names are those of the script's own model: what each module gives and the gradient by it, gradients of parameters,
weights, and the optimizer's moments. A step ends where the next forward pass begins after an optimizer's step."""
import collections
import contextlib
import hashlib
import os
import sys
import types

import safetensors.torch
import torch
import torch.distributed as dist

try:
    from .recorder import Recorder, piece_of, plain_name
    from .reference import DTYPES, Shaking, tensors_in
except ImportError:                                     # in a checkout: a file next to this one
    from recorder import Recorder, piece_of, plain_name
    from reference import DTYPES, Shaking, tensors_in

PHASES = {"loss": "loss", "grad_norm": "norm", "clip_factor": "norm", "act": "forward", "act_grad": "backward",
          "grad": "backward"}                           # others: update
EVIDENCE = ("loss_parts", "targets")                    # not compared


def in_a_group():
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def share_of(inputs):
    """(k, n): this rank has share k of n of the batch. Ranks with the same inputs have the same share."""
    if not in_a_group():
        return 0, 1
    local = [t.to_local() if hasattr(t, "placements") else t for t in tensors_in(inputs)]
    own = hashlib.sha256(b"".join(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
                                  for t in local)).hexdigest()
    shares = [None] * dist.get_world_size()
    dist.all_gather_object(shares, own)
    different = list(dict.fromkeys(shares))
    return different.index(own), len(different)


def unwrapped(module):
    while [name for name, _ in module.named_children()] in (["module"], ["_orig_mod"]):
        module = next(module.children())
    return module


class ScriptRecorder(Recorder):
    """Made at the first forward pass. share: (k, n) as share_of."""

    def __init__(self, options, root, share):
        everything = types.SimpleNamespace(names=(), global_batch=0)
        dtype = next((p.dtype for p in root.parameters() if p.dtype in DTYPES), torch.float32)
        kind = next(root.parameters()).device.type
        if torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)
        super().__init__(options.folder, everything, root, dtype=DTYPES[dtype], by="a script, torch",
                         rank=dist.get_rank() if dist.is_available() and dist.is_initialized() else 0)
        self.options, self.share, self.active, self.inside = options, share, True, False
        self.names_of = {p: plain_name(name) for name, p in root.named_parameters()}
        self.sizes, self.acts, self.losses, self.calls_of = [], [], [], collections.Counter()
        self.targets = []
        self.order, self.left_out, self.numbers = {}, set(), {}
        self.states, self.rates, self.adam = {}, [], {}
        labels = {plain_name(name + ".")[:-1] or "output": module for name, module in root.named_modules()}
        for label, module in labels.items():
            self.watch(label, module)
        for p, name in self.names_of.items():
            if p.requires_grad and p.is_leaf:
                p.register_post_accumulate_grad_hook(lambda _, name=name: self.order.setdefault(name + ".grad"))

    # ---- a step ----
    def forward_begins(self, inputs):
        given = next((t for t in tensors_in(inputs) if t.dim()), None)
        self.sizes.append(len(given) if given is not None else 0)
        self.calls_of.clear()
        self.inside = True

    def _hook(self, name):
        def after_forward(module, inputs, output):
            x = next((t for t in tensors_in(output) if t.dim() and t.dtype in DTYPES), None)
            if not self.active or not self.inside or not torch.is_grad_enabled() or x is None:
                return
            self.calls_of[name] += 1
            call, at = self.calls_of[name], len(self.sizes) - 1
            label = name if call == 1 else f"{name}@{call}"
            self.add(label + ".act", x, at, 1)
            if x.requires_grad:
                x.register_hook(lambda g: self.add(label + ".act_grad", g, at, 1 / self.share[1]))
        return after_forward

    def add(self, name, x, at, scale):
        piece = self.placed(name, x) if self.active else None
        if piece is not None:
            self.order.setdefault(name)
            self.acts.append((name, at, piece[0].detach().clone() * scale, *piece[1:]))

    def place_activations(self):
        """Axis 0 has samples: of all microbatches and shares together."""
        (k, n), own = self.share, sum(self.sizes)
        for name, at, x, first, of, part in self.acts:
            start = sum(self.sizes[:at]) + first[0]
            if of[0] != self.sizes[at] and (n > 1 or len(self.sizes) > 1):
                self.left_out.add(name)
            elif of[0] != self.sizes[at]:
                self.keep(name, x, first, of, part)
            elif self.options.strided and n > 1:
                for i in range(len(x)):
                    self.keep(name, x[i:i + 1], [(start + i) * n + k] + first[1:], [own * n] + of[1:], part)
            else:
                self.keep(name, x, [k * own + start] + first[1:], [own * n] + of[1:], part)

    def gradients(self, parameters):
        """Keep those of these parameters that are not kept yet: what is clipped is read before."""
        with self._on_its_own():
            for p in parameters:
                name = self.names_of.get(p)
                if name and not any(x.split("#")[0] == name + ".grad" for x in self.kept):
                    self._keep_if_any(name + ".grad", p.grad)

    def placed(self, name, x):
        where = self.options.place(name, x) if self.options.place else None
        return piece_of(x) if where is None else where and (x, list(where[0]), list(where[1]), None) or None

    def _keep_if_any(self, name, x, transposed=False):
        piece = None if x is None else self.placed(name, x)
        if piece is not None:
            self.keep(name, *piece)

    def clipped(self, parameters, most, norm):
        self.gradients([parameters] if isinstance(parameters, torch.Tensor) else parameters)
        with self._on_its_own():
            norm = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
        self.numbers.update(grad_norm=norm, clip_factor=min(1.0, float(most) / (norm + 1e-6)))

    def optimizer_begins(self, optimizer):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        group = optimizer.param_groups[0]
        self.gradients(parameters)
        self.states.update((p, optimizer) for p in parameters)
        self.numbers.setdefault("lr", float(group["lr"]))
        if "betas" in group and "eps" in group:
            self.adam = {"name": type(optimizer).__name__.lower(), "betas": [float(b) for b in group["betas"]],
                         "eps": group["eps"], "weight_decay": group["weight_decay"]}

    def _parameters(self):
        """As they were at first: after an evaluation FSDP's root has others."""
        return ((name, p, False) for p, name in self.names_of.items())

    def moments_of(self, p, optimizer):
        state = self.states[p].state.get(p, {}) if p in self.states else {}
        return state.get("exp_avg", state.get("momentum_buffer")), state.get("exp_avg_sq")

    def step_ends(self):
        self.inside = False
        self.place_activations()
        if self.losses:
            (k, n), total = self.share, torch.tensor([sum(self.losses)], dtype=torch.float64)
            self.keep("loss", total / n, [0], [1], [k, n] if n > 1 else None)
            self.order.setdefault("loss")
            if len(self.losses) == len(self.targets):
                at, means = k * len(self.losses), torch.tensor(self.losses, dtype=torch.float64) * len(self.losses)
                self.keep("loss_parts", means, [at], [n * len(means)])
                self.keep("targets", torch.tensor(self.targets, dtype=torch.float64), [at, 0], [n * len(means), 2])
        self.rates.append(self.numbers.get("lr", 0))
        super().step(self.states, **self.numbers)
        self.sizes, self.acts, self.losses, self.targets, self.numbers = [], [], [], [], {}
        self.active = self.n < self.options.steps
        if not self.active:
            if self.left_out:
                print(f"record: left out {len(self.left_out)} tensors whose first axis has no samples: "
                      f"{', '.join(sorted(self.left_out)[:3])}", file=sys.stderr)
            if self.calls:
                self.calls.paused = True

    def head(self):
        made = [*self.order, "grad_norm", "clip_factor", "lr"]
        made += [x for x in dict.fromkeys(x.split("#")[0] for x in self.kept) if x not in (*made, *EVIDENCE)]
        rank = {"forward": 0, "loss": 1, "backward": 2, "norm": 3, "update": 4}
        rows = [{"name": x, "phase": PHASES.get(x.rpartition(".")[2], "update")} for x in made
                if x in {y.split("#")[0] for y in self.kept}]
        return {**super().head(), "optimizer": {**self.adam, "lr": self.rates},
                "order": sorted(rows, key=lambda row: rank[row["phase"]])}


class Script:
    """What hooks of all modules and optimizers see, until `steps` steps are written."""

    def __init__(self, **options):
        self.options = types.SimpleNamespace(**options)
        self.recorder = self.root = None
        self.stepped = False
        self.start = {}

    def before_forward(self, module, inputs):
        """Runs for each module. The first that has parameters is the script's model."""
        if self.root is None and torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters()):
            self.root = module
            share = self.options.share or share_of(inputs)
            model = unwrapped(module)
            if os.environ.get("TRIVIUM_ORACLE_OUT") and not in_a_group():
                self.start = {plain_name(name): p.detach().double().clone() for name, p in model.named_parameters()}
            self.recorder = ScriptRecorder(self.options, model, share)
        if module is not self.root or not torch.is_grad_enabled():
            return
        if self.stepped:
            self.end_step()
        if self.recorder.active:
            self.recorder.forward_begins(inputs)

    def end_step(self):
        self.stepped = False
        if self.recorder and self.recorder.active:
            self.recorder.step_ends()
        if os.environ.get("TRIVIUM_ORACLE_OUT") and not self.recorder.active:
            self.close()
            sys.exit(0)                                 # a reference needs no more of the script

    def after_forward(self, module, inputs, output):
        if module is self.root and self.recorder:
            self.recorder.inside = False

    def before_optimizer(self, optimizer, args, kwargs):
        if self.recorder and self.recorder.active and self.recorder.sizes:
            self.recorder.optimizer_begins(optimizer)

    def after_optimizer(self, optimizer, args, kwargs):
        self.stepped = self.stepped or bool(self.recorder and self.recorder.active and self.recorder.sizes)

    def before_loss(self, inputs, target, weight=None, size_average=None, ignore_index=-100, *_, **__):
        """cross_entropy: how many targets it ignores is evidence where a loss is wrong."""
        if self.recorder and self.recorder.active and not target.is_floating_point():
            self.recorder.targets.append((int((target != ignore_index).sum()), target.numel()))

    def before_backward(self, tensors):
        numbers = [t.detach() for t in tensors_in([tensors]) if t.numel() == 1]
        if self.recorder and self.recorder.active:
            self.recorder.losses += [float(t.full_tensor() if hasattr(t, "full_tensor") else t) for t in numbers]

    def close(self):
        if self.start:
            os.makedirs(f"{self.options.folder}/model", exist_ok=True)
            safetensors.torch.save_file(self.start, f"{self.options.folder}/model/model.safetensors")


@contextlib.contextmanager
def replaced(owner, name, before):
    """Call `before` with the arguments of owner.name ahead of each call."""
    original = getattr(owner, name)

    def call(*args, **kwargs):
        before(*args, **kwargs)
        return original(*args, **kwargs)
    setattr(owner, name, call)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextlib.contextmanager
def record(folder="run", steps=5, *, strided=False, share=None, place=None):
    """Record the first `steps` steps of the training loop inside.

    strided: ranks take every n-th sample of a batch, as DistributedSampler deals them; else neighbors.
    share: (k, n), this rank has share k of n of each batch. None: ranks that are given the same have the same share.
    Stages of a pipeline must say it.
    place: of a name (layers.0.weight.grad, layers.0.act) and a tensor, where it lies: (first, shape of the whole). For
    shards that are no DTensors. None: it is the whole, or a DTensor; (): it is left out.

    A loss that is divided for gradient accumulation before backward() is the mean; gradients are those that the
    optimizer reads, or clip_grad_norm_ where the script calls it."""
    from torch.nn.modules import module as hooks
    from torch.nn.utils import clip_grad
    from torch.optim import optimizer as optimizers
    script = Script(folder=os.environ.get("TRIVIUM_ORACLE_OUT", folder), steps=steps, strided=strided, share=share,
                    place=place)
    shake = int(os.environ.get("TRIVIUM_ORACLE_SHAKE", 0))

    def clipping(parameters, most, norm, *more, **others):
        if script.recorder and script.recorder.active:
            script.recorder.clipped(list(parameters), most, norm)
    with contextlib.ExitStack() as stack:
        for register, hook in ((hooks.register_module_forward_hook, script.after_forward),
                               (optimizers.register_optimizer_step_pre_hook, script.before_optimizer),
                               (optimizers.register_optimizer_step_post_hook, script.after_optimizer)):
            stack.callback(register(hook).remove)
        # a pre-hook of all modules would not get the inputs that are given by name
        stack.enter_context(replaced(hooks.Module, "_call_impl", lambda module, *inputs, **named:
                                     script.before_forward(module, (inputs, named))))
        stack.enter_context(replaced(torch.autograd, "backward", lambda tensors, *_, **__:
                                     script.before_backward(tensors)))
        stack.enter_context(replaced(torch.nn.functional, "cross_entropy", script.before_loss))
        stack.enter_context(replaced(clip_grad, "_clip_grads_with_norm_", clipping))
        if shake:
            stack.enter_context(Shaking(shake))
        yield script
    if script.stepped:
        script.end_step()
    if not script.recorder or not script.recorder.n:
        raise RuntimeError("record: no optimizer's step followed a forward pass of a model with parameters; put the "
                           "training loop inside")
    script.close()
