"""What the TOSA file format fixes: its schema, and how elements lie in bytes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from npuc.ir import DType
from npuc.serialize.flatbuffer_schema import Schema, parse_schema

#: newest specification version that the schema of this folder can express, and whether a draft
NEWEST = (1, 1)
DRAFTS = {(1, 1)}

#: version of Arm's serialization library that `tosa.fbs` comes from: readers older than this
#: refuse the file (`DEVELOPMENT` in place of the year makes them try)
LIBRARY = (2026, 8, 0)
DEVELOPMENT = 1026

#: attributes that the file spells differently than the specification
RESIZE_MODES = {"NEAREST_NEIGHBOR": "NEAREST", "BILINEAR": "BILINEAR"}

#: element types without a type of their own in the file: the bits of the signed one
STORED_AS = {DType.UINT8: DType.INT8, DType.UINT16: DType.INT16}


@cache
def tosa_schema() -> Schema:
    """The schema of TOSA files (`tosa.fbs`, as tosa-tools ships it)."""
    return parse_schema((Path(__file__).parent / "tosa.fbs").read_text())


def attribute_table(op_name: str) -> str:
    """The schema's name of the attribute table of an operator: CONV2D -> Conv2dAttribute."""
    schema = tosa_schema()
    return schema.unions["Attribute"][schema.enums["Op"][op_name] - 1]


def operator_of(table: str) -> str:
    """The operator of an attribute table: Conv2dAttribute -> CONV2D."""
    schema = tosa_schema()
    number = schema.unions["Attribute"].index(table) + 1
    return next(name for name, n in schema.enums["Op"].items() if n == number)


def element_bytes(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The elements as they lie in a file: contiguous, little-endian.

    INT4 and FP4 take 4 bits (first element in the low bits), FP6 take 6, INT48 takes 6 bytes.
    """
    if dtype is DType.INT48:
        wide = np.ascontiguousarray(array, "<i8").reshape(-1, 1)
        return np.ascontiguousarray(wide.view(np.uint8)[:, :6]).reshape(-1)
    if dtype.bits in (4, 6):
        return _pack(array.astype(array.dtype, copy=False).reshape(-1).view(np.uint8), dtype.bits)
    return np.ascontiguousarray(array)


def elements(data: np.ndarray, dtype: DType, count: int) -> np.ndarray:
    """`count` elements from their bytes in a file, in the storage dtype. ValueError if too few."""
    needed = -(-count * dtype.bits // 8) if dtype is not DType.BOOL else count
    if data.size < needed:
        raise ValueError(f"{count} elements of {dtype.name} need {needed} bytes, not {data.size}")
    data = data[:needed]
    if dtype is DType.INT48:
        wide = np.zeros((count, 8), np.uint8)
        wide[:, 2:] = data.reshape(count, 6)
        return wide.view("<i8").reshape(-1) >> 16
    if dtype is DType.INT4:
        return (_unpack(data, 4, count) << 4).view(np.int8) >> 4
    if dtype.bits in (4, 6):
        return _unpack(data, dtype.bits, count).view(dtype.numpy)
    return np.frombuffer(data.tobytes(), dtype.numpy)


def _pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """The low `bits` of each byte, one after the other from the lowest bit on."""
    return np.packbits(np.unpackbits(codes[:, None], axis=1, count=bits, bitorder="little"),
                       bitorder="little")  # fmt: skip


def _unpack(data: np.ndarray, bits: int, count: int) -> np.ndarray:
    spread = np.unpackbits(data, bitorder="little", count=count * bits).reshape(count, bits)
    return np.packbits(spread, axis=1, bitorder="little").reshape(-1)
