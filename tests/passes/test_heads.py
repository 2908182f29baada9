"""Projections written and read head by head on Ethos-U: the same bits without moving the tensor."""

from __future__ import annotations

import numpy as np
import pytest

from npuc.ir import DType, Graph, TensorType, Value
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.merge_heads import merge_heads
from npuc.passes.pipeline import Pass
from npuc.passes.split_heads import split_heads
from tests.passes.random_graphs import LIMITS, check_same

TOKENS, WIDTH = 10, 24


def projection(
    b: TosaBuilder, x: Value, channels: int, seed: int = 0, per_channel: bool = True
) -> Value:
    """A 1x1 convolution with scales per channel."""
    rng = np.random.default_rng(seed)
    kernel = rng.integers(-127, 128, (channels, 1, 1, x.type.ints[-1])).astype(np.int8)
    bias = b.const(rng.integers(-500, 500, channels).astype(np.int32))
    zero = b.scalar(0, DType.INT8, 1)
    acc = b.CONV2D(x, b.const(kernel), bias, b.scalar(3, DType.INT8, 1), zero, acc_type=DType.INT32)
    scale = 0.002 * (1 + rng.random(channels)) if per_channel else 0.003
    return b.rescale(acc, scale, DType.INT8, out_zp=-2)


def tokens(b: TosaBuilder, shape: tuple[int, ...] = (1, 1, TOKENS, WIDTH)) -> Value:
    return b.input(TensorType(DType.INT8, shape), "x")


def heads_of(b: TosaBuilder, y: Value, heads: int) -> Value:
    """[1, 1, T, h * d] as [h, T, d]."""
    d = y.type.ints[-1] // heads
    return b.transpose(b.reshape(y, (y.type.size // (heads * d), heads, d)), (1, 0, 2))


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops if op.kind.startswith("tosa.")]


def run(graph: Graph, run_pass: Pass) -> list[str]:
    """Names of the operators after the pass, whose results and origins have to be those before."""
    values = [r for op in graph.ops if op.kind.startswith("tosa.") for r in op.results]
    graph.origins = {str(i): (v, None) for i, v in enumerate(values)}
    after = run_pass(graph, LIMITS)
    check_same(graph, after)
    return names(after)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("heads", [2, 3])
def test_heads_are_written_where_they_belong(heads: int, per_channel: bool) -> None:
    b = TosaBuilder(LIMITS)
    y = projection(b, tokens(b), heads * 16, per_channel=per_channel)
    after = run(b.finish([heads_of(b, y, heads)]), split_heads)
    assert after.count("CONV2D") == heads and "CONCAT" in after and "TRANSPOSE" not in after


def test_origins_of_a_divided_projection() -> None:
    """Its result is not there any more, but all of its elements are; of what was the input of a
    merged one too."""
    b = TosaBuilder(LIMITS)
    y = projection(b, tokens(b), 32)
    heads = heads_of(b, y, 2)
    sums = b.rescale(b.ADD(b.to_int32(heads), b.to_int32(heads)), 0.5, DType.INT8)
    rows = b.reshape(b.transpose(sums, (1, 0, 2)), (1, 1, TOKENS, 32))
    named = {"y": (y, None), "heads": (heads, None), "rows": (rows, None)}
    before = b.finish([projection(b, rows, 16)], origins=named)
    split = split_heads(before, LIMITS)
    merged = merge_heads(split, LIMITS)
    check_same(before, split)
    check_same(before, merged)
    assert set(merged.origins) == {"y", "heads", "rows"}
    assert merged.origins["y"] == (merged.origins["heads"][0], (("TRANSPOSE", (1, 0, 2)),))
    assert merged.origins["rows"][1] == (("TRANSPOSE", (1, 0, 2)),)


def test_an_image_and_a_table() -> None:
    b = TosaBuilder(LIMITS)
    y = projection(b, tokens(b, (1, 3, 5, WIDTH)), 32)
    y = b.TABLE(y, b.const(np.arange(-128, 128)[::-1].astype(np.int8)))
    after = run(b.finish([heads_of(b, y, 2)]), split_heads)
    assert (after.count("CONV2D"), after.count("TABLE"), after.count("TRANSPOSE")) == (2, 2, 0)


def joint(b: TosaBuilder, moved: bool) -> list[Value]:
    """Queries, keys [h * d, T] and values of one projection; `moved`: the three come first."""
    y = projection(b, tokens(b), 3 * 32)
    y = b.reshape(y, (TOKENS, 3, 2, 16))
    if moved:
        y = b.transpose(y, (1, 0, 2, 3))
        parts = [b.SLICE(y, (k, 0, 0, 0), (1, TOKENS, 2, 16)) for k in range(3)]
    else:
        parts = [b.SLICE(y, (0, k, 0, 0), (TOKENS, 1, 2, 16)) for k in range(3)]
    q, k, v = (b.reshape(p, (1, 1, TOKENS, 32)) for p in parts)
    keys = b.transpose(b.reshape(k, (TOKENS, 32)), (1, 0))
    return [heads_of(b, q, 2), b.reshape(keys, (2, 16, TOKENS)), heads_of(b, v, 2)]


@pytest.mark.parametrize("moved", [False, True])
def test_one_projection_for_three(moved: bool) -> None:
    b = TosaBuilder(LIMITS)
    after = run(b.finish(joint(b, moved)), split_heads)
    assert (after.count("CONV2D"), after.count("TRANSPOSE"), after.count("SLICE")) == (5, 1, 0)


def test_divisions_that_stay() -> None:
    def stays(make: object) -> None:
        b = TosaBuilder(LIMITS)
        graph = b.finish(make(b))  # type: ignore[operator]
        assert run(graph, split_heads) == names(graph)

    def also_read(b: TosaBuilder) -> list[Value]:
        y = projection(b, tokens(b), 32)
        return [heads_of(b, y, 2), y]

    def narrow(b: TosaBuilder) -> list[Value]:
        return [heads_of(b, projection(b, tokens(b), 32), 4)]

    def batch(b: TosaBuilder) -> list[Value]:
        return [heads_of(b, projection(b, tokens(b, (2, 1, 5, WIDTH)), 32), 2)]

    def halves(b: TosaBuilder) -> list[Value]:
        """Element-wise operators read a part where it lies."""
        y = projection(b, tokens(b), 32)
        parts = [b.SLICE(y, (0, 0, 0, k), (1, 1, TOKENS, 16)) for k in (0, 16)]
        return [b.CLAMP(p, min_val=0, max_val=9) for p in parts]

    def overlapping(b: TosaBuilder) -> list[Value]:
        y = b.reshape(projection(b, tokens(b), 64), (TOKENS, 64))
        parts = [b.SLICE(y, (0, k), (TOKENS, 40)) for k in (0, 24)]
        return [b.transpose(p, (1, 0)) for p in parts]

    def turned_whole(b: TosaBuilder) -> list[Value]:
        """Ethos-U85 transposes as it writes."""
        y = b.reshape(projection(b, tokens(b), 32), (TOKENS, 32))
        return [b.transpose(y, (1, 0))]

    for make in (also_read, narrow, batch, halves, overlapping, turned_whole):
        stays(make)


@pytest.mark.parametrize("heads", [2, 3])
def test_heads_are_read_where_they_are(heads: int) -> None:
    b = TosaBuilder(LIMITS)
    x = b.input(TensorType(DType.INT8, (heads, TOKENS, 16)), "x")
    rows = b.reshape(b.transpose(x, (1, 0, 2)), (1, 1, TOKENS, heads * 16))
    graph = b.finish([projection(b, rows, 40)])
    assert "TRANSPOSE" not in run(graph, merge_heads)
    (conv,) = (op for op in merge_heads(graph, LIMITS).ops if op.kind == "tosa.CONV2D")
    assert conv.operands[1].type.shape == (40, heads, 1, 16)


def test_merges_that_stay() -> None:
    def graph(shape: tuple[int, ...], perm: tuple[int, ...], shared: bool = False) -> Graph:
        b = TosaBuilder(LIMITS)
        moved = b.transpose(b.input(TensorType(DType.INT8, shape), "x"), perm)
        rows = b.reshape(moved, (1, 1, TOKENS, moved.type.size // TOKENS))
        return b.finish([projection(b, rows, 40), *([moved] if shared else [])])

    for given in (
        graph((4, TOKENS, 8), (1, 0, 2)),  # narrow heads
        graph((32, TOKENS), (1, 0)),  # not heads
        graph((16, TOKENS, 2), (1, 2, 0)),  # the inner axis moves
        graph((2, TOKENS, 16), (1, 0, 2), shared=True),
    ):
        assert run(given, merge_heads) == names(given)


@pytest.mark.parametrize("chip", ["ethos-u55-128", "ethos-u85-256"])
def test_vela_counts_fewer_cycles(chip: str) -> None:
    pytest.importorskip("ethosu.regor")
    from npuc import Target
    from npuc.serialize.tosa_flatbuffer import serialize
    from npuc.targets.vela import compile_vela

    limits = Target.named(chip).limits
    b = TosaBuilder(limits)
    x = projection(b, tokens(b, (1, 1, 196, 64)), 128)
    other, zero = b.input(TensorType(DType.INT8, (2, 64, 64)), "y"), b.scalar(0, DType.INT8, 1)
    y = b.rescale(
        b.MATMUL(heads_of(b, x, 2), other, zero, zero, dtype=DType.INT32), 0.01, DType.INT8
    )
    y = projection(b, b.reshape(b.transpose(y, (1, 0, 2)), (1, 1, 196, 128)), 64, seed=2)
    graph = b.finish([y])
    cycles = [
        compile_vela(serialize(g, (1, 0)), chip).perf["total_cycles"]
        for g in (graph, split_heads(graph, limits), merge_heads(graph, limits))
    ]
    assert max(cycles[1:]) < cycles[0]
