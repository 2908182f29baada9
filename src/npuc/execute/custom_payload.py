"""The payload of a TOSA CUSTOM operator, which knows how the operator is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


class CustomPayload(bytes):
    """`implementation_attrs` of a CUSTOM. `reference` maps its operands' arrays to its results'."""

    reference: Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]
