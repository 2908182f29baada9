"""Call targets of exported graphs: which ATen op they are, and which one does the same."""

from __future__ import annotations

from typing import Any

import torch


def aten_op(target: Any) -> Any:
    """An FX call target; for ExecuTorch's edge ops the ATen op that they wrap."""
    if type(target).__name__ == "EdgeOpOverload":
        return target._op
    return target


def with_same_arguments(target: Any) -> Any:
    """The functional overload with the arguments of an in-place op, whatever its name; or None."""
    namespace, _, name = target._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    wanted = [str(a.type) for a in target._schema.arguments]
    for overload in packet.overloads() if packet is not None else ():
        candidate = getattr(packet, overload)
        if [str(a.type) for a in candidate._schema.arguments] == wanted:
            return candidate
    return None


def without_dim_order(kind: str, target: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """ATen's op for ExecuTorch's op with a dim order (strides do not matter here)."""
    kwargs = {k: v for k, v in kwargs.items() if k != "dim_order"}
    ops = {
        "dim_order_ops._to_dim_order": torch.ops.aten._to_copy.default,
        "dim_order_ops._to_dim_order_copy": torch.ops.aten._to_copy.default,
        "dim_order_ops._empty_dim_order": torch.ops.aten.empty.memory_format,
        "dim_order_ops._clone_dim_order": torch.ops.aten.clone.default,
    }
    return ops.get(kind, target), kwargs


def compares(target: Any) -> bool:
    """Whether an op's result is BOOL whatever its operands are."""
    name = target._schema.name.removeprefix("aten::")
    return name in ("eq", "ne", "gt", "ge", "lt", "le") or name.startswith("logical_")
