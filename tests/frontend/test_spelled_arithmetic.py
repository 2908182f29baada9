"""Spellings of element-wise ops: canonical kinds, explicit promotion, the same values."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.frontend.models import assert_computes, imported, kinds, random

aten = torch.ops.aten
X = random(2, 4, 6)
IMAGE = random(1, 4, 8, 6)
INTS = torch.arange(24, dtype=torch.int32).reshape(2, 3, 4) - 7
FLAGS = random(2, 4, 6) > 0
VECTOR = random(6, seed=3)
MATRIX = random(5, 6, seed=4)

# (name, function, inputs, canonical kinds)
CASES: dict[str, tuple[Any, tuple[Any, ...], str]] = {}


def case(name: str, function: Any, inputs: Any, wanted: str) -> None:
    assert name not in CASES
    CASES[name] = (function, inputs, wanted)


# arithmetic
case("add number", lambda x: x + 2, (X,), "add.Tensor")
case("add alpha", lambda x, y: torch.add(x, y, alpha=2), (X, VECTOR), "add.Tensor")
case("rsub", lambda x: 3 - x, (X,), "sub.Tensor")
case("number on the left", lambda x: 2 / x, (X,), "reciprocal mul.Tensor")
case("div floor", lambda x: torch.div(x, 2, rounding_mode="floor"), (INTS,), "div.Tensor")
case(
    "div of integers",
    lambda x, y: x / (y * 2 + 1),
    (INTS, INTS),
    "mul.Tensor add.Tensor to to div.Tensor",
)
case("floor_divide", lambda x: x // 3, (INTS,), "div.Tensor")
case("mixed types", lambda x, y: x * y, (X.half(), X), "to mul.Tensor")
case("integers and a float", lambda x: x + 0.5, (INTS,), "to add.Tensor")
case("half and a 0-d float", lambda x: x * torch.tensor(2.5), (X.half(),), "mul.Tensor")
case("flags", lambda x, y: x + y, (FLAGS, ~FLAGS), "logical_or")
case("maximum", torch.maximum, (X, VECTOR), "maximum")
case("min other", lambda x, y: torch.min(x, y), (X, VECTOR), "minimum")
case("remainder", lambda x: x % 2, (INTS,), "remainder.Tensor")
case("fmod", lambda x: torch.fmod(x, 1.5), (X,), "fmod.Tensor")
case("pow", lambda x: x**3, (X,), "pow.Tensor_Scalar")
case("square", torch.square, (X,), "pow.Tensor_Scalar")
case("number to the power", lambda x: 2.0**x, (X,), "pow.Tensor_Tensor")
case("pow of tensors", lambda x, y: x.abs() ** y, (X, VECTOR), "abs pow.Tensor_Tensor")
case("atan2", torch.atan2, (X, VECTOR), "atan2")
case("compare to a number", lambda x: x > 0, (X,), "gt.Tensor")
case("compare types", lambda x, y: x <= y, (INTS.float(), INTS), "to le.Tensor")
case("not equal", lambda x, y: x != y, (INTS, INTS.flip(0)), "ne.Tensor")
case(
    "bitwise of flags",
    lambda x, y: (x & y) | ~x,
    (FLAGS, FLAGS),
    "logical_and logical_not logical_or",
)
case(
    "bitwise of integers",
    lambda x: (x & 3) ^ ~x,
    (INTS,),
    "bitwise_and.Tensor bitwise_not bitwise_xor.Tensor",
)
case(
    "shift",
    lambda x: (x << 2) >> 1,
    (INTS,),
    "bitwise_left_shift.Tensor bitwise_right_shift.Tensor",
)
case(
    "logical of numbers",
    lambda x, y: torch.logical_and(x, y),
    (INTS, FLAGS.view(2, 3, 8)[:, :, :4]),
    "to logical_and",
)
case("where", lambda x: torch.where(x > 0, x, -1.0), (X,), "gt.Tensor where")
case("where of types", lambda c, x, y: torch.where(c, x, y), (FLAGS, X.half(), X), "to where")
case("masked_fill", lambda x, m: x.masked_fill(m, -math.inf), (X, FLAGS), "where")
case("tril", torch.tril, (X,), "where")
case("triu", lambda x: x.triu(1), (X,), "where")
case("relu", F.relu, (X,), "clamp")
case("relu6", F.relu6, (X,), "clamp")
case("hardtanh", lambda x: F.hardtanh(x, -0.5, 0.3), (X,), "clamp")
case("clamp_min", lambda x: x.clamp_min(0.1), (X,), "clamp")
case("clamp to infinity", lambda x: x.clamp(-math.inf, 0.5), (X,), "clamp")
case(
    "clamp by tensors", lambda x, lo: x.clamp(lo, lo + 1), (X, VECTOR), "add.Tensor maximum minimum"
)
case("threshold", lambda x: F.threshold(x, 0.2, 7.0), (X,), "threshold")
case("threshold at zero", lambda x: F.threshold(x, 0.0, 0.0), (X,), "clamp")
case("selu", F.selu, (X,), "elu")
case("celu", lambda x: F.celu(x, 2.0), (X,), "elu")
case("rrelu", lambda x: F.rrelu(x, training=False), (X,), "leaky_relu")
case("prelu", lambda x: F.prelu(x, VECTOR[:4]), (X,), "prelu")
case("gelu", lambda x: F.gelu(x, approximate="tanh"), (X,), "gelu")
case("glu", lambda x: F.glu(x, -2), (X,), "glu")
case("sqrt of integers", lambda x: (x * x).sqrt(), (INTS,), "mul.Tensor to sqrt")
case("floor of integers", torch.floor, (INTS,), "")
case("arctan", torch.arctan, (X,), "atan")
case("sigmoid", torch.sigmoid, (X,), "sigmoid")
case("logit", lambda x: torch.logit(x.sigmoid(), 1e-3), (X,), "sigmoid logit")
case("to", lambda x: x.to(torch.int32).float(), (X,), "to to")
case("type_as", lambda x, y: x.type_as(y), (INTS, X), "to")
case("to itself", lambda x: x.to(torch.float32).type_as(x), (X,), "")
case("fill", lambda x: torch.fill(x, 3.0) + x, (X,), "add.Tensor")


@pytest.mark.parametrize("name", CASES)
def test_spelling(name):
    function, inputs, wanted = CASES[name]
    graph = imported(function, *inputs)
    assert sorted(kinds(graph)) == sorted(wanted.split())
    assert_computes(graph, inputs, function(*inputs), atol=1e-5, rtol=1e-4)
