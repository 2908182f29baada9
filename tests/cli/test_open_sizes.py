"""`--size NAME=NUMBER` for programs with sizes known only at run time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

from tests.cli.run_cli import run_cli

CASES = [
    ([], "axis 0 is s\\d+ \\(1\\.\\.4\\), axis 2 is s\\d+ \\(8\\.\\.15\\), known only at run time, "
         "and tosa-1\\.0\\+fp takes fixed sizes; .*--size s\\d+=4 --size s\\d+=15"),
    (["--size", "{batch}=2"], "axis 2 is s\\d+ .* takes fixed sizes"),
    (["--size", "{batch}=9"], "size s\\d+=9: s\\d+ is 9, outside 1\\.\\.4"),
    (["--size", "depth=9"], "size depth=9: m has open sizes s\\d+ \\(1\\.\\.4\\), s\\d+"),
    (["--size", "{batch}=two"], "--size 's\\d+=two'; the form is NAME=NUMBER"),
]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A .pt2 file, and torch's names of its open sizes: a file does not keep the user's."""
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, 2, 1), torch.nn.ReLU()).eval()
    sizes = {0: Dim("batch", min=1, max=4), 2: Dim("height", min=8, max=15)}
    program = torch.export.export(net, (torch.randn(2, 3, 12, 9),), dynamic_shapes=(sizes,))
    path = tmp_path_factory.mktemp("open") / "m.pt2"
    torch.export.save(program, path)
    (x,) = [n.meta["val"] for n in program.graph.nodes if n.name == "input"]
    return path, [str(x.shape[0]), str(x.shape[2])]


def _compile(path: Path, out: Path, names: list[str], options: list[str], target: str) -> Any:
    given = [o.format(batch=names[0], height=names[1]) for o in options]
    return ["compile", path, "--target", target, "-o", out, *given]


@pytest.mark.parametrize(("options", "why"), CASES)
def test_refusals(model, options, why, tmp_path, capsys, monkeypatch) -> None:
    path, names = model
    arguments = _compile(path, tmp_path / "out", names, options, "tosa-1.0+fp")
    status, _, err = run_cli(capsys, monkeypatch, *arguments)
    assert status != 0 and not (tmp_path / "out").exists()
    assert re.search(why, " ".join(err.split())), err


@pytest.mark.parametrize(
    ("target", "options", "shape"),
    [
        ("tosa-1.0+fp", ["--size", "{batch}=3", "--size", "{height}=9"], [3, 3, 9, 9]),
        ("tosa-1.1+fp+shape", ["--size", "{batch}=3"], [3, 3, "{height}", 9]),
        ("tosa-1.1+fp+shape", [], ["{batch}", 3, "{height}", 9]),
    ],
)
def test_sizes(model, target, options, shape, tmp_path, capsys, monkeypatch) -> None:
    path, names = model
    arguments = _compile(path, tmp_path / "out", names, options, target)
    status, out, err = run_cli(capsys, monkeypatch, *arguments, "--json")
    assert status == 0, err
    wanted = [d if isinstance(d, int) else d.format(batch=names[0], height=names[1]) for d in shape]
    assert json.loads(out)["io"]["inputs"][0]["shape"] == wanted
