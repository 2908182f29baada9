"""MLPerf Tiny image classification: ResNet-8 on 32x32."""

import torch
import torch.nn.functional as F
from blocks import conv_bn
from signals import generator, image, samples, settle
from torch import nn


class Block(nn.Module):
    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.c1 = conv_bn(i, o, 3, stride, 1)
        self.c2 = conv_bn(o, o, 3, 1, 1, act=None)
        self.skip = nn.Conv2d(i, o, 1, stride) if stride != 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.c2(self.c1(x)) + self.skip(x))


class ResNet8(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = conv_bn(3, 16, 3, 1, 1)
        self.blocks = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = self.blocks(self.stem(x)).mean((2, 3))
        return F.softmax(self.fc(x), dim=-1)


def inputs(g):
    return (image((1, 3, 32, 32), g),)


def model():
    torch.manual_seed(1234)
    return settle(ResNet8(), inputs), inputs(generator(1236))


def calibration(n=16, seed=77):
    return samples(inputs, n, seed)
