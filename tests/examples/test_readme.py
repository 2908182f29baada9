"""Runs exactly the commands that examples/README.md documents."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.networks import NEEDS

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "examples" / "README.md").read_text()
COMMANDS = re.findall(r"^ {4}(npuc compile .*)$", TEXT, re.M)

pytestmark = pytest.mark.slow


def name_of(command: str) -> str:
    return re.search(r"examples/(\w+)\.py", command).group(1)


def test_every_example_is_documented():
    files = {p.stem for p in (ROOT / "examples").glob("*.py")} - {"signals", "blocks"}
    assert {name_of(c) for c in COMMANDS} == files


@pytest.mark.parametrize("command", COMMANDS, ids=name_of)
def test_command(command, tmp_path):
    import importlib.util

    package = NEEDS.get(name_of(command))
    if package is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"package {package} is not installed")
    arguments = shlex.split(command)
    out = arguments[arguments.index("-o") + 1]
    arguments[0:1] = [sys.executable, "-m", "npuc.cli.main"]
    arguments[arguments.index("-o") + 1] = str(tmp_path / out)
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path, "COLUMNS": "300"}
    done = subprocess.run(arguments, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"NPU (\d+) of \1 ops.* check: ", done.stderr)
    assert done.stdout == ""
    written = list((tmp_path / out).iterdir())
    suffixes = {p.suffix for p in written}
    target = arguments[arguments.index("-t") + 1]
    wanted = {"vgf": ".vgf"}.get(target, ".tosa" if target.startswith("tosa") else ".bin")
    assert {wanted, ".tosa", ".mlir", ".json"} <= suffixes
    report = json.loads(next(p for p in written if p.suffix == ".json").read_text())
    assert report["check"]["ops_compared"] > 0
