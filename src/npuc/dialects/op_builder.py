"""What the builders of all dialects share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from npuc.ir import Builder, DType, Quant, TensorType, Value


class OpLimits(Protocol):
    """What a target takes."""

    def check(
        self, name: str, operands: Sequence[Value], attrs: Mapping[str, Any],
        results: Sequence[TensorType],
    ) -> None:  # fmt: skip
        """Raise Unsupported for an operator that the target does not take."""


class DialectBuilder(Builder):
    """A builder of operators of one dialect, whose kinds begin with `prefix`.

    Ops that are copied (`emit`) are checked too where `check_copies` says so; passes copy what
    was checked before.
    """

    prefix: ClassVar[str]
    limits: OpLimits

    def __init__(self, limits: OpLimits, check_copies: bool = False) -> None:
        super().__init__(verify=self._check if check_copies else None)
        self.limits = limits

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def _check(
        self, kind: str, operands: Sequence[Value], attrs: Mapping[str, Any],
        results: Sequence[TensorType],
    ) -> None:  # fmt: skip
        if kind.startswith(self.prefix):
            self.limits.check(kind.removeprefix(self.prefix), operands, attrs, results)

    def checked(
        self, name: str, operands: Sequence[Value], attrs: Mapping[str, Any],
        types: Sequence[TensorType],
    ) -> Any:  # fmt: skip
        """Emit operator `name`; a single result is returned bare, several as a tuple."""
        kind = self.prefix + name
        if self.verify is None:
            self._check(kind, operands, attrs, types)
        results = self.emit(kind, operands, attrs, types)
        return results[0] if len(results) == 1 else results

    def scalar(self, value: Any, dtype: DType, rank: int = 0, quant: Quant | None = None) -> Value:
        """A constant with one element, of `rank` dimensions of size 1."""
        return self.const(np.full((1,) * rank, value).astype(dtype.numpy), dtype, quant)

    def transpose(self, x: Value, perms: Sequence[int]) -> Value:
        """TRANSPOSE; of a constant at once, as a view."""
        perms = tuple(int(p) for p in perms)
        if perms == tuple(range(x.type.rank)):
            return x
        quant = x.type.quant.transposed(perms) if x.type.quant else None
        if x.is_const:
            return self.const(x.array.transpose(perms), x.type.dtype, quant)
        return self.TRANSPOSE(x, perms=perms, quant=quant)  # type: ignore[no-any-return]


def add_operators(cls: type[DialectBuilder], emit: str, names: Iterable[str]) -> None:
    """Give `cls` a method per operator, which calls its method `emit` with the operator's name.

    Methods of the class, not of one builder: a region's builder is a copy of its parent's.
    """
    for name in names:
        setattr(cls, name, _operator(emit, name))


def _operator(emit: str, name: str) -> Callable[..., Any]:
    def operator(self: DialectBuilder, *operands: Any, **attrs: Any) -> Any:
        return getattr(self, emit)(name, *operands, **attrs)

    operator.__name__ = name
    return operator
