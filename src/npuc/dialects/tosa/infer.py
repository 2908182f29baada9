"""Result types of TOSA operators: element types from the tables, shapes from rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npuc.dialects.tosa.definition import DEFINITIONS, Argument, Definition, Mode
from npuc.ir import Dim, DType, Op, Shape, TensorType, Value
from npuc.ir.symbolic import at_least, at_most, smallest

Attrs = Mapping[str, Any]


class InvalidOp(Exception):
    """An op that breaks its definition: operands, attributes or shapes do not fit each other."""


def infer(
    name: str, operands: Sequence[Value], attrs: Attrs, dtype: DType | None = None,
    shape: Shape | None = None,
) -> tuple[TensorType, ...]:  # fmt: skip
    """Result types of operator `name`.

    `dtype` decides where the operands leave the element type open (CAST, RESCALE); `shape`
    replaces the inferred shape where it depends on run-time values. Raises InvalidOp.
    """
    definition = DEFINITIONS[name]
    if not definition.outputs:
        return ()
    types = [v.type for v in operands]
    element = _result_dtype(definition, types, attrs, dtype)
    if shape is not None:
        return (TensorType(element, shape),)
    rule = SHAPES.get(name)
    if rule is None:
        shape = broadcast(
            [t.shape for t, a in zip(types, definition.inputs) if a.rank != ("1", "1")]
        )
        return (TensorType(element, shape),)
    result = rule(operands, attrs)
    shapes = result if isinstance(result, list) else [result]
    if name == "CAST_TO_BLOCK_SCALED":
        return (TensorType(element, shapes[0]), TensorType(DType.FP8UE8M0, shapes[1]))
    return tuple(TensorType(element, s) for s in shapes)


def bind(definition: Definition, types: Sequence[TensorType], attrs: Attrs) -> dict[str, DType]:
    """Element variables of the specification (in_t, weight_t ...) bound to operand types."""
    bound: dict[str, DType] = {}
    for argument, type in zip(_spread(definition.inputs, len(types)), types):
        if argument.element:
            known = bound.setdefault(argument.element, type.dtype)
            if known is not type.dtype:
                raise InvalidOp(
                    f"{definition.name}: operand {argument.name} is {type.dtype.name}, "
                    f"expected {known.name}"
                )
    if "acc_type" in attrs:
        bound["acc_t"] = attrs["acc_type"]
    return bound


def _spread(inputs: tuple[Argument, ...], count: int) -> list[Argument]:
    """The arguments that `count` operands stand for; a list argument takes all that are left."""
    spread: list[Argument] = []
    for a in inputs:
        spread += [a] * (count - len(inputs) + 1) if a.is_list else [a]
    return spread


def matching_modes(definition: Definition, bound: Mapping[str, DType]) -> list[Mode]:
    """The modes that the bound element variables fit."""
    return [
        m for m in definition.modes
        if all(m.types.get(k, v) is v for k, v in bound.items())
    ]  # fmt: skip


def _result_dtype(
    definition: Definition, types: Sequence[TensorType], attrs: Attrs, dtype: DType | None
) -> DType:
    variable = definition.outputs[0].element
    if variable == "shape_t":
        return DType.SHAPE
    if dtype is not None or variable is None:
        return dtype or types[0].dtype
    bound = bind(definition, types, attrs)
    if variable in bound:
        return bound[variable]
    for mode in matching_modes(definition, bound):
        if variable in mode.types:
            return mode.types[variable]
    names = ", ".join(f"{k}={v.name}" for k, v in bound.items())
    raise InvalidOp(f"{definition.name} takes no such types: {names}")


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The broadcast of equal-rank shapes whose dimensions are equal or 1."""
    if len({len(s) for s in shapes}) > 1:
        raise InvalidOp(f"ranks differ: {', '.join(map(str, shapes))}")
    result = []
    for dims in zip(*shapes):
        wide = {d for d in dims if d != 1}
        if len(wide) > 1:
            raise InvalidOp(f"shapes {', '.join(map(str, shapes))} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def contents(value: Value) -> tuple[Dim, ...]:
    """The sizes that a shape operand holds: numbers, or expressions of symbolic dimensions."""
    if value.is_const:
        return tuple(int(v) for v in value.array.reshape(-1))
    if value.op is None:
        raise InvalidOp(f"{value!r} has to be computed in its graph")
    compute = CONTENTS.get(value.op.name)
    if compute is None:
        raise InvalidOp(f"{value.op.kind} gives no shape")
    return compute(value.op)


def _each(compute: Callable[..., Dim]) -> Callable[[Op], tuple[Dim, ...]]:
    return lambda op: tuple(compute(*sizes) for sizes in zip(*map(contents, op.operands)))


#: what operators on shapes compute
CONTENTS: dict[str, Callable[[Op], tuple[Dim, ...]]] = {
    "DIM": lambda op: (op.operands[0].type.shape[op.attrs["axis"]],),
    "CONCAT_SHAPE": lambda op: tuple(d for v in op.operands for d in contents(v)),
    "ADD_SHAPE": _each(lambda a, b: a + b),
    "SUB_SHAPE": _each(lambda a, b: a - b),
    "MUL_SHAPE": _each(lambda a, b: a * b),
    "DIV_FLOOR_SHAPE": _each(lambda a, b: a // b),
    "DIV_CEIL_SHAPE": _each(lambda a, b: -(-a // b)),
    "MOD_SHAPE": _each(lambda a, b: a % b),
    "MAX_SHAPE": _each(at_least),
    "MIN_SHAPE": _each(at_most),
}


def _window(
    size: Dim, kernel: Dim, stride: Dim, dilation: Dim, before: Dim, after: Dim, what: str
) -> Dim:
    free = size - 1 + before + after - (kernel - 1) * dilation
    if smallest(free) < 0:
        raise InvalidOp(
            f"kernel {kernel} with dilation {dilation} exceeds the padded {what} {size}"
        )
    if free % stride != 0:
        raise InvalidOp(
            f"{what} {size} does not divide: remainder {free % stride} at stride {stride}"
        )
    return free // stride + 1


def _conv(operands: Sequence[Value], attrs: Attrs, spatial: int, depthwise: bool = False) -> Shape:
    x, w = operands[0].type.shape, operands[1].type.ints
    n, dims = x[0], x[1 : 1 + spatial]
    kernel = w[:2] if depthwise else w[1 : 1 + spatial]
    channels = w[2] if depthwise else w[-1]
    out = w[2] * w[3] if depthwise else w[0]
    if x[-1] != channels:
        raise InvalidOp(f"input has {x[-1]} channels, weight {channels}")
    bias = operands[2].type.ints[0]
    if bias not in (1, out):
        raise InvalidOp(f"bias has {bias} elements, output {out} channels")
    pad, what = attrs["pad"], ("depth", "height", "width")[3 - spatial :]
    sizes = [
        _window(dims[i], kernel[i], attrs["stride"][i], attrs["dilation"][i],
                pad[2 * i], pad[2 * i + 1], what[i])
        for i in range(spatial)
    ]  # fmt: skip
    return (n, *sizes, out)


def _transpose_conv(operands: Sequence[Value], attrs: Attrs) -> Shape:
    n, h, w, c = operands[0].type.shape
    oc, kh, kw, ic = operands[1].type.ints
    if c != ic:
        raise InvalidOp(f"input has {c} channels, weight {ic}")
    top, bottom, left, right = attrs["out_pad"]
    if min(top, bottom) <= -kh or min(left, right) <= -kw:
        raise InvalidOp(f"out_pad {attrs['out_pad']} is not above minus the kernel {kh}x{kw}")
    sy, sx = attrs["stride"]
    return (n, (h - 1) * sy + top + bottom + kh, (w - 1) * sx + left + right + kw, oc)


def _pool(operands: Sequence[Value], attrs: Attrs) -> Shape:
    n, h, w, c = operands[0].type.shape
    (ky, kx), (sy, sx), (top, bottom, left, right) = attrs["kernel"], attrs["stride"], attrs["pad"]
    if max(top, bottom) >= ky or max(left, right) >= kx:
        raise InvalidOp(f"pad {attrs['pad']} is not smaller than the kernel {ky}x{kx}")
    return (n, _window(h, ky, sy, 1, top, bottom, "height"),
            _window(w, kx, sx, 1, left, right, "width"), c)  # fmt: skip


def _adaptive_pool(operands: Sequence[Value], attrs: Attrs) -> Shape:
    kernel, stride, pad = (contents(v) for v in operands[-3:])
    return _pool(operands, {"kernel": kernel, "stride": stride, "pad": pad})


def _matmul(operands: Sequence[Value], attrs: Attrs) -> Shape:
    (n, h, c), (m, k, w) = operands[0].type.shape, operands[1].type.shape
    if n != m or c != k:
        raise InvalidOp(f"{operands[0].type.shape} x {operands[1].type.shape} do not fit")
    return (n, h, w)


def _matmul_t(operands: Sequence[Value], attrs: Attrs) -> Shape:
    b = operands[2] if len(operands) == 4 and operands[2].type.rank == 3 else operands[1]
    (n, h, c), (d, w, k) = operands[0].type.shape, b.type.shape
    if c != k or d not in (n, 1):
        raise InvalidOp(f"{operands[0].type.shape} x {b.type.shape} transposed do not fit")
    return (n, h, w)


def _axis(operands: Sequence[Value], attrs: Attrs) -> int:
    axis, rank = attrs["axis"], operands[0].type.rank
    if not 0 <= axis < rank:
        raise InvalidOp(f"axis {axis} is outside rank {rank}")
    return int(axis)


def _reduce(operands: Sequence[Value], attrs: Attrs) -> Shape:
    axis, shape = _axis(operands, attrs), operands[0].type.shape
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _argmax(operands: Sequence[Value], attrs: Attrs) -> Shape:
    axis, shape = _axis(operands, attrs), operands[0].type.shape
    return (*shape[:axis], *shape[axis + 1 :])


def _concat(operands: Sequence[Value], attrs: Attrs) -> Shape:
    axis, shapes = _axis(operands, attrs), [v.type.shape for v in operands]
    rest = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
    if len(rest) > 1:
        raise InvalidOp(f"shapes {', '.join(map(str, shapes))} differ off axis {axis}")
    total = sum(s[axis] for s in shapes)
    return (*shapes[0][:axis], total, *shapes[0][axis + 1 :])


def _pad(operands: Sequence[Value], attrs: Attrs) -> Shape:
    pads, shape = contents(operands[1]), operands[0].type.shape
    if len(pads) != 2 * len(shape) or any(smallest(p) < 0 for p in pads):
        raise InvalidOp(f"padding {pads} does not fit shape {shape}")
    return tuple(d + a + b for d, a, b in zip(shape, pads[::2], pads[1::2]))


def _reshape(operands: Sequence[Value], attrs: Attrs) -> Shape:
    shape = contents(operands[1])
    if operands[0].type.size != math.prod(shape):
        raise InvalidOp(f"reshape of {operands[0].type.shape} to {shape} changes the size")
    return shape


def _slice(operands: Sequence[Value], attrs: Attrs) -> Shape:
    start, size, shape = contents(operands[1]), contents(operands[2]), operands[0].type.shape
    for d, s, n in zip(shape, start, size):
        if min(smallest(s), smallest(n), smallest(d - s - n)) < 0:  # empty: `Limits` says so
            raise InvalidOp(f"slice start {start} size {size} is outside {shape}")
    return size


def _tile(operands: Sequence[Value], attrs: Attrs) -> Shape:
    multiples = contents(operands[1])
    return tuple(d * m for d, m in zip(operands[0].type.shape, multiples))


def _transpose(operands: Sequence[Value], attrs: Attrs) -> Shape:
    perms, shape = attrs["perms"], operands[0].type.shape
    if sorted(perms) != list(range(len(shape))):
        raise InvalidOp(f"perms {perms} is no permutation of rank {len(shape)}")
    return tuple(shape[p] for p in perms)


def _gather(operands: Sequence[Value], attrs: Attrs) -> Shape:
    (n, _, c), (m, w) = operands[0].type.shape, operands[1].type.shape
    if n != m:
        raise InvalidOp(f"values have batch {n}, indices {m}")
    return (n, w, c)


def _row_gather(operands: Sequence[Value], attrs: Attrs) -> Shape:
    n, w, c = _gather(operands, attrs)
    return (n, w * int(operands[2].array[0]), c)


def _scatter(operands: Sequence[Value], attrs: Attrs) -> Shape:
    (n, k, c), (m, w), update = (v.type.shape for v in operands)
    if update != (n, w, c) or n != m:
        raise InvalidOp(f"scatter of {update} at {(m, w)} does not fit {(n, k, c)}")
    return (n, k, c)


def _resize(operands: Sequence[Value], attrs: Attrs) -> Shape:
    n, h, w, c = operands[0].type.shape
    (yn, yd, xn, xd), (oy, ox), (by, bx) = (contents(v) for v in operands[1:4])
    sizes = []
    for d, num, den, offset, border in ((h, yn, yd, oy, by), (w, xn, xd, ox, bx)):
        span = (d - 1) * num - offset + border
        if span % den != 0:
            raise InvalidOp(
                f"resize of {d} by {num}/{den} offset {offset} border {border} is not whole"
            )
        sizes.append(span // den + 1)
    return (n, *sizes, c)


def _fft(operands: Sequence[Value], attrs: Attrs) -> list[Shape]:
    return [operands[0].type.shape] * 2


def _rfft(operands: Sequence[Value], attrs: Attrs) -> list[Shape]:
    n, h, w = operands[0].type.shape
    return [(n, h, w // 2 + 1)] * 2


def _same(operands: Sequence[Value], attrs: Attrs) -> Shape:
    return operands[0].type.shape


def _to_blocks(operands: Sequence[Value], attrs: Attrs) -> list[Shape]:
    shape = operands[0].type.shape
    return [shape, (*shape[:-1], shape[-1] // int(attrs["block_size"]))]


def _conv_blocks(operands: Sequence[Value], attrs: Attrs) -> Shape:
    pad, stride, dilation = (contents(v) for v in operands[5:8])
    window = {"pad": pad, "stride": stride, "dilation": dilation}
    return _conv([operands[0], operands[2], operands[4]], window, 2)


def _concat_shape(operands: Sequence[Value], attrs: Attrs) -> Shape:
    return (sum(v.type.ints[0] for v in operands),)


SHAPES: dict[str, Callable[[Sequence[Value], Attrs], Shape | list[Shape]]] = {
    "CONV2D": lambda v, a: _conv(v, a, 2),
    "CONV3D": lambda v, a: _conv(v, a, 3),
    "DEPTHWISE_CONV2D": lambda v, a: _conv(v, a, 2, depthwise=True),
    "CONV2D_BLOCK_SCALED": _conv_blocks,
    "TRANSPOSE_CONV2D": _transpose_conv,
    "AVG_POOL2D": _pool, "MAX_POOL2D": _pool,
    "AVG_POOL2D_ADAPTIVE": _adaptive_pool, "MAX_POOL2D_ADAPTIVE": _adaptive_pool,
    "MATMUL": _matmul, "MATMUL_T": _matmul_t, "MATMUL_T_BLOCK_SCALED": _matmul_t,
    "REDUCE_ALL": _reduce, "REDUCE_ANY": _reduce, "REDUCE_MAX": _reduce, "REDUCE_MIN": _reduce,
    "REDUCE_PRODUCT": _reduce, "REDUCE_SUM": _reduce, "ARGMAX": _argmax,
    "CONCAT": _concat, "PAD": _pad, "RESHAPE": _reshape, "SLICE": _slice, "TILE": _tile,
    "TRANSPOSE": _transpose, "REVERSE": _same, "GATHER": _gather,
    "ROW_GATHER": _row_gather, "SCATTER": _scatter, "RESIZE": _resize,
    "FFT2D": _fft, "RFFT2D": _rfft, "TABLE": _same, "CAST_TO_BLOCK_SCALED": _to_blocks,
    "CAST_FROM_BLOCK_SCALED": _same, "RESCALE": _same, "CAST": _same, "CLAMP": _same,
    "NEGATE": _same, "IDENTITY": _same, "CONCAT_SHAPE": _concat_shape, "DIM": lambda v, a: (1,),
    "SLICE_SHAPE": lambda v, a: (contents(v[2])[0],),
}  # fmt: skip
for _name, _d in DEFINITIONS.items():
    if _d.group == "shape" and _name not in SHAPES:
        SHAPES[_name] = _same
