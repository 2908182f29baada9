"""The target without NXP's converter: the checked TFLite file, its forms, options and refusals."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner
from torch import Tensor, nn

import npuc
from npuc.cli.main import cli
from npuc.errors import BadInput, ToolMissing, Unsupported
from npuc.serialize.read_tflite import read_tflite
from npuc.targets.neutron_policy import OPERATORS
from npuc.targets.target import Target

IMAGE = torch.randn(1, 8, 16, 16, generator=torch.Generator().manual_seed(0)) * 2


class Of(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


def compiled(
    model: nn.Module, *inputs: Tensor, target: Any = "neutron-imxrt700", **options: Any
) -> Any:
    """The compilation of a model, quantized on its inputs; the warning about NXP's converter aside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return npuc.compile(
            model.eval(), inputs, target=target, quantization="int8", calibration=[inputs],
            progress=False, **options,
        )  # fmt: skip


def operators(c: Any) -> dict[str, int]:
    """Operators by name."""
    found: dict[str, int] = c.performance["operators"]
    assert set(found) <= set(OPERATORS) - {"QUANTIZE"}, "an operator that Neutron does not have"
    return found


def test_the_checked_file_is_the_artifact_and_a_warning_says_so() -> None:
    model, x = nn.Conv2d(8, 4, 3).eval(), (IMAGE,)
    with pytest.warns(UserWarning, match=r"eiq_neutron_sdk.*not installed"):
        c = npuc.compile(model, x, target="neutron-imxrt700", quantization="int8", calibration=[x])
    assert c.output.suffix == ".tflite" and c.check is not None
    assert c.run(*x).shape == (1, 4, 14, 14)


def test_asked_for_there_is_no_warning() -> None:
    target = Target.named("neutron-imxrt700", artifact="tflite")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        npuc.compile(
            nn.ReLU(), (IMAGE,), target=target, quantization="int8", calibration=[(IMAGE,)]
        )


@pytest.mark.parametrize("artifact", ["payload", "npu-tflite"])
def test_what_needs_the_converter(artifact: str) -> None:
    with pytest.raises(ToolMissing, match=r"eiq_neutron_sdk.*install eiq-neutron-sdk==3.2.0"):
        compiled(
            nn.Conv2d(8, 4, 3), IMAGE, target=Target.named("neutron-imxrt700", artifact=artifact)
        )


def test_the_command_leaves_the_checked_file(tmp_path: Path) -> None:
    model = tmp_path / "small.py"
    model.write_text("import torch\nmodel = lambda: (torch.nn.Conv2d(3, 4, 3).eval(), "
                     "(torch.randn(1, 3, 8, 8),))\n")  # fmt: skip
    result = CliRunner().invoke(
        cli, ["compile", f"{model}:model", "-t", "neutron-imxrt700", "-q", "int8", "--quiet",
              "-o", str(tmp_path / "out"), "--option", "artifact=payload"],
    )  # fmt: skip
    assert isinstance(result.exception, ToolMissing)
    assert "left:" in result.output
    assert read_tflite((tmp_path / "out" / "small.tflite").read_bytes()).subgraphs


def test_pte_needs_the_converter() -> None:
    with pytest.raises(ToolMissing, match="eiq_neutron_sdk"):
        compiled(nn.Conv2d(8, 4, 3), IMAGE, format="pte")


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("neutron-imxrt700", {"artifact": "bin"}, "artifact='bin'"),
        ("neutron-imxrt700", {"profling": True}, "no option 'profling'"),
        ("neutron-imxrt700", {"profiling": "yes"}, "profiling='yes'"),
        ("neutron-imxrt700", {"timeout": "soon"}, "timeout='soon'"),
        ("neutron-imxrt700", {"io_type": "uint8"}, "int8 only"),
        ("neutron-imx95", {"artifact": "payload"}, "imxrt700 only"),
        ("neutron-imxrt700", {"artifact": "payload", "cpu_operators": True}, "all of it"),
    ],
)
def test_options_that_are_refused(name: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        compiled(nn.Conv2d(8, 4, 3), IMAGE, target=Target.named(name, **options))


def test_unknown_chip() -> None:
    with pytest.raises(BadInput, match="neutron-imx95"):
        compiled(nn.ReLU(), IMAGE, target="neutron-imx96")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.reshape(4, -1),
        lambda x: x.unsqueeze(0),
        lambda x: x + 0,
        lambda x: x * 1.0,
        lambda x: x.view(1, 1, -1).amax(1, keepdim=True),
        lambda x: x.permute(1, 0, 2, 3),
    ],
)
def test_nothing_to_compute(function: Callable[..., Tensor]) -> None:
    with pytest.raises(Unsupported, match="nothing is left to compute"):
        compiled(Of(function), IMAGE)


def test_channels_last_needs_no_transpose() -> None:
    model = nn.Sequential(
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU6(), nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(16, 4), nn.Softmax(-1),
    )  # fmt: skip
    assert "TRANSPOSE" not in operators(compiled(model, IMAGE, io_layout="channels_last"))


def test_linear_layers_keep_a_scale_per_channel() -> None:
    layer = nn.Linear(16, 8)
    with torch.no_grad():
        layer.weight *= torch.logspace(-3, 0, 8)[:, None]
    c = compiled(layer, torch.randn(32, 16))
    assert operators(c) == {"RESHAPE": 2, "CONV_2D": 1}
    flat = npuc.quantizer.Recipe(per_channel=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = (torch.randn(32, 16),)
        one = npuc.compile(layer, x, target="neutron-imxrt700", quantization=flat, calibration=[x])
    assert operators(one) == {"FULLY_CONNECTED": 1}


def sqnr(c: Any, *inputs: Tensor) -> float:
    """Of the first output against the model in float, in dB."""
    return float(c.check.outputs[0].sqnr_float)


FORMS: list[tuple[str, Callable[..., Tensor], tuple[Tensor, ...], dict[str, int]]] = [
    ("both broadcast", lambda a, b: a + b, (IMAGE[:, :, :1], IMAGE[:, :1]), {"ADD": 2}),
    ("expand", lambda a: a.expand(1, 8, 16, 16) * 1.5, (IMAGE[:, :, :1],), {"ADD": 1, "MUL": 1}),
    ("matmul of rank 2", lambda a, b: a @ b, (torch.randn(6, 8), torch.randn(8, 4)),
     {"RESHAPE": 3, "BATCH_MATMUL": 1}),
    ("matmul with one batch", lambda a, b: a @ b, (torch.randn(3, 2, 6, 8), torch.randn(1, 1, 8, 4)),
     {"RESHAPE": 3, "ADD": 1, "BATCH_MATMUL": 1}),
    ("average, own divisors", lambda a: F.avg_pool2d(a, 3, 2, 1, count_include_pad=False), (IMAGE,),
     {"RESHAPE": 2, "CONV_2D": 1}),
    ("average of whole windows", lambda a: F.avg_pool2d(a, 2), (IMAGE.abs(),),
     {"TRANSPOSE": 2, "AVERAGE_POOL_2D": 1}),
    ("maximum of whole windows", lambda a: F.max_pool2d(a, 2), (IMAGE,),
     {"TRANSPOSE": 2, "MAX_POOL_2D": 1}),
    ("average, one divisor", lambda a: F.avg_pool2d(a, 2, divisor_override=3), (IMAGE,),
     {"TRANSPOSE": 2, "DEPTHWISE_CONV_2D": 1}),
    ("joined functions", lambda a: torch.cat([a.sigmoid(), a], 1), (IMAGE,),
     {"LOGISTIC": 1, "ADD": 1, "CONCATENATION": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function", "inputs", "want"), FORMS, ids=[f[0] for f in FORMS])
def test_forms(
    name: str, function: Callable[..., Tensor], inputs: tuple[Tensor, ...], want: dict[str, int]
) -> None:
    c = compiled(Of(function), *inputs)
    assert operators(c) == want
    assert sqnr(c) > 30


def test_several_filters_per_channel() -> None:
    c = compiled(nn.Conv2d(8, 24, 3, padding=1, groups=8), IMAGE)
    assert operators(c)["DEPTHWISE_CONV_2D"] == 3
    assert sqnr(c) > 33


@pytest.mark.parametrize(
    "function", [lambda x: x.argmax(1), lambda x: x.topk(2, 1)[0], lambda x: torch.atan2(x, x + 1)]
)
def test_what_neutron_does_not_have(function: Callable[..., Tensor]) -> None:
    with pytest.raises(Unsupported, match="Neutron"):
        compiled(Of(function), IMAGE.abs())


def test_operators_for_the_cpu_are_predicted() -> None:
    target = Target.named("neutron-imx95", cpu_operators=True, artifact="tflite")
    c = compiled(Of(lambda x: F.gelu(x * 2) + x), IMAGE, target=target)
    left = c.performance["cpu_operators"]
    assert (
        len(left) == 1 and left[0].startswith("GELU") and "Neutron has no such operator" in left[0]
    )
    assert compiled(Of(lambda x: x * x), IMAGE).performance["cpu_operators"] == []
