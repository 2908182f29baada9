"""Operators of the user's own that pass through as TOSA CUSTOM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npuc.errors import BadInput
from npuc.execute.custom_payload import CustomPayload
from npuc.ir import DType, Op, Operand, TensorType, Value
from npuc.lowering.registry import add_custom_rule, remove_custom_rule

#: what `implementation_attrs` may be: bytes, or a function of the op's arguments that makes them
Attrs = bytes | Callable[..., bytes]


@dataclass(frozen=True)
class CustomOp:
    """A registration: see `register_custom_op`."""

    kind: str
    operator_name: str
    domain_name: str
    implementation_attrs: Attrs = b""
    reference: Callable[..., Any] | None = None
    quantized: bool = False


#: kind -> its registration
CUSTOM_OPS: dict[str, CustomOp] = {}


def register_custom_op(
    name: str,
    *,
    operator_name: str,
    domain_name: str,
    implementation_attrs: Attrs = b"",
    reference: Callable[..., Any] | None = None,
    quantized: bool = False,
) -> None:
    """Let an op of PyTorch pass through to the TOSA file as a CUSTOM operator.

    name: the op as "mylib.op" or "mylib::op" (with ".overload" if it is not the default one).
    operator_name, domain_name: how the target's runtime finds its implementation.
    implementation_attrs: the payload for it; or a function of the op's arguments, tensors replaced
        by their `TensorType`s (dtype, shape, quant), that returns it.
    reference: computes the op in the self-check and in `Compilation.run`: takes and returns what
        the op does in PyTorch. Default: the op itself.
    quantized: the operator takes and gives int8 tensors where the model is quantized (their scales
        are in the TensorTypes). Otherwise it is always given floats.

    A later registration of the same name replaces an earlier one. Raises BadInput for a malformed
    name.
    """
    kind = _kind(name)
    CUSTOM_OPS[kind] = CustomOp(
        kind, operator_name, domain_name, implementation_attrs, reference, quantized
    )
    add_custom_rule(kind, _lower)


def unregister_custom_op(name: str) -> None:
    """Forget a registration; nothing happens where there is none."""
    kind = _kind(name)
    CUSTOM_OPS.pop(kind, None)
    remove_custom_rule(kind)


def is_quantized_custom(kind: str) -> bool:
    """Whether a custom op of this kind takes quantized tensors."""
    return kind in CUSTOM_OPS and CUSTOM_OPS[kind].quantized


def _kind(name: str) -> str:
    parts = name.replace("::", ".").split(".")
    if len(parts) not in (2, 3) or not all(parts):
        raise BadInput(f"custom op {name!r}", hint='the form is "mylib.op" or "mylib.op.overload"')
    return ".".join(parts[:2] if parts[2:] == ["default"] else parts)


def _lower(b: Any, *args: Any, **kwargs: Any) -> tuple[Value, ...]:
    """custom op -> CUSTOM; one that takes floats between a dequantize and a quantize."""
    from npuc.lowering.aten_to_tosa.quantize import dequantized, quantized_floats

    custom, out = CUSTOM_OPS[b.op.kind], b.out
    operands = list(_values((args, kwargs)))
    types = list(out)
    if not custom.quantized:
        operands = [dequantized(b, v) if v.type.quant else v for v in operands]
        types = [TensorType(DType.FP32, t.shape) if t.quant else t for t in types]
    floats = [t for t in (*(v.type for v in operands), *types) if t.dtype.is_float]
    name = f"{custom.domain_name}.{custom.operator_name}"
    b.require(
        not floats or b.limits.floats,
        f"{name} takes or gives floats, and {b.limits.name} has integers only",
        "register it with quantized=True if its implementation takes int8",
    )
    attrs = {
        "operator_name": custom.operator_name,
        "domain_name": custom.domain_name,
        "implementation_attrs": _payload(custom, b.op, [v.type for v in operands], types),
    }
    results = b.emit("tosa.CUSTOM", operands, attrs, types)
    return tuple([
        quantized_floats(b, v, t) if t != v.type else v
        for v, t in zip(results, out, strict=True)
    ])  # fmt: skip


def _values(arguments: Any) -> Any:
    if isinstance(arguments, Value):
        yield arguments
    elif isinstance(arguments, dict):
        yield from _values(tuple(arguments.values()))
    elif isinstance(arguments, (tuple, list)):
        for argument in arguments:
            yield from _values(argument)


def _payload(
    custom: CustomOp, op: Op, types: Sequence[TensorType], out: Sequence[TensorType]
) -> CustomPayload:
    given = custom.implementation_attrs
    if callable(given):
        args, kwargs = _filled(op, types)
        given = given(*args, **kwargs)
    if not isinstance(given, (bytes, bytearray)):
        raise BadInput(
            f"implementation_attrs of {custom.kind} is a {type(given).__name__}",
            hint="bytes are needed",
        )
    payload = CustomPayload(given)

    def reference(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return _compute(custom, op, types, out, arrays)

    payload.reference = reference
    return payload


def _filled(op: Op, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The op's arguments with `values` in place of its operands."""

    def fill(argument: Any) -> Any:
        if isinstance(argument, Operand):
            return values[argument.index]
        if isinstance(argument, tuple):
            return [fill(a) for a in argument]
        return argument

    args, kwargs = op.attrs["args"], op.attrs["kwargs"]
    return [fill(a) for a in args], {k: fill(v) for k, v in kwargs.items()}


def _compute(
    custom: CustomOp, op: Op, types: Sequence[TensorType], out: Sequence[TensorType],
    arrays: Sequence[np.ndarray],
) -> list[np.ndarray]:  # fmt: skip
    """The results of the op in PyTorch on what the operands' codes mean, quantized."""
    import torch

    function = custom.reference or _torch_op(custom.kind)
    tensors = []
    for array, type, value in zip(arrays, types, op.operands, strict=True):
        real = type.quant.dequantize(array).astype(np.float32) if type.quant else array
        tensor = torch.from_numpy(np.ascontiguousarray(real))
        tensors.append(tensor.long() if value.type.dtype is DType.INT64 else tensor)
    args, kwargs = _filled(op, tensors)
    with torch.no_grad():
        results = function(*args, **kwargs)
    found = []
    results = results if isinstance(results, (tuple, list)) else (results,)
    for result, type in zip(results, out, strict=True):
        array = result.detach().cpu().numpy()
        found.append((type.quant.quantize(array) if type.quant else array).astype(type.dtype.numpy))
    return found


def _torch_op(kind: str) -> Any:
    import torch

    namespace, name, *overload = kind.split(".")
    packet = getattr(getattr(torch.ops, namespace), name)
    return getattr(packet, overload[0] if overload else "default")
