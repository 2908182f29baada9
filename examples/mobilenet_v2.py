"""MobileNetV2 1.0 at 224x224, seeded weights."""

import torch
from blocks import conv_bn
from signals import generator, image, samples, settle
from torch import nn

#: expansion, channels, repeats, stride (table 2 of the MobileNetV2 paper)
STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2)]
STAGES += [(6, 320, 1, 1)]


class InvertedResidual(nn.Module):
    def __init__(self, i: int, o: int, stride: int, expansion: int) -> None:
        super().__init__()
        h = i * expansion
        layers = [conv_bn(i, h, 1, act=nn.ReLU6)] if expansion != 1 else []
        layers += [conv_bn(h, h, 3, stride, 1, h, nn.ReLU6), conv_bn(h, o, 1, act=None)]
        self.body = nn.Sequential(*layers)
        self.residual = stride == 1 and i == o

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


class MobileNetV2(nn.Module):
    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers = [conv_bn(3, 32, 3, 2, 1, act=nn.ReLU6)]
        c = 32
        for expansion, o, repeats, stride in STAGES:
            for k in range(repeats):
                layers.append(InvertedResidual(c, o, stride if k == 0 else 1, expansion))
                c = o
        self.features = nn.Sequential(*layers, conv_bn(c, 1280, 1, act=nn.ReLU6))
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x):
        x = self.features(x)
        return self.classifier(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def inputs(g):
    return (image((1, 3, 224, 224), g),)


def model():
    torch.manual_seed(1234)
    return settle(MobileNetV2(), inputs), inputs(generator(1236))


def calibration(n=4, seed=77):
    return samples(inputs, n, seed)
