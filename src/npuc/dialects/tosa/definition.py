"""TOSA operator definitions, read from the specification's tables (`tosa_ops.json`)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from npuc.ir import DType

#: type names of the specification -> element types
ELEMENT = {
    "bool_t": DType.BOOL, "i4_t": DType.INT4, "i8_t": DType.INT8, "i16_t": DType.INT16,
    "i32_t": DType.INT32, "i48_t": DType.INT48, "i64_t": DType.INT64, "fp16_t": DType.FP16,
    "bf16_t": DType.BF16, "fp32_t": DType.FP32, "fp8e4m3_t": DType.FP8E4M3,
    "fp8e5m2_t": DType.FP8E5M2, "fp8ue8m0_t": DType.FP8UE8M0, "fp6e2m3_t": DType.FP6E2M3,
    "fp6e3m2_t": DType.FP6E3M2, "fp4e2m1_t": DType.FP4E2M1, "mxint8_t": DType.MXINT8,
    "shape_t": DType.SHAPE,
}  # fmt: skip

#: values that attributes take when a caller does not give them
ATTRIBUTE_DEFAULTS: dict[str, Any] = {
    "nan_mode": "PROPAGATE", "local_bound": False, "input_unsigned": False,
    "output_unsigned": False, "scale32": True, "rounding_mode": "SINGLE_ROUND",
    "per_channel": False, "round": False, "dilation": (1, 1), "pad": (0, 0, 0, 0),
    "stride": (1, 1), "out_pad": (0, 0, 0, 0), "inverse": False, "allow_broadcast": False,
}  # fmt: skip


@dataclass(frozen=True)
class Argument:
    """An operand, attribute or result: its element variable, shape text, rank and level limits."""

    name: str
    type: str
    element: str | None
    shape: str
    rank: tuple[str, str] | None
    level_limits: tuple[tuple[str, str], ...]
    is_list: bool
    is_shape: bool
    constant: bool


@dataclass(frozen=True)
class Mode:
    """One allowed combination of element types, and what a target needs to offer for it."""

    name: str
    types: dict[str, DType]
    any_of_all: tuple[frozenset[str], ...]
    since: tuple[int, int]


@dataclass(frozen=True)
class Definition:
    """A TOSA operator."""

    name: str
    group: str
    inputs: tuple[Argument, ...]
    attributes: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    modes: tuple[Mode, ...]
    defaults: dict[str, Any] = field(default_factory=dict)


def _argument(data: dict[str, Any]) -> Argument:
    kind = data["type"]
    is_shape = kind in ("shape_t", "shape_list_t")
    element = (
        "shape_t" if is_shape else data.get("element") or ("bool_t" if kind == "bool_t" else None)
    )
    rank = data.get("rank")
    return Argument(
        name=data["name"],
        type=kind,
        element=element,
        shape=data["shape"],
        rank=tuple(rank) if rank else None,
        level_limits=tuple((a, b) for a, b in data.get("level_limits", ())),
        is_list=kind.endswith("list_t"),
        is_shape=is_shape,
        constant=bool(data.get("compile_time_constant")),
    )


def _mode(data: dict[str, Any]) -> Mode:
    major, minor = data["since"].split(".")
    types = {k: ELEMENT[v] for k, v in data["types"].items() if v in ELEMENT}
    needs = tuple(frozenset(x) for x in data["any_of_all"])
    return Mode(data["mode"], types, needs, (int(major), int(minor)))


def _definition(name: str, data: dict[str, Any]) -> Definition:
    by = {"input": [], "attribute": [], "output": []}  # type: dict[str, list[Argument]]
    for a in data["arguments"]:
        by[a["category"]].append(_argument(a))
    defaults = {
        a.name: ATTRIBUTE_DEFAULTS[a.name] for a in by["attribute"] if a.name in ATTRIBUTE_DEFAULTS
    }
    if name == "CONV3D":
        defaults |= {"dilation": (1, 1, 1), "stride": (1, 1, 1), "pad": (0, 0, 0, 0, 0, 0)}
    closed = [m for m in data["modes"] if not any("DEDUCE-EXT" in s for s in m["any_of_all"])]
    listed = [mode for m in closed for mode in _spelled_out(_mode(m))]
    modes = tuple(listed + _deduced(name))
    return Definition(name, data["group"], tuple(by["input"]), tuple(by["attribute"]),
                      tuple(by["output"]), modes, defaults)  # fmt: skip


def _spelled_out(mode: Mode) -> list[Mode]:
    """The modes of CAST that the table gives by classes of types, one for each pair of types."""
    if mode.name not in _CAST_CLASSES:
        return [mode]
    sources, results = _CAST_CLASSES[mode.name]
    return [replace(mode, types={"in_t": a, "out_t": b}) for a in sources for b in results]


def _deduced(name: str) -> list[Mode]:
    """Modes whose needs the table leaves to be deduced from the types ("DEDUCE-EXT").

    Of these npuc has the casts to and from fp8 and ROW_GATHER; mixed-precision accumulation and
    block-scaled data movement are open in the 1.1 draft.
    """
    if name == "CAST":
        pairs = [(a, b) for a in _NEEDS if a.bits > 8 for b in _NEEDS if b.bits == 8]
        both = pairs + [(b, a) for a, b in pairs]
        return [
            Mode(f"{a.name} to {b.name}", {"in_t": a, "out_t": b}, (_NEEDS[a] | _NEEDS[b],), (1, 0))
            for a, b in both
        ]
    if name == "ROW_GATHER":
        integers = {d: frozenset({"PRO-INT"}) for d in (DType.INT8, DType.INT16, DType.INT32)}
        return [
            Mode(d.name, {"in_out_t": d, "index_t": DType.INT32}, (needs,), (1, 1))
            for d, needs in (integers | _NEEDS).items()
        ]
    return []


_SIGNED = (DType.INT8, DType.INT16, DType.INT32)
_REAL = (DType.FP16, DType.FP32)
#: name of a mode of CAST -> element types of the operand and of the result
_CAST_CLASSES = {
    "bool to signed": ((DType.BOOL,), _SIGNED),
    "signed to bool": (_SIGNED, (DType.BOOL,)),
    "signed 64 to bool/i32": ((DType.INT64,), (DType.BOOL, DType.INT32)),
    "signed 8 to signed wider": ((DType.INT8,), (DType.INT16, DType.INT32)),
    "signed 16 to signed 8/32": ((DType.INT16,), (DType.INT8, DType.INT32)),
    "signed 32 to signed narrower": ((DType.INT32,), (DType.INT8, DType.INT16)),
    "signed to fp16/fp32": (_SIGNED, _REAL),
    "fp16/fp32 to signed": (_REAL, _SIGNED),
    "to bf16": ((*_SIGNED, DType.FP32), (DType.BF16,)),
    "bf16 to signed/fp32": ((DType.BF16,), (*_SIGNED, DType.FP32)),
}
_NEEDS = {
    DType.FP32: frozenset({"PRO-FP"}),
    DType.FP16: frozenset({"PRO-FP"}),
    DType.BF16: frozenset({"EXT-BF16"}),
    DType.FP8E4M3: frozenset({"EXT-FP8E4M3"}),
    DType.FP8E5M2: frozenset({"EXT-FP8E5M2"}),
}


def _load() -> tuple[dict[str, Definition], dict[str, dict[str, int]], dict[str, list[str]]]:
    data = json.loads((Path(__file__).parent / "tosa_ops.json").read_text())
    return (
        {n: _definition(n, d) for n, d in data["operators"].items()},
        data["levels"],
        data["extensions"],
    )


DEFINITIONS, LEVELS, EXTENSIONS = _load()
