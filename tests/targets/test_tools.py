"""`npuc doctor`: what is here works, what is broken or missing is told and never raises."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuc.execute import vgf_file, vulkan
from npuc.targets import model_converter, tools, vela
from npuc.targets.tools import Tool, installed_tools


def by_name() -> dict[str, Tool]:
    return {tool.name: tool for tool in installed_tools()}


def test_everything_works_here() -> None:
    found = by_name()
    needed = set(found) - {"torchao", "ai-edge-litert", "executorch", "eiq-neutron-sdk"}
    assert {name: found[name].problem for name in needed if not found[name].ok} == {}
    assert found["ethos-u-vela"].version == "5.2.0"
    assert found["Vulkan run"].version == "yes"
    assert all(tool.purpose and tool.how_to_install for tool in found.values())


def test_missing_and_broken_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", str(tmp_path / "icd.json"))
    monkeypatch.setattr(vela, "OLDEST", (99, 0, 0))
    monkeypatch.setattr(vulkan, "find_spec", lambda name: None)
    monkeypatch.setattr(model_converter, "find_binary", lambda *_: None)
    monkeypatch.setattr(vgf_file, "find_binary", lambda *_: None)
    monkeypatch.setattr(tools, "_expect_sum", lambda result: 1 // 0)
    found = by_name()
    assert "computes wrong pools" in found["ethos-u-vela"].problem
    assert found["Vulkan driver"].problem == f"{tmp_path / 'icd.json'} does not exist"
    assert found["tosa-tools"].problem.startswith("ZeroDivisionError")
    for name in ("ai-ml-emulation-layer-for-vulkan", "ai-ml-sdk-model-converter"):
        assert found[name].problem == "not installed"
    assert not found["Vulkan run"].ok
    assert found["Vulkan loader"].ok
