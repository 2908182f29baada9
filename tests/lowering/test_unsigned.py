"""uint8 tensors: files of TOSA have no unsigned CAST, so that the bits must be read by RESCALE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import npuc

X = torch.tensor([[0, 1, 127, 128, 200, 255]], dtype=torch.uint8)

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + x,
    "compare": lambda x: x > 127,
    "signed": lambda x: x.to(torch.int8),
    "signed beside": lambda x: x + x.to(torch.int8),
    "wrap": lambda x: (x.int() * 3 - 7).to(torch.uint8),
    "wrap of int8": lambda x: x.to(torch.int8).to(torch.uint8),
    "bool": lambda x: x.bool(),
}
FLOATS: dict[str, Callable[[Any], Any]] = {
    "to float": lambda x: x.float() / 255,
    "from float": lambda x: (x.float() * 0.5).to(torch.uint8),
}


class Apply(torch.nn.Module):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def compiled(function: Callable[[Any], Any], target: str) -> npuc.Compilation:
    return npuc.compile(Apply(function), (X,), target=target, progress=False)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_integers(name: str) -> None:
    function = FUNCTIONS[name]
    c = compiled(function, "tosa-1.0+int")
    for executor in ("evaluator", "reference-model"):
        assert torch.equal(c.run(X, on=executor), function(X))
    compiled(function, "ethos-u85-256")  # Vela takes it


@pytest.mark.parametrize("name", FLOATS)
def test_floats(name: str) -> None:
    function = FLOATS[name]
    c = compiled(function, "tosa-1.0+fp+int")
    for executor in ("evaluator", "reference-model"):
        torch.testing.assert_close(c.run(X, on=executor), function(X))


def test_codes_of_the_host() -> None:
    """uint8 codes read as floats inside of the target, and written by it, zero point 0."""
    import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401 - registers the ops

    scale, q = 1 / 255, torch.ops.quantized_decomposed
    codes = (scale, 0, 0, 255, torch.uint8)

    def function(x: Any) -> Any:
        return q.quantize_per_tensor(q.dequantize_per_tensor(x, *codes) * 0.8, *codes)

    c = compiled(function, "tosa-1.0+fp+int")
    for executor in ("evaluator", "reference-model"):
        assert torch.equal(c.run(X, on=executor), function(X))


def test_vgf() -> None:
    c = compiled(FLOATS["from float"], "vgf")
    assert torch.equal(c.run(X, on="vulkan"), FLOATS["from float"](X))


def test_where_it_cannot_be_read() -> None:
    with pytest.raises(npuc.Unsupported, match=r"RESCALE.*needs PRO-INT"):
        compiled(FLOATS["to float"], "tosa-1.0+fp")
    with pytest.raises(npuc.Unsupported, match="CAST: INT32, FP32 needs PRO-FP"):
        compiled(FLOATS["to float"], "tosa-1.0+int")
