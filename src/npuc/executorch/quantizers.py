"""npuc's quantizer with the setters of ExecuTorch's Arm backend, for torchao's PT2E flow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer import QuantizationSpec, Quantizer
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from npuc.errors import BadInput
from npuc.executorch.compile_specs import ArmCompileSpec, EthosUCompileSpec, VgfCompileSpec
from npuc.executorch.node_rules import (
    Choices,
    Config,
    NodeFinder,
    Rule,
    boundary,
    checked,
    one_config,
)
from npuc.executorch.qat_norms import leave_parameters_float, mark_norms
from npuc.executorch.quantization_config import QuantizationConfig
from npuc.executorch.tosa_specification import TosaSpecification
from npuc.frontend.splice import kind_of
from npuc.quantizer.annotate import NpucQuantizer
from npuc.quantizer.fx_values import modules_of
from npuc.quantizer.recipe import Recipe
from npuc.quantizer.specs import ACTIVATIONS

Self = TypeVar("Self", bound="TOSAQuantizer")


class TOSAQuantizer(Quantizer):  # type: ignore[misc]
    """Quantizes for the TOSA specification of a compile spec.

    Setters select nodes for a config; None leaves them float. The rule that was added last wins,
    `set_global` comes behind all of them. What was set can be read and assigned: `global_config`,
    `io_config`, `module_name_config`, `module_type_config`, `node_name_config`,
    `node_target_config`.
    """

    takes: tuple[type, ...] = (ArmCompileSpec, TosaSpecification)

    def __init__(
        self,
        compile_spec_or_tosa_spec: ArmCompileSpec | TosaSpecification,
        use_composable_quantizer: bool = True,
    ) -> None:
        super().__init__()
        compile_spec = compile_spec_or_tosa_spec
        if not isinstance(compile_spec, self.takes):
            names = " or a ".join(t.__name__ for t in self.takes)
            raise BadInput(
                f"{type(self).__name__} with a {type(compile_spec).__name__}",
                hint=f"give a {names}",
            )
        self.compile_spec = compile_spec
        self.global_config: Config = None
        #: what was chosen, the strongest last; another quantizer stands for the nodes it annotates
        self.rules: list[Rule | Quantizer] = []
        self._core: NpucQuantizer | None = None

    @property
    def tosa_spec(self) -> TosaSpecification:
        """The TOSA specification that is quantized for."""
        spec = self.compile_spec
        return spec if isinstance(spec, TosaSpecification) else spec.tosa_spec

    # setters -------------------------------------------------------------------------------------

    module_name_config = Choices("set_module_name")
    module_type_config = Choices("set_module_type")
    node_name_config = Choices("set_node_name")
    node_target_config = Choices("set_node_target")

    @property
    def io_config(self) -> Config:
        """What `set_io` was given."""
        return Choices("set_io").__get__(self).get(None)

    @io_config.setter
    def io_config(self, config: Config) -> None:
        Choices("set_io").__set__(self, {})
        self.set_io(config)

    def set_global(self: Self, quantization_config: Config) -> Self:
        """The config of everything that no other rule selects."""
        self.global_config = checked(quantization_config)
        return self

    def set_io(self: Self, quantization_config: Config) -> Self:
        """The config of the model's inputs and outputs; None: that of the ops beside them."""
        return self._rule("set_io", None, boundary, quantization_config)

    def set_module_name(self: Self, module_name: str, quantization_config: Config) -> Self:
        """The config of all that is inside of the module with this path."""
        return self._each(
            "set_module_name", module_name,
            lambda n: any(path == module_name for path, _ in modules_of(n)), quantization_config,
        )  # fmt: skip

    def set_module_type(self: Self, module_type: Any, quantization_config: Config) -> Self:
        """The config of all that is inside of modules of this class."""
        name = module_type
        if not isinstance(module_type, str):
            name = f"{module_type.__module__}.{module_type.__qualname__}"
        return self._each(
            "set_module_type", module_type,
            lambda n: any(c == name or c.endswith(f".{name}") for _, c in modules_of(n)),
            quantization_config,
        )  # fmt: skip

    def set_node_name(self: Self, node_name: str, quantization_config: Config) -> Self:
        """The config of the node with this name in the exported graph."""
        return self._each(
            "set_node_name", node_name, lambda n: n.name == node_name, quantization_config
        )

    def set_node_target(self: Self, node_target: Any, quantization_config: Config) -> Self:
        """The config of all nodes that call this op (an OpOverload)."""
        kind = kind_of(node_target)
        return self._each(
            "set_node_target", node_target, lambda n: kind_of(n.target) == kind, quantization_config
        )

    def set_node_finder(self: Self, quantization_config: Config, node_finder: NodeFinder) -> Self:
        """The config of the nodes that `node_finder.find_nodes(model)` returns."""
        finder = node_finder.find_nodes
        return self._rule("set_node_finder", node_finder, finder, quantization_config)

    def add_quantizer(self: Self, quantizer: Quantizer) -> Self:
        """Leave to another quantizer the nodes that it annotates; a later rule takes them back."""
        self.rules.append(quantizer)
        return self

    def _each(
        self: Self, setter: str, key: Any, matches: Callable[[Node], bool], config: Config
    ) -> Self:
        def find(model: GraphModule) -> list[Node]:
            return [n for n in model.graph.nodes if n.op == "call_function" and matches(n)]

        return self._rule(setter, key, find, config)

    def _rule(
        self: Self, setter: str, key: Any, find: Callable[[GraphModule], Iterable[Node]],
        config: Config,
    ) -> Self:  # fmt: skip
        self.rules.append(Rule(setter, key, find, checked(config)))
        return self

    # torchao's flow ------------------------------------------------------------------------------

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Expand and rewrite what annotation does not take as it is."""
        from npuc.quantizer.simplify import simplify

        simplify(model, self._is_known(), tables16=self._tables16(), is_qat=self._is_qat())
        if self._is_qat():
            mark_norms(model)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """Write the annotations of every node; returns the model."""
        chosen, theirs = self._choices(model)
        ends = {n: chosen.pop(n) for n in boundary(model)}
        output = ends.popitem()
        inputs = one_config("inputs", ends)
        base = self.global_config or next(filter(None, [*chosen.values(), *ends.values()]), None)
        if base is not None:
            recipe = self._annotate(model, base, chosen, inputs)
            if output[1] is not None:
                _quantize_outputs(model, output[1], recipe)
        for node, annotation in theirs.items():
            node.meta[Q_ANNOTATION_KEY] = annotation
        return model

    def validate(self, model: GraphModule) -> None:
        """Nothing to validate: the lowering rules decide what a target can do."""

    def prepare_obs_or_fq_callback(
        self, model: GraphModule, edge_or_node_to_obs_or_fq: Any
    ) -> None:
        """Connect observers that look at each other's values."""
        if self._core is not None:
            self._core.prepare_obs_or_fq_callback(model, edge_or_node_to_obs_or_fq)

    # the core quantizer --------------------------------------------------------------------------

    def _annotate(
        self, model: GraphModule, base: QuantizationConfig, chosen: dict[Node, Config],
        inputs: Config,
    ) -> Recipe:  # fmt: skip
        names: dict[str, Recipe | str | None] = {
            n.name: None if config is None else replace(config.recipe, is_qat=self._is_qat())
            for n, config in chosen.items()
            if config is None or config.recipe != base.recipe
        }
        io = inputs.io if inputs is not None else None
        recipe = replace(base.recipe, io=io, is_qat=self._is_qat(), node_names=names)
        recipe = recipe.demanding(self._target().demands)
        self._core = NpucQuantizer(recipe, tables16=self._tables16(), is_simple=True)
        self._core.annotate(model)
        if self._is_qat():
            leave_parameters_float(model)
        _narrow(model, base, chosen)
        return recipe

    def _choices(self, model: GraphModule) -> tuple[dict[Node, Config], dict[Node, Any]]:
        """The config of every node that computes and of the boundary; annotations of others."""
        nodes = [n for n in model.graph.nodes if n.op == "call_function"]
        chosen: dict[Node, Config] = dict.fromkeys(nodes, self.global_config)
        chosen |= dict.fromkeys(boundary(model))
        theirs: dict[Node, Any] = {}
        for rule in self.rules:
            if isinstance(rule, Rule):
                selected = dict.fromkeys((n for n in rule.find(model) if n in chosen), rule.config)
                theirs = {n: a for n, a in theirs.items() if n not in selected}
            else:
                annotated = _annotated_by(rule, model)
                theirs |= annotated
                selected = dict.fromkeys(n for n in annotated if n in chosen)
            chosen |= selected
        return chosen, theirs

    def _target(self) -> Any:
        return self.compile_spec.target()

    def _tables16(self) -> bool:
        return bool(self._target().limits.has_int16)

    def _is_known(self) -> Callable[[str], bool]:
        from npuc.lowering.registry import quantized_kinds

        target = self._target()
        return quantized_kinds(target.dialect, target.families).__contains__

    def _is_qat(self) -> bool:
        configs = [self.global_config, *(r.config for r in self.rules if isinstance(r, Rule))]
        return any(c is not None and c.recipe.is_qat for c in configs)


class EthosUQuantizer(TOSAQuantizer):
    """Quantizes for Ethos-U."""

    takes = (EthosUCompileSpec,)

    def __init__(
        self, compile_spec: EthosUCompileSpec, use_composable_quantizer: bool = True
    ) -> None:
        super().__init__(compile_spec, use_composable_quantizer)


class VgfQuantizer(TOSAQuantizer):
    """Quantizes for VGF; what is left float computes in float inside of the same delegate."""

    takes = (VgfCompileSpec,)

    def __init__(self, compile_spec: VgfCompileSpec, use_composable_quantizer: bool = True) -> None:
        super().__init__(compile_spec, use_composable_quantizer)


def _annotated_by(other: Quantizer, model: GraphModule) -> dict[Node, Any]:
    """The annotations that another quantizer makes, taken off the model again."""
    other.annotate(model)
    found: dict[Node, Any] = {}
    for node in model.graph.nodes:
        annotation = node.meta.pop(Q_ANNOTATION_KEY, None)
        if annotation is not None and getattr(annotation, "_annotated", True):
            found[node] = annotation
    return found


def _narrow(model: GraphModule, base: QuantizationConfig, chosen: dict[Node, Config]) -> None:
    """Take the codes out of the specs that the configs do not allow."""
    for node in model.graph.nodes:
        annotation = node.meta.get(Q_ANNOTATION_KEY)
        config = chosen.get(node, base)
        if annotation is None or config is None:
            continue
        annotation.output_qspec = _narrowed(annotation.output_qspec, config)
        for operand, spec in annotation.input_qspec_map.items():
            annotation.input_qspec_map[operand] = _narrowed(spec, config)


def _narrowed(spec: Any, config: QuantizationConfig) -> Any:
    if not isinstance(spec, QuantizationSpec) or spec.dtype not in (torch.int8, torch.int16):
        return spec
    is_weight = spec.quant_min == -spec.quant_max and spec.dtype is torch.int8
    low, high = config.weight_range if is_weight else config.act_range
    if not is_weight and ACTIVATIONS[config.recipe.activations][0] is not spec.dtype:
        return spec  # a value that keeps 16 bits
    if (low, high) == (spec.quant_min, spec.quant_max):
        return spec
    return replace(spec, quant_min=low, quant_max=high)


def _quantize_outputs(model: GraphModule, config: QuantizationConfig, recipe: Recipe) -> None:
    """Let the model's float outputs be quantized once more where their type is another one."""
    from npuc.quantizer import specs

    output = model.graph.output_node()
    if config.io == recipe.activations:
        return
    spec = specs.activation(config.io, recipe, specs.Kind())
    results = [n for n in output.all_input_nodes if _is_float(n)]
    if results:
        annotation = output.meta.setdefault(Q_ANNOTATION_KEY, _new_annotation())
        annotation.input_qspec_map.update(dict.fromkeys(results, spec))


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _new_annotation() -> Any:
    from torchao.quantization.pt2e.quantizer import QuantizationAnnotation

    return QuantizationAnnotation(allow_implicit_sharing=False, _annotated=True)
