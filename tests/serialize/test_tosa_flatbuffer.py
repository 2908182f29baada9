"""TOSA files: what is in them, what other tools make of them, and what is refused."""

from __future__ import annotations

import subprocess
import time
from typing import Any

import numpy as np
import pytest

from npuc.errors import NpucError
from npuc.execute.reference_model import run_reference_model
from npuc.execute.tosa import evaluate
from npuc.ir import Blob, Builder, DType, Graph, Loc, SymDim, TensorType, Value
from npuc.serialize.read_flatbuffer import read_flatbuffer
from npuc.serialize.tosa_flatbuffer import serialize
from npuc.serialize.tosa_format import tosa_schema
from npuc.targets.vela import compile_vela
from tests.execute.control_flow import accumulator, branches, loop

INT8 = TensorType(DType.INT8, (1, 4, 4, 8))
CLAMP = {"min_val": -5, "max_val": 5, "nan_mode": "PROPAGATE"}


def contents(data: bytes) -> dict[str, Any]:
    return read_flatbuffer(tosa_schema(), data)


def block(data: bytes, index: int = 0) -> dict[str, Any]:
    return contents(data)["regions"][index]["blocks"][0]  # type: ignore[no-any-return]


def clamped(b: Builder, x: Value) -> Value:
    return b.emit("tosa.CLAMP", [x], CLAMP, [x.type])[0]


def outputs_graph(kind: str) -> Graph:
    b = Builder()
    x = b.input(INT8, "x")
    y = clamped(b, x)
    k = b.const(np.arange(128, dtype=np.int8).reshape(INT8.ints), name="k")
    return b.finish({"input": [y, x], "twice": [y, y], "constant": [k, y], "only input": [x]}[kind])


@pytest.mark.parametrize("kind", ["input", "twice", "constant", "only input"])
def test_every_output_has_its_own_operator(kind: str) -> None:
    graph = outputs_graph(kind)
    data = serialize(graph)
    x = np.random.default_rng(0).integers(-9, 9, INT8.ints).astype(np.int8)
    results = run_reference_model(data, [x])
    for got, want in zip(results, evaluate(graph, [x]), strict=True):
        np.testing.assert_array_equal(got, want)
    main = block(data)
    assert len(set(main["outputs"])) == len(graph.outputs)
    written = [name for op in main["operators"] if op["op"] != "CONST" for name in op["outputs"]]
    assert set(main["outputs"]) <= set(written)


@pytest.mark.parametrize("kind", ["input", "twice", "constant", "only input"])
def test_vela_takes_every_kind_of_output(kind: str) -> None:
    pytest.importorskip("ethosu.regor")
    result = compile_vela(serialize(outputs_graph(kind)), "ethos-u85-256")
    assert len(result.outputs) == len(outputs_graph(kind).outputs)
    assert len({(o.region, o.offset) for o in result.outputs}) == len(result.outputs)


def test_names_are_kept_and_unique() -> None:
    b = Builder()
    x = b.input(INT8, "x")
    y = b.input(INT8, "x")
    a, c = clamped(b, x), clamped(b, y)
    a.name = c.name = "features.0"
    d = clamped(b, a)
    main = block(serialize(b.finish([a, c, d])))
    assert main["inputs"] == ["x", "x_1"]
    assert main["outputs"] == ["features.0", "features.0_1", "clamp"]
    names = [t["name"] for t in main["tensors"]]
    assert len(set(names)) == len(names)


def test_constants_are_written_once() -> None:
    b = Builder()
    x = b.input(INT8)
    blob = Blob(np.arange(128, dtype=np.int8).reshape(INT8.ints))
    copies = [
        b.emit("const", (), {"value": blob, "reader": i}, (INT8,))[0] for i in range(3)
    ]  # three ops, one blob
    results = [b.emit("tosa.CONCAT", [x, k], {"axis": 0}, [INT8])[0] for k in copies]
    main = block(serialize(b.finish(results)))
    assert [op["op"] for op in main["operators"]] == ["CONST", "CONCAT", "CONCAT", "CONCAT"]
    assert len({op["inputs"][1] for op in main["operators"][1:]}) == 1


def test_constants_of_every_width() -> None:
    b = Builder()
    rng = np.random.default_rng(0)
    values = {
        DType.INT4: rng.integers(-7, 8, 5),
        DType.INT48: rng.integers(-(2**47), 2**47, 3),
        DType.BOOL: np.array([True, False, True]),
        DType.INT16: rng.integers(-(2**15), 2**15, 3),
        DType.BF16: rng.normal(size=3),
    }
    results = []
    for dtype, array in values.items():
        k = b.const(array.astype(dtype.numpy), dtype, name=dtype.name)
        results.append(b.emit("tosa.IDENTITY", [k], {}, [k.type])[0])
    tensors = {t["name"]: t for t in block(serialize(b.finish(results)))["tensors"]}
    ints = values[DType.INT4] & 15
    packed = [ints[0] | ints[1] << 4, ints[2] | ints[3] << 4, ints[4]]
    assert bytes(tensors["INT4"]["data"]) == bytes(packed)
    wide = b"".join(int(v).to_bytes(6, "little", signed=True) for v in values[DType.INT48])
    assert bytes(tensors["INT48"]["data"]) == wide
    assert bytes(tensors["BOOL"]["data"]) == b"\1\0\1"
    assert bytes(tensors["INT16"]["data"]) == values[DType.INT16].astype("<i2").tobytes()
    assert bytes(tensors["BF16"]["data"]) == values[DType.BF16].astype(DType.BF16.numpy).tobytes()
    assert {n: t["type"] for n, t in tensors.items() if n in DType.__members__} == {
        d.name: d.name for d in values
    }


def test_transposed_constants_are_written_in_their_own_order() -> None:
    b = Builder()
    x = b.input(TensorType(DType.INT32, (3, 2)))
    array = np.arange(6, dtype=np.int32).reshape(2, 3).T
    graph = b.finish(b.emit("tosa.ADD", [x, b.const(array)], {}, [x.type]))
    (result,) = run_reference_model(serialize(graph), [np.zeros((3, 2), np.int32)])
    np.testing.assert_array_equal(result, array)


def test_shapes_of_rank_zero_and_symbolic_sizes() -> None:
    b = Builder()
    n = SymDim("n", 1, 4)
    x = b.input(TensorType(DType.INT8, (n, 1)), "x")
    empty = b.const(np.zeros(0, np.int64), DType.SHAPE, name="empty")
    (y,) = b.emit("tosa.RESHAPE", [x, empty], {}, [TensorType(DType.INT8, ())])
    y.name = "y"
    main = block(serialize(b.finish([y]), (1, 1)))
    (shape,) = main["shapes"]
    assert (shape["name"], shape["rank"], bytes(shape["data"])) == ("empty", 0, b"")
    assert {t["name"]: t["shape"] for t in main["tensors"]} == {"x": [-1, 1], "y": []}
    assert [op["op"] for op in main["operators"]] == ["CONST_SHAPE", "RESHAPE"]


@pytest.mark.parametrize(("version", "draft"), [((1, 0), False), ((1, 1), True)])
def test_version(version: tuple[int, int], draft: bool) -> None:
    found = contents(serialize(outputs_graph("twice"), version))
    assert found["version"] == {
        "_major": version[0], "_minor": version[1], "_patch": 0, "_draft": draft
    }  # fmt: skip
    assert found["software_version"]["_major"] == 2026
    development = contents(serialize(outputs_graph("twice"), version, development=True))
    assert development["software_version"]["_major"] == 1026
    assert development["compatibility"] == found["compatibility"]


@pytest.mark.parametrize("version", [(1, 2), (2, 0)])
def test_version_that_is_too_new(version: tuple[int, int]) -> None:
    with pytest.raises(NpucError) as error:
        serialize(outputs_graph("twice"), version)
    text = f"TOSA {version[0]}.{version[1]}: the newest version that can be written is 1.1"
    assert str(error.value) == text


def test_locations() -> None:
    b = Builder()
    b.loc = Loc("/home/somebody/model.py", 41, "features.3")
    graph = b.finish([clamped(b, b.input(INT8))])
    (op,) = block(serialize(graph))["operators"]
    assert op["location"]["text"] == "model.py:41 (features.3)"
    (op,) = block(serialize(graph, locations=False))["operators"]
    assert op["location"]["text"] == ""


def test_regions_have_names_of_their_own() -> None:
    found = contents(serialize(branches()))
    names = [region["name"] for region in found["regions"]]
    assert names == ["main", "cond_if_then", "cond_if_else"]
    assert [r["blocks"][0]["name"] for r in found["regions"]] == names
    _, attributes = found["regions"][0]["blocks"][0]["operators"][0]["attribute"]
    assert attributes == {"then_graph": "cond_if_then", "else_graph": "cond_if_else"}
    tensors = [t["name"] for r in found["regions"] for t in r["blocks"][0]["tensors"]]
    assert len(set(tensors)) == len(tensors)
    names = [region["name"] for region in contents(serialize(loop()))["regions"]]
    assert names == ["main", "while_loop_cond", "while_loop_body"]


def test_constants_of_the_outer_graph_are_repeated_in_regions() -> None:
    b = Builder()
    flag, x = b.input(TensorType(DType.BOOL, ())), b.input(TensorType(DType.INT32, (2,)))
    k = b.const(np.array([5, 6], np.int32))
    inner = []
    for name in ("ADD", "SUB"):
        r = Builder()
        y = r.input(x.type)
        inner.append(r.finish(r.emit(f"tosa.{name}", [y, k], {}, [x.type])))
    graph = b.finish(b.emit("tosa.COND_IF", [flag, x], {}, [x.type], inner))
    for choice in (True, False):
        arrays = [np.array(choice), np.array([1, 2], np.int32)]
        (result,) = run_reference_model(serialize(graph), arrays)
        np.testing.assert_array_equal(result, evaluate(graph, arrays)[0])


def test_values_of_the_outer_graph_are_no_operands_of_regions() -> None:
    b = Builder()
    flag, x = b.input(TensorType(DType.BOOL, ())), b.input(INT8)
    r = Builder()
    r.input(INT8)
    inner = r.finish([clamped(r, x)])
    graph = b.finish(b.emit("tosa.COND_IF", [flag, x], {}, [INT8], (inner, inner)))
    with pytest.raises(NpucError, match=r"tosa\.CLAMP.*which its region does not define"):
        serialize(graph)


def test_variables_are_tensors_with_a_mark() -> None:
    main = block(serialize(accumulator()))
    (variable,) = [t for t in main["tensors"] if t["variable"]]
    assert variable["variable_name"] == "total"
    assert np.frombuffer(variable["data"], np.float32).tolist() == [1, 2, 3, 4]
    read, _, write = main["operators"]
    assert (read["op"], read["inputs"]) == ("VARIABLE_READ", [variable["name"]])
    assert (write["op"], write["outputs"]) == ("VARIABLE_WRITE", [variable["name"]])


def test_the_same_graph_gives_the_same_bytes() -> None:
    assert len({serialize(loop()) for _ in range(5)}) == 1


@pytest.mark.parametrize(
    ("kind", "attrs", "reason"),
    [
        ("aten.relu", {}, "aten.relu: it is not an operator of the TOSA file format"),
        ("tosa.NONSENSE", {}, "tosa.NONSENSE: it is not an operator of the TOSA file format"),
        ("tosa.CLAMP", {"min_val": 1, "max_val": 2}, "tosa.CLAMP: attribute nan_mode is missing"),
        ("tosa.CAST", {"input_unsigned": True}, "tosa.CAST: the file format has no unsigned CAST"),
    ],
)
def test_what_cannot_be_written(kind: str, attrs: dict[str, Any], reason: str) -> None:
    b = Builder()
    graph = b.finish(b.emit(kind, [b.input(INT8)], attrs, [INT8]))
    with pytest.raises(NpucError) as error:
        serialize(graph)
    assert str(error.value) == reason.replace(":", " at <unknown>:", 1)


def test_int4_has_no_minus_eight() -> None:
    b = Builder()
    k = b.const(np.array([7, -8], np.int8), DType.INT4, name="w")
    graph = b.finish(b.emit("tosa.IDENTITY", [k], {}, [k.type]))
    with pytest.raises(NpucError, match=r"its constant w holds -8; INT4 of TOSA is -7\.\.7"):
        serialize(graph)


def test_types_without_a_place_in_the_format() -> None:
    b = Builder()
    graph = b.finish([b.input(TensorType(DType.FP64, (2,)), "x")])
    with pytest.raises(NpucError, match="value 'x': the TOSA file format has no type FP64"):
        serialize(graph)


def test_time_is_linear_in_the_number_of_ops() -> None:
    def seconds(ops: int) -> float:
        b = Builder()
        x = y = b.input(TensorType(DType.INT32, (4,)))
        for _ in range(ops):
            (y,) = b.emit("tosa.ADD", [y, x], {}, [x.type])
        graph, best = b.finish([y]), 1e9
        for _ in range(3):
            start = time.process_time()
            serialize(graph)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(8000) / seconds(1000) < 24


def test_the_model_converter_takes_the_file(tmp_path: Any) -> None:
    tool = pytest.importorskip("model_converter")
    binary = next(iter(tool.__path__)) + "/binaries/bin/model-converter"
    (tmp_path / "a.tosa").write_bytes(serialize(outputs_graph("input")))
    done = subprocess.run(
        [binary, "-i", tmp_path / "a.tosa", "-o", tmp_path / "a.vgf"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.vgf").stat().st_size > 0
