"""ResNet-18 at 224x224, seeded weights."""

import torch
import torch.nn.functional as F
from blocks import conv_bn
from signals import generator, image, samples, settle
from torch import nn


class Basic(nn.Module):
    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.c1 = conv_bn(i, o, 3, stride, 1)
        self.c2 = conv_bn(o, o, 3, 1, 1, act=None)
        same = stride == 1 and i == o
        self.skip = nn.Identity() if same else conv_bn(i, o, 1, stride, act=None)

    def forward(self, x):
        return F.relu(self.c2(self.c1(x)) + self.skip(x))


class ResNet18(nn.Module):
    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_bn(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, 1))
        layers, i = [], 64
        for o in (64, 128, 256, 512):
            layers += [Basic(i, o, 1 if o == 64 else 2), Basic(o, o, 1)]
            i = o
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        x = F.adaptive_avg_pool2d(self.layers(self.stem(x)), 1)
        return self.fc(x.flatten(1))


def inputs(g):
    return (image((1, 3, 224, 224), g),)


def model():
    torch.manual_seed(1234)
    return settle(ResNet18(), inputs), inputs(generator(1236))


def calibration(n=4, seed=77):
    return samples(inputs, n, seed)
