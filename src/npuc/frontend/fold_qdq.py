"""Quantize/dequantize pairs become quantized types; what cannot be folded stays an explicit op.

A dequantized value is carried by its quantized one, through all ops that only move or choose
elements. An op is quantized when all its float operands are carried (or constants) and its float
results are read quantized only; the parameters of a quantize are handed backward through the same
movements, through maximum, minimum and clamp, where rounding commutes with the op. Everything
else computes in floats between explicit quantize and dequantize ops. No value is rounded where
the program does not round it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuc.errors import Reason, Unsupported
from npuc.frontend.quantized_constants import (
    LAYERS,
    is_exact,
    operand_form,
    parameters_of,
    quantized,
    quantized_bias,
)
from npuc.frontend.quantized_demand import (
    Stored,
    common_form,
    find_demand,
    find_state_forms,
    is_real,
    is_selection,
    stored,
)
from npuc.frontend.quantized_versions import Versions
from npuc.frontend.spellings.quantize import ASSUME, DEQUANTIZE, QUANTIZE
from npuc.ir import Graph, Op, Value

#: ops that mean the numbers themselves: what they make of floats is no quantized value
_CONVERSIONS = ("aten.to",)
_QDQ = (QUANTIZE, DEQUANTIZE, ASSUME)


def fold_qdq(
    graph: Graph, keep_boundary: bool = False, states: Sequence[tuple[int, int]] = ()
) -> Graph:
    """`graph` (canonical) with quantized types in place of q/dq pairs; itself where it has none.

    A graph input that is only read quantized, in one form, takes that form; an output that is
    dequantized last is the quantized value. With `keep_boundary` inputs and outputs stay of the
    program's own types. `states` are pairs of an output and the input that it feeds in the next
    run: both get the same type. Raises Unsupported for an integer input that is read both as
    numbers and as quantized values.
    """
    if not any(op.kind in _QDQ for op in graph.walk()):
        return graph
    outputs: list[Stored | None] = []
    if states and not keep_boundary:
        outputs = find_state_forms(graph, states)
    fold = _Fold(graph, [None] * len(graph.inputs), outputs, keep_boundary)
    fold.run()
    float_states = {result for result, _ in states if not outputs or outputs[result] is None}
    return fold.finish([keep_boundary or i in float_states for i in range(len(graph.outputs))])


class _Fold(Versions):
    """Rebuilds one graph. `inputs`: the forms of inputs that carry a float value from outside;
    `outputs`: the forms in which outputs are wanted (regions)."""

    def __init__(
        self, graph: Graph, inputs: Sequence[Stored | None], outputs: Sequence[Stored | None],
        keep_inputs: bool = False,
    ) -> None:  # fmt: skip
        self.graph = graph
        self.keep_inputs = keep_inputs
        super().__init__()
        self.demand = find_demand(graph, outputs)
        self.outputs = outputs
        for value, form in zip(graph.inputs, inputs, strict=True):
            self._input(value, form)

    def run(self) -> None:
        for op in self.graph.ops:
            self.builder.loc = op.loc
            self._op(op)
            for result in op.results:
                for value in self.versions(result):
                    value.name = value.name or result.name

    def finish(self, as_real: Sequence[bool] = ()) -> Graph:
        """The new graph. `as_real[i]`: output i must be a float value."""
        values = []
        for index, value in enumerate(self.graph.outputs):
            form = self.outputs[index] if index < len(self.outputs) else None
            real = bool(as_real) and as_real[index]
            if form is not None and not real:
                values.append(self.in_form(value, form))
            elif value in self.carrier and not real:
                values.append(self.carrier[value])
            else:
                values.append(self.real(value))
        origins = {}
        for name, (value, perm) in self.graph.origins.items():
            found = self.versions(value)
            if found:
                origins[name] = (found[0], perm)
        return self.builder.finish(values, self.graph.name, origins)

    def output_form(self, index: int) -> Stored | None:
        """The form in which output `index` is carried already."""
        value = self.graph.outputs[index]
        found = self.carrier.get(value)
        return stored(found.type) if found is not None else None

    # inputs and ops ------------------------------------------------------------------------------

    def _input(self, value: Value, form: Stored | None) -> None:
        readers = (
            [op for op in self.graph.ops if value in op.operands] if not is_real(value) else []
        )
        assumed = {op.result.type for op in readers if op.kind == ASSUME}
        if assumed:
            if len(assumed) > 1 or any(op.kind != ASSUME for op in readers):
                raise Unsupported(
                    Reason(f"input {value.name}", "", "it is read as integers and as quantized",
                           "make them two inputs")
                )  # fmt: skip
            self.plain[value] = self.builder.input(assumed.pop(), value.name)
            return
        free = is_real(value) and not self.keep_inputs
        wanted = common_form(self.demand.forms(value)) if free else None
        if form is not None:
            self.carrier[value] = self.builder.input(form.of(value.type.shape), value.name)
        elif wanted is not None:
            made = self.builder.input(wanted.of(value.type.shape), value.name)
            self.coded[value] = {wanted: made}
        else:
            self.plain[value] = self.builder.input(value.type, value.name)

    def _op(self, op: Op) -> None:
        if op.kind == QUANTIZE:
            made = self.in_form(op.operands[0], stored(op.result.type))
            self.signed[op.result] = made
            self.plain[op.result] = self.as_type(made, op.result.type)
        elif op.kind == DEQUANTIZE:
            self.carrier[op.result] = self.signed_value(op.operands[0])
            self.dequantized_at[op.result] = op.loc
        elif op.kind == ASSUME:
            self.plain[op.result] = self.plain[op.operands[0]]
        elif op.kind == "aten.cond":
            self._cond(op)
        elif op.kind == "aten.while_loop":
            self._while_loop(op)
        elif not (self._selected(op) or self._numbers(op) or self._quantized(op)):
            self._copy(op)

    def _copy(self, op: Op) -> None:
        operands = [self.real(v) for v in op.operands]
        types = [r.type for r in op.results]
        made = self.builder.emit(op.kind, operands, op.attrs, types, op.regions, op.loc)
        self.plain.update(zip(op.results, made, strict=True))

    def _emit(self, op: Op, operands: Sequence[Value], form: Stored | None) -> Sequence[Value]:
        """The op with its float results in `form`."""
        types = [
            form.of(r.type.shape) if is_real(r) and form is not None else r.type for r in op.results
        ]
        return self.builder.emit(op.kind, operands, op.attrs, types, (), op.loc)

    # ops that move or choose elements ------------------------------------------------------------

    def _selected(self, op: Op) -> bool:
        """Emit a selection on quantized operands; false when it has to stay float."""
        if not is_selection(op):
            return False
        sources = [v for v in op.operands if is_real(v)]
        result = next(r for r in op.results if is_real(r))
        form = self._carried_form(op, sources)
        if form is not None:
            made = self._emit(op, self._operands(op, form), form)
            for old, new in zip(op.results, made, strict=True):
                (self.carrier if old is result else self.plain)[old] = new
            return True
        forms = self.demand.forms(result)
        constant = all(self.is_constant(v) for v in sources)
        if not forms or not (constant or any(self.is_coded(v) for v in sources)):
            return False
        for wanted in forms:
            made = self._emit(op, self._operands(op, wanted), wanted)
            for old, new in zip(op.results, made, strict=True):
                if old is result:
                    self.coded.setdefault(old, {})[wanted] = new
                else:
                    self.plain[old] = new
        return True

    def _operands(self, op: Op, form: Stored) -> list[Value]:
        return [self.in_form(v, form) if is_real(v) else self.plain[v] for v in op.operands]

    def _carried_form(self, op: Op, sources: Sequence[Value]) -> Stored | None:
        """The form that carries the operands and, without an error, the result."""
        forms = {stored(self.carrier[v].type) for v in sources if v in self.carrier}
        if len(forms) != 1:
            return None
        form = forms.pop()
        if form.quant.per_channel:
            return None
        for value in sources:
            if value in self.carrier:
                continue
            if not self.is_constant(value) or not is_exact(self.plain[value].array, form):
                return None
        return form if _numbers_are_exact(op, form) else None

    # arithmetic ----------------------------------------------------------------------------------

    def _numbers(self, op: Op) -> bool:
        """Integers or BOOL that become a float which is read quantized only: a conversion to the
        quantized type, which rounds as the quantize does."""
        if op.kind not in _CONVERSIONS or is_real(op.operands[0]) or not is_real(op.result):
            return False
        forms = self.demand.forms(op.result)
        for form in forms:
            (made,) = self._emit(op, [self.plain[op.operands[0]]], form)
            self.coded.setdefault(op.result, {})[form] = made
        return bool(forms)

    def _quantized(self, op: Op) -> bool:
        """Emit an op on quantized operands and results; false when it has to stay float."""
        results = [r for r in op.results if is_real(r)]
        if not any(v in self.carrier for v in op.operands) or (results and op.kind in _CONVERSIONS):
            return False
        if len(results) > 1:
            return False
        forms: list[Stored | None] = list(self.demand.forms(results[0])) if results else [None]
        operands = self._quantized_operands(op) if forms else None
        if operands is None:
            return False
        for form in forms:
            for old, new in zip(op.results, self._emit(op, operands, form), strict=True):
                if form is not None and is_real(old):
                    self.coded.setdefault(old, {})[form] = new
                else:
                    self.plain[old] = new
        return True

    def _quantized_operands(self, op: Op) -> list[Value] | None:
        """The operands of a quantized op; None when one of them is a float value."""
        parameters = parameters_of(op)
        made: list[Value] = []
        for index, value in enumerate(op.operands):
            if not is_real(value):
                made.append(self.plain[value])
            elif index in parameters and (self.is_constant(value) or self._is_stored(value)):
                made.append(self.real(value))
            elif op.kind in LAYERS and index == 2:
                made.append(value)  # the bias: below, when the others are known
            elif value in self.carrier:
                made.append(self.carrier[value])
            else:
                constant = self._quantized_constant(op, value)
                if constant is None:
                    return None
                made.append(constant)
        if op.kind in LAYERS and len(op.operands) > 2:
            bias = self._bias(op, made)
            return None if bias is None else [*made[:2], bias]
        return made

    def _is_stored(self, value: Value) -> bool:
        return value in self.carrier and self.carrier[value].is_const

    def _quantized_constant(self, op: Op, value: Value) -> Value | None:
        """A float constant that is an operand of arithmetic; weights of layers are not guessed."""
        if not self.is_constant(value) or op.kind in (*LAYERS, "aten.matmul"):
            return None
        constant = self.plain[value]
        beside = next(self.carrier[v].type.dtype for v in op.operands if v in self.carrier)
        form = operand_form(constant.array, beside)
        return None if form is None else quantized(self.builder, constant, form)

    def _bias(self, op: Op, operands: Sequence[Value]) -> Value | None:
        bias = op.operands[2]
        if self._is_stored(bias):
            constant = self.carrier[bias]
        elif self.is_constant(bias):
            constant = self.plain[bias]
        else:
            return None
        return quantized_bias(self.builder, op, operands[0], operands[1], constant)

    # control flow --------------------------------------------------------------------------------

    def _cond(self, op: Op) -> None:
        """Branches take carried operands as they are, and give results in one form."""
        operands, inputs = [self.plain[op.operands[0]]], []
        wanted = [common_form(self.demand.forms(r)) for r in op.results]
        for index, value in enumerate(op.operands[1:]):
            made = self._branch_operand(value, self.demand.branch.get((op, index)))
            operands.append(made)
            inputs.append(stored(made.type) if is_real(value) and made.type.quant else None)
        folds = [_Fold(region, inputs, wanted) for region in op.regions]
        for fold in folds:
            fold.run()
        forms = [
            wanted[i] or _agreed([f.output_form(i) for f in folds]) for i in range(len(op.results))
        ]
        regions = [fold.finish([f is None for f in forms]) for fold in folds]
        types = [
            f.of(r.type.shape) if f else r.type for r, f in zip(op.results, forms, strict=True)
        ]
        made_results = self.builder.emit(op.kind, operands, op.attrs, types, regions, op.loc)
        self._take(op, made_results, forms)

    def _branch_operand(self, value: Value, form: Stored | None) -> Value:
        """An operand of a branch: carried, in the form that the branches want, or float."""
        if not is_real(value):
            return self.plain[value]
        if value in self.carrier:
            return self.carrier[value]
        return self.real(value) if form is None else self.in_form(value, form)

    def _while_loop(self, op: Op) -> None:
        """A carried value stays quantized when the body gives it back in the form it came in."""
        forms: list[Stored | None] = [
            stored(self.carrier[v].type) if v in self.carrier else None for v in op.operands
        ]
        while True:
            test, body = (_Fold(region, forms, []) for region in op.regions)
            test.run()
            body.run()
            kept = [f if body.output_form(i) == f else None for i, f in enumerate(forms)]
            if kept == forms:
                break
            forms = kept
        operands = [
            self.carrier[v] if f is not None else self.real(v)
            for v, f in zip(op.operands, forms, strict=True)
        ]
        regions = [test.finish(), body.finish([f is None for f in forms])]
        types = [v.type for v in operands]
        self._take(
            op, self.builder.emit(op.kind, operands, op.attrs, types, regions, op.loc), forms
        )

    def _take(self, op: Op, made: Sequence[Value], forms: Sequence[Stored | None]) -> None:
        for old, new, form in zip(op.results, made, forms, strict=True):
            (self.carrier if form is not None else self.plain)[old] = new


def _agreed(forms: Sequence[Stored | None]) -> Stored | None:
    """The form that all branches share."""
    return forms[0] if len(set(forms)) == 1 else None


def _numbers_are_exact(op: Op, form: Stored) -> bool:
    """Whether the numbers that an op puts into its result (pad value, clamp bounds) have codes."""
    args, quant = op.attrs["args"], form.quant
    if op.kind == "aten.pad" and args[2] == "constant":
        return is_exact(np.asarray(float(args[3])), form)
    if op.kind == "aten.clamp":
        low, high = (quant.qmin - quant.zp) * quant.s, (quant.qmax - quant.zp) * quant.s
        bounds = [float(b) for b in args[1:] if b is not None and low < b < high]
        return all(is_exact(np.asarray(b), form) for b in bounds)
    if op.kind == "aten.im2col":
        return is_exact(np.asarray(0.0), form)
    return True
