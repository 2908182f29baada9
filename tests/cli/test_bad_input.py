"""The user's mistakes: one clear message, a non-zero status, no traceback, no partial file."""

from __future__ import annotations

import os
import textwrap

import numpy as np
import pytest

from tests.cli.run_cli import run_cli

MODELS = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def forward(self, x):
            return torch.relu(x)

    class Raises(nn.Module):
        def forward(self, x):
            return x @ torch.ones(7, 7)

    class NoRule(nn.Module):
        def forward(self, x):
            return torch.linalg.svd(x)[1]

    def good(): return Net().eval(), (torch.randn(2, 3),)
    def fails(): raise RuntimeError("weights are missing")
    def raises(): return Raises().eval(), (torch.randn(2, 3),)
    def no_rule(): return NoRule().eval(), (torch.randn(2, 3),)
    def no_inputs(): return Net().eval()
    def wrong_type(): return 3, (torch.randn(2, 3),)
    def calib_wrong_shape(): return [(torch.randn(5, 7, 2),)]
    def calib_not_iterable(): return 7
    def calib_nan(): return [(torch.full((2, 3), float("nan")),)]
    def calib_integers(): return [(torch.ones(2, 3, dtype=torch.int64),)]
    def calib_raises():
        yield (torch.randn(2, 3),)
        raise OSError("the disk is gone")
    def exits(): raise SystemExit(0)
    def nothing(): return None
    def three(): return Net(), (torch.randn(2, 3),), "extra"
    def no_elements(): return Net(), (torch.randn(0, 3),)
    def on_meta(): return nn.Linear(3, 2, device="meta"), (torch.randn(2, 3),)
    def broken():
        model = nn.Linear(3, 2)
        model.weight.data[0, 0] = float("nan")
        return model, (torch.randn(2, 3),)
    def branches():
        class Branches(nn.Module):
            def forward(self, x):
                return x if x.sum() > 0 else -x
        return Branches(), (torch.randn(2, 3),)
"""


@pytest.fixture
def models(tmp_path):
    path = tmp_path / "models.py"
    path.write_text(textwrap.dedent(MODELS))
    return path


CASES = [
    (["compile", "nothing.py:model", "-t", "tosa-1.0+fp"], "no file nothing.py"),
    (["compile", "nothing.pt2", "-t", "tosa-1.0+fp"], "no file nothing.pt2"),
    (["compile", "{models}", "-t", "tosa-1.0+fp"], "MODEL is file.py:function"),
    (["compile", "no.such.module:model", "-t", "tosa-1.0+fp"], "no module no.such.module"),
    (["compile", "{models}:absent", "-t", "tosa-1.0+fp"], "has no function absent"),
    (["compile", "{models}:fails", "-t", "tosa-1.0+fp"], "weights are missing"),
    (["compile", "{models}:raises", "-t", "tosa-1.0+fp"], "models.py:11"),
    (["compile", "{models}:no_rule", "-t", "tosa-1.0+fp"], "svd"),
    (["compile", "{models}:no_inputs", "-t", "tosa-1.0+fp"], "example_inputs"),
    (["compile", "{models}:wrong_type", "-t", "tosa-1.0+fp"], "int"),
    (["compile", "{models}:good", "-t", "ethos-u55-129"], "ethos-u55-128"),
    (["compile", "{models}:good", "-t", "tosa-7.0+int"], "TOSA 7.0 is not known"),
    (["compile", "{models}:good", "-t", "tosa-1.0+int+in16"], "unknown word 'in16'"),
    (["compile", "{models}:good", "-t", "tosa-1.0+int16"], "names no profile"),
    (["compile", "{models}:good", "-t", "tosa-1.0+fp+int16"], "PRO-INT"),
    (["compile", "{models}:good", "-t", "tosa-1.0+fp", "-q", "int7"], "int7"),
    (["compile", "{models}:good", "-t", "tosa-1.0+fp", "-q", "int8"], "PRO-INT"),
    (["compile", "{models}:good", "-t", "ethos-u55-128"], "FP32"),
    (["compile", "{models}:good", "-t", "vgf", "--option", "nonsense=1"], "no option 'nonsense'"),
    (["compile", "{models}:good", "-t", "vgf", "--option", "nonsense"], "KEY=VALUE"),
    (["compile", "{models}:good", "-t", "tosa-1.0+int", "-q", "int8", "--calib", "no.npz"], "no file no.npz"),
    (["compile", "{models}:good", "-t", "tosa-1.0+int", "-q", "int8", "--calib",
      "{models}:calib_wrong_shape"], "(5, 7, 2)"),
    (["compile", "{models}:good", "-t", "tosa-1.0+int", "-q", "int8", "--calib",
      "{models}:calib_not_iterable"], "iterable"),
    (["compile", "{models}:good", "-t", "ethos-u55-128", "-q", "int8", "--option",
      "memory_mode=Nope"], "Shared_Sram"),
    (["compile", "{models}:good", "-t", "tosa-1.0+int", "-q", "int8", "--calib",
      "{models}:calib_nan"], "calibration sample 0, input x: it has NaN"),
    (["compile", "{models}:good", "-t", "tosa-1.0+int", "-q", "int8", "--calib",
      "{models}:calib_integers"], "it is int64, the model takes float32"),
    (["compile", "{models}:good", "-t", "tosa-1.0+int", "-q", "int8", "--calib",
      "{models}:calib_raises"], "models.py:29: OSError: the disk is gone"),
    (["compile", "{models}:exits", "-t", "tosa-1.0+fp"], "raised at"),
    (["compile", "{models}:nothing", "-t", "tosa-1.0+fp"], "returns None"),
    (["compile", "{models}:three", "-t", "tosa-1.0+fp"], "returns a tuple of 3"),
    (["compile", "{models}:no_elements", "-t", "tosa-1.0+fp"], "its shape (0, 3) has no elements"),
    (["compile", "{models}:on_meta", "-t", "tosa-1.0+fp"], "weight is on the device meta"),
    (["compile", "{models}:broken", "-t", "tosa-1.0+int", "-q", "int8"], "parameter weight: it has"),
    (["compile", "{models}:branches", "-t", "tosa-1.0+fp"], "torch.where or torch.cond"),
    (["compile", "os.path:join", "-t", "tosa-1.0+fp"], "join() of os.path raised: TypeError"),
    (["inspect", "nothing.tosa"], "no file nothing.tosa"),
    (["inspect", "{models}"], "none of the files npuc writes"),
]  # fmt: skip


@pytest.mark.parametrize("arguments, text", CASES, ids=[" ".join(a[1:])[-60:] for a, _ in CASES])
def test_mistakes_end_in_one_message(models, tmp_path, capsys, monkeypatch, arguments, text):
    monkeypatch.chdir(tmp_path)
    arguments = [a.replace("{models}", str(models)) for a in arguments]
    status, _, err = run_cli(capsys, monkeypatch, *arguments)
    assert status != 0
    assert text in err
    assert "Traceback" not in err and "class GraphModule" not in err
    left = [p for p in tmp_path.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")]
    assert not left


def test_a_syntax_error_has_its_line(tmp_path, capsys, monkeypatch):
    path = tmp_path / "typo.py"
    path.write_text("import torch\n\ndef model(:\n")
    status, _, err = run_cli(capsys, monkeypatch, "compile", f"{path}:model", "-t", "vgf")
    assert status != 0 and "typo.py:3: SyntaxError" in err and "Traceback" not in err


@pytest.mark.parametrize("array", [np.array([{1: 2}], object), np.array(["text"])])
def test_calibration_files_without_numbers(models, tmp_path, capsys, monkeypatch, array):
    np.savez(tmp_path / "odd.npz", x=array)
    command = ["compile", f"{models}:good", "-t", "tosa-1.0+int", "-q", "int8"]
    status, _, err = run_cli(capsys, monkeypatch, *command, "--calib", tmp_path / "odd.npz")
    assert status != 0 and "cannot read" in err and "Traceback" not in err


def test_corrupt_pt2(tmp_path, capsys, monkeypatch):
    path = tmp_path / "broken.pt2"
    path.write_bytes(b"PK\x03\x04 this is no archive")
    status, _, err = run_cli(capsys, monkeypatch, "compile", path, "-t", "tosa-1.0+fp")
    assert status != 0 and "broken.pt2" in err and "Traceback" not in err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is a Linux device")
def test_a_full_disk_leaves_no_partial_file(models, tmp_path, capsys, monkeypatch):
    import pathlib

    def full(self, data):
        with open("/dev/full", "wb") as f:
            f.write(data)

    monkeypatch.setattr(pathlib.Path, "write_bytes", full)
    out = tmp_path / "out"
    command = ["compile", f"{models}:good", "-t", "tosa-1.0+fp", "-o", out]
    status, _, err = run_cli(capsys, monkeypatch, *command)
    assert status != 0 and "No space left" in err and "Traceback" not in err
    assert list(out.iterdir()) == []


def test_output_directory_that_is_a_file(models, tmp_path, capsys, monkeypatch):
    (tmp_path / "taken").write_text("")
    command = ["compile", f"{models}:good", "-t", "tosa-1.0+fp", "-o", tmp_path / "taken"]
    status, _, err = run_cli(capsys, monkeypatch, *command)
    assert status != 0 and "cannot write" in err and "Traceback" not in err
