"""Refusals of the frontend with the op and the place in the user's model."""

from __future__ import annotations

from npuc.errors import Reason, Unsupported


def placed(error: Unsupported, kind: str, where: str) -> Unsupported:
    """The same refusal with op and place filled in where they were left open."""
    return Unsupported(
        [Reason(r.op or kind, r.where or where, r.why, r.hint) for r in error.reasons]
    )
