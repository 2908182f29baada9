"""The flatbuffer writer and reader: against each other, the official reader, and damage."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from npuc.errors import BadInput
from npuc.serialize.flatbuffer_schema import parse_schema
from npuc.serialize.read_flatbuffer import read_flatbuffer
from npuc.serialize.tosa_format import tosa_schema
from npuc.serialize.write_flatbuffer import write_flatbuffer

SCHEMA = parse_schema(
    """
    // a comment
    namespace test;
    file_identifier "TEST";
    enum Color : ubyte { Red = 1, Green, Blue = 7, }
    union Shape { Circle, Square }
    table Circle { radius: double; }
    table Square { side: int = 3; name: string; }
    table Part {
      id: ulong;
      flag: bool = true;
      color: Color = Green;
      shape: Shape;
      shorts: [short];
      longs: [long];
      data: [ubyte] (force_align: 16);
      names: [string];
      colors: [Color];
      ratio: float = 0.5;
    }
    table Root { parts: [Part]; first: Part; name: string; empty: Circle; }
    root_type Root;
    """
)


def plain(value: Any) -> Any:
    """Without memoryviews and tuples, so that values compare."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return bytes(value) if isinstance(value, memoryview) else value


PART = {
    "id": 2**63, "flag": False, "color": "Blue", "shape": ("Circle", {"radius": 0.1}),
    "shorts": [1, -2, 3], "longs": [-(2**60)], "data": b"abcde", "names": ["x", "", "\u00e4", "x"],
    "colors": [1, 7], "ratio": 0.25,
}  # fmt: skip


def test_what_is_written_is_read() -> None:
    root = {"parts": [PART, {}, PART], "first": PART, "name": "root", "empty": {}}
    found = plain(read_flatbuffer(SCHEMA, write_flatbuffer(SCHEMA, root)))
    part = plain(PART | {"colors": ["Red", "Blue"]})
    defaults = {"id": 0, "flag": True, "color": "Green", "ratio": 0.5}
    assert found["parts"] == [part, defaults, part]
    assert found["first"] == part
    assert found["name"] == "root"
    assert found["empty"] == {"radius": 0}


def test_fields_that_are_none_are_absent_and_empty_vectors_are_not() -> None:
    root = {"parts": [], "first": None, "name": None}
    assert read_flatbuffer(SCHEMA, write_flatbuffer(SCHEMA, root)) == {"parts": []}


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000])
def test_data_is_aligned_in_the_file(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    part = {"data": data, "longs": [1, 2], "names": ["a" * size]}
    written = write_flatbuffer(SCHEMA, {"parts": [part, part], "name": "n" * size})
    assert len(written) % 16 == 0
    (first, second) = read_flatbuffer(SCHEMA, written)["parts"]
    assert bytes(first["data"]) == bytes(second["data"]) == data.tobytes()
    if size >= 15:
        assert written.index(data.tobytes()) % 16 == 0


def test_numpy_arrays_are_written_as_their_bytes() -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4).T
    written = write_flatbuffer(SCHEMA, {"first": {"data": array}})
    assert bytes(read_flatbuffer(SCHEMA, written)["first"]["data"]) == array.tobytes()


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(KeyError):
        write_flatbuffer(SCHEMA, {"nonsense": 1})


def test_the_official_reader_agrees() -> None:
    graph_class = pytest.importorskip("tosa.TosaGraph").TosaGraph
    operators = [
        {
            "op": "ARGMAX",
            "attribute": ("ArgMaxAttribute", {"axis": 3, "nan_mode": "IGNORE"}),
            "inputs": ["x"],
            "outputs": ["y"],
        }
    ]
    tensors = [{"name": "x", "shape": [2, 3], "type": "INT8", "data": b"\1\2"}]
    block = {"name": "main", "operators": operators, "tensors": tensors, "inputs": ["x"]}
    root = {"version": {"_major": 1, "_minor": 0}, "regions": [{"name": "r", "blocks": [block]}]}
    written = write_flatbuffer(tosa_schema(), root)
    graph = graph_class.GetRootAs(written, 0)
    assert (graph.Version()._Major(), graph.Version()._Draft()) == (1, True)
    read = graph.Regions(0).Blocks(0)
    assert read.Inputs(0) == b"x"
    assert read.Tensors(0).ShapeAsNumpy().tolist() == [2, 3]
    assert read.Tensors(0).DataAsNumpy().tolist() == [1, 2]
    attribute = pytest.importorskip("tosa.ArgMaxAttribute").ArgMaxAttribute()
    attribute.Init(read.Operators(0).Attribute().Bytes, read.Operators(0).Attribute().Pos)
    assert (attribute.Axis(), attribute.NanMode()) == (3, 2)


def test_damaged_files_are_bad_input_and_nothing_else() -> None:
    whole = write_flatbuffer(SCHEMA, {"parts": [PART] * 5, "first": PART, "name": "root"})
    random.seed(0)
    refused = 0
    for _ in range(3000):
        broken = bytearray(whole)
        for _ in range(random.randrange(1, 4)):
            broken[random.randrange(len(broken))] = random.randrange(256)
        if random.random() < 0.3:
            broken = broken[: random.randrange(len(broken))]
        try:
            read_flatbuffer(SCHEMA, bytes(broken))
        except BadInput:
            refused += 1
    assert refused > 500


@pytest.mark.parametrize("data", [b"", b"TEST", b"\0" * 64, b"\x10\0\0\0FALSE" + b"\0" * 40])
def test_other_files(data: bytes) -> None:
    with pytest.raises(BadInput, match="not a TEST file"):
        read_flatbuffer(SCHEMA, data)


def test_the_schema_is_the_one_of_tosa_tools() -> None:
    import sysconfig
    from pathlib import Path

    import npuc.serialize

    installed = Path(sysconfig.get_path("purelib")) / "bin" / "tosa.fbs"
    if not installed.exists():
        pytest.skip("tosa-tools is not installed")
    assert installed.read_text() == (Path(npuc.serialize.__path__[0]) / "tosa.fbs").read_text()
