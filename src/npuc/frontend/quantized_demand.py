"""Which float values of a graph are only ever read quantized, and with which parameters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from npuc.frontend.spellings.quantize import ASSUME, DEQUANTIZE, QUANTIZE
from npuc.ir import DType, Graph, Op, Quant, TensorType, Value

#: ops whose result consists of elements of their float operands: quantization commutes with them
SELECTIONS = frozenset(
    f"aten.{name}"
    for name in [
        "view",
        "permute",
        "expand",
        "repeat",
        "slice",
        "cat",
        "pad",
        "flip",
        "roll",
        "pixel_shuffle",
        "pixel_unshuffle",
        "unfold",
        "im2col",
        "slice_scatter",
        "as_strided",
        "gather",
        "index_select",
        "index.Tensor",
        "embedding",
        "index_put",
        "index_copy",
        "scatter.src",
        "where",
        "maximum",
        "minimum",
        "max_pool2d",
        "max_pool3d",
        "amax",
        "amin",
        "clamp",
        "upsample_nearest2d",
        "_upsample_nearest_exact2d",
        "topk",
        "sort",
        "max_pool2d_with_indices",
    ]
)


class Stored(NamedTuple):
    """How a real value is stored: element type and quantization."""

    dtype: DType
    quant: Quant

    def of(self, shape: Sequence[object]) -> TensorType:
        """The type of a tensor of `shape` that is stored so."""
        return TensorType(self.dtype, tuple(shape), self.quant)  # type: ignore[arg-type]


def stored(type: TensorType) -> Stored:
    """How a quantized value is stored inside of the graph: 8-bit codes are signed there."""
    quant = type.quant
    assert quant is not None
    if type.dtype is not DType.UINT8:
        return Stored(type.dtype, quant)
    signed = Quant(
        quant.scale, quant.zero_point - 128, quant.axis, quant.qmin - 128, quant.qmax - 128
    )
    return Stored(DType.INT8, signed)


def is_selection(op: Op) -> bool:
    """Whether quantization commutes with an op: it only moves or chooses elements."""
    if op.kind not in SELECTIONS or sum(is_real(r) for r in op.results) != 1:
        return False
    if op.kind == "aten.index_put":
        return not op.attrs["args"][3]
    return True


def is_real(value: Value) -> bool:
    """Whether a value is a float tensor."""
    return value.type.dtype.is_float


@dataclass
class Demand:
    """`wanted[v]`: the forms in which v is read quantized. `leaks`: values also read as floats.
    `branch[op, i]`: the form in which the branches of a cond want its input i."""

    wanted: dict[Value, dict[Stored, None]] = field(default_factory=dict)
    leaks: set[Value] = field(default_factory=set)
    branch: dict[tuple[Op, int], Stored] = field(default_factory=dict)

    def forms(self, value: Value) -> list[Stored]:
        """The forms of a value that is only read quantized; empty for any other."""
        return [] if value in self.leaks else list(self.wanted.get(value, ()))

    def want(self, value: Value, form: Stored) -> None:
        self.wanted.setdefault(value, {})[form] = None


def find_demand(
    graph: Graph, outputs: Sequence[Stored | None] = (), open_outputs: Collection[int] = ()
) -> Demand:
    """Walk the graph backward from its quantize ops.

    `outputs`: the form in which an output is taken (None, or no entry: as it is). The outputs
    `open_outputs` ask for nothing.
    """
    demand = Demand()
    for index, value in enumerate(graph.outputs):
        form = outputs[index] if index < len(outputs) else None
        if form is not None:
            demand.want(value, form)
        elif index not in open_outputs:
            demand.leaks.add(value)
    for op in reversed(graph.ops):
        _visit(demand, op)
    return demand


def find_state_forms(graph: Graph, states: Sequence[tuple[int, int]]) -> list[Stored | None]:
    """The form of each output that feeds an input (pairs of output and input) in the next run.

    A state that is only read quantized, in one form, is kept in that form: its quantize then
    stands where the value is stored, not where it is read, which is the same value.
    """
    wanted: list[Stored | None] = [None] * len(graph.outputs)
    demand = find_demand(graph, wanted, [result for result, _ in states])
    forms = {pair: common_form(demand.forms(graph.inputs[pair[1]])) for pair in states}
    while True:
        for (result, _), form in forms.items():
            wanted[result] = form
        demand = find_demand(graph, wanted)
        kept = {
            pair: form if common_form(demand.forms(graph.inputs[pair[1]])) == form else None
            for pair, form in forms.items()
        }
        if kept == forms:
            return wanted
        forms = kept


def _visit(demand: Demand, op: Op) -> None:
    if op.kind == QUANTIZE:
        source, type = op.operands[0], op.result.type
        if type.quant is not None and type.quant.per_channel:
            demand.leaks.add(source)  # its axis would have to follow every movement
        else:
            demand.want(source, stored(type))
        return
    if op.kind in (DEQUANTIZE, ASSUME):
        return
    if op.regions:
        _visit_regions(demand, op)
        return
    if is_selection(op):
        forms = demand.forms(next(r for r in op.results if is_real(r)))
        if forms:
            for operand in op.operands:
                if is_real(operand):
                    for form in forms:
                        demand.want(operand, form)
            return
    demand.leaks.update(v for v in op.operands if is_real(v))


def _visit_regions(demand: Demand, op: Op) -> None:
    """A branch's operand is wanted in the form in which every branch that reads it wants it."""
    if op.kind != "aten.cond":
        demand.leaks.update(v for v in op.operands if is_real(v))
        return
    forms = [common_form(demand.forms(r)) for r in op.results]
    inner = [find_demand(region, forms) for region in op.regions]
    for index, operand in enumerate(op.operands[1:]):
        if not is_real(operand):
            continue
        places = [(d, region.inputs[index]) for d, region in zip(inner, op.regions, strict=True)]
        read = [(d, v) for d, v in places if v in d.wanted or v in d.leaks]
        found = {common_form(d.forms(v)) for d, v in read}
        form = found.pop() if len(found) == 1 else None
        if form is not None:
            demand.want(operand, form)
            demand.branch[op, index] = form
        elif read:
            demand.leaks.add(operand)


def common_form(forms: Sequence[Stored]) -> Stored | None:
    """The one form of a value that has exactly one."""
    return forms[0] if len(forms) == 1 else None
