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
from npuc.executorch.qat_norms import leave_parameters_float, mark_norms
from npuc.executorch.quantization_config import QuantizationConfig
from npuc.executorch.tosa_specification import TosaSpecification
from npuc.frontend.splice import kind_of
from npuc.quantizer.annotate import NpucQuantizer
from npuc.quantizer.fx_values import modules_of
from npuc.quantizer.recipe import Recipe
from npuc.quantizer.specs import ACTIVATIONS

Self = TypeVar("Self", bound="TOSAQuantizer")
Config = QuantizationConfig | None


class TOSAQuantizer(Quantizer):  # type: ignore[misc]
    """Quantizes for the TOSA specification of a compile spec.

    Setters select nodes for a config; None leaves them float. The rule that was added last wins,
    `set_global` comes behind all of them. What was set can be read: `global_config`, `io_config`,
    `module_name_config`, `module_type_config`, `node_name_config`, `node_target_config`.
    """

    takes: tuple[type, ...] = (ArmCompileSpec, TosaSpecification)

    def __init__(
        self,
        compile_spec: ArmCompileSpec | TosaSpecification,
        use_composable_quantizer: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(compile_spec, self.takes):
            names = " or a ".join(t.__name__ for t in self.takes)
            raise BadInput(
                f"{type(self).__name__} with a {type(compile_spec).__name__}",
                hint=f"give a {names}",
            )
        self.compile_spec = compile_spec
        self.global_config: Config = None
        self.io_config: Config = None
        self.module_name_config: dict[str, Config] = {}
        self.module_type_config: dict[Any, Config] = {}
        self.node_name_config: dict[str, Config] = {}
        self.node_target_config: dict[Any, Config] = {}
        #: (graph -> the nodes that are selected, their config), the strongest last
        self._rules: list[tuple[Callable[[GraphModule], Iterable[Node]], Config]] = []
        self._others: list[Quantizer] = []
        self._core: NpucQuantizer | None = None

    # setters -------------------------------------------------------------------------------------

    def set_global(self: Self, quantization_config: Config) -> Self:
        """The config of everything that no other rule selects."""
        self.global_config = _checked(quantization_config)
        return self

    def set_io(self: Self, quantization_config: Config) -> Self:
        """The config of the model's inputs and outputs."""
        self.io_config = _checked(quantization_config)
        return self

    def set_module_name(self: Self, module_name: str, quantization_config: Config) -> Self:
        """The config of all that is inside of the module with this path."""
        self.module_name_config[module_name] = _checked(quantization_config)
        return self._rule(
            lambda n: any(path == module_name for path, _ in modules_of(n)), quantization_config
        )

    def set_module_type(self: Self, module_type: Any, quantization_config: Config) -> Self:
        """The config of all that is inside of modules of this class."""
        name = module_type
        if not isinstance(module_type, str):
            name = f"{module_type.__module__}.{module_type.__qualname__}"
        self.module_type_config[module_type] = _checked(quantization_config)
        return self._rule(
            lambda n: any(c == name or c.endswith(f".{name}") for _, c in modules_of(n)),
            quantization_config,
        )

    def set_node_name(self: Self, node_name: str, quantization_config: Config) -> Self:
        """The config of the node with this name in the exported graph."""
        self.node_name_config[node_name] = _checked(quantization_config)
        return self._rule(lambda n: n.name == node_name, quantization_config)

    def set_node_target(self: Self, node_target: Any, quantization_config: Config) -> Self:
        """The config of all nodes that call this op (an OpOverload)."""
        self.node_target_config[node_target] = _checked(quantization_config)
        kind = kind_of(node_target)
        return self._rule(
            lambda n: n.op == "call_function" and kind_of(n.target) == kind, quantization_config
        )

    def set_node_finder(self: Self, quantization_config: Config, node_finder: Any) -> Self:
        """The config of the nodes that `node_finder.find_nodes(model)` returns."""
        self._rules.append((node_finder.find_nodes, _checked(quantization_config)))
        return self

    def add_quantizer(self: Self, quantizer: Quantizer) -> Self:
        """Leave to another quantizer the nodes that it annotates."""
        self._others.append(quantizer)
        return self

    def _rule(self: Self, matches: Callable[[Node], bool], config: Config) -> Self:
        self._rules.append((lambda gm: [n for n in gm.graph.nodes if matches(n)], config))
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
        theirs = self._annotated_by_others(model)
        chosen = self._configs(model, theirs)
        base = self.global_config or self.io_config or next(filter(None, chosen.values()), None)
        if base is not None:
            self._annotate(model, base, chosen)
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
        self, model: GraphModule, base: QuantizationConfig, chosen: dict[Node, Config]
    ) -> None:
        names: dict[str, Recipe | str | None] = {
            n.name: None if config is None else replace(config.recipe, is_qat=self._is_qat())
            for n, config in chosen.items()
            if config is None or config.recipe != base.recipe
        }
        io = self.io_config.io if self.io_config is not None else None
        recipe = replace(base.recipe, io=io, is_qat=self._is_qat(), node_names=names)
        recipe = recipe.demanding(self._target().demands)
        self._core = NpucQuantizer(recipe, tables16=self._tables16(), is_simple=True)
        self._core.annotate(model)
        if self._is_qat():
            leave_parameters_float(model)
        _narrow(model, base, chosen)
        if self.io_config is not None:
            _quantize_outputs(model, self.io_config, recipe)

    def _configs(self, model: GraphModule, theirs: dict[Node, Any]) -> dict[Node, Config]:
        """The config of every node that computes."""
        nodes = [n for n in model.graph.nodes if n.op == "call_function"]
        chosen: dict[Node, Config] = dict.fromkeys(nodes, self.global_config)
        for find, config in self._rules:
            for node in find(model):
                if node in chosen:
                    chosen[node] = config
        return {**chosen, **dict.fromkeys((n for n in theirs if n in chosen), None)}

    def _annotated_by_others(self, model: GraphModule) -> dict[Node, Any]:
        found: dict[Node, Any] = {}
        for other in self._others:
            other.annotate(model)
            for node in model.graph.nodes:
                annotation = node.meta.pop(Q_ANNOTATION_KEY, None)
                if annotation is not None and getattr(annotation, "_annotated", True):
                    found.setdefault(node, annotation)
        return found

    def _target(self) -> Any:
        return self.compile_spec.target()

    def _tables16(self) -> bool:
        return bool(self._target().limits.has_int16)

    def _is_known(self) -> Callable[[str], bool]:
        from npuc.lowering.registry import quantized_kinds

        target = self._target()
        return quantized_kinds(target.dialect, target.families).__contains__

    def _is_qat(self) -> bool:
        configs = [self.global_config, self.io_config, *(c for _, c in self._rules)]
        return any(c is not None and c.recipe.is_qat for c in configs)


class EthosUQuantizer(TOSAQuantizer):
    """Quantizes for Ethos-U."""

    takes = (EthosUCompileSpec,)


class VgfQuantizer(TOSAQuantizer):
    """Quantizes for VGF; what is left float computes in float inside of the same delegate."""

    takes = (VgfCompileSpec,)


def _checked(config: Config) -> Config:
    if config is not None and not isinstance(config, QuantizationConfig):
        raise BadInput(
            f"a config of type {type(config).__name__}",
            hint="use get_symmetric_quantization_config() or another factory; None leaves float",
        )
    return config


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
