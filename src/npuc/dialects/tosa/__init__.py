"""The TOSA dialect: definitions from the specification's tables, shape rules, limits."""

from npuc.dialects.tosa.definition import DEFINITIONS, EXTENSIONS, LEVELS, Definition
from npuc.dialects.tosa.infer import InvalidOp, broadcast, infer
from npuc.dialects.tosa.limits import ChipPolicy, Limits

__all__ = [
    "DEFINITIONS",
    "EXTENSIONS",
    "LEVELS",
    "ChipPolicy",
    "Definition",
    "InvalidOp",
    "Limits",
    "broadcast",
    "infer",
]
