"""What the user wants of quantization: data types, and which parts of the model differ.

A recipe says nothing about ops or targets; `policy.py` knows what an op allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Union

from npuc.errors import BadInput

# What an override may be: another recipe, the name of one, or None: leave it float.
Choice = Union["Recipe", str, None]

_ALLOWED = {
    "activations": ("int8", "int16"),
    "weights": ("int8", "int4"),
    "io": (None, "int8", "uint8", "int16"),
    "ranges": ("mse", "minmax"),
}

_OVERRIDES = ("node_names", "module_names", "module_types", "ops")


@dataclass
class Recipe:
    """How to quantize a model.

    activations: "int8" (affine) or "int16" (symmetric).
    weights: "int8" or "int4" (symmetric, in steps of the channel's largest value).
    per_channel: one weight scale per output channel, or one per tensor.
    io: type of the graph's inputs and outputs; None: the type of the activations.
    ranges: "mse" clips outliers where that lowers the squared error; "minmax" covers all values
        that calibration saw.
    correct_bias: the bias takes up the mean error that rounding the weights causes.
    wide_sums: sums that a gate or a square root depends on keep 16 bits between 8-bit values.
    fixed_ranges: sigmoid, softmax and tanh have exactly the range of the function, as TFLite
        kernels require, unless their values fill less than a quarter of it; otherwise the part
        that the values fill.
    symmetric_products: operands of matrix products have zero point 0.
    is_qat: the recipe is for quantization-aware training.

    Overrides, strongest first; each maps a name to another recipe, the name of one, or None for
    "leave it float". They are plain dicts: write them and read them.

    node_names: name of a node of the exported graph ("conv2d_1").
    module_names: path of a module ("features.3"), for all that is inside it; the longest wins.
    module_types: class name of a module ("Linear", "torch.nn.modules.linear.Linear").
    ops: kind of an op ("aten.softmax", "aten.add.Tensor", "aten.add" for every overload), or of the
        op of the model that it is a part of ("aten.scaled_dot_product_attention").
    """

    activations: str = "int8"
    weights: str = "int8"
    per_channel: bool = True
    io: str | None = None
    ranges: str = "mse"
    correct_bias: bool = True
    wide_sums: bool = True
    fixed_ranges: bool = False
    symmetric_products: bool = False
    is_qat: bool = False
    node_names: dict[str, Choice] = field(default_factory=dict)
    module_names: dict[str, Choice] = field(default_factory=dict)
    module_types: dict[str, Choice] = field(default_factory=dict)
    ops: dict[str, Choice] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, allowed in _ALLOWED.items():
            value = getattr(self, name)
            if value not in allowed:
                choices = ", ".join(map(str, allowed))
                raise BadInput(f"recipe: {name}={value!r}", hint=f"choose one of {choices}")

    @staticmethod
    def named(name: str) -> Recipe:
        """A recipe by name: "int8", "a16w8" or "a8w4"."""
        if name in NAMED:
            return deepcopy(NAMED[name])
        raise BadInput(f"no recipe is named {name!r}", hint=f"choose {' or '.join(NAMED)}")

    @staticmethod
    def of(choice: Choice) -> Recipe | None:
        """The recipe that an override stands for; None leaves float."""
        return Recipe.named(choice) if isinstance(choice, str) else choice

    def demanding(self, demands: Mapping[str, Any]) -> Recipe:
        """This recipe and those of its overrides with fields that a target demands."""
        if not demands:
            return self
        found: dict[str, Any] = {}
        for name in _OVERRIDES:
            choices = {key: Recipe.of(choice) for key, choice in getattr(self, name).items()}
            found[name] = {k: r and r.demanding(demands) for k, r in choices.items()}
        return replace(self, **demands, **found)

    def for_node(
        self, name: str, kind: str, modules: list[tuple[str, str]], part_of: str = ""
    ) -> Recipe | None:
        """The recipe of one node of the graph; None leaves it float.

        Args:
            name: the node's name.
            kind: "aten.add.Tensor".
            modules: path and class name of the modules around it, outermost first.
            part_of: the kind of the model's op that it is a part of.
        """
        if name in self.node_names:
            return Recipe.of(self.node_names[name])
        for path, _ in reversed(modules):
            if path in self.module_names:
                return Recipe.of(self.module_names[path])
        for _, class_name in reversed(modules):
            for wanted, choice in self.module_types.items():
                if class_name == wanted or class_name.endswith(f".{wanted}"):
                    return Recipe.of(choice)
        for op in (kind, part_of):
            for wanted in (op, ".".join(op.split(".")[:2])):
                if wanted in self.ops:
                    return Recipe.of(self.ops[wanted])
        return self

    def as_dict(self) -> dict[str, Any]:
        """The recipe as plain data, for JSON or TOML; `from_dict` reads it back."""
        return asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Recipe:
        """The recipe that `as_dict` wrote; unknown keys are an error."""
        known = {f.name for f in fields(Recipe)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise BadInput(
                f"recipe: unknown key {unknown[0]!r}", hint=f"known are {', '.join(sorted(known))}"
            )
        values = dict(data)
        for name in _OVERRIDES:
            values[name] = {key: _choice(v) for key, v in dict(values.get(name, {})).items()}
        return Recipe(**values)


def _choice(value: Any) -> Choice:
    return Recipe.from_dict(value) if isinstance(value, Mapping) else value


NAMED = {
    "int8": Recipe(),
    "a16w8": Recipe(activations="int16"),
    "a8w4": Recipe(weights="int4"),
}
