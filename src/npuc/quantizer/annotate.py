"""The PT2E quantizer: which values of an FX graph share quantization parameters, and of what type.

Annotation follows dataflow and the meaning of ops (`policy.py`), never how the model was written.
Values that must share parameters are joined into groups; the first place of a group, in graph
order, carries the group's spec and every other place refers to it, so there are no chains and no
cycles of shared specs.
"""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer import (
    QuantizationAnnotation,
    Quantizer,
    SharedQuantizationSpec,
)
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from npuc.frontend.splice import fetch, kind_of
from npuc.quantizer import policy, specs
from npuc.quantizer.choose_types import Types
from npuc.quantizer.fx_values import (
    find_parameters,
    float_operands,
    float_results,
    is_float,
    is_spatial_mean,
    moves,
    name_of,
)
from npuc.quantizer.groups import Group, Groups, Key, Place
from npuc.quantizer.observers import PoolObserver
from npuc.quantizer.policy import Role, role_of
from npuc.quantizer.recipe import Recipe
from npuc.quantizer.saturation_hints import add_saturation_hints
from npuc.quantizer.softmax_hints import add_softmax_hints
from npuc.quantizer.specs import SYMMETRIC
from npuc.quantizer.whole_hints import add_whole_hints


class NpucQuantizer(Quantizer):
    """Annotates a graph for `prepare_pt2e` or `prepare_qat_pt2e` by a recipe.

    `quantize` in `calibrate.py` does the whole flow; use this class to run torchao's steps
    yourself.

    tables16: the target has table lookups and clamps of 16-bit values.
    is_simple: the graph has gone through `simplify` already.
    """

    def __init__(self, recipe: Recipe, *, tables16: bool = True, is_simple: bool = False) -> None:
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
        annotator = Annotator(model, Types(model, self.recipe, self.tables16))
        annotator.run()
        self.left_float |= annotator.types.left_float
        self._pools = annotator.pools
        return model

    def validate(self, model: GraphModule) -> None:
        """Nothing to validate: the lowering rules decide what a target can do."""

    def prepare_obs_or_fq_callback(
        self, model: GraphModule, edge_or_node_to_obs_or_fq: dict[Place, Any]
    ) -> None:
        """Keep the observers, show them each other, and those of averages their operands'."""
        self.observers = dict(edge_or_node_to_obs_or_fq)
        counted = [o for o in self.observers.values() if hasattr(o, "calls")]
        for observer in counted:
            observer.together = counted
        for node, operand in self._pools.items():
            watch = self.observers[node]
            if isinstance(watch, PoolObserver):
                watch.follow(self.observers[operand])


class Annotator:
    """One annotation of one graph."""

    def __init__(self, gm: GraphModule, types: Types) -> None:
        self.gm = gm
        self.types = types
        self.groups = Groups()
        self.parameters = find_parameters(gm)
        self.position = {node: i for i, node in enumerate(gm.graph.nodes)}
        self.fused: set[Node] = set()  # values inside an op and its clamp
        self.special: dict[Place, Any] = {}  # specs of weights and biases
        self.weights: dict[Any, Place] = {}  # a weight and how it is read -> first place
        self.seen: dict[Place, int] = {}  # places in the order in which they were found
        self.pools: dict[Node, Place] = {}  # averages -> place of the operand
        self.tags: dict[str, list[Key]] = {}

    def run(self) -> None:
        """Annotate every node."""
        for node in self.gm.graph.nodes:
            self._fuse(node)
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                self._input(node)
            elif self._is_quantized(node):
                self._op(node)
        for keys in self.tags.values():
            self.groups.join(keys)
        for add_hints in (add_softmax_hints, add_saturation_hints, add_whole_hints):
            add_hints(self.gm, self.types, self.groups, self.fused)
        self._write()

    def _is_quantized(self, node: Node) -> bool:
        is_op = node.op == "call_function" and self.types.recipe_of(node) is not None
        return is_op and node not in self.parameters

    # Places

    def _see(self, place: Place, key: Key) -> None:
        self.groups[key].places.append(place)
        self.seen.setdefault(place, len(self.seen))

    def _read(self, operand: Node, reader: Node) -> Key:
        """Annotate an edge."""
        key: Key = (operand, self.types.operand(operand, reader))
        if self._multiplies_matrices(reader):
            key = self._symmetric(key)
        self._see((operand, reader), key)
        if operand.op == "get_attr":
            self.groups[key].sources.append(None)
        return key

    def _place(self, node: Node, type_name: str) -> Group:
        """Annotate a result."""
        if node.meta.get("quant_steep"):
            self.groups[node, type_name].hints.append(specs.Hint(margin=False))
        self.types.made[node] = type_name
        self._see(node, (node, type_name))
        tag = node.meta.get("quant_group")
        if tag is not None:
            self.tags.setdefault(f"{tag}:{type_name}", []).append((node, type_name))
        return self.groups[node, type_name]

    def _input(self, node: Node) -> None:
        quantized = any(self.types.recipe_of(user) is not None for user in node.users)
        if is_float(node) and quantized:
            type_name = self.types.recipe.io or self.types.result(node)
            self._place(node, type_name).sources.append(None)

    # Ops

    def _op(self, node: Node) -> None:
        name = name_of(node)
        if name == "getitem":
            return  # annotated with the op whose result it picks
        if node.meta.get("quant_inner") and name not in policy.WEIGHTED:
            return  # float arithmetic of training
        role = self._role(node)
        operands = self._operands(node, name)
        if role is Role.COMPARE:
            self.groups.join(operands)
        elif role is Role.SHARE:
            self._share(node, operands)
        else:
            self._own(node, name)
            if role is Role.POOL and node not in self.fused:
                self._pool(node)

    def _role(self, node: Node) -> Role:
        role = role_of(kind_of(node.target))
        if role is Role.CLAMP:
            return Role.OWN if node.args[0] in self.fused else Role.SHARE
        return Role.POOL if is_spatial_mean(node) else role

    def _operands(self, node: Node, name: str) -> list[Key]:
        """Annotate the edges of the float operands; the keys of those that are activations."""
        weighted = policy.WEIGHTED.get(name)
        if weighted is not None and node.args[weighted[0]] in self.parameters:
            return [self._weighted(node, weighted)]
        keep_constants = name in policy.FLOAT_PARAMETERS
        return [
            self._read(operand, node)
            for operand in float_operands(node)
            if operand not in self.fused and not (keep_constants and operand.op == "get_attr")
        ]

    def _multiplies_matrices(self, node: Node) -> bool:
        """Whether the target wants zero point 0 for the operands: of a product of two activations."""
        if not self.types.recipe.symmetric_products or name_of(node) not in policy.PRODUCTS:
            return False
        return node.args[1] not in self.parameters

    def _symmetric(self, key: Key) -> Key:
        """The key under which a matrix product reads a value whose zero point has to be 0.

        The value has it everywhere, but where it is the result of a function with fixed parameters.
        """
        if key[1] != "int8":
            return key
        if self.groups[key].ends is not None:
            return key[0], SYMMETRIC
        self.groups[key].symmetric = True
        return key

    def _share(self, node: Node, operands: list[Key]) -> None:
        follows = bool(operands) and moves(node)
        type_name = operands[0][1] if follows else self.types.result(node)
        keys = list(operands)
        for output in float_results(node):
            if output in self.fused:
                continue
            group = self._place(output, type_name)
            keys.append((output, type_name))
            if not operands or _fills(node):  # masked_fill with a number no operand has
                group.sources.append(None)
        self.groups.join(keys)

    def _own(self, node: Node, name: str) -> None:
        factor = self._positive_factor(node, name)
        for output in float_results(node):
            if output in self.fused:
                continue
            group = self._place(output, self.types.result(node))
            if factor is None:
                group.sources.append(policy.FIXED_RANGES.get(name))
            else:
                group.scaled.append(((node.args[0], node), factor))

    def _pool(self, node: Node) -> None:
        operand: Any = node.args[0]
        type_name = self.types.result(node)
        if (operand, node) in self.seen and self.types.operand(operand, node) == type_name:
            self.pools[node] = (operand, node)
            self.groups[node, type_name].pooled.append((operand, node))

    def _positive_factor(self, node: Node, name: str) -> float | None:
        """The number that a mul or div multiplies its only float operand by, if that only changes
        the scale of the operand's codes."""
        if name not in policy.SCALING or len(node.args) < 2 or node.kwargs.get("rounding_mode"):
            return None
        x, number = node.args[:2]
        if isinstance(number, Node) and number.op == "get_attr":
            constant = fetch(self.gm, str(number.target))
            number = float(constant) if constant.dim() == 0 else None
        if not is_float(x) or not isinstance(number, (int, float)) or x in self.fused:
            return None
        factor = float(number) if name == "mul" else (1 / number if number else 0.0)
        same_type = self.types.operand(x, node) == self.types.result(node)  # type: ignore[arg-type]
        return factor if same_type and 0 < factor < float("inf") else None

    def _weighted(self, node: Node, places: tuple[int, int, int]) -> Key:
        """Annotate a layer with a constant weight."""
        recipe = self.types.recipe_of(node)
        assert recipe is not None
        x, weight = node.args[0], node.args[places[0]]
        bias = node.args[places[2]] if len(node.args) > places[2] else None
        assert isinstance(x, Node) and isinstance(weight, Node)
        key = self._read(x, node)
        self._annotate_special((weight, node), self._weight_spec(weight, node, places[1], recipe))
        if isinstance(bias, Node):
            channels = bias.meta["val"].shape[0]
            spec = specs.bias((x, node), (weight, node), channels, recipe.per_channel)
            self._annotate_special((bias, node), spec)
        return key

    def _weight_spec(self, weight: Node, node: Node, axis: int, recipe: Recipe) -> Any:
        """The spec of a weight; layers that read it in the same way share it."""
        way = (weight, axis, recipe.weights, recipe.per_channel, recipe.ranges)
        first = self.weights.setdefault(way, (weight, node))
        if first != (weight, node):
            return SharedQuantizationSpec(first)
        return specs.weight(recipe, axis)

    def _annotate_special(self, place: Place, spec: Any) -> None:
        self.special[place] = spec
        self.seen.setdefault(place, len(self.seen))

    # Fusing

    def _fuse(self, node: Node) -> None:
        """Mark the values between an op and the clamp behind it: they get no parameters.

        The clamp acts on the op's result under the clamp's own parameters, which is exact for a
        monotone clamp, so the eight bits cover only what the clamp lets through.
        """
        if node.op != "call_function":
            return
        if node.meta.get("quant_inner"):  # between a layer and its norm, in training
            self.fused.add(node)
            return
        if role_of(kind_of(node.target)) is not Role.CLAMP:
            return
        between = []
        source: Any = node.args[0]
        while self._is_inner(source, node) and name_of(source) in policy.LAYOUT:
            between.append(source)
            source = source.args[0]
        if self._is_inner(source, node) and self._has_own_range(source):
            self.fused.update(between, [source])

    def _is_inner(self, value: Any, clamp: Node) -> bool:
        return (
            isinstance(value, Node)
            and value.op == "call_function"
            and len(value.users) == 1
            and is_float(value)
            and self.types.recipe_of(value) is not None
            and self.types.recipe_of(value) == self.types.recipe_of(clamp)
            and "quant_group" not in value.meta
        )

    def _has_own_range(self, node: Node) -> bool:
        if name_of(node) == "getitem":
            return name_of(node.args[0]) == "native_batch_norm"
        return self._role(node) is Role.OWN and bool(float_operands(node))

    # Writing

    def _write(self) -> None:
        """Turn groups into annotations; the first place in torchao's order carries the spec."""
        chosen: dict[Place, Any] = dict(self.special)
        for type_name, group in self.groups.all():
            places = sorted(set(group.places), key=self._order)
            chosen[places[0]] = self._spec(type_name, group, places[0])
            chosen.update(dict.fromkeys(places[1:], SharedQuantizationSpec(places[0])))
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

    def _spec(self, type_name: str, group: Group, first: Place) -> Any:
        node = first if isinstance(first, Node) else first[1]
        recipe = self.types.recipe_of(node) or self.types.recipe
        is_free = not group.symmetric
        is_scaled = len(group.scaled) == 1 and not group.sources
        if is_scaled and is_free and first is group.scaled[0][0][1]:
            place, factor = group.scaled[0]
            return specs.scaled(place, factor, type_name)
        kind = specs.Kind(
            ends=group.ends if is_free else None,
            hint=group.hints[0] if group.hints else specs.Hint(),
            is_pool=is_free and len(group.pooled) == 1 and len(group.sources) == 1,
        )
        if group.symmetric:
            type_name = SYMMETRIC
        return specs.activation(type_name, recipe, kind)


def _new_annotation() -> QuantizationAnnotation:
    return QuantizationAnnotation(allow_implicit_sharing=False, _annotated=True)


def _fills(node: Node) -> bool:
    """Whether an op writes a number other than zero: masked_fill, where with a number."""
    if name_of(node) not in ("masked_fill", "where", "pad", "constant_pad_nd"):
        return False
    return any(isinstance(a, float) and a != 0 for a in node.args[1:])
