"""A small typed SSA graph: types, values, ops with regions, a hash-consing builder and a sweep."""

from npuc.ir.arguments import Operand, pack, unpack
from npuc.ir.builder import Builder, live_ops
from npuc.ir.dtype import DType
from npuc.ir.graph import NOWHERE, Blob, Graph, Loc, Op, Origin, Value
from npuc.ir.moves import Moves, apply_moves, before_reshape, before_transpose
from npuc.ir.pause_collection import pause_collection
from npuc.ir.sweep import finish_mapped, remove_dead, sweep, sweep_ops
from npuc.ir.symbolic import Dim, SymbolicShape, SymDim
from npuc.ir.types import Quant, Shape, TensorType

__all__ = [
    "NOWHERE",
    "Blob",
    "Builder",
    "DType",
    "Dim",
    "Graph",
    "Loc",
    "Moves",
    "Op",
    "Operand",
    "Origin",
    "Quant",
    "Shape",
    "SymDim",
    "SymbolicShape",
    "TensorType",
    "Value",
    "apply_moves",
    "before_reshape",
    "before_transpose",
    "finish_mapped",
    "live_ops",
    "pack",
    "pause_collection",
    "remove_dead",
    "sweep",
    "sweep_ops",
    "unpack",
]
