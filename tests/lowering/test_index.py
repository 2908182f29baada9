"""embedding, index_select, gather and index.Tensor against PyTorch."""

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
    label,
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
    """Float on TOSA and int8 on the chips; Vela compiles it. `rest(x)` gives the arguments."""
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
    graph = on_all(
        "aten.embedding",
        table,
        lambda x: (constant(table, x.type.quant), index),
        lambda w, i: torch.nn.functional.embedding(i.long(), w),
    )
    assert "GATHER" in ops(graph)


def test_embedding_of_another_scale_and_per_channel_table():
    table, index = floats(40, 6) * np.linspace(0.1, 1, 40)[:, None], given(ids(40, 3, 4))
    for quant in (
        weight_quant(table, 0),
        weight_quant(table, None),
        weight_quant(table, 0, bits=4),
    ):
        dtype = DType.INT4 if quant.qmax == 7 else DType.INT8
        out = Quant(0.03, 7)
        for chip in CHIPS:
            graph = check_op(
                "aten.embedding",
                (constant(table, quant, dtype), index),
                lambda w, i: torch.nn.functional.embedding(i.long(), w),
                out_quant=out,
                limits=chip,
            )
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
    index = np.array(
        [[0, 1, 63, 64, 65, 127, 128, 255, 256, 4095, 8191, 16383, 16384, 32768, 39999]]
    )
    index = given(np.append(index[index < words], words - 1).reshape(1, -1))
    graph = check_op(
        "aten.embedding",
        (constant(table, q), index),
        lambda w, i: torch.nn.functional.embedding(i.long(), w),
        out_quant=q,
        limits=U55,
        steps=0,
    )
    assert words <= 256 or sorted(set(ops(graph))) == [
        "ADD",
        "CONCAT",
        "CONV2D",
        "MUL",
        "RESCALE",
        "RESHAPE",
        "SUB",
        "TABLE",
    ]
    vela(graph)


@pytest.mark.parametrize("dim", [0, 1, 2, 3])
@pytest.mark.parametrize("const", [True, False])
def test_index_select(dim, const):
    x = floats(2, 3, 9, 5)
    index = ids(x.shape[dim], 6)
    place = constant if const else given
    on_all(
        "aten.index_select",
        x,
        lambda x: (x, dim, place(index)),
        lambda x, d, i: torch.index_select(x, d, i.long()),
    )


def test_long_constant_index_is_one_gather_where_the_target_has_it():
    x, index = floats(50, 4), R.permutation(50)
    q = quant_for(x)
    args, fn = (given(x, quant=q), 0, constant(index)), lambda x, d, i: x[i]
    assert (
        ops(check_op("aten.index_select", args, fn, out_quant=q, limits=TOSA_INT)).count("GATHER")
        == 1
    )
    graph = check_op("aten.index_select", args, fn, out_quant=q, limits=U55)
    assert "GATHER" not in ops(graph)
    vela(graph)


@pytest.mark.parametrize(
    "dtype, limits",
    [
        (np.int32, TOSA_FP),
        (np.int32, TOSA_INT),
        (np.int8, TOSA_FP),
        (np.int16, TOSA_INT),
        (bool, TOSA_FP),
        (bool, TOSA_INT),
        (bool, U85),
    ],
    ids=label,
)
def test_look_ups_in_integers_and_booleans(dtype, limits):
    x = R.integers(-(2**31), 2**31 - 1, (12, 3)).astype(dtype)
    x = x if dtype is not bool else R.random((12, 3)) > 0.5
    graph = check_op(
        "aten.index_select",
        (given(x), 0, given(ids(12, 5))),
        lambda x, d, i: torch.index_select(x, d, i.long()),
        limits=limits,
    )
    if limits is U85:
        vela(graph, U85.name)


def test_look_up_in_bf16_and_fp16():
    fn = lambda x, d, i: torch.index_select(x, d, i.long())  # noqa: E731
    for dtype, limits in ((DType.BF16, TOSA_BF16), (DType.FP16, TOSA_FP)):
        check_op(
            "aten.index_select",
            (given(floats(9, 3), dtype=dtype), 0, given(ids(9, 4))),
            fn,
            limits=limits,
            tolerance=1e-12,
        )


GATHERS = [
    ((7,), 0, (4,)),
    ((3, 8), 1, (3, 5)),
    ((3, 8), 0, (2, 8)),
    ((2, 6, 4), 1, (2, 9, 4)),
    ((2, 6, 4), 1, (1, 9, 3)),
    ((2, 3, 4, 5), 2, (2, 3, 7, 5)),
]


@pytest.mark.parametrize("shape, dim, picks", GATHERS)
@pytest.mark.parametrize("const", [True, False])
def test_gather(shape, dim, picks, const):
    index = ids(shape[dim], *picks)
    place = constant if const else given
    on_all(
        "aten.gather",
        floats(*shape),
        lambda x: (x, dim, place(index)),
        lambda x, d, i: torch.gather(x, d, i.long()),
    )


def test_gather_by_an_index_repeated_over_channels_takes_whole_rows():
    index = np.broadcast_to(ids(6, 2, 9, 1), (2, 9, 4))
    graph = check_op(
        "aten.gather",
        (given(floats(2, 6, 4)), 1, constant(index.copy())),
        lambda x, d, i: torch.gather(x, d, i),
    )
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
        fixed = {
            "constant": [True] * 9,
            "run time": [False] * 9,
            "mixed": [True, False, True, False],
        }[const]
        placed = iter([constant(i) if c else given(i) for i, c in zip(given_, fixed, strict=False)])
        return x, [None if i is None else next(placed) for i in indices]

    def fn(x, indices):
        return x[tuple(slice(None) if i is None else i.long() for i in indices)]

    on_all("aten.index.Tensor", x, rest, fn)


def test_negative_index_without_an_integer_profile():
    index = np.array([-1, 0, 4, -5, 2], np.int32)
    graph = check_op(
        "aten.index_select",
        (given(floats(5, 3)), 0, given(index)),
        lambda x, d, i: x[i.long()],
        limits=TOSA_FP,
    )
    assert "INTDIV" in ops(graph)
    graph = check_op(
        "aten.index_select", (given(floats(5, 3)), 0, constant(index)), lambda x, d, i: x[i.long()]
    )
    assert "INTDIV" not in ops(graph)


def test_boolean_index_is_refused_with_its_reason():
    mask = given(R.random(5) > 0.5)
    refuses(
        "aten.index.Tensor",
        (given(floats(5, 3)), [mask]),
        lambda x, i: x[i[0]],
        "the size of the result depends on the data",
    )


def test_index_out_of_range_is_refused_with_its_values():
    refuses(
        "aten.index_select",
        (given(floats(5, 3)), 0, constant(np.array([1, 7]))),
        lambda x, d, i: x[:2],
        "index 1..7 is outside 0..4",
    )


def test_look_up_of_16_bits_on_u55_is_refused():
    q = int16(0.01)
    refuses(
        "aten.index_select",
        (given(floats(5, 3), quant=q), 0, given(ids(5, 2))),
        lambda x, d, i: x[i.long()],
        "has no GATHER",
        out_quant=q,
        limits=U55,
    )
