"""Shape operators against the reference model, which shows a shape only through what it makes."""

from __future__ import annotations

import numpy as np
import pytest

from npuc.errors import NpucError
from npuc.execute.tosa import evaluate
from npuc.ir import Builder, DType, SymDim, TensorType, Value
from tests.execute.compare import assert_same

RANK = 3
X = np.arange(24, dtype=np.int8).reshape(2, 3, 4)


def shape_type(rank: int) -> TensorType:
    return TensorType(DType.SHAPE, (rank,))


def const_shape(b: Builder, *dims: int) -> Value:
    return b.const(np.array(dims, np.int64), DType.SHAPE)


def tiled(b: Builder, x: Value, multiples: Value, expected: tuple[int, ...]) -> Value:
    """A tensor whose shape and content show the shape value `multiples`."""
    shape = tuple(d * m for d, m in zip(x.type.shape, expected, strict=True))
    return b.emit("tosa.TILE", [x, multiples], {}, [TensorType(DType.INT8, shape)])[0]


@pytest.mark.parametrize(
    ("name", "a", "c", "expected"),
    [
        ("ADD_SHAPE", (1, 2, 1), (1, 1, 2), (2, 3, 3)),
        ("SUB_SHAPE", (3, 4, 2), (1, 2, 1), (2, 2, 1)),
        ("MUL_SHAPE", (1, 2, 3), (3, 1, 1), (3, 2, 3)),
        ("MAX_SHAPE", (1, 2, 3), (2, 1, 3), (2, 2, 3)),
        ("MIN_SHAPE", (1, 2, 3), (2, 1, 3), (1, 1, 3)),
        ("MOD_SHAPE", (7, 5, 4), (4, 3, 3), (3, 2, 1)),
        ("DIV_FLOOR_SHAPE", (7, 4, 3), (2, 2, 3), (3, 2, 1)),
        ("DIV_CEIL_SHAPE", (7, 4, 1), (3, 2, 4), (3, 2, 1)),
        ("EXP2_SHAPE", (0, 1, 2), None, (1, 2, 4)),
        ("LOG2_FLOOR_SHAPE", (2, 4, 7), None, (1, 2, 2)),
        ("LOG2_CEIL_SHAPE", (2, 4, 5), None, (1, 2, 3)),
    ],
)
def test_shape_arithmetic(
    name: str, a: tuple[int, ...], c: tuple[int, ...] | None, expected: tuple[int, ...]
) -> None:
    b = Builder()
    x = b.input(TensorType(DType.INT8, X.shape))
    operands = [const_shape(b, *dims) for dims in (a, c) if dims is not None]
    (shape,) = b.emit(f"tosa.{name}", operands, {}, [shape_type(RANK)])
    assert_same(b.finish([tiled(b, x, shape, expected)]), [X], level="EIGHTK")


def test_dim_concat_and_slice() -> None:
    b = Builder()
    x = b.input(TensorType(DType.INT8, X.shape))
    dims = [b.emit("tosa.DIM", [x], {"axis": a}, [shape_type(1)])[0] for a in (2, 0, 1)]
    (joined,) = b.emit("tosa.CONCAT_SHAPE", [*dims, const_shape(b, 1, 1)], {}, [shape_type(5)])
    start, size = b.const(np.array([1], np.int32)), b.const(np.array([3], np.int32))
    (part,) = b.emit("tosa.SLICE_SHAPE", [joined, start, size], {}, [shape_type(3)])
    assert_same(b.finish([tiled(b, x, part, (2, 3, 1))]), [X])


def test_sizes_come_from_the_arrays() -> None:
    b = Builder()
    n = SymDim("n", 1, 8)
    x = b.input(TensorType(DType.INT8, (n, 4)))
    (rows,) = b.emit("tosa.DIM", [x], {"axis": 0}, [shape_type(1)])
    (shape,) = b.emit("tosa.CONCAT_SHAPE", [rows, const_shape(b, 2, 2)], {}, [shape_type(3)])
    (y,) = b.emit("tosa.RESHAPE", [x, shape], {}, [TensorType(DType.INT8, (n, 2, 2))])
    graph = b.finish([y])
    for rows_given in (1, 5):
        given = np.arange(4 * rows_given, dtype=np.int8).reshape(-1, 4)
        np.testing.assert_array_equal(evaluate(graph, [given])[0], given.reshape(-1, 2, 2))


@pytest.mark.parametrize("allow_broadcast", [False, True])
def test_assert_equal_shape(allow_broadcast: bool) -> None:
    b = Builder()
    x = b.input(TensorType(DType.INT8, X.shape))
    operands = [const_shape(b, 2, 3, 4), const_shape(b, 2, 1, 4)]
    b.emit("tosa.ASSERT_EQUAL_SHAPE", operands, {"allow_broadcast": allow_broadcast}, [])
    graph = b.finish([x])
    graph.ops = tuple(b.ops)
    if allow_broadcast:
        np.testing.assert_array_equal(evaluate(graph, [X])[0], X)
        return
    with pytest.raises(NpucError, match=r"ASSERT_EQUAL_SHAPE.*\[2, 3, 4\] and \[2, 1, 4\] differ"):
        evaluate(graph, [X])
