"""Evaluate TOSA graphs on numpy arrays: integers bit for bit as the specification says.

Fast enough to check every compilation (MobileNetV2 at 224 in a fraction of a second). Where the
specification leaves a result undefined (an int32 sum that overflows), integers wrap.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import numpy as np

from npuc.errors import BadInput, NpucError
from npuc.execute.custom_payload import CustomPayload
from npuc.execute.kernels import KERNELS
from npuc.execute.undefined import undefined_reason
from npuc.ir import Graph, Op, TensorType, Value
from npuc.ir.fit_sizes import misfit

Array = np.ndarray

#: iterations after which a WHILE_LOOP counts as endless
MAX_ITERATIONS = 1_000_000


def evaluate(
    graph: Graph,
    arrays: Sequence[Array],
    keep: MutableMapping[Value, Any] | None = None,
    variables: MutableMapping[str, Array] | None = None,
    undefined: Callable[[Op, str], None] | None = None,
) -> list[Array]:
    """The outputs of `graph` for `arrays`, in the order of its inputs.

    Arrays have the storage dtype of their value (INT48 in int64, BF16 as ml_dtypes). Sizes come
    from the arrays, so symbolic dimensions work. `keep`: the arrays of the values that are its
    keys are stored in it; all other intermediates are freed after their last use. `variables`
    holds the state of VARIABLE ops from call to call. `undefined(op, why)` is called for every op
    whose result the specification leaves undefined on these values (this doubles the time).

    Raises BadInput for arrays that do not fit, NpucError naming the op and its place in the model
    when one cannot be computed.
    """
    check_inputs(graph, arrays)
    run = _Run(keep, {} if variables is None else variables, undefined)
    with np.errstate(all="ignore"):
        outputs = run.graph(graph, [np.asarray(a) for a in arrays], {})
    given = [np.asarray(a) for a in arrays]
    return [_own(value, array, given) for value, array in zip(graph.outputs, outputs, strict=True)]


def evaluate_all(
    graph: Graph,
    arrays: Sequence[Array],
    undefined: Callable[[Op, str], None] | None = None,
) -> dict[Value, Array]:
    """The arrays of all inputs, constants, intermediates and outputs.

    Those of a region are there when it ran, those of a loop are of its last iteration.
    """
    values = [*graph.inputs, *(r for op in graph.walk() for r in op.results)]
    values += [v for op in graph.walk() for region in op.regions for v in region.inputs]
    keep: dict[Value, Any] = dict.fromkeys(values)
    evaluate(graph, arrays, keep, undefined=undefined)
    return {value: array for value, array in keep.items() if array is not None}


def check_inputs(graph: Graph, arrays: Sequence[Array]) -> None:
    """Raise BadInput unless number, dtypes and shapes of `arrays` fit the inputs of `graph`."""
    if len(arrays) != len(graph.inputs):
        raise BadInput(f"{len(arrays)} arrays for a graph with {len(graph.inputs)} inputs")
    sizes: dict[str, int] = {}
    for index, (value, array) in enumerate(zip(graph.inputs, arrays, strict=True)):
        reason = _mismatch(value.type, np.asarray(array), sizes)
        if reason:
            raise BadInput(f"input {index} ({value.name or value.type})", why=reason)


def _mismatch(type: TensorType, array: Array, sizes: dict[str, int]) -> str:
    """Why an array does not fit a type, or nothing. Sizes of symbols are collected."""
    if array.dtype != type.dtype.numpy:
        return f"it takes {type.dtype.numpy} ({type.dtype.name}), got {array.dtype}"
    return misfit(type.shape, array.shape, sizes)


def _own(value: Value, array: Array, given: Sequence[Array]) -> Array:
    """An output that the caller may change: no view of an input or a constant."""
    if array.base is None and not value.is_const and not any(array is g for g in given):
        return array
    return array.copy()


class _Run:
    """One evaluation: what to keep, the variables, and whom to tell of undefined results."""

    def __init__(
        self,
        keep: MutableMapping[Value, Any] | None,
        variables: MutableMapping[str, Array],
        undefined: Callable[[Op, str], None] | None,
    ) -> None:
        self.keep = keep
        self.variables = variables
        self.undefined = undefined

    def graph(
        self, graph: Graph, arrays: Sequence[Array], outer: dict[Value, Array]
    ) -> list[Array]:
        known = dict(outer)
        for value, array in zip(graph.inputs, arrays, strict=True):
            self.store(known, value, array)
        last_uses = _last_uses(graph)
        for op, dead in zip(graph.ops, last_uses, strict=True):
            for value, array in zip(op.results, self.compute(op, known), strict=True):
                self.store(known, value, array)
            for value in dead:
                known.pop(value, None)
        return [known[v] for v in graph.outputs]

    def store(self, known: dict[Value, Array], value: Value, array: Array) -> None:
        known[value] = array
        if self.keep is not None and value in self.keep:
            self.keep[value] = array

    def compute(self, op: Op, known: dict[Value, Array]) -> Sequence[Array]:
        """The results of one op. Every failure says which op, where and why."""
        if op.kind == "const":
            return [op.attrs["value"].array]
        operands = [known[v] for v in op.operands]
        special = getattr(self, op.name.lower(), None) if op.name in CONTROL else None
        try:
            if special is not None:
                return special(op, operands, known)  # type: ignore[no-any-return]
            if op.kind != f"tosa.{op.name}" or op.name not in KERNELS:
                raise NpucError(
                    op.kind, str(op.loc), "it is no TOSA operator that can be evaluated"
                )
            results = KERNELS[op.name](op, *operands)
        except NpucError:
            raise
        except Exception as error:
            shapes = ", ".join(f"{a.dtype}{list(a.shape)}" for a in operands)
            why = f"{error} (operands {shapes})"
            raise NpucError(f"evaluating {op.kind}", str(op.loc), why) from error
        results = results if isinstance(results, tuple) else (results,)
        arrays = [np.asarray(r) for r in results]
        if self.undefined is not None:
            reason = undefined_reason(op, operands, arrays)
            if reason:
                self.undefined(op, reason)
        return arrays

    def cond_if(self, op: Op, operands: list[Array], known: dict[Value, Array]) -> list[Array]:
        condition, *arrays = operands
        branch = op.regions[0 if condition.reshape(-1).all() else 1]
        return self.graph(branch, arrays, known)

    def while_loop(self, op: Op, operands: list[Array], known: dict[Value, Array]) -> list[Array]:
        condition, body = op.regions
        for _ in range(MAX_ITERATIONS):
            if not self.graph(condition, operands, known)[0].reshape(-1).all():
                return operands
            operands = self.graph(body, operands, known)
        raise NpucError(op.kind, str(op.loc), f"it did not end in {MAX_ITERATIONS} iterations")

    def custom(self, op: Op, operands: list[Array], known: dict[Value, Array]) -> list[Array]:
        payload = op.attrs["implementation_attrs"]
        if isinstance(payload, CustomPayload):
            return list(payload.reference(operands))
        name = f"{op.attrs['domain_name']}.{op.attrs['operator_name']}"
        raise NpucError(
            op.kind, str(op.loc), f"operator {name!r} is the vendor's own and cannot be evaluated"
        )

    def variable(self, op: Op, operands: list[Array], known: dict[Value, Array]) -> list[Array]:
        initial = op.attrs.get("initial_value")
        if initial is not None:
            self.variables.setdefault(op.attrs["name"], initial.array)
        return []

    def variable_read(
        self, op: Op, operands: list[Array], known: dict[Value, Array]
    ) -> list[Array]:
        name = op.attrs["name"]
        if name not in self.variables:
            raise NpucError(op.kind, str(op.loc), f"variable {name!r} is read before it is written")
        return [self.variables[name]]

    def variable_write(
        self, op: Op, operands: list[Array], known: dict[Value, Array]
    ) -> list[Array]:
        self.variables[op.attrs["name"]] = operands[0]
        return []


#: operators that need more than their operands: regions, variables, or a message of their own
CONTROL = frozenset(
    {"COND_IF", "WHILE_LOOP", "CUSTOM", "VARIABLE", "VARIABLE_READ", "VARIABLE_WRITE"}
)


def _last_uses(graph: Graph) -> list[list[Value]]:
    """For each op the values that nothing needs after it."""
    alive = set(graph.outputs)
    dead: list[list[Value]] = []
    for op in reversed(graph.ops):
        read = dict.fromkeys(op.operands)
        for region in op.regions:
            read.update(dict.fromkeys(region.outputs))
            read.update(dict.fromkeys(v for inner in region.walk() for v in inner.operands))
        dead.append([v for v in (*read, *op.results) if v not in alive])
        alive.update(read)
    return dead[::-1]
