"""Recomputation, as recompute/recompute.c does it; lesson 09.

Of a layer, forward keeps its input (B, T, C) and nothing else; backward runs the layer again first. A quarter more
flops. Nothing is sent, and the numbers are those of a run that keeps everything."""
from torch.utils.checkpoint import checkpoint

from gpt import block, embed, head, layer, main, squares


def train(ref, rank, n):
    w = ref.weights()
    optimizer = ref.optimizer(w)
    for step, (tokens, targets) in enumerate(ref.batches()):
        optimizer.zero_grad()
        x = embed(w, tokens)
        for i in range(ref.layers):
            x = checkpoint(block, layer(w, i), x, ref.heads, use_reentrant=False)
        loss = head(w, x, targets)
        loss.backward()
        norm = squares(w.values()) ** 0.5
        ref.update(optimizer, step, norm)
        yield loss, norm


if __name__ == "__main__":
    main(train)
