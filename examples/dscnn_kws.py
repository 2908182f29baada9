"""MLPerf Tiny keyword spotting: DS-CNN small, 49x10 MFCC, 12 classes."""

import torch
import torch.nn.functional as F
from blocks import conv_bn
from signals import generator, samples, settle
from torch import nn


class DSCNN(nn.Module):
    def __init__(self, c: int = 64, classes: int = 12) -> None:
        super().__init__()
        self.stem = conv_bn(1, c, (10, 4), 2, (5, 1))
        pairs = [nn.Sequential(conv_bn(c, c, 3, 1, 1, c), conv_bn(c, c, 1)) for _ in range(4)]
        self.blocks = nn.Sequential(*pairs)
        self.fc = nn.Linear(c, classes)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        x = F.avg_pool2d(x, x.shape[2:]).flatten(1)
        return F.softmax(self.fc(x), dim=-1)


def inputs(g):
    return (torch.randn(1, 1, 49, 10, generator=g).cumsum(2) * 0.3,)


def model():
    torch.manual_seed(1234)
    return settle(DSCNN(), inputs), inputs(generator(1236))


def calibration(n=16, seed=77):
    return samples(inputs, n, seed)
