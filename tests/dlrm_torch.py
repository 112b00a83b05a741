#!/usr/bin/env python3
"""DLRM in PyTorch, for tests/dlrm.sh: the same numbers, and what it reaches.

  dlrm_torch.py equal CLICKS CHECKPOINT METRICS   goes on from the checkpoint in fp64; the losses must be those of the
                                                  rows that follow
  dlrm_torch.py train CLICKS STEPS BATCH [THREADS]   fp32, weights and an order of its own: steps a second, loss and AUC
                                                     of the last tenth

Tables are nn.EmbeddingBag's functional form with sparse gradients, and rowwise Adagrad is written here: coalesce, then
the mean of squares.
"""
import json, struct, sys, time, glob
import numpy as np, torch

def clicks(path):
    head = open(path, 'rb').read(64)
    _, X, F, M, V, _ = struct.unpack('<6i', head[8:32])
    n, = struct.unpack('<q', head[32:40])
    words = np.fromfile(path, '<i4', offset=64)[:-1].reshape(n, 1 + X + F * M)
    dense = words[:, 1:1 + X].copy().view('<f4')
    return X, F, M, V, words[:, 0].copy(), dense, words[:, 1 + X:].reshape(n, F, M).copy()

class Model:
    def __init__(self, X, F, V, D, bottom, top, dtype, params=None):
        g = torch.Generator().manual_seed(0)
        def mat(o, i): return torch.randn(o, i, generator=g, dtype=dtype) * (2 / (o + i)) ** .5
        self.F, self.V, self.D = F, V, D
        sizes_b, sizes_t = [X] + bottom + [D], [D + F * (F + 1) // 2] + top + [1]
        p = params or {}
        self.b = [(p.get(f'bottom.{i}.w', mat(o, n)), p.get(f'bottom.{i}.b', torch.zeros(o, dtype=dtype)))
                  for i, (n, o) in enumerate(zip(sizes_b, sizes_b[1:]))]
        self.t = [(p.get(f'top.{i}.w', mat(o, n)), p.get(f'top.{i}.b', torch.zeros(o, dtype=dtype)))
                  for i, (n, o) in enumerate(zip(sizes_t, sizes_t[1:]))]
        self.table = p.get('emb.tables',
                           torch.randn(F, V, D, generator=g, dtype=dtype)
                           / (3 * V) ** .5).reshape(F * V, D).contiguous()
        self.kept = p.get('emb.adagrad', torch.zeros(F, V, dtype=dtype)).reshape(F * V).contiguous()
        self.dense = [x.requires_grad_() for l in self.b + self.t for x in l]
        self.table.requires_grad_()
        self.low = torch.tril_indices(F + 1, F + 1, -1)

    def __call__(self, dense, ids, offsets, B):
        """ids: rows of all tables, bag after bag in the order (sample, feature)."""
        x = dense
        for w, b in self.b: x = torch.relu(torch.nn.functional.linear(x, w, b))
        e = torch.nn.functional.embedding_bag(ids, self.table, offsets, mode='sum', sparse=True).view(B, self.F, self.D)
        a = torch.cat([x[:, None], e], 1)
        dots = torch.bmm(a, a.transpose(1, 2))[:, self.low[0], self.low[1]]
        y = torch.cat([x, dots], 1)
        for i, (w, b) in enumerate(self.t):
            y = torch.nn.functional.linear(y, w, b)
            if i < len(self.t) - 1: y = torch.relu(y)
        return y[:, 0]

def bags(ids, V):
    """(B, F, M) with -1 behind the last -> rows of all tables, offsets of bags."""
    F = ids.shape[1]
    used = ids >= 0
    rows = (ids + (np.arange(F) * V)[None, :, None])[used]
    count = used.sum(2).ravel()
    return torch.from_numpy(rows.astype(np.int64)), torch.from_numpy(
        np.concatenate([[0], count.cumsum()[:-1]]).astype(np.int64))

def step(m, opt, batch, clip, emb_lr, eps):
    dense, (ids, offsets), label = batch
    m.table.grad = None
    opt.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(m(dense, ids, offsets, len(label)), label)
    loss.backward()
    g = m.table.grad.coalesce()
    rows, v = g.indices()[0], g.values()
    norm = torch.sqrt(sum((x.grad ** 2).sum() for x in m.dense) + (v ** 2).sum())
    factor = min(1.0, clip / (norm.item() + 1e-6)) if clip > 0 else 1.0
    for x in m.dense: x.grad *= factor
    opt.step()
    with torch.no_grad():
        v = v * factor
        m.kept[rows] += (v * v).mean(1)
        m.table.data[rows] -= emb_lr * v / (torch.sqrt(m.kept[rows]) + eps)[:, None]
    return loss.item(), norm.item()

def auc(score, label):
    order = np.argsort(score, kind='stable')
    s, y = score[order], label[order]
    _, start, count = np.unique(s, return_index=True, return_counts=True)
    rank = np.repeat(start + (count + 1) / 2, count)
    p = y.sum()
    return (rank[y == 1].sum() - p * (p + 1) / 2) / (p * (len(y) - p))

def safetensors(folder):
    """A checkpoint of one rank."""
    path, = glob.glob(folder + '/*.safetensors')
    raw = open(path, 'rb').read()
    n, = struct.unpack('<Q', raw[:8])
    out = {}
    for name, t in json.loads(raw[8:8 + n]).items():
        if name == '__metadata__': continue
        from_, to = t['data_offsets']
        out[name] = torch.from_numpy(np.frombuffer(raw[8 + n + from_:8 + n + to], '<f8').reshape(t['shape']).copy())
    return out

def equal(path, checkpoint, metrics):
    X, F, M, V, label, dense, ids = clicks(path)
    p = safetensors(checkpoint)
    done = int(checkpoint.rstrip('/').split('-')[-1])
    rows = [r for r in map(json.loads, open(metrics)) if 'loss' in r and r['step'] > done]
    m = Model(X, F, V, p['emb.tables'].shape[2], [p['bottom.0.w'].shape[0]],
              [p['top.0.w'].shape[0], p['top.1.w'].shape[0]], torch.float64, p)
    names = [f'{k}.{i}.{x}' for k, l in (('bottom', m.b), ('top', m.t)) for i in range(len(l)) for x in 'wb']
    groups = [{'params': [t], 'weight_decay': 0.1 if n.endswith('w') else 0} for n, t in zip(names, m.dense)]
    opt = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)
    for n, t in zip(names, m.dense):
        opt.state[t] = {'step': torch.tensor(float(done)), 'exp_avg': p[n + '.exp_avg'].clone(),
                        'exp_avg_sq': p[n + '.exp_avg_sq'].clone()}
    batch = torch.from_numpy(dense.astype('f8')), bags(ids, V), torch.from_numpy(label.astype('f8'))
    worst = 0
    for r in rows:
        for g in opt.param_groups: g['lr'] = r['lr']
        loss, norm = step(m, opt, batch, 1.0, 0.05 * r['lr'] / 1e-3, 1e-8)
        worst = max(worst, abs(loss - r['loss']) / loss, abs(norm - r['grad_norm']) / norm)
    print(f'{len(rows)} steps of PyTorch differ by {worst:.1e}')
    sys.exit(len(rows) < 5 or not worst < 1e-10)

def train(path, steps, B, threads):
    torch.set_num_threads(threads)
    X, F, M, V, label, dense, ids = clicks(path)
    n = len(label) - int(0.1 * len(label))
    m = Model(X, F, V, 16, [64, 32], [64, 32], torch.float32)
    opt = torch.optim.AdamW(m.dense, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    order = np.concatenate([np.random.default_rng(e).permutation(n) for e in range(steps * B // n + 1)])
    seconds = []
    for s in range(steps):
        lr = 1e-4 + 9e-4 * .5 * (1 + np.cos(np.pi * s / (steps - 1)))
        at = order[s * B:(s + 1) * B]
        start = time.perf_counter()
        for g in opt.param_groups: g['lr'] = lr
        loss, _ = step(m, opt, (torch.from_numpy(dense[at]), bags(ids[at], V),
                                torch.from_numpy(label[at].astype('f4'))), 1.0, 50 * lr, 1e-8)
        seconds.append(time.perf_counter() - start)
    with torch.no_grad():
        logit = m(torch.from_numpy(dense[n:]), *bags(ids[n:], V), len(label) - n)
        val = torch.nn.functional.binary_cross_entropy_with_logits(logit,
                                                                   torch.from_numpy(label[n:].astype('f4'))).item()
    print(f'PyTorch: {1 / np.median(seconds[5:]):.0f} steps a second, val loss {val:.4f}, val auc '
          f'{auc(logit.numpy(), label[n:]):.5f}')

if __name__ == '__main__':
    if sys.argv[1] == 'equal': equal(*sys.argv[2:5])
    else: train(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]) if len(sys.argv) > 5 else 1)
