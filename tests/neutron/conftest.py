"""The stand-in for NXP's converter, installed for one test."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Installs the stand-in; call it with words that say how it misbehaves."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.syspath_prepend(str(HERE / "sdk"))
    for name in [n for n in sys.modules if n.startswith("eiq_neutron_sdk")]:
        monkeypatch.delitem(sys.modules, name)
    return lambda words: monkeypatch.setenv("NEUTRON_STANDIN", words)
