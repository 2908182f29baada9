"""Shapes: the same values, as few RESHAPEs as a brute-force search finds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from npuc.execute.tosa import evaluate
from npuc.ir import DType, TensorType
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.assign_shapes import assign_shapes, build_problem, find_roots
from npuc.passes.cancel_reshapes import cancel_reshapes
from npuc.passes.count_waste import count_waste
from tests.passes import networks
from tests.passes.random_graphs import LIMITS, check_same, random_graph


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_compute_the_same(seed: int) -> None:
    before = random_graph(seed)
    after = cancel_reshapes(assign_shapes(before, LIMITS), LIMITS)
    check_same(before, after)
    assert count_waste(after)["reshape"] <= count_waste(before)["reshape"]


@pytest.mark.parametrize("seed", range(60))
def test_no_choice_of_the_frames_is_cheaper(seed: int) -> None:
    graph = random_graph(seed, ops=6)
    problem = build_problem(graph, find_roots(graph), LIMITS)
    choices = [
        list({c.effect: c for c in (n.natural, *n.moves) if c is not None}.values())
        for n in problem.nodes
    ]
    if np.prod([float(len(c)) for c in choices]) > 3000:
        return
    best = min(problem.cost(state) for state in itertools.product(*choices))
    assert problem.cost(problem.solve()) == best


def test_a_residual_stream_runs_in_the_rank_of_its_linear_layers() -> None:
    net = networks.Net((1, 1, 6, 8))
    y = net.inputs[0]
    for _ in range(3):
        z = net.layer_norm(net.b.reshape(y, (1, 6, 8)))
        z = net.linear(net.relu(z), 8)
        y = net.b.reshape(net.b.ADD(net.b.reshape(y, (1, 6, 8)), z), (1, 1, 6, 8))
    before = net.finish(y)
    after = cancel_reshapes(assign_shapes(before, LIMITS), LIMITS)
    assert count_waste(before)["reshape"] >= 12
    assert count_waste(after)["reshape"] == 0
    data = np.random.default_rng(0).normal(size=(1, 1, 6, 8)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(before, [data])[0], evaluate(after, [data])[0])


def test_regions_that_read_values_from_outside() -> None:
    b = TosaBuilder(LIMITS)
    condition = b.input(TensorType(DType.BOOL, ()))
    x = b.input(TensorType(DType.INT32, (3, 4)))
    outer = b.ABS(b.RESHAPE(x, (3, 1, 4)))
    branches = []
    for name in ("ABS", "BITWISE_NOT"):
        inner = TosaBuilder(LIMITS)
        arg = inner.input(outer.type)
        flat = getattr(inner, name)(inner.RESHAPE(inner.SUB(arg, outer), (3, 4)))
        branches.append(inner.finish([inner.RESHAPE(flat, (3, 1, 4))]))
    (y,) = b.emit("tosa.COND_IF", (condition, outer), {}, [outer.type], branches)
    graph = b.finish([b.RESHAPE(y, (12,))])
    after = assign_shapes(graph, LIMITS)
    data = np.arange(12, dtype=np.int32).reshape(3, 4) - 6
    for flag in (True, False):
        arrays = [np.array(flag), data]
        np.testing.assert_array_equal(evaluate(graph, arrays)[0], evaluate(after, arrays)[0])
