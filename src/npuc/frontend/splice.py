"""Write FX nodes in front of one node, each with its meta["val"], without tracing the program."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_map_only

# What a new node inherits from the node of the user's program that it comes from.
# "npuc_kind" is the kind of the user's op.
ORIGIN_META = (
    "stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "npuc_origin", "npuc_kind",
)  # fmt: skip


def kind_of(target: Any) -> str:
    """Name of an FX call target in our spelling, whether it is in place, a copy or plain.

    `aten.conv2d.default` is "aten.conv2d", `aten.add_.Tensor` is "aten.add.Tensor" and
    `aten.view_copy.default` is "aten.view". `operator.getitem` is "getitem".
    """
    if not isinstance(target, torch._ops.OpOverload):
        return str(getattr(target, "__name__", target))
    namespace, _, name = target._schema.name.partition("::")
    if torch.Tag.view_copy in target.tags:
        name = name.removesuffix("_copy")
    elif name.endswith("_") and not name.endswith("__"):
        name = name.removesuffix("_")
    overload = target._overloadname
    return f"{namespace}.{name}" if overload == "default" else f"{namespace}.{name}.{overload}"


def fetch(gm: torch.nn.Module, name: str) -> Any:
    """The attribute that a `get_attr` node with the dotted target `name` reads."""
    value: Any = gm
    for part in name.split("."):
        value = getattr(value, part)
    return value


def fake_mode_of(gm: GraphModule) -> FakeTensorMode:
    """The fake tensor mode of the graph's values; a new one when no node has a value yet."""
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch._subclasses.FakeTensor):
            return value.fake_mode
    return FakeTensorMode(allow_non_fake_inputs=True)


def value_of(gm: GraphModule, node: Node, mode: FakeTensorMode) -> Any:
    """The fake value of a node; it is computed and kept where the exporter left none.

    Frozen parameters and the quantize and dequantize nodes of torchao have no meta["val"].
    """
    if "val" in node.meta:
        return node.meta["val"]
    if node.op == "get_attr":
        attribute = fetch(gm, str(node.target))
        if isinstance(attribute, torch.Tensor):
            attribute = mode.from_tensor(attribute.detach(), static_shapes=True)
        node.meta["val"] = attribute
    elif node.op == "call_function":
        args, kwargs = tree_map_only(
            Node, lambda n: value_of(gm, n, mode), (node.args, node.kwargs)
        )
        with mode, torch.no_grad():
            node.meta["val"] = node.target(*args, **kwargs)  # type: ignore[operator]
    else:
        raise ValueError(f"{node.format_node()} has no meta['val']")
    return node.meta["val"]


class Splice:
    """Emits nodes in front of `node`. Calling it with an op and its arguments makes a node."""

    def __init__(self, gm: GraphModule, node: Node, mode: FakeTensorMode) -> None:
        self.gm = gm
        self.node = node
        self.mode = mode
        self.new: list[Node] = []
        self.origin = {key: node.meta[key] for key in ORIGIN_META if key in node.meta}
        self.origin.setdefault("npuc_kind", kind_of(node.target))

    def __call__(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """One node that calls `op`; a tuple of nodes when the op returns a tuple or list."""
        made = self._add(op, args, kwargs)
        value = made.meta["val"]
        if not isinstance(value, (tuple, list)):
            return made
        return tuple(self._item(made, i, item) for i, item in enumerate(value))

    def constant(self, tensor: torch.Tensor, hint: str, trainable: bool = False) -> Node:
        """A `get_attr` node of a new buffer (or parameter, if trainable) that holds `tensor`."""
        names = self.gm.meta.setdefault("npuc_names", {})  # a search would be quadratic
        count = names.get(hint, 0)
        while hasattr(self.gm, f"_npuc_{hint}_{count}"):
            count += 1
        names[hint], name = count + 1, f"_npuc_{hint}_{count}"
        if trainable:
            self.gm.register_parameter(name, torch.nn.Parameter(tensor))
        else:
            self.gm.register_buffer(name, tensor, persistent=False)
        with self.gm.graph.inserting_before(self.node):
            made = self.gm.graph.get_attr(name)
        made.meta.update(self.origin)
        with self.mode:  # `from_tensor` does the same ten times slower
            made.meta["val"] = torch.empty_strided(
                tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
            )
        self.new.append(made)
        return made

    def value(self, node: Node) -> Any:
        """The fake value of a node."""
        return value_of(self.gm, node, self.mode)

    def parameter(self, node: Any) -> torch.Tensor | None:
        """The tensor behind a node that reads a parameter or a buffer, else None."""
        if not isinstance(node, Node) or node.op != "get_attr":
            return None
        return fetch(self.gm, str(node.target)).detach()

    def _add(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
        with self.gm.graph.inserting_before(self.node):
            made = self.gm.graph.call_function(op, args, kwargs)
        made.meta.update(self.origin)
        value_of(self.gm, made, self.mode)
        self.new.append(made)
        return made

    def _item(self, source: Node, index: int, value: Any) -> Node:
        import operator

        with self.gm.graph.inserting_before(self.node):
            made = self.gm.graph.call_function(operator.getitem, (source, index))
        made.meta.update(self.origin, val=value)
        self.new.append(made)
        return made


def replace(node: Node, results: Node | tuple[Node | None, ...]) -> None:
    """Let every user of `node` read `results`, and erase `node`.

    A node with several results is read through `getitem`; an entry of `results` may be None
    when nobody reads it.
    """
    graph = node.graph
    if isinstance(results, Node):
        node.replace_all_uses_with(results)
    else:
        for item in list(node.users):
            result = results[item.args[1]]  # type: ignore[index]
            if result is not None:
                item.replace_all_uses_with(result)
            graph.erase_node(item)
    graph.erase_node(node)
