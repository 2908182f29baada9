"""Types: quantization by value, element types, transposition."""

import ml_dtypes
import numpy as np
import pytest

from npuc.ir import DType, Quant, TensorType


def test_quant_compares_by_value():
    assert Quant(0.5, 3) == Quant([0.5], [3])
    assert hash(Quant(0.5, 3)) == hash(Quant(np.float64(0.5), np.int32(3)))
    assert Quant(0.5, 3) != Quant(0.5, 3, qmin=-127)
    assert Quant([0.5, 1.0], 0, axis=0) != Quant([0.5, 1.0], 0, axis=1)


def test_quantize_rounds_half_to_even_and_saturates():
    q = Quant(0.5, 10)
    assert q.quantize([0.25, 0.75, -0.25, 1e9, -1e9, np.nan]).tolist() == [10, 12, 10, 127, -128, 0]
    assert q.dequantize(np.int8([10, 12, -128])).tolist() == [0.0, 1.0, -69.0]


def test_per_channel_follows_its_axis():
    q = Quant([1.0, 2.0, 3.0], 0, axis=1)
    codes = np.ones((2, 3), np.int8)
    assert q.dequantize(codes)[0].tolist() == [1.0, 2.0, 3.0]
    t = TensorType(DType.INT8, (2, 3), q).transposed((1, 0))
    assert t.shape == (3, 2) and t.quant.axis == 0
    assert t.quant.dequantize(codes.T)[:, 0].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("dtype", list(DType))
def test_every_dtype_has_a_storage_type(dtype):
    stored = np.zeros(3, dtype.numpy)
    assert stored.size == 3
    assert DType.of(stored.dtype).numpy == dtype.numpy


def test_storage_types_are_told_apart():
    assert DType.of(np.int8) is DType.INT8
    assert DType.of(np.int64) is DType.INT64
    assert DType.of(ml_dtypes.bfloat16) is DType.BF16


@pytest.mark.parametrize(
    "dtype, lo, hi",
    [
        (DType.INT8, -128, 127),
        (DType.UINT8, 0, 255),
        (DType.INT4, -8, 7),
        (DType.INT48, -(2**47), 2**47 - 1),
    ],
)
def test_ranges(dtype, lo, hi):
    assert dtype.range == (lo, hi)


def test_bytes_of_a_tensor():
    assert TensorType(DType.INT4, (3, 3)).nbytes == 5
    assert TensorType(DType.FP16, (3, 3)).nbytes == 18
