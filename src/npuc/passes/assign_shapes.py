"""Decides with which axes of size 1 each op runs, so that the fewest bytes pass through a RESHAPE.

A RESHAPE costs an NPU nothing, until a tensor is read in two shapes: then it is copied. Linear
layers want [1, 1, N, C], norms [1, N, C]: run everything between them in one of the two.
"""

from __future__ import annotations

from collections.abc import Sequence

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.dialects.tosa.infer import contents
from npuc.ir import DType, Graph, Op, TensorType, Value, before_reshape
from npuc.passes.layout.behaviour import Free, data_operands, free_behaviour
from npuc.passes.layout.build_problem import captured_values
from npuc.passes.layout.frames import (
    Frame,
    common_patterns,
    flexible_behaviour,
    frames,
    in_frame,
    renumber_entries,
)
from npuc.passes.layout.problem import Choice, Node, Problem, Tensor
from npuc.passes.unary import is_rename

#: cost of a RESHAPE that is not at the graph's ends, beside its bytes
INSIDE = 1
#: stands for the shape of a RESHAPE where only its types are asked about
SHAPE_OPERAND = Value(TensorType(DType.SHAPE, (1,)))
#: what new axes get in the shape operands of these operators, by operand
NEUTRAL = {("PAD", 1): 0, ("SLICE", 1): 0, ("SLICE", 2): 1, ("TILE", 1): 1}


def assign_shapes(graph: Graph, limits: Limits) -> Graph:
    """The graph with the cheapest shapes of all values, by bytes that are reshaped."""
    if not any(is_rename(op) for op in graph.walk()):
        return graph
    return _assign(graph, OpBuilder(limits), {})


def _assign(graph: Graph, builder: OpBuilder, outer: dict[Value, Value]) -> Graph:
    """`outer` maps the values of enclosing graphs that this one reads."""
    roots = find_roots(graph)
    problem = build_problem(graph, roots, builder.limits)
    state = problem.solve()
    chosen = {node.op: choice.perm for node, choice in zip(problem.nodes, state, strict=True)}
    rebuild = _Rebuild(builder, roots, chosen)
    for value in graph.inputs:
        rebuild.new[value] = builder.input(value.type, value.name)
    rebuild.new.update(outer)
    for op in graph.ops:
        builder.loc = op.loc
        if not is_rename(op):
            rebuild.run(op)
    outputs = [rebuild.as_in_graph(v) for v in graph.outputs]
    origins = {}
    for name, (value, moves) in graph.origins.items():
        new = rebuild.new[roots.get(value, value)]
        origins[name] = (new, before_reshape(new.type.shape, value.type.shape, moves))
    return builder.finish(outputs, graph.name, origins)


def find_roots(graph: Graph) -> dict[Value, Value]:
    """For results of RESHAPEs that move axes of size 1 only: the value that has the elements."""
    roots: dict[Value, Value] = {}
    for op in graph.ops:
        if is_rename(op):
            source = op.operands[0]
            roots[op.results[0]] = roots.get(source, source)
    return roots


def build_problem(graph: Graph, roots: dict[Value, Value], limits: Limits) -> Problem:
    problem = Problem()
    ends = {roots.get(v, v) for v in (*graph.inputs, *graph.outputs)}
    for value in (*graph.inputs, *(r for op in graph.ops for r in op.results)):
        if value not in roots and not value.is_const and value.type.is_static:
            cost = value.type.nbytes * 4 + (value not in ends) * INSIDE
            problem.tensors[value] = Tensor(cost, None, value.type.ints)
    ops = [op for op in graph.ops if op.kind != "const" and not is_rename(op)]
    flexible = {
        op: free
        for op in ops
        if (free := flexible_behaviour(op)) is not None and _reshapes(limits, op, free)
    }
    pinned = [op for op in ops if op not in flexible and not _is_reshape(op)]
    patterns = common_patterns(graph, pinned)
    for op in graph.ops:
        free = flexible.get(op)
        if free is not None:
            own = tuple(range(op.operands[0].type.rank))
            moves = [
                _choice(op, free, f, roots) if f and accepts(limits, op, free, f) else None
                for f in frames(op, free, patterns)
            ]
            _add_node(problem, Node(op, _choice(op, free, own, roots), moves))
        elif not is_rename(op) and not _is_reshape(op):  # a RESHAPE reads its operand in any shape
            _read_fixed(problem, roots, op.operands)
        for region in op.regions:
            _read_fixed(problem, roots, captured_values(region))
    _read_fixed(problem, roots, graph.outputs)
    return problem


def _reshapes(limits: Limits, op: Op, free: Free) -> bool:
    """Whether the target reshapes what the op reads and makes: PRO-FP alone has no INT32."""
    types = {t.dtype: t for t in (*_types(op, free), *(r.type for r in op.results))}
    return all(
        limits.reason("RESHAPE", [Value(t), SHAPE_OPERAND], {}, [t]) is None for t in types.values()
    )


def accepts(limits: Limits, op: Op, free: Free, frame: Frame) -> bool:
    """Whether the chip takes the op in a frame: some run along certain axes only."""
    if limits.chip is None or not free.axis:
        return True
    tensors = [Value(t.with_(shape=in_frame(t.shape, frame))) for t in _types(op, free)]
    result = op.results[0].type.with_(shape=in_frame(op.results[0].type.shape, frame))
    attrs = {**op.attrs, "axis": frame.index(op.attrs["axis"])}
    operands = [*tensors, *op.operands[len(tensors) :]]
    return limits.reason(op.name, operands, attrs, [result]) is None


def _types(op: Op, free: Free) -> list[TensorType]:
    return [v.type for v in data_operands(op, free)]


def _is_reshape(op: Op) -> bool:
    return op.kind == "tosa.RESHAPE"


def _read_fixed(problem: Problem, roots: dict[Value, Value], values: Sequence[Value]) -> None:
    for value in values:
        tensor = problem.tensors.get(roots.get(value, value))
        if tensor is not None:
            tensor.fixed_reads.add(value.type.ints)


def _choice(op: Op, free: Free, frame: Frame, roots: dict[Value, Value]) -> Choice:
    """The op in a frame: shapes take the place of orders."""
    reads = tuple(
        [(roots.get(v, v), in_frame(v.type.shape, frame)) for v in data_operands(op, free)]
    )
    return Choice(frame, (), reads, in_frame(op.results[0].type.shape, frame))


def _add_node(problem: Problem, node: Node) -> None:
    number = len(problem.nodes)
    problem.nodes.append(node)
    for k, (root, _) in enumerate(node.natural.reads):
        if root in problem.tensors:
            problem.tensors[root].readers.append((number, k))
    if node.op.results[0] in problem.tensors:
        problem.tensors[node.op.results[0]].writer = number


class _Rebuild:
    """Emits the ops in their chosen frames, and RESHAPEs where shapes differ."""

    def __init__(
        self, builder: OpBuilder, roots: dict[Value, Value], chosen: dict[Op, Frame]
    ) -> None:
        self.builder = builder
        self.roots = roots
        self.chosen = chosen
        self.new: dict[Value, Value] = {}

    def read(self, value: Value, shape: Sequence[int]) -> Value:
        """The new value of `value` in this shape."""
        x = self.new[self.roots.get(value, value)]
        return self.builder.reshape(x, shape)

    def as_in_graph(self, value: Value) -> Value:
        """The new value with the shape of the old one."""
        x = self.new[self.roots.get(value, value)]
        return x if x.type.shape == value.type.shape else self.builder.reshape(x, value.type.ints)

    def run(self, op: Op) -> None:
        """Emit one op of the graph."""
        types = [r.type for r in op.results]
        attrs = op.attrs
        regions = [self._region(region) for region in op.regions]
        if op in self.chosen:
            free, frame = free_behaviour(op), self.chosen[op]
            assert free is not None
            operands = self._operands(op, free, frame)
            types = [t.with_(shape=in_frame(t.shape, frame)) for t in types]
            if free.axis:
                attrs = {**attrs, "axis": frame.index(attrs["axis"])}
        elif op.kind == "tosa.RESHAPE":
            x = self.new[self.roots.get(op.operands[0], op.operands[0])]
            operands = [x, self.as_in_graph(op.operands[1])]
        else:
            operands = [self.as_in_graph(v) for v in op.operands]
        results = self.builder.emit(op.kind, operands, attrs, types, regions, op.loc)
        for old, new in zip(op.results, results, strict=True):
            self.new[old] = new
            new.name = new.name or old.name

    def _operands(self, op: Op, free: Free, frame: Frame) -> list[Value]:
        tensors = len(data_operands(op, free))
        found = []
        for k, value in enumerate(op.operands):
            if k < tensors:
                found.append(self.read(value, in_frame(value.type.shape, frame)))
            elif k in free.shapes:
                entries, rank = contents(value), op.operands[0].type.rank
                moved = renumber_entries(entries, rank, frame, NEUTRAL[op.name, k])
                found.append(self.builder.shape(moved))
            else:
                found.append(self.as_in_graph(value))
        return found

    def _region(self, region: Graph) -> Graph:
        captured = {v: self.as_in_graph(v) for v in captured_values(region)}
        return _assign(region, OpBuilder(self.builder.limits), captured)
