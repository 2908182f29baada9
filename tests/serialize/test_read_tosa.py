"""Files back to graphs: the same bytes when written again, and a summary of what is inside."""

from __future__ import annotations

import random

import numpy as np
import pytest

from npuc.errors import BadInput, NpucError
from npuc.ir import Builder, DType, Graph, Loc, SymDim, TensorType
from npuc.serialize.read_flatbuffer import read_flatbuffer
from npuc.serialize.read_tosa import read_tosa, summarize_tosa
from npuc.serialize.tosa_flatbuffer import serialize
from npuc.serialize.tosa_format import tosa_schema
from npuc.serialize.write_flatbuffer import write_flatbuffer
from tests.execute.compare import graph_of
from tests.execute.control_flow import accumulator, branches, loop
from tests.execute.operator_samples import SAMPLES, modes
from tests.execute.test_tosa_blocks import MX, from_blocks, to_blocks


def assert_round_trip(graph: Graph) -> None:
    data = serialize(graph, (1, 1))
    again = read_tosa(data)
    assert serialize(again, (1, 1)) == data
    assert [v.type.dtype for v in again.outputs] == [v.type.dtype for v in graph.outputs]


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_operator_is_read_back(name: str) -> None:
    for index, types in enumerate(modes(name)):
        sample = SAMPLES[name](np.random.default_rng(index), types)
        graph, _ = graph_of(name, sample)
        assert_round_trip(graph)
        again = {op.kind: op for op in read_tosa(serialize(graph, (1, 1))).ops}
        (op,) = [op for op in graph.ops if op.name == name][:1]
        assert set(again[op.kind].attrs) == set(op.attrs)
        for key, value in op.attrs.items():
            if key not in ("min_val", "max_val"):
                assert again[op.kind].attrs[key] == value, key


@pytest.mark.parametrize(
    "graph", [branches(), loop(), accumulator(), accumulator(False)], ids=lambda g: g.ops[0].name
)
def test_regions_and_variables(graph: Graph) -> None:
    assert_round_trip(graph)
    read = read_tosa(serialize(graph))
    assert [op.kind for op in read.walk() if op.kind != "const"].count("tosa.ADD") == 1


@pytest.mark.parametrize("dtype", MX)
def test_block_scaled(dtype: DType) -> None:
    b = Builder()
    codes = np.arange(64, dtype=np.uint8).reshape(2, 32) & np.uint8(2**dtype.bits - 1)
    x = b.input(TensorType(DType.FP32, (4, 64)))
    k = b.const(codes.view(dtype.numpy), dtype, name="k")
    (copy,) = b.emit("tosa.IDENTITY", [k], {}, [k.type])
    graph = b.finish([from_blocks(b, *to_blocks(b, x, dtype)), copy])
    assert_round_trip(graph)
    constants = {
        o.result.name: o.result for o in read_tosa(serialize(graph)).ops if o.kind == "const"
    }
    assert constants["k"].array.tobytes() == codes.tobytes()


def test_constants_symbols_and_places() -> None:
    b = Builder()
    n = SymDim("n")
    x = b.input(TensorType(DType.INT48, (n, 3)), "x")
    b.loc = Loc("model.py", 41, "features.3")
    wide = np.array([[2**47 - 1, -(2**47), -1]])
    k = b.const(wide, DType.INT48, name="k")
    types = [TensorType(DType.INT48, (SymDim("m"), 3))]
    b.loc = Loc(name="just a name")
    graph = b.finish(b.emit("tosa.CONCAT", [x, k], {"axis": 0}, types))
    read = read_tosa(serialize(graph))
    assert [d if isinstance(d, int) else None for d in read.inputs[0].type.shape] == [None, 3]
    constant, concat = read.ops
    np.testing.assert_array_equal(constant.result.array, wide)
    assert constant.loc == Loc("model.py", 41, "features.3")
    assert concat.loc == Loc(name="just a name")


def test_int4_constants() -> None:
    b = Builder()
    values = np.array([[7, -7, 3], [-1, 0, 1], [2, -2, -3]], np.int8)
    k = b.const(values, DType.INT4)
    graph = b.finish(b.emit("tosa.IDENTITY", [k], {}, [k.type]))
    np.testing.assert_array_equal(read_tosa(serialize(graph)).ops[0].result.array, values)


def test_summary() -> None:
    summary = summarize_tosa(serialize(loop(), (1, 1)))
    assert summary.pop("bytes") > 500
    assert summary == {
        "version": "1.1.0 draft",
        "writer": "2026.8.0",
        "inputs": [
            {"name": "count", "dtype": "INT32", "shape": []},
            {"name": "x", "dtype": "INT32", "shape": [4]},
        ],
        "outputs": [
            {"name": "while_loop", "dtype": "INT32", "shape": []},
            {"name": "while_loop_1", "dtype": "INT32", "shape": [4]},
        ],
        "operators": {"WHILE_LOOP": 1, "GREATER": 1, "SUB": 1, "ADD": 1},
        "constants": {"count": 2, "elements": 2},
        "regions": ["main", "while_loop_cond", "while_loop_body"],
    }


def test_a_region_that_contains_itself_is_refused() -> None:
    root = read_flatbuffer(tosa_schema(), serialize(branches()))
    (operator,) = root["regions"][0]["blocks"][0]["operators"]
    operator["attribute"][1]["then_graph"] = "main"
    with pytest.raises(BadInput, match="region 'main' contains itself"):
        read_tosa(write_flatbuffer(tosa_schema(), root))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda b: b["tensors"].clear(), "tensor 'flag' is used but not defined"),
        (lambda b: b["operators"].clear(), "tensor 'cond_if' is read before it is written"),
        (lambda b: b["operators"][0].update(op="ADD"), "operator ADD has CondIfAttribute"),
        (
            lambda b: b["operators"][0]["attribute"][1].update(else_graph="gone"),
            "it has no region 'gone'",
        ),
    ],
)
def test_files_that_contradict_themselves(change: object, reason: str) -> None:
    root = read_flatbuffer(tosa_schema(), serialize(branches()))
    change(root["regions"][0]["blocks"][0])  # type: ignore[operator]
    with pytest.raises(BadInput, match=reason):
        read_tosa(write_flatbuffer(tosa_schema(), root))


def test_damage_is_bad_input_and_nothing_else() -> None:
    graph, _ = graph_of(
        "CONV2D", SAMPLES["CONV2D"](np.random.default_rng(0), next(modes("CONV2D")))
    )
    random.seed(1)
    outcomes = {True: 0, False: 0}
    for whole in (serialize(graph), serialize(loop()), serialize(accumulator())):
        for _ in range(500):
            broken = bytearray(whole)
            for _ in range(random.randrange(1, 5)):
                broken[random.randrange(len(broken))] = random.randrange(256)
            try:
                summarize_tosa(bytes(broken))
                outcomes[True] += 1
            except BadInput:
                outcomes[False] += 1
            except NpucError as error:  # a subclass is expected, and no traceback ever
                pytest.fail(f"{type(error)}: {error}")
    assert min(outcomes.values()) > 100
