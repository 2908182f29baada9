"""NXP's converter, here the stand-in of standin_converter.py: how it is called, what can go wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import npuc
from npuc.errors import BadInput, NpucError, ToolMissing
from npuc.report.inspect_file import inspect_file
from npuc.serialize.read_tflite import read_tflite
from npuc.targets.neutron_converter import Settings, convert_for_neutron, find_sdk
from npuc.targets.neutron_payload import read_payload
from npuc.targets.target import Target

Sdk = Callable[[str], None]
IMAGE = (torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(0)),)


def compiled(name: str = "neutron-imxrt700", io_layout: str = "contiguous", **options: Any) -> Any:
    """A convolution for a Neutron target."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()).eval()
    return npuc.compile(
        model, IMAGE, target=Target.named(name, **options), quantization="int8", calibration=[IMAGE],
        progress=False, io_layout=io_layout,
    )  # fmt: skip


@pytest.fixture(scope="module")
def checked() -> bytes:
    """The checked TFLite file of a small model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data: bytes = compiled(artifact="tflite").artifact
    return data


def test_without_the_sdk(checked: bytes) -> None:
    assert find_sdk() is None
    with pytest.raises(ToolMissing, match=r"not installed.*install eiq-neutron-sdk"):
        convert_for_neutron(checked, "imxrt700", Settings())


@pytest.mark.parametrize(
    ("found", "refused"), [("3.0.1", True), ("3.1.2", False), ("3.2.0rc1", False)]
)
def test_versions(sdk: Sdk, monkeypatch: pytest.MonkeyPatch, found: str, refused: bool) -> None:
    sdk("")
    monkeypatch.setattr("npuc.targets.neutron_converter.version", lambda name: found)
    if not refused:
        assert compiled().performance["sdk"] == found
        return
    with pytest.raises(
        NpucError, match=r"too old: 3.0.1 is installed.*eiq-neutron-sdk==3.2.0"
    ) as e:
        compiled()
    assert e.value.left.check is not None


@pytest.mark.parametrize(
    ("layout", "conversion", "flags"),
    [
        ("contiguous", True, (0, 0)),
        ("channels_last", True, (1, 1)),
        ("contiguous", False, (1, 1)),
    ],
)
def test_payload_and_who_transposes(
    sdk: Sdk, layout: str, conversion: bool, flags: tuple[int, int], tmp_path: Path
) -> None:
    sdk("")
    c = compiled(io_layout=layout, format_conversion=conversion)
    assert c.output.suffix == ".neutron" and c.performance["npu_graphs"] == 1
    payload = read_payload(c.artifact)
    assert (payload.input_formats, payload.output_formats) == ((flags[0],), (flags[1],))
    assert c.run(*IMAGE).shape == (1, 8, 8, 8), "the checked file is executed"
    read = read_tflite(c.output.files[".npu.tflite"]).subgraphs[0]
    channels_last = flags == (1, 1)
    assert read.tensors[read.inputs[0]].shape == ((1, 8, 8, 3) if channels_last else (1, 3, 8, 8))
    paths = c.save(tmp_path, "m")
    kinds = {
        p.name: inspect_file(str(p))["kind"] for p in paths if p.suffix in (".neutron", ".tflite")
    }
    assert kinds == {
        "m.neutron": "Neutron payload (ExecuTorch)", "m.tflite": "TFLite flatbuffer",
        "m.npu.tflite": "TFLite flatbuffer",
    }  # fmt: skip


def test_lists_only(sdk: Sdk, checked: bytes) -> None:
    sdk("lists")
    assert convert_for_neutron(checked, "imxrt700", Settings()).model[4:8] == b"TFL3"


def test_log_and_facts(sdk: Sdk, checked: bytes) -> None:
    sdk("")
    made = convert_for_neutron(checked, "imxrt700", Settings())
    assert "converting for imxrt700" in made.log
    assert made.facts == {"name": "imxrt700", "numMacs": 8, "hwVersion": 2}
    assert made.version == "unknown" and made.kernel_selection == b""


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("crash", "signal 6; its log ends: stand-in converter"),
        ("hang", "more than 1 s"),
        ("raise", "RuntimeError: Unable to convert the model"),
    ],
)
def test_failures(sdk: Sdk, how: str, why: str) -> None:
    sdk(how)
    with pytest.raises(NpucError, match=why) as failure:
        compiled(timeout=1 if how == "hang" else 60)
    assert "artifact=tflite" in str(failure.value)
    left = failure.value.left
    assert left.check is not None, "the TFLite file is there and checked"
    assert b"stand-in converter" in left.output.files[".converter.log"]


def test_target_that_the_sdk_does_not_have(sdk: Sdk, checked: bytes) -> None:
    sdk("")
    with pytest.raises(BadInput, match="no target s32k5, it has imxrt700, imx95, mcxn94x"):
        convert_for_neutron(checked, "s32k5", Settings())


@pytest.mark.parametrize(
    ("how", "reported"),
    [
        ("cpu", "one NPU graph and operators that stay on the CPU: ADD"),
        ("two", "2 NPU graphs"),
        ("none", "0 NPU graphs and operators that stay on the CPU: ADD"),
        ("rename", "input 'renamed_"),
    ],
)
def test_results_that_are_no_payload(sdk: Sdk, how: str, reported: str) -> None:
    sdk(how)
    with pytest.warns(UserWarning, match=reported):
        c = compiled()
    assert c.output.suffix == ".npu.tflite", "what the converter made is kept"
    with pytest.raises(NpucError, match=reported):
        compiled(artifact="payload")
    counts = {"cpu": 1, "two": 2, "none": 0, "rename": 1}
    assert c.performance["npu_graphs"] == counts[how]
    assert c.performance["cpu_operators"] == (["ADD"] if how in ("cpu", "none") else [])


def test_other_chips_have_tflite_files(sdk: Sdk) -> None:
    sdk("cpu")
    c = compiled("neutron-imx95")
    assert c.output.suffix == ".npu.tflite" and c.performance["cpu_operators"] == ["ADD"]


def test_profiling_is_version_1(sdk: Sdk) -> None:
    sdk("")
    assert read_payload(compiled(profiling=True).artifact).version == 1
    sdk("old")
    with pytest.raises(BadInput, match="no profiling"):
        compiled(profiling=True)


def test_kernel_selection(sdk: Sdk) -> None:
    sdk("")
    c = compiled(dump_kernel_selection="true")
    assert c.output.files[".kernel_selection.c"] == b"/* kernels */\n"


def test_extra_flags(sdk: Sdk) -> None:
    sdk("")
    compiled(extra_flags="--min-num-ops-per-graph=2 verbose=true")
    with pytest.raises(BadInput, match=r"no option 'fast', it has.*minNumOpsPerGraph"):
        compiled(extra_flags="fast")
    with pytest.raises(BadInput, match="whole number"):
        compiled(extra_flags=("minNumOpsPerGraph=many",))


def test_the_same_output_twice_is_no_payload(sdk: Sdk) -> None:
    sdk("")

    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = x * x
            return y, y

    with pytest.warns(UserWarning, match="there twice"):
        c = npuc.compile(
            Twice(), IMAGE, target="neutron-imxrt700", quantization="int8", calibration=[IMAGE],
            progress=False,
        )  # fmt: skip
    assert c.output.suffix == ".npu.tflite"
