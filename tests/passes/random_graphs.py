"""Random well-typed TOSA graphs, and what a pass may not change: their results and origins."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from npuc.dialects.tosa import Limits
from npuc.errors import Unsupported
from npuc.execute.tosa import evaluate, evaluate_all
from npuc.ir import DType, Graph, TensorType, Value, apply_moves
from npuc.lowering.tosa_builder import TosaBuilder

LIMITS = Limits(extensions=frozenset({"EXT-INT16", "EXT-CONTROLFLOW"}))


class Maker:
    """Emits random ops on random earlier values of its builder."""

    def __init__(self, seed: int, dtype: DType = DType.INT32, limits: Limits = LIMITS) -> None:
        self.rng = np.random.default_rng(seed)
        self.b = TosaBuilder(limits)
        self.dtype = dtype
        self.values: list[Value] = []

    def pick(self, rank: int | None = None) -> Value:
        """A recent value, of the given rank if there is one."""
        found = [v for v in self.values[-12:] if rank in (None, v.type.rank)] or self.values[-1:]
        return found[int(self.rng.integers(len(found)))]

    def shuffle(self, n: int) -> tuple[int, ...]:
        return tuple(int(i) for i in self.rng.permutation(n))

    def constant(self, shape: tuple[int, ...]) -> Value:
        data = self.rng.integers(-5, 6, shape)
        return self.b.const(data.astype(self.dtype.numpy), self.dtype)

    def step(self) -> None:
        """Add one op, or none where the target refuses it."""
        kinds = [getattr(self, n) for n in dir(self) if n.startswith("op_")]
        with suppress(Unsupported):
            self.values.append(kinds[int(self.rng.integers(len(kinds)))](self.pick()))

    def op_transpose(self, x: Value) -> Value:
        return self.b.TRANSPOSE(x, perms=self.shuffle(x.type.rank))

    op_transpose_too = op_transpose

    def op_negate(self, x: Value) -> Value:
        zero = self.b.zero_point(x)
        return self.b.NEGATE(x, zero, zero)

    def op_abs(self, x: Value) -> Value:
        return self.b.ABS(x)

    def op_add(self, x: Value) -> Value:
        """With an equal shape: another value, or its own transpose reshaped back."""
        same = [v for v in self.values if v.type.shape == x.type.shape]
        return self.b.ADD(x, same[int(self.rng.integers(len(same)))])

    def op_add_broadcast(self, x: Value) -> Value:
        keep = self.rng.integers(0, 2, x.type.rank)
        shape = tuple(d if k else 1 for d, k in zip(x.type.ints, keep, strict=True))
        return self.b.MAXIMUM(x, self.constant(shape))

    def op_outer(self, x: Value) -> Value:
        y = self.b.REDUCE_MAX(x, axis=int(self.rng.integers(x.type.rank)))
        return self.b.SUB(x, y)

    def op_concat(self, x: Value) -> Value:
        if x.type.size > 2000:
            return self.op_slice(x)
        return self.b.CONCAT(x, x, axis=int(self.rng.integers(x.type.rank)))

    def op_slice(self, x: Value) -> Value:
        size = tuple(int(self.rng.integers(max(1, d // 2), d + 1)) for d in x.type.ints)
        start = tuple(
            int(self.rng.integers(0, d - s + 1)) for d, s in zip(x.type.ints, size, strict=True)
        )
        return self.b.SLICE(x, start, size)

    def op_pad(self, x: Value) -> Value:
        if x.type.size > 2000:
            return self.op_slice(x)
        amounts = tuple(int(n) for n in self.rng.integers(0, 2, 2 * x.type.rank))
        return self.b.PAD(x, amounts, self.constant((1,)))

    def op_reverse(self, x: Value) -> Value:
        y = self.b.rescale(x, 0.5, DType.INT8)
        y = self.b.REVERSE(y, axis=int(self.rng.integers(x.type.rank)))
        return self.b.rescale(y, 1.0, DType.INT32)

    def op_row_max(self, x: Value) -> Value:
        y = self.b.rescale(x, 0.5, DType.INT8)
        y = self.b.REDUCE_MAX(y, axis=int(self.rng.integers(x.type.rank)))
        return self.b.rescale(y, 1.0, DType.INT32)

    def op_reduce(self, x: Value) -> Value:
        return self.b.REDUCE_SUM(x, axis=int(self.rng.integers(x.type.rank)))

    def op_unsqueeze(self, x: Value) -> Value:
        shape = list(x.type.ints)
        ones = [i for i, d in enumerate(shape) if d == 1]
        if ones and len(shape) > 2:
            del shape[ones[int(self.rng.integers(len(ones)))]]
        elif len(shape) < 5:
            shape.insert(int(self.rng.integers(len(shape) + 1)), 1)
        return self.b.RESHAPE(x, tuple(shape))

    def op_merge(self, x: Value) -> Value:
        """Two neighbouring axes become one."""
        shape = list(x.type.ints)
        if len(shape) < 3:
            return self.op_split(x)
        i = int(self.rng.integers(len(shape) - 1))
        shape[i : i + 2] = [shape[i] * shape[i + 1]]
        return self.b.RESHAPE(x, tuple(shape))

    def op_split(self, x: Value) -> Value:
        shape = list(x.type.ints)
        even = [i for i, d in enumerate(shape) if d % 2 == 0]
        if not even or len(shape) > 4:
            return self.op_abs(x)
        i = even[int(self.rng.integers(len(even)))]
        shape[i : i + 1] = [2, shape[i] // 2]
        return self.b.RESHAPE(x, tuple(shape))

    def op_pool(self, x: Value) -> Value:
        """A 1x1 convolution with a weight of one: an op of one fixed layout."""
        if x.type.rank != 4:
            return self.op_negate(x)
        y = self.b.nhwc(x)
        small = self.b.rescale(y, 0.01, DType.INT8)
        c = x.type.ints[1]
        weight = self.b.const(self.rng.integers(-3, 4, (c, 1, 1, c)).astype(np.int8))
        bias = self.b.const(np.zeros(c, np.int32))
        zero = self.b.zero_point(small)
        return self.b.nchw(self.b.CONV2D(small, weight, bias, zero, zero, acc_type=DType.INT32))

    def op_linear(self, x: Value) -> Value:
        """Flatten all but the first axis, then a linear layer of constant weights."""
        n, k = x.type.ints[0], x.type.size // x.type.ints[0]
        if k > 200:
            return self.op_abs(x)
        y = self.b.rescale(self.b.RESHAPE(x, (1, 1, n, k)), 0.01, DType.INT8)
        weight = self.b.const(self.rng.integers(-3, 4, (12, 1, 1, k)).astype(np.int8))
        bias = self.b.const(self.rng.integers(-9, 9, 12).astype(np.int32))
        zero = self.b.zero_point(y)
        y = self.b.CONV2D(y, weight, bias, zero, zero, acc_type=DType.INT32)
        y = self.b.rescale(y, self.rng.uniform(0.5, 1, 12), DType.INT32)
        return self.b.RESHAPE(y, (n, 3, 2, 2))


def random_graph(seed: int, ops: int = 25, limits: Limits = LIMITS) -> Graph:
    """A graph of about `ops` int32 ops; every value of it has an origin."""
    maker = Maker(seed, limits=limits)
    shape = tuple(int(d) for d in maker.rng.choice([1, 2, 3, 4], 4))
    maker.values = [maker.b.input(TensorType(DType.INT32, shape), f"x{i}") for i in range(2)]
    for _ in range(ops):
        maker.step()
    outputs = [maker.values[-1], maker.values[len(maker.values) // 2]]
    named = {f"v{i}": (v, None) for i, v in enumerate(maker.values)}
    graph = maker.b.finish(outputs, origins=named)
    graph.origins = {n: (v, p) for n, (v, p) in graph.origins.items() if named[n][0] is v}
    return graph


def random_arrays(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    """Arrays for the inputs of a graph: small numbers for wide integers."""
    rng = np.random.default_rng(seed)
    arrays: list[np.ndarray] = []
    for value in graph.inputs:
        dtype, shape = value.type.dtype, value.type.ints
        if dtype.is_float:
            data: Any = rng.normal(size=shape)
        elif dtype.bits <= 8:
            data = rng.integers(dtype.range[0], dtype.range[1] + 1, shape)
        else:
            data = rng.integers(-1000, 1000, shape)
        arrays.append(np.asarray(data).astype(dtype.numpy))
    return arrays


def check_same(before: Graph, after: Graph, steps: int = 0, origins: bool = True) -> None:
    """Both graphs give the same outputs, and their origins carry the same values.

    `steps`: by how much integers may differ.
    """
    assert [v.type for v in after.inputs] == [v.type for v in before.inputs]
    assert [v.type.shape for v in after.outputs] == [v.type.shape for v in before.outputs]
    arrays = random_arrays(before)
    for a, b in zip(evaluate(before, arrays), evaluate(after, arrays), strict=True):
        _check_close(a, b, steps)
    if not origins:
        return
    old, new = evaluate_all(before, arrays), evaluate_all(after, arrays)
    for name, (value, moves) in after.origins.items():
        was, was_moved = before.origins[name]
        assert was_moved is None, "the graphs of these tests start without moves"
        found = apply_moves(new[value], moves)
        assert found is not None
        _check_close(old[was].reshape(-1), found.reshape(-1), steps)


def _check_close(a: np.ndarray, b: np.ndarray, steps: int) -> None:
    if steps:
        assert np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0) <= steps
    else:
        np.testing.assert_array_equal(a, b)
