"""What Trivium's bert makes of a text, written from models/bert/bert_mask.c's description and from nothing of its code;
for tests/hf_transformers.py.

The draws are functions of a seed, a name and a number (lib/base/rng.h): Philox-4x32-10 under a key of SplitMix64, and a
permutation by a Feistel network."""
M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def stream(name):
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = (h ^ c) * 0x100000001B3 & M64
    return h


def mix(x):
    x = x + 0x9E3779B97F4A7C15 & M64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & M64
    x = (x ^ x >> 27) * 0x94D049BB133111EB & M64
    return x ^ x >> 31


def key_of(seed, name, step):
    return mix(mix(mix(seed) ^ stream(name)) ^ step & M64)


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & M32, a >> 32 ^ c[3] ^ k[1], a & M32]
        k = [k[0] + 0x9E3779B9 & M32, k[1] + 0xBB67AE85 & M32]
    return c


def uniform(seed, name, element):
    key, element = key_of(seed, name, 0), element & M64
    return (philox((element & M32, element >> 32, 0, 0), (key & M32, key >> 32))[0] + 0.5) / 2 ** 32


def permute(seed, name, step, n, i):
    half = 1
    while half < 32 and 1 << 2 * half < n:
        half += 1
    key, mask = key_of(seed, name, step), (1 << half) - 1
    while True:
        left, right = i >> half, i & mask
        for r in range(8):
            left, right = right, left ^ mix(mix(key ^ r) ^ right) & mask
        i = left << half | right
        if i < n:
            return i


def sample(seed, number, text, vocab, mask_token):
    """tokens, segments and targets (-1: none) of the run's sample of that number."""
    T = len(text)
    tokens, targets = list(text), [-1] * T
    second = 1 + int((T - 1) * uniform(seed, "bert.segment", number * T))
    for i in range(-(-15 * T // 100)):
        t = permute(seed, "bert.mask", number, T, i)
        u = uniform(seed, "bert.replace", number * T + i)
        targets[t] = text[t]
        if u < 0.8:
            tokens[t] = mask_token
        elif u < 0.9:
            tokens[t] = int(vocab * uniform(seed, "bert.random", number * T + i))
    return tokens, [int(t >= second) for t in range(T)], targets
