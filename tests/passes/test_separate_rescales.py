"""Every reader of a widening RESCALE has its own."""

from __future__ import annotations

import numpy as np

from npuc.ir import DType, Quant, TensorType
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.separate_rescales import separate_rescales
from tests.lowering.harness import TOSA_INT, run, vela


def shared_graph():
    b = TosaBuilder(TOSA_INT)
    x = b.input(TensorType(DType.INT8, (1, 16, 32), Quant(0.1)), "x")
    wide = b.rescale(x, 1.0, DType.INT32)
    square = b.rescale(b.MUL(wide, wide, b.scalar(0, DType.INT8, 1)), 2.0**-7, DType.INT8)
    total = b.rescale(b.REDUCE_SUM(wide, axis=2), 2.0**-5, DType.INT8)
    return b.finish([square, total], origins={"wide": (wide, None), "x": (x, None)})


def test_one_rescale_per_reader_and_the_same_numbers() -> None:
    graph = shared_graph()
    separate = separate_rescales(graph, TOSA_INT)
    widening = [
        op for op in separate.ops if op.name == "RESCALE" and op.result.type.dtype is DType.INT32
    ]
    assert len(widening) == 3
    assert all(len(r) <= 1 for v, r in separate.readers().items() if v.op in widening)
    assert separate.origins["wide"][0].op in widening
    x = np.random.default_rng(0).integers(-128, 128, (1, 16, 32)).astype(np.int8)
    for a, b in zip(run(graph, [x]), run(separate, [x]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_vela_fuses_what_it_did_not() -> None:
    graph = shared_graph()
    separate = separate_rescales(graph, TOSA_INT)
    for target in ("ethos-u55-128", "ethos-u85-256"):
        before, after = (vela(g, target).perf["total_cycles"] for g in (graph, separate))
        assert after < 0.7 * before, (target, before, after)


def test_a_graph_without_shared_rescales_stays_as_it_is() -> None:
    b = TosaBuilder(TOSA_INT)
    x = b.input(TensorType(DType.INT8, (1, 4), Quant(0.1)), "x")
    graph = b.finish([b.rescale(x, 1.0, DType.INT32)])
    assert separate_rescales(graph, TOSA_INT).ops == graph.ops
