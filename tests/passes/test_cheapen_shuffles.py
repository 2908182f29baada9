"""Channels in another order on Ethos-U85: a convolution by ones, the same bits."""

from __future__ import annotations

import pytest

from npuc import Target
from npuc.ir import DType, Graph, TensorType, Value
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.cheapen_shuffles import cheapen_shuffles
from tests.passes.random_graphs import LIMITS, check_same


def shuffled(b: TosaBuilder, x: Value, groups: int) -> Value:
    """ShuffleNet's order of the channels of [1, H, W, C]."""
    *image, channels = x.type.ints
    parts = b.reshape(x, (image[1] * image[2], groups, channels // groups))
    return b.reshape(b.transpose(parts, (0, 2, 1)), (*image, channels))


def image(b: TosaBuilder, channels: int, dtype: DType = DType.INT8) -> Value:
    return b.input(TensorType(dtype, (1, 6, 5, channels)), "x")


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops if op.kind.startswith("tosa.")]


@pytest.mark.parametrize("groups", [2, 4, 8])
def test_a_shuffle(groups: int) -> None:
    b = TosaBuilder(LIMITS)
    y = shuffled(b, image(b, 16), groups)
    before = b.finish([y], origins={"y": (y, None)})
    after = cheapen_shuffles(before, LIMITS)
    check_same(before, after)
    assert names(after).count("CONV2D") == 1 and "TRANSPOSE" not in names(after)


def test_halves_of_a_shuffle_are_two_convolutions() -> None:
    b = TosaBuilder(LIMITS)
    y = shuffled(b, image(b, 16), 2)
    halves = [b.SLICE(y, (0, 0, 0, k), (1, 6, 5, 8)) for k in (0, 8)]
    before = b.finish([b.CLAMP(half, min_val=-5, max_val=5) for half in halves])
    after = cheapen_shuffles(before, LIMITS)
    check_same(before, after)
    assert names(after).count("CONV2D") == 2 and "SLICE" not in names(after)


def test_what_stays() -> None:
    def positions(b: TosaBuilder) -> Value:
        return b.transpose(image(b, 16), (0, 2, 1, 3))

    def halves(b: TosaBuilder) -> Value:
        return b.SLICE(image(b, 16), (0, 0, 0, 8), (1, 6, 5, 8))

    def planes(b: TosaBuilder) -> Value:
        return b.transpose(image(b, 16), (0, 3, 1, 2))

    def many(b: TosaBuilder) -> Value:
        return shuffled(b, image(b, 128), 2)

    def wide(b: TosaBuilder) -> Value:
        return shuffled(b, image(b, 16, DType.INT16), 2)

    def part_of_the_image(b: TosaBuilder) -> Value:
        return shuffled(b, b.SLICE(image(b, 16), (0, 1, 0, 0), (1, 5, 5, 16)), 2)

    for make in (positions, halves, planes, many, wide):
        b = TosaBuilder(LIMITS)
        graph = b.finish([make(b)])
        assert names(cheapen_shuffles(graph, LIMITS)) == names(graph), make.__name__
    b = TosaBuilder(LIMITS)
    graph = b.finish([part_of_the_image(b)])
    check_same(graph, cheapen_shuffles(graph, LIMITS))


def test_vela_counts_fewer_cycles() -> None:
    pytest.importorskip("ethosu.regor")
    from npuc.serialize.tosa_flatbuffer import serialize
    from npuc.targets.vela import compile_vela

    chip = "ethos-u85-256"
    limits = Target.named(chip).limits
    b = TosaBuilder(limits)
    x = b.input(TensorType(DType.INT8, (1, 32, 32, 32)), "x")
    made = b.rescale(b.ADD(b.to_int32(x), b.to_int32(x)), 0.5, DType.INT8)
    graph = b.finish([b.CLAMP(shuffled(b, made, 2), min_val=-9, max_val=9)])
    cycles = [
        compile_vela(serialize(g, (1, 0)), chip).perf["total_cycles"]
        for g in (graph, cheapen_shuffles(graph, limits))
    ]
    assert cycles[1] < cycles[0]
