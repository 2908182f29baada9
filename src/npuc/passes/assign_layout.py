"""Decides the memory order of every value at once, so that the fewest bytes are transposed.

Operators run in their own layout (convolutions), in any (element-wise ones), or in any with their
axis attribute renumbered. TRANSPOSEs of the graph state how values relate, they are not copied:
new ones appear only between a writer and a reader that want different orders.
"""

from __future__ import annotations

from collections.abc import Sequence

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.dialects.tosa.infer import contents
from npuc.errors import Unsupported
from npuc.ir import (
    Graph,
    Moves,
    Op,
    Origin,
    Quant,
    Shape,
    Value,
    before_reshape,
    before_transpose,
)
from npuc.passes.layout.behaviour import (
    RESHAPES,
    data_operands,
    free_behaviour,
    is_view,
    reads_sizes,
    renumber,
    renumber_shape,
)
from npuc.passes.layout.build_problem import build_problem, captured_values, solve_within
from npuc.passes.layout.channel_order import (
    WEIGHT_AXES,
    Absorber,
    find_absorbers,
    reordered_operands,
)
from npuc.passes.layout.problem import Choice
from npuc.passes.layout.views import Arrangement, Order, Views, find_views, order_of
from npuc.passes.transposition import emit_steps

Perm = tuple[int, ...]


def assign_layout(graph: Graph, limits: Limits) -> Graph:
    """The graph with the cheapest layout of all values by bytes transposed."""
    return _assign(graph, limits.op_builder(), {})


def _assign(graph: Graph, builder: OpBuilder, outer: dict[Value, Value]) -> Graph:
    """`outer` maps the values of enclosing graphs that this one reads."""
    views = find_views(graph, outer)
    absorbers = find_absorbers(graph, views)
    problem = build_problem(graph, views, builder.limits, absorbers)
    state = solve_within(problem, views, builder.limits)
    chosen = dict(zip([node.op for node in problem.nodes], state, strict=True))
    rebuild = _Rebuild(builder, views, chosen)
    for op, absorber in absorbers.items():
        rebuild.absorb(op, absorber)
    for value in graph.inputs:
        rebuild.store(value, builder.input(value.type, value.name), views[value].axes)
    for value, new in outer.items():
        rebuild.store(value, new, views[value].axes)
    for op in graph.ops:
        builder.loc = op.loc
        rebuild.run(op)
    outputs = [rebuild.as_in_graph(v) for v in graph.outputs]
    origins = {
        name: rebuild.origin(value, moves)
        for name, (value, moves) in graph.origins.items()
        if views[value].root not in rebuild.reordered
    }
    return builder.finish(outputs, graph.name, origins)


class _Rebuild:
    """Emits the ops in their chosen layouts, and transpositions where orders differ."""

    def __init__(self, builder: OpBuilder, views: Views, chosen: dict[Op, Choice]) -> None:
        self.builder = builder
        self.views = views
        self.chosen = chosen
        #: root -> memory order -> the new value that has it, and its axes; the writer's comes first
        self.versions: dict[Value, dict[Order, tuple[Value, Arrangement]]] = {}
        #: op on channels in another order -> sizes of their blocks, new order of the blocks, side
        self.channels: dict[Op, list[tuple[Perm, Perm, int]]] = {}
        #: roots whose channels are in another order than the model's
        self.reordered: set[Value] = set()

    def absorb(self, op: Op, absorber: Absorber) -> None:
        """Let constant weights take over the order in which `op` reads or writes its elements."""
        g, side = absorber.group, absorber.side
        natural, now = self.views.groups[op][g][side], self.chosen[op].groups[g][side]
        if natural == now:
            return
        shape = (op.operands[0], op.results[0])[side].type.ints
        sizes = tuple([shape[i] for i in natural])
        order = tuple([natural.index(i) for i in now])
        for other in absorber.ops:
            self.channels.setdefault(other, []).append((sizes, order, side))
            if side == 1 or other.kind not in WEIGHT_AXES:
                self.reordered.add(other.results[0])
        if side == 0:
            self.reordered.add(op.results[0])

    def store(self, root: Value, new: Value, axes: Arrangement) -> None:
        new.name = new.name or root.name
        self.versions[root] = {order_of(axes): (new, axes)}

    def run(self, op: Op) -> None:
        """Emit one op of the graph."""
        if is_view(op):
            return
        if reads_sizes(op):
            self._dim(op)
        elif op not in self.chosen:
            self._fixed(op)
        elif op.kind in RESHAPES:
            self._reshape(op, self.chosen[op])
        else:
            self._free(op, self.chosen[op])

    def _dim(self, op: Op) -> None:
        """A size of a tensor, in the order in which it was written."""
        view, (result,) = self.views[op.operands[0]], op.results
        new, have = next(iter(self.versions[view.root].values()))
        attrs = {"axis": have.index(view.axes[op.attrs["axis"]])}
        (dim,) = self.builder.emit(op.kind, [new], attrs, [result.type], loc=op.loc)
        self.store(result, dim, self.views[result].axes)

    def _fixed(self, op: Op) -> None:
        operands = [self.as_in_graph(v) for v in op.operands]
        for blocks in self.channels.get(op, ()):
            operands = reordered_operands(self.builder, op, operands, *blocks)
        types = [r.type for r in op.results]
        regions = [self._region(region) for region in op.regions]
        results = self.builder.emit(op.kind, operands, op.attrs, types, regions, op.loc)
        for old, new in zip(op.results, results, strict=True):
            self.store(old, new, self.views[old].axes)

    def _region(self, region: Graph) -> Graph:
        captured = {v: self.as_in_graph(v) for v in captured_values(region)}
        return _assign(region, self.builder.limits.op_builder(), captured)

    def _free(self, op: Op, choice: Choice) -> None:
        free = free_behaviour(op)
        assert free is not None
        tensors = len(data_operands(op, free))
        operands = []
        for k, value in enumerate(op.operands):
            if k < tensors:
                operands.append(self.transposed(value, choice.perm))
            elif k in free.shapes:
                operands.append(self.builder.shape(renumber_shape(contents(value), choice.perm)))
            else:
                operands.append(self.as_in_graph(value))
        for blocks in self.channels.get(op, ()):
            operands = reordered_operands(self.builder, op, operands, *blocks)
        attrs = renumber(op, free, choice.perm)
        self._emit(op, operands, attrs, choice)

    def _reshape(self, op: Op, choice: Choice) -> None:
        (root, order) = choice.reads[0]
        x = self.version(root, order)[0]
        shape = op.results[0].type.transposed(choice.result).ints
        operands, attrs = self.builder.reshape_form(x, shape)
        self._emit(op, operands, attrs, choice)

    def _emit(self, op: Op, operands: Sequence[Value], attrs: object, choice: Choice) -> None:
        (result,) = op.results
        type = result.type.transposed(choice.result)
        (new,) = self.builder.emit(op.kind, operands, attrs, [type], loc=op.loc)  # type: ignore[arg-type]
        axes = self.views[result].axes
        self.store(result, new, tuple([axes[p] for p in choice.result]))

    def as_in_graph(self, value: Value) -> Value:
        """The new value with the shape and order of the old one."""
        return self.transposed(value, range(value.type.rank))

    def transposed(self, value: Value, perm: Sequence[int]) -> Value:
        """The new value for TRANSPOSE of the old one by `perm`."""
        view = self.views[value]
        axes = tuple([view.axes[p] for p in perm])
        new, have = self.version(view.root, order_of(axes), axes)
        shape = tuple([value.type.shape[p] for p in perm])
        return new if new.type.shape == shape else self._move_ones(new, have, axes, shape)

    def version(
        self, root: Value, order: Order, axes: Arrangement = ()
    ) -> tuple[Value, Arrangement]:
        """The new value that holds `root` in this order, with the given axes if it is made here."""
        versions = self.versions[root]
        if order not in versions:
            first, have = next(iter(versions.values()))
            if sorted(map(_key, have)) != sorted(map(_key, axes)):
                axes, shape = order, tuple([d for d in first.type.shape if d != 1])
                first, have = self._move_ones(first, have, order_of(have), shape), order_of(have)
            versions[order] = (self._move(first, permutation(have, axes)), axes)
        return versions[order]

    def _move(self, x: Value, perm: Perm) -> Value:
        """TRANSPOSE, in steps where the target does not take it in one."""
        try:
            return self.builder.transpose(x, perm)
        except Unsupported:
            return emit_steps(self.builder, x, perm)

    def _move_ones(self, x: Value, have: Arrangement, axes: Arrangement, shape: Shape) -> Value:
        """`x` with its axes of size 1 elsewhere: a RESHAPE."""
        if not x.type.quant or x.type.quant.axis is None:
            return self.builder.reshape(x, shape)
        quant = x.type.quant
        axis = axes.index(have[quant.axis or 0])
        return self.builder.const(
            x.array.reshape(shape), x.type.dtype,
            Quant(quant.scale, quant.zero_point, axis, quant.qmin, quant.qmax),
        )  # fmt: skip

    def origin(self, value: Value, moves: Moves) -> Origin:
        """The new value that carries what `value` does, and the moves that make the model's."""
        view, shape = self.views[value], value.type.shape
        versions = self.versions[view.root]
        if view.order in versions:
            new, _ = versions[view.order]
            return new, before_reshape(new.type.shape, shape, moves)
        new, have = next(iter(versions.values()))
        if len(have) == len(view.axes):
            order = permutation(view.axes, have)
        else:
            ones = [i for i, a in enumerate(view.axes) if a is None]
            order = (*ones, *[view.axes.index(a) for a in have if a is not None])
        moves = before_transpose([order.index(i) for i in range(len(order))], moves)
        return new, before_reshape(new.type.shape, tuple([shape[i] for i in order]), moves)


def _key(axis: int | None) -> int:
    return -1 if axis is None else axis


def permutation(have: Arrangement, wanted: Arrangement) -> Perm:
    """perm with wanted[i] = have[perm[i]]; axes of size 1 keep their order."""
    ones = iter([i for i, a in enumerate(have) if a is None])
    return tuple([next(ones) if a is None else have.index(a) for a in wanted])
