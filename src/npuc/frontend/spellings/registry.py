"""How each ATen spelling is written in canonical ops: one function per op, found by its kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Respell = Callable[..., Any]


@dataclass(frozen=True)
class Spelling:
    """`respell(speller, *args, **kwargs)` returns the canonical values, or None to keep the op.

    `into`: the canonical kinds without which the spelling is of no use (rare cases and plain
    data movement may emit others).
    """

    respell: Respell
    into: frozenset[str]


SPELLINGS: dict[str, Spelling] = {}


def spells(kinds: str, into: str) -> Callable[[Respell], Respell]:
    """Register how the aten ops `kinds` (names without "aten.", separated by blanks) are written
    in the canonical ops `into`."""

    def register(respell: Respell) -> Respell:
        for name in kinds.split():
            add(name, respell, into)
        return respell

    return register


def add(name: str, respell: Respell, into: str) -> None:
    """Register one spelling; a name that has one already is a mistake."""
    kind = name if "." in name and name.split(".")[0] in _NAMESPACES else f"aten.{name}"
    if kind in SPELLINGS:
        raise ValueError(f"{kind} is spelled twice")
    full = frozenset(n if n.split(".")[0] in _NAMESPACES else f"aten.{n}" for n in into.split())
    SPELLINGS[kind] = Spelling(respell, full)


_NAMESPACES = ("quantized_decomposed", "torchao")
