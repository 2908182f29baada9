"""The commands at work: files, JSON on stdout and nothing else there, the summary line."""

from __future__ import annotations

import json
import textwrap

import pytest

from tests.cli.run_cli import run_cli

MODEL = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, padding=1)
            self.fc = nn.Linear(8, 4)

        def forward(self, x):
            print("a model that prints")
            return self.fc(torch.relu(self.conv(x)).mean((2, 3)))

    class Svd(Net):
        def forward(self, x):
            return torch.linalg.svd(super().forward(x))[1]

    def model():
        torch.manual_seed(0)
        return Net().eval(), (torch.randn(1, 3, 8, 8),)

    def partly():
        torch.manual_seed(0)
        return Svd().eval(), (torch.randn(1, 3, 8, 8),)

    def calibration():
        torch.manual_seed(1)
        return [(torch.randn(1, 3, 8, 8),) for _ in range(4)]
"""


@pytest.fixture
def net(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(textwrap.dedent(MODEL))
    return path


@pytest.mark.parametrize("target, suffixes", [
    ("tosa-1.0+int", {".tosa", ".json", ".mlir"}),
    ("vgf", {".vgf", ".tosa", ".json", ".mlir"}),
    ("ethos-u55-128", {".bin", ".npz", ".tosa", ".json", ".mlir"}),
])  # fmt: skip
def test_compile_writes_and_inspect_reads(net, tmp_path, capsys, monkeypatch, target, suffixes):
    out = tmp_path / "out"
    command = ["compile", f"{net}:model", "-t", target, "-q", "int8", "-o", out]
    command += ["--calib", f"{net}:calibration"]
    status, stdout, err = run_cli(capsys, monkeypatch, *command)
    assert status == 0, err
    assert stdout == ""
    assert "NPU 4 of 4 ops" in err.replace("\n", " ")
    assert "check: " in err and "check: skipped" not in err
    assert {p.suffix for p in out.iterdir()} == suffixes
    for path in out.iterdir():
        if path.suffix in (".json", ".mlir"):
            continue
        status, stdout, err = run_cli(capsys, monkeypatch, "inspect", path, "--json")
        assert status == 0, err
        assert json.loads(stdout)["bytes"] == path.stat().st_size


def test_json_is_all_of_stdout(net, tmp_path, capsys, monkeypatch):
    command = ["compile", f"{net}:model", "-t", "ethos-u85-256", "-q", "int8", "--json"]
    status, stdout, err = run_cli(capsys, monkeypatch, *command, "-o", tmp_path / "out")
    assert status == 0, err
    report = json.loads(stdout)
    assert report["coverage"]["on_target"] == report["coverage"]["total"] == 4
    assert report["performance"]["total_cycles"] > 0
    assert report["io"]["inputs"][0]["dtype"] == "int8"
    assert report["check"]["ops_compared"] >= 3


def test_explain_names_the_op_and_the_line(net, capsys, monkeypatch):
    command = ["explain", f"{net}:partly", "-t", "tosa-1.0+fp", "--json"]
    status, stdout, _ = run_cli(capsys, monkeypatch, *command)
    assert status == 1
    (refused,) = [op for op in json.loads(stdout)["ops"] if not op["on_target"]]
    assert "svd" in refused["op"]
    assert refused["file"].endswith("net.py") and refused["line"] == 17
    assert refused["reason"] == "no lowering rule"


def test_targets_ops_doctor(capsys, monkeypatch):
    _, out, _ = run_cli(capsys, monkeypatch, "targets", "--json")
    assert {"vgf", "ethos-u55-128", "ethos-u85-2048", "tosa-1.0+int"} <= set(json.loads(out))
    _, out, _ = run_cli(capsys, monkeypatch, "ops", "--json")
    table = json.loads(out)
    assert "aten.convolution" in table
    assert all(text for text in table.values()), "a rule without a docstring"
    _, out, _ = run_cli(capsys, monkeypatch, "doctor", "--json")
    assert {"name", "purpose", "version", "ok", "how_to_install"} <= set(json.loads(out)[0])
