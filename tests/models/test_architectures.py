"""Well-known structures: the layout of convolutions throughout, and what Ethos-U spends on moves."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

import npuc
from tests.models.architectures import ARCHITECTURES, CONVOLUTIONAL, model

pytestmark = pytest.mark.slow

#: transpositions that the network itself has inside: the shuffles of channels
OWN = {"shufflenet": 2}


@cache
def quantized(name: str, tables16: bool) -> Any:
    from npuc.frontend.canonicalize import spelled_kinds
    from npuc.frontend.capture import capture
    from npuc.lowering.registry import known_kinds
    from npuc.quantizer import Recipe, quantize

    torch.set_num_threads(1)
    net, x = model(name)
    known = spelled_kinds(known_kinds("tosa")).__contains__
    return quantize(capture(net, x), x, Recipe.named("int8"), [x], False, known=known,
                    tables16=tables16)  # fmt: skip


def compiled(name: str, target: str, **options: Any) -> npuc.Compilation:
    net, x = model(name)
    is_float = target.endswith("fp")
    subject = net if is_float else quantized(name, target.startswith("ethos"))
    return npuc.compile(subject, x, target=target, progress=False, **options)


@pytest.mark.parametrize("target", ["tosa-1.0+fp", "tosa-1.0+int"])
@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_transposes_at_the_ends_only(name: str, target: str) -> None:
    images = 1 if name == "mobilenet_v3" else 2  # the others give a map, too
    c = compiled(name, target)
    assert c.waste["transposes"] <= images + OWN.get(name, 0)
    c = compiled(name, target, io_layout="channels_last", check=False)
    assert c.waste["transposes"] == OWN.get(name, 0)


#: name -> most cycles on U55-128 and U85-256 by Vela 5.2.0
CYCLES = {
    "mobilenet_v3": (160_000, 62_000), "efficientnet": (157_000, 58_000),
    "unet": (203_000, 117_000), "shufflenet": (41_000, 27_000), "densenet": (350_000, 217_000),
    "deeplab": (135_000, 88_000), "res2net": (189_000, 83_000),
    "super_resolution": (195_000, 117_000), "convnext": (94_000, 42_000),
    "detector": (65_000, 43_500), "yolo": (91_500, 41_000), "tcn": (31_500, 12_000),
    "swin": (386_000, 190_000), "mobilevit": (1_350_000, 300_000),
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_cycles(name: str) -> None:
    for target, most in zip(("ethos-u55-128", "ethos-u85-256"), CYCLES[name], strict=True):
        c = compiled(name, target)
        assert c.coverage.supported
        assert c.performance["total_cycles"] <= most, (target, c.performance["total_cycles"])
