"""Element types of tensors, with the names of the TOSA specification."""

from __future__ import annotations

import enum
from typing import Any

import ml_dtypes
import numpy as np


class DType(enum.Enum):
    """An element type: bit width, storage type in numpy, and its MLIR spelling."""

    BOOL = ("i1", 1, np.bool_)
    INT4 = ("i4", 4, np.int8)
    INT8 = ("i8", 8, np.int8)
    UINT8 = ("ui8", 8, np.uint8)
    INT16 = ("i16", 16, np.int16)
    UINT16 = ("ui16", 16, np.uint16)
    INT32 = ("i32", 32, np.int32)
    INT48 = ("i48", 48, np.int64)
    INT64 = ("i64", 64, np.int64)
    FP8E4M3 = ("f8E4M3FN", 8, ml_dtypes.float8_e4m3fn)
    FP8E5M2 = ("f8E5M2", 8, ml_dtypes.float8_e5m2)
    FP8UE8M0 = ("f8E8M0FNU", 8, ml_dtypes.float8_e8m0fnu)
    FP6E2M3 = ("f6E2M3FN", 6, ml_dtypes.float6_e2m3fn)
    FP6E3M2 = ("f6E3M2FN", 6, ml_dtypes.float6_e3m2fn)
    FP4E2M1 = ("f4E2M1FN", 4, ml_dtypes.float4_e2m1fn)
    BF16 = ("bf16", 16, ml_dtypes.bfloat16)
    FP16 = ("f16", 16, np.float16)
    FP32 = ("f32", 32, np.float32)
    FP64 = ("f64", 64, np.float64)
    MXINT8 = ("!tosa.mxint8", 8, np.int8)
    SHAPE = ("shape", 64, np.int64)

    def __init__(self, mlir: str, bits: int, storage: type) -> None:
        self.mlir = mlir
        self.bits = bits
        self.numpy: np.dtype[Any] = np.dtype(storage)

    __hash__ = object.__hash__

    @property
    def is_float(self) -> bool:
        return self.mlir[0] in "fb"

    @property
    def is_integer(self) -> bool:
        return self.mlir[0] in "iu" and self is not DType.BOOL

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        if self.mlir[0] == "u":
            return 0, 2**self.bits - 1
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1

    @property
    def itemsize(self) -> float:
        """Bytes an element takes in a tensor of the artifact."""
        return max(self.bits, 8) / 8 if self is not DType.INT4 else 0.5

    @staticmethod
    def of(dtype: np.dtype | type) -> DType:
        """The element type that numpy stores as `dtype`; KeyError when there is none."""
        return _BY_NUMPY[np.dtype(dtype)]

    def __repr__(self) -> str:
        return self.name


_BY_NUMPY = {d.numpy: d for d in reversed(DType) if d not in (DType.INT4, DType.INT48, DType.SHAPE)}
