"""Arm Neural Super Sampling v1: the autoencoder of the `ng-model-gym` package at a 136x240 tile."""

import importlib
import importlib.machinery
import importlib.util
import pathlib
import sys
import types

import torch
from signals import generator, image, samples
from torch import nn

#: packages whose __init__ needs the slang shader compiler, which the network itself does not
PACKAGES = ("", "core", "core/model", "core/model/layers", "usecases", "usecases/nss",
            "usecases/nss/model")  # fmt: skip


def autoencoder_class():
    """`AutoEncoderV1`, imported without running the packages' __init__ files."""
    spec = importlib.util.find_spec("ng_model_gym")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("ng-model-gym is not installed: pip install --no-deps ng-model-gym")
    root = pathlib.Path(spec.submodule_search_locations[0])
    for folder in PACKAGES:
        name = ".".join(["ng_model_gym", *folder.split("/")]).rstrip(".")
        stub = types.ModuleType(name)
        stub.__path__ = [str(root / folder)]
        stub.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        stub.__spec__.submodule_search_locations = stub.__path__
        sys.modules.setdefault(name, stub)
    return importlib.import_module("ng_model_gym.usecases.nss.model.model_blocks_v1").AutoEncoderV1


def inputs(g):
    return ((image((1, 12, 136, 240), g) * 0.18 + 0.45).clamp(0, 1),)


def model():
    torch.manual_seed(1234)
    net = autoencoder_class()()
    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
            nn.init.normal_(m.bias, 0, 0.1)
    return net.eval().requires_grad_(False), inputs(generator(1236))


def calibration(n=4, seed=77):
    return samples(inputs, n, seed)
