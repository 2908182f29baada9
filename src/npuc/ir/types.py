"""Tensor types: element type, shape with symbolic dimensions, and quantization parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from npuc.ir.dtype import DType
from npuc.ir.symbolic import Dim

Shape = tuple[Dim, ...]


class Quant:
    """Affine quantization: real = scale * (stored - zero_point), per tensor or along `axis`.

    scale: float64 vector, zero_point: int64 vector of the same size (1 when per tensor).
    qmin and qmax bound the stored values. Compared and hashed by value.
    """

    __slots__ = ("_key", "axis", "qmax", "qmin", "scale", "zero_point")

    def __init__(
        self,
        scale: npt.ArrayLike,
        zero_point: npt.ArrayLike = 0,
        axis: int | None = None,
        qmin: int = -128,
        qmax: int = 127,
    ) -> None:
        self.scale = np.atleast_1d(np.asarray(scale, dtype=np.float64))
        zeros = np.atleast_1d(np.asarray(zero_point, dtype=np.int64))
        self.zero_point = np.broadcast_to(zeros, self.scale.shape)
        self.axis = axis if self.scale.size > 1 else None
        self.qmin, self.qmax = int(qmin), int(qmax)
        self._key = (self.scale.tobytes(), self.zero_point.tobytes(), self.axis, qmin, qmax)

    @property
    def per_channel(self) -> bool:
        return self.axis is not None

    @property
    def s(self) -> float:
        """The scale of a per-tensor quantization."""
        return float(self.scale[0])

    @property
    def zp(self) -> int:
        """The zero point of a per-tensor quantization."""
        return int(self.zero_point[0])

    def _broadcast(self, vector: np.ndarray, rank: int) -> np.ndarray:
        if self.axis is None:
            return vector[0]
        shape = [1] * rank
        shape[self.axis] = -1
        return vector.reshape(shape)

    def dequantize(self, stored: np.ndarray) -> np.ndarray:
        """Stored integers to real values in float64."""
        rank = np.ndim(stored)
        zero = self._broadcast(self.zero_point, rank)
        return (np.asarray(stored, np.int64) - zero) * self._broadcast(self.scale, rank)

    def quantize(self, real: npt.ArrayLike) -> np.ndarray:
        """Real values to stored integers (int64): round half to even, then clip, as PyTorch does."""
        real = np.asarray(real, np.float64)
        scale = self._broadcast(self.scale, real.ndim)
        codes = np.rint(real / scale) + self._broadcast(self.zero_point, real.ndim)
        return np.clip(np.nan_to_num(codes), self.qmin, self.qmax).astype(np.int64)

    def transposed(self, perm: Sequence[int]) -> Quant:
        """The same parameters for a tensor transposed by `perm`."""
        if self.axis is None:
            return self
        axis = list(perm).index(self.axis)
        return Quant(self.scale, self.zero_point, axis, self.qmin, self.qmax)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quant) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        if self.axis is not None:
            return f"<{self.scale.size} scales on axis {self.axis}>"
        return f"<{self.s:.6g}:{self.zp}>"


@dataclass(frozen=True)
class TensorType:
    """Element type, shape and (for quantized values) the quantization parameters."""

    dtype: DType
    shape: Shape
    quant: Quant | None = None
    _hash: int = field(default=0, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "_hash", hash((self.dtype, self.shape, self.quant)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return all(isinstance(d, int) for d in self.shape)

    @property
    def ints(self) -> tuple[int, ...]:
        """The shape to compute with: symbolic sizes count as ints and refuse where a number is needed."""
        return self.shape  # type: ignore[return-value]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.ints)

    @property
    def nbytes(self) -> int:
        return math.ceil(self.size * self.dtype.itemsize)

    def with_(self, **changes: Any) -> TensorType:
        """This type with dtype, shape or quant replaced."""
        fields: dict[str, Any] = {"dtype": self.dtype, "shape": self.shape, "quant": self.quant}
        fields |= changes
        return TensorType(**fields)

    def transposed(self, perm: Sequence[int]) -> TensorType:
        """The type of TRANSPOSE by `perm` of a value of this type."""
        quant = self.quant.transposed(perm) if self.quant else None
        return TensorType(self.dtype, tuple(self.shape[p] for p in perm), quant)

    def __repr__(self) -> str:
        dims = "x".join([*(str(d) for d in self.shape), self.dtype.mlir])
        return dims + (repr(self.quant) if self.quant else "")
