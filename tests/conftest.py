"""What all tests share: one thread each, and the switch that rewrites golden texts."""

from __future__ import annotations

import os

import pytest

# Before anything loads a BLAS: the machine's cores are for parallel tests, not for threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write the expected texts anew")


@pytest.fixture
def update_goldens(request: pytest.FixtureRequest) -> bool:
    """True when golden files are to be written instead of compared."""
    return bool(request.config.getoption("--update-goldens"))
