"""Layouts: right values, the fewest bytes, and no transposition inside a convolutional network."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from npuc.execute.tosa import evaluate, evaluate_all
from npuc.ir import DType, Graph, SymDim, TensorType, apply_moves
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.assign_layout import assign_layout
from npuc.passes.count_waste import count_waste, moves_data
from npuc.passes.layout.behaviour import free_behaviour
from npuc.passes.layout.build_problem import build_problem, free_choice, reshape_choice
from npuc.passes.layout.problem import Choice, Problem
from npuc.passes.layout.views import Views, find_views
from npuc.passes.pipeline import run_passes
from npuc.passes.set_io_layout import set_io_layout
from npuc.targets.target import TOSA_PASSES
from tests.passes import networks
from tests.passes.random_graphs import LIMITS, check_same, random_arrays, random_graph

#: network -> transpositions that must remain: its image input, its image output
NETWORKS: dict[Callable[[], Graph], int] = {
    networks.resnet: 1, networks.unet: 2, networks.densenet: 1, networks.squeeze_excite: 1,
    networks.convnext: 2, networks.lenet: 0, networks.decoder: 1, networks.vision_transformer: 1,
    networks.conv1d: 2,
}  # fmt: skip


def close(before: Graph, after: Graph) -> None:
    """Float outputs agree but for the order of sums."""
    arrays = random_arrays(before)
    for a, b in zip(evaluate(before, arrays), evaluate(after, arrays), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def origins_agree(before: Graph, after: Graph) -> None:
    """What an origin names has the elements of the model's value, moved as it says."""
    arrays = random_arrays(before)
    old, new = evaluate_all(before, arrays), evaluate_all(after, arrays)
    for name, (value, moves) in after.origins.items():
        model, found = old[before.origins[name][0]], apply_moves(new[value], moves)
        assert found is not None
        np.testing.assert_allclose(found.reshape(-1), model.reshape(-1), rtol=1e-4, atol=1e-5)


def is_at_the_ends(graph: Graph) -> bool:
    """Whether every transposition reads an input or writes an output of the graph."""
    moving = [op for op in graph.ops if op.kind == "tosa.TRANSPOSE" and moves_data(op)]
    return all(op.operands[0].op is None or op.results[0] in graph.outputs for op in moving)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda f: f.__name__)
def test_network_transposes_at_its_ends_only(network: Callable[[], Graph]) -> None:
    before = network()
    after = assign_layout(before, LIMITS)
    close(before, after)
    origins_agree(before, after)
    assert count_waste(after)["transposes"] == NETWORKS[network]
    assert is_at_the_ends(after)
    lost = set(before.origins) - set(after.origins)
    assert len(lost) <= (network in (networks.lenet, networks.decoder))


@pytest.mark.parametrize("network", NETWORKS, ids=lambda f: f.__name__)
def test_network_with_channels_last_io(network: Callable[[], Graph]) -> None:
    """Images in the network's own layout: no transposition is left. 1-D networks keep theirs."""
    before = network()
    given = set_io_layout(before, "channels_last", LIMITS)
    after = run_passes(given, TOSA_PASSES, LIMITS)
    left = 0 if network is not networks.conv1d else 2
    assert count_waste(after)["transposes"] == left
    arrays = random_arrays(before)
    moved = [a.transpose(0, 2, 3, 1) if a.ndim == 4 else a for a in arrays]
    for a, b in zip(evaluate(before, arrays), evaluate(after, moved), strict=True):
        a = a.transpose(0, 2, 3, 1) if a.ndim == 4 else a
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def test_a_classifier_head_needs_no_copy() -> None:
    """pool -> flatten -> linear: nothing but one RESHAPE at most."""
    after = run_passes(networks.resnet(), TOSA_PASSES, LIMITS)
    waste = count_waste(after)
    assert waste["transposes"] == 1 and waste["reshape"] <= 2


def test_pixel_shuffle_keeps_its_own_transposition() -> None:
    before = networks.pixel_shuffle()
    after = assign_layout(before, LIMITS)
    close(before, after)
    assert count_waste(after)["transposes"] == 3  # input, output and the shuffle itself


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_compute_the_same(seed: int) -> None:
    before = random_graph(seed)
    after = assign_layout(before, LIMITS)
    check_same(before, after)
    # transpositions at the graph's ends are preferred up to an eighth of their bytes
    assert count_waste(after)["transposed_bytes"] <= count_waste(before)["transposed_bytes"] * 9 / 8


@pytest.mark.parametrize("seed", range(60, 80))
def test_random_graphs_through_all_passes(seed: int) -> None:
    # merging roundings changes results by a step, which later ops may enlarge: tested apart
    before, passes = random_graph(seed), [p for p in TOSA_PASSES if p != "merge_rescales"]
    check_same(before, run_passes(before, passes, LIMITS))


def every_choice(problem: Problem, views: Views) -> Iterator[list[Choice]]:
    """Per node all permutations of its axes, one for each effect."""
    for node in problem.nodes:
        free, groups = free_behaviour(node.op), views.groups.get(node.op)
        if free is not None:
            orders = itertools.permutations(range(node.op.operands[0].type.rank))
            found = [free_choice(node.op, free, views, order) for order in orders]
        else:
            assert groups is not None
            orders = itertools.permutations(range(len(groups)))
            found = [reshape_choice(node.op, groups, views, order, {}) for order in orders]
        yield list({choice.effect: choice for choice in found}.values())


@pytest.mark.parametrize("seed", range(150))
def test_no_layout_is_cheaper(seed: int) -> None:
    """Brute force over all permutations of all ops finds nothing better."""
    graph = random_graph(seed, ops=7)
    views = find_views(graph)
    problem = build_problem(graph, views, LIMITS, {})
    choices = list(every_choice(problem, views))
    if np.prod([float(len(c)) for c in choices]) > 4000:
        return
    best = min(problem.cost(state) for state in itertools.product(*choices))
    assert problem.cost(problem.solve()) == best


def test_ends_are_preferred_at_equal_cost() -> None:
    """input -> abs -> conv: the transposition could be on either side of abs."""
    net = networks.Net((1, 4, 8, 8))
    after = assign_layout(net.finish(net.conv(net.b.ABS(net.inputs[0]), 4)), LIMITS)
    assert is_at_the_ends(after)


def test_constants_are_permuted_as_views() -> None:
    net = networks.Net((1, 4, 8, 8))
    bias = net.weight(1, 4, 8, 8)
    y = net.b.ADD(net.conv(net.inputs[0], 4), bias)
    after = assign_layout(net.finish(net.conv(y, 4)), LIMITS)
    (add,) = [op for op in after.ops if op.kind == "tosa.ADD"]
    assert add.operands[1].array.base is not None
    assert add.operands[1].array.shape == (1, 8, 8, 4)
    assert np.shares_memory(add.operands[1].array, bias.array)


def test_per_channel_rescale_keeps_its_axis_last() -> None:
    b = TosaBuilder(LIMITS)
    x = b.input(TensorType(DType.INT8, (1, 2, 3, 4)))
    y = b.rescale(b.nchw(x), [0.5, 0.25, 0.125], DType.INT8)  # scales run along the model's width
    graph = b.finish([b.nhwc(y)])
    after = assign_layout(graph, LIMITS)
    check_same(graph, after)
    assert count_waste(after)["transposes"] == 2


def test_regions_are_assigned_too() -> None:
    b = TosaBuilder(LIMITS)
    condition = b.input(TensorType(DType.BOOL, ()))
    x = b.input(TensorType(DType.INT32, (2, 3, 4)))
    outer = b.TRANSPOSE(x, perms=(2, 1, 0))
    branches = []
    for name in ("ABS", "BITWISE_NOT"):
        inner = TosaBuilder(LIMITS)
        arg = inner.input(outer.type)
        there = inner.TRANSPOSE(arg, perms=(1, 0, 2))
        back = inner.TRANSPOSE(getattr(inner, name)(there), perms=(1, 0, 2))
        branches.append(inner.finish([inner.ADD(back, outer)]))  # reads a value from outside
    (y,) = b.emit("tosa.COND_IF", (condition, outer), {}, [outer.type], branches)
    graph = b.finish([y])
    after = assign_layout(graph, LIMITS)
    data = np.arange(24, dtype=np.int32).reshape(2, 3, 4) - 12
    for flag in (True, False):
        arrays = [np.array(flag), data]
        np.testing.assert_array_equal(evaluate(graph, arrays)[0], evaluate(after, arrays)[0])
    assert count_waste(after)["transposes"] == 1


def test_an_image_that_adds_its_own_transpose() -> None:
    """No layout makes both operands of x + x.T equal: exactly one transposition."""
    b = TosaBuilder(LIMITS)
    x = b.input(TensorType(DType.INT32, (5, 5)))
    y = b.ADD(b.ABS(x), b.TRANSPOSE(b.ABS(x), perms=(1, 0)))
    graph = b.finish([y])
    after = assign_layout(graph, LIMITS)
    check_same(graph, after)
    assert count_waste(after)["transposes"] == 1


def test_time_is_linear_in_ops() -> None:
    """Four times the blocks take about four times the CPU time, not sixteen."""
    graphs = {blocks: networks.resnet(blocks) for blocks in (64, 256)}

    def seconds(graph: Graph) -> float:
        start = time.process_time()
        run_passes(graph, TOSA_PASSES, LIMITS)
        return time.process_time() - start

    gc.disable()
    try:
        best = {n: min(seconds(graph) for _ in range(3)) for n, graph in graphs.items()}
    finally:
        gc.enable()
    assert best[256] < 8 * best[64], best


def test_a_symbolic_batch() -> None:
    """Sizes known at run time only: the same transpositions, and no RESHAPE."""
    b = TosaBuilder(LIMITS)
    x = b.input(TensorType(DType.INT32, (SymDim("n", 1, 8), 3, 4, 5)))
    y = b.nchw(b.ABS(b.nhwc(x)))
    y = b.ADD(y, b.REDUCE_SUM(y, axis=1))
    graph = b.finish([b.nhwc(y)])
    after = run_passes(graph, TOSA_PASSES, LIMITS)
    assert count_waste(after)["transposes"] == 1
    for n in (1, 3):
        data = np.arange(n * 60, dtype=np.int32).reshape(n, 3, 4, 5) - 50
        np.testing.assert_array_equal(evaluate(graph, [data])[0], evaluate(after, [data])[0])


def test_a_reshape_to_a_size_known_at_run_time_stays() -> None:
    limits = type(LIMITS)((1, 1), extensions=frozenset({"EXT-SHAPE", "EXT-DYNAMIC"}))
    b = TosaBuilder(limits)
    n = SymDim("n", 1, 8)
    x = b.input(TensorType(DType.INT32, (n, 3, 1, 1)))
    shape = b.CONCAT_SHAPE(b.DIM(x, axis=0), b.shape((3,)))
    y = b.RESHAPE(b.ABS(b.TRANSPOSE(x, perms=(0, 2, 3, 1))), shape, shape=(n, 3))
    graph = b.finish([y])
    after = run_passes(graph, TOSA_PASSES, limits)
    data = np.arange(15, dtype=np.int32).reshape(5, 3, 1, 1) - 7
    np.testing.assert_array_equal(evaluate(graph, [data])[0], evaluate(after, [data])[0])
