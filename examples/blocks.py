"""The layer that most example networks repeat."""

from __future__ import annotations

from torch import nn


def conv_bn(i: int, o: int, k, stride: int = 1, padding=0, groups: int = 1, act=nn.ReLU):
    """Convolution, batch norm and (unless None) an activation."""
    layers = [nn.Conv2d(i, o, k, stride, padding, groups=groups, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([act()] if act else []))
