"""Differential fuzzing: random models compile and agree with PyTorch, or are refused with a reason.

What is caught: a wrong value, an exception that is no refusal, a graph that the vendor's tool does not
take, `explain` and `compile` that disagree.
"""

from __future__ import annotations

import pytest
import torch

import npuc
from npuc.check.report import sqnr_db
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
