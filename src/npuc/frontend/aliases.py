"""Views of tensors while in-place ops are made functional: who shares memory with whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.fx import Graph, Node

from npuc.frontend.symbolic import hint_of

_RESHAPES = frozenset(
    f"aten.{name}"
    for name in [
        "view",
        "reshape",
        "_unsafe_view",
        "flatten.using_ints",
        "unflatten.int",
        "squeeze",
        "squeeze.dim",
        "squeeze.dims",
        "unsqueeze",
        "view_as",
        "ravel",
        "reshape_as",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
    ]
)
_SELF_INVERSE = frozenset(
    f"aten.{name}"
    for name in ["transpose.int", "t", "mT", "numpy_T", "swapaxes", "swapdims", "adjoint"]
)
_SPLITS = ("split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split", "unsafe_chunk")
_CONVERSIONS = ("aten.to.", "aten.type_as")


@dataclass(frozen=True)
class View:
    """How a view follows from its base, and how a write to it changes the base."""

    replay: Callable[[Graph, Node], Node]
    scatter: Callable[[Graph, Node, Node], Node | None]
    result: Node


class Cell:
    """A tensor variable of the exported program: `node` holds its present value.

    A view knows its `base`; it is computed again when the base was written since.
    """

    __slots__ = ("base", "constant", "node", "seen", "version", "view")

    def __init__(
        self, node: Node, base: Cell | None = None, view: View | None = None,
        constant: str | None = None,
    ) -> None:  # fmt: skip
        self.node = node
        self.base = base
        self.view = view
        self.constant = constant
        self.version = 0
        self.seen = base.version if base is not None else 0

    def refresh(self, graph: Graph) -> Node:
        """The node with the present value, replayed from the base if that changed."""
        if self.base is None:
            return self.node
        source = self.base.refresh(graph)
        if self.seen != self.base.version:
            self.seen = self.base.version
            self.version += 1
            if self.view is not None:
                self.node = self.view.replay(graph, source)
        return self.node

    def write(self, graph: Graph, node: Node) -> bool:
        """Set the value, and with it the base's; False when a view cannot be written through."""
        self.node = node
        self.version += 1
        if self.base is None or self.view is None:
            return True
        source = self.base.refresh(graph)
        written = self.view.scatter(graph, source, node)
        if written is None or not self.base.write(graph, written):
            return False
        self.seen = self.base.version
        return True

    def pieces(self, index: int) -> tuple[Cell, View] | None:
        """For a list of views (split, unbind): base and view of the one at `index`."""
        if self.base is None or self.view is None:
            return None
        value = self.node.meta.get("val")
        if not isinstance(value, (tuple, list)):
            return None
        piece = _piece(self.node, value, index)
        return None if piece is None else (self.base, piece)


@cache
def may_share(target: Any) -> bool:
    """Whether a result of an op may share memory with its first operand."""
    return any(r.alias_info is not None for r in target._schema.returns)


def view_of(node: Node, kind: str, target: Any, args: Any, kwargs: Any) -> View | None:
    """The view that an op makes of its first operand; None when it is a copy."""
    source, result = args[0].node.meta.get("val"), node.meta.get("val")
    if isinstance(result, torch.Tensor) and not _shares(kind, source, result, args, kwargs):
        return None
    rest, kwargs = _nodes(args[1:]), _nodes(kwargs)

    def replay(graph: Graph, base: Node) -> Node:
        made = graph.call_function(target, (base, *rest), kwargs)
        made.meta = dict(node.meta)
        return made

    def scatter(graph: Graph, base: Node, new: Node) -> Node | None:
        call = _inverse(kind, base, new, rest, kwargs)
        if call is None:
            return None
        made = graph.call_function(*call)
        made.meta = dict(new.meta, val=base.meta["val"])
        return made

    return View(replay, scatter, node)


def _nodes(value: Any) -> Any:
    """An argument with the present nodes of its cells (sizes, shapes to follow)."""
    if isinstance(value, Cell):
        return value.node
    if isinstance(value, (tuple, list)):
        return tuple(_nodes(v) for v in value)
    return {k: _nodes(v) for k, v in value.items()} if isinstance(value, dict) else value


def _shares(kind: str, source: Any, result: torch.Tensor, args: Any, kwargs: Any) -> bool:
    """Whether reshape, contiguous and conversions return a view here (they may copy)."""
    if not isinstance(source, torch.Tensor):
        return True
    if kind.startswith(_CONVERSIONS):
        copies = kwargs.get("copy") or (kind == "aten.to.dtype" and len(args) > 3 and args[3])
        return source.dtype == result.dtype and not copies
    if kind in ("aten.reshape", "aten.flatten.using_ints", "aten.reshape_as", "aten.ravel"):
        like = torch.empty_strided(_ints(source.shape), _ints(source.stride()), device="meta")
        try:
            like.view(_ints(result.shape))
        except RuntimeError:
            return False
    return True


def _ints(sizes: Any) -> list[int]:
    return [hint_of(s) for s in sizes]


def _inverse(
    kind: str, base: Node, new: Node, rest: Any, kwargs: Any
) -> tuple[Any, tuple[Any, ...]] | None:
    """The call that puts the new value of a view back into its base."""
    aten = torch.ops.aten
    if kind in _RESHAPES:
        return aten.reshape.default, (new, list(base.meta["val"].shape))
    if kind in _SELF_INVERSE:
        target = {
            "aten.transpose.int": aten.transpose.int,
            "aten.swapaxes": aten.transpose.int,
            "aten.swapdims": aten.transpose.int,
            "aten.numpy_T": aten.numpy_T.default,
            "aten.t": aten.t.default,
        }.get(kind, aten.mT.default)
        return target, (new, *rest)
    if kind == "aten.permute":
        rank = len(rest[0])
        dims = [d % rank for d in rest[0]]
        return aten.permute.default, (new, [dims.index(d) for d in range(rank)])
    if kind == "aten.movedim.int":
        return aten.movedim.int, (new, rest[1], rest[0])
    if kind.startswith(("aten.to.", "aten.type_as", "aten.expand")):
        same = tuple(base.meta["val"].shape) == tuple(new.meta["val"].shape)
        return (aten.reshape.default, (new, list(base.meta["val"].shape))) if same else None
    if kind == "aten.select.int":
        return aten.select_scatter.default, (base, new, *rest)
    if kind == "aten.slice.Tensor":
        return aten.slice_scatter.default, (base, new, *rest)
    if kind == "aten.narrow":
        dim, start, length = rest
        return aten.slice_scatter.default, (base, new, dim, start, start + length)
    if kind == "aten.diagonal":
        return aten.diagonal_scatter.default, (base, new, *rest)
    return None


def _piece(node: Node, values: Any, index: int) -> View | None:
    """The view that item `index` of a split, chunk or unbind is."""
    aten = torch.ops.aten
    name = str(node.target).split(".")[1]
    dim = node.kwargs.get("dim", node.args[-1] if len(node.args) > (name != "unbind") + 1 else 0)
    if name == "unbind":
        call, scatter = aten.select.int, aten.select_scatter.default
        rest: tuple[Any, ...] = (dim, index)
    elif name in (
        "split",
        "split_with_sizes",
        "chunk",
        "tensor_split",
        "unsafe_split",
        "unsafe_chunk",
    ):
        start = sum(v.shape[dim] for v in values[:index])
        call, scatter = aten.slice.Tensor, aten.slice_scatter.default
        rest = (dim, start, start + values[index].shape[dim])
    else:
        return None

    def replay(graph: Graph, base: Node) -> Node:
        made = graph.call_function(call, (base, *rest))
        made.meta = dict(node.meta, val=values[index])
        return made

    def put(graph: Graph, base: Node, new: Node) -> Node:
        made = graph.call_function(scatter, (base, new, *rest))
        made.meta = dict(new.meta, val=base.meta["val"])
        return made

    return View(replay, put, node)
