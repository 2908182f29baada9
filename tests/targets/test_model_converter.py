"""The VGF converter and the description of its files."""

from __future__ import annotations

import pytest

from npuc.errors import BadInput, NpucError, ToolMissing
from npuc.execute import vgf_file
from npuc.targets import model_converter
from npuc.targets.model_converter import convert_to_vgf, describe_vgf
from tests.execute import tiny_tosa


def test_conversion_keeps_ports(capfd: pytest.CaptureFixture[str]) -> None:
    vgf = convert_to_vgf(tiny_tosa.int8_conv())
    description = describe_vgf(vgf)
    inputs, outputs = vgf_file.read_ports(description)
    assert [(p.binding, p.vk_format, p.shape) for p in inputs] == [
        (0, "VK_FORMAT_R8_SINT", (1, 16, 16, 4))
    ]
    assert [(p.binding, p.vk_format, p.shape) for p in outputs] == [
        (1, "VK_FORMAT_R8_SINT", (1, 16, 16, 8))
    ]
    assert description["header"]["minor"] == 5
    assert capfd.readouterr() == ("", "")


def test_extra_arguments_reach_the_tool() -> None:
    plain = convert_to_vgf(tiny_tosa.int8_conv())
    assert len(convert_to_vgf(tiny_tosa.int8_conv(), ["--emit-debug-info"])) > len(plain)


def test_refused_graph_says_why_and_how_to_repeat() -> None:
    with pytest.raises(NpucError) as raised:
        convert_to_vgf(tiny_tosa.int8_conv(out_height=9), ["--require-static-shape"])
    text = str(raised.value)
    assert "calculated output" in text and "did not match expected" in text
    assert "model-converter -i model.tosa -o model.vgf --require-static-shape" in text
    assert "\n" not in text


@pytest.mark.parametrize("junk", [b"", b"junk" * 20])
def test_junk(junk: bytes) -> None:
    with pytest.raises(BadInput, match="not a TOSA file"):
        convert_to_vgf(junk)
    with pytest.raises(BadInput, match="not a VGF file"):
        describe_vgf(junk)


def test_cut_vgf() -> None:
    vgf = convert_to_vgf(tiny_tosa.int8_conv())
    with pytest.raises(BadInput, match="not a VGF file"):
        describe_vgf(vgf[: len(vgf) // 2])


def test_missing_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_converter, "find_binary", lambda *_: None)
    monkeypatch.setattr(vgf_file, "find_binary", lambda *_: None)
    with pytest.raises(ToolMissing, match="pip install ai-ml-sdk-model-converter"):
        convert_to_vgf(tiny_tosa.int8_conv())
    with pytest.raises(ToolMissing, match="pip install ai-ml-sdk-vgf-library"):
        describe_vgf(b"")


def test_find_binary_of_unknown_package() -> None:
    assert vgf_file.find_binary("no_such_package", "tool") is None
    assert vgf_file.find_binary("json", "tool") is None


def test_tool_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vgf_file, "TIMEOUT_SECONDS", 0.1)
    with pytest.raises(NpucError, match=r"sleep: no result after 0\.1 s"):
        vgf_file.run_tool(["sleep", "5"])
