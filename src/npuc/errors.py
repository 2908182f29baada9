"""The exceptions of npuc. Every message says what failed, where, why and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

#: reasons in a message; the others are in `Unsupported.reasons`
MOST_SHOWN = 20


class NpucError(Exception):
    """Any failure that npuc foresees; its text is complete and is shown without a traceback.

    `what` is the only required part. The parts are joined in one form:
    "{what} at {where}: {why}; {hint}". `left` is the compilation that was made and checked before a
    vendor's tool failed, `files` by suffix what that tool left.
    """

    left: Any = None
    files: Mapping[str, bytes] = {}

    def __init__(self, what: str, where: str = "", why: str = "", hint: str = "") -> None:
        super().__init__(what, where, why, hint)
        self.what = what
        self.where = where
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        return _sentence(self.what, self.where, self.why, self.hint)


class BadInput(NpucError):
    """What the user gave cannot be used: a missing file, a wrong shape, an unknown name."""


class CheckFailed(NpucError):
    """The compiled artifact does not compute what the model computes."""


class ToolMissing(NpucError):
    """An external tool is needed and not there.

    `tool` names it, `install` is one line that says how to get it.
    """

    def __init__(self, tool: str, install: str, *, why: str = "") -> None:
        super().__init__(f"{tool} is not installed", why=why, hint=install)
        self.tool = tool
        self.install = install

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_tool_missing, (self.tool, self.install, self.why)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one op of the model cannot be on the target.

    `op` is the op's kind, `where` the place in the user's model ("model.py:41 (features.3)"),
    `why` the broken rule with the number that broke it, `hint` what to do about it. `name` is the
    value's name in the exported program, where it is known.
    """

    op: str
    where: str
    why: str
    hint: str = ""
    name: str = ""

    def __str__(self) -> str:
        return _sentence(self.op, self.where, self.why, self.hint)


class Unsupported(NpucError):
    """One or more ops cannot be on the target. `reasons` has an entry per op, in model order."""

    def __init__(self, reasons: Reason | str | Iterable[Reason]) -> None:
        self.reasons = _as_reasons(reasons)
        first = self.reasons[0]
        super().__init__(first.op, where=first.where, why=first.why, hint=first.hint)

    def __str__(self) -> str:
        if len(self.reasons) == 1:
            return str(self.reasons[0])
        lines = [f"{len(self.reasons)} ops are not supported on the target:"]
        common = self.hint_of_all
        lines += [str(replace(r, hint="") if common else r) for r in self.reasons[:MOST_SHOWN]]
        if len(self.reasons) > MOST_SHOWN:
            lines.append(f"and {len(self.reasons) - MOST_SHOWN} more; explain lists all")
        return "\n  ".join(lines) + (f"\n{common}" if common else "")

    @property
    def hint_of_all(self) -> str:
        """The hint that all reasons have in common, or nothing."""
        hints = {reason.hint for reason in self.reasons}
        return hints.pop() if len(hints) == 1 else ""

    def __reduce__(self) -> tuple[object, ...]:
        return Unsupported, (self.reasons,)


def _as_reasons(reasons: Reason | str | Iterable[Reason]) -> list[Reason]:
    """A list of reasons; a plain text is the `why` of an op that the caller will name later."""
    if isinstance(reasons, str):
        return [Reason("", "", reasons)]
    if isinstance(reasons, Reason):
        return [reasons]
    found = list(reasons)
    if not found:
        raise ValueError("Unsupported needs at least one reason")
    return found


def _rebuild_tool_missing(tool: str, install: str, why: str) -> ToolMissing:
    return ToolMissing(tool, install, why=why)


def _sentence(what: str, where: str, why: str, hint: str) -> str:
    """Join the four parts; parts that are empty leave no punctuation behind."""
    head = f"{what} at {where}" if what and where else what or where
    text = ": ".join(part for part in (head, why) if part)
    return "; ".join(part for part in (text, hint) if part)
