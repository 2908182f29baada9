"""The TFLite dialect: what it says LiteRT has kernels for, LiteRT runs; rules that break are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npuc.dialects.tflite import (
    DEFINITIONS,
    QUANTIZED,
    InvalidOp,
    TfliteLimits,
    TfliteOpBuilder,
    fixed_quant,
    lowest_version,
    runtime_of,
    same_padding,
)
from npuc.dialects.tflite.versions import BY_TYPE, RULES, RUNTIMES
from npuc.errors import Unsupported
from npuc.execute.tflite import run_tflite
from npuc.ir import DType, Quant, TensorType, Value
from npuc.serialize.tflite_flatbuffer import serialize

rng = np.random.default_rng(6)
IMAGE = (1, 4, 4, 4)
#: operator -> shapes of operands and attributes; others take (3, 4) and none
FORMS: dict[str, dict[str, Any]] = {
    "CONV_2D": {"shapes": [(1, 8, 8, 4), (6, 3, 3, 4), (6,)]},
    "DEPTHWISE_CONV_2D": {"shapes": [(1, 8, 8, 4), (1, 3, 3, 8), (8,)], "depth_multiplier": 2},
    "TRANSPOSE_CONV": {"shapes": [(6, 3, 3, 4), (1, 8, 8, 4), (6,)], "output_shape": (1, 17, 17, 6), "stride": (2, 2)},
    "CONV_3D": {"shapes": [(1, 5, 5, 5, 4), (3, 3, 3, 4, 6), (6,)]},
    "FULLY_CONNECTED": {"shapes": [(2, 8), (6, 8), (6,)]},
    "BATCH_MATMUL": {"shapes": [(2, 3, 4), (2, 4, 5)]},
    "AVERAGE_POOL_2D": {"shapes": [IMAGE], "kernel": (2, 2), "stride": (2, 2)},
    "MAX_POOL_2D": {"shapes": [IMAGE], "kernel": (2, 2), "stride": (2, 2)},
    "RESIZE_BILINEAR": {"shapes": [IMAGE], "size": (8, 8)},
    "RESIZE_NEAREST_NEIGHBOR": {"shapes": [IMAGE], "size": (8, 8)},
    "PRELU": {"shapes": [(1, 4, 4, 3), (1, 1, 3)]}, "LEAKY_RELU": {"alpha": 0.1},
    "RESHAPE": {"shape": (12,)}, "TRANSPOSE": {"perms": (1, 0)}, "SLICE": {"begin": (0, 1), "size": (2, 1)},
    "STRIDED_SLICE": {"begin": (0, 0), "end": (3, 4), "strides": (2, 2)},
    "CONCATENATION": {"shapes": [(3, 4)] * 2, "axis": 0}, "PAD": {"paddings": (1, 1, 0, 2)},
    "PADV2": {"shapes": [(3, 4), (1,)], "paddings": (1, 1, 0, 2)}, "MIRROR_PAD": {"paddings": (1, 1, 0, 2)},
    "TILE": {"multiples": (2, 1)}, "BROADCAST_TO": {"shapes": [(1, 4)], "shape": (3, 4)},
    "REVERSE_V2": {"axes": (1,)}, "GATHER": {"shapes": [(3, 4), (5,)]}, "GATHER_ND": {"shapes": [(3, 4), (2, 1)]},
    "SCATTER_ND": {"shapes": [(2, 1), (2, 4)], "shape": (3, 4)},
    "SPACE_TO_DEPTH": {"shapes": [IMAGE], "block_size": 2}, "DEPTH_TO_SPACE": {"shapes": [IMAGE], "block_size": 2},
    "CUMSUM": {"axis": 1}, "TOPK_V2": {"k": (2,)}, "ARG_MAX": {"axis": 1}, "ARG_MIN": {"axis": 1},
    **{name: {"axes": (1,)} for name in (
        "MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL")},
}  # fmt: skip
#: operands that are constants
CONSTANT = {
    "CONV_2D": (1, 2), "DEPTHWISE_CONV_2D": (1, 2), "TRANSPOSE_CONV": (0, 2), "CONV_3D": (1, 2),
    "FULLY_CONNECTED": (1, 2),
}  # fmt: skip
INDICES = {"GATHER": 1, "GATHER_ND": 1, "SCATTER_ND": 0}
SIGNATURES = [
    (name, operands, result)
    for name, definition in DEFINITIONS.items()
    for operands, result in sorted(definition.signatures, key=str)
]


def quant_of(dtype: DType) -> Quant | None:
    zero = 0 if dtype is DType.INT16 else 3
    return Quant(0.04, zero, None, *dtype.range) if dtype in QUANTIZED else None


def data(name: str, place: int, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    if INDICES.get(name) == place:
        return (
            rng.permutation(3)[: shape[0]]
            .reshape(shape[0], *[1] * (len(shape) - 1))
            .astype(np.int32)
            if (shape[0] <= 3)
            else np.zeros(shape, np.int32)
        )
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape) > 0
    if dtype.is_float:
        return rng.uniform(0.1, 2, shape).astype(np.float32)
    return rng.integers(
        10 if dtype in QUANTIZED else 1, 12 if dtype in QUANTIZED else 4, shape
    ).astype(dtype.numpy)


@pytest.mark.parametrize(
    "name, operands, result", SIGNATURES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_litert_runs_every_signature(name: str, operands: tuple[DType, ...], result: DType) -> None:
    form = dict(FORMS.get(name, {}))
    shapes = form.pop("shapes", [(3, 4)] * len(operands))
    operands = operands * len(shapes) if DEFINITIONS[name].is_variadic else operands
    b, values, feeds = TfliteOpBuilder(TfliteLimits()), [], []
    for i, (dtype, shape) in enumerate(zip(operands, shapes, strict=True)):
        quant = quant_of(dtype)
        constant = i in CONSTANT.get(name, ())
        if constant and not dtype.is_float:
            quant = Quant(0.04 * 0.01, 0) if i == 2 else Quant(0.01, 0)
        array = data(name, i, dtype, shape)
        if constant:
            values.append(
                b.const(np.minimum(array, 7) if dtype is DType.INT4 else array, dtype, quant)
            )
            continue
        values.append(b.input(TensorType(dtype, shape, quant), f"x{i}"))
        feeds.append(array)
    kind = DEFINITIONS[name].quant.partition(":")[0]
    quant = quant_of(result) if kind in ("own", "convert", "weights") else None
    if name in ("CAST", "QUANTIZE", "DEQUANTIZE"):
        form["dtype"] = result
    made = b.tflite(name, *values, quant=quant, **form)
    outputs = made if isinstance(made, tuple) else (made,)
    found = run_tflite(serialize(b.finish(outputs)), feeds)
    assert [f.shape for f in found] == [o.type.shape for o in outputs]
    assert found[0].dtype == result.numpy


def test_every_operator_has_a_version_and_runtime() -> None:
    known = set(DEFINITIONS)
    assert set(BY_TYPE) <= known and set(RULES) <= known and set(RUNTIMES) == known
    assert runtime_of("CONV_2D", 3) == (1, 14, 0)
    assert runtime_of("CONV_2D", 99) == ()


def test_lowest_versions() -> None:
    f, i8, i16 = (
        TensorType(d, (1, 2, 3, 4), quant_of(d)) for d in (DType.FP32, DType.INT8, DType.INT16)
    )
    adds = {"activation": "NONE"}
    assert [lowest_version("ADD", (t, t), adds, (t,)) for t in (f, i8, i16)] == [1, 2, 3]
    fc = {"keep_num_dims": False, "activation": "NONE"}
    assert lowest_version("FULLY_CONNECTED", (i8, i8, i8), fc, (i8,)) == 4
    assert (
        lowest_version("FULLY_CONNECTED", (i8, i8, i8), {**fc, "keep_num_dims": True}, (i8,)) == 5
    )
    assert lowest_version("FULLY_CONNECTED", (i8, i8), fc, (i8,)) == 6
    five = TensorType(DType.INT8, (1, 2, 3, 4, 5), quant_of(DType.INT8))
    assert lowest_version("TRANSPOSE", (five,), {"perms": (0, 2, 1, 3, 4)}, (five,)) == 4
    coarse = i8.with_(quant=Quant(4.0, 0))
    assert lowest_version("MUL", (coarse, coarse), adds, (i8,)) == 3


def test_fixed_parameters() -> None:
    assert fixed_quant("SOFTMAX", DType.INT8) == Quant(1 / 256, -128)
    assert fixed_quant("TANH", DType.INT8) == Quant(1 / 128, 0)
    assert fixed_quant("LOG_SOFTMAX", DType.INT8) == Quant(16 / 256, 127)
    assert fixed_quant("LOGISTIC", DType.INT16) == Quant(2.0**-15, 0, None, -(2**15), 2**15 - 1)
    assert fixed_quant("LOGISTIC", DType.FP32) is None and fixed_quant("ADD", DType.INT8) is None


def test_same_padding() -> None:
    assert same_padding(8, 3, 1, 1) == (1, 1)
    assert same_padding(8, 3, 2, 1) == (0, 1)
    assert same_padding(9, 3, 2, 1) == (1, 1)
    assert same_padding(8, 1, 2, 1) == (0, 0)


def value(dtype: DType, shape: tuple[int, ...] = (3, 4), quant: Quant | None = None) -> Value:
    return Value(TensorType(dtype, shape, quant or quant_of(dtype)))


def test_rules_of_parameters() -> None:
    b = TfliteOpBuilder(TfliteLimits())
    x, other = value(DType.INT8), value(DType.INT8, quant=Quant(0.1, 0))
    with pytest.raises(InvalidOp, match="have to be the same"):
        b.MAXIMUM(x, other)
    with pytest.raises(InvalidOp, match="the kernel gives"):
        b.LOGISTIC(x, quant=Quant(0.01, 0))
    with pytest.raises(InvalidOp, match="not quantized"):
        b.ADD(x, x)
    with pytest.raises(InvalidOp, match="zero point"):
        b.ADD(
            *[value(DType.INT16, quant=Quant(0.1, 5, None, -(2**15), 2**15 - 1))] * 2,
            quant=quant_of(DType.INT16),
        )
    w = b.const(np.ones((6, 4), np.int8), quant=Quant(0.01, 1))
    with pytest.raises(InvalidOp, match="symmetrically"):
        b.FULLY_CONNECTED(x, w, quant=Quant(0.1, 0))
    w = b.const(np.ones((6, 4), np.int8), quant=Quant(0.01, 0))
    bias = b.const(np.ones(6, np.int32), quant=Quant(0.01, 0))
    with pytest.raises(InvalidOp, match="bias scale"):
        b.FULLY_CONNECTED(x, w, bias, quant=Quant(0.1, 0))


def test_shapes_that_do_not_fit() -> None:
    b = TfliteOpBuilder(TfliteLimits())
    x = value(DType.FP32)
    for emit in (
        lambda: b.ADD(x, value(DType.FP32, (5,))), lambda: b.RESHAPE(x, shape=(5, 5)),
        lambda: b.TRANSPOSE(x, perms=(0, 0)), lambda: b.SLICE(x, begin=(0, 3), size=(1, 3)),
        lambda: b.BATCH_MATMUL(x, x), lambda: b.MEAN(x, axes=(4,)), lambda: b.RESHAPE(x),
        lambda: b.CONCATENATION(x, value(DType.FP32, (2, 5)), axis=0),
    ):  # fmt: skip
        with pytest.raises(InvalidOp):
            emit()


def test_limits_name_the_reason() -> None:
    b = TfliteOpBuilder(TfliteLimits())
    for emit, text in (
        (lambda: b.SIN(value(DType.FP16)), "no kernel for FP16"),
        (lambda: b.PAD(value(DType.FP32, (1,) * 6), paddings=(1,) * 12), "rank 6 exceeds 5"),
        (lambda: b.ABS(value(DType.FP32, (0, 3))), "is empty"),
        (lambda: b.ADD(value(DType.INT16, quant=Quant(1.0, 0)), value(DType.INT16), quant=Quant(1e-6, 0)),
         "more than 2**14 times"),
    ):  # fmt: skip
        with pytest.raises(Unsupported, match=text.replace("*", r"\*")):
            emit()
    ints = TfliteOpBuilder(TfliteLimits("small", floats=False))
    with pytest.raises(Unsupported, match="small takes no operators on floats"):
        ints.SIN(value(DType.FP32))
    assert (
        ints.QUANTIZE(value(DType.FP32), dtype=DType.INT8, quant=Quant(0.1, 0)).type.dtype
        is DType.INT8
    )
