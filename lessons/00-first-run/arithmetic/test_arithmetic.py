"""The claims of test_arithmetic.c for arithmetic.py, with the same numbers."""
from grader.judge import close, whole


def batch(global_batch, micro_batch, dp, seq):
    return {"global_batch": global_batch, "micro_batch": micro_batch, "dp": dp, "seq": seq}


DEMO = batch(16, 2, 2, 64)


def gives(yours, name, b, right):
    said = ", ".join(f"{key}={value}" for key, value in b.items())
    whole(f"{name} for {said}", yours.many(name, [[b]])[0], right)


def test_share_is_the_batch_over_dp(yours):
    gives(yours, "batch_share", DEMO, 8)
    gives(yours, "batch_share", batch(16, 2, 1, 64), 16)
    gives(yours, "batch_share", batch(480, 1, 96, 1), 5)


def test_impossible_batches_are_refused(yours):
    yours.refuses("batch_share", [batch(16, 2, 3, 64)], "dp=3", "global-batch=16")
    yours.refuses("batch_microbatches", [batch(16, 2, 3, 64)], "dp=3", "global-batch=16")
    yours.refuses("batch_microbatches", [batch(16, 3, 2, 64)], "micro-batch=3", "8")


def test_microbatches_cover_the_share(yours):
    gives(yours, "batch_microbatches", DEMO, 4)
    gives(yours, "batch_microbatches", batch(12, 3, 4, 64), 1)


def test_tokens_count_all_replicas(yours):
    gives(yours, "batch_tokens", DEMO, 1024)
    gives(yours, "batch_tokens", batch(1 << 20, 1, 1, 1 << 20), 1 << 40)


def test_mfu_of_the_printed_step(yours):
    """1024 tokens of 5 Mflop each are 5.12 Gflop. In 50 ms a machine of 256 Gflop/s can do 12.8 Gflop, so mfu is
    0.4."""
    close("batch_mfu of 1024 tokens", yours.batch_mfu(DEMO, 5e6, 0.05, 256e9), 0.4, 1e-12)
