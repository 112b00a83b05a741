"""fp16 with a loss scale, as mixed_precision/ does it; lesson 08.

Forward and backward compute with copies of the weights in fp16, AdamW has the weights in fp32. The loss is multiplied
by a scale, so that small gradients do not vanish. When a gradient overflows, the step is skipped and the scale halved;
after WINDOW steps without that it is doubled. A skipped step does not advance the learning rate."""
import torch

from gpt import loss_of, main, squares

REFERENCE = "scaled"        # oracle record --steps 10
DTYPE, FIRST, WINDOW = torch.float32, 2.0 ** 19, 3


def train(ref, rank, n):
    w = ref.weights()
    optimizer, scaler, done = ref.optimizer(w), torch.amp.GradScaler("cpu", FIRST, growth_interval=WINDOW), 0
    for tokens, targets in ref.batches():
        half = {name: x.detach().half().requires_grad_() for name, x in w.items()}
        loss, scale = loss_of(ref, half, tokens, targets), scaler.get_scale()
        scaler.scale(loss).backward()
        for name, x in w.items():
            x.grad = half[name].grad.float()
        scaler.unscale_(optimizer)                          # notes whether one is infinite or NaN
        norm = squares(w.values()) ** 0.5
        ref.update(optimizer, done, norm, lambda: scaler.step(optimizer))
        done += bool(norm.isfinite())
        scaler.update()
        yield loss, norm, scale


if __name__ == "__main__":
    main(train, DTYPE)
