"""Outputs that are reshaped and transposed for others too, through Vela."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npuc.errors import NpucError
from npuc.ir import DType, Graph, Quant, TensorType, Value
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.copy_outputs import copy_outputs
from tests.lowering.harness import U85, run, vela

ROW = TensorType(DType.INT8, (1, 3, 4, 4), Quant(0.1))


def doubled(b: TosaBuilder, x: Value) -> Value:
    return b.rescale(b.ADD(b.to_int32(x), b.to_int32(x)), 1.0, DType.INT8, quant=ROW.quant)


def clamped(b: TosaBuilder, x: Value) -> Value:
    return b.CLAMP(x, min_val=-9, max_val=9, quant=ROW.quant)


def total(b: TosaBuilder, y: Value) -> Value:
    flat = b.transpose(b.reshape(y, (1, 3, 16)), (0, 2, 1))
    sums = b.REDUCE_SUM(b.to_int32(flat), axis=1)
    return b.rescale(sums, 1 / 16, DType.INT8, quant=ROW.quant)


def region(body: Any) -> Graph:
    b = TosaBuilder(U85)
    return b.finish([body(b, b.input(ROW))])


def either(b: TosaBuilder, x: Value) -> Value:
    """2 * x or x between -9 and 9, by the sign of its first element."""
    first = b.reshape(b.slice(x, (0, 0, 0, 0), (1, 1, 1, 1)), ())
    flag = b.GREATER(b.to_int32(first), b.scalar(0, DType.INT32))
    return b.emit("tosa.COND_IF", [flag, x], {}, [ROW], (region(doubled), region(clamped)))[0]


def graph_of(make: Any, read: Any) -> Graph:
    b = TosaBuilder(U85)
    y = make(b, b.input(ROW, "x"))
    return b.finish([y, read(b, y)], origins={"y": (y, None)})


@pytest.mark.parametrize("make", [doubled, either])
def test_both_outputs_are_there(make: Any) -> None:
    graph = graph_of(make, total)
    copied = copy_outputs(graph, U85)
    assert [np.prod(o.shape) for o in vela(copied, "ethos-u85-256").outputs] == [48, 3]
    assert copied.origins["y"][0] is copied.outputs[0]
    for sign in (1, -1):
        x = np.arange(48).reshape(1, 3, 4, 4).astype(np.int8) * sign + sign
        for a, b in zip(run(graph, [x]), run(copied, [x]), strict=True):
            np.testing.assert_array_equal(a, b)


def test_nothing_else_is_copied() -> None:
    graph = graph_of(either, doubled)
    assert copy_outputs(graph, U85) is graph


def test_vela_still_needs_it() -> None:
    with pytest.raises(NpucError, match="outputs are not those"):
        vela(graph_of(doubled, total), "ethos-u85-256")
