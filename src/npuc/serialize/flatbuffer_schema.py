"""A flatbuffers schema (.fbs) as data, for the writer and the reader of this package."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

#: scalar type -> (struct format, size)
SCALARS = {
    "bool": ("?", 1),
    "byte": ("b", 1),
    "int8": ("b", 1),
    "ubyte": ("B", 1),
    "uint8": ("B", 1),
    "short": ("h", 2),
    "int16": ("h", 2),
    "ushort": ("H", 2),
    "uint16": ("H", 2),
    "int": ("i", 4),
    "int32": ("i", 4),
    "uint": ("I", 4),
    "uint32": ("I", 4),
    "float": ("f", 4),
    "float32": ("f", 4),
    "long": ("q", 8),
    "int64": ("q", 8),
    "ulong": ("Q", 8),
    "uint64": ("Q", 8),
    "double": ("d", 8),
    "float64": ("d", 8),
}


@dataclass(frozen=True)
class Field:
    """One field of a table.

    `kind` is "scalar", "enum", "string", "table", "union" or "vector"; for a vector `kind` of its
    elements is in `element`. `type` is the scalar, enum, table or union name. A union takes two
    slots: `slot - 1` holds its tag.
    """

    name: str
    kind: str
    type: str
    slot: int
    default: int | float = 0
    element: str = ""
    align: int = 1


@dataclass
class Schema:
    """Enums (name -> number), unions (table names, the first has tag 1), tables (fields)."""

    enums: dict[str, dict[str, int]] = field(default_factory=dict)
    storage: dict[str, str] = field(default_factory=dict)
    unions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tables: dict[str, tuple[Field, ...]] = field(default_factory=dict)
    root: str = ""
    identifier: bytes = b""

    def scalar(self, field_type: str) -> tuple[str, int]:
        """(struct format, size) of a scalar or of an enum's storage."""
        return SCALARS[self.storage.get(field_type, field_type)]

    def struct(self, field_type: str) -> struct.Struct:
        """The little-endian reader of one scalar of this type."""
        return struct.Struct("<" + self.scalar(field_type)[0])


def parse_schema(text: str) -> Schema:
    """Read the subset of the schema language that data formats use: enums, unions, tables."""
    text = re.sub(r"//[^\n]*", "", text)
    schema = Schema()
    for keyword, name, storage, body in re.findall(
        r"\b(enum|union|table)\s+(\w+)\s*(?::\s*(\w+)\s*)?\{([^}]*)\}", text
    ):
        if keyword == "enum":
            schema.enums[name] = _enum_values(body)
            schema.storage[name] = storage
        elif keyword == "union":
            schema.unions[name] = tuple(re.findall(r"\w+", body))
        else:
            schema.tables[name] = ()
    for name, body in re.findall(r"\btable\s+(\w+)\s*\{([^}]*)\}", text):
        schema.tables[name] = tuple(_fields(body, schema))
    schema.root = re.findall(r"root_type\s+(\w+)", text)[0]
    identifiers = re.findall(r'file_identifier\s+"(\w+)"', text)
    schema.identifier = identifiers[0].encode() if identifiers else b""
    return schema


def _enum_values(body: str) -> dict[str, int]:
    values: dict[str, int] = {}
    following = 0
    for name, number in re.findall(r"(\w+)\s*(?:=\s*(-?\d+))?\s*(?:,|$)", body.strip()):
        following = int(number) if number else following
        values[name] = following
        following += 1
    return values


def _fields(body: str, schema: Schema) -> list[Field]:
    found: list[Field] = []
    slot = 0
    for name, declared, default, attributes in re.findall(
        r"(\w+)\s*:\s*(\[?\w+\]?)\s*(?:=\s*([-\w.]+))?\s*(\([^)]*\))?\s*;", body
    ):
        element = declared.strip("[]")
        kind = _kind(element, schema)
        if kind == "union":
            slot += 1
        align = re.search(r"force_align\s*:\s*(\d+)", attributes)
        found.append(
            Field(
                name,
                "vector" if declared.startswith("[") else kind,
                element,
                slot,
                _default(default, element, schema),
                kind if declared.startswith("[") else "",
                int(align.group(1)) if align else 1,
            )
        )
        slot += 1
    return found


def _kind(type_name: str, schema: Schema) -> str:
    if type_name in SCALARS:
        return "scalar"
    if type_name in schema.enums:
        return "enum"
    if type_name in schema.unions:
        return "union"
    if type_name in schema.tables:
        return "table"
    if type_name == "string":
        return "string"
    raise ValueError(f"the schema uses {type_name!r} without defining it")


def _default(text: str, type_name: str, schema: Schema) -> int | float:
    if not text:
        return 0
    if text in ("true", "false"):
        return int(text == "true")
    if type_name in schema.enums and not text.lstrip("-").isdigit():
        return schema.enums[type_name][text]
    return float(text) if "." in text else int(text)
