"""How a function of one tensor becomes a rule: a TABLE when quantized, else a formula of floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from npuc.errors import Unsupported
from npuc.ir import DType, TensorType, Value
from npuc.lowering.aten_to_tosa.formula import Term, in_fp32
from npuc.lowering.aten_to_tosa.table import Function, tabulate
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

Formula = Callable[..., Term]
#: (builder, operand, result type, further arguments) -> result, or None to make a table
Exact = Callable[..., "Value | None"]

#: kind -> formula of floats and of integers (None: there is none); other dialects use them too
FORMULAS: dict[str, tuple[Formula, Formula | None]] = {}


def unary(
    *kinds: str, native: bool = False, integer: Formula | None = None, exact: Exact | None = None
) -> Callable[[Formula], Formula]:
    """Register the rule of a function that a formula of floats describes.

    The formula gets the operand as a Term and the op's further arguments. It is computed in FP32,
    or with `native` in the operand's own type. `integer` is the formula for integers, `exact` an
    integer form for quantized values that is better than a table.
    """

    def register(formula: Formula) -> Formula:
        FORMULAS.update(dict.fromkeys(kinds, (formula, integer)))

        @lowers(*kinds)
        def rule(b: TosaBuilder, x: Value, *args: Any, **kwargs: Any) -> Value:
            out = b.out[0]
            if out.quant is not None:
                return quantized(b, x, out, exact, args, kwargs)
            b.require(x.type.quant is None, "the operand is quantized but the result is not")
            if not x.type.dtype.is_float:
                b.require(integer is not None, f"no form for {x.type.dtype.name} operands")
                assert integer is not None
                return in_int32(b, lambda t: integer(t, *args, **kwargs), x)
            if native:
                return formula(Term(b, x), *args, **kwargs).value
            return in_fp32(b, lambda t: formula(t, *args, **kwargs), x)

        rule.__doc__ = formula.__doc__
        return formula

    return register


def quantized(
    b: TosaBuilder, x: Value, out: TensorType, exact: Exact | None, args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Value:  # fmt: skip
    """The op of `b` on quantized `x`: its exact integer form if there is one, else a table."""
    found = exact(b, x, out, *args, **kwargs) if exact is not None else None
    if found is not None:
        return found
    return tabulate(b, x, torch_function(b, x, (x, *args), kwargs), out)


def torch_function(
    b: TosaBuilder, x: Value, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Function:
    """PyTorch's op of `b` as a function of real values for `x`; other tensors are constants."""
    import torch

    assert b.op is not None
    call = getattr(torch.ops.aten, b.op.name.partition(".")[0])

    def function(real: np.ndarray) -> np.ndarray:
        given = torch.from_numpy(np.ascontiguousarray(real))
        filled = [_torch_argument(a, x, given) for a in args]
        return call(*filled, **kwargs).to(torch.float64).numpy()  # type: ignore[no-any-return]

    return function


def _torch_argument(argument: Any, x: Value, given: Any) -> Any:
    import torch

    if argument is x:
        return given
    if isinstance(argument, Value):
        return torch.tensor(float(real_constant(argument).reshape(())), dtype=torch.float64)
    return argument


def real_constant(value: Value) -> np.ndarray:
    """The real values of a constant, in float64."""
    if value.type.quant is not None:
        return value.type.quant.dequantize(value.array)
    return value.array.astype(np.float64)


def in_int32(b: TosaBuilder, formula: Callable[..., Term], *values: Value) -> Value:
    """`formula` of integers, computed in INT32; the result is of the op's type."""
    terms = [Term(b, v).cast(DType.INT32) for v in values]
    return narrowed(formula(*terms), b.out[0].dtype)


def narrowed(x: Term, dtype: DType) -> Value:
    """An INT32 or float term as another type; integers wrap, as PyTorch's do.

    Ethos-U55 has no CAST to fewer bits: there the value is shifted up and down again.
    """
    try:
        return x.cast(dtype).value
    except Unsupported:
        if x.dtype is not DType.INT32 or not dtype.is_integer:
            raise
    bits = x.like(32 - dtype.bits).value
    high = x.b.LOGICAL_LEFT_SHIFT(x.value, bits)
    return x.b.rescale(x.b.ARITHMETIC_RIGHT_SHIFT(high, bits, round=True), 1.0, dtype)
