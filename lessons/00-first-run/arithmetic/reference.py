"""The arithmetic of a step, in Python. See arithmetic.py."""


def batch_share(b):
    if b.global_batch % b.dp:
        raise ValueError(f"dp={b.dp} does not divide global-batch={b.global_batch}; change one of them")
    return b.global_batch // b.dp


def batch_microbatches(b):
    share = batch_share(b)
    if share % b.micro_batch:
        raise ValueError(f"micro-batch={b.micro_batch} does not divide a replica's share of {share} sequences; "
                         "use a divisor of it")
    return share // b.micro_batch


def batch_tokens(b):
    return b.global_batch * b.seq


def batch_mfu(b, flops_per_token, step_s, peak_flops):
    return flops_per_token * batch_tokens(b) / (step_s * peak_flops)
