"""Evaluate FX nodes whose operands are all constants, once, with PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

from npuc.ir import SymDim

_NAMESPACES = ("aten", "prims", "quantized_decomposed", "torchao", "export")
_DEQUANTIZE = (
    "quantized_decomposed.dequantize_per_tensor",
    "quantized_decomposed.dequantize_per_channel",
    "torchao.dequantize_affine",
)

#: a result larger than this is only folded when it is not much larger than its operands
GROWTH_BYTES = 4 * 2**20
GROWTH_FACTOR = 4

#: like-factories: op -> position of the fill value, or the value itself
_LIKE: dict[str, int | float] = {"aten.full_like": 1, "aten.new_full": 2}
_LIKE_VALUE = {
    "aten.zeros_like": 0,
    "aten.new_zeros": 0,
    "aten.ones_like": 1,
    "aten.new_ones": 1,
    "aten.empty_like": 0,
    "aten.new_empty": 0,
}

#: ops without tensor operands
_FACTORIES = (
    "aten.full aten.zeros aten.ones aten.empty.memory_format aten.arange aten.arange.start "
    "aten.arange.start_step aten.eye aten.eye.m aten.linspace aten.logspace aten.scalar_tensor "
    "aten.tril_indices aten.triu_indices aten.hann_window aten.hamming_window "
    "aten.hann_window.periodic aten.hamming_window.periodic aten.kaiser_window"
)
_SIZES = (
    "aten.sym_size aten.sym_size.int aten.sym_numel aten.sym_stride aten.sym_stride.int "
    "aten.sym_storage_offset aten.item aten._local_scalar_dense"
)
#: ops that the import replaces by their results: they need no rule and no expansion
EVALUATED = frozenset([*_FACTORIES.split(), *_SIZES.split(), *_LIKE, *_LIKE_VALUE])

_FULL = {"aten.full": None, "aten.zeros": 0, "aten.ones": 1, "aten.empty.memory_format": 0}


def is_dequantize(kind: str) -> bool:
    """Whether an op turns a quantized tensor, per tensor or per channel, into floats."""
    return kind.startswith(_DEQUANTIZE) and "group" not in kind


def _has_quantized_type(kind: str, args: Any) -> bool:
    """Whether the operand of a dequantize stays a quantized constant. One in blocks does not."""
    if not is_dequantize(kind):
        return False
    if kind != "torchao.dequantize_affine":
        return True
    split = [b for b, size in zip(args[1], args[0].shape, strict=True) if b not in (size, -1)]
    return split in ([], [1])


@cache
def is_pure(target: Any) -> bool:
    """Whether an op always gives the same result for the same operands."""
    tags = torch.Tag
    return not (
        target._schema.is_mutable
        or tags.nondeterministic_seeded in target.tags
        or getattr(target, "namespace", "aten") not in _NAMESPACES
    )


def evaluate(kind: str, target: Any, args: Any, kwargs: Any) -> Any:
    """The results of an op whose operands are tensors and numbers; None: leave it as an op.

    A dequantize stays an op: its operand is a quantized constant. So do random ops, results
    whose size is symbolic, and those that are large and much larger than their operands (an
    expansion that the target can do as well).
    """
    if _has_quantized_type(kind, args) or not is_pure(target):
        return None
    if _has(SymDim, args) or _has(SymDim, kwargs):
        return None
    if kind in _FULL:
        return _full(kind, args, kwargs)
    kwargs = {k: ("cpu" if k == "device" and v is not None else v) for k, v in kwargs.items()}
    try:
        with torch.no_grad():
            results = target(*args, **kwargs)
    except (NotImplementedError, RuntimeError):
        return None  # PyTorch has no kernel for this element type here (float8, some of float16)
    given = sum(t.untyped_storage().nbytes() for t in _tensors([*args, *kwargs.values()]))
    made = sum(t.untyped_storage().nbytes() for t in _tensors([results]))
    if made > GROWTH_BYTES and made > GROWTH_FACTOR * given and given:
        return None
    return results


def evaluate_like(kind: str, args: Any, value: Any) -> torch.Tensor | None:
    """The result of full_like, zeros_like, ...: it depends on the operand's shape only.

    `value` is the fake result. None when the op is another one or the shape is symbolic.
    """
    if kind in _LIKE_VALUE:
        fill: Any = _LIKE_VALUE[kind]
    elif kind in _LIKE:
        fill = args[int(_LIKE[kind])]
    else:
        return None
    if not all(isinstance(d, int) for d in value.shape) or _has(SymDim, [fill]):
        return None
    if isinstance(fill, torch.Tensor):
        fill = fill.item()
    return torch.full((), fill, dtype=value.dtype).expand(tuple(value.shape))


def _full(kind: str, args: Any, kwargs: Any) -> torch.Tensor:
    """A filled tensor as a view of one element."""
    fill = _FULL[kind] if _FULL[kind] is not None else args[1]
    dtype = kwargs.get("dtype")
    if dtype is None and kind != "aten.full":
        dtype = torch.get_default_dtype()
    return torch.full((), fill, dtype=dtype).expand(tuple(args[0]))


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)


def _has(kind: type, values: Any) -> bool:
    if isinstance(values, dict):
        values = values.values()
    return any(
        isinstance(v, kind) or (isinstance(v, (tuple, list)) and _has(kind, v)) for v in values
    )
