"""The reference model through our wrapper: right numbers, clean stdout, reasons in errors."""

from __future__ import annotations

import time

import ml_dtypes
import numpy as np
import pytest

from npuc.errors import BadInput, NpucError
from npuc.execute.reference_model import explain_output, run_reference_model
from npuc.execute.tosa_signature import Port, read_signature
from tests.execute import tiny_tosa


def int8_input(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).integers(-128, 128, shape, dtype=np.int8)


def test_int8_conv_is_exact(capfd: pytest.CaptureFixture[str]) -> None:
    x = int8_input((1, 16, 16, 4))
    (y,) = run_reference_model(tiny_tosa.int8_conv(), [x])
    np.testing.assert_array_equal(y, tiny_tosa.expected_conv(x))
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""


def test_non_contiguous_input() -> None:
    x = int8_input((1, 4, 16, 16)).transpose(0, 2, 3, 1)
    (y,) = run_reference_model(tiny_tosa.int8_conv(), [x])
    np.testing.assert_array_equal(y, tiny_tosa.expected_conv(x))


@pytest.mark.parametrize("name, dtype", [("FP32", np.float32), ("FP16", np.float16)])
def test_floats(name: str, dtype: type) -> None:
    a, b = np.array([1.5, -2, 0.25], dtype), np.array([1, 2, 4], dtype)
    (y,) = run_reference_model(tiny_tosa.elementwise("ADD", [3], name), [a, b])
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, a + b)


def test_bf16_comes_back_as_bf16() -> None:
    a = np.array([1.5, -2, 0.25], ml_dtypes.bfloat16)
    (y,) = run_reference_model(tiny_tosa.elementwise("ADD", [3], "BF16"), [a, a])
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y.astype(np.float32), [3, -4, 0.5])


@pytest.mark.parametrize("name", ["FP8E4M3", "FP8E5M2"])
def test_fp8_passes_through(name: str) -> None:
    graph = tiny_tosa.new_graph()
    dtype = getattr(tiny_tosa.D, name)
    tiny_tosa.add_input(graph, "x", [2, 2], dtype)
    transpose = tiny_tosa.attribute("Transpose", [1, 0])
    output = ("y", [2, 2], dtype)
    tiny_tosa.add_op(graph, tiny_tosa.ts.Op.TRANSPOSE, ["x"], output, transpose)
    x = np.array([[1.5, -2], [0.25, 8]]).astype(Port("x", name, (2, 2)).storage)
    (y,) = run_reference_model(tiny_tosa.set_output(graph, "y"), [x])
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y.astype(np.float32), x.T.astype(np.float32))


def test_bool_result_and_rank_0() -> None:
    a, b = np.array(3, np.int32), np.array(2, np.int32)
    (y,) = run_reference_model(tiny_tosa.elementwise("GREATER", [], "INT32", "BOOL"), [a, b])
    assert y.dtype == np.bool_ and y.shape == () and bool(y)


def test_invalid_graph_gives_the_reason_fast(capfd: pytest.CaptureFixture[str]) -> None:
    broken = tiny_tosa.int8_conv(out_height=9)
    started = time.perf_counter()
    with pytest.raises(NpucError) as raised:
        run_reference_model(broken, [int8_input((1, 16, 16, 4))])
    # gdb and its backtrace take more than a second of CPU; this machine may be busy
    assert time.perf_counter() - started < 5, "gdb was started for a backtrace"
    assert "OpConv2d: Mismatch between output shape" in str(raised.value)
    assert "gdb" not in str(raised.value)
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""


def test_overflow_is_an_error() -> None:
    big = np.full(3, 2**31 - 1, np.int32)
    with pytest.raises(NpucError, match="UNPREDICTABLE"):
        run_reference_model(tiny_tosa.elementwise("ADD", [3], "INT32"), [big, big])


@pytest.mark.parametrize(
    "arrays, reason",
    [
        ([], "0 arrays for a graph with 1 inputs"),
        ([np.zeros((1, 16, 16, 4), np.float32)], r"got float32\[1, 16, 16, 4\]"),
        ([np.zeros((1, 16, 8, 8), np.int8)], r"takes int8\[1, 16, 16, 4\]"),
    ],
)
def test_arrays_that_do_not_fit(arrays: list[np.ndarray], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        run_reference_model(tiny_tosa.int8_conv(), arrays)


def test_bad_level() -> None:
    with pytest.raises(BadInput, match="NONE, EIGHTK"):
        run_reference_model(tiny_tosa.int8_conv(), [], level="8K")


@pytest.mark.parametrize("junk", [b"", b"junk", b"0000TOSA" + bytes(100)])
def test_junk_is_bad_input(junk: bytes) -> None:
    with pytest.raises(BadInput, match="TOSA file"):
        run_reference_model(junk, [])


def test_int48_output_is_refused() -> None:
    graph = tiny_tosa.new_graph()
    tiny_tosa.add_input(graph, "x", [1], tiny_tosa.D.INT48)
    with pytest.raises(NpucError, match="'x' is INT48"):
        run_reference_model(tiny_tosa.set_output(graph, "x"), [np.zeros(1, np.int64)])


def test_signature() -> None:
    signature = read_signature(tiny_tosa.int8_conv())
    assert signature.version == (1, 0)
    assert signature.inputs == (Port("x", "INT8", (1, 16, 16, 4)),)
    assert signature.outputs == (Port("y", "INT8", (1, 16, 16, 8)),)


def test_explain_output_drops_noise() -> None:
    text = "WARNING: spec\nreason A\nNode type: X\n  Inputs: x\nreason A\nreason B\n"
    assert explain_output(text) == "reason A; reason B"
