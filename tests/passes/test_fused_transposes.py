"""TRANSPOSEs that Ethos-U85 does while it writes a convolution's result stay where they are."""

from __future__ import annotations

import numpy as np
import pytest

from npuc import Target
from npuc.execute.tosa import evaluate
from npuc.ir import DType, Graph, TensorType, Value
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.pipeline import run_passes

CHANNELS_FIRST = (0, 3, 1, 2)


def network(
    channels: int, table: bool, batch: int = 1, shared: bool = False, flat: bool = False
) -> Graph:
    """A 3x3 convolution, perhaps a TABLE, and the result channels first."""
    b = TosaBuilder(Target.named("ethos-u85-256").limits)
    x = b.input(TensorType(DType.INT8, (batch, 16, 24, 8)), "x")
    kernel = np.random.default_rng(0).integers(-127, 128, (channels, 3, 3, 8)).astype(np.int8)
    bias, zero = b.const(np.zeros(channels, np.int32)), b.scalar(0, DType.INT8, 1)
    acc = b.CONV2D(x, b.const(kernel), bias, zero, zero, pad=(1, 1, 1, 1), acc_type=DType.INT32)
    y: Value = b.rescale(acc, 0.003, DType.INT8)
    if table:
        y = b.TABLE(y, b.const(np.arange(-128, 128)[::-1].astype(np.int8)))
    if flat:
        first = b.TRANSPOSE(b.reshape(y, (batch, 16 * 24, channels)), perms=(0, 2, 1))
    else:
        first = b.TRANSPOSE(y, perms=CHANNELS_FIRST)
    return b.finish([first, y] if shared else [first])


def after(graph: Graph, chip: str = "ethos-u85-256") -> Graph:
    new = run_passes(graph, ("cheapen_transposes", "split_transposes"), Target.named(chip).limits)
    codes = np.random.default_rng(1).integers(-128, 128, graph.inputs[0].type.ints)
    for a, c in zip(*(evaluate(g, [codes.astype(np.int8)]) for g in (graph, new)), strict=True):
        np.testing.assert_array_equal(a, c)
    return new


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops if op.kind.startswith("tosa.")]


@pytest.mark.parametrize("table", [False, True])
def test_stays_behind_a_convolution(table: bool) -> None:
    graph = network(16, table)
    assert names(after(graph)) == names(graph)


def test_a_table_of_few_channels_comes_last() -> None:
    graph = network(4, True)
    assert names(after(graph))[-2:] == ["TRANSPOSE", "TABLE"]
    assert names(after(network(8, True)))[-2:] == ["TABLE", "TRANSPOSE"]


def test_is_cheapened_where_it_is_not_fused() -> None:
    for graph in (network(16, False, batch=2), network(16, True, shared=True)):
        assert "RESHAPE" in names(after(graph))
    assert "RESHAPE" in names(after(network(16, False), "ethos-u55-128"))
    assert names(after(network(16, False, flat=True))) == [
        "CONV2D", "RESCALE", "RESHAPE", "TRANSPOSE"
    ]  # the convolution knows nothing of the flat shape  # fmt: skip


@pytest.mark.parametrize("channels, table", [(16, True), (4, True), (4, False)])
def test_vela_counts_fewer_cycles(channels: int, table: bool) -> None:
    pytest.importorskip("ethosu.regor")
    from npuc.serialize.tosa_flatbuffer import serialize
    from npuc.targets.vela import compile_vela

    def cycles(graph: Graph) -> int:
        result = compile_vela(serialize(graph, (1, 0)), "ethos-u85-256")
        return int(result.perf["total_cycles"])

    graph = network(channels, table)
    merged = after(graph, "ethos-u55-128")
    assert cycles(after(graph)) < 0.75 * cycles(merged)
