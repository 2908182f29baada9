"""Every family of ops is quantized as a whole, and close to the float model."""

from __future__ import annotations

import pytest
import torch

from npuc.quantizer.left_float import left_float
from tests.quantizer.families import FAMILIES, converted, float_outputs, sqnr

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:The tensor attributes")

# Signal to noise in dB; most are near 40.
FLOOR = 32.0


@pytest.mark.parametrize("name", FAMILIES)
def test_no_op_is_left_float_and_the_values_are_close(name):
    model, args = FAMILIES[name]
    graph = converted(model, args)
    assert [node.name for node in left_float(graph)] == []
    with torch.no_grad():
        got = graph(*args)
    for want, value in zip(float_outputs(model, args), got, strict=True):
        assert sqnr(want, value) > FLOOR


@pytest.mark.parametrize(
    "name", ["conv relu", "layer norm", "lstm", "attention", "logic", "products"]
)
def test_sixteen_bit_activations(name):
    model, args = FAMILIES[name]
    graph = converted(model, args, "a16w8")
    assert left_float(graph) == []
    with torch.no_grad():
        got = graph(*args)
    for want, value in zip(float_outputs(model, args), got, strict=True):
        assert sqnr(want, value) > 40


@pytest.mark.parametrize("name", ["conv relu", "layer norm", "lstm", "magnitude"])
def test_targets_without_16_bit_tables(name):
    model, args = FAMILIES[name]
    graph = converted(model, args, tables16=False)
    assert left_float(graph) == []
    with torch.no_grad():
        got = graph(*args)
    for want, value in zip(float_outputs(model, args), got, strict=True):
        assert sqnr(want, value) > 25


def test_four_bit_weights_fill_four_bits():
    model, args = FAMILIES["conv relu"]
    graph = converted(model, args, "a8w4")
    weights = [b for _, b in graph.named_buffers() if b.dtype == torch.int8]
    assert [int(w.abs().max()) for w in weights] == [7]


def test_left_float_finds_what_is_left():
    """The helper of these tests must be able to fail."""
    from npuc.quantizer.recipe import Recipe

    model, args = FAMILIES["conv relu"]
    graph = converted(model, args, Recipe(ops={"aten.conv2d": None}))
    assert [node.name for node in left_float(graph)] == ["conv2d"]
