"""Arguments of canonical ops, and what holds for all spellings."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from npuc.errors import Unsupported
from npuc.frontend.canonicalize import canonicalize, spelled_kinds
from npuc.frontend.import_fx import import_fx
from npuc.frontend.spellings import SPELLINGS
from tests.frontend.models import KINDS, captured, imported, random

X = random(2, 4, 6)
IMAGE = random(1, 4, 8, 6)
W2 = random(6, 4, 3, 2, seed=5)


def arguments(function: Any, *inputs: Any) -> tuple[Any, ...]:
    """Arguments of the only op of a function's graph."""
    (op,) = (op for op in imported(function, *inputs).ops if op.kind != "const")
    return op.attrs["args"][1:], op.attrs["kwargs"]


def test_arguments_are_as_the_table_says():
    assert arguments(lambda x: x.mean((-1, 0)), X) == (((0, 2), False), {})
    assert arguments(lambda x: x.sum(), X) == (((0, 1, 2), False), {})
    assert arguments(lambda x: x.var(1), X) == (((1,),), {"correction": 1, "keepdim": False})
    assert arguments(lambda x: x[:, -3:99], X) == ((1, 1, 4, 1), {})
    assert arguments(lambda x: F.pad(x, (1, 2, 3, 4)), X) == (
        ((0, 0, 3, 4, 1, 2), "constant", 0), {}
    )  # fmt: skip
    assert arguments(lambda x: F.max_pool2d(x, 2), IMAGE) == (
        ((2, 2), (2, 2), (0, 0), (1, 1), False), {}
    )  # fmt: skip
    assert arguments(lambda x: F.avg_pool2d(x, 3, padding=1), IMAGE) == (
        ((3, 3), (3, 3), (1, 1), False, True, None), {}
    )  # fmt: skip
    assert arguments(F.relu6, X) == ((0, 6), {})
    assert arguments(lambda x: x.roll(-1, 1), X) == (((3,), (1,)), {})
    assert arguments(F.selu, X)[0][2] == 1.0
    assert arguments(lambda x: F.interpolate(x, scale_factor=2.0), IMAGE) == (
        ((16, 12), None, None), {}
    )  # fmt: skip
    assert arguments(lambda x: F.interpolate(x, (16, 12)), IMAGE) == (((16, 12), None, None), {})


def test_padding_of_convolutions_is_per_side():
    def padding(**kwargs: Any) -> tuple[int, ...]:
        return arguments(lambda x: F.conv2d(x, W2, **kwargs), IMAGE)[0][3]

    assert padding(padding=(1, 2)) == (1, 1, 2, 2)
    assert padding(padding="same") == (1, 1, 0, 1)
    assert padding(padding="valid") == (0, 0, 0, 0)


def test_spelled_kinds_need_the_kinds_they_end_in():
    assert "aten.instance_norm" in spelled_kinds(frozenset({"aten.group_norm"}))
    assert "aten.instance_norm" not in spelled_kinds(frozenset({"aten.add.Tensor"}))
    assert {"aten.full", "aten.zeros_like", "my.op"} <= spelled_kinds(frozenset({"my.op"}))
    assert "aten.mm" in spelled_kinds(frozenset({"aten.linear", "aten.matmul"}))


def test_canonical_kinds_are_spelled_as_themselves_or_not_at_all():
    """A canonical kind that ATen has too must be accepted where it is met: nothing is lost."""
    for kind in KINDS & SPELLINGS.keys():
        assert kind in spelled_kinds(KINDS), kind


def test_batch_statistics_are_refused():
    with pytest.raises(Unsupported, match=r"aten.batch_norm at .*: batch norm with the statistics"):
        imported(lambda x: F.batch_norm(x, None, None, training=True), IMAGE)


def test_statistics_that_are_read_keep_their_op():
    def forward(x):
        y, mean, _ = torch.ops.aten.native_layer_norm(x, [6], None, None, 1e-5)
        return y + mean

    kinds = [op.kind for op in imported(forward, X).ops]
    assert kinds == ["aten.native_layer_norm", "aten.add.Tensor"]


def test_origins_follow():
    program = captured(lambda x: (x.mean(1) + 1).relu().unsqueeze(0), X)
    graph = canonicalize(import_fx(program))
    names = [n.name for n in program.graph_module.graph.nodes if n.op == "call_function"]
    assert set(names) <= graph.origins.keys()
    for name in names:
        value, perm = graph.origins[name]
        assert perm is None and value in {r for op in graph.ops for r in op.results}
