"""Tiny TOSA files, written with the serializer alone, for the tests of external tools."""

from __future__ import annotations

from typing import Any

import numpy as np
import tosa_serializer as ts

D = ts.DType


def attribute(kind: str, *values: Any) -> Any:
    """The serializer's attribute object of one operator."""
    made = ts.TosaSerializerAttribute()
    getattr(made, f"{kind}Attribute")(*values)
    return made


def new_graph() -> Any:
    """An empty TOSA 1.0 graph."""
    return ts.TosaSerializer("", ts.ConstMode.EMBED, 1, 0, 0, False)


def add_input(graph: Any, name: str, shape: list[int], dtype: Any) -> None:
    """Add a graph input."""
    graph.addInputTensor(ts.TosaSerializerTensor(name, shape, dtype))


def add_op(
    graph: Any, op: Any, inputs: list[str], output: tuple[str, list[int], Any], attr: Any
) -> None:
    """Add an operator with one result (name, shape, dtype)."""
    graph.currRegion.currBasicBlock.addTensor(*output)
    graph.addOperator(op, inputs, [output[0]], attr)


def set_output(graph: Any, *names: str) -> bytes:
    """Name the outputs and return the file."""
    for name in names:
        graph.currRegion.currBasicBlock.addOutput(name)
    return bytes(graph.serialize())


def elementwise(op: str, shape: list[int], dtype: str, result: str | None = None) -> bytes:
    """y = op(a, b) on two inputs of one type."""
    graph = new_graph()
    for name in ("a", "b"):
        add_input(graph, name, shape, getattr(D, dtype))
    output = ("y", shape, getattr(D, result or dtype))
    add_op(graph, getattr(ts.Op, op), ["a", "b"], output, attribute(op.title()))
    return set_output(graph, "y")


def conv_weights(seed: int = 0) -> tuple[Any, Any]:
    """Weights [8, 3, 3, 4] int8 and bias [8] int32 of `int8_conv`."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(-127, 128, (8, 3, 3, 4), dtype=np.int8)
    return weights, rng.integers(-1000, 1000, 8, dtype=np.int32)


def int8_conv(height: int = 16, out_height: int | None = None) -> bytes:
    """3x3 CONV2D and RESCALE, [1, height, 16, 4] -> [1, height, 16, 8].

    Input zero point -3, output zero point 5, scale 2**-9. A wrong `out_height` breaks the graph.
    """
    graph = new_graph()
    weights, bias = conv_weights()
    shape = [1, out_height or height, 16, 8]
    add_input(graph, "x", [1, height, 16, 4], D.INT8)
    graph.addConst([8, 3, 3, 4], D.INT8, weights, name="w")
    graph.addConst([8], D.INT32, bias, name="bias")
    graph.addConst([1], D.INT8, np.int8([-3]), name="x_zp")
    graph.addConst([1], D.INT8, np.int8([0]), name="w_zp")
    conv = attribute("Conv2d", [1, 1, 1, 1], [1, 1], [1, 1], False, D.INT32)
    operands = ["x", "w", "bias", "x_zp", "w_zp"]
    add_op(graph, ts.Op.CONV2D, operands, ("acc", shape, D.INT32), conv)
    add_rescale(graph, "acc", ("y", shape, D.INT8), shift=39, out_zp=5)
    return set_output(graph, "y")


def add_rescale(
    graph: Any, source: str, output: tuple[str, list[int], Any], shift: int, out_zp: int
) -> None:
    """RESCALE by 2**30 / 2**shift, per tensor, from INT32 or INT8 with zero point 0."""
    name = output[0]
    from_int32 = source == "acc"
    in_dtype, in_zp = (D.INT32, np.int32([0])) if from_int32 else (D.INT8, np.int8([0]))
    graph.addConst([1], D.INT32, np.int32([1 << 30]), name=f"{name}_multiplier")
    graph.addConst([1], D.INT8, np.int8([shift]), name=f"{name}_shift")
    graph.addConst([1], in_dtype, in_zp, name=f"{name}_in_zp")
    graph.addConst([1], D.INT8, np.int8([out_zp]), name=f"{name}_out_zp")
    operands = [source] + [f"{name}_{part}" for part in ("multiplier", "shift", "in_zp", "out_zp")]
    rounding = attribute("Rescale", True, ts.RoundingMode.SINGLE_ROUND, False, False, False)
    add_op(graph, ts.Op.RESCALE, operands, output, rounding)


def expected_conv(x: Any) -> Any:
    """What `int8_conv` computes, in numpy int64."""
    weights, bias = conv_weights()
    padded = np.pad(x.astype(np.int64) + 3, ((0, 0), (1, 1), (1, 1), (0, 0)))
    accumulator = np.zeros((*x.shape[:3], 8), np.int64) + bias
    for row in range(3):
        for column in range(3):
            window = padded[:, row : row + x.shape[1], column : column + x.shape[2]]
            accumulator += np.einsum("nhwc,oc->nhwo", window, weights[:, row, column].astype(int))
    rescaled = (accumulator + (1 << 8)) >> 9
    return np.clip(rescaled + 5, -128, 127).astype(np.int8)


def copies() -> bytes:
    """RESCALE, TRANSPOSE and CONCAT with itself: nothing but data movement."""
    graph = new_graph()
    add_input(graph, "x", [1, 16, 32, 8], D.INT8)
    add_rescale(graph, "x", ("y", [1, 16, 32, 8], D.INT8), shift=31, out_zp=5)
    transposed = ("t", [1, 32, 16, 8], D.INT8)
    add_op(graph, ts.Op.TRANSPOSE, ["y"], transposed, attribute("Transpose", [0, 2, 1, 3]))
    joined = ("c", [1, 32, 16, 16], D.INT8)
    add_op(graph, ts.Op.CONCAT, ["t", "t"], joined, attribute("Concat", 3))
    return set_output(graph, "c")
