"""Normalizations: within a step on integers for rows of any spread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from npuc.dialects.tosa import Limits
from npuc.ir import DType, Graph, Quant
from npuc.passes.separate_rescales import separate_rescales
from tests.lowering.harness import (
    TOLERANCE,
    TOSA_BF16,
    TOSA_FP,
    TOSA_INT,
    TOSA_INT16,
    U55,
    U85,
    check_op,
    constant,
    given,
    label,
    lowered,
    ops,
    quant_for,
    refuses,
    torch_result,
    vela,
)

INTEGERS = pytest.mark.parametrize("limits", [TOSA_INT, TOSA_INT16, U55, U85], ids=label)
FLOATS = pytest.mark.parametrize(
    ("limits", "dtype"),
    [(TOSA_FP, DType.FP32), (TOSA_FP, DType.FP16), (TOSA_BF16, DType.BF16)],
    ids=label,
)


def layer_norm(x: torch.Tensor, shape: Any, w: Any, bias: Any, eps: float) -> torch.Tensor:
    return F.layer_norm(x, shape, w, bias, eps)


def rms_norm(x: torch.Tensor, shape: Any, w: Any, eps: float | None) -> torch.Tensor:
    return F.rms_norm(x, shape, w, eps)


def group_norm(x: torch.Tensor, groups: int, w: Any, bias: Any, eps: float) -> torch.Tensor:
    return F.group_norm(x, groups, w, bias, eps)


def batch_norm(x: torch.Tensor, w: Any, bias: Any, mean: Any, var: Any, eps: float) -> torch.Tensor:
    return F.batch_norm(x, mean, var, w, bias, False, 0.0, eps)


def vector(shape: Any, spread: float = 0.3, middle: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(np.prod(shape))
    return (rng.normal(size=shape) * spread + middle).astype(np.float32)


POSITIVE = np.abs(vector(12)) + 0.1
#: function, shape of x, arguments behind x (arrays are constants)
CASES = [
    (layer_norm, (64, 256), ((256,), vector(256), vector(256, 0.3, 0), 1e-5)),
    (layer_norm, (2, 5, 768), ((768,), vector(768), vector(768, 0.3, 0), 1e-5)),
    (layer_norm, (2, 5, 96), ((96,), vector(96, 1, 0), None, 1e-5)),
    (layer_norm, (2, 5, 96), ((96,), None, vector(96, 1, 0), 1e-12)),
    (layer_norm, (4, 16), ((16,), None, None, 1e-5)),
    (layer_norm, (2, 3, 7, 9), ((7, 9), vector((7, 9)), vector((7, 9), 0.3, 0), 1e-5)),
    (layer_norm, (3, 2, 4096), ((4096,), vector(4096), vector(4096, 0.3, 0), 1e-5)),
    (rms_norm, (3, 4, 256), ((256,), vector(256), 1e-6)),
    (rms_norm, (3, 4, 64), ((64,), None, None)),
    (group_norm, (1, 12, 7, 9), (3, vector(12), vector(12, 0.3, 0), 1e-5)),
    (group_norm, (2, 12, 7, 9), (12, vector(12), vector(12, 0.3, 0), 1e-5)),
    (group_norm, (1, 4, 120, 100), (4, None, None, 1e-5)),
    (group_norm, (1, 4, 2000), (2, None, None, 1e-5)),
    (group_norm, (2, 12), (2, vector(12), None, 1e-5)),
    (batch_norm, (2, 12, 7, 9), (vector(12), vector(12), vector(12, 1), POSITIVE, 1e-5)),
    (batch_norm, (2, 12, 7), (None, None, vector(12, 1), POSITIVE, 1e-5)),
    (batch_norm, (5, 12), (None, vector(12), vector(12, 1), POSITIVE, 1e-5)),
    (batch_norm, (1, 12, 2, 3, 4), (vector(12), vector(12), vector(12, 1), POSITIVE, 1e-5)),
]
ALL = pytest.mark.parametrize(("fn", "shape", "rest"), CASES, ids=[
    f"{fn.__name__}-{'x'.join(map(str, shape))}-{i}" for i, (fn, shape, _) in enumerate(CASES)
])  # fmt: skip


def rows(shape: tuple[int, ...]) -> np.ndarray:
    """Rows whose spread and mean differ by a factor of 60: some vary by about one step."""
    rng = np.random.default_rng(len(shape))
    inner = (*shape[:-1], 1)
    return rng.normal(size=shape) * rng.uniform(0.05, 3, inner) + rng.normal(size=inner)


def check(
    fn: Any, shape: tuple[int, ...], rest: Any, limits: Limits, bits: int = 8,
    x: np.ndarray | None = None, **options: Any,
) -> Graph:  # fmt: skip
    x = rows(shape) if x is None else x
    constants = [constant(r) if isinstance(r, np.ndarray) else r for r in rest]
    args = (given(x, quant_for(x, bits)), *constants)
    want = torch_result(args, {}, fn)[0]
    out = quant_for(want if fn is batch_norm else np.clip(want, -5, 5), bits)
    return check_op(f"aten.{fn.__name__}", args, fn, out_quant=out, limits=limits, **options)


@INTEGERS
@ALL
def test_int8(fn, shape, rest, limits: Limits) -> None:
    graph = check(fn, shape, rest, limits)
    if limits in (U55, U85):
        vela(graph, limits.name)


@pytest.mark.parametrize("limits", [TOSA_INT16, U55, U85], ids=label)
@pytest.mark.parametrize("index", [0, 1, 4, 7, 9, 11])
def test_16_bit_input_and_8_bit_result(index: int, limits: Limits) -> None:
    """A residual stream of 16 bits. Rows that vary by less than 60 of its steps are left out:
    they are as precise as their input."""
    fn, shape, rest = CASES[index]
    x = np.random.default_rng(index).normal(size=shape)
    x.reshape(-1, shape[-1])[0, 1] = 40.0
    constants = [constant(r) if isinstance(r, np.ndarray) else r for r in rest]
    args = (given(x, quant_for(x, 16)), *constants)
    out = quant_for(np.clip(torch_result(args, {}, fn)[0], -5, 5))
    graph = check_op(f"aten.{fn.__name__}", args, fn, out_quant=out, limits=limits)
    full = [v for op in graph.ops for v in op.results if v.type.size == x.size]
    assert not [v for v in full if v.type.dtype is DType.INT32 and v.op.name == "RESCALE"
                and v.op.operands[0].type.dtype is DType.INT32]  # fmt: skip


@ALL
def test_int16(fn, shape, rest) -> None:
    check(fn, shape, rest, TOSA_INT16, bits=16, steps=6)


@FLOATS
@ALL
def test_floats(fn, shape, rest, limits: Limits, dtype: DType) -> None:
    constants = [constant(r, dtype=dtype) if isinstance(r, np.ndarray) else r for r in rest]
    args = (given(rows(shape), dtype=dtype), *constants)
    tolerance = 3 * TOLERANCE[dtype]
    if fn is rms_norm and rest[-1] is None:  # PyTorch's default eps is that of the element type
        constants[-1] = {DType.FP32: 2.0**-23, DType.FP16: 2.0**-10, DType.BF16: 2.0**-7}[dtype]
        want = torch_result((args[0], *constants), {}, fn)[0]

        def fn_of_type(*_: Any) -> torch.Tensor:
            return torch.from_numpy(want)

        check_op("aten.rms_norm", args, fn_of_type, limits=limits, tolerance=tolerance)
        return
    check_op(f"aten.{fn.__name__}", args, fn, limits=limits, tolerance=tolerance)


@INTEGERS
@pytest.mark.parametrize("case", ["constant rows", "one outlier", "large mean", "tiny steps"])
def test_difficult_rows(case: str, limits: Limits) -> None:
    rng = np.random.default_rng(0)
    x = {
        "constant rows": np.repeat(rng.normal(size=(8, 1)), 64, 1),
        "one outlier": np.where(np.arange(64) == 5, 40.0, rng.normal(size=(8, 64))),
        "large mean": 30 + rng.normal(size=(8, 64)),
        "tiny steps": rng.normal(size=(8, 64)) * 1e-4,  # eps is larger than the variance
    }[case]
    rest = ((64,), vector(64), vector(64, 0.3, 0), 1e-5)
    check(layer_norm, (8, 64), rest, limits, x=x)


@pytest.mark.parametrize("affine", [False, True])
def test_cycles_of_64_rows_of_256(affine: bool) -> None:
    x = rows((1, 64, 256))
    gamma, beta = (constant(vector(256)), constant(vector(256, 0.3, 0))) if affine else (None, None)
    args = (given(x, quant_for(x)), (256,), gamma, beta, 1e-5)
    for limits, most in ((U55, 106_000 if affine else 93_000), (U85, 37_000 if affine else 29_000)):
        graph = lowered("aten.layer_norm", args, layer_norm, out_quant=Quant(0.03), limits=limits)
        cycles = vela(separate_rescales(graph, limits), limits.name).perf["total_cycles"]
        assert cycles <= most, (limits.name, cycles)


def test_quantized_batch_norm_is_one_depthwise_convolution() -> None:
    graph = check(*CASES[14], U55)
    assert [n for n in ops(graph) if n not in ("TRANSPOSE", "RESHAPE")] == [
        "DEPTHWISE_CONV2D",
        "RESCALE",
    ]


def test_float_batch_norm_is_a_product_and_a_sum() -> None:
    fn, shape, rest = CASES[14]
    args = (given(rows(shape)), *(constant(r) if isinstance(r, np.ndarray) else r for r in rest))
    assert ops(lowered("aten.batch_norm", args, fn)) == ["MUL", "ADD"]


def test_refusals() -> None:
    x = rows((4, 8))
    args = (given(x, quant_for(x)), (8,), given(np.ones(8, np.float32)), None, 1e-5)
    refuses("aten.layer_norm", args, layer_norm, "gamma or beta of the normalization is computed",
            out_quant=Quant(0.03), limits=TOSA_INT)  # fmt: skip
    args = (given(x.astype(np.float32)), (8,), None, None, 1e-5)
    refuses("aten.layer_norm", args, layer_norm, "PRO-FP", limits=TOSA_INT)
