"""Builds the layout problem of a graph: what each op can do, who reads what, what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from npuc.dialects.tosa import Limits
from npuc.errors import Unsupported
from npuc.ir import Graph, Op, TensorType, Value
from npuc.passes.layout.axis_orders import AxisOrder, Sequence_, axis_orders, place_axes, sort_axes
from npuc.passes.layout.behaviour import (
    Free,
    Group,
    data_operands,
    free_behaviour,
    hard_axes,
    is_view,
    keeps_last_axis,
    reads_sizes,
    renumber,
)
from npuc.passes.layout.channel_order import Absorber, sorted_groups
from npuc.passes.layout.problem import Choice, Node, Problem, Tensor
from npuc.passes.layout.views import Order, View, Views, order_of
from npuc.passes.transposition import emit_steps

#: cost of a byte that is transposed at the graph's ends, and elsewhere: the user can give and take
#: channels-last data, and what is cut from an image before its TRANSPOSE is copied once more
PER_BYTE, INSIDE = 8, 9
#: cost of a transposition that the target refuses
REFUSED = 2**40


def captured_values(graph: Graph) -> list[Value]:
    """Values of enclosing graphs that the ops of `graph`, or its regions, read."""
    own = {*graph.inputs, *(r for op in graph.walk() for r in op.results)}
    own.update(v for op in graph.walk() for region in op.regions for v in region.inputs)
    read = [v for op in graph.walk() for v in op.operands]
    read += [v for op in graph.walk() for region in op.regions for v in region.outputs]
    return [v for v in dict.fromkeys([*read, *graph.outputs]) if v not in own]


def build_problem(
    graph: Graph, views: Views, limits: Limits, absorbers: Mapping[Op, Absorber]
) -> Problem:
    """Nodes, tensors and the moves of each node for every order worth trying."""
    problem = Problem()
    _add_tensors(problem, graph, views, limits)
    for op in graph.ops:
        if is_view(op) or reads_sizes(op):
            continue
        free, groups = free_behaviour(op), views.groups.get(op)
        if free is None and groups is None:
            _fix(problem, views, op)
            continue
        natural = (
            free_choice(op, free, views, range(op.operands[0].type.rank))
            if free is not None
            else reshape_choice(op, groups or [], views, range(len(groups or [])), {})
        )
        _add_node(problem, Node(op, natural))
    for value in graph.outputs:
        read_fixed(problem, views[value])
    orders = axis_orders(_sequences(problem, graph, views), views)
    for node in problem.nodes:
        node.moves = _moves(node.op, views, orders, limits, absorbers.get(node.op))
    return problem


def _add_tensors(problem: Problem, graph: Graph, views: Views, limits: Limits) -> None:
    ends = {views[v].root for v in (*graph.inputs, *graph.outputs)}
    refused: dict[tuple[object, int], bool] = {}
    for value in {view.root: None for view in views.of.values()}:
        hard = hard_axes(value.type.shape)
        if value.is_const or len(hard) < 2:
            continue
        key = (value.type.dtype, len(hard))
        if key not in refused:
            refused[key] = _refuses(limits, value, len(hard))
        cost = int(count_bytes(value.type) * (PER_BYTE if value in ends else INSIDE))
        cost = REFUSED if refused[key] else cost
        problem.tensors[value] = Tensor(cost, None, views[value].order)


def _refuses(limits: Limits, value: Value, rank: int) -> bool:
    """Whether the target takes no TRANSPOSE at all of tensors of this type and rank."""
    type = TensorType(value.type.dtype, (2,) * rank)
    perms = {"perms": (*range(rank - 2), rank - 1, rank - 2)}
    moved = TensorType(value.type.dtype, type.shape)
    return limits.reason("TRANSPOSE", [Value(type)], perms, [moved]) is not None


def solve_within(problem: Problem, views: Views, limits: Limits) -> list[Choice]:
    """The best state whose transpositions the target takes, if there is one.

    A tensor that the best state would transpose in a way the chip refuses becomes too dear to be
    transposed, and the search starts again.
    """
    state = problem.solve()
    for _ in range(8 if limits.chip is not None else 0):
        refused = [
            tensor for root, tensor in problem.tensors.items()
            if tensor.cost < REFUSED and any(
                not _can_move(root, problem.written(tensor, state), order, limits)
                for order in problem.transposed(tensor, state)
            )
        ]  # fmt: skip
        if not refused:
            break
        for tensor in refused:
            tensor.cost = REFUSED
        state = problem.solve()
    return state


def _can_move(root: Value, written: Order, wanted: Order, limits: Limits) -> bool:
    """Whether the target transposes `root`, in one step or several, from one order to another."""
    shape = tuple([root.type.shape[a] for a in written])
    perms = tuple([written.index(a) for a in wanted])
    type = TensorType(root.type.dtype, shape)
    attrs = {"perms": perms}
    if limits.reason("TRANSPOSE", [Value(type)], attrs, [type.transposed(perms)]) is None:
        return True
    if not type.is_static:
        return False
    scratch = limits.op_builder()
    try:
        emit_steps(scratch, scratch.input(type), perms)
    except Unsupported:
        return False
    return True


def count_bytes(type: TensorType) -> float:
    """Bytes of a tensor; a symbolic dimension counts as its smallest size."""
    size = 1
    for d in type.shape:
        size *= d if isinstance(d, int) else max(d.lo, 2)
    return size * type.dtype.itemsize


def _fix(problem: Problem, views: Views, op: Op) -> None:
    """The op reads and writes its tensors as they are in the graph."""
    for value in op.operands:
        read_fixed(problem, views[value])
    for region in op.regions:
        for value in captured_values(region):
            if value in views.of:
                read_fixed(problem, views[value])


def read_fixed(problem: Problem, view: View) -> None:
    """Somebody reads `view` in the order of its axes."""
    tensor = problem.tensors.get(view.root)
    if tensor is not None:
        tensor.fixed_reads.add(view.order)


def _add_node(problem: Problem, node: Node) -> None:
    number = len(problem.nodes)
    problem.nodes.append(node)
    for k, (root, _) in enumerate(node.natural.reads):
        if root in problem.tensors:
            problem.tensors[root].readers.append((number, k))
    written = problem.tensors.get(node.op.results[0])
    if written is not None:
        written.writer = number


def free_choice(op: Op, free: Free, views: Views, perm: Iterable[int]) -> Choice:
    """`op` on tensors transposed by `perm`."""
    perm = tuple(perm)
    found = [views[v] for v in data_operands(op, free)]
    reads = tuple([(x.root, order_of([x.axes[p] for p in perm])) for x in found])
    axes, result = views[op.results[0]].axes, result_perm(op, free, perm)
    return Choice(perm, result, reads, order_of([axes[p] for p in result]))


def result_perm(op: Op, free: Free, perm: Sequence[int]) -> tuple[int, ...]:
    """The permutation of the result when the operands are permuted by `perm`."""
    if not free.drops_axis:
        return tuple(perm)
    axis = op.attrs["axis"]
    return tuple([p - (p > axis) for p in perm if p != axis])


def reshape_choice(
    op: Op, groups: Sequence[Group], views: Views, perm: Iterable[int], positions: AxisOrder
) -> Choice:
    """A RESHAPE whose blocks of axes lie in the order `perm`, their axes as `groups` has them."""
    perm = tuple(perm)
    x, y = views[op.operands[0]], views[op.results[0]]
    read = order_of([x.axes[i] for g in perm for i in groups[g][0]])
    written = [i for g in perm for i in groups[g][1]]
    result = place_axes(views.names.of(y.names), written, positions)
    return Choice(perm, result, ((x.root, read),), tuple(written), tuple(groups))


def _sequences(problem: Problem, graph: Graph, views: Views) -> dict[Sequence_, int]:
    """What the fixed readers and writers ask for, by bytes; natural orders of RESHAPEs last."""
    found: Counter[Sequence_] = Counter()
    for op in graph.ops:
        fixed = not is_view(op) and not reads_sizes(op) and free_behaviour(op) is None
        if fixed and op.kind != "const":
            weight = 0 if op in views.groups else PER_BYTE
            for value in (*op.operands, *op.results):
                _count(found, value, views, weight)
    for value in (*graph.inputs, *graph.outputs):
        _count(found, value, views, PER_BYTE)
    return found


def _count(found: Counter[Sequence_], value: Value, views: Views, weight: int) -> None:
    if views[value].root.is_const or value.type.rank < 2:
        return
    names = views.names.of(views[value].names)
    sequence = tuple([(n, a is not None) for n, a in zip(names, views[value].axes, strict=True)])
    found[sequence] += int(count_bytes(value.type)) * weight


def _moves(
    op: Op, views: Views, orders: Sequence[AxisOrder], limits: Limits, absorber: Absorber | None
) -> list[Choice | None]:
    """Per order one move for each side of a RESHAPE (the same twice for other ops)."""
    free = free_behaviour(op)
    if free is None:
        return [_reshape_move(op, views, o, side, absorber) for o in orders for side in (0, 1)]
    found = [_free_move(op, free, views, _sorted(op, free, views, o), limits) for o in orders]
    return [move for move in found for _ in (0, 1)]


def _sorted(op: Op, free: Free, views: Views, order: AxisOrder) -> tuple[int, ...] | None:
    """The axes of an op in an order, where this keeps the last one that has to stay the last."""
    names, hard = op_axes(op, free, views)
    last = len(names) - 1
    if not keeps_last_axis(op) or last not in hard:
        return sort_axes(names, hard, order)
    front = sort_axes(names[:last], hard[:-1], order)
    return None if front is None else (*front, last)


def _free_move(
    op: Op, free: Free, views: Views, perm: tuple[int, ...] | None, limits: Limits
) -> Choice | None:
    if perm is None:
        return None
    if free.axis and limits.chip is not None and not _accepted(op, free, perm, limits):
        return None
    return free_choice(op, free, views, perm)


def op_axes(op: Op, free: Free, views: Views) -> tuple[tuple[int, ...], list[int]]:
    """Names of the axes an op runs over, and those that are not of size 1 everywhere."""
    tensors = data_operands(op, free)
    names, hard = [], []
    result = op.results[0] if not free.drops_axis else tensors[0]
    for i in range(tensors[0].type.rank):
        wide = [v for v in (*tensors, result) if v.type.shape[i] != 1]
        names.append(views[(wide or tensors)[0]].names[i])
        if wide:
            hard.append(i)
    return views.names.of(names), hard


def _accepted(op: Op, free: Free, perm: Sequence[int], limits: Limits) -> bool:
    """Whether the chip takes the op on permuted tensors: some run along certain axes only."""
    operands = list(op.operands)
    for k in range(len(data_operands(op, free))):
        operands[k] = Value(operands[k].type.transposed(perm))
    result = op.results[0].type.transposed(result_perm(op, free, perm))
    return limits.reason(op.name, operands, renumber(op, free, perm), [result]) is None


def _reshape_move(
    op: Op, views: Views, positions: AxisOrder, side: int, absorber: Absorber | None
) -> Choice | None:
    """The blocks in the order of their source's axes (side 0) or of their result's (side 1)."""
    groups = views.groups.get(op)
    if groups is None:
        return None
    for value, k in ((op.operands[0], 0), (op.results[0], 1))[:: -1 if side else 1]:
        names = views.names.of(views[value].names)
        axes: Order = tuple([i for group in groups for i in group[k]])
        if not all(names[i] in positions for i in axes):
            continue
        order = sorted(axes, key=lambda i: (positions[names[i]], i))
        free = absorber.group if absorber is not None and absorber.side == k else None
        perm = sorted_groups(groups, k, order, free)
        if perm is None:
            continue
        if free is not None:
            block = tuple([i for i in order if i in groups[free][k]])
            groups = list(groups)
            groups[free] = (block, groups[free][1]) if k == 0 else (groups[free][0], block)
        return reshape_choice(op, groups, views, perm, positions)
    return None
