"""pad, flip, roll, pixel_shuffle, unfold and im2col against PyTorch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from npuc.ir import Quant
from tests.lowering.harness import (
    TOSA_FP,
    TOSA_INT,
    U55,
    U85,
    check_op,
    given,
    ops,
    quant_for,
    refuses,
    vela,
)

R = np.random.default_rng(0)


def floats(*shape):
    return R.standard_normal(shape)


def both(kind, x, args, fn, limits=TOSA_INT, **options):
    """Float on TOSA, int8 on `limits`; the graph of the latter, compiled by Vela for a chip."""
    check_op(kind, (given(x), *args), fn, tolerance=1e-12, **options)
    q = quant_for(x)
    graph = check_op(
        kind, (given(x, quant=q), *args), fn, out_quant=q, limits=limits, steps=0, **options
    )
    if limits.name.startswith("ethos"):
        vela(graph, limits.name)
    return graph


def torch_pads(pads):
    """(before, after) of every dimension -> torch's order, last dimension first."""
    pairs = list(zip(pads[::2], pads[1::2], strict=True))[::-1]
    return [n for pair in pairs for n in pair]


PADS = [
    (0, 0, 0, 0, 1, 1, 2, 2),
    (0, 0, 0, 0, 0, 3, 0, 0),
    (0, 0, 0, 0, 2, 1, 3, 0),
    (0, 0, 0, 0, 1, 0, 1, 0),
]


@pytest.mark.parametrize("limits", [TOSA_INT, U55, U85], ids=lambda t: t.name)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("pads", PADS, ids=str)
def test_pad_by_data(mode, pads, limits):
    x = floats(1, 3, 5, 6)
    graph = both(
        "aten.pad",
        x,
        (pads, mode, None),
        lambda x, *_: F.pad(x, torch_pads(pads)[:4], mode),
        limits,
    )
    assert ops(graph).count("SLICE") <= 4 and ops(graph).count("CONCAT") <= 2


def test_reflect_pad_is_not_one_slice_per_sample():
    x = given(floats(1, 1, 1, 400))
    pads = (0, 0, 0, 0, 0, 0, 100, 100)
    graph = check_op(
        "aten.pad", (x, pads, "reflect", None), lambda x, *_: F.pad(x, (100, 100, 0, 0), "reflect")
    )
    assert sorted(ops(graph)) == ["CONCAT", "REVERSE", "REVERSE", "SLICE", "SLICE"]


@pytest.mark.parametrize("value", [0, 1.5, -2.0, 100.0, float("-inf")])
def test_pad_by_a_constant(value):
    pads = (0, 0, 1, 0, 2, 3)
    both(
        "aten.pad",
        floats(2, 3, 4),
        (pads, "constant", value),
        lambda x, *_: F.pad(x, torch_pads(pads), "constant", value),
    )


def test_pad_of_bool_and_integers():
    def fn(x, *_):
        return F.pad(x, (1, 0, 0, 2), "constant", 1)

    args = ((0, 2, 1, 0), "constant", 1)
    check_op("aten.pad", (given(R.random((2, 3)) > 0.5), *args), fn, limits=TOSA_FP)
    check_op(
        "aten.pad", (given(R.integers(-(2**31), 2**31 - 1, (2, 3)).astype(np.int32)), *args), fn
    )


def test_pad_by_code_zero_on_ethos_u_is_no_pad_operator():
    """Vela would fuse it into a convolution behind and pad with the zero point."""
    q = Quant(0.1, -20)
    args = (given(floats(1, 2, 4, 4), quant=q), (0, 0, 0, 0, 1, 1, 0, 1), "constant", 2.0)

    def fn(x, *_):
        return F.pad(x, (0, 1, 1, 1), "constant", 2.0)

    for limits in (U55, U85):
        graph = check_op("aten.pad", args, fn, out_quant=q, limits=limits, steps=0)
        assert "PAD" not in ops(graph)
        vela(graph, limits.name)
    assert ops(check_op("aten.pad", args, fn, out_quant=q, limits=TOSA_INT, steps=0)) == ["PAD"]


@pytest.mark.parametrize("limits", [TOSA_INT, U55, U85], ids=lambda t: t.name)
@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (3,), (2, 3), (0, 1, 2, 3)])
def test_flip(dims, limits):
    both("aten.flip", floats(2, 3, 4, 5), (dims,), lambda x, d: x.flip(d), limits)


@pytest.mark.parametrize("shape, dims", [((7,), (0,)), ((3, 7), (1,)), ((2, 3, 2, 3, 4), (4,))])
def test_flip_of_the_last_axis_on_u55(shape, dims):
    both("aten.flip", floats(*shape), (dims,), lambda x, d: x.flip(d), U55)


@pytest.mark.parametrize(
    "shifts, dims", [((1,), (0,)), ((-2,), (2,)), ((3, -1), (1, 2)), ((5,), ()), ((0,), (0,))]
)
def test_roll(shifts, dims):
    graph = both("aten.roll", floats(2, 3, 4), (shifts, dims), lambda x, s, d: x.roll(s, d), U55)
    assert set(ops(graph)) <= {"SLICE", "CONCAT", "RESHAPE", "REVERSE"}


@pytest.mark.parametrize("limits", [TOSA_INT, U55, U85], ids=lambda t: t.name)
@pytest.mark.parametrize("batch, channels, r", [(1, 1, 2), (1, 3, 2), (2, 4, 3), (1, 2, 4)])
def test_pixel_shuffle_and_back(batch, channels, r, limits):
    x = floats(batch, channels * r * r, 3, 5)
    graph = both("aten.pixel_shuffle", x, (r,), F.pixel_shuffle, limits)
    assert all(len(op.attrs["perms"]) == 4 for op in graph.ops if op.name == "TRANSPOSE")
    both(
        "aten.pixel_unshuffle",
        floats(batch, channels, 3 * r, 2 * r),
        (r,),
        F.pixel_unshuffle,
        limits,
    )


UNFOLDS = [
    (1, 2, 2),
    (1, 3, 1),
    (2, 3, 2),
    (1, 9, 1),
    (2, 2, 5),
    (0, 1, 1),
    (1, 4, 3),
    (2, 12, 1),
    (1, 10, 10),
]


@pytest.mark.parametrize("limits", [TOSA_INT, U55], ids=lambda t: t.name)
@pytest.mark.parametrize("dim, size, step", UNFOLDS)
def test_unfold(dim, size, step, limits):
    both("aten.unfold", floats(2, 10, 30), (dim, size, step), lambda x, *a: x.unfold(*a), limits)


@pytest.mark.parametrize(
    "kernel, dilation, padding, stride",
    [
        ((3, 3), (1, 1), (1, 1), (1, 1)),
        ((2, 3), (1, 2), (0, 1), (2, 1)),
        ((4, 4), (1, 1), (0, 0), (4, 4)),
    ],
)
def test_im2col(kernel, dilation, padding, stride):
    args = (kernel, dilation, padding, stride)
    both("aten.im2col", floats(2, 3, 8, 12), args, lambda x, *a: F.unfold(x, *a), U55)


@pytest.mark.parametrize(
    "kernel, dilation, padding, stride",
    [
        ((3, 3), (1, 1), (1, 1), (1, 1)),
        ((2, 2), (1, 1), (0, 0), (2, 2)),
        ((2, 3), (2, 1), (0, 1), (1, 2)),
    ],
)
def test_col2im(kernel, dilation, padding, stride):
    size = (6, 8)
    blocks = F.unfold(torch.zeros(1, 2, *size), kernel, dilation, padding, stride).shape
    args = (size, kernel, dilation, padding, stride)
    x = floats(*blocks)
    check_op("aten.col2im", (given(x), *args), lambda x, *a: F.fold(x, *a))
    want = F.fold(torch.from_numpy(x), *args).numpy()
    q, r = quant_for(x), quant_for(want)
    check_op(
        "aten.col2im",
        (given(x, quant=q), *args),
        lambda x, *a: F.fold(x, *a),
        out_quant=r,
        limits=U85,
    )


def test_unknown_pad_mode_is_refused():
    refuses(
        "aten.pad",
        (given(floats(2, 3)), (1, 1, 0, 0), "mirror", None),
        lambda x, *_: F.pad(x, (0, 0, 1, 1)),
        "pad mode 'mirror' is none of constant, reflect",
    )
