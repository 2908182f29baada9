"""Flatbuffer bytes to plain dictionaries, by schema. Every offset is checked against the file."""

from __future__ import annotations

import struct
from typing import Any

from npuc.errors import BadInput
from npuc.serialize.flatbuffer_schema import Field, Schema

#: tables nested deeper than this are an attack or damage, not a model
MAX_DEPTH = 64


def read_flatbuffer(schema: Schema, data: bytes) -> dict[str, Any]:
    """The root table: every field of the schema that is present, or its default when it is a
    number; enums by name (a number when the schema does not know it), unions as (type, dictionary),
    vectors of bytes as memoryviews, other vectors as lists. Absent strings, tables and vectors are
    left out.

    Raises BadInput when the bytes are not such a file or are damaged.
    """
    what = f"not a {schema.identifier.decode() or schema.root} file"
    if len(data) < 8 or data[4:8] != schema.identifier:
        raise BadInput(what, why=f"{len(data)} bytes, identifier {bytes(data[4:8])!r}")
    try:
        return _Reader(schema, data).table(schema.root, _u32(data, 0))
    except (struct.error, IndexError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise BadInput(f"{what}: it is damaged", why=str(error)) from None


def _u32(data: Any, at: int) -> int:
    return struct.unpack_from("<I", data, at)[0]  # type: ignore[no-any-return]


class _Reader:
    def __init__(self, schema: Schema, data: bytes) -> None:
        self.schema = schema
        self.data = memoryview(data)
        self.depth = 0
        # each table or vector is visited by its parents only; a file that repeats them without
        # end would take exponential time
        self.budget = len(data)

    def table(self, name: str, at: int) -> dict[str, Any]:
        self.depth += 1
        self.budget -= 1
        if self.depth > MAX_DEPTH or self.budget < 0:
            raise ValueError("tables are nested without end")
        vtable = at - struct.unpack_from("<i", self.data, at)[0]
        if vtable < 0:
            raise ValueError(f"the table at byte {at} points outside the file")
        count = struct.unpack_from("<H", self.data, vtable)[0] // 2 - 2
        places = struct.unpack_from(f"<{max(count, 0)}H", self.data, vtable + 4)
        found = {}
        for f in self.schema.tables[name]:
            place = places[f.slot] if f.slot < count else 0
            if place:
                found[f.name] = self.value(f, at + place, places, at)
            elif f.kind in ("scalar", "enum"):
                found[f.name] = self.number(f, f.default)
        self.depth -= 1
        return found

    def value(self, f: Field, at: int, places: tuple[int, ...], start: int) -> Any:
        if f.kind in ("scalar", "enum"):
            return self.number(f, self.schema.struct(f.type).unpack_from(self.data, at)[0])
        target = at + _u32(self.data, at)
        if f.kind == "string":
            return self.string(target)
        if f.kind == "table":
            return self.table(f.type, target)
        if f.kind == "union":
            tag = self.data[start + places[f.slot - 1]] if places[f.slot - 1] else 0
            if not 1 <= tag <= len(self.schema.unions[f.type]):
                raise ValueError(f"{f.name} has unknown type {tag}")
            member = self.schema.unions[f.type][tag - 1]
            return member, self.table(member, target)
        return self.vector(f, target)

    def number(self, f: Field, value: Any) -> Any:
        if f.kind == "enum" or f.element == "enum":
            return _names(self.schema, f.type).get(value, value)
        return bool(value) if f.type == "bool" else value

    def string(self, at: int) -> str:
        length = _u32(self.data, at)
        return str(self.slice(at + 4, length), "utf-8")

    def slice(self, at: int, length: int) -> memoryview:
        if at + length > len(self.data):
            raise ValueError(f"{length} bytes at {at} exceed the file")
        return self.data[at : at + length]

    def vector(self, f: Field, at: int) -> Any:
        count = _u32(self.data, at)
        if f.element in ("scalar", "enum"):
            code, size = self.schema.scalar(f.type)
            data = self.slice(at + 4, count * size)
            if f.type in ("ubyte", "uint8"):
                return data
            return [self.number(f, v) for v in struct.unpack(f"<{count}{code}", data)]
        self.slice(at + 4, 4 * count)
        self.budget -= count
        places = [p + _u32(self.data, p) for p in range(at + 4, at + 4 + 4 * count, 4)]
        if f.element == "string":
            return [self.string(p) for p in places]
        return [self.table(f.type, p) for p in places]


def _names(schema: Schema, enum: str) -> dict[int, str]:
    return {number: name for name, number in schema.enums[enum].items()}
