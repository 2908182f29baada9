"""The TFLite file: what LiteRT, TFLite Micro and Vela read is what the graph says."""

from __future__ import annotations

import time

import numpy as np
import pytest

from npuc.dialects.tflite import TfliteLimits, TfliteOpBuilder
from npuc.errors import BadInput, NpucError
from npuc.execute.tflite import run_tflite, run_tflite_all
from npuc.ir import Builder, DType, Graph, Quant, TensorType
from npuc.serialize.read_tflite import read_tflite, summarize
from npuc.serialize.tflite_flatbuffer import serialize, tensor_numbers

rng = np.random.default_rng(5)
Q = Quant(0.05, 3)


def convolution(channels: int = 4, weights: int = 6) -> Graph:
    """An int8 convolution with a RELU."""
    b = TfliteOpBuilder(TfliteLimits())
    x = b.input(TensorType(DType.INT8, (1, 6, 6, channels), Q), "image")
    data = rng.integers(-127, 128, (weights, 3, 3, channels)).astype(np.int8)
    w = b.const(data, quant=Quant(np.linspace(0.01, 0.02, weights), 0, 0), name="conv.weight")
    step = 0.05 * np.linspace(0.01, 0.02, weights)
    bias = b.const(np.arange(weights, dtype=np.int32), quant=Quant(step, 0, 0))
    y = b.CONV_2D(x, w, bias, padding="SAME", activation="RELU", quant=Quant(0.2, -128))
    y.name = "features"
    return b.finish([y, y], "net")


def test_contents() -> None:
    file = read_tflite(serialize(convolution()))
    (main,) = file.subgraphs
    assert [(op.name, op.version) for op in main.operators] == [("CONV_2D", 3)]
    options = main.operators[0].options
    assert (options["padding"], options["strideW"], options["fusedActivationFunction"]) == (0, 1, 1)
    assert main.inputs == (0,) and main.outputs[0] == main.outputs[1]
    x, w, _, y = (main.tensors[i] for i in (*main.operators[0].inputs, main.outputs[0]))
    assert (x.name, y.name, w.name) == ("image", "features", "conv.weight")
    assert (x.dtype, x.shape, x.scale, x.zero_point) == (
        "INT8",
        (1, 6, 6, 4),
        (np.float32(0.05),),
        (3,),
    )
    assert w.axis == 0 and len(w.scale) == 6 and set(w.zero_point) == {0}
    assert file.signatures == {"serving_default": (("image",), ("features", "features_1"))}
    assert file.metadata["min_runtime_version"] == b"1.14.0".ljust(16, b"\0")


def test_summary_for_inspect() -> None:
    summary = summarize(read_tflite(serialize(convolution())))
    assert summary["operators"] == {"CONV_2D (version 3)": 1}
    assert summary["inputs"] == {"image": "1x6x6x4 INT8 <0.05:3>"}
    assert summary["constants"]["bytes"] == 6 * 9 * 4 + 6 * 4


def test_constants_lie_on_16_bytes() -> None:
    """TFLite Micro and NPUs read weights in place; sizes that are no multiples of 16 on purpose."""
    from ai_edge_litert import schema_py_generated as schema

    for channels in (1, 3, 5):
        data = serialize(convolution(channels, 7))
        model = schema.Model.GetRootAs(data, 0)
        found = 0
        for i in range(model.BuffersLength()):
            buffer = model.Buffers(i)
            if buffer.DataLength():
                place = buffer._tab.Vector(buffer._tab.Offset(4))
                assert place % 16 == 0
                found += 1
        assert found >= 3


def test_constants_are_written_once() -> None:
    b = TfliteOpBuilder(TfliteLimits())
    data = rng.normal(0, 1, (64, 64)).astype(np.float32)
    w = b.const(data)
    x = b.input(TensorType(DType.FP32, (2, 64)), "x")
    again = b.const(data.reshape(1, 64, 64))  # the same bytes under another shape
    y = b.FULLY_CONNECTED(x, w)
    z = b.ADD(b.reshape(y, (1, 2, 64)), b.slice(again, (0, 0, 0), (1, 2, 64)))
    wide = b.ADD(
        b.BROADCAST_TO(b.reshape(z, (1, 2, 1, 64)), shape=(1, 2, 64, 64)),
        b.reshape(again, (1, 1, 64, 64)),
    )
    graph = b.finish([wide])
    size = len(serialize(graph))
    assert size < 64 * 64 * 4 + 2 * 64 * 4 + 6000
    feed = rng.normal(0, 1, (2, 64)).astype(np.float32)
    want = (feed @ data.T + data[:2]).reshape(1, 2, 1, 64) + data
    np.testing.assert_allclose(run_tflite(serialize(graph), [feed])[0], want, rtol=1e-4, atol=1e-4)


def test_strided_constants_and_int4() -> None:
    b = TfliteOpBuilder(TfliteLimits())
    x = b.input(TensorType(DType.INT8, (3, 5), Q), "x")
    codes = rng.integers(-7, 8, (5, 4)).astype(np.int8).T  # a transposed view
    w = b.const(codes, DType.INT4, Quant(0.1, 0, None, -8, 7))
    bias = b.const(np.zeros(4, np.int32), quant=Quant(0.005, 0))
    y = b.FULLY_CONNECTED(x, w, bias, quant=Quant(0.02, 0))
    feed = rng.integers(-100, 100, (3, 5)).astype(np.int8)
    (got,) = run_tflite(serialize(b.finish([y])), [feed])
    want = np.clip(np.rint((feed - 3.0) @ codes.T * 0.005 / 0.02), -128, 127)
    assert np.abs(got - want).max() <= 1


def test_equal_names_are_told_apart() -> None:
    b = Builder()
    x = b.input(TensorType(DType.FP32, (2,)), "x")
    one = b.input(TensorType(DType.FP32, (2,)), "x")
    graph = b.finish([x, one])
    (names, outputs) = read_tflite(serialize(graph)).signatures["serving_default"]
    assert names == ("x", "x_1") and len(set(outputs)) == 2


def test_intermediate_tensors() -> None:
    graph = convolution()
    data, numbers = serialize(graph), tensor_numbers(graph)
    feed = rng.integers(-128, 128, (1, 6, 6, 4)).astype(np.int8)
    found = run_tflite_all(data, [feed], list(numbers.values()))
    values = dict(zip(numbers, found, strict=True))
    np.testing.assert_array_equal(values[graph.inputs[0]], feed)
    np.testing.assert_array_equal(values[graph.outputs[0]], run_tflite(data, [feed])[0])


def test_wrong_inputs_and_files() -> None:
    data = serialize(convolution())
    with pytest.raises(BadInput, match="takes 1"):
        run_tflite(data, [])
    with pytest.raises(BadInput, match="expected int8"):
        run_tflite(data, [np.zeros((1, 6, 6, 4), np.float32)])
    with pytest.raises(NpucError):
        run_tflite(b"\0" * 64, [])
    with pytest.raises(BadInput, match="TFL3"):
        read_tflite(b"\0" * 64)
    with pytest.raises(BadInput, match="damaged"):
        read_tflite(data[:200])
    with pytest.raises(BadInput, match="one of"):
        run_tflite(data, [], kernels="fast")


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    feed = np.zeros((1, 6, 6, 4), np.int8)
    run_tflite(serialize(convolution()), [feed], "default")
    assert capfd.readouterr() == ("", "")


def test_large_constants_are_fast() -> None:
    """10 MB take 40 s as a Python list."""
    b = TfliteOpBuilder(TfliteLimits())
    x = b.input(TensorType(DType.FP32, (1, 1024)), "x")
    w = b.const(np.ones((2560, 1024), np.float32))
    start = time.process_time()
    data = serialize(b.finish([b.FULLY_CONNECTED(x, w)]))
    assert time.process_time() - start < 2
    assert len(data) < 2560 * 1024 * 4 + 4096


def test_time_is_linear_in_operators() -> None:
    def seconds(count: int) -> float:
        b = TfliteOpBuilder(TfliteLimits())
        x = b.input(TensorType(DType.FP32, (4,)), "x")
        for i in range(count):
            x = b.ADD(x, b.scalar(i, DType.FP32, 1))
        graph = b.finish([x])
        start = time.process_time()
        serialize(graph)
        return time.process_time() - start

    seconds(10)
    few, many = min(seconds(100) for _ in range(3)), min(seconds(800) for _ in range(2))
    assert many < 16 * few
