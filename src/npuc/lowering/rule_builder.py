"""What every builder gives to lowering rules, whatever its dialect: refusals and layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npuc.errors import Reason, Unsupported
from npuc.ir import Builder, DType, Op, TensorType, Value

NHWC = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
NCHW = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}

#: element types of PyTorch that targets represent by another one
CARRIED_BY = {DType.INT64: DType.INT32, DType.FP64: DType.FP32}


class RuleBuilder(Builder):
    """Mixed into the op builder of a dialect, which has `transpose` and `reshape`."""

    #: dialect of the rules that are looked up
    dialect = ""
    #: families of the target, most special first
    families: tuple[str, ...] = ()
    #: result types of the op that is being lowered
    out: tuple[TensorType, ...] = ()
    #: the op of the model that is being lowered
    op: Op | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: what became of each op of the model
        self.verdicts: list[Any] = []
        #: where the op being lowered is: the names of the regions around it, with a dot behind each
        self.path = ""
        #: origins of values inside of regions that were lowered into the graph around them
        self.inner_origins: dict[str, Any] = {}

    if TYPE_CHECKING:
        limits: Any

        def transpose(self, x: Value, perms: Sequence[int]) -> Value: ...
        def reshape(self, x: Value, shape: Sequence[Any]) -> Value: ...

    # -- the model's types ------------------------------------------------------------------

    def carried_type(self, type: TensorType) -> TensorType:
        """The type that carries a value of the model's type on the target."""
        if type.dtype is DType.INT64 and self.limits.has_int64:
            return type
        return type.with_(dtype=CARRIED_BY.get(type.dtype, type.dtype))

    def carried_data(self, array: np.ndarray, type: TensorType) -> np.ndarray:
        """The stored values of a constant of the model's `type`, before it changes."""
        return array

    def admit(self, types: Sequence[TensorType]) -> None:
        """Raise Unsupported where a value of these types of the model has no form on the target."""

    def take_input(self, type: TensorType, name: str) -> Value:
        """Add a graph input for a value of the model; the value that rules read."""
        return self.input(self.carried_type(type), name)

    def give_output(self, value: Value, type: TensorType) -> Value:
        """The graph output for a value of the model's `type`."""
        return value

    # -- refusals ---------------------------------------------------------------------------

    def require(self, condition: Any, reason: str, hint: str = "") -> None:
        """Raise Unsupported(reason) unless `condition` holds. The text is what the user reads."""
        if not condition:
            self.refuse(reason, hint)

    def refuse(self, reason: str, hint: str = "") -> None:
        """Raise Unsupported."""
        raise Unsupported(Reason("", "", reason, hint))

    # -- data movement ----------------------------------------------------------------------

    def nhwc(self, x: Value) -> Value:
        """Channels from axis 1 to the last axis."""
        return self.transpose(x, NHWC[x.type.rank])

    def nchw(self, x: Value) -> Value:
        """Channels from the last axis to axis 1."""
        return self.transpose(x, NCHW[x.type.rank])

    def match_rank(self, x: Value, rank: int) -> Value:
        """`x` with leading dimensions of size 1 up to `rank` (PyTorch's broadcasting)."""
        return self.reshape(x, (1,) * (rank - x.type.rank) + x.type.ints)
