"""Kinds of inputs and outputs of whole-model programs, executed by ExecuTorch's runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree

import npuc
from npuc.errors import BadInput
from npuc.executorch import run_pte_methods, to_pte

torch.manual_seed(0)
A, B = torch.randn(2, 5), torch.randn(2, 5)
IMAGE = torch.randn(1, 3, 6, 6)
CODES = torch.randint(0, 255, (2, 5), dtype=torch.uint8)
WEIGHT = torch.randn(4, 3, 3, 3)


def twice(x: Any) -> Any:
    y = torch.relu(x)
    return y, y, y + 1, y


#: name -> the model, its inputs, and the kinds of quantization it is compiled with
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[str, ...]]] = {
    "scalars": (lambda x, y: (x.sum() * y, x.mean()), (A, torch.tensor(2.0)), ("", "int8")),
    "same_output_thrice": (twice, (A,), ("", "int8")),
    "outputs_that_are_inputs": (lambda x, y: (x, x + y, {"y": y}), (A, B), ("", "int8")),
    "unused_input": (lambda x, y: x * 2, (A, torch.randn(3)), ("", "int8")),
    "constants": (lambda x: (x * 2, torch.arange(4.0), 3, None), (A,), ("", "int8")),
    "number_as_input": (lambda x, k: x * k, (A, 2.5), ("",)),
    "image": (
        lambda x: torch.nn.functional.conv2d(x, WEIGHT).relu(), (IMAGE,), ("", "int8"),
    ),
    "int64": (lambda i: (i + 1, torch.eye(5)[i]), (torch.tensor([1, 4]),), ("",)),
    "index": (lambda x: x.argmax(1), (A,), ("", "int8")),
    "bool": (lambda m, x: (torch.where(m, x, -x), x > 0), (A > B, A), ("", "int8")),
    "uint8": (lambda x: (x.float() / 255, (x.float() / 2).to(torch.uint8)), (CODES,), ("",)),
    "int16": (lambda x: torch.tanh(x), (A,), ("a16w8",)),
    "half": (lambda x: x * 2 + 1, (A.half(),), ("",)),
    "changed_input": (lambda x, y: x.add_(y) * 2, (A, B), ("",)),
}  # fmt: skip


class Apply(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def copies(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x.clone() if isinstance(x, torch.Tensor) else x for x in inputs)


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    made = {}
    for name, (function, inputs, recipes) in CASES.items():
        for recipe in recipes:
            options = {"quantization": recipe, "calibration": [inputs]} if recipe else {}
            made[f"{name}_{recipe or 'float'}"] = npuc.compile(
                Apply(function), copies(inputs), target="vgf", progress=False, **options
            )
    return made


def test_all_in_one_program(compiled: dict[str, Any]) -> None:
    """Each is a method; what the runtime gives equals the evaluator, in the model's structure."""
    calls = [(name, copies(CASES[name.rpartition("_")[0]][1])) for name in compiled]
    results = run_pte_methods(to_pte(compiled), calls)
    for (name, inputs), outputs in zip(calls, results, strict=True):
        wanted = pytree.tree_leaves(compiled[name].run(*inputs))
        wanted = [w for w in wanted if w is not None]
        got = [g for g in outputs if g is not None]
        assert len(got) == len(wanted), name
        for g, w in zip(got, wanted, strict=True):
            if isinstance(w, torch.Tensor):
                assert g.dtype == w.dtype and torch.allclose(g, w, atol=1e-5, rtol=1e-5), name
            else:
                assert g == w, name


@pytest.mark.parametrize("io", ["float", "quantized"])
def test_run_of_a_program(io: str) -> None:
    function, inputs, _ = CASES["image"]
    c = npuc.compile(
        Apply(function), inputs, target="vgf", quantization="int8", calibration=[inputs], io=io,
        io_layout="channels_last", format="pte", progress=False,
    )  # fmt: skip
    got, wanted = c.run(*inputs, on="executorch"), c.run(*inputs)
    assert got.dtype is (torch.int8 if io == "quantized" else torch.float32)
    torch.testing.assert_close(got, wanted)
    with pytest.raises(BadInput, match='compile with format="pte"'):
        npuc.compile(Apply(twice), (A,), target="vgf", progress=False).run(A, on="executorch")
