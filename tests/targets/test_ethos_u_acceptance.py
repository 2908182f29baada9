"""On every operator and type, and on random sizes, what a policy lets pass compiles with Vela."""

import random

import numpy as np
import pytest

from npuc.dialects.tosa import InvalidOp
from npuc.errors import Unsupported
from npuc.targets.ethos_u_policy import U55_TYPES
from tests.targets.ethos_u_graphs import (
    BOOL,
    CHIPS,
    I8,
    I16,
    I32,
    I48,
    S,
    assert_agrees,
    compiles,
    graph_of,
    refusal,
)


def operators():
    """name -> how to make one operator from a first operand of a type."""

    def binary(name, result=None, **attrs):
        return lambda b, d: b.tosa(name, b.given(S, d), b.given(S, d), dtype=result, **attrs)

    def unary(name, **attrs):
        return lambda b, d: b.tosa(name, b.given(S, d), **attrs)

    made = {
        n: binary(n)
        for n in (
            "ADD",
            "SUB",
            "MAXIMUM",
            "MINIMUM",
            "LOGICAL_LEFT_SHIFT",
            "INTDIV",
            "LOGICAL_RIGHT_SHIFT",
            "BITWISE_AND",
            "BITWISE_OR",
            "BITWISE_XOR",
            "LOGICAL_AND",
            "LOGICAL_OR",
            "LOGICAL_XOR",
        )
    }
    made |= {n: binary(n, BOOL) for n in ("EQUAL", "GREATER", "GREATER_EQUAL")}
    made |= {n: unary(n) for n in ("ABS", "CLZ", "BITWISE_NOT", "LOGICAL_NOT", "IDENTITY")}
    made |= {
        n: unary(n, axis=3)
        for n in ("REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ALL", "REDUCE_ANY", "ARGMAX")
    }
    made |= {
        "ARITHMETIC_RIGHT_SHIFT": binary("ARITHMETIC_RIGHT_SHIFT", round=True),
        "MUL": lambda b, d: b.MUL(b.given(S, d), b.given(S, d), b.one()),
        "NEGATE": lambda b, d: b.NEGATE(b.given(S, d), b.one(0, d), b.one(0, d)),
        "CLAMP": unary("CLAMP", min_val=-3, max_val=7),
        "SELECT": lambda b, d: b.SELECT(b.given(S, BOOL), b.given(S, d), b.given(S, d)),
        "CONCAT": lambda b, d: b.CONCAT(b.given(S, d), b.given(S, d), axis=1),
        "PAD": lambda b, d: b.PAD(b.given(S, d), (0, 0, 1, 1, 0, 2, 0, 0), b.one(1, d)),
        "RESHAPE": lambda b, d: b.RESHAPE(b.given(S, d), (64, 16)),
        "SLICE": lambda b, d: b.SLICE(b.given(S, d), (0, 1, 2, 3), (1, 2, 3, 4)),
        "TILE": lambda b, d: b.TILE(b.given(S, d), (1, 2, 1, 3)),
        "TRANSPOSE": unary("TRANSPOSE", perms=(0, 3, 1, 2)),
        "GATHER": lambda b, d: b.GATHER(b.given((2, 8, 4), d), b.given((2, 3), I32)),
        "SCATTER": lambda b, d: b.SCATTER(
            b.given((2, 8, 4), d), b.given((2, 3), I32), b.given((2, 3, 4), d)
        ),
        "MATMUL": lambda b, d: b.scaled(
            b.MATMUL(b.given((2, 8, 16), d), b.given((2, 16, 8), d), b.one(0, d), b.one(0, d)), d
        ),
        "MAX_POOL2D": lambda b, d: b.pool("MAX_POOL2D", b.given(S, d), kernel=(2, 2)),
        "AVG_POOL2D": lambda b, d: b.pool("AVG_POOL2D", b.given(S, d), kernel=(2, 2)),
        "CONV2D": lambda b, d: b.conv("CONV2D", b.given(S, d), (3, 3)),
        "DEPTHWISE_CONV2D": lambda b, d: b.conv("DEPTHWISE_CONV2D", b.given(S, d), (3, 3)),
        "CONV3D": lambda b, d: b.conv("CONV3D", b.given((1, 2, 8, 8, 4), d), (1, 3, 3)),
        "TRANSPOSE_CONV2D": lambda b, d: b.conv(
            "TRANSPOSE_CONV2D", b.given(S, d), (3, 3), stride=(2, 2)
        ),
        "RESIZE": lambda b, d: b.RESIZE(
            b.given(S, d), (4, 2, 4, 2), (-1, -1), (1, 1), mode="NEAREST_NEIGHBOR", dtype=d
        ),
        "RESCALE": lambda b, d: b.scaled(b.given(S, d), I8),
        "TABLE": lambda b, d: b.TABLE(
            b.given(S, d),
            b.const(np.zeros(*({I8: (256, np.int8), I16: (513, np.int16)}[d]))),
            dtype={I8: I8, I16: I32}[d],
        ),
    }
    return made


@pytest.mark.parametrize("dtype", [I8, I16, I32, BOOL], ids=lambda d: d.name)
@pytest.mark.parametrize("name", operators())
def test_policy_and_vela_agree_on_every_operator_and_type(name, dtype):
    try:
        graph = graph_of(lambda b: operators()[name](b, dtype))
    except (Unsupported, InvalidOp, KeyError):
        return  # TOSA itself has no such operator
    for chip in CHIPS:
        assert_agrees(graph, chip, f"{name} {dtype.name}")


def test_every_operator_of_u55_is_covered():
    assert set(U55_TYPES) <= {*operators(), "CAST", "REVERSE"}


# -- sizes and forms: on random ones a policy that accepts must be right -----------------------


def random_transpose(r):
    rank, dtype = r.choice([2, 3, 4, 4, 5, 6]), r.choice([I8, I16, I32])
    shape = [r.choice([1, 1, 2, 3, 5, 17]) for _ in range(rank)]
    shape[r.randrange(rank)] = r.choice([3, 300, 20000, 65536, 70000])
    if r.random() < 0.4:
        shape[r.randrange(rank)] = r.choice([300, 1000])
    perms = r.sample(range(rank), rank)
    if np.prod(shape, dtype=np.int64) > 2e6:
        return None
    return f"TRANSPOSE {dtype.name} {shape} {perms}", lambda b: b.TRANSPOSE(
        b.given(shape, dtype), perms=tuple(perms)
    )


def random_window(r):
    dtype, name = (
        r.choice([I8, I16]),
        r.choice(
            ["CONV2D", "DEPTHWISE_CONV2D", "CONV3D", "TRANSPOSE_CONV2D", "MAX_POOL2D", "AVG_POOL2D"]
        ),
    )
    kernel = tuple(r.choice([1, 2, 3, 5, 9, 64, 65]) for _ in range(2))
    stride, dilation = (
        tuple(r.choice(c) for _ in range(2)) for c in ((1, 1, 2, 3, 4, 8), (1, 1, 2, 3))
    )
    dilation = dilation if "CONV" in name and name != "TRANSPOSE_CONV2D" else (1, 1)
    pad = tuple(r.choice([0, 0, 1]) for _ in range(4))
    size = [
        max((kernel[i] - 1) * dilation[i] + 1 + 2 * stride[i] - pad[2 * i] - pad[2 * i + 1], 1)
        for i in (0, 1)
    ]
    shape, channels = (r.choice([1, 2]), *size, r.choice([1, 3, 8])), r.choice([4, 16])

    def make(b):
        if "POOL" in name:
            return b.pool(name, b.given(shape, dtype), kernel=kernel, stride=stride, pad=pad)
        if name == "TRANSPOSE_CONV2D":
            return b.conv(name, b.given(shape, dtype), kernel, out=channels, stride=stride)
        if name == "CONV3D":
            x = b.given((shape[0], 2, *shape[1:]), dtype)
            return b.conv(
                name,
                x,
                (r.choice([1, 2]), *kernel),
                out=channels,
                stride=(1, *stride),
                pad=(0, 0, *pad),
                dilation=(1, *dilation),
            )
        return b.conv(
            name,
            b.given(shape, dtype),
            kernel,
            out=channels,
            stride=stride,
            pad=pad,
            dilation=dilation,
        )

    return (
        f"{name} {dtype.name} {shape} kernel {kernel} stride {stride} dil {dilation} pad {pad}",
        make,
    )


def random_resize(r):
    dtype, batch, h, w = (
        r.choice([I8, I16]),
        r.choice([1, 1, 2]),
        r.choice([1, 2, 5]),
        r.choice([1, 2, 5]),
    )
    y, x = r.choice([1, 2, 3, 4, 8, 16]), r.choice([1, 2, 4, 8])
    x = r.choice([y, y, x])
    form = r.choice(
        [
            ((2 * y, 2, 2 * x, 2), (1 - y, 1 - x), (y - 1, x - 1)),
            ((y, 1, x, 1), (0, 0), (0, 0)),
            ((y, 1, x, 1), (0, 0), (y - 1, x - 1)),
            ((2 * y, 2, 2 * x, 2), (-y, -x), (y - 2, x - 2)),
        ]
    )
    mode = r.choice(["NEAREST_NEIGHBOR"] * 4 + ["BILINEAR"])
    result = dtype if mode != "BILINEAR" else {I8: I32, I16: I48}[dtype]

    def make(b):
        image = b.RESIZE(b.given((batch, h, w, 4), dtype), *form, mode=mode, dtype=result)
        return image if result is dtype else b.scaled(image, dtype)

    return f"RESIZE {mode} {dtype.name} {batch}x{h}x{w} {form}", make


def random_movement(r):
    dtype, rank = r.choice([I8, I16, I32]), r.choice([1, 2, 3, 4, 5, 6])
    shape = tuple(r.choice([1, 2, 3, 5]) for _ in range(rank))
    if r.random() < 0.2 and rank < 4:
        shape = (*shape[:-1], 70000)
    axis, name = (
        r.randrange(rank),
        r.choice(
            [
                "REVERSE",
                "TILE",
                "CONCAT",
                "PAD",
                "SLICE",
                "RESHAPE",
                "REDUCE_SUM",
                "REDUCE_MAX",
                "REDUCE_MIN",
                "ARGMAX",
                "CAST",
                "RESCALE",
            ]
        ),
    )
    other = r.choice([d for d in (I8, I16, I32) if d is not dtype])

    def make(b):
        x = b.given(shape, dtype)
        if name == "TILE":
            return b.TILE(x, tuple(2 if i == axis else 1 for i in range(rank)))
        if name == "CONCAT":
            return b.CONCAT(x, b.given(shape, dtype), axis=axis)
        if name == "PAD":
            return b.PAD(x, (1, 0) * rank, b.one(1, dtype))
        if name == "SLICE":
            return b.SLICE(x, [n // 2 for n in shape], [n - n // 2 for n in shape])
        if name == "RESHAPE":
            return b.RESHAPE(x, (int(np.prod(shape)),))
        if name == "CAST":
            return b.CAST(x, dtype=other)
        return b.scaled(x, other) if name == "RESCALE" else b.tosa(name, x, axis=axis)

    return f"{name} {dtype.name} {shape} axis {axis}", make


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "sample",
    [random_transpose, random_window, random_resize, random_movement],
    ids=lambda f: f.__name__,
)
def test_what_a_policy_lets_pass_compiles(sample, seed):
    r = random.Random(seed)
    passed = 0
    for _ in range(30):
        made = sample(r)
        try:
            graph = graph_of(made[1]) if made else None
        except (Unsupported, InvalidOp):
            continue
        for chip in ("ethos-u55-128", "ethos-u85-256"):
            if graph is None or refusal(graph, chip) is not None:
                continue
            if not graph.inputs or not reads_input(graph):
                continue
            assert compiles(graph, chip), f"{chip} refuses {made[0]}"
            passed += 1
    assert passed >= 10


def reads_input(graph):
    """Not a window that lies in its padding everywhere: Vela then drops the input."""
    return all(
        (max(op.attrs.get("pad", (0,))) < 8 and max(op.attrs.get("stride", (1,))) < 4)
        or not any(op.attrs.get("pad", (0,)))
        for op in graph.ops
        if op.kind != "const"
    )
