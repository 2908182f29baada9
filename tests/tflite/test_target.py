"""The targets `tflite`, `tflite-int8` and Ethos-U by the TFLite route, end to end."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import npuc
from npuc.report.inspect_file import inspect_file


class Net(nn.Module):
    """Convolutions, a depthwise one, a pool, flatten, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU6(), nn.Conv2d(8, 16, 1), nn.MaxPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(16 * 36, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.head(self.features(x).flatten(1)), -1)


class Mixed(nn.Module):
    """What is no plain convolutional network: a norm, attention-like products, an index."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.norm = nn.LayerNorm(16)
        self.linear = nn.Linear(16, 16)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.embed(tokens)
        q = self.linear(self.norm(x))
        weights = torch.softmax(q @ x.transpose(1, 2) / 4, -1)
        y = nn.functional.gelu(weights @ x) + x
        return y, y.argmax(-1)


def image() -> tuple[torch.Tensor]:
    return (torch.randn(1, 3, 12, 12),)


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    return Net().eval()


def build(
    model: nn.Module,
    inputs: Any,
    target: Any = "tflite",
    quantization: Any = "int8",
    **options: Any,
) -> Any:
    calibration = [inputs] if quantization else None
    return npuc.compile(model, inputs, target=target, quantization=quantization,
                        calibration=calibration, progress=False, **options)  # fmt: skip


def sqnr(got: torch.Tensor, want: torch.Tensor) -> float:
    want = want.detach()
    return 10 * float(torch.log10((want**2).sum() / ((got - want) ** 2).sum()))


def test_float(net: nn.Module) -> None:
    inputs = image()
    c = build(net, inputs, quantization=None)
    np.testing.assert_allclose(c.run(*inputs).numpy(), net(*inputs).detach().numpy(), atol=1e-5)
    assert c.output.suffix == ".tflite" and c.check.ops


@pytest.mark.parametrize("layout, transposes", [("contiguous", 1), ("channels_last", 0)])
def test_int8(net: nn.Module, layout: str, transposes: int) -> None:
    """Full integer, the PyTorch-side flatten absorbed; no TRANSPOSE with channels-last I/O."""
    inputs = image()
    c = build(net, inputs, io_layout=layout)
    assert c.performance["float_operators"] == 0
    assert c.performance["operators"].get("TRANSPOSE", 0) == transposes == c.waste["transposes"]
    for kernels in ("litert", "litert-xnnpack"):
        assert sqnr(c.run(*inputs, on=kernels), net(*inputs)) > 30
    assert c.check.worst_op.error <= 1
    assert (c.io.inputs[0].dtype, c.io.inputs[0].layout) == ("int8", layout)


@pytest.mark.parametrize("quantization", ["a16w8", "a8w4"])
def test_other_recipes(net: nn.Module, quantization: str) -> None:
    inputs = image()
    c = build(net, inputs, quantization=quantization)
    assert sqnr(c.run(*inputs), net(*inputs)) > (50 if quantization == "a16w8" else 20)


@pytest.mark.parametrize("io_type", ["uint8", "int16", "float32"])
def test_io_types(net: nn.Module, io_type: str) -> None:
    inputs = image()
    c = build(net, inputs, npuc.Target.named("tflite", io_type=io_type))
    ports = (*c.io.inputs, *c.io.outputs)
    assert {p.dtype for p in ports} == {io_type}
    assert all((p.scale is None) == (io_type == "float32") for p in ports)
    assert sqnr(c.run(*inputs), net(*inputs)) > 30


def test_real_outputs_round_as_codes_do() -> None:
    """The self-check knows that a float output of a quantized network was codes before."""
    torch.manual_seed(9)
    model, inputs = Net().eval(), image()
    c = build(model, inputs, npuc.Target.named("tflite", io_type="float32"))
    assert c.check.outputs[0].sqnr < 60  # what floats need to agree
    assert sqnr(c.run(*inputs), model(*inputs)) > 50


def test_integers_only(net: nn.Module) -> None:
    inputs = image()
    assert build(net, inputs, "tflite-int8").performance["float_operators"] == 0
    with pytest.raises(npuc.Unsupported, match="tflite-int8 takes no operators on floats"):
        build(net, inputs, "tflite-int8", None)


def test_a_network_of_other_ops() -> None:
    model = Mixed().eval()
    inputs = (torch.randint(0, 11, (2, 6)),)
    c = build(model, inputs)
    assert c.performance["float_operators"] == 0
    y, index = c.run(*inputs)
    assert sqnr(y, model(*inputs)[0]) > 25 and index.dtype == torch.int64
    assert c.check.worst_op.error <= 1


def test_unknown_option(net: nn.Module) -> None:
    with pytest.raises(npuc.BadInput, match="no option 'io_tpye'"):
        build(net, image(), npuc.Target.named("tflite", io_tpye="uint8"))
    with pytest.raises(npuc.BadInput, match="one of int8"):
        build(net, image(), npuc.Target.named("tflite", io_type="int4"))


def test_saved_files(net: nn.Module, tmp_path: Path) -> None:
    c = build(net, image(), npuc.Target.named("tflite", c_header=True), io_layout="channels_last")
    paths = {p.suffix: p for p in c.save(tmp_path, "my-net")}
    assert set(paths) == {".tflite", ".json", ".mlir", ".h"}
    assert inspect_file(str(paths[".tflite"]))["kind"] == "TFLite flatbuffer"
    described = json.loads(paths[".json"].read_text())["io"]["inputs"][0]
    assert (described["dtype"], described["layout"]) == ("int8", "channels_last")
    text = paths[".h"].read_text()
    port = c.io.inputs[0]
    for line in (
        "#define MY_NET_INPUT_COUNT 1", "#define MY_NET_INPUT_0_SHAPE {1, 12, 12, 3}",
        "#define MY_NET_INPUT_0_TYPE int8_t", '#define MY_NET_INPUT_0_LAYOUT "NHWC"',
        f"#define MY_NET_INPUT_0_ZERO_POINT {port.zero_point}", "#define MY_NET_OUTPUT_0_SIZE 5",
    ):  # fmt: skip
        assert line in text.splitlines()
    scale = next(line.split()[-1] for line in text.splitlines() if "INPUT_0_SCALE" in line)
    assert np.float32(scale.rstrip("f")) == np.float32(port.scale)
    if compiler := shutil.which("cc"):
        source = tmp_path / "use.c"
        source.write_text('#include "my-net.h"\nint shape[] = MY_NET_INPUT_0_SHAPE;\n'
                          "MY_NET_INPUT_0_TYPE buffer[MY_NET_INPUT_0_SIZE];\n"
                          "float scale = MY_NET_INPUT_0_SCALE;\n")  # fmt: skip
        subprocess.run(
            [compiler, "-Wall", "-Werror", "-c", str(source), "-o", str(tmp_path / "use.o")],
            check=True,
        )


@pytest.mark.parametrize("chip", ["ethos-u55-128", "ethos-u85-256"])
def test_ethos_u_by_the_tflite_route(net: nn.Module, chip: str) -> None:
    """Vela takes the whole network; both routes compute the same within rounding."""
    inputs = image()
    c = build(net, inputs, npuc.Target.named(chip, route="tflite"), io_layout="channels_last")
    assert c.performance["cpu_operators"] == []
    assert c.performance["total_cycles"] > 0 and c.output.suffix == ".vela.tflite"
    kinds = inspect_file_bytes(c.artifact)
    assert list(kinds) == ["ethos-u (version 1)"]
    other = build(net, inputs, chip, io_layout="channels_last")
    assert sqnr(c.run(*inputs), other.run(*inputs)) > 30


def inspect_file_bytes(data: bytes) -> dict[str, int]:
    from npuc.serialize.read_tflite import read_tflite, summarize

    return dict(summarize(read_tflite(data))["operators"])


def test_vela_says_what_stays_on_the_cpu() -> None:
    model = Mixed().eval()
    c = build(
        model, (torch.randint(0, 11, (2, 6)),), npuc.Target.named("ethos-u55-128", route="tflite")
    )
    assert any(text.startswith("GATHER: ") for text in c.performance["cpu_operators"])


def test_wrong_executor(net: nn.Module) -> None:
    c = build(net, image())
    with pytest.raises(npuc.BadInput, match="does not run on evaluator"):
        c.run(*image(), on="evaluator")


def test_a_symbolic_dimension_is_refused(net: nn.Module) -> None:
    dynamic = ({0: torch.export.Dim("n", min=1, max=8)},)
    inputs = (torch.randn(2, 3, 12, 12),)
    with pytest.raises(npuc.NpucError, match="only at run time"):
        npuc.compile(net, inputs, target="tflite", dynamic_shapes=dynamic, progress=False)
