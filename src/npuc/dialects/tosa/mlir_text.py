"""TOSA ops in the text that MLIR's TOSA dialect parses: what `print_mlir` writes for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npuc.ir import DType, Op, TensorType
from npuc.ir.print_mlir import PRINTERS, dense, mlir_type, quoted, scalar

if TYPE_CHECKING:
    from npuc.ir.print_mlir import Printer

#: attributes that are members of an enumeration of the dialect
ENUMERATIONS = {"nan_mode": "nan_mode", "rounding_mode": "rounding_mode", "mode": "resize_mode"}

#: attributes that are tensors of index
SHAPES = {"var_shape"}

#: attributes of our ops that the dialect does not have; none of them changes anything when False
UNKNOWN_WHEN_FALSE = {"input_unsigned": "CAST"}


def tosa_text(op: Op, operands: list[str], printer: Printer) -> str:
    """`"tosa.clamp"(%0) <{max_val = 7 : i8, ...}> : (tensor<4xi8>) -> tensor<4xi8>`."""
    if op.kind == "const":
        return constant_text(op, printer)
    attributes = []
    for name, value in sorted(op.attrs.items()):
        if UNKNOWN_WHEN_FALSE.get(name) == op.name and not value:
            continue
        if name == "name" and op.name == "VARIABLE":
            name = "sym_name"
        if value is not None:
            attributes.append(f"{name} = {attribute_text(name, value, op, printer)}")
    properties = f" <{{{', '.join(attributes)}}}>" if attributes else ""
    inputs = ", ".join(mlir_type(v.type) for v in op.operands)
    outputs = ", ".join(mlir_type(r.type) for r in op.results)
    result = outputs if len(op.results) == 1 else f"({outputs})"
    return f'"tosa.{op.name.lower()}"({", ".join(operands)}){properties} : ({inputs}) -> {result}'


def constant_text(op: Op, printer: Printer) -> str:
    """Shapes are whole; data above the printer's limit is a splat of its first element."""
    type = op.result.type
    is_shape = type.dtype is DType.SHAPE
    limit = type.size if is_shape else printer.max_elements
    data = dense(op.attrs["value"].array, type, limit)
    kind = "const_shape" if is_shape else "const"
    return f'"tosa.{kind}"() <{{values = {data}}}> : () -> {mlir_type(type)}'


def attribute_text(name: str, value: Any, op: Op, printer: Printer) -> str:
    """The value of an attribute as the dialect spells it."""
    if name in ENUMERATIONS:
        return f"#tosa.{ENUMERATIONS[name]}<{value}>"
    if name == "block_size":
        return f"#tosa.block_size<BLOCK_SIZE_{value}>"
    if name in ("min_val", "max_val"):
        dtype = op.operands[0].type.dtype
        return f"{scalar(value, dtype)} : {dtype.mlir}"
    if name == "perms":
        return f"array<i32: {', '.join(map(str, value))}>" if value else "array<i32>"
    if name in SHAPES:
        body = "[" + ", ".join(map(str, value)) + "]" if value else ""
        return f"dense<{body}> : tensor<{len(value)}xindex>"
    if name == "initial_value":
        stored = TensorType(op.attrs["type"], op.attrs["var_shape"])
        return dense(value.array, stored, printer.max_elements)
    if isinstance(value, (bytes, str)):
        return quoted(value)
    if type(value) is int:
        return f"{value} : i32"
    return printer.attribute(value, op)


PRINTERS["tosa"] = tosa_text
