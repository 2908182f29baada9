"""What all tests share: one thread each, and the switch that rewrites golden texts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

# Before anything loads a BLAS: the machine's cores are for parallel tests, not for threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write the expected texts anew")


@pytest.fixture
def update_goldens(request: pytest.FixtureRequest) -> bool:
    """True when golden files are to be written instead of compared."""
    return bool(request.config.getoption("--update-goldens"))


@pytest.fixture
def golden(update_goldens: bool) -> Callable[[str, str], None]:
    """`golden("passes/name.mlir", text)` compares with tests/goldens, or rewrites the file."""

    def check(name: str, text: str) -> None:
        path = Path(__file__).parent / "goldens" / name
        if update_goldens:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        assert path.exists(), f"no golden {name}: run pytest with --update-goldens"
        assert text == path.read_text(), f"{name} differs; see the diff of --update-goldens"

    return check
