"""Limits: types by profile, extension and version; ranks, levels and sizes, with their numbers."""

import numpy as np
import pytest

from npuc.dialects.tosa import DEFINITIONS, InvalidOp, Limits, infer
from npuc.errors import Unsupported
from npuc.ir import DType, SymDim, TensorType
from npuc.lowering.tosa_builder import TosaBuilder

INT = Limits(profiles=frozenset({"PRO-INT"}), name="tosa-1.0+int")
FP = Limits(profiles=frozenset({"PRO-FP"}), name="tosa-1.0+fp")
NONE = Limits(level="none")


def value(b, dtype, *shape):
    return b.input(TensorType(dtype, shape))


def conv(b, x, w, **attrs):
    acc = {DType.INT8: DType.INT32, DType.INT16: DType.INT48}.get(x.type.dtype, DType.FP32)
    out = w.type.shape[0]
    bias_type = acc if x.type.dtype.is_integer else x.type.dtype
    bias = b.const(np.zeros(out, bias_type.numpy), bias_type)
    return b.CONV2D(x, w, bias, b.zero_point(x), b.zero_point(w), acc_type=acc, **attrs)


REFUSED = [
    (INT, lambda b: b.SIGMOID(value(b, DType.FP32, 2)),
     "SIGMOID: FP32 needs PRO-FP, which tosa-1.0+int does not have"),
    (FP, lambda b: b.CLAMP(value(b, DType.INT8, 2), min_val=0, max_val=1),
     "CLAMP: INT8 needs PRO-INT, which tosa-1.0+fp does not have"),
    (INT, lambda b: b.CLAMP(value(b, DType.INT16, 2), min_val=0, max_val=1),
     "CLAMP: INT16 needs EXT-INT16, which tosa-1.0+int does not have"),
    (INT, lambda b: b.ADD(*[value(b, DType.INT8, 2)] * 2), "ADD: TOSA has no ADD for INT8"),
    (INT, lambda b: b.ADD(*[value(b, DType.INT64, 2)] * 2), "ADD: INT64 needs TOSA 1.1"),
    (FP, lambda b: b.SIGMOID(value(b, DType.BF16, 2)), "SIGMOID: BF16 needs EXT-BF16"),
    (INT, lambda b: b.ABS(value(b, DType.INT32, *[1] * 7)), "rank 7 exceeds 6 (level 8K)"),
    (INT, lambda b: b.TILE(value(b, DType.INT8, 64, 64), (9000, 9000)),
     "TILE: tensor 576000x576000 of 331776000000 bytes exceeds 2147483647 (level 8K)"),
    (INT, lambda b: b.MAX_POOL2D(value(b, DType.INT8, 1, 9001, 1, 1), kernel=(8193, 1)),
     "MAX_POOL2D: kernel_y is 8193, above MAX_KERNEL 8192 (level 8K)"),
    (INT, lambda b: b.MAX_POOL2D(value(b, DType.INT8, 1, 8194, 1, 1), kernel=(1, 1),
                                 stride=(8193, 1)),
     "MAX_POOL2D: stride_y is 8193, above MAX_STRIDE 8192 (level 8K)"),
    (INT, lambda b: conv(b, value(b, DType.INT8, 1, 20000, 1, 1),
                         b.const(np.zeros((1, 3, 1, 1), np.int8)), dilation=(4000, 1),
                         stride=(1, 1)),
     "CONV2D: dilation_y * KH is 12000, above MAX_KERNEL 8192 (level 8K)"),
    (INT, lambda b: b.CONCAT(*[value(b, DType.INT8, 1) for _ in range(65)], axis=0),
     "length(tensor_list_shape(input1)) is 65, above MAX_TENSOR_LIST_SIZE 64"),
    (INT, lambda b: b.RESIZE(value(b, DType.INT8, 1, 2, 2, 1), (600, 2, 2, 2), (0, 0), (598, 0),
                             mode="NEAREST_NEIGHBOR"),
     "scale_y_n/scale_y_d is 300, above MAX_SCALE 256"),
    (INT, lambda b: b.RESHAPE(value(b, DType.INT8, 0, 2), (0, 2)), "is empty"),
]  # fmt: skip


@pytest.mark.parametrize("limits, emit, text", REFUSED, ids=[t[:40] for _, _, t in REFUSED])
def test_refusals_name_the_rule_and_the_number(limits, emit, text):
    with pytest.raises(Unsupported) as refusal:
        emit(TosaBuilder(limits))
    assert text in str(refusal.value)


def test_level_none_takes_what_8k_refuses():
    b = TosaBuilder(NONE)
    b.MAX_POOL2D(value(b, DType.INT8, 1, 9001, 1, 1), kernel=(8193, 1))


def test_extensions_and_versions_open_modes():
    for limits in (Limits(extensions=frozenset({"EXT-INT16"})),):
        b = TosaBuilder(limits)
        x = value(b, DType.INT16, 1, 4, 4, 2)
        y = conv(b, x, b.const(np.zeros((3, 1, 1, 2), np.int8)))
        assert y.type == TensorType(DType.INT48, (1, 4, 4, 3))
    b = TosaBuilder(Limits((1, 1), extensions=frozenset({"EXT-INT64"})))
    b.ADD(*[value(b, DType.INT64, 2)] * 2)


def test_the_chip_has_the_last_word():
    b = TosaBuilder(Limits(chip=lambda name, *rest: f"no {name} here"))
    with pytest.raises(Unsupported, match="IDENTITY: no IDENTITY here"):
        b.IDENTITY(value(b, DType.INT8, 2))


INVALID = [
    (lambda b: b.ADD(value(b, DType.INT32, 2, 3), value(b, DType.INT32, 3)), "ranks differ"),
    (lambda b: b.ADD(value(b, DType.INT32, 2), value(b, DType.INT32, 3)), "do not broadcast"),
    (lambda b: conv(b, value(b, DType.INT8, 1, 4, 4, 2), b.const(np.zeros((3, 1, 1, 1), np.int8))),
     "input has 2 channels, weight 1"),
    (lambda b: conv(b, value(b, DType.INT8, 1, 4, 4, 1), b.const(np.zeros((3, 2, 2, 1), np.int8)),
                    stride=(2, 1)) and
     conv(b, value(b, DType.INT8, 1, 4, 4, 1), b.const(np.zeros((3, 1, 2, 1), np.int8)),
          stride=(2, 1)), "remainder 1 at stride 2"),
    (lambda b: b.RESHAPE(value(b, DType.INT8, 4), (3,)), "changes the size"),
    (lambda b: b.SLICE(value(b, DType.INT8, 4), (2,), (3,)), "outside"),
    (lambda b: b.TRANSPOSE(value(b, DType.INT8, 4, 2), perms=(0, 0)), "no permutation"),
    (lambda b: b.REDUCE_SUM(value(b, DType.INT32, 4), axis=1), "axis 1 is outside rank 1"),
    (lambda b: b.MATMUL(value(b, DType.INT8, 1, 2, 3), value(b, DType.INT8, 1, 2, 3),
                        *[b.const(np.zeros(1, np.int8))] * 2), "do not fit"),
    (lambda b: b.MAX_POOL2D(value(b, DType.INT8, 1, 4, 4, 1), kernel=(2, 2), pad=(2, 0, 0, 0)),
     "not smaller than the kernel"),
]  # fmt: skip


@pytest.mark.parametrize("emit, text", INVALID, ids=[t for _, t in INVALID])
def test_ops_that_break_their_definition_are_our_faults(emit, text):
    with pytest.raises(InvalidOp, match=text):
        emit(TosaBuilder(NONE))


def test_every_operator_has_a_definition_with_modes():
    assert len(DEFINITIONS) == 100
    assert all(d.modes for d in DEFINITIONS.values())


def test_result_types_follow_the_operands():
    b = TosaBuilder(NONE)
    a, c = value(b, DType.INT8, 2, 3, 4), value(b, DType.INT8, 2, 4, 5)
    zero = b.const(np.zeros(1, np.int8))
    assert infer("MATMUL", [a, c, zero, zero], {})[0] == TensorType(DType.INT32, (2, 3, 5))
    x = value(b, DType.FP32, 2, 3)
    assert infer("GREATER", [x, x], {})[0] == TensorType(DType.BOOL, (2, 3))
    assert infer("ARGMAX", [x], {"axis": 1})[0] == TensorType(DType.INT32, (2,))
    assert infer("DIM", [x], {"axis": 1})[0] == TensorType(DType.SHAPE, (1,))


def test_limits_hold_at_the_bounds_of_open_sizes():
    b = TosaBuilder(Limits(version=(1, 1), extensions=frozenset({"EXT-SHAPE"})))
    long, short = SymDim("height", 4, 2**26), SymDim("width", 4, 64)
    rows = [value(b, DType.FP32, d, 4) for d in (long, short)]
    with pytest.raises(Unsupported, match=r"bytes with height \(4\.\.67108864\) exceeds"):
        b.TILE(rows[0], (1, 4))
    b.TILE(rows[1], (1, 4))
    tall = SymDim("depth", 4, 9000)
    image = value(b, DType.FP32, 1, tall, 8, 1)
    with pytest.raises(Unsupported, match="is 9000, above MAX_KERNEL 8192"):
        b.MAX_POOL2D_ADAPTIVE(image, (tall, 1), (1, 1), (0, 0, 0, 0))
