"""A sentence encoder from int64 token ids: 4 blocks of width 256, 64 tokens, vocabulary 8000."""

import torch
import torch.nn.functional as F
from signals import generator, samples
from torch import nn

VOCABULARY, TOKENS = 8000, 64


class Block(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.n1(x + self.o(a))
        return self.n2(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, d: int = 256, depth: int = 4, heads: int = 4) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, d)
        self.places = nn.Parameter(torch.randn(1, TOKENS, d) * 0.5)
        self.norm = nn.LayerNorm(d)
        self.blocks = nn.Sequential(*[Block(d, heads) for _ in range(depth)])
        self.pooler = nn.Linear(d, d)

    def forward(self, ids):
        x = self.blocks(self.norm(self.words(ids) + self.places))
        return torch.tanh(self.pooler(x[:, 0]))


def inputs(g):
    return (torch.randint(0, VOCABULARY, (1, TOKENS), generator=g),)


def model():
    torch.manual_seed(1234)
    return Encoder().eval().requires_grad_(False), inputs(generator(1236))


def calibration(n=8, seed=77):
    return samples(inputs, n, seed)
