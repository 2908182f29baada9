"""Copy an exported FX graph into a flat, functional one; weights are shared, never copied.

Parameters are read through `get_attr`, in-place ops become functional ones (their later readers
read the result, also through views), regions of `no_grad` and `autocast` are inlined, asserts,
guards, clones and inactive dropouts are gone. Each step is local: nothing is traced again.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from npuc.errors import Reason, Unsupported
from npuc.frontend.aliases import Cell, may_share, view_of
from npuc.frontend.functionalize import functional_overload
from npuc.frontend.fx_targets import aten_op, compares, with_same_arguments, without_dim_order
from npuc.frontend.size_nodes import compute_sizes
from npuc.frontend.source_location import loc_of
from npuc.frontend.splice import fake_mode_of, fetch, kind_of
from npuc.frontend.training_mode import refuse_training

#: ops without an effect on values
_DROPPED = frozenset(
    [
        "aten._assert_async",
        "aten._assert_async.msg",
        "aten._assert_scalar",
        "aten._assert_tensor_metadata",
        "aten.sym_constrain_range",
        "aten.sym_constrain_range_for_size",
        "aten._assert_tensor_metadata",
        "aten._functional_assert_async",
        "aten._functional_assert_async.msg",
        "aten._print",
    ]
)

#: their result is a new tensor with the operand's values
_COPIES = frozenset(["aten.clone", "dim_order_ops._clone_dim_order"])

#: ops that only change strides
_LAYOUTS = ("aten.clone", "aten.contiguous", "dim_order_ops._clone_dim_order")

#: their result is the operand, at least in inference
_SAME = frozenset(
    [
        "aten.alias",
        "aten.detach",
        "aten.lift_fresh",
        "aten.lift",
        "aten.contiguous",
        "aten.dropout",
        "aten.feature_dropout",
        "aten.alpha_dropout",
        "aten.feature_alpha_dropout",
        "aten.positive",
        "aten.resolve_conj",
        "aten.resolve_neg",
    ]
)

#: higher-order op -> (index of its sub-graph, index of the sub-graph's first operand)
_INLINED = {
    "wrap_with_set_grad_enabled": (1, 2),
    "wrap_with_autocast": (4, 5),
    "wrap": (0, 1),
    "tag_activation_checkpoint": (0, 1),
    "strict_mode": (0, 1),
    "invoke_subgraph": (0, 2),
}


class FunctionalCopy:
    """Builds one flat graph. `inputs` and `constant` make its sources, `copy` adds nodes."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.root: dict[str, Any] = {}
        self.constants: dict[str, Cell] = {}
        self.autocast: torch.dtype | None = None
        self.keeps_layout = False
        self.fake_mode: Any = None

    def input(self, name: str, meta: Mapping[str, Any]) -> Cell:
        """A placeholder."""
        node = self.graph.placeholder(name)
        node.meta = dict(meta)
        return Cell(node)

    def constant(self, name: str, tensor: torch.Tensor, meta: Mapping[str, Any]) -> Cell:
        """The cell of a parameter or buffer; one per name and tensor."""
        found = self.constants.get(name)
        if found is not None and self.root[name] is tensor:
            return found
        while name in self.root:
            name += "_"
        self.root[name] = tensor
        node = self.graph.get_attr(name)
        node.meta = dict(meta)
        cell = self.constants[name] = Cell(node, constant=name)
        return cell

    def copy(self, gm: GraphModule, env: dict[Node, Any]) -> Any:
        """Copy the nodes of `gm`, whose placeholders are in `env`; returns the output's cells."""
        for node in gm.graph.nodes:
            if node.op == "call_function":
                self.call(node, env)
            elif node.op == "get_attr":
                env[node] = self.attribute(gm, node)
            elif node.op == "output":
                return _map(node.args[0], env)
            elif node.op == "call_module" and not node.users:
                continue  # the guards that torch.export adds to `module()`
            elif node.op != "placeholder":
                raise Unsupported(
                    Reason(f"{node.op} {node.target}", "", "it is not an exported graph",
                           "export the model with torch.export")
                )  # fmt: skip
        raise ValueError("an FX graph ends with its output")

    def finish(self, outputs: Any, name: str) -> GraphModule:
        """The graph module that returns `outputs`: a tuple of cells, or one."""
        several = isinstance(outputs, (tuple, list))
        self.graph.output(tuple(self.read(o) for o in outputs) if several else self.read(outputs))
        _erase_dead(self.graph)
        used = {n.target for n in self.graph.nodes if n.op == "get_attr"}
        root = {k: v for k, v in self.root.items() if k in used}
        gm = GraphModule(root, self.graph, name or "Program")
        compute_sizes(gm)
        gm.recompile()
        return gm.eval()

    def read(self, value: Any) -> Any:
        """The node with the present value of a cell; nodes for cells inside of lists."""
        if isinstance(value, Cell):
            return value.node if value.base is None else value.refresh(self.graph)
        if isinstance(value, (tuple, list)):
            return type(value)(self.read(v) for v in value) if value else value
        if isinstance(value, slice):
            return slice(*(self.read(v) for v in (value.start, value.stop, value.step)))
        if isinstance(value, dict):
            return {k: self.read(v) for k, v in value.items()}
        return value

    # one node ----------------------------------------------------------------------------------

    def attribute(self, gm: GraphModule, node: Node) -> Any:
        """What a `get_attr` node of `gm` reads."""
        value = fetch(gm, str(node.target))
        if not isinstance(value, torch.Tensor):
            return value
        return self.constant(str(node.target), value, node.meta)

    def call(self, node: Node, env: dict[Node, Any]) -> None:
        """Copy one call; `env` has its operands and gets its result."""
        target = aten_op(node.target)
        args, kwargs = _map(node.args, env), _map(node.kwargs, env)
        if target is operator.getitem:
            env[node] = self._item(node, *args)
        elif isinstance(target, torch._ops.OpOverload):
            env[node] = self._op(node, target, args, kwargs)
        elif isinstance(target, torch._ops.HigherOrderOperator):
            env[node] = self._higher_order(node, target, args, kwargs)
        else:
            env[node] = self._emit(node, target, args, kwargs)

    def _item(self, node: Node, source: Any, index: Any) -> Any:
        if isinstance(source, (tuple, list)):
            return source[index]
        view = source.pieces(index) if isinstance(source, Cell) else None
        if view is not None:
            return Cell(self._emit(node, operator.getitem, (source, index), {}).node, *view)
        return self._emit(node, operator.getitem, (source, index), {})

    def _op(self, node: Node, target: Any, args: Any, kwargs: Any) -> Any:
        kind = kind_of(target)
        if kind in _DROPPED:
            return None
        refuse_training(node, target, kind)
        if kind in _COPIES or kind in _SAME:
            same = self._same(target, kind, args[0])
            if same is not None:
                return same
        if target._schema.is_mutable:
            return self._write(node, target, args, kwargs)
        if kind == "aten.native_dropout":
            return (args[0], None)
        if kind in ("aten.view", "aten._unsafe_view") and not self.keeps_layout:
            target = torch.ops.aten.reshape.default  # a dropped clone may leave strides behind
        elif kind.startswith("dim_order_ops."):
            target, kwargs = without_dim_order(kind, target, kwargs)
        if self.autocast is not None:
            args, kwargs = self._cast(node, kind, args, kwargs)
        cell = self._emit(node, target, args, kwargs)
        if may_share(target) and args and isinstance(args[0], Cell):
            cell.base, cell.view = args[0], view_of(node, kind, target, args, kwargs)
            cell.seen = cell.base.version
        return cell

    def _same(self, target: Any, kind: str, source: Any) -> Any:
        """The operand itself or a copy of it; None where its strides matter."""
        if kind in _LAYOUTS and self.keeps_layout:
            return None
        copies = kind in _COPIES or target._schema.name.endswith("_copy")
        if kind == "aten.contiguous" and isinstance(source, Cell):
            copies = not self.value(source.node).is_contiguous()
        return Cell(self.read(source)) if copies else source

    def _emit(self, node: Node, target: Any, args: Any, kwargs: Any) -> Cell:
        made = self.graph.create_node(
            "call_function", target, tuple(self.read(args)), self.read(kwargs), node.name
        )
        made.meta = dict(node.meta)
        return Cell(made)

    # in-place ops ------------------------------------------------------------------------------

    def _write(self, node: Node, target: Any, args: Any, kwargs: Any) -> Any:
        """Emit the functional form of an in-place op and let the written tensor be its result."""
        written = [
            i for i, a in enumerate(target._schema.arguments)
            if a.alias_info is not None and a.alias_info.is_write
        ]  # fmt: skip
        cell = args[written[0]] if written[0] < len(args) else None
        if len(written) != 1 or not isinstance(cell, Cell):
            raise _no_functional_form(node, target)
        made = self._functional(node, target, cell, args, kwargs)
        if not cell.write(self.graph, made):
            raise _no_functional_form(node, target)
        return cell

    def _functional(self, node: Node, target: Any, cell: Cell, args: Any, kwargs: Any) -> Node:
        aten = torch.ops.aten
        name = target._schema.name
        old = self.read(cell)
        if name in ("aten::copy_", "aten::fill_") and isinstance(args[1], Cell):
            return self._assign(node, old, self.read(args[1]))
        if name == "aten::fill_":
            return self._emit(node, aten.full_like.default, (cell, args[1]), {}).node
        if name == "aten::zero_":
            return self._emit(node, aten.full_like.default, (cell, 0), {}).node
        twin = functional_overload(target) or with_same_arguments(target)
        if twin is None:
            raise _no_functional_form(node, target)
        made = self._emit(node, twin, args, kwargs).node
        return self._as_dtype_of(old, made, self._functional_value(made))

    def _assign(self, node: Node, old: Node, new: Node) -> Node:
        """`new` with the element type and shape of `old`: what `copy_` writes."""
        new = self._as_dtype_of(old, new, self.value(new))
        shape = old.meta["val"].shape
        if tuple(new.meta["val"].shape) != tuple(shape):
            expand = torch.ops.aten.expand.default
            new = self.graph.call_function(expand, (new, list(shape)))
            new.meta = dict(node.meta, val=old.meta["val"])
        return new

    def _as_dtype_of(self, old: Node, new: Node, value: Any) -> Node:
        dtype = self.value(old).dtype
        return new if value.dtype == dtype else self._to(new, dtype)

    def _to(self, node: Node, dtype: torch.dtype) -> Node:
        made = self.graph.call_function(torch.ops.aten.to.dtype, (node, dtype))
        made.meta = dict(node.meta, val=self.value(node).to(dtype))
        return made

    def value(self, node: Node) -> Any:
        """The fake result of a node: its meta["val"], inferred where that is missing."""
        if node.meta.get("val") is not None:
            return node.meta["val"]
        if node.op == "get_attr":
            tensor = self.root[str(node.target)].detach()
            node.meta["val"] = self._mode().from_tensor(tensor, static_shapes=True)
        elif node.op == "call_function":
            self._infer(node)
        return node.meta.get("val")

    def _infer(self, node: Node) -> None:
        args = torch.fx.map_arg(node.args, self.value)
        kwargs = torch.fx.map_arg(node.kwargs, self.value)
        with torch.no_grad():
            node.meta["val"] = node.target(*args, **kwargs)  # type: ignore[operator]

    def _functional_value(self, node: Node) -> Any:
        """The fake result of the functional form of an in-place op: its element type may differ
        from that of the tensor which the op wrote."""
        known = node.meta.get("val")
        operands = [self.value(a) for a in node.args if isinstance(a, Node)]
        dtypes = {v.dtype for v in operands if isinstance(v, torch.Tensor)}
        if known is None or not dtypes <= {known.dtype} or compares(node.target):
            self._infer(node)
        return node.meta["val"]

    def _mode(self) -> Any:
        if self.fake_mode is None:
            self.fake_mode = fake_mode_of(self)  # type: ignore[arg-type]
        return self.fake_mode

    # regions -----------------------------------------------------------------------------------

    def _higher_order(self, node: Node, target: Any, args: Any, kwargs: Any) -> Any:
        name = getattr(target, "_name", str(target))
        if name in _INLINED:
            return self._inline(name, args)
        bodies = iter(range(100))

        def attach(value: Any) -> Any:
            if isinstance(value, GraphModule):
                return self._attach(f"{node.name}_body_{next(bodies)}", value)
            return value

        # tuples, as exported: eager control flow concatenates them
        args = tuple(tuple(a) if isinstance(a, list) else attach(a) for a in args)
        return self._emit(node, target, args, {k: attach(v) for k, v in kwargs.items()})

    def _inline(self, name: str, args: Any) -> Any:
        at, first = _INLINED[name]
        body, operands = args[at], args[first:]
        places = [n for n in body.graph.nodes if n.op == "placeholder"]
        before = self.autocast
        if name == "wrap_with_autocast":
            self.autocast = args[1] if args[2] else None
        results = self.copy(body, dict(zip(places, operands, strict=True)))
        self.autocast = before
        return results

    def _attach(self, name: str, body: GraphModule) -> Cell:
        """A node that reads the functional copy of a branch or loop body."""
        inner = FunctionalCopy()
        env = {n: inner.input(n.name, n.meta) for n in body.graph.nodes if n.op == "placeholder"}
        outputs = inner.copy(body, env)
        self.root[name] = inner.finish(outputs, name)
        return Cell(self.graph.get_attr(name))

    def _cast(self, node: Node, kind: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Float operands as autocast converts them: to the element type of the result."""
        value = node.meta.get("val")
        wanted = value.dtype if isinstance(value, torch.Tensor) else None
        if (
            wanted is None
            or not wanted.is_floating_point
            or kind.startswith(("aten.to", "aten._to"))
        ):
            return args, kwargs

        def cast(v: Any) -> Any:
            if isinstance(v, (tuple, list)):
                return type(v)(cast(x) for x in v)
            if not isinstance(v, Cell):
                return v
            have = v.node.meta.get("val")
            if not isinstance(have, torch.Tensor) or not have.is_floating_point():
                return v
            return v if have.dtype == wanted else Cell(self._to(self.read(v), wanted))

        return tuple(cast(a) for a in args), {k: cast(v) for k, v in kwargs.items()}


def _map(argument: Any, env: dict[Node, Any]) -> Any:
    """An FX argument with the cells of its nodes."""
    if isinstance(argument, Node):
        return env[argument]
    if isinstance(argument, (tuple, list)):
        return [_map(a, env) for a in argument]
    if isinstance(argument, dict):
        return {k: _map(v, env) for k, v in argument.items()}
    if isinstance(argument, slice):
        return slice(*(_map(v, env) for v in (argument.start, argument.stop, argument.step)))
    return argument


def _erase_dead(graph: Graph) -> None:
    for node in reversed(graph.nodes):
        if not node.users and node.op in ("call_function", "get_attr"):
            graph.erase_node(node)


def _no_functional_form(node: Node, target: Any) -> Unsupported:
    loc = loc_of(node.meta, node.name, str(target))
    return Unsupported(
        Reason(str(target), str(loc), "this write in place has no functional form",
               "write the model without it")
    )  # fmt: skip
