"""The table of supported ops, read off the lowering rules."""

from __future__ import annotations

from npuc.lowering.registry import rules


def ops_table(target: str | None = None) -> dict[str, str]:
    """Op kind -> first line of its rule's docstring; overrides of `target`'s families win.

    Without a target, overrides are listed as `kind [family]`.
    """
    if target is None:
        table = rules("tosa")
        keys = sorted(table)
        return {f"{k} [{f}]" if f else k: _line(table[k, f]) for k, f in keys}
    from npuc.lowering.registry import find_rule
    from npuc.targets.catalogue import find_target

    chosen = find_target(target)
    kinds = sorted({k for k, _ in rules(chosen.dialect)})
    found = {k: find_rule(k, chosen.families, chosen.dialect) for k in kinds}
    return {k: _line(rule) for k, rule in found.items() if rule is not None}


def _line(rule: object) -> str:
    doc = (rule.__doc__ or "").strip()
    return doc.splitlines()[0] if doc else ""
