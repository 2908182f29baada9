"""Programs of models that are only partly on the target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import npuc
from npuc.errors import BadInput, NpucError, Unsupported
from npuc.executorch.compile_partly import PartlyDelegated
from npuc.serialize.pte_flatbuffer import delegates_of, read_pte
from tests.cli.run_cli import run_cli

torch.manual_seed(0)
X = torch.randn(1, 3, 8, 8)


def gradient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """An op of training: the host has a kernel, no target ever takes it."""
    x, y = x[None, None], y[None, None]
    return torch.ops.aten.convolution_backward(
        x, x, y, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, False, False]
    )[0][0, 0]


class Learner(torch.nn.Module):
    """A gradient between a convolution and a linear layer; the sum of results is a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.linear = torch.nn.Linear(8, 5)
        self.register_buffer("total", torch.tensor([0.5]))

    def forward(self, x: torch.Tensor, *, y: torch.Tensor) -> dict[str, Any]:
        a = torch.relu(self.conv(x)).mean(1)[0]
        r = self.linear(gradient(a, y))
        self.total.add_(r.sum())
        return {"r": r, "none": None, "total": self.total + 0}


INPUTS = ((X,), {"y": torch.randn(1, 1)})


def compiled(**options: Any) -> PartlyDelegated:
    options.setdefault("target", "vgf")
    return npuc.compile(Learner().eval(), INPUTS, format="pte", progress=False, **options)


@pytest.fixture(scope="module")
def program() -> PartlyDelegated:
    torch.manual_seed(0)
    return compiled()


def test_whole_model_in_three_ways(program: PartlyDelegated) -> None:
    torch.manual_seed(0)
    eager = Learner().eval()
    with torch.no_grad():
        first, second = eager(X, **INPUTS[1]), eager(X, **INPUTS[1])
    program.reset()
    for wanted in (first, second):
        torch.testing.assert_close(program.run(X, INPUTS[1]["y"]), wanted, atol=1e-4, rtol=1e-4)
    program.reset()
    runtime = program.run(X, **INPUTS[1], on="executorch")
    torch.testing.assert_close(runtime, first, atol=1e-4, rtol=1e-4)
    with pytest.raises(BadInput, match="unknown executor 'vulkan'"):
        program.run(X, INPUTS[1]["y"], on="vulkan")


def test_what_the_device_needs(program: PartlyDelegated, tmp_path: Path) -> None:
    assert program.kernels == ["aten::convolution_backward.out", "aten::copy_"]
    assert [b for b, _ in delegates_of(read_pte(program.artifact))] == ["VgfBackend"] * 2
    refused = [v for v in program.report.on_host if v.op == "aten.convolution_backward"]
    assert [v.reason for v in refused] == ["no lowering rule"] and refused[0].file == __file__
    written = json.loads(json.dumps(program.as_dict()))
    assert written["kernels"] == program.kernels and written["partition"]["delegates"] == 2
    assert {p.suffix for p in program.save(tmp_path)} == {".pte", ".json", ".mlir"}
    assert [p.name for p in program.io.inputs] == ["x", "y"]
    assert [(p.name, p.shape) for p in program.io.outputs] == [("r", (8, 5)), ("total", (1,))]
    assert program.check.summary().startswith("outputs within")


def test_quantized_for_a_chip_of_integers() -> None:
    made = compiled(target="ethos-u55-128", quantization="int8", calibration=[INPUTS])
    backends = [b for b, _ in delegates_of(read_pte(made.artifact))]
    assert set(backends) == {"EthosUBackend"}
    assert "quantized_decomposed::quantize_per_tensor.out" in made.kernels
    assert not {"aten::convolution.out", "aten::addmm.out", "aten::linear.out"} & {*made.kernels}


def test_without_pte_the_refusal_is_the_answer() -> None:
    with pytest.raises(Unsupported, match="convolution_backward"):
        npuc.compile(Learner().eval(), INPUTS, target="vgf", progress=False)
    with pytest.raises(BadInput, match="io_layout of a partly delegated program"):
        compiled(io_layout="channels_last")


def test_rest_without_a_kernel() -> None:
    class Odd(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.zeta(x.abs() + 2, x.abs() + 1) * 2

    with pytest.raises(NpucError, match="cannot make a program of the rest"):
        npuc.compile(Odd(), (X,), target="vgf", format="pte", progress=False)


def test_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "import torch\n"
        "class M(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        options = [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, False, False]\n"
        "        grad = torch.ops.aten.convolution_backward\n"
        "        return grad(x * 2, x, torch.ones(1, 1, 1, 1), None, *options)[0] + 1\n"
        "def model():\n"
        "    return M(), (torch.randn(1, 1, 3, 4),)\n"
    )
    status, _, err = run_cli(
        capsys, monkeypatch, "compile", f"{model}:model", "-t", "vgf", "--format", "pte",
        "-o", tmp_path / "out",
    )  # fmt: skip
    assert status == 0 and "with the kernels aten::convolution_backward.out" in err
    assert (tmp_path / "out" / "model.pte").exists()
