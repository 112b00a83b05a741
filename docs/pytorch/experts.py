"""Expert parallelism, as ep/ep.c does it; lesson 14. A Mixtral: blocks of llama's, with experts in place of the MLP.

Each rank keeps E/n experts. A token's k experts each have a number of places per sample; a token that finds none is
dropped. An all-to-all takes the places to their experts, one brings the results back, and backward does the same: 4
per layer, each sends (n-1)/n of B E S C numbers, S places. What an expert's gradient sums is on its rank already."""
import torch
import torch.distributed as dist
import torch.nn.functional as F

from gpt import all_sum, attend, layer, main, own_rows, squares
from ulysses import Exchange

REFERENCE = "mixtral"       # oracle record --arch mixtral --experts 4 --kv-heads 2 --ffn 32 --tie off
CAPACITY, AUX, Z, K = 1.25, 0.01, 0.001, 2


def rms(w, name, x):
    return x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * w[name + ".weight"]


def turned(x):
    """Rotary positions of (B, heads, T, D)."""
    half = x.shape[3] // 2
    angle = torch.arange(x.shape[2])[:, None] * 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    a, b = x.split(half, 3)
    return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), 3)


def attention(w, x, heads, key_heads):
    q, k, v = (F.linear(x, w[f"self_attn.{name}_proj.weight"]).unflatten(2, (of, -1)).transpose(1, 2)
               for name, of in (("q", heads), ("k", key_heads), ("v", key_heads)))
    k, v = (t.repeat_interleave(heads // key_heads, 1) for t in (turned(k), v))
    return F.linear(attend(turned(q), k, v).transpose(1, 2).flatten(2), w["self_attn.o_proj.weight"])


def expert(w, e, x):
    name = f"block_sparse_moe.experts.{e}."
    gate, up = F.linear(x, w[name + "w1.weight"]), F.linear(x, w[name + "w3.weight"])
    return F.linear(F.silu(gate) * up, w[name + "w2.weight"])


def route(w, x, n_tokens):
    """Gates (B, T, K); of each choice, first ones before second ones, its expert and place (B, K T, E, S), all zero if
    it is dropped; and the losses that keep experts evenly loaded and logits small. Groups are samples."""
    logits = F.linear(x, w["block_sparse_moe.gate.weight"])
    chances, n_experts = logits.softmax(-1), logits.shape[2]
    n_places = -int(-CAPACITY * x.shape[1] * K // n_experts)
    best = chances.topk(K)
    to = F.one_hot(best.indices.transpose(1, 2).flatten(1), n_experts)
    place = to.cumsum(1) - 1                            # how many chose this expert before
    at = F.one_hot(place.clamp(0, n_places), n_places + 1)[..., :n_places] * to.unsqueeze(-1)
    even = n_experts * x.shape[1] * (to.to(x.dtype).mean(1) * chances.mean(1)).sum()
    losses = (AUX * even + Z * logits.logsumexp(-1).pow(2).sum()) / n_tokens
    return best.values / best.values.sum(-1, keepdim=True), at.to(x.dtype), losses


def moe(w, x, rank, n, n_tokens):
    gates, at, losses = route(w, x, n_tokens)
    rows = torch.einsum("bjes,bjc->ebsc", at, x.repeat(1, K, 1)).flatten(1, 2)          # (E, B S, C)
    mine = Exchange.apply(rows, 0, 1)                                                   # (E/n, n B S, C)
    first = rank * len(mine)
    done = torch.stack([expert(w, first + i, tokens) for i, tokens in enumerate(mine)])
    back = Exchange.apply(done, 1, 0).unflatten(1, (len(x), -1))                        # (E, B, S, C)
    chosen = torch.einsum("bjes,ebsc->bjc", at, back).unflatten(1, (K, -1))             # (B, K, T, C)
    return (chosen * gates.transpose(1, 2).unsqueeze(-1)).sum(1), losses


def train(ref, rank, n):
    model, is_expert = ref.head["model"], lambda name: ".experts." in name
    w = ref.weights(lambda name, x: x if not is_expert(name) or
                    int(name.split(".")[5]) * n // model["experts"] == rank else None)
    optimizer = ref.optimizer(w)
    for step, (tokens, targets) in enumerate(ref.batches()):
        optimizer.zero_grad()
        x, loss = w["model.embed_tokens.weight"][own_rows(tokens, rank, n)], 0
        for i in range(ref.layers):
            own = layer(w, i, "model.layers")
            x = x + attention(own, rms(own, "input_layernorm", x), ref.heads, model["kv-heads"])
            y, losses = moe(own, rms(own, "post_attention_layernorm", x), rank, n, tokens.numel())
            x, loss = x + y, loss + losses
        logits = F.linear(rms(w, "model.norm", x), w["lm_head.weight"])
        loss = loss + F.cross_entropy(logits.flatten(0, 1), own_rows(targets, rank, n).flatten()) / n
        loss.backward()
        shared = [x for name, x in w.items() if not is_expert(name)]
        for x in shared:
            dist.all_reduce(x.grad)
        norm = (squares(shared) + all_sum(squares(x for name, x in w.items() if is_expert(name)))) ** 0.5
        ref.update(optimizer, step, norm)
        yield all_sum(loss), norm


if __name__ == "__main__":
    main(train)
