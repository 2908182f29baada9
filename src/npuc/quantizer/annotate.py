"""The PT2E quantizer: which values of an FX graph share quantization parameters, and of what type.

Annotation follows dataflow and the meaning of ops (`policy.py`), never how the model was written.
Values that must share parameters are joined into groups; the first place of a group, in graph
order, carries the group's spec and every other place refers to it, so there are no chains and no
cycles of shared specs.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    Quantizer,
    SharedQuantizationSpec,
)
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from npuc.frontend.splice import fetch, kind_of
from npuc.quantizer import policy, specs
from npuc.quantizer.groups import Groups, Place
from npuc.quantizer.observers import SOFTMAX_DEPTH, PoolObserver
from npuc.quantizer.policy import Role, op_name, role_of
from npuc.quantizer.recipe import Recipe

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
# An additive mask is cut off here: exp(-64) is nothing beside any other summand of a softmax.
_MASK_FLOOR = -64.0


class NpucQuantizer(Quantizer):
    """Annotates a graph for `prepare_pt2e` or `prepare_qat_pt2e` by a recipe.

    `quantize` in `calibrate.py` does the whole flow; use this class to run torchao's steps
    yourself, for training for instance.

    tables16: the target has table lookups and clamps of 16-bit values.
    is_simple: the graph has gone through `simplify` already.
    """

    def __init__(
        self, recipe: Recipe, *, tables16: bool = True, is_simple: bool = False
    ) -> None:
        self.recipe = recipe
        self.tables16 = tables16
        self.is_simple = is_simple
        self.observers: dict[Place, Any] = {}
        self.left_float: set[str] = set()  # names of the nodes that the recipe leaves float
        self._pools: dict[Node, Place] = {}

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Expand and rewrite what annotation does not take as it is."""
        if not self.is_simple:
            from npuc.quantizer.simplify import simplify

            simplify(model, lambda kind: True, tables16=self.tables16, is_qat=self.recipe.is_qat)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """Write `QuantizationAnnotation`s into the nodes' meta; returns the model."""
        annotator = Annotator(model, self.recipe, self.tables16)
        annotator.run()
        self.left_float |= annotator.left_float
        self._pools = annotator.pools
        return model

    def validate(self, model: GraphModule) -> None:
        """Nothing to validate: the lowering rules decide what a target can do."""

    def prepare_obs_or_fq_callback(
        self, model: GraphModule, edge_or_node_to_obs_or_fq: dict[Place, Any]
    ) -> None:
        """Keep the observers, for `adjust_layers.py`, and show those of averages their operands'."""
        self.observers = dict(edge_or_node_to_obs_or_fq)
        for node, operand in self._pools.items():
            watch = self.observers[node]
            if isinstance(watch, PoolObserver):
                watch.source = self.observers[operand]


class Annotator:
    """One annotation of one graph."""

    def __init__(self, gm: GraphModule, recipe: Recipe, tables16: bool) -> None:
        self.gm = gm
        self.recipe = recipe
        self.tables16 = tables16
        self.groups = Groups()
        self.position = {node: i for i, node in enumerate(gm.graph.nodes)}
        self.left_float: set[str] = set()
        self.recipes = {node: self._recipe(node) for node in gm.graph.nodes}
        self.returned = set(gm.graph.output_node().all_input_nodes)
        self.types: dict[Node, str] = {}  # type of each value that is quantized where it is made
        self.fused: set[Node] = set()  # values inside an op and its clamp
        self.special: dict[Place, Any] = {}  # specs of weights and biases
        self.seen: dict[Place, int] = {}  # places in the order in which they were found
        self.pools: dict[Node, Place] = {}  # averages -> place of the operand
        self.tags: dict[str, list[tuple[Node, str]]] = {}

    def run(self) -> None:
        """Annotate every node."""
        for node in self.gm.graph.nodes:
            self._fuse_clamp(node)
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self._input(node)
            elif node.op == "call_function" and self.recipes[node] is not None:
                self._op(node)
        for keys in self.tags.values():
            self.groups.join(keys)
        self._softmax_hints()
        self._write()

    # Which recipe and which type

    def _recipe(self, node: Node) -> Recipe | None:
        if node.op == "placeholder":
            return self.recipe
        if node.op != "call_function":
            return None
        kind = kind_of(node.target)
        if kind == "getitem":
            return self._recipe(node.args[0])  # type: ignore[arg-type]
        if role_of(kind) is Role.FLOAT:
            return None
        recipe = self.recipe.for_node(node.name, kind, modules_of(node))
        if recipe is None:
            self.left_float.add(node.name)
        return recipe

    def _type(self, node: Node) -> str:
        """Type of the result of a quantized node."""
        recipe = self.recipes[node]
        assert recipe is not None
        return "int16" if self._is_wide(node, "quant_wide") else recipe.activations

    def _is_wide(self, node: Node, mark: str) -> bool:
        recipe = self.recipes[node]
        if recipe is None or not recipe.wide_sums or not node.meta.get(mark):
            return False
        return self.tables16 or node.op != "call_function" or _name(node) in _ARITHMETIC

    def _operand_type(self, operand: Node, reader: Node) -> str:
        """Type under which a node reads an operand: sums and moves take 16 bits as they come."""
        recipe = self.recipes[reader]
        assert recipe is not None
        made = self.types.get(operand)
        takes_any = _moves(reader) or self._is_wide(reader, "quant_takes_wide")
        if made == "int16" and takes_any:
            return made
        is_shared = role_of(kind_of(reader.target)) is Role.SHARE and not _moves(reader)
        return self._type(reader) if is_shared else recipe.activations

    # Operands and results

    def _input(self, node: Node) -> None:
        if is_float(node) and any(self.recipes[user] is not None for user in node.users):
            self._made(node, self.recipe.io or self._type(node), None)

    def _op(self, node: Node) -> None:
        kind = kind_of(node.target)
        if kind == "getitem":
            return  # annotated with the op whose result it picks
        role = role_of(kind)
        name = op_name(kind)
        if role is Role.OWN and name == "mean" and _is_pool(node):
            role = Role.POOL
        if role is Role.CLAMP:
            role = Role.OWN if self._clamps_fused(node) else Role.SHARE
        operands = self._operands(node, name)
        outputs = float_results(node)
        if role is Role.COMPARE:
            self.groups.join(operands)
        elif role is Role.SHARE:
            self._share(node, operands, outputs)
        else:
            self._own(node, name, outputs)
            if role is Role.POOL and node not in self.fused:
                self._pool(node, (node.args[0], node))

    def _pool(self, node: Node, operand: Place) -> None:
        key = (node, self._type(node))
        if self._operand_type(operand[0], node) == key[1] and operand in self.seen:
            self.pools[node] = operand
            self.groups[key].pooled.append(operand)

    def _operands(self, node: Node, name: str) -> list[tuple[Node, str]]:
        """Annotate the edges of the float operands; the keys of those that are activations."""
        weighted = policy.WEIGHTED.get(name)
        if weighted is not None and self._has_constant_weight(node, weighted[0]):
            return [self._weighted(node, name)]
        keep_constants = name in policy.FLOAT_PARAMETERS
        keys = []
        for operand in node.all_input_nodes:
            if not is_float(operand) or operand in self.fused:
                continue
            if operand.op == "get_attr" and keep_constants:
                continue
            keys.append(self._read(operand, node))
        return keys

    def _read(self, operand: Node, reader: Node) -> tuple[Node, str]:
        key = (operand, self._operand_type(operand, reader))
        place = (operand, reader)
        self.groups[key].places.append(place)
        self._see(place)
        if operand.op == "get_attr":
            self.groups[key].sources.append(None)
        return key

    def _see(self, place: Place) -> None:
        self.seen.setdefault(place, len(self.seen))

    def _made(self, node: Node, type_name: str, ends: tuple[float, float] | None) -> None:
        """Annotate a result with a range of its own (or that of its function)."""
        self._place(node, type_name)
        self.groups[node, type_name].sources.append(ends)

    def _place(self, node: Node, type_name: str) -> None:
        self.types[node] = type_name
        self.groups[node, type_name].places.append(node)
        self._see(node)
        tag = node.meta.get("quant_group")
        if tag is not None:
            self.tags.setdefault(f"{tag}:{type_name}", []).append((node, type_name))

    def _share(self, node: Node, operands: list[Any], outputs: list[Node]) -> None:
        narrow = self._type(node)
        type_name = narrow
        if operands and _moves(node):
            type_name = operands[0][1]
        keys = list(operands)
        for output in outputs:
            if output not in self.fused:
                self._place(output, type_name)
                keys.append((output, type_name))
        self.groups.join(keys)
        if not operands:
            for output in outputs:
                self.groups[output, type_name].sources.append(None)
        elif outputs and any(isinstance(a, (int, float)) for a in node.args[2:]):
            # masked_fill, where with a number: a value that no operand has
            self.groups[keys[-1]].sources.append(None if _fills_nonzero(node) else (0.0, 1.0))

    def _own(self, node: Node, name: str, outputs: list[Node]) -> None:
        factor = self._positive_factor(node, name)
        for output in outputs:
            if output in self.fused:
                continue
            type_name = self._type(node)
            if factor is not None and self._same_type(node, type_name):
                self._place(output, type_name)
                source = (node.args[0], node)
                self.groups[output, type_name].scaled.append((source, factor))
            else:
                self._made(output, type_name, policy.FIXED_RANGES.get(name))

    def _same_type(self, node: Node, type_name: str) -> bool:
        operand = node.args[0]
        return operand not in self.fused and self._operand_type(operand, node) == type_name

    def _positive_factor(self, node: Node, name: str) -> float | None:
        """The number that a mul or div multiplies its only float operand by."""
        if name not in policy.SCALING or len(node.args) < 2 or node.kwargs.get("rounding_mode"):
            return None
        x, number = node.args[:2]
        if isinstance(number, Node) and number.op == "get_attr":
            constant = fetch(self.gm, str(number.target))
            number = float(constant) if constant.numel() == 1 and constant.dim() == 0 else None
        if not isinstance(x, Node) or not is_float(x) or not isinstance(number, (int, float)):
            return None
        factor = float(number) if name == "mul" else (1 / number if number else 0.0)
        return factor if 0 < factor < float("inf") else None

    # Layers with weights

    def _has_constant_weight(self, node: Node, index: int) -> bool:
        weight = node.args[index]
        return isinstance(weight, Node) and self._is_parameter(weight)

    def _is_parameter(self, node: Node) -> bool:
        """Whether a value depends on parameters and buffers only (in training it may be computed)."""
        if node.op == "get_attr":
            return True
        return node.op == "call_function" and all(map(self._is_parameter, node.all_input_nodes))

    def _weighted(self, node: Node, name: str) -> tuple[Node, str]:
        recipe = self.recipes[node]
        assert recipe is not None
        weight_index, axis, bias_index = policy.WEIGHTED[name]
        x, weight = node.args[0], node.args[weight_index]
        bias = node.args[bias_index] if len(node.args) > bias_index else None
        assert isinstance(x, Node) and isinstance(weight, Node)
        key = self._read(x, node)
        self.special[weight, node] = specs.weight(recipe, axis)
        self._see((weight, node))
        if isinstance(bias, Node):
            channels = bias.meta["val"].shape[0]
            self.special[bias, node] = specs.bias(
                (x, node), (weight, node), channels, recipe.per_channel
            )
            self._see((bias, node))
        return key

    # Clamps

    def _fuse_clamp(self, node: Node) -> None:
        """Mark the values between an op and the clamp behind it: they get no parameters.

        The clamp acts on the op's result under the clamp's own parameters, which is exact for a
        monotone clamp, so the eight bits cover only what the clamp lets through.
        """
        if node.op != "call_function" or role_of(kind_of(node.target)) is not Role.CLAMP:
            return
        between = []
        source = node.args[0]
        while self._is_inner(source, node) and op_name(kind_of(source.target)) in policy.LAYOUT:
            between.append(source)
            source = source.args[0]
        if not self._is_inner(source, node) or not self._has_own_range(source):
            return
        self.fused.update(between, [source])

    def _is_inner(self, value: Any, clamp: Node) -> bool:
        return (
            isinstance(value, Node)
            and value.op == "call_function"
            and len(value.users) == 1
            and is_float(value)
            and self.recipes[value] is not None
            and self.recipes[value] == self.recipes[clamp]
            and "quant_group" not in value.meta
        )

    def _has_own_range(self, node: Node) -> bool:
        kind = kind_of(node.target)
        role = role_of(kind)
        if role is Role.CLAMP:
            return self._clamps_fused(node)
        if op_name(kind) == "mean" and _is_pool(node):
            return False
        return role is Role.OWN and kind != "getitem" and bool(float_operands(node))

    def _clamps_fused(self, node: Node) -> bool:
        return node.args[0] in self.fused

    # Softmax

    def _softmax_hints(self) -> None:
        """Tell the groups that only feed a softmax how far below the maximum values matter."""
        for node in self.gm.graph.nodes:
            if node.op != "call_function" or self.recipes[node] is None:
                continue
            if _name(node) not in policy.SOFTMAX:
                continue
            x = node.args[0]
            if x in self.fused or not self._feeds_only_softmax(x, node):
                continue
            shape = tuple(x.meta["val"].shape)
            if all(isinstance(size, int) for size in shape):
                hint = specs.Hint(depth=SOFTMAX_DEPTH, axis=int(node.args[1]), shape=shape)
                self.groups[x, self._operand_type(x, node)].hints.append(hint)
            self._mask_hints(x)

    def _feeds_only_softmax(self, value: Any, softmax: Node) -> bool:
        key = (value, self._operand_type(value, softmax))
        group = self.groups[key]
        members = {p for p in group.places if isinstance(p, Node)}
        readers = {user for member in members for user in member.users}
        return all(reader is softmax or reader in members for reader in readers)

    def _mask_hints(self, x: Any) -> None:
        """The summands in front of a softmax: an additive mask has huge negative entries."""
        if op_name(kind_of(x.target)) != "add":
            return
        for operand in float_operands(x):
            if len(operand.users) == 1 and operand not in self.fused:
                key = (operand, self._operand_type(operand, x))
                self.groups[key].hints.append(specs.Hint(floor=_MASK_FLOOR))

    # Writing

    def _write(self) -> None:
        """Turn groups into annotations; the first place in torchao's order carries the spec."""
        chosen: dict[Place, Any] = dict(self.special)
        for type_name, group in self.groups.all():
            places = sorted(set(group.places), key=self._order)
            first = places[0]
            chosen[first] = self._spec(type_name, group, first)
            for place in places[1:]:
                chosen[place] = SharedQuantizationSpec(first)
        for place in self.seen:
            node = place if isinstance(place, Node) else place[1]
            annotation = node.meta.setdefault(Q_ANNOTATION_KEY, _new_annotation())
            if place is node:
                annotation.output_qspec = chosen[place]
            else:
                annotation.input_qspec_map[place[0]] = chosen[place]

    def _order(self, place: Place) -> tuple[int, int, int]:
        """Order in which torchao meets the places: of each node the operands, then the result."""
        if isinstance(place, Node):
            return self.position[place], 1, 0
        return self.position[place[1]], 0, self.seen[place]

    def _spec(self, type_name: str, group: Any, first: Place) -> Any:
        node = first if isinstance(first, Node) else first[1]
        recipe = self.recipes[node] or self.recipe
        if len(group.scaled) == 1 and not group.sources and first is group.scaled[0][0][1]:
            place, factor = group.scaled[0]
            return specs.scaled(place, factor, type_name)
        hint = group.hints[0] if group.hints else specs.Hint()
        is_pool = len(group.pooled) == 1 and len(group.sources) == 1
        is_output = any(place in self.returned for place in group.places)
        kind = specs.Kind(group.ends, hint, is_pool, is_output)
        return specs.activation(type_name, recipe, kind)


# What takes 16-bit values without tables (and clamps and concatenations) of them.
_ARITHMETIC = frozenset(
    """add sub mul sum linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d matmul mm bmm
    layer_norm native_layer_norm rms_norm _fused_rms_norm""".split()
)


def _name(node: Node) -> str:
    return op_name(kind_of(node.target))


def _moves(node: Node) -> bool:
    return _name(node) in policy.LAYOUT or _name(node) in policy.ONE_OPERAND_MOVES


def _new_annotation() -> QuantizationAnnotation:
    return QuantizationAnnotation(allow_implicit_sharing=False, _annotated=True)


def is_float(node: Any) -> bool:
    """Whether a node's value is one floating-point tensor."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.dtype in _FLOATS


def float_operands(node: Node) -> list[Node]:
    """The operands that are floating-point tensors, each once."""
    return [operand for operand in node.all_input_nodes if is_float(operand)]


def float_results(node: Node) -> list[Node]:
    """The nodes that hold the float results of an op: itself, or the `getitem`s that pick them."""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return [node] if is_float(node) else []
    return [user for user in node.users if user.target is operator.getitem and is_float(user)]


def modules_of(node: Node) -> list[tuple[str, str]]:
    """Path and class name of the modules around a node, outermost first."""
    found = []
    for path, class_name in node.meta.get("nn_module_stack", {}).values():
        path = str(path).removeprefix("L['self'].").removeprefix("L['self']")
        name = class_name if isinstance(class_name, str) else _qualified(class_name)
        found.append((path, name))
    return found


def _qualified(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_pool(node: Node) -> bool:
    """Whether a mean runs over exactly the spatial dims of [N, C, ...]: an average pool."""
    value = node.args[0].meta["val"]  # type: ignore[union-attr]
    dims = node.args[1] if len(node.args) > 1 else None
    if not isinstance(dims, (list, tuple)) or value.ndim not in (3, 4):
        return False
    return sorted(d % value.ndim for d in dims) == list(range(2, value.ndim))


def _fills_nonzero(node: Node) -> bool:
    return any(isinstance(a, (int, float)) and a != 0 for a in node.args[2:])
