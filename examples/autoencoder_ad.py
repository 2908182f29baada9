"""MLPerf Tiny anomaly detection: fully connected autoencoder 640-128x4-8-128x4-640."""

import itertools

import torch
from signals import generator, samples, settle
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self, d: int = 640, h: int = 128, z: int = 8) -> None:
        super().__init__()
        dims = [d, h, h, h, h, z, h, h, h, h]
        layers: list[nn.Module] = []
        for i, o in itertools.pairwise(dims):
            layers += [nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Linear(h, d))

    def forward(self, x):
        return self.net(x)


def inputs(g):
    return (torch.randn(1, 640, generator=g).cumsum(1) * 0.1,)


def model():
    torch.manual_seed(1234)
    return settle(Autoencoder(), inputs), inputs(generator(1236))


def calibration(n=16, seed=77):
    return samples(inputs, n, seed)
