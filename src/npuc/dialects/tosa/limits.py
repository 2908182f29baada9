"""What a target takes: TOSA version, profiles, extensions, level, and a chip's own restrictions."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import CodeType
from typing import TYPE_CHECKING, Any

from npuc.dialects.tosa.definition import DEFINITIONS, LEVELS, Argument, Definition
from npuc.dialects.tosa.infer import InvalidOp, _spread, bind, contents, matching_modes
from npuc.errors import Unsupported
from npuc.ir import Dim, DType, SymDim, TensorType, Value
from npuc.ir.symbolic import describe, smallest

if TYPE_CHECKING:
    from npuc.dialects.tosa.op_builder import OpBuilder

Attrs = Mapping[str, Any]
ChipPolicy = Callable[[str, Sequence[Value], Attrs, Sequence[TensorType]], "str | None"]

#: names under which level limits speak of the elements of list attributes
ELEMENTS_OF = {
    "kernel": ("kernel_y", "kernel_x"),
    "stride": ("stride_y", "stride_x"),
    "dilation": ("dilation_y", "dilation_x"),
    "pad": ("pad_top", "pad_bottom", "pad_left", "pad_right"),
    "out_pad": ("out_pad_top", "out_pad_bottom", "out_pad_left", "out_pad_right"),
    "scale": ("scale_y_n", "scale_y_d", "scale_x_n", "scale_x_d"),
}
ELEMENTS_OF_3D = {
    "stride": ("stride_d", "stride_y", "stride_x"),
    "dilation": ("dilation_d", "dilation_y", "dilation_x"),
    "pad": ("pad_d0", "pad_d1", "pad_top", "pad_bottom", "pad_left", "pad_right"),
}


#: unsigned integers are bits of the signed ones of their width: RESCALE has flags for them, and
#: data movement does not look at them
_SIGNED = {DType.UINT8: DType.INT8, DType.UINT16: DType.INT16}
_ANY_SIGN = frozenset({
    "RESCALE", "IDENTITY", "RESHAPE", "TRANSPOSE", "CONCAT", "SLICE", "REVERSE", "TILE", "GATHER",
})  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """Limits of a target. `chip` returns why the chip refuses an op that TOSA itself allows."""

    version: tuple[int, int] = (1, 0)
    profiles: frozenset[str] = frozenset({"PRO-INT", "PRO-FP"})
    extensions: frozenset[str] = frozenset()
    level: str = "8K"
    chip: ChipPolicy | None = None
    name: str = "tosa"
    _modes: dict[Any, str | None] = field(default_factory=dict, compare=False, repr=False)

    @property
    def dialect(self) -> str:
        return "tosa"

    @property
    def floats(self) -> bool:
        """Whether there is arithmetic on floats."""
        return "PRO-FP" in self.profiles

    @property
    def integers(self) -> bool:
        """Whether INT32 tensors are computed with, moved and compared."""
        return "PRO-INT" in self.profiles

    @property
    def has_int64(self) -> bool:
        """Whether the model's INT64 stays; otherwise INT32 carries it."""
        return "EXT-INT64" in self.extensions

    @property
    def has_int16(self) -> bool:
        """Whether values of 16 bits can stand between values of 8."""
        return "EXT-INT16" in self.extensions

    @property
    def has_control_flow(self) -> bool:
        """Whether branches and loops can be operators."""
        return "EXT-CONTROLFLOW" in self.extensions

    def op_builder(self) -> OpBuilder:
        """A builder for passes."""
        from npuc.dialects.tosa.op_builder import OpBuilder

        return OpBuilder(self)

    @property
    def offered(self) -> frozenset[str]:
        return self.profiles | self.extensions

    def check(
        self, name: str, operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
    ) -> None:
        """Raise Unsupported with the rule and its number when an op is outside the limits."""
        reason = self.reason(name, operands, attrs, results)
        if reason is not None:
            raise Unsupported(f"{name}: {reason}")

    def reason(
        self, name: str, operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
    ) -> str | None:
        """Why an op is outside the limits, or None."""
        definition = DEFINITIONS[name]
        key = (name, tuple([v.type.dtype for v in operands]), attrs.get("acc_type"),
               tuple([t.dtype for t in results]))  # fmt: skip
        if key not in self._modes:
            self._modes[key] = self._mode_reason(definition, operands, attrs, results)
        return (
            self._modes[key]
            or self._size_reason(operands, results)
            or self._level_reason(definition, operands, attrs, results)
            or (self.chip(name, operands, attrs, results) if self.chip else None)
        )

    def _mode_reason(
        self, definition: Definition, operands: Sequence[Value], attrs: Attrs,
        results: Sequence[TensorType],
    ) -> str | None:  # fmt: skip
        bound = bind(definition, [v.type for v in operands], attrs)
        for argument, type in zip(_spread(definition.outputs, len(results)), results):
            if (
                argument.element
                and bound.setdefault(argument.element, type.dtype) is not type.dtype
            ):
                raise InvalidOp(f"{definition.name}: result {argument.name} is {type.dtype.name}")
        if definition.name in _ANY_SIGN:
            bound = {k: _SIGNED.get(d, d) for k, d in bound.items()}
        modes = matching_modes(definition, bound)
        types = ", ".join(dict.fromkeys(d.name for k, d in bound.items() if d is not DType.SHAPE))
        if not modes:
            return f"TOSA has no {definition.name} for {types}"
        in_time = [m for m in modes if m.since <= self.version]
        if not in_time:
            major, minor = min(m.since for m in modes)
            return f"{types} needs TOSA {major}.{minor}"
        if any(need <= self.offered for m in in_time for need in m.any_of_all):
            return None
        needs = [sorted(n - self.offered) for m in in_time for n in m.any_of_all]
        missing = " or ".join(dict.fromkeys(" and ".join(n) for n in needs))
        return f"{types} needs {missing}, which {self.name} does not have"

    def _size_reason(self, operands: Sequence[Value], results: Sequence[TensorType]) -> str | None:
        level = LEVELS["8K" if self.level == "8K" else "none"]
        most = 2 ** level["max_log2_size"] - 1
        for t in results:
            if t.rank > level["max_rank"] and t.dtype is not DType.SHAPE:
                return f"rank {t.rank} exceeds {level['max_rank']} (level {self.level})"
            nbytes = math.ceil(_worst(t.size) * t.dtype.itemsize)
            if nbytes > most:
                shape = "x".join(map(str, t.shape))
                size = f"{nbytes} bytes{_at_bounds(t)}"
                return f"tensor {shape} of {size} exceeds {most} (level {self.level})"
            if any(smallest(d) < 1 for d in t.shape) and t.dtype is not DType.SHAPE:
                return _empty(t)
        for v in operands:
            if v.type.rank > level["max_rank"]:
                return f"rank {v.type.rank} exceeds {level['max_rank']} (level {self.level})"
        return None

    def _level_reason(
        self, definition: Definition, operands: Sequence[Value], attrs: Attrs,
        results: Sequence[TensorType],
    ) -> str | None:  # fmt: skip
        rules = _level_rules(definition.name)
        if not rules:
            return None
        level = LEVELS["8K" if self.level == "8K" else "none"]
        names = _names(definition, operands, attrs, results)
        for text, code, limit in rules:
            most = level[limit.lower()]
            try:
                value = max(_evaluated(code, n) for n in _corners(names))
            except (NameError, TypeError):
                continue  # a function that only the specification knows
            if value > most:
                return f"{text} is {value:g}, above {limit} {most} (level {self.level})"
        return None


def _evaluated(code: CodeType, names: Mapping[str, Any]) -> Any:
    return eval(code, {"__builtins__": {}}, names)


def _corners(names: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The names with symbolic sizes at the ends of their bounds; at the lower ones where there is
    no upper one. What the rules ask for is monotonic in each size."""
    symbols = dict.fromkeys(s for d in names.values() if isinstance(d, SymDim) for s in d.symbols)
    if not symbols:
        return [dict(names)]
    ends = [(s.lo, s.lo if s.hi is None else s.hi) for s in symbols]
    corners = [dict(zip([s.name for s in symbols], c)) for c in itertools.product(*ends)]
    return [{k: d.at(c) if isinstance(d, SymDim) else d for k, d in names.items()} for c in corners]


def _at_bounds(type: TensorType) -> str:
    """` with height (4..64)`, for a type of open sizes."""
    symbols = dict.fromkeys(s for d in type.shape if isinstance(d, SymDim) for s in d.symbols)
    return f" with {' and '.join(map(describe, symbols))}" if symbols else ""


def _worst(size: Dim) -> int:
    """The largest that a size can be; the smallest where it has no upper bound."""
    if isinstance(size, SymDim):
        return size.lo if size.hi is None else size.hi
    return size


def _empty(type: TensorType) -> str:
    sizes = [d for d in type.shape if isinstance(d, SymDim) and d.lo < 1]
    symbols = dict.fromkeys(describe(s) for d in sizes for s in d.symbols)
    why = f"can be empty, with {' and '.join(symbols)}" if sizes else "is empty"
    return f"tensor {type.shape} {why}; TOSA has no tensors without elements"


@cache
def _level_rules(name: str) -> list[tuple[str, CodeType, str]]:
    """Level rules other than ranks: (text, compiled expression, limit)."""
    rules = []
    definition = DEFINITIONS[name]
    for a in (*definition.inputs, *definition.attributes, *definition.outputs):
        for text, limit in a.level_limits:
            if text.startswith("rank("):
                continue
            source = re.sub(r"length\((?:tensor_list_shape\()?(\w+)\)?\)", r"length_\1", text)
            rules.append((text, compile(source.strip(), name, "eval"), limit))
    return rules


def _names(
    definition: Definition, operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> dict[str, Any]:
    names: dict[str, Any] = {}
    elements = ELEMENTS_OF | ELEMENTS_OF_3D if definition.name == "CONV3D" else ELEMENTS_OF
    arguments = _spread(definition.inputs, len(operands))
    for argument, value in zip(arguments, operands):
        _name_dims(argument, value.type, names)
        length = f"length_{argument.name}"
        names[length] = names.get(length, 0) + 1 if argument.is_list else value.type.shape[:1]
        if argument.is_shape and not argument.is_list:
            names[length] = value.type.shape[0] if value.type.shape else 0
            names.update(zip(elements.get(argument.name, ()), contents(value)))
    for argument, type in zip(_spread(definition.outputs, len(results)), results):
        _name_dims(argument, type, names)
        if argument.is_list:
            names[f"length_{argument.name}"] = len(results)
        elif argument.is_shape:
            names[f"length_{argument.name}"] = type.shape[0] if type.shape else 0
    for key, value in attrs.items():
        if key in elements:
            names.update(zip(elements[key], value))
    return names


def _name_dims(argument: Argument, type: TensorType, names: dict[str, Any]) -> None:
    for dim, size in zip(argument.shape.strip("[]").split(","), type.shape):
        if dim.isidentifier() and argument.shape.startswith("["):
            names.setdefault(dim, size)
