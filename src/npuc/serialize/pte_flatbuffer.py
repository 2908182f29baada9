"""ExecuTorch programs (.pte): a flatbuffer with an extended header, then data segments.

The header lies between the flatbuffer's identifier and its tables: "eh00", its length, the size
of the flatbuffer, the offset of the first segment, the size of all segments. Segments start at
multiples of SEGMENT_ALIGNMENT. Written here because `executorch.exir` takes seconds to import.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from npuc.errors import BadInput, NpucError
from npuc.serialize.flatbuffer_schema import Schema, parse_schema
from npuc.serialize.read_flatbuffer import read_flatbuffer
from npuc.serialize.write_flatbuffer import write_flatbuffer

SEGMENT_ALIGNMENT = 128
#: tensors in memory and in constant segments start at multiples of this
TENSOR_ALIGNMENT = 16

_HEADER = struct.Struct("<4sIQQQ")
_MAGIC = b"eh00"


@cache
def pte_schema() -> Schema:
    """The schema of .pte files, as far as npuc uses it."""
    return parse_schema((Path(__file__).parent / "pte.fbs").read_text())


def write_pte(
    plans: Sequence[Mapping[str, Any]],
    delegates: Sequence[bytes],
    constants: Sequence[bytes] = (),
    initial: Sequence[bytes] = (),
) -> bytes:
    """The bytes of a program.

    plans: one `ExecutionPlan` per method, as dictionaries of the schema. delegates: the data that
    a `BackendDelegate` refers to as `{"location": "SEGMENT", "index": i}`, i counted here (the
    place in the file is filled in). constants and initial: data of constant tensors and initial
    values of mutable ones; `data_buffer_idx` counts each from 1.
    """
    segments: list[bytes] = []
    root: dict[str, Any] = {"version": 0, "constant_buffer": []}
    root["constant_segment"] = _subsegments(segments, constants, TENSOR_ALIGNMENT)
    if initial:
        root["mutable_data_segments"] = [_subsegments(segments, initial, 1)]
    first = len(segments)
    places: dict[bytes, int] = {}
    where = []
    for data in delegates:
        if data not in places:
            places[data] = first + len(places)
            segments.append(data)
        where.append(places[data])
    root["execution_plan"] = [_with_segments(plan, where) for plan in plans]
    root["backend_delegate_data"] = []
    root["segments"], body = _lay_out(segments)
    try:
        return _with_header(write_flatbuffer(pte_schema(), root), body)
    except OverflowError as error:
        raise NpucError("the .pte file is too large", why=str(error)) from None


def read_pte(data: bytes) -> dict[str, Any]:
    """The program as dictionaries of the schema; `segments` are memoryviews of their data.

    Raises BadInput for bytes that are no .pte file.
    """
    header = _HEADER.unpack_from(data, 8) if len(data) >= 8 + _HEADER.size else (b"",)
    if header[0] != _MAGIC:
        return read_flatbuffer(pte_schema(), data)
    size, base = header[2], header[3]
    if size > len(data) or base > len(data):
        raise BadInput("the .pte file is cut off", why=f"{len(data)} bytes")
    program = read_flatbuffer(pte_schema(), data[:size])
    view, found = memoryview(data), []
    for index, segment in enumerate(program.get("segments", ())):
        start = base + segment["offset"]
        if start + segment["size"] > len(data):
            raise BadInput("the .pte file is cut off", why=f"inside of segment {index}")
        found.append(view[start : start + segment["size"]])
    program["segments"] = found
    return program


def kernels_of(program: Mapping[str, Any]) -> list[str]:
    """Names of the kernels that a program calls: what the device's runtime has to register."""
    return sorted(
        {
            operator["name"] + ("." + operator["overload"] if operator.get("overload") else "")
            for plan in program["execution_plan"]
            for operator in plan.get("operators", ())
        }
    )


def delegates_of(program: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """(backend id, data) of each delegate of all methods."""
    found = []
    for plan in program["execution_plan"]:
        for delegate in plan.get("delegates", ()):
            at = delegate["processed"]
            inline = program.get("backend_delegate_data", ())
            stored = at["location"] == "SEGMENT"
            data = program["segments"][at["index"]] if stored else inline[at["index"]]["data"]
            found.append((delegate["id"], bytes(data)))
    return found


def _subsegments(segments: list[bytes], parts: Sequence[bytes], align: int) -> dict[str, Any]:
    """Add a segment with `parts`; entry 0 stands for tensors that have no data."""
    offsets, size, pieces = [0], 0, []
    for index, part in enumerate(parts):
        offsets.append(size)
        padding = -len(part) % align if index < len(parts) - 1 else 0
        pieces += [part, bytes(padding)]
        size += len(part) + padding
    segments.append(b"".join(pieces))
    return {"segment_index": len(segments) - 1, "offsets": offsets}


def _with_segments(plan: Mapping[str, Any], where: Sequence[int]) -> dict[str, Any]:
    delegates = [
        {**d, "processed": {"location": "SEGMENT", "index": where[d["processed"]["index"]]}}
        for d in plan["delegates"]
    ]
    return {**plan, "delegates": delegates}


def _lay_out(segments: Sequence[bytes]) -> tuple[list[dict[str, int]], bytes]:
    table, pieces, offset = [], [], 0
    for data in segments:
        padding = -offset % SEGMENT_ALIGNMENT
        pieces += [bytes(padding), data]
        offset += padding
        table.append({"offset": offset, "size": len(data)})
        offset += len(data)
    return table, b"".join(pieces)


def _with_header(flatbuffer: bytes, body: bytes) -> bytes:
    size = len(flatbuffer) + _HEADER.size  # 32: a multiple of every alignment of the schema
    base = size + -size % SEGMENT_ALIGNMENT
    header = _HEADER.pack(_MAGIC, _HEADER.size, size, base if body else 0, len(body))
    root = struct.unpack_from("<I", flatbuffer)[0] + _HEADER.size
    head = struct.pack("<I", root) + flatbuffer[4:8] + header
    return b"".join((head, flatbuffer[8:], bytes(base - size), body))
