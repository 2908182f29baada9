"""Runs one aten op through its lowering rule and compares the result with PyTorch.

    check_op("aten.add.Tensor", (given(x, quant=qx), given(y, quant=qy)), torch.add,
             kwargs={"alpha": 1}, out_quant=qo, limits=TOSA_INT)

Tensors stand in `args` where the op has them. Quantized ones are given as real values: they are
quantized for the graph, and PyTorch gets what the stored integers mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from npuc.dialects.tosa import Limits
from npuc.errors import Unsupported
from npuc.ir import Builder, DType, Graph, Loc, Quant, TensorType, Value, pack
from npuc.lowering.lower import lower
from npuc.targets.catalogue import find_target

torch.set_num_threads(1)


def _preset(name: str) -> Limits:
    target = find_target(name)
    FAMILIES[name] = target.families
    return target.limits


def _ethos_u(name: str, *families: str) -> Limits:
    try:
        return _preset(name)
    except ImportError:  # the chip policy has not landed yet
        FAMILIES[name] = (*families, "ethos-u")
        extensions = frozenset({"EXT-INT16", "EXT-INT4"})
        return Limits((1, 0), frozenset({"PRO-INT"}), extensions, name=name)


#: target name -> families of its overrides
FAMILIES: dict[str, tuple[str, ...]] = {}

TOSA_FP = _preset("tosa-1.0+fp")
TOSA_BF16 = _preset("tosa-1.0+fp+bf16")
TOSA_INT = _preset("tosa-1.0+int")
TOSA_INT16 = _preset("tosa-1.0+int+int16+int4")
TOSA_ALL = _preset("tosa-1.0+int+fp+int16+int4+bf16")
U55 = _ethos_u("ethos-u55-128", "ethos-u55")
U85 = _ethos_u("ethos-u85-256", "ethos-u85")

#: largest error of float results, relative to the largest magnitude among them
TOLERANCE = {DType.FP64: 2e-6, DType.FP32: 2e-6, DType.FP16: 3e-3, DType.BF16: 2e-2}


@dataclass(frozen=True)
class Tensor:
    """A tensor argument: real values (or integers, booleans), how they are stored, constant or not."""

    array: np.ndarray
    type: TensorType
    const: bool

    @property
    def stored(self) -> np.ndarray:
        """The data as the aten graph has it."""
        quant = self.type.quant
        codes = self.array if quant is None else quant.quantize(self.array)
        return np.asarray(codes).astype(self.type.dtype.numpy)

    @property
    def fed(self) -> np.ndarray:
        """The data as the lowered graph takes it."""
        narrow = {DType.INT64: np.int32, DType.FP64: np.float32}.get(self.type.dtype)
        return self.stored if narrow is None else self.stored.astype(narrow)

    @property
    def meaning(self) -> torch.Tensor:
        """What the stored values mean: float64 when quantized, else float32 or the integers."""
        if self.type.quant is not None:
            return torch.from_numpy(np.asarray(self.type.quant.dequantize(self.stored)))
        if self.type.dtype.is_float:
            return torch.from_numpy(self.stored.astype(np.float64))
        return torch.from_numpy(self.stored)


def given(array: Any, quant: Quant | None = None, dtype: DType | None = None) -> Tensor:
    """A graph input. Floats default to FP32, quantized values to the type their range needs."""
    array = np.asarray(array)
    return Tensor(array, TensorType(dtype or _dtype(array, quant), array.shape, quant), False)


def constant(array: Any, quant: Quant | None = None, dtype: DType | None = None) -> Tensor:
    """A constant operand."""
    array = np.asarray(array)
    return Tensor(array, TensorType(dtype or _dtype(array, quant), array.shape, quant), True)


def _dtype(array: np.ndarray, quant: Quant | None) -> DType:
    if quant is not None:
        return _quantized_dtype(quant)
    return DType.FP32 if array.dtype.kind == "f" else DType.of(array.dtype)


def _quantized_dtype(quant: Quant) -> DType:
    if quant.qmin >= -128 and quant.qmax <= 127:
        return DType.INT8
    return DType.INT16 if quant.qmin >= -(2**15) and quant.qmax < 2**15 else DType.INT32


def int16(scale: float) -> Quant:
    """Symmetric 16-bit quantization."""
    return Quant(scale, 0, None, -(2**15), 2**15 - 1)


def quant_for(array: Any, bits: int = 8, symmetric: bool = False) -> Quant:
    """Parameters whose range just covers the values (and zero), as an observer finds them."""
    array = np.asarray(array, np.float64)
    lo, hi = min(float(array.min()), 0.0), max(float(array.max()), 1e-6)
    qmin, qmax = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    if symmetric or bits == 16:
        return Quant(max(-lo, hi) / qmax, 0, None, qmin, qmax)
    scale = (hi - lo) / (qmax - qmin)
    return Quant(scale, int(np.clip(round(qmin - lo / scale), qmin, qmax)), None, qmin, qmax)


def weight_quant(array: Any, axis: int | None = 0, bits: int = 8) -> Quant:
    """Symmetric parameters of a weight, per channel of `axis` or (None) per tensor."""
    array = np.asarray(array, np.float64)
    qmax = 2 ** (bits - 1) - 1
    if axis is None:
        return Quant(np.abs(array).max() / qmax, 0, None, -qmax - 1 if bits < 8 else -qmax, qmax)
    others = tuple(i for i in range(array.ndim) if i != axis)
    scale = np.maximum(np.abs(array).max(axis=others), 1e-9) / qmax
    return Quant(scale, 0, axis, -qmax - 1 if bits < 8 else -qmax, qmax)


def aten_graph(
    kind: str, args: Sequence[Any], kwargs: dict[str, Any], results: Sequence[TensorType]
) -> tuple[Graph, list[np.ndarray]]:
    """A graph of one aten op, and the arrays for its inputs."""
    builder, feeds = Builder(), []

    def place(argument: Any) -> Any:
        if isinstance(argument, Tensor):
            if argument.const:
                return builder.const(argument.stored, argument.type.dtype, argument.type.quant)
            feeds.append(argument.fed)
            return builder.input(argument.type, f"x{len(feeds)}")
        if isinstance(argument, (tuple, list)):
            return tuple(place(a) for a in argument)
        return argument

    operands, attrs = pack(place(tuple(args)), {k: place(v) for k, v in kwargs.items()})
    loc = Loc("model.py", 41, "features.3", "y", kind)
    values = builder.emit(kind, operands, attrs, results, (), loc)
    return builder.finish(values), feeds


def torch_result(
    args: Sequence[Any], kwargs: dict[str, Any], torch_fn: Callable[..., Any]
) -> list[Any]:
    """What PyTorch computes, as a list of numpy arrays."""

    def mean(argument: Any) -> Any:
        if isinstance(argument, Tensor):
            return argument.meaning
        if isinstance(argument, (tuple, list)):
            return type(argument)(mean(a) for a in argument)
        return argument

    out = torch_fn(*mean(tuple(args)), **{k: mean(v) for k, v in kwargs.items()})
    return [o.numpy() for o in (out if isinstance(out, (tuple, list)) else [out])]


def result_types(
    expected: Sequence[np.ndarray], args: Sequence[Any], out_quant: Any, out_dtype: Any
) -> list[TensorType]:
    """Types of the op's results: quantized, as given, or that of the float operands."""
    quants = out_quant if isinstance(out_quant, (list, tuple)) else [out_quant] * len(expected)
    dtypes = out_dtype if isinstance(out_dtype, (list, tuple)) else [out_dtype] * len(expected)
    floats = [t.type.dtype for t in _tensors(args) if t.type.dtype.is_float]
    types = []
    for array, quant, dtype in zip(expected, quants, dtypes, strict=True):
        if dtype is None and quant is not None:
            dtype = _quantized_dtype(quant)
        elif dtype is None:
            dtype = DType.of(array.dtype)
            dtype = (floats or [DType.FP32])[0] if dtype.is_float else dtype
        types.append(TensorType(dtype, array.shape, quant if dtype.is_integer else None))
    return types


def _tensors(args: Any) -> list[Tensor]:
    if isinstance(args, Tensor):
        return [args]
    if isinstance(args, (tuple, list)):
        return [t for a in args for t in _tensors(a)]
    return []


def lowered(
    kind: str, args: Sequence[Any], torch_fn: Callable[..., Any], *,
    kwargs: dict[str, Any] | None = None, out_quant: Any = None, out_dtype: Any = None,
    limits: Limits = TOSA_FP, families: Sequence[str] | None = None,
) -> Graph:  # fmt: skip
    """The TOSA graph of one op; raises Unsupported when its rule refuses."""
    graph, _, _ = _lowered(
        kind, args, torch_fn, kwargs or {}, out_quant, out_dtype, limits, families
    )
    return graph


def _lowered(
    kind: str, args: Sequence[Any], torch_fn: Callable[..., Any], kwargs: dict[str, Any],
    out_quant: Any, out_dtype: Any, limits: Limits, families: Sequence[str] | None,
) -> tuple[Graph, list[np.ndarray], list[tuple[np.ndarray, TensorType]]]:  # fmt: skip
    expected = torch_result(args, kwargs, torch_fn)
    types = result_types(expected, args, out_quant, out_dtype)
    graph, feeds = aten_graph(kind, args, kwargs, types)
    families = FAMILIES.get(limits.name, ()) if families is None else families
    result = lower(graph, limits, tuple(families))
    if result.reasons:
        raise Unsupported(result.reasons)
    return result.graph, feeds, list(zip(expected, types, strict=True))


def check_op(
    kind: str, args: Sequence[Any], torch_fn: Callable[..., Any], *,
    kwargs: dict[str, Any] | None = None, out_quant: Any = None, out_dtype: Any = None,
    limits: Limits = TOSA_FP, families: Sequence[str] | None = None, steps: float = 1,
    wrong: float = 1.0, tolerance: float | None = None,
    passes: Sequence[Callable[[Graph], Graph]] = (),
) -> Graph:  # fmt: skip
    """Lower, run and compare one op; returns the lowered graph.

    Quantized results may be off by `steps` from the rounded exact result, and at most the
    fraction `wrong` of them off at all. Float results differ by at most `tolerance` times the
    largest magnitude of the expected ones. Other results are equal.
    """
    graph, feeds, expected = _lowered(
        kind, args, torch_fn, kwargs or {}, out_quant, out_dtype, limits, families
    )
    for run_pass in passes:
        graph = run_pass(graph)
    for got, (want, type) in zip(run(graph, feeds), expected, strict=True):
        compare(kind, got, want, type, steps, wrong, tolerance)
    return graph


def run(graph: Graph, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a TOSA graph on the reference model; our evaluator has to agree."""
    from npuc.execute.reference_model import run_reference_model

    # on a target without BOOL tensors they are INT8 masks
    feeds = [
        np.asarray(f).astype(v.type.dtype.numpy) if np.asarray(f).dtype == bool else np.asarray(f)
        for f, v in zip(feeds, graph.inputs, strict=True)
    ]
    results = run_reference_model(serialize(graph), feeds)
    try:
        from npuc.execute.tosa import evaluate
    except ImportError:
        return results
    for ours, theirs in zip(evaluate(graph, feeds), results, strict=True):
        if theirs.dtype.kind in "iub":
            np.testing.assert_array_equal(ours, theirs, "our evaluator and the reference model")
    return results


def serialize(graph: Graph) -> bytes:
    """The TOSA file of a graph."""
    from npuc.serialize.tosa_flatbuffer import serialize as write

    return bytes(write(graph))


def compare(
    what: str, got: np.ndarray, want: np.ndarray, type: TensorType, steps: float = 1,
    wrong: float = 1.0, tolerance: float | None = None,
) -> None:  # fmt: skip
    """Assert that `got` (stored values) is `want` (real values) in the type's terms."""
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if type.quant is not None:
        codes = type.quant.quantize(want)
        off = np.where(np.isnan(want), 0, np.abs(got.astype(np.int64) - codes))  # any will do
        _fail_at(what, off > steps, got, codes, f"more than {steps} steps off (max {off.max()})")
        fraction = float(np.mean(off > 0))
        assert fraction <= wrong, f"{what}: {fraction:.2%} of the results are off by a step"
    elif type.dtype.is_float:
        got, want = got.astype(np.float64), want.astype(np.float64)
        finite = np.isfinite(want)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        bound = (tolerance or TOLERANCE[type.dtype]) * max(
            np.abs(want[finite]).max(initial=0), 1e-3
        )
        close = np.abs(np.where(finite, got - want, 0)) <= bound
        _fail_at(what, ~(same | (finite & close)), got, want, f"differs by more than {bound:.3g}")
    else:
        _fail_at(what, got != want, got, want, "differs")


def _fail_at(what: str, bad: np.ndarray, got: np.ndarray, want: np.ndarray, why: str) -> None:
    if np.any(bad):
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        count = f"{int(bad.sum())} of {bad.size}"
        raise AssertionError(
            f"{what}: {count} {why}, first at {at}: {got[at]}, expected {want[at]}"
        )


def refuses(
    kind: str, args: Sequence[Any], torch_fn: Callable[..., Any], text: str, **options: Any
) -> None:
    """Assert that the op's rule refuses with a reason that contains `text` and names the place."""
    with pytest.raises(Unsupported) as refusal:
        lowered(kind, args, torch_fn, **options)
    message = str(refusal.value)
    assert text in message, message
    assert "model.py:41 (features.3)" in message, message


def label(value: Any) -> str:
    """A short name for a parameter of a test."""
    if isinstance(value, Limits):
        return value.name
    return getattr(value, "__name__", None) or str(value).replace(" ", "")


def ops(graph: Graph) -> list[str]:
    """Names of the graph's operators in order, without constants."""
    return [op.name for op in graph.ops if op.kind != "const"]


def vela(graph: Graph, target: str = "ethos-u55-128") -> Any:
    """Compile with Vela: `.perf`, `.ops`, `.overhead`. Fails the test when Vela refuses."""
    from npuc.targets.vela import compile_vela

    return compile_vela(serialize(graph), target)


def values(graph: Graph) -> list[Value]:
    """All results in the graph."""
    return [r for op in graph.ops for r in op.results]
