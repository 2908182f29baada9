"""index_put, index_copy, index_add and scatter against PyTorch."""

import numpy as np
import pytest
import torch

from npuc.ir import Quant
from tests.lowering.harness import (
    TOSA_FP,
    TOSA_INT,
    U55,
    U85,
    check_op,
    constant,
    given,
    quant_for,
    refuses,
    vela,
)

R = np.random.default_rng(0)


def floats(*shape):
    return R.standard_normal(shape)


CHIPS = [TOSA_INT, U85, U55]


def put(x, indices, values, accumulate):
    places = [
        slice(None) if i is None else (i.long() if i.dtype != torch.bool else i) for i in indices
    ]
    y = x.clone()
    if accumulate:
        full = [
            torch.arange(n) if isinstance(p, slice) else p
            for p, n in zip(places, x.shape, strict=False)
        ]
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


@pytest.mark.parametrize("const", [True, False])
@pytest.mark.parametrize("limits", [TOSA_FP, TOSA_INT, U85, U55], ids=lambda t: t.name)
def test_index_put_keeps_the_last_of_equal_indices(const, limits):
    x, values = floats(5, 3), floats(4, 3)
    q = quant_for(np.concatenate([x, values])) if limits is not TOSA_FP else None
    place = constant if const else given
    args = (given(x, quant=q), [place(np.array([2, 1, 2, -3]))], given(values, quant=q), False)
    graph = check_op("aten.index_put", args, put, out_quant=q, limits=limits, steps=0)
    if limits in (U85, U55):
        vela(graph, limits.name)


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
    behind = (given(floats(2, 4, 3)), [None, mask], given(floats()), False)
    check_op("aten.index_put", behind, put)
    q = Quant(0.05, 1)
    args = (given(floats(4, 3), quant=q), [mask], constant(np.array(0.5), quant=q), False)
    vela(check_op("aten.index_put", args, put, out_quant=q, limits=U85, steps=0), U85.name)
    refuses(
        "aten.index_put",
        (given(floats(2, 1)), [given(np.ones((2, 1), bool))], given(floats(2)), False),
        put,
        "how many are used depends on the data",
    )


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
    graph = check_op(
        kind, args, lambda x, d, i, s: fn(x, d, i.long(), s), out_quant=q, limits=U55, steps=0
    )
    vela(graph)
