"""upsample in all its modes against PyTorch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from npuc.ir import DType, Quant
from tests.lowering.harness import (
    TOSA_BF16,
    TOSA_FP,
    TOSA_INT,
    TOSA_INT16,
    U55,
    U85,
    check_op,
    given,
    int16,
    ops,
    quant_for,
    vela,
)

R = np.random.default_rng(0)


def floats(*shape):
    return R.standard_normal(shape)


def nearest(x, size, sh, sw, mode="nearest"):
    """PyTorch's own float32 index arithmetic, on numbers that float32 holds."""
    op = (
        torch.ops.aten.upsample_nearest2d
        if mode == "nearest"
        else torch.ops.aten._upsample_nearest_exact2d
    )
    index = torch.arange(x[0, 0].numel(), dtype=torch.float32).reshape(1, 1, *x.shape[2:])
    places = op.default(index, size, sh, sw).long().reshape(-1)
    return x.reshape(*x.shape[:2], -1)[:, :, places].reshape(*x.shape[:2], *size)


SIZES = [
    ((5, 7), (10, 14)),
    ((5, 7), (15, 21)),
    ((4, 4), (16, 32)),
    ((6, 8), (3, 4)),
    ((9, 9), (3, 3)),
    ((6, 8), (4, 5)),
    ((3, 5), (7, 11)),
    ((1, 9), (1, 18)),
    ((1, 1), (4, 5)),
    ((7, 3), (7, 3)),
    ((5, 6), (5, 12)),
    ((13, 17), (29, 5)),
]


@pytest.mark.parametrize("size, out", SIZES, ids=str)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("limits", [TOSA_FP, TOSA_INT, U85, U55], ids=lambda t: t.name)
def test_nearest_is_exact(size, out, mode, limits):
    kind = "aten.upsample_nearest2d" if mode == "nearest" else "aten._upsample_nearest_exact2d"
    x = floats(2, 3, *size)
    q = quant_for(x) if limits is not TOSA_FP else None
    graph = check_op(
        kind,
        (given(x, quant=q), out, None, None),
        lambda *a: nearest(*a, mode=mode),
        out_quant=q,
        limits=limits,
        steps=0,
        tolerance=1e-12,
    )
    if limits is U55:
        vela(graph)
    elif size != out and limits is not U85:
        assert "RESIZE" in ops(graph)


@pytest.mark.parametrize("scale", [1.5, 2.5, 0.7, 1 / 3, 2.0, 0.5, 1.1])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_by_a_given_scale(scale, mode):
    kind = "aten.upsample_nearest2d" if mode == "nearest" else "aten._upsample_nearest_exact2d"
    size = (11, 10)
    out = tuple(int(n * scale) for n in size)
    check_op(
        kind,
        (given(floats(1, 2, *size)), out, scale, scale),
        lambda *a: nearest(*a, mode=mode),
        tolerance=1e-12,
    )


def test_nearest_of_every_size_picks_what_pytorch_picks():
    """The float32 rounding of PyTorch's index is part of the result."""
    from npuc.lowering.aten_to_tosa.sampling import nearest_index

    for size in range(1, 41):
        x = torch.arange(size, dtype=torch.float32).reshape(1, 1, size)
        for out in range(1, 81):
            want = F.interpolate(x, size=out, mode="nearest")[0, 0].numpy()
            np.testing.assert_array_equal(nearest_index(size, out, None, exact=False), want)
            want = F.interpolate(x, size=out, mode="nearest-exact")[0, 0].numpy()
            np.testing.assert_array_equal(nearest_index(size, out, None, exact=True), want)


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_nearest_on_u55_is_one_resize(factor):
    x = floats(1, 4, 6, 5)
    q = quant_for(x)
    out = (6 * factor, 5 * factor)
    graph = check_op(
        "aten.upsample_nearest2d",
        (given(x, quant=q), out, None, None),
        nearest,
        out_quant=q,
        limits=U55,
        steps=0,
    )
    assert ops(graph) == ["TRANSPOSE", "RESIZE", "TRANSPOSE"]


def test_nearest_of_integers_booleans_and_a_volume():
    def bits(x, size, *_):
        return F.interpolate(x.float(), size=size, mode="nearest").to(x.dtype)

    args = ((4, 6), None, None)
    check_op("aten.upsample_nearest2d", (given(R.random((1, 2, 2, 3)) > 0.5), *args), bits)
    check_op(
        "aten.upsample_nearest2d",
        (given(R.integers(-99, 99, (1, 2, 2, 3)).astype(np.int32)), *args),
        bits,
    )
    q = quant_for(floats(9))
    check_op(
        "aten.upsample_nearest3d",
        (given(floats(1, 2, 2, 3, 2), quant=q), (4, 6, 3), None, None, None),
        lambda x, size, *_: F.interpolate(x, size=size, mode="nearest"),
        out_quant=q,
        limits=U55,
        steps=0,
    )


@pytest.mark.parametrize("size, out", SIZES, ids=str)
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("limits", [TOSA_FP, TOSA_INT, U85, U55], ids=lambda t: t.name)
def test_bilinear(size, out, align, limits):
    x = floats(2, 3, *size)
    q = quant_for(x) if limits is not TOSA_FP else None

    def fn(x, out, align, *_):
        return F.interpolate(x, size=out, mode="bilinear", align_corners=align)

    graph = check_op(
        "aten.upsample_bilinear2d",
        (given(x, quant=q), out, align, None, None),
        fn,
        out_quant=q,
        limits=limits,
        wrong=0.2,
    )
    assert limits is U55 or size == out or "RESIZE" in ops(graph)
    if limits in (U55, U85):
        vela(graph, limits.name)


@pytest.mark.parametrize("scale", [1.5, 2.5, 0.7, 1 / 3, 2.0, 0.5])
def test_bilinear_by_a_given_scale(scale):
    size = (11, 10)
    out = tuple(int(n * scale) for n in size)

    def fn(x, *_):
        return F.interpolate(x, scale_factor=scale, mode="bilinear", recompute_scale_factor=False)

    args = (given(floats(1, 2, *size)), out, False, scale, scale)
    assert "RESIZE" in ops(check_op("aten.upsample_bilinear2d", args, fn))


def test_bilinear_int8_is_rounded_once():
    """Only ties (1 of 16 results) may differ: RESCALE rounds them up, PyTorch to even."""
    x = floats(1, 8, 16, 16)
    q = quant_for(x)

    def fn(x, out, *_):
        return F.interpolate(x, size=out, mode="bilinear")

    for limits in (TOSA_INT, U55):
        check_op(
            "aten.upsample_bilinear2d",
            (given(x, quant=q), (32, 32), False, None, None),
            fn,
            out_quant=q,
            limits=limits,
            wrong=0.06,
        )


def test_bilinear_in_other_types():
    def fn(x, out, align, *_):
        return F.interpolate(x, size=out, mode="bilinear", align_corners=align)

    x = floats(1, 2, 5, 6)
    args = ((10, 12), False, None, None)
    check_op("aten.upsample_bilinear2d", (given(x, dtype=DType.FP16), *args), fn)
    check_op("aten.upsample_bilinear2d", (given(x, dtype=DType.BF16), *args), fn, limits=TOSA_BF16)
    q = int16(2.0**-13)
    check_op(
        "aten.upsample_bilinear2d", (given(x, quant=q), *args), fn, out_quant=q, limits=TOSA_INT16
    )
    check_op(
        "aten.upsample_bilinear2d",
        (given(x, quant=quant_for(x)), *args),
        fn,
        out_quant=Quant(0.05, 3),
        limits=TOSA_INT,
    )


def test_bilinear_beyond_the_level_is_a_product():
    """300 / 1 exceeds the largest scale of level 8K."""

    def fn(x, out, align, *_):
        return F.interpolate(x, size=out, mode="bilinear", align_corners=align)

    graph = check_op(
        "aten.upsample_bilinear2d", (given(floats(1, 2, 1, 2)), (1, 602), False, None, None), fn
    )
    assert "RESIZE" not in ops(graph)


@pytest.mark.parametrize("limits", [TOSA_INT, U55], ids=["tosa", "ethos-u55"])
def test_bilinear_weights_that_int8_cannot_hold_have_two_digits(limits):
    q = Quant(0.05, 0)
    check_op(
        "aten.upsample_bilinear2d",
        (given(floats(1, 2, 1, 200), quant=q), (1, 201), True, None, None),
        lambda x, out, align, *_: F.interpolate(x, size=out, mode="bilinear", align_corners=align),
        out_quant=q,
        limits=limits,
    )


def smooth(mode, antialias=False):
    def fn(x, out, align, *_):
        return F.interpolate(x, size=out, mode=mode, align_corners=align, antialias=antialias)

    return fn


SMOOTH = {
    "aten.upsample_bicubic2d": smooth("bicubic"),
    "aten._upsample_bilinear2d_aa": smooth("bilinear", True),
    "aten._upsample_bicubic2d_aa": smooth("bicubic", True),
}


@pytest.mark.parametrize("kind", SMOOTH)
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(9, 13), (3, 4), (5, 3), (1, 12)], ids=str)
def test_smooth_resizes(kind, align, size):
    x = floats(1, 2, 5, 6)
    check_op(kind, (given(x), size, align, None, None), SMOOTH[kind])
    for limits in (TOSA_INT, U55):
        q = quant_for(x)
        args = (given(x, quant=q), size, align, None, None)
        check_op(kind, args, SMOOTH[kind], out_quant=q, limits=limits)
        check_op(kind, args, SMOOTH[kind], out_quant=Quant(q.s * 0.8, -9), limits=limits)
    wide = int16(2.0**-13)
    args = (given(x, quant=wide), size, align, None, None)
    check_op(kind, args, SMOOTH[kind], out_quant=wide, limits=TOSA_INT16, steps=3)


@pytest.mark.parametrize("limits", [TOSA_INT, U55], ids=["tosa", "ethos-u55"])
def test_quantized_trilinear(limits):
    x = floats(1, 2, 3, 4, 5)
    q = quant_for(x)
    check_op(
        "aten.upsample_trilinear3d",
        (given(x, quant=q), (6, 7, 5), False, None, None, None),
        lambda x, out, align, *_: F.interpolate(x, size=out, mode="trilinear", align_corners=align),
        out_quant=q,
        limits=limits,
    )


@pytest.mark.parametrize("align", [False, True])
def test_bicubic_and_trilinear(align):
    check_op(
        "aten.upsample_bicubic2d",
        (given(floats(1, 2, 5, 6)), (9, 13), align, None, None),
        lambda x, out, align, *_: F.interpolate(x, size=out, mode="bicubic", align_corners=align),
    )
    check_op(
        "aten.upsample_trilinear3d",
        (given(floats(1, 2, 3, 4, 5)), (6, 7, 5), align, None, None, None),
        lambda x, out, align, *_: F.interpolate(x, size=out, mode="trilinear", align_corners=align),
    )
