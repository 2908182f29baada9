"""Small graphs with regions and variables, for the evaluator, the serializer and the printer."""

from __future__ import annotations

import numpy as np

from npuc.ir import Blob, Builder, DType, Graph, TensorType, Value

FLAG = TensorType(DType.BOOL, ())
COUNT = TensorType(DType.INT32, ())
ROW = TensorType(DType.INT32, (4,))


def region(name: str, types: list[TensorType], body: object) -> Graph:
    b = Builder()
    inputs = [b.input(t) for t in types]
    return b.finish(body(b, *inputs), name)  # type: ignore[operator]


def binary(b: Builder, name: str, x: Value, y: Value, type: TensorType | None = None) -> Value:
    return b.emit(f"tosa.{name}", [x, y], {}, [type or x.type])[0]


def branches() -> Graph:
    """y = x + z if flag else x (returned as it is)."""
    b = Builder()
    flag, x, z = b.input(FLAG, "flag"), b.input(ROW, "x"), b.input(ROW, "z")
    regions = (
        region("then", [ROW, ROW], lambda r, p, q: [binary(r, "ADD", p, q)]),
        region("else", [ROW, ROW], lambda r, p, q: [p]),
    )
    (y,) = b.emit("tosa.COND_IF", [flag, x, z], {}, [ROW], regions)
    return b.finish([y])


def loop() -> Graph:
    """Doubles x while count, which goes down by one, is above 0."""

    def more(r: Builder, count: Value, x: Value) -> list[Value]:
        return [binary(r, "GREATER", count, r.const(np.int32(0)), FLAG)]

    def step(r: Builder, count: Value, x: Value) -> list[Value]:
        return [binary(r, "SUB", count, r.const(np.int32(1))), binary(r, "ADD", x, x)]

    b = Builder()
    count, x = b.input(COUNT, "count"), b.input(ROW, "x")
    regions = (region("cond", [COUNT, ROW], more), region("body", [COUNT, ROW], step))
    results = b.emit("tosa.WHILE_LOOP", [count, x], {}, [COUNT, ROW], regions)
    return b.finish(results)


def accumulator(initial: bool = True) -> Graph:
    """total += x; returns the total before."""
    b = Builder()
    x = b.input(TensorType(DType.FP32, (4,)), "x")
    attrs = {"name": "total", "var_shape": (4,), "type": DType.FP32}
    if initial:
        attrs["initial_value"] = Blob(np.array([1, 2, 3, 4], np.float32))
    b.emit("tosa.VARIABLE", [], attrs, [])
    (before,) = b.emit("tosa.VARIABLE_READ", [], {"name": "total"}, [x.type])
    b.emit("tosa.VARIABLE_WRITE", [binary(b, "ADD", before, x)], {"name": "total"}, [])
    return b.finish([before])
