"""The evaluator itself: control flow, variables, what is kept and freed, and its messages."""

from __future__ import annotations

import gc
import warnings
import weakref

import numpy as np
import pytest
import torch

from npuc.errors import BadInput, NpucError
from npuc.execute import tosa
from npuc.execute.reference_model import run_reference_model
from npuc.execute.tosa import evaluate, evaluate_all
from npuc.ir import Builder, DType, Graph, Loc, SymDim, TensorType, Value
from npuc.serialize.tosa_flatbuffer import serialize
from tests.execute.compare import assert_same
from tests.execute.control_flow import accumulator, branches, loop

ROW = TensorType(DType.INT32, (4,))


@pytest.mark.parametrize("flag", [True, False])
def test_cond_if(flag: bool) -> None:
    x, z = np.arange(4, dtype=np.int32), np.full(4, 10, np.int32)
    assert_same(branches(), [np.array(flag), x, z])


@pytest.mark.parametrize("count", [0, 1, 5])
def test_while_loop(count: int) -> None:
    assert_same(loop(), [np.array(count, np.int32), np.arange(4, dtype=np.int32)])


def test_endless_loop_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tosa, "MAX_ITERATIONS", 3)
    with pytest.raises(NpucError, match=r"WHILE_LOOP.*did not end in 3 iterations"):
        evaluate(loop(), [np.array(9, np.int32), np.zeros(4, np.int32)])


def test_variables_live_from_call_to_call() -> None:
    state: dict[str, np.ndarray] = {}
    ones = np.ones(4, np.float32)
    totals = [evaluate(accumulator(), [ones], variables=state)[0] for _ in range(3)]
    np.testing.assert_array_equal(totals, [[1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]])
    np.testing.assert_array_equal(evaluate(accumulator(), [ones])[0], [1, 2, 3, 4])


def test_variable_without_a_value() -> None:
    with pytest.raises(NpucError, match="'total' is read before it is written"):
        evaluate(accumulator(initial=False), [np.ones(4, np.float32)])


def chain(length: int) -> tuple[Graph, list[Value]]:
    """x, exp(x), exp(exp(x)) ... as separate values."""
    b = Builder()
    values = [b.input(TensorType(DType.FP32, (4,)), "x")]
    for _ in range(length):
        values.append(b.emit("tosa.TANH", [values[-1]], {}, [values[-1].type])[0])
    return b.finish([values[-1]]), values


def test_keep_holds_what_was_asked_for() -> None:
    graph, values = chain(4)
    keep: dict[Value, np.ndarray | None] = {values[2]: None}
    x = np.ones(4, np.float32)
    (result,) = evaluate(graph, [x], keep)
    assert set(keep) == {values[2]}
    np.testing.assert_allclose(keep[values[2]], np.tanh(np.tanh(x)), rtol=1e-6)
    everything = evaluate_all(graph, [x])
    assert list(everything) == values
    np.testing.assert_array_equal(everything[values[-1]], result)


def test_dead_intermediates_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[np.ndarray]] = []
    most = 0
    kernel = tosa.KERNELS["TANH"]

    def counting(*args: object) -> np.ndarray:
        nonlocal most
        result = kernel(*args)
        alive.append(weakref.ref(result))
        gc.collect()
        most = max(most, sum(r() is not None for r in alive))
        return result

    monkeypatch.setitem(tosa.KERNELS, "TANH", counting)
    evaluate(chain(20)[0], [np.ones(4, np.float32)])
    assert len(alive) == 20
    assert most <= 2


def test_outputs_are_the_callers_own() -> None:
    b = Builder()
    x = b.input(ROW)
    shape = b.const(np.array([2, 2]), DType.SHAPE)
    (view,) = b.emit("tosa.RESHAPE", [x, shape], {}, [TensorType(DType.INT32, (2, 2))])
    constant = b.const(np.arange(4, dtype=np.int32))
    graph = b.finish([x, view, constant, view])
    given = np.arange(4, dtype=np.int32)
    results = evaluate(graph, [given])
    for result in results:
        result += 100
        np.testing.assert_array_equal(result.reshape(-1), np.arange(100, 104))
    np.testing.assert_array_equal(given, np.arange(4))
    np.testing.assert_array_equal(constant.array, np.arange(4))


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ([], "0 arrays for a graph with 2 inputs"),
        ([np.zeros((2, 4), np.int32)] * 2, r"input 0 \(x\): it takes int8 \(INT8\), got int32"),
        ([np.zeros((2, 5), np.int8)] * 2, r"input 0 \(x\): .*shape .*4\), got \(2, 5\)"),
        ([np.zeros((2, 4, 1), np.int8)] * 2, r"input 0 \(x\): .*got \(2, 4, 1\)"),
        ([np.zeros((9, 4), np.int8)] * 2, r"input 0 \(x\): n is 9, outside 1..8"),
        (
            [np.zeros((2, 4), np.int8), np.zeros((3, 4), np.int8)],
            r"input 1 \(y\): n is 3 here and 2 in another input",
        ),
    ],
)
def test_arrays_that_do_not_fit(arrays: list[np.ndarray], reason: str) -> None:
    b = Builder()
    type = TensorType(DType.INT8, (SymDim("n", 1, 8), 4))
    graph = b.finish([b.input(type, "x"), b.input(type, "y")])
    with pytest.raises(BadInput, match=reason):
        evaluate(graph, arrays)


def test_failure_names_op_place_and_reason() -> None:
    b = Builder()
    values = b.input(TensorType(DType.INT8, (1, 3, 2)))
    indices = b.input(TensorType(DType.INT32, (1, 1)))
    b.loc = Loc("model.py", 41, "features.3")
    (y,) = b.emit("tosa.GATHER", [values, indices], {}, [TensorType(DType.INT8, (1, 1, 2))])
    graph = b.finish([y])
    with pytest.raises(NpucError) as error:
        evaluate(graph, [np.zeros((1, 3, 2), np.int8), np.array([[3]], np.int32)])
    assert str(error.value) == (
        "evaluating tosa.GATHER at model.py:41 (features.3): indices 3..3 are not all in 0..2 "
        "(operands int8[1, 3, 2], int32[1, 1])"
    )


def test_division_by_zero_is_an_error() -> None:
    b = Builder()
    x = b.input(ROW)
    graph = b.finish(b.emit("tosa.INTDIV", [x, x], {}, [ROW]))
    with pytest.raises(NpucError, match=r"tosa.INTDIV.*a divisor is 0"):
        evaluate(graph, [np.arange(4, dtype=np.int32)])


@pytest.mark.parametrize("kind", ["aten.relu", "tosa.NO_SUCH_OP"])
def test_only_tosa_operators_can_be_evaluated(kind: str) -> None:
    b = Builder()
    graph = b.finish(b.emit(kind, [b.input(ROW)], {}, [ROW]))
    with pytest.raises(NpucError, match=rf"{kind}.*no TOSA operator that can be evaluated"):
        evaluate(graph, [np.zeros(4, np.int32)])


def test_custom_operator() -> None:
    b = Builder()
    attrs = {"operator_name": "magic", "domain_name": "acme", "implementation_attrs": b""}
    graph = b.finish(b.emit("tosa.CUSTOM", [b.input(ROW)], attrs, [ROW]))
    with pytest.raises(NpucError, match=r"'acme\.magic' is the vendor's own"):
        evaluate(graph, [np.zeros(4, np.int32)])


def test_overflow_wraps() -> None:
    b = Builder()
    x = b.input(ROW)
    graph = b.finish(b.emit("tosa.ADD", [x, x], {}, [ROW]))
    given = np.array([2**31 - 1, -(2**31), 1, 0], np.int32)
    np.testing.assert_array_equal(evaluate(graph, [given])[0], [-2, 0, 2, 0])


def dense(channels: int, dtype: DType) -> Graph:
    """A 1x1 convolution whose sums need more than 24 bits."""
    b = Builder()
    acc = DType.INT32 if dtype is DType.INT8 else DType.INT48
    x = b.input(TensorType(dtype, (1, 2, 2, channels)))
    weights = np.random.default_rng(1).integers(100, 128, (3, 1, 1, channels))
    attrs = {
        "pad": (0, 0, 0, 0), "stride": (1, 1), "dilation": (1, 1), "acc_type": acc,
        "local_bound": False,
    }  # fmt: skip
    operands = [
        x, b.const(weights.astype(np.int8)), b.const(np.arange(3), acc),
        b.const(np.full(1, -128 if dtype is DType.INT8 else 0), dtype), b.const(np.int8([1])),
    ]  # fmt: skip
    return b.finish(b.emit("tosa.CONV2D", operands, attrs, [TensorType(acc, (1, 2, 2, 3))]))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_large_sums_are_exact(dtype: DType, precision: str) -> None:
    channels = 4001
    graph = dense(channels, dtype)
    low, high = dtype.range
    x = np.random.default_rng(0).integers(high // 2, high, (1, 2, 2, channels)).astype(dtype.numpy)
    torch.set_float32_matmul_precision(precision)
    try:
        (result,) = evaluate(graph, [x])
        assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_float32_matmul_precision("highest")
    weights = graph.outputs[0].op.operands[1].array
    zero = low if dtype is DType.INT8 else 0
    expected = (x.astype(np.int64) - zero) @ (weights.reshape(3, -1).T.astype(np.int64) - 1)
    np.testing.assert_array_equal(result, expected + np.arange(3))
    assert expected.max() > 2**24


def test_constants_may_be_read_only() -> None:
    b = Builder()
    x = b.input(TensorType(DType.FP32, (1, 2, 3)))
    w = np.frombuffer(np.arange(6, dtype=np.float32).tobytes(), np.float32).reshape(1, 3, 2)
    zeros = [b.const(np.zeros(1, np.float32))] * 2
    graph = b.finish(
        b.emit("tosa.MATMUL", [x, b.const(w), *zeros], {}, [TensorType(DType.FP32, (1, 2, 2))])
    )
    given = np.ones((1, 2, 3), np.float32)
    given.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(evaluate(graph, [given])[0], given @ w)


def test_unsigned_values_are_the_same_bits() -> None:
    """uint8 in, int8 inside, uint8 out; the reference model knows the signed types only."""
    b = Builder()
    x = b.input(TensorType(DType.UINT8, (1, 4)), "x")
    flags = {"scale32": True, "rounding_mode": "SINGLE_ROUND", "per_channel": False}
    unit = [b.const(np.array([1 << 30], np.int32)), b.const(np.array([30], np.int8))]
    zero, half = b.const(np.zeros(1, np.int8)), b.const(np.array([128], np.uint8))
    (y,) = b.emit(
        "tosa.RESCALE", [x, *unit, half, zero],
        flags | {"input_unsigned": True, "output_unsigned": False},
        [TensorType(DType.INT8, (1, 4))],
    )  # fmt: skip
    (z,) = b.emit(
        "tosa.RESCALE", [y, *unit, zero, half],
        flags | {"input_unsigned": False, "output_unsigned": True}, [x.type],
    )  # fmt: skip
    graph = b.finish([y, z])
    given = np.array([[0, 127, 128, 255]], np.uint8)
    signed, unsigned = evaluate(graph, [given])
    np.testing.assert_array_equal(signed, [[-128, -1, 0, 127]])
    np.testing.assert_array_equal(unsigned, given)
    expected = run_reference_model(serialize(graph), [given.view(np.int8)])
    np.testing.assert_array_equal(signed, expected[0])
    np.testing.assert_array_equal(unsigned, expected[1].view(np.uint8))
