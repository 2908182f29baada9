"""Executes what was compiled, on the executor that the caller names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from npuc.errors import BadInput

if TYPE_CHECKING:
    from npuc.compilation import Compilation

EXECUTORS = ("evaluator", "reference-model", "vulkan")


def execute_artifact(c: Compilation, arrays: list[np.ndarray], on: str) -> list[np.ndarray]:
    """Outputs of the artifact for its own inputs. BadInput for an executor it cannot run on."""
    if on == "evaluator":
        from npuc.execute.tosa import evaluate

        return evaluate(c.graph, arrays)
    if on == "reference-model":
        from npuc.execute.reference_model import run_reference_model

        return run_reference_model(c.output.tosa, arrays)
    if on == "vulkan":
        vgf = c.artifact if c.output.suffix == ".vgf" else c.output.files.get(".vgf")
        if vgf is None:
            raise BadInput(f"a {c.output.suffix} file does not run on Vulkan", hint="use target vgf")
        from npuc.execute.vgf import run_vgf

        return run_vgf(vgf, arrays)
    raise BadInput(f"unknown executor {on!r}", hint=f"known: {', '.join(EXECUTORS)}")
