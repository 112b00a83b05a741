"""Your arithmetic, in Python. The theory is in lesson 00, "What a step is".

b is a batch: b.global_batch, b.micro_batch and b.dp are numbers of sequences and replicas, b.seq is in tokens, all at
least 1.

    global-batch sequences per step = dp replicas x microbatches x micro-batch        tokens = global-batch x seq

What cannot be is refused with a ValueError, whose sentence has value, limit and remedy:

    if heads % tp: raise ValueError(f"tp={tp} does not divide heads={heads}; use a divisor")

Whole numbers go in, and whole numbers (int) come out, but for batch_mfu."""


def batch_share(b):
    """Sequences that each of the dp replicas works on in a step. ValueError if dp does not divide global_batch; the
    sentence has both values, as "dp=3" and "global-batch=16"."""
    raise NotImplementedError("batch_share is not written yet")


def batch_microbatches(b):
    """Microbatches into which a replica splits its share. ValueError as batch_share; and if micro_batch does not divide
    the share: the sentence has "micro-batch=3" and the share."""
    raise NotImplementedError("batch_microbatches is not written yet")


def batch_tokens(b):
    """Tokens of a step, over all replicas."""
    raise NotImplementedError("batch_tokens is not written yet")


def batch_mfu(b, flops_per_token, step_s, peak_flops):
    """Model flops utilisation, a fraction: the flops that the model needs for the step's tokens, over the flops that
    the machine can do in that time. step_s: seconds of the step; peak_flops: flops per second of all devices."""
    raise NotImplementedError("batch_mfu is not written yet")
