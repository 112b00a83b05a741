"""Groups other than the world, and batches that the other tests do not have: one microbatch, none, many tokens."""
import random

from grader.judge import close
import test_scale

W = [-1.5, 0.75, 2, 0.125]
BOUND = 400 * 100 * 1.2e-16            # 400 tokens, each at most 100


def one(r):
    """The one microbatch of rank r, of 7 + 31 r tokens."""
    draw, n = random.Random(f"one {r}"), 7 + 31 * r
    return {"x": [[draw.uniform(-1, 1) for _ in range(4)] for _ in range(n)],
            "t": [draw.random() - r for _ in range(n)]}


def check(yours, groups, batches):
    """groups: of each rank, the ranks of its group."""
    counts = yours.on_all("count_tokens", lambda r: [yours.group(groups[r], r), batches[r]])
    steps = yours.on_all("step", lambda r: [yours.group(groups[r], r), batches[r], W])
    for r in range(yours.n):
        n, loss, g = test_scale.serial([batches[other] for other in groups[r]], W)
        close("count", counts[r], n, 0)
        value = test_scale.read(r, steps[r])
        close("loss", value[0], loss, BOUND)
        for c in range(4):
            close("g", value[1][c], g[c], BOUND)


def test_scale_in_a_group_of_some_ranks(yours):
    """Even ranks are one group, odd ranks another, as with tensor parallelism."""
    check(yours, [list(range(r % 2, yours.n, 2)) for r in range(yours.n)], [[one(r)] for r in range(yours.n)])


def test_scale_of_a_rank_without_microbatches(yours):
    batches = [[one(r)] if r < yours.n - 1 or yours.n == 1 else [] for r in range(yours.n)]
    check(yours, [list(range(yours.n))] * yours.n, batches)
