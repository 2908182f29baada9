"""view, permute, expand, repeat, as_strided, slice, slice_scatter and cat against PyTorch."""

import numpy as np
import pytest
import torch

from npuc.ir import DType, Quant
from tests.lowering.harness import (
    TOSA_ALL,
    TOSA_BF16,
    TOSA_FP,
    TOSA_INT,
    TOSA_INT16,
    U55,
    U85,
    check_op,
    constant,
    given,
    int16,
    ops,
    quant_for,
    refuses,
    vela,
)

R = np.random.default_rng(0)


def floats(*shape):
    return R.standard_normal(shape)


def data(dtype, *shape):
    """(tensor, options of check_op) for one element type."""
    if dtype == "int8 quantized":
        x = floats(*shape)
        q = quant_for(x)
        return given(x, quant=q), {"limits": TOSA_INT, "out_quant": q, "steps": 0}
    if dtype == "int16 quantized":
        x = floats(*shape)
        q = int16(2.0**-12)
        return given(x, quant=q), {"limits": TOSA_INT16, "out_quant": q, "steps": 0}
    if dtype.startswith("float"):
        kind, limits = {
            "float32": (DType.FP32, TOSA_FP),
            "float16": (DType.FP16, TOSA_FP),
            "float bf16": (DType.BF16, TOSA_BF16),
        }[dtype]
        return given(floats(*shape), dtype=kind), {"limits": limits}
    if dtype == "bool":
        return given(R.random(shape) > 0.5), {"limits": TOSA_FP}
    limits = TOSA_FP if dtype.endswith("fp") else TOSA_INT
    info = np.iinfo(dtype.split()[0])
    limits = TOSA_INT16 if dtype == "int16" else limits
    x = R.integers(info.min, info.max, shape, dtype=dtype.split()[0], endpoint=True)
    x.flat[0], x.flat[-1] = info.min, info.max
    return given(x), {"limits": limits}


TYPES = [
    "float32",
    "float16",
    "float bf16",
    "int8 quantized",
    "int16 quantized",
    "bool",
    "int8",
    "int16",
    "int32",
    "int8 fp",
    "int16 fp",
    "int32 fp",
]

MOVES = {
    "view": ("aten.view", ((4, 6),), lambda x: x.view(4, 6)),
    "permute": ("aten.permute", ((2, 0, 1),), lambda x: x.permute(2, 0, 1)),
    "repeat": ("aten.repeat", ((2, 1, 3),), lambda x: x.repeat(2, 1, 3)),
    "slice": ("aten.slice", (2, 1, 4, 2), lambda x: x[:, :, 1:4:2]),
    "roll": ("aten.roll", ((1, -1), (0, 2)), lambda x: x.roll((1, -1), (0, 2))),
    "flip": ("aten.flip", ((0, 2),), lambda x: x.flip((0, 2))),
    "pad": (
        "aten.pad",
        ((0, 0, 1, 2, 0, 3), "constant", 0),
        lambda x: torch.nn.functional.pad(x, (0, 3, 1, 2)),
    ),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("move", MOVES)
def test_every_element_type_moves_exactly(move, dtype):
    kind, args, fn = MOVES[move]
    x, options = data(dtype, 2, 3, 4)
    check_op(kind, (x, *args), lambda x, *_: fn(x), tolerance=1e-12, **options)


def test_int32_is_carried_exactly_through_floats():
    """PRO-FP moves no INT32: 2**24 + 1 and the ends of the range must survive."""
    x = np.array([[2**24 + 1, -(2**31), 2**31 - 1], [-1, 0, -(2**24) - 3]], np.int32)
    graph = check_op("aten.permute", (given(x), (1, 0)), lambda x, _: x.T, limits=TOSA_FP)
    assert ops(graph).count("TRANSPOSE") == 2  # a high and a low half
    graph = check_op("aten.permute", (given(x), (1, 0)), lambda x, _: x.T, limits=TOSA_INT)
    assert ops(graph) == ["TRANSPOSE"]


def test_int64_is_carried_as_int32():
    x = given(R.integers(-5, 5, (2, 3)))
    check_op("aten.permute", (x, (1, 0)), lambda x, _: x.T.int(), limits=TOSA_INT)


def test_parameters_that_differ_are_requantized_where_it_is_cheaper():
    x = floats(2, 3, 4)
    q, r = quant_for(x), Quant(0.05, 10)
    options = {"out_quant": r, "limits": TOSA_INT}
    graph = check_op(
        "aten.slice", (given(x, quant=q), 2, 0, 1, 1), lambda x, *_: x[:, :, :1], **options
    )
    assert ops(graph)[0] == "SLICE", "the smaller side is requantized"
    graph = check_op(
        "aten.repeat", (given(x, quant=q), (3, 1, 1)), lambda x, r: x.repeat(*r), **options
    )
    assert ops(graph)[-1] == "TILE"


def test_narrower_range_of_codes_is_clamped():
    x = floats(3, 4)
    q = Quant(0.02, 0)
    narrow = Quant(0.02, 0, None, -100, 100)
    check_op(
        "aten.view",
        (given(x, quant=q), (12,)),
        lambda x, s: x.view(s),
        out_quant=narrow,
        limits=TOSA_INT,
        steps=0,
    )


def test_view_does_nothing_when_the_shape_stays():
    assert ops(check_op("aten.view", (given(floats(2, 3)), (2, 3)), lambda x, s: x)) == []


def test_view_from_and_to_scalars():
    check_op("aten.view", (given(floats(1, 1)), ()), lambda x, s: x.view(s))
    check_op("aten.view", (given(floats()), (1, 1, 1)), lambda x, s: x.view(s))


def test_rank_above_six_is_refused_with_the_number():
    shape = (1, 2, 1, 2, 1, 2, 1)
    refuses("aten.view", (given(floats(8)), shape), lambda x, s: x.view(s), "rank 7 exceeds 6")


def test_permute_on_u55_merges_axes_that_stay_together():
    x = given(R.integers(0, 9, (2, 3, 4, 5, 6)).astype(np.int32))
    dims = (2, 3, 4, 0, 1)
    graph = check_op("aten.permute", (x, dims), lambda x, d: x.permute(d), limits=U55)
    vela(graph)
    x = given(R.integers(0, 9, (40, 60, 8)).astype(np.int32))
    graph = check_op("aten.permute", (x, (2, 1, 0)), lambda x, d: x.permute(d), limits=U55)
    vela(graph)


def test_transposition_beyond_the_chip_is_refused():
    x = given(np.zeros((70000, 3)), quant=Quant(0.1, 0))
    refuses(
        "aten.permute",
        (x, (1, 0)),
        lambda x, d: x.T,
        "has an axis above 65536",
        out_quant=Quant(0.1, 0),
        limits=U55,
    )


@pytest.mark.parametrize("sizes", [(3, 4), (5, 3, 4), (2, 5, 3, 4)])
def test_expand(sizes):
    x = given(floats(3, 1))
    graph = check_op("aten.expand", (x, sizes), lambda x, s: x.expand(s))
    assert ops(graph).count("TILE") == 1


def test_expand_that_adds_dimensions_only_is_a_reshape():
    graph = check_op("aten.expand", (given(floats(3, 4)), (1, 1, 3, 4)), lambda x, s: x.expand(s))
    assert ops(graph) == ["RESHAPE"]


STRIDED = [
    ((6, 5), (3, 4), (5, 1), 6),
    ((24,), (4, 3), (1, 4), 0),
    ((24,), (5, 4), (1, 1), 2),
    ((4, 6), (2, 3), (12, 2), 0),
    ((24,), (2, 3, 4), (12, 4, 1), 0),
    ((4, 6), (3, 4), (6, 1), 7),
    ((24,), (3, 2, 2), (0, 2, 1), 4),
    ((24,), (7,), (3,), 1),
    ((24,), (6, 9), (3, 1), 0),
]


@pytest.mark.parametrize("shape, size, stride, offset", STRIDED)
def test_as_strided(shape, size, stride, offset):
    x = floats(*shape)
    args = (given(x), size, stride, offset)
    check_op("aten.as_strided", args, lambda x, *a: x.as_strided(*a))


SLICES = [
    (2, 0, 4, 1),
    (2, 1, 3, 1),
    (2, 0, 9, 2),
    (2, 1, 9, 2),
    (2, 0, 9, 3),
    (2, 2, 9, 4),
    (2, 1, 9, 5),
    (2, 0, 9, 6),
    (1, 1, 5, 3),
    (0, 0, 2, 1),
    (3, 0, 8, 2),
    (3, 1, 7, 7),
    (2, 0, 9, 8),
]


@pytest.mark.parametrize("dim, start, end, step", SLICES)
@pytest.mark.parametrize("limits", [TOSA_FP, TOSA_INT, U55, U85], ids=lambda t: t.name)
def test_slice(limits, dim, start, end, step):
    x = floats(2, 5, 9, 8)
    q = quant_for(x) if limits is not TOSA_FP else None
    window = (slice(None),) * dim + (slice(start, end, step),)
    graph = check_op(
        "aten.slice",
        (given(x, quant=q), dim, start, end, step),
        lambda x, *_: x[window],
        out_quant=q,
        limits=limits,
        steps=0,
    )
    assert ops(graph).count("GATHER") == 0
    if limits is U55:
        vela(graph)


def test_whole_slice_is_nothing():
    x = given(floats(2, 3))
    assert ops(check_op("aten.slice", (x, 1, 0, 3, 1), lambda x, *_: x)) == []


SCATTERS = [
    (1, 0, 8, 2),
    (1, 1, 8, 2),
    (1, 1, 9, 3),
    (1, 2, 3, 1),
    (0, 1, 3, 1),
    (1, 0, 9, 8),
    (1, 1, 7, 5),
]


@pytest.mark.parametrize("dim, start, end, step", SCATTERS)
def test_slice_scatter(dim, start, end, step):
    x = floats(3, 9)
    window = (slice(None),) * dim + (slice(start, end, step),)
    src = floats(*x[window].shape)

    def fn(x, src, *_):
        return torch.slice_scatter(x, src, dim, start, end, step)

    check_op("aten.slice_scatter", (given(x), given(src), dim, start, end, step), fn)
    q = Quant(0.05, 3)
    check_op(
        "aten.slice_scatter",
        (given(x, quant=q), given(src, quant=q), dim, start, end, step),
        fn,
        out_quant=q,
        limits=U55,
        steps=0,
    )


def test_cat():
    parts = [given(floats(2, n, 3)) for n in (1, 4, 2)]
    graph = check_op("aten.cat", (parts, 1), torch.cat)
    assert ops(graph) == ["CONCAT"]


def test_cat_requantizes_only_the_operands_that_differ():
    q, r = Quant(0.02, 0), Quant(0.05, 4)
    x, y, z = floats(2, 3), floats(2, 3), floats(2, 3)
    parts = [given(x, quant=q), given(y, quant=r), given(z, quant=q)]
    graph = check_op("aten.cat", (parts, 0), torch.cat, out_quant=q, limits=TOSA_INT, wrong=0.4)
    assert len(ops(graph)) == 2


def test_cat_joins_constants_at_once():
    q = Quant(0.02, 0)
    parts = [
        constant(floats(2, 3), quant=q),
        constant(floats(1, 3), quant=Quant(0.01, 5)),
        given(floats(2, 3), quant=q),
    ]
    graph = check_op("aten.cat", (parts, 0), torch.cat, out_quant=q, limits=TOSA_INT)
    assert ops(graph) == ["CONCAT"] and len(graph.ops) == 2
    graph = check_op("aten.cat", (parts[:2], 0), torch.cat, out_quant=q, limits=TOSA_INT)
    assert ops(graph) == []


def test_cat_of_int16_goes_through_int32_without_ext_int16():
    q = int16(1e-4)
    parts = [given(floats(2, 3), quant=q), constant(floats(1, 3), quant=q)]
    graph = check_op("aten.cat", (parts, 0), torch.cat, out_quant=q, limits=TOSA_INT, steps=0)
    assert ops(graph) == ["CAST", "CONCAT", "CAST"]
    graph = check_op("aten.cat", (parts, 0), torch.cat, out_quant=q, limits=TOSA_INT16, steps=0)
    assert ops(graph) == ["CONCAT"]


def test_cat_of_more_than_the_level_allows_is_nested():
    parts = [given(floats(1, 2)) for _ in range(70)]
    graph = check_op("aten.cat", (parts, 0), torch.cat)
    assert ops(graph) == ["CONCAT"] * 3


def test_cat_of_int32_and_bool_without_an_integer_profile():
    parts = [given(R.integers(-(2**31), 2**31 - 1, (2, 3)).astype(np.int32)) for _ in range(2)]
    check_op("aten.cat", (parts, 1), torch.cat, limits=TOSA_FP)
    parts = [given(R.random((2, 3)) > 0.5) for _ in range(2)]
    assert ops(check_op("aten.cat", (parts, 1), torch.cat, limits=TOSA_FP)) == ["CONCAT"]


def test_symbolic_dimension_is_refused_with_its_name():
    from npuc.errors import Unsupported
    from npuc.ir import Builder, SymDim, TensorType, pack
    from npuc.lowering.lower import lower

    b = Builder()
    x = b.input(TensorType(DType.FP32, (SymDim("batch"), 4)), "x")
    operands, attrs = pack((x, (4,)), {})
    values = b.emit("aten.view", operands, attrs, [TensorType(DType.FP32, (4,))])
    result = lower(b.finish(values), TOSA_ALL, ())
    assert "batch" in str(Unsupported(result.reasons))
