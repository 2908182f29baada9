"""The lowering rules: one function per op, with overrides for families of targets."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from npuc.ir import Op, TensorType, Value, unpack

Rule = Callable[..., Any]

#: dialect -> (kind, family or "") -> rule
_RULES: dict[str, dict[tuple[str, str], Rule]] = {}
#: dialect -> family -> kinds that are quantized as what the front end expands them to
_EXPANDED: dict[str, dict[str, frozenset[str]]] = {}
#: kind -> rule of the user's own
_CUSTOM: dict[str, Rule] = {}


def lowers(*kinds: str, target: str = "", dialect: str = "tosa") -> Callable[[Rule], Rule]:
    """Register a rule for aten op kinds; with `target`, for a family of targets only."""

    def register(rule: Rule) -> Rule:
        table = _RULES.setdefault(dialect, {})
        for kind in kinds:
            if (kind, target) in table:
                raise ValueError(f"two rules lower {kind} for {target or 'every target'}")
            table[kind, target] = rule
        return rule

    return register


def expands(*kinds: str, target: str, dialect: str) -> None:
    """Say that the models of a family of targets are quantized with op kinds expanded, as exporters
    spell them, where the front end has an expansion: their rules would need wider values."""
    families = _EXPANDED.setdefault(dialect, {})
    families[target] = families.get(target, frozenset()) | frozenset(kinds)


@cache
def rules(dialect: str = "tosa") -> Mapping[tuple[str, str], Rule]:
    """All rules of a dialect; imports the modules that define them."""
    package = importlib.import_module(f"npuc.lowering.aten_to_{dialect}")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return _RULES.get(dialect, {})


def add_custom_rule(kind: str, rule: Rule) -> None:
    """A rule of the user's for every TOSA target, in place of any other."""
    _CUSTOM[kind] = rule


def remove_custom_rule(kind: str) -> None:
    """Take back what `add_custom_rule` did."""
    _CUSTOM.pop(kind, None)


def find_rule(kind: str, families: Sequence[str], dialect: str = "tosa") -> Rule | None:
    """The rule for `kind`: that of the first family which has one, else the common one."""
    if dialect == "tosa" and kind in _CUSTOM:
        return _CUSTOM[kind]
    table = rules(dialect)
    for family in (*families, ""):
        rule = table.get((kind, family))
        if rule is not None:
            return rule
    return None


def known_kinds(dialect: str = "tosa") -> frozenset[str]:
    """Kinds that some rule lowers."""
    custom = _CUSTOM if dialect == "tosa" else {}
    return frozenset(kind for kind, _ in rules(dialect)) | frozenset(custom)


def quantized_kinds(dialect: str, families: Sequence[str]) -> frozenset[str]:
    """Kinds as exporters spell them that are quantized as a whole for these families."""
    from npuc.frontend.canonicalize import spelled_kinds

    known = spelled_kinds(known_kinds(dialect))
    return known.difference(*(_EXPANDED.get(dialect, {}).get(f, ()) for f in families))


def call_rule(
    rule: Rule, builder: Any, op: Op, operands: Sequence[Value], out: tuple[TensorType, ...]
) -> tuple[Value, ...]:
    """Run a rule on the arguments of `op`, tensors replaced by `operands`, for results of `out`."""
    args, kwargs = unpack(op, operands)
    builder.out = out
    builder.op = op
    results = rule(builder, *args, **kwargs)
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)
