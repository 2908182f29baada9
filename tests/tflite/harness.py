"""Runs one aten op through its TFLite rule and compares LiteRT's result with PyTorch.

Arguments as in tests/lowering/harness.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npuc.dialects.tflite import TfliteLimits
from npuc.execute.tflite import run_tflite
from npuc.ir import Graph
from npuc.lowering.lower import lower
from npuc.serialize.tflite_flatbuffer import serialize
from tests.lowering.harness import _lowered, aten_graph, compare, result_types, torch_result

TFLITE = TfliteLimits()
#: largest error of float results, relative to the largest magnitude among them
TOLERANCE = 5e-6


def check_tflite(
    kind: str, args: Sequence[Any], torch_fn: Callable[..., Any], *,
    kwargs: dict[str, Any] | None = None, out_quant: Any = None, out_dtype: Any = None,
    limits: TfliteLimits = TFLITE, families: Sequence[str] = (), steps: float = 1,
    wrong: float = 1.0, tolerance: float | None = None,
    passes: Sequence[Callable[[Graph], Graph]] = (),
) -> Graph:  # fmt: skip
    """Lower, run on LiteRT's optimized and reference kernels, compare; returns the graph."""
    graph, feeds, expected = _lowered(
        kind,
        args,
        torch_fn,
        kwargs or {},
        out_quant,
        out_dtype,
        limits,
        tuple(families),  # type: ignore[arg-type]
    )
    for run_pass in passes:
        graph = run_pass(graph)
    data = serialize(graph)
    for kernels in ("builtin", "default"):
        results = run_tflite(data, [np.asarray(f, order="C") for f in feeds], kernels)
        for got, (want, type) in zip(results, expected, strict=True):
            compare(f"{kind} ({kernels})", got, want, type, steps, wrong, tolerance or TOLERANCE)
    return graph


def refuses_tflite(
    kind: str, args: Sequence[Any], torch_fn: Callable[..., Any], text: str, *,
    kwargs: dict[str, Any] | None = None, out_quant: Any = None, out_dtype: Any = None,
    limits: TfliteLimits = TFLITE, families: Sequence[str] = (),
) -> None:  # fmt: skip
    """Assert that the op's rule refuses with a reason that contains `text`."""
    expected = torch_result(args, kwargs or {}, torch_fn)
    types = result_types(expected, args, out_quant, out_dtype)
    graph, _ = aten_graph(kind, args, kwargs or {}, types)
    result = lower(graph, limits, tuple(families))
    assert result.reasons, f"{kind} is not refused"
    assert text in str(result.reasons[0]), str(result.reasons[0])


def names(graph: Graph) -> list[str]:
    """Names of the graph's operators in order, without constants."""
    return [op.name for op in graph.ops if op.kind != "const"]
