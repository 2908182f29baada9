"""Refusals of the frontend with the op and the place in the user's model."""

from __future__ import annotations

from npuc.errors import Reason, Unsupported
from npuc.ir import Loc


def placed(error: Unsupported, kind: str, loc: Loc) -> Unsupported:
    """The same refusal with op and place filled in where they were left open."""
    return Unsupported(
        [
            Reason(r.op or kind, r.where or str(loc), r.why, r.hint, r.name or loc.name)
            for r in error.reasons
        ]
    )
