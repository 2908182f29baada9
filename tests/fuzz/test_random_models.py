"""Differential fuzzing: random models compile and agree with PyTorch, or are refused with a reason.

What is caught: a wrong value, an exception that is no refusal, a graph that the vendor's tool does not
take, `explain` and `compile` that disagree.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

import npuc
from npuc.check.report import sqnr_db
from npuc.errors import BadInput
from npuc.ir.symbolic import smallest
from tests.fuzz.random_model import RandomModel

TARGETS = [("tosa-1.0+fp", None), ("tosa-1.0+int", "int8"), ("ethos-u55-128", "int8"),
           ("ethos-u85-256", "int8"), ("vgf", "int8"), ("tosa-1.0+int+int16", "a16w8")]  # fmt: skip

SEEDS = range(24)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", SEEDS)
def test_random_model(seed):
    torch.set_num_threads(1)
    model = RandomModel(seed).eval()
    target, quantization = TARGETS[seed % len(TARGETS)]
    inputs = model.example(1)
    arguments = {"target": target, "quantization": quantization, "progress": False}
    if quantization is not None:
        arguments["calibration"] = [model.example(s) for s in range(1, 5)]
    coverage = npuc.explain(model, inputs, **arguments)
    if not coverage.supported:
        with pytest.raises(npuc.Unsupported) as refusal:
            npuc.compile(model, inputs, **arguments)
        assert all(reason.why and reason.where for reason in refusal.value.reasons)
        return
    c = npuc.compile(model, inputs, **arguments)
    with torch.no_grad():
        want, got = model(*inputs), c.run(*inputs)
    floor = 60 if quantization is None else 8
    assert sqnr_db(got.numpy(), want.numpy()) > floor or want.abs().max() < 1e-3


def _open_program(model: RandomModel) -> tuple[Any, list[tuple[int, ...]]]:
    """The model exported with as many open sizes as torch.export takes, and shapes to run it at:
    both bounds, the example's, one between."""
    channels, (h, w) = model.channels, model.size
    axes = {0: (1, 4), 2: (h - 2, h + 7), 3: (w - 1, w + 6)}
    example = (2, channels, h, w)
    x = torch.randn(example, generator=torch.Generator().manual_seed(1))
    for kept in ((0, 2, 3), (0, 2), (0,)):
        dims = {a: Dim(f"size{a}", min=axes[a][0], max=axes[a][1]) for a in kept}
        try:
            exported = torch.export.export(model, (x,), dynamic_shapes=(dims,))
        except Exception:  # a layer with one size, a guard that fixes one
            continue
        low, high = ([axes[a][i] if a in kept else example[a] for a in range(4)] for i in (0, 1))
        between = [(a + b) // 2 for a, b in zip(low, high, strict=True)]
        return exported, [tuple(low), tuple(high), example, tuple(between)]
    raise AssertionError("a batch of any size exports")


@pytest.mark.parametrize("seed", range(16))
def test_random_model_of_open_sizes(seed):
    torch.set_num_threads(1)
    model = RandomModel(seed, steps=6).eval()
    exported, shapes = _open_program(model)
    quantization = "int8" if seed % 2 else None
    generator = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(shape, generator=generator) for shape in shapes]
    try:
        c = npuc.compile(
            exported, target=f"tosa-1.1+{'int' if quantization else 'fp'}+shape", progress=False,
            quantization=quantization, calibration=[(x,) for x in inputs] if quantization else None,
        )  # fmt: skip
    except BadInput as refusal:
        assert "holds only where" in str(refusal)  # what torch.export took for granted
        return
    least = smallest(c.io.inputs[0].type.shape[0])
    for x in inputs:
        if x.shape[0] >= least:  # torch leaves out a batch of 1 where it has to
            with torch.no_grad():
                want, got = model(x), c.run(x)
            floor = 8 if quantization else 60
            assert want.shape == got.shape
            assert sqnr_db(got.numpy(), want.numpy()) > floor or want.abs().max() < 1e-3
