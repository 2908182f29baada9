"""The TOSA dialect: definitions from the specification's tables, shape rules, limits."""

from npuc.dialects.tosa import mlir_text  # noqa: F401 - registers the printer
from npuc.dialects.tosa.definition import DEFINITIONS, EXTENSIONS, LEVELS, Definition
from npuc.dialects.tosa.infer import InvalidOp, broadcast, infer
from npuc.dialects.tosa.limits import ChipPolicy, Limits
from npuc.dialects.tosa.op_builder import OpBuilder
from npuc.dialects.tosa.rescale import multiplier_and_shift

__all__ = [
    "DEFINITIONS",
    "EXTENSIONS",
    "LEVELS",
    "ChipPolicy",
    "Definition",
    "InvalidOp",
    "Limits",
    "OpBuilder",
    "broadcast",
    "infer",
    "multiplier_and_shift",
]
