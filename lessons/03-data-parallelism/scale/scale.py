"""The gradient of a batch whose ranks hold different numbers of tokens, in Python. The theory is in lesson 03, "The
mean of means".

The model has C weights and predicts one number per token, y = sum over c of w[c] x[c]. The loss of a token is 1/2 (y -
t)^2. Sequences have different lengths (or prompts are masked), so every microbatch has its own number of tokens, and a
rank may have no token.

    L = 1/N_tok  sum of loss(token) over the N_tok tokens of all microbatches of all ranks
    g = dL/dw    the gradient that every rank must have in the end

Every rank runs this file in a process of its own. group is what connects them:

    group.all_reduce([1, 2.5])     the sums over all ranks, element by element, as a list; every rank of the group has
                                   to call it
    group.size, group.rank         how many ranks there are, and which one this is

mine is a list of this rank's microbatches m. Token i of m has the inputs m.x[i], a list of C, and the target m.t[i].
There may be none."""

C = 4


# ---- given ----

def microbatch_add(m, w, factor):
    """(factor x the sum of loss(token) over the microbatch's tokens, factor x the gradient of the same sum)"""
    loss, g = 0.0, [0.0] * C
    for x, t in zip(m.x, m.t):
        off = sum(a * b for a, b in zip(w, x)) - t
        loss += factor * 0.5 * off * off
        g = [gc + factor * off * xc for gc, xc in zip(g, x)]
    return loss, g


# ---- to be written ----

def count_tokens(group, mine):
    """The number of tokens in all microbatches of all ranks of the group."""
    raise NotImplementedError("count_tokens is not written yet")


def step(group, mine, w):
    """(L, g) of the whole batch, the same on every rank of the group; g is a list of C. Gradients are summed over the
    ranks once, after the last microbatch. If no rank has tokens, all are 0."""
    raise NotImplementedError("step is not written yet")


def factor_of_mean(own_tokens, all_tokens, n_ranks):
    """For a fixed framework in which each rank's loss is the mean over its own tokens, and gradients are averaged over
    n_ranks ranks: the factor for the loss of a rank with own_tokens of all_tokens, so that the average is g. A rank
    without tokens has loss 0; any finite factor is right for it. all_tokens > 0."""
    raise NotImplementedError("factor_of_mean is not written yet")
