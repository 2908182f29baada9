"""Branches and loops: IF and WHILE, or the same values without control flow.

The rules are those of TOSA: only the names of the operators differ.
"""

from __future__ import annotations

from npuc.lowering.aten_to_tosa.control_flow import cond, while_loop
from npuc.lowering.registry import lowers

lowers("aten.cond", dialect="tflite")(cond)
lowers("aten.while_loop", dialect="tflite")(while_loop)
