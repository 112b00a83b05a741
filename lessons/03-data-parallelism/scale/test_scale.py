"""The claims of test_scale.c for scale.py: ranks with different numbers of tokens, one rank with none, compared with
all tokens on one rank.

Every compared number is a sum of at most 100 products of numbers below 4, in another order: the bound is 100 roundings
of 100 x 16."""
import random

from grader.judge import Wrong, close, number

C, N_MICRO = 4, 3
BOUND = 100 * 1600 * 1.2e-16
W = [0.5, -1, 0.25, 2]
EVEN, UNEVEN, NONE = "even", "uneven", "none"


def n_tokens(counts, r, m):
    """UNEVEN: every microbatch has its own number, and rank 1 has none."""
    if counts == NONE or (counts == UNEVEN and r == 1):
        return 0
    return 4 if counts == EVEN else 1 + (3 * r + 5 * m) % 8


def batch(counts, r):
    """The microbatches of rank r, always the same; ranks have different targets, too."""
    draw = random.Random(f"{counts} {r}")
    sizes = [n_tokens(counts, r, m) for m in range(N_MICRO)]
    return [{"x": [[draw.uniform(-1, 1) for _ in range(C)] for _ in range(n)],
             "t": [draw.random() + r + 0.5 * m for _ in range(n)]}
            for m, n in enumerate(sizes)]


def serial(batches, w):
    """(tokens, loss, gradient): all tokens one after the other, divided once by their number."""
    tokens = [(x, t) for mine in batches for m in mine for x, t in zip(m["x"], m["t"])]
    off = [sum(a * b for a, b in zip(w, x)) - t for x, t in tokens]
    n = len(tokens)
    return n, sum(o * o for o in off) / 2 / n, [sum(o * x[c] for o, (x, _) in zip(off, tokens)) / n for c in range(C)]


def read(r, value):
    """(loss, gradient) that rank r gave."""
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], list) or len(value[1]) != C:
        raise Wrong(f"step on rank {r}: you say {value!r:.100}; a loss and a list of {C} numbers are wanted")
    return value


def steps(yours, counts):
    """The (loss, gradient) of each rank; and the batches."""
    batches = [batch(counts, r) for r in range(yours.n)]
    values = yours.on_all("step", lambda r: [yours.world(r), batches[r], W])
    return [read(r, v) for r, v in enumerate(values)], batches


def test_scale_counts_the_tokens_of_all_ranks(yours):
    for counts in (EVEN, UNEVEN, NONE):
        batches = [batch(counts, r) for r in range(yours.n)]
        right = sum(len(m["t"]) for mine in batches for m in mine)
        for r, value in enumerate(yours.on_all("count_tokens", lambda r: [yours.world(r), batches[r]])):
            close(f"tokens of all ranks, on rank {r}", value, right, 0)


def test_scale_gradient_is_that_of_the_whole_batch(yours):
    for counts in (EVEN, UNEVEN):
        values, batches = steps(yours, counts)
        _, _, right = serial(batches, W)
        for r, (_, g) in enumerate(values):
            for c in range(C):
                close(f"g[{c}] on rank {r}", g[c], right[c], BOUND)


def test_scale_loss_is_the_mean_over_all_tokens(yours):
    for counts in (EVEN, UNEVEN):
        values, batches = steps(yours, counts)
        _, right, _ = serial(batches, W)
        for r, (loss, _) in enumerate(values):
            close(f"loss on rank {r}", loss, right, BOUND)


def test_scale_of_no_tokens_is_zero(yours):
    """All tokens are masked, on every rank: the gradient is 0, and no division by 0 ends training."""
    values, _ = steps(yours, NONE)
    for r, (loss, g) in enumerate(values):
        for name, value in [("loss", loss), *((f"g[{c}]", g[c]) for c in range(C))]:
            close(f"{name} of no tokens, on rank {r}", value, 0, 0)


def test_scale_sums_once_a_step(yours):
    """A step may send the count, the loss and the gradient: 6 numbers, for any number of microbatches."""
    steps(yours, UNEVEN)
    for r, sent in enumerate(yours.sent):
        if not sent:
            raise Wrong(f"rank {r} has called no all_reduce, and each rank has a part of the sums")
        if len(sent) > 3 or sum(sent) > 2 + C:
            raise Wrong(f"rank {r} makes {len(sent)} all_reduces of {sum(sent)} numbers a step; at most 3 of {2 + C} "
                        "numbers together are needed")


def test_scale_factor_repairs_the_mean_of_means(yours):
    """DistributedDataParallel computes the mean over ranks of factor x (mean over own tokens)."""
    mean = [3, -2, 0.5, 7]
    for tokens in ([4, 4, 4, 4], [1, 2, 3, 10], [0, 5, 1, 2], [700, 1, 1, 1]):
        factors = yours.many("factor_of_mean", [[own, sum(tokens), 4] for own in tokens])
        average = sum(number("factor_of_mean", f) * m for f, m, own in zip(factors, mean, tokens) if own) / 4
        for own, f in zip(tokens, factors):
            close(f"factor_of_mean({own}, {sum(tokens)}, 4)", f, f, 0)
        close(f"the average of means with your factors, for ranks with {tokens} tokens", average,
              sum(own * m for own, m in zip(tokens, mean)) / sum(tokens), 1e-14)
