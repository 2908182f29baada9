"""Data movement, indexing and resizing on LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.lowering.harness import constant, given, quant_for
from tests.tflite.harness import check_tflite, names

rng = np.random.default_rng(4)


def normal(*shape: int) -> np.ndarray:
    return rng.normal(0, 1, shape).astype(np.float32)


def moved(
    kind: str, x: np.ndarray, args: Any, function: Any, steps: float = 0, **options: Any
) -> None:
    """Float, int8, int16, int32 and bool where they apply; quantized ones keep their parameters."""
    check_tflite(kind, (given(x), *args), function, **options)
    for bits in (8, 16):
        q = quant_for(x, bits)
        check_tflite(kind, (given(x, q), *args), function, out_quant=q,
                     steps=steps if bits == 8 else 32 * steps, **options)  # fmt: skip


def slice_(x: Any, dim: int, start: int, end: int, step: int) -> Any:
    return x[(slice(None),) * dim + (slice(start, end, step),)]


def test_shapes() -> None:
    x = normal(2, 3, 4, 5)
    moved("aten.view", x, ((6, 20),), torch.reshape)
    moved("aten.permute", x, ((0, 2, 3, 1),), torch.permute)
    moved("aten.permute", normal(2, 2, 3, 2, 2, 3), ((5, 0, 3, 2, 1, 4),), torch.permute)
    moved("aten.expand", normal(2, 1, 4), ((2, 3, 4),), lambda t, s: t.expand(s).contiguous())
    moved("aten.repeat", normal(2, 3), ((2, 1),), lambda t, r: t.repeat(r))
    moved("aten.slice", x, (2, 1, 4, 2), slice_)
    moved("aten.slice", x, (3, 1, 4, 1), slice_)
    moved("aten.flip", x, ((1, 3),), torch.flip)
    moved("aten.roll", x, ((1, -2), (2, 3)), torch.roll)
    moved("aten.unfold", x, (3, 3, 2), lambda t, d, n, s: t.unfold(d, n, s).contiguous())
    ints = rng.integers(-9, 9, (3, 4))
    check_tflite("aten.permute", (given(ints), (1, 0)), torch.permute)
    check_tflite("aten.permute", (given(ints > 0), (1, 0)), torch.permute)


def test_cat() -> None:
    x, y = normal(2, 3, 4), normal(2, 5, 4)
    check_tflite("aten.cat", ((given(x), given(y)), 1), torch.cat)
    q = quant_for(np.concatenate([x, y], 1))
    check_tflite("aten.cat", ((given(x, quant_for(x)), given(y, q)), 1), torch.cat, out_quant=q)


def pad(x: Any, pads: Any, mode: str, value: float) -> Any:
    pairs = list(zip(pads[::2], pads[1::2], strict=True))
    flat = [n for pair in reversed(pairs) for n in pair]
    if mode != "constant":
        while len(flat) > 4 and flat[-2:] == [0, 0]:
            flat = flat[:-2]
        return F.pad(x, flat, mode=mode)
    return F.pad(x, flat, mode=mode, value=value)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_pad(mode: str) -> None:
    x = normal(2, 3, 6, 5)
    pads = (0, 0, 0, 0, 2, 1, 1, 3)
    moved("aten.pad", x, (pads, mode, 0.0), pad)
    if mode == "constant":
        moved("aten.pad", x, (pads, mode, 1.0), pad, steps=1)
        moved(
            "aten.pad",
            normal(1, 2, 1, 2, 3, 4),
            ((0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 2), mode, 0.0),
            pad,
        )


def test_pixel_shuffle() -> None:
    moved("aten.pixel_shuffle", normal(1, 12, 4, 5), (2,), torch.pixel_shuffle)
    moved("aten.pixel_shuffle", normal(1, 4, 4, 5), (2,), torch.pixel_shuffle)
    moved("aten.pixel_unshuffle", normal(1, 3, 4, 6), (2,), torch.pixel_unshuffle)


@pytest.mark.parametrize("factor", [2, 3, 1.5, 0.5])
@pytest.mark.parametrize("exact", [False, True])
def test_nearest(factor: float, exact: bool) -> None:
    x = normal(1, 2, 6, 8)
    out = (int(6 * factor), int(8 * factor))
    kind = "aten._upsample_nearest_exact2d" if exact else "aten.upsample_nearest2d"
    function = torch._C._nn._upsample_nearest_exact2d if exact else torch._C._nn.upsample_nearest2d
    moved(kind, x, (out, None, None), function)


@pytest.mark.parametrize("out", [(12, 16), (9, 12), (7, 5), (3, 4)])
@pytest.mark.parametrize("corners", [False, True])
def test_bilinear(out: tuple[int, int], corners: bool) -> None:
    function = torch._C._nn.upsample_bilinear2d
    moved(
        "aten.upsample_bilinear2d",
        normal(1, 2, 6, 8),
        (out, corners, None, None),
        function,
        steps=1,
    )


def test_resize_by_matrices() -> None:
    x = normal(1, 2, 6, 8)
    moved(
        "aten.upsample_bilinear2d",
        x,
        ((10, 13), False, 1.7, 1.7),
        torch._C._nn.upsample_bilinear2d,
        steps=1,
    )
    moved("aten.upsample_nearest2d", x, ((10, 13), 1.7, 1.7), torch._C._nn.upsample_nearest2d)
    for corners in (False, True):
        check_tflite("aten.upsample_bicubic2d", (given(x), (12, 15), corners, None, None),
                     torch._C._nn.upsample_bicubic2d)  # fmt: skip
    q = quant_for(x * 1.3)
    for name in ("upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
        for out in ((12, 15), (3, 4)):
            check_tflite(f"aten.{name}", (given(x, q), out, False, None, None),
                         getattr(torch._C._nn, name), out_quant=q)  # fmt: skip


def test_embedding() -> None:
    w, i = normal(10, 4), rng.integers(0, 10, (2, 3))
    check_tflite(
        "aten.embedding",
        (constant(w), given(i)),
        F.embedding.__wrapped__
        if hasattr(F.embedding, "__wrapped__")
        else lambda a, b: F.embedding(b, a),
    )
    q = quant_for(w)
    check_tflite(
        "aten.embedding", (constant(w, q), given(i)), lambda a, b: F.embedding(b, a), out_quant=q
    )


def test_indexing() -> None:
    x = normal(4, 5, 6)
    i = np.array([0, -1, 2])
    moved("aten.index_select", x, (1, given(i % 5)), lambda t, d, k: torch.index_select(t, d, k))
    moved("aten.index_select", x, (2, constant(i % 6)), torch.index_select)
    places = rng.integers(0, 5, (4, 2, 6))
    moved("aten.gather", x, (1, given(places)), torch.gather)
    moved("aten.gather", x, (1, constant(places)), torch.gather)
    for indices in (
        (given(i),), (None, given(i)), (given(i), None, given(i)), (None, given(i), constant(i)),
        (given(i[:, None]), given(i)),
    ):  # fmt: skip

        def index(t: Any, k: Any) -> Any:
            return t[tuple(slice(None) if v is None else v for v in k)]

        moved("aten.index.Tensor", x, (indices,), index)


def test_topk_and_sort() -> None:
    x = normal(3, 8)
    check_tflite("aten.topk", (given(x), 3, 1, True, True), torch.topk)
    check_tflite("aten.topk", (given(x), 2, 0, False, True), torch.topk)
    check_tflite(
        "aten.sort", (given(x), 1, False), lambda t, d, r: torch.sort(t, dim=d, descending=r)
    )
    q = quant_for(x, 8)
    codes = (np.arange(24).reshape(3, 8) * 7 % 24 - 12).astype(np.float32) * np.float32(q.s)
    check_tflite("aten.topk", (given(codes, q), 3, 1, True, True), torch.topk, out_quant=[q, None])


def put(t: Any, k: Any, values: Any, accumulate: bool) -> Any:
    return t.clone().index_put(tuple(v for v in k if v is not None), values, accumulate)


def put_inner(t: Any, k: Any, values: Any, accumulate: bool) -> Any:
    t = t.clone()
    t[tuple(slice(None) if v is None else v for v in k)] = values
    return t


def test_index_put() -> None:
    x, v = normal(5, 4), normal(2, 4)
    i = np.array([3, 0])
    for index in (constant(i), given(i)):
        check_tflite("aten.index_put", (given(x), (index,), given(v), False), put)
    check_tflite("aten.index_put", (given(x), (given(i),), given(v), True), put)
    q = quant_for(np.concatenate([x, v]))
    check_tflite(
        "aten.index_put", (given(x, q), (constant(i),), given(v, q), False), put, out_quant=q
    )
    y = normal(3, 5, 4)
    cases = [
        ((None, given(i)), normal(3, 2, 4)), ((None, constant(i)), normal(1, 2, 1)),
        ((given(i % 3), given(i)), normal(2, 4)), ((given(i % 3), None, given(i)), normal(2, 5)),
    ]  # fmt: skip
    for indices, values in cases:
        check_tflite("aten.index_put", (given(y), indices, given(values), False), put_inner)


def test_the_last_write_wins() -> None:
    x, v = np.zeros((4, 2), np.float32), np.arange(6, dtype=np.float32).reshape(3, 2) + 1
    i = np.array([2, 1, 2])
    want = np.array([[0, 0], [3, 4], [5, 6], [0, 0]], np.float32)
    for index in (constant(i), given(i)):
        check_tflite(
            "aten.index_put", (given(x), (index,), given(v), False),
            lambda t, k, s, a: torch.from_numpy(want),
        )  # fmt: skip


def test_scatter() -> None:
    x, v = normal(5, 4), normal(2, 4)
    places = np.array([[0, 1, 2, 3], [4, 3, 0, 1]])
    check_tflite("aten.scatter.src", (given(x), 0, given(places), given(v)), torch.scatter)
    check_tflite("aten.scatter.src", (given(x), 0, constant(places), given(v)), torch.scatter)
    places = rng.integers(0, 5, (2, 4))
    check_tflite("aten.scatter_add", (given(x), 0, given(places), given(v)), torch.scatter_add)


def test_identity_keeps_the_value() -> None:
    x = normal(3, 4)
    q = quant_for(x)
    graph = check_tflite(
        "aten.repeat", (given(x, q), (1, 1)), lambda t, r: t.repeat(r), out_quant=q
    )
    assert names(graph) == []


def test_windows_and_strides() -> None:
    x = normal(1, 2, 5, 6)
    moved("aten.im2col", x, ((2, 3), (1, 1), (1, 0), (2, 1)), torch.ops.aten.im2col)
    moved("aten.as_strided", normal(4, 6), ((3, 2), (6, 2), 1), torch.as_strided)


def test_put_by_mask_and_quantized_sums() -> None:
    x = normal(3, 4, 5)
    mask = rng.integers(0, 2, (4, 5)) > 0
    value = np.float32(0.5)
    check_tflite(
        "aten.index_put", (given(x), (None, given(mask)), constant(value), False), put_inner
    )
    y, v = normal(5, 4), normal(3, 4)
    places = np.array([1, 3, 1])
    q = quant_for(np.concatenate([y, v]) * 2)
    args = (given(y, q), (given(places),), given(v, quant_for(v)), True)
    check_tflite("aten.index_put", args, put, out_quant=q)


def test_slice_scatter() -> None:
    x, source = normal(2, 9), normal(2, 3)
    check_tflite(
        "aten.slice_scatter", (given(x), given(source), 1, 1, 9, 3),
        lambda t, s, d, a, b, n: torch.slice_scatter(t, s, d, a, b, n),
    )  # fmt: skip
