"""embedding, index_select, gather, index.Tensor and the ops that write at indices, against PyTorch."""

import numpy as np
import pytest
import torch

from npuc.ir import DType, Quant
from tests.lowering.harness import (
    TOSA_BF16,
    TOSA_FP,
    TOSA_INT,
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
    weight_quant,
)

R = np.random.default_rng(0)


def floats(*shape):
    return R.standard_normal(shape)


def ids(size, *shape, low=0, dtype=np.int64):
    return R.integers(low, size, shape).astype(dtype)


CHIPS = [TOSA_INT, U85, U55]


def on_all(kind, x, rest, fn, chips=CHIPS, limits=TOSA_FP):
    """Float on TOSA and int8 on the chips; Vela compiles what it gets. `rest(x)` gives the arguments."""
    graph = check_op(kind, rest(given(x)), fn, limits=limits)
    q = quant_for(x)
    for chip in chips:
        int8 = check_op(kind, rest(given(x, quant=q)), fn, out_quant=q, limits=chip, steps=0)
        if chip in (U55, U85):
            vela(int8, chip.name)
    return graph


@pytest.mark.parametrize("shape", [(5,), (1, 7), (3, 4), (2, 1, 3)])
def test_embedding(shape):
    table, index = floats(100, 6), given(ids(100, *shape))
    graph = on_all("aten.embedding", table, lambda x: (constant(table, x.type.quant), index),
                   lambda w, i: torch.nn.functional.embedding(i.long(), w))  # fmt: skip
    assert "GATHER" in ops(graph)


def test_embedding_of_another_scale_and_per_channel_table():
    table, index = floats(40, 6) * np.linspace(0.1, 1, 40)[:, None], given(ids(40, 3, 4))
    for quant in (weight_quant(table, 0), weight_quant(table, None), weight_quant(table, 0, bits=4)):
        dtype = DType.INT4 if quant.qmax == 7 else DType.INT8
        out = Quant(0.03, 7)
        for chip in CHIPS:
            graph = check_op("aten.embedding", (constant(table, quant, dtype), index),
                             lambda w, i: torch.nn.functional.embedding(i.long(), w), out_quant=out,
                             limits=chip)  # fmt: skip
            if chip is not U55:
                assert "RESCALE" not in ops(graph), "the table is requantized at compile time"


def test_embedding_with_constant_ids_is_slices():
    table = floats(20, 3)
    args = (given(table), constant(np.array([[0, 1, 2], [7, 7, 19]])))
    graph = check_op("aten.embedding", args, lambda w, i: torch.nn.functional.embedding(i, w))
    assert "GATHER" not in ops(graph)


@pytest.mark.parametrize("words", [256, 257, 8000, 40000])
def test_embedding_of_many_words_on_u55(words):
    table = floats(words, 4)
    q = quant_for(table)
    index = np.array([[0, 1, 63, 64, 65, 127, 128, 255, 256, 4095, 8191, 16383, 16384, 32768, 39999]])
    index = given(np.append(index[index < words], words - 1).reshape(1, -1))
    graph = check_op("aten.embedding", (constant(table, q), index),
                     lambda w, i: torch.nn.functional.embedding(i.long(), w), out_quant=q, limits=U55,
                     steps=0)  # fmt: skip
    assert words <= 256 or sorted(set(ops(graph))) == ["ADD", "CONCAT", "CONV2D", "MUL", "RESCALE", "RESHAPE", "SUB", "TABLE"]
    vela(graph)


@pytest.mark.parametrize("dim", [0, 1, 2, 3])
@pytest.mark.parametrize("const", [True, False])
def test_index_select(dim, const):
    x = floats(2, 3, 9, 5)
    index = ids(x.shape[dim], 6)
    place = constant if const else given
    on_all("aten.index_select", x, lambda x: (x, dim, place(index)),
           lambda x, d, i: torch.index_select(x, d, i.long()))  # fmt: skip


def test_long_constant_index_is_one_gather_where_the_target_has_it():
    x, index = floats(50, 4), R.permutation(50)
    q = quant_for(x)
    args, fn = (given(x, quant=q), 0, constant(index)), lambda x, d, i: x[i]
    assert ops(check_op("aten.index_select", args, fn, out_quant=q, limits=TOSA_INT)) .count("GATHER") == 1
    graph = check_op("aten.index_select", args, fn, out_quant=q, limits=U55)
    assert "GATHER" not in ops(graph)
    vela(graph)


@pytest.mark.parametrize("dtype, limits", [
    (np.int32, TOSA_FP), (np.int32, TOSA_INT), (np.int8, TOSA_FP), (np.int16, TOSA_INT), (bool, TOSA_FP),
    (bool, TOSA_INT), (bool, U85),
], ids=str)  # fmt: skip
def test_look_ups_in_integers_and_booleans(dtype, limits):
    x = R.integers(-(2**31), 2**31 - 1, (12, 3)).astype(dtype)
    x = x if dtype is not bool else R.random((12, 3)) > 0.5
    graph = check_op("aten.index_select", (given(x), 0, given(ids(12, 5))),
                     lambda x, d, i: torch.index_select(x, d, i.long()), limits=limits)  # fmt: skip
    if limits is U85:
        vela(graph, U85.name)


def test_look_up_in_bf16_and_fp16():
    fn = lambda x, d, i: torch.index_select(x, d, i.long())  # noqa: E731
    for dtype, limits in ((DType.BF16, TOSA_BF16), (DType.FP16, TOSA_FP)):
        check_op("aten.index_select", (given(floats(9, 3), dtype=dtype), 0, given(ids(9, 4))), fn,
                 limits=limits, tolerance=1e-12)  # fmt: skip


GATHERS = [((7,), 0, (4,)), ((3, 8), 1, (3, 5)), ((3, 8), 0, (2, 8)), ((2, 6, 4), 1, (2, 9, 4)), ((2, 6, 4), 1, (1, 9, 3)), ((2, 3, 4, 5), 2, (2, 3, 7, 5))]


@pytest.mark.parametrize("shape, dim, picks", GATHERS)
@pytest.mark.parametrize("const", [True, False])
def test_gather(shape, dim, picks, const):
    index = ids(shape[dim], *picks)
    place = constant if const else given
    on_all("aten.gather", floats(*shape), lambda x: (x, dim, place(index)),
           lambda x, d, i: torch.gather(x, d, i.long()))  # fmt: skip


def test_gather_by_an_index_repeated_over_channels_takes_whole_rows():
    index = np.broadcast_to(ids(6, 2, 9, 1), (2, 9, 4))
    graph = check_op("aten.gather", (given(floats(2, 6, 4)), 1, constant(index.copy())),
                     lambda x, d, i: torch.gather(x, d, i))  # fmt: skip
    (gather,) = [op for op in graph.ops if op.name == "GATHER"]
    assert gather.operands[0].type.shape == (2, 6, 4)


INDICES = {
    "two together": lambda: [None, ids(3, 5), ids(4, 5)],
    "two apart": lambda: [ids(2, 5), None, ids(4, 5)],
    "broadcast": lambda: [ids(2, 4, 1), ids(3, 1, 5)],
    "negative": lambda: [ids(2, 6, low=-2), ids(3, 6, low=-3)],
    "all": lambda: [ids(2, 6), ids(3, 6), ids(4, 6), ids(5, 6)],
    "one of rank 2": lambda: [None, None, ids(4, 2, 3, low=-4)],
}


@pytest.mark.parametrize("form", INDICES)
@pytest.mark.parametrize("const", ["constant", "run time", "mixed"])
def test_index_tensor(form, const):
    x, indices = floats(2, 3, 4, 5), INDICES[form]()

    def rest(x):
        given_ = [i for i in indices if i is not None]
        fixed = {"constant": [True] * 9, "run time": [False] * 9, "mixed": [True, False, True, False]}[const]
        placed = iter([constant(i) if c else given(i) for i, c in zip(given_, fixed, strict=False)])
        return x, [None if i is None else next(placed) for i in indices]

    def fn(x, indices):
        return x[tuple(slice(None) if i is None else i.long() for i in indices)]

    on_all("aten.index.Tensor", x, rest, fn)


def test_negative_index_without_an_integer_profile():
    index = np.array([-1, 0, 4, -5, 2], np.int32)
    graph = check_op("aten.index_select", (given(floats(5, 3)), 0, given(index)),
                     lambda x, d, i: x[i.long()], limits=TOSA_FP)  # fmt: skip
    assert "INTDIV" in ops(graph)
    graph = check_op("aten.index_select", (given(floats(5, 3)), 0, constant(index)), lambda x, d, i: x[i.long()])
    assert "INTDIV" not in ops(graph)


def test_boolean_index_is_refused_with_its_reason():
    mask = given(R.random(5) > 0.5)
    refuses("aten.index.Tensor", (given(floats(5, 3)), [mask]), lambda x, i: x[i[0]],
            "the size of the result depends on the data")  # fmt: skip


def test_index_out_of_range_is_refused_with_its_values():
    refuses("aten.index_select", (given(floats(5, 3)), 0, constant(np.array([1, 7]))),
            lambda x, d, i: x[:2], "index 1..7 is outside 0..4")  # fmt: skip


def test_look_up_of_16_bits_on_u55_is_refused():
    q = int16(0.01)
    refuses("aten.index_select", (given(floats(5, 3), quant=q), 0, given(ids(5, 2))),
            lambda x, d, i: x[i.long()], "has no GATHER", out_quant=q, limits=U55)  # fmt: skip


# -- writing --------------------------------------------------------------------------------------


def put(x, indices, values, accumulate):
    places = [slice(None) if i is None else (i.long() if i.dtype != torch.bool else i) for i in indices]
    y = x.clone()
    if accumulate:
        full = [torch.arange(n) if isinstance(p, slice) else p for p, n in zip(places, x.shape, strict=False)]
        if any(isinstance(p, slice) for p in places):
            return _added(x, places, values)
        return y.index_put_(tuple(full), values, accumulate=True)
    y[tuple(places)] = values
    return y


def _added(x, places, values):
    """index_put with accumulate and whole dimensions: one by one."""
    numbers = torch.arange(x.numel()).reshape(x.shape)[tuple(places)]
    flat = x.clone().reshape(-1)
    flat.index_add_(0, numbers.reshape(-1), values.broadcast_to(numbers.shape).reshape(-1))
    return flat.reshape(x.shape)


PUTS = {
    "a row": ([np.array([1])], (1, 3)),
    "rows": ([np.array([3, 0, 1])], (3, 3)),
    "one value": ([np.array([3, 0, -1])], (1,)),
    "cache": ([None, np.array([2])], (5, 1)),
    "elements": ([np.array([0, 4, 2]), np.array([1, -1, 0])], (3,)),
    "scattered": ([None, np.array([2, 0])], (5, 2)),
}


@pytest.mark.parametrize("form", PUTS)
@pytest.mark.parametrize("const", [True, False])
@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(form, const, accumulate):
    indices, shape = PUTS[form]
    x, values = floats(5, 3), floats(*shape)
    place = constant if const else given
    places = [None if i is None else place(i) for i in indices]
    args = (given(x), places, given(values), accumulate)
    check_op("aten.index_put", args, put, limits=TOSA_FP)
    q = quant_for(np.concatenate([x.ravel(), values.ravel()]) * 2)
    for chip in CHIPS:
        args = (given(x, quant=q), places, given(values, quant=q), accumulate)
        graph = check_op("aten.index_put", args, put, out_quant=q, limits=chip, steps=0)
        if chip in (U55, U85):
            vela(graph, chip.name)


def test_index_put_keeps_the_last_of_equal_constant_indices():
    args = (given(floats(5, 3)), [constant(np.array([2, 1, 2]))], given(floats(3, 3)), False)
    check_op("aten.index_put", args, put)


@pytest.mark.parametrize("const", [True, False])
def test_index_put_adds_up_equal_indices(const):
    place = constant if const else given
    index = np.array([2, 1, 2, 2, 0])
    args = (given(floats(6, 3)), [place(index)], given(floats(5, 3)), True)
    check_op("aten.index_put", args, put)
    x, v = R.integers(-9, 9, (6, 3)).astype(np.int32), R.integers(-9, 9, (5, 3)).astype(np.int32)
    check_op("aten.index_put", (given(x), [place(index)], given(v), True), put, limits=TOSA_INT)


def test_index_put_by_a_mask():
    mask = given(R.random((4, 3)) > 0.5)
    check_op("aten.index_put", (given(floats(4, 3)), [mask], given(floats()), False), put)
    check_op("aten.index_put", (given(floats(4, 3, 2)), [mask], given(floats(2)), False), put)
    q = Quant(0.05, 1)
    args = (given(floats(4, 3), quant=q), [mask], constant(np.array(0.5), quant=q), False)
    vela(check_op("aten.index_put", args, put, out_quant=q, limits=U85, steps=0), U85.name)
    refuses("aten.index_put", (given(floats(2, 1)), [given(np.ones((2, 1), bool))], given(floats(2)), False),
            put, "how many are used depends on the data")  # fmt: skip


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("const", [True, False])
@pytest.mark.parametrize("kind", ["aten.index_copy", "aten.index_add"])
def test_index_copy_and_add(kind, dim, const):
    x = floats(4, 5, 6)
    index = R.permutation(x.shape[dim])[:3]
    src = floats(*x.shape[:dim], 3, *x.shape[dim + 1 :])
    place = constant if const else given
    name = kind.split(".")[1]

    def fn(x, d, i, s, *_):
        return getattr(torch, name)(x, d, i.long(), s)

    rest = (1,) if name == "index_add" else ()
    check_op(kind, (given(x), dim, place(index), given(src), *rest), fn)


@pytest.mark.parametrize("const", [True, False])
@pytest.mark.parametrize("kind", ["aten.scatter.src", "aten.scatter_add"])
@pytest.mark.parametrize("dim, picks", [(0, (3, 4)), (1, (5, 2)), (1, (4, 3))])
def test_scatter(kind, dim, picks, const):
    x, src = floats(5, 4), floats(5, 4)
    index = np.argsort(R.random((5, 4)), dim)[: picks[0], : picks[1]]
    place = constant if const else given
    fn = torch.scatter if kind == "aten.scatter.src" else torch.scatter_add
    args = (given(x), dim, place(index), given(src))
    check_op(kind, args, lambda x, d, i, s: fn(x, d, i.long(), s))
    q = quant_for(np.concatenate([x, src]) * 2)
    args = (given(x, quant=q), dim, place(index), given(src, quant=q))
    graph = check_op(kind, args, lambda x, d, i, s: fn(x, d, i.long(), s), out_quant=q, limits=U55, steps=0)
    vela(graph)
