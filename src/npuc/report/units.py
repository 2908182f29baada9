"""Numbers with units, for people."""

from __future__ import annotations


def count_text(n: float) -> str:
    """1,034,567 -> "1.03 M", 89,412 -> "89.4 k"."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(n) >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n:g}"


def byte_text(n: float) -> str:
    """22,528 -> "22 kB"; 1 kB is 1,024 bytes."""
    for unit, size in (("GB", 2**30), ("MB", 2**20), ("kB", 2**10)):
        if abs(n) >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n:g} B"
