"""What Trivium's t5 makes of a text, written from models/t5/t5_spans.c's description and from nothing of its code; for
tests/hf_transformers.py."""
import hf_masks

NOISE, SPAN = 0.15, 3                                            # --noise's and --span's defaults


def runs(seed, name, number, tokens, n):
    """tokens, cut into n runs."""
    ends = sorted({hf_masks.permute(seed, name, number, len(tokens) - 1, i) for i in range(n - 1)} | {len(tokens) - 1})
    return [tokens[a + 1:b + 1] for a, b in zip([-1] + ends, ends)]


def sample(seed, number, text, vocab):
    """the encoder's tokens, the decoder's, and the target."""
    noise = int(NOISE * len(text) + 0.5)
    n = int(noise / SPAN + 0.5)
    kept_lengths = [len(x) for x in runs(seed, "t5.kept", number, [0] * (len(text) - noise), n)]
    noise_lengths = [len(x) for x in runs(seed, "t5.noise", number, [0] * noise, n)]
    at, encoder, targets = 0, [], []
    for i, (kept, lost) in enumerate(zip(kept_lengths, noise_lengths)):
        encoder += text[at:at + kept] + [vocab - 1 - i]
        targets += [vocab - 1 - i] + text[at + kept:at + kept + lost]
        at += kept + lost
    assert at == len(text)
    return encoder, [0] + targets[:-1], targets
