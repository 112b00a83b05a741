"""A block of Llama for gpt_torch.py: RMSNorm, rotary positions by halves, keys shared by heads, SwiGLU, no biases."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def angles(seq, channels, theta=10000.0):
    by_pair = theta ** (-torch.arange(0, channels, 2).float() / channels)
    return torch.outer(torch.arange(seq).float(), by_pair)


class LlamaBlock(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads, self.kv_heads, self.channels = o.heads, o.kv_heads, o.hidden // o.heads
        self.norm1, self.norm2 = nn.RMSNorm(o.hidden, eps=1e-5), nn.RMSNorm(o.hidden, eps=1e-5)
        self.q = nn.Linear(o.hidden, o.hidden, bias=False)
        self.kv = nn.Linear(o.hidden, 2 * o.kv_heads * self.channels, bias=False)
        self.proj = nn.Linear(o.hidden, o.hidden, bias=False)
        self.up = nn.Linear(o.hidden, 2 * o.ffn, bias=False)
        self.down = nn.Linear(o.ffn, o.hidden, bias=False)
        turn = angles(o.seq, self.channels)
        self.register_buffer("cos", turn.cos(), persistent=False)
        self.register_buffer("sin", turn.sin(), persistent=False)

    def rotate(self, x):
        a, b = x.chunk(2, -1)
        cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def forward(self, x):
        B, T, C = x.shape
        h = self.norm1(x)
        q = self.q(h).view(B, T, self.heads, self.channels).transpose(1, 2)
        k, v = self.kv(h).view(B, T, 2, self.kv_heads, self.channels).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True, enable_gqa=True)
        x = x + self.proj(y.transpose(1, 2).reshape(B, T, C))
        gate, up = self.up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)
