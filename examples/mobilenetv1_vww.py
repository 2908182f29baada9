"""MLPerf Tiny visual wake words: MobileNetV1 0.25 at 96x96."""

import torch
import torch.nn.functional as F
from blocks import conv_bn
from signals import generator, image, samples, settle
from torch import nn

LAYERS = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
LAYERS += [(512, 1)] * 5 + [(1024, 2), (1024, 1)]


class MobileNetV1(nn.Module):
    def __init__(self, alpha: float = 0.25, classes: int = 2) -> None:
        super().__init__()
        c = int(32 * alpha)
        layers = [conv_bn(3, c, 3, 2, 1)]
        for o, stride in LAYERS:
            o = int(o * alpha)
            layers += [conv_bn(c, c, 3, stride, 1, c), conv_bn(c, o, 1)]
            c = o
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(c, classes)

    def forward(self, x):
        x = F.adaptive_avg_pool2d(self.features(x), 1).flatten(1)
        return F.softmax(self.fc(x), dim=-1)


def inputs(g):
    return (image((1, 3, 96, 96), g),)


def model():
    torch.manual_seed(1234)
    return settle(MobileNetV1(), inputs), inputs(generator(1236))


def calibration(n=16, seed=77):
    return samples(inputs, n, seed)
