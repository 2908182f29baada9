"""Pooling, reductions, softmax and norms on LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from npuc.dialects.tflite import TfliteLimits
from npuc.ir import DType, Quant
from tests.lowering.harness import constant, given, quant_for
from tests.tflite.harness import check_tflite, names

rng = np.random.default_rng(3)


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    return rng.normal(0, scale, shape).astype(np.float32)


def both(kind: str, x: np.ndarray, args: Any, function: Any, shared: bool = False, steps: float = 1,
         bits: tuple[int, ...] = (0, 8, 16), **options: Any) -> None:  # fmt: skip
    """Float, int8 and int16; `shared`: the result keeps the operand's parameters."""
    for width in bits:
        if not width:
            check_tflite(kind, (given(x), *args), function, **options)
            continue
        q = quant_for(x, width)
        want = function(
            torch.from_numpy(q.dequantize(q.quantize(x))), *args, **options.get("kwargs", {})
        )
        out = q if shared else quant_for(want.numpy(), width)
        check_tflite(kind, (given(x, q), *args), function, out_quant=out,
                     steps=steps if width == 8 else max(30, steps), **options)  # fmt: skip


POOLS = [
    ((2, 2), (2, 2), (0, 0), (1, 1), False), ((3, 3), (2, 2), (1, 1), (1, 1), False),
    ((3, 3), (1, 1), (1, 1), (1, 1), False), ((3, 2), (2, 3), (1, 0), (1, 1), True),
    ((2, 2), (2, 2), (0, 0), (1, 1), True), ((3, 3), (1, 2), (1, 1), (2, 2), False),
]  # fmt: skip


@pytest.mark.parametrize("pool", POOLS)
def test_max_pool(pool: Any) -> None:
    both("aten.max_pool2d", normal(1, 3, 9, 8), pool, torch.max_pool2d, shared=True)


@pytest.mark.parametrize("pool", [p for p in POOLS if p[3] == (1, 1)])
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("divisor", [None, 5])
def test_avg_pool(pool: Any, include: bool, divisor: int | None) -> None:
    kernel, stride, padding, _, ceil = pool
    args = (kernel, stride, padding, ceil, include, divisor)
    x = normal(1, 3, 9, 8)
    for width in (0, 8, 16):
        if not width:
            check_tflite("aten.avg_pool2d", (given(x), *args), F.avg_pool2d)
            continue
        q = quant_for(x, width)
        want = F.avg_pool2d(torch.from_numpy(x), *args).numpy()
        check_tflite("aten.avg_pool2d", (given(x, q), *args), F.avg_pool2d,
                     out_quant=q if divisor is None else quant_for(want, width),
                     steps=1 if width == 8 else 4)  # fmt: skip


def test_means_of_small_images_are_not_biased() -> None:
    """MEAN of 9 elements would be a step too high in one of six results."""
    x = rng.uniform(0, 4, (1, 200, 3, 3)).astype(np.float32)
    q = Quant(0.0171, -128)
    want = q.dequantize(q.quantize(x)).mean((2, 3))
    args = (given(x, q), (2, 3), False)
    graph = check_tflite("aten.mean.dim", args, torch.mean, out_quant=quant_for(want), wrong=0.01)
    assert names(graph)[:2] == ["TRANSPOSE", "DEPTHWISE_CONV_2D"]
    pool = ((3, 3), (3, 3), (0, 0), False, True, None)
    check_tflite("aten.avg_pool2d", (given(x, q), *pool), F.avg_pool2d, out_quant=quant_for(want),
                 wrong=0.01)  # fmt: skip


@pytest.mark.parametrize("size", [(3, 3), (7, 9)])
def test_means_of_images_on_ethos_u55(size: tuple[int, int]) -> None:
    """Exact weights: as good as MEAN, in less time."""
    x = rng.uniform(0, 4, (1, 50, *size)).astype(np.float32)
    q = Quant(0.0171, -128)
    want = q.dequantize(q.quantize(x)).mean((2, 3))
    families = ("ethos-u55", "ethos-u")
    pool = (size, size, (0, 0), False, True, None)
    for kind, args, function in (
        ("aten.mean.dim", ((2, 3), False), torch.mean), ("aten.avg_pool2d", pool, F.avg_pool2d),
    ):  # fmt: skip
        graph = check_tflite(kind, (given(x, q), *args), function, out_quant=quant_for(want),
                             families=families, wrong=0.02)  # fmt: skip
        assert "FULLY_CONNECTED" in names(graph)
    pairs = normal(2, 3, *size)
    args = (given(pairs, quant_for(pairs)), (2, 3), True)
    graph = check_tflite("aten.mean.dim", args, torch.mean, families=families,
                         out_quant=quant_for(pairs.mean((2, 3))))  # fmt: skip
    assert "FULLY_CONNECTED" not in names(graph)


def test_pools_of_three_dims() -> None:
    x = normal(1, 2, 6, 7, 8)
    args = ((2, 3, 3), (2, 2, 1), (1, 1, 1), (1, 1, 1), False)
    both("aten.max_pool3d", x, args, torch.max_pool3d, shared=True)
    args = ((2, 3, 3), (2, 2, 1), (1, 1, 1), False, True, None)
    both("aten.avg_pool3d", x, args, F.avg_pool3d, shared=True)


def test_adaptive_pools() -> None:
    x = normal(2, 3, 7, 10)
    both("aten.adaptive_avg_pool2d", x, ((3, 4),), F.adaptive_avg_pool2d, shared=True)
    both("aten.adaptive_max_pool2d", x, ((3, 4),), F.adaptive_max_pool2d, shared=True)


@pytest.mark.parametrize("dims", [(1,), (2, 3), (0, 1, 2, 3), (3,)])
@pytest.mark.parametrize("keep", [True, False])
def test_reductions(dims: Any, keep: bool) -> None:
    x = normal(2, 3, 4, 5) + np.float32(0.3)
    both("aten.mean.dim", x, (dims, keep), torch.mean)
    both("aten.sum.dim_IntList", x, (dims, keep), torch.sum)
    both("aten.amax", x, (dims, keep), torch.amax, shared=True)
    both("aten.amin", x, (dims, keep), torch.amin, shared=True)
    check_tflite("aten.any.dims", (given(x > 1.5), dims, keep), torch.any)
    check_tflite("aten.all.dims", (given(x > -1.5), dims, keep), torch.all)
    kwargs = {"correction": 1, "keepdim": keep}
    for op in ("var", "std"):
        function = getattr(torch, op)
        kind = f"aten.{op}.correction"
        both(kind, x, (dims,), function, kwargs=kwargs, steps=2, bits=(0, 8))
        # a small variance has few of its 16 bits, and its root fewer
        both(kind, x, (dims,), function, kwargs=kwargs, steps=300, bits=(16,))


def test_arg_and_cumulative() -> None:
    x = normal(2, 3, 8)
    for kind, function in (("aten.argmax", torch.argmax), ("aten.argmin", torch.argmin)):
        for width in (0, 8, 16):
            q = quant_for(x, width) if width else None
            check_tflite(kind, (given(x, q), 2, False), function)
            check_tflite(kind, (given(x, q), 1, True), function)
    both("aten.cumsum", x, (1,), torch.cumsum)
    both("aten.cumsum", x, (2,), torch.cumsum)
    ints = rng.integers(-3, 4, (3, 5))
    check_tflite("aten.cumsum", (given(ints), 1), torch.cumsum)
    check_tflite("aten.cumprod", (given(x), 2), torch.cumprod)
    check_tflite(
        "aten.prod.dim_int", (given(x), (2,), False), lambda t, d, k: torch.prod(t, d[0], k)
    )


@pytest.mark.parametrize("dim", [1, 3])
def test_softmax(dim: int) -> None:
    x = normal(2, 3, 4, 6, scale=2)
    both("aten.softmax", x, (dim,), torch.softmax)
    both("aten.log_softmax", x, (dim,), torch.log_softmax)
    q = quant_for(x)
    graph = check_tflite(
        "aten.softmax", (given(x, q), 3), torch.softmax, out_quant=Quant(1 / 256, -128)
    )
    assert names(graph) == ["SOFTMAX"]


def test_softmax_of_small_results() -> None:
    """Results of at most 2**-6 in 8 bits: steps of 2**-14, and no bias."""
    x = normal(3, 400, scale=0.4)
    q = quant_for(x)
    want = torch.softmax(torch.from_numpy(q.dequantize(q.quantize(x))), 1).numpy()
    out = Quant(2.0**-14, -128)
    assert want.max() < 255 * out.s
    check_tflite("aten.softmax", (given(x, q), 1), torch.softmax, out_quant=out, wrong=0.25)


@pytest.mark.parametrize("shape", [(4, 32), (2, 5, 64), (3, 2, 8, 8)])
def test_layer_norm(shape: tuple[int, ...]) -> None:
    x = normal(*shape) + np.float32(0.3)
    n = shape[-1:]
    w, bias = rng.uniform(0.5, 1.5, n).astype(np.float32), normal(*n)

    def layer_norm(t: Any, s: Any, a: Any, c: Any, e: float) -> Any:
        a, c = (None if v is None else v.to(t.dtype) for v in (a, c))
        return F.layer_norm(t, s, a, c, e)

    for args in ((n, constant(w), constant(bias), 1e-5), (n, None, None, 1e-5)):
        for bits in (0, 8, 16):
            q = quant_for(x, bits) if bits else None
            plain = [a.array if hasattr(a, "array") else a for a in args]
            want = layer_norm(
                torch.from_numpy(x),
                *[torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in plain],
            )
            out = quant_for(want.numpy(), bits) if bits else None
            check_tflite("aten.layer_norm", (given(x, q), *args), layer_norm, out_quant=out,
                         steps=1 if bits == 8 else 90)  # fmt: skip


def test_norm_with_opposite_bias() -> None:
    """The products with the weight pass the result's range before the bias brings them back."""
    x = normal(8, 32)
    x[:, 0], x[:, 1] = 5, -5
    w = np.ones(32, np.float32)
    bias = np.where(np.arange(32) == 0, -4, np.where(np.arange(32) == 1, 4, 0)).astype(np.float32)
    for bits in (8, 16):
        want = F.layer_norm(*map(torch.from_numpy, [x]), (32,), *map(torch.from_numpy, (w, bias)))
        args = (given(x, quant_for(x, bits)), (32,), constant(w), constant(bias), 1e-5)
        check_tflite(
            "aten.layer_norm", args,
            lambda t, s, a, c, e: F.layer_norm(t, s, a.to(t.dtype), c.to(t.dtype), e),
            out_quant=quant_for(want.numpy(), bits), steps=1 if bits == 8 else 90,
        )  # fmt: skip


def test_group_and_rms_norm() -> None:
    x = normal(2, 6, 5, 4)
    w, bias = rng.uniform(0.5, 1.5, 6).astype(np.float32), normal(6)

    def group_norm(t: Any, g: int, a: Any, c: Any, e: float) -> Any:
        return F.group_norm(t, g, a.to(t.dtype), c.to(t.dtype), e)

    args = (3, constant(w), constant(bias), 1e-5)
    check_tflite("aten.group_norm", (given(x), *args), group_norm)
    want = group_norm(
        torch.from_numpy(x), 3, torch.from_numpy(w), torch.from_numpy(bias), 1e-5
    ).numpy()
    check_tflite(
        "aten.group_norm", (given(x, quant_for(x)), *args), group_norm, out_quant=quant_for(want)
    )
    y = normal(3, 4, 32)
    scale = rng.uniform(0.5, 1.5, 32).astype(np.float32)

    def rms_norm(t: Any, s: Any, a: Any, e: float) -> Any:
        return F.rms_norm(t, s, a.to(t.dtype), e)

    args = ((32,), constant(scale), 1e-5)
    check_tflite("aten.rms_norm", (given(y), *args), rms_norm)
    want = rms_norm(torch.from_numpy(y), (32,), torch.from_numpy(scale), 1e-5).numpy()
    check_tflite(
        "aten.rms_norm", (given(y, quant_for(y)), *args), rms_norm, out_quant=quant_for(want)
    )


def test_batch_norm() -> None:
    for shape in ((2, 4, 5, 6), (3, 4), (2, 4, 7)):
        x = normal(*shape)
        w, bias, mean = normal(4), normal(4), normal(4)
        var = rng.uniform(0.5, 2, 4).astype(np.float32)

        def batch_norm(t: Any, a: Any, c: Any, m: Any, v: Any, e: float) -> Any:
            a, c, m, v = (i.to(t.dtype) for i in (a, c, m, v))
            return F.batch_norm(t, m, v, a, c, False, 0.0, e)

        args = (*map(constant, (w, bias, mean, var)), 1e-5)
        check_tflite("aten.batch_norm", (given(x), *args), batch_norm)
        want = batch_norm(*map(torch.from_numpy, (x, w, bias, mean, var)), 1e-5).numpy()
        for bits in (8, 16):
            operands = (given(x, quant_for(x, bits)), *args)
            check_tflite("aten.batch_norm", operands, batch_norm,
                         out_quant=quant_for(want, bits), steps=1 if bits == 8 else 300)  # fmt: skip


def test_dtype_of_sums() -> None:
    flags = rng.integers(0, 2, (3, 7)) > 0
    check_tflite(
        "aten.sum.dim_IntList", (given(flags), (1,), False), torch.sum, out_dtype=DType.INT64
    )


def test_norm_without_tables() -> None:
    """On Ethos-U a norm has RSQRT instead of a GATHER, which U55 leaves to the CPU."""
    limits = TfliteLimits(tables=False)
    x = normal(4, 64) * np.array([[1.0], [0.02], [3.0], [0.3]], np.float32)
    n = (64,)
    want = F.layer_norm(torch.from_numpy(x), n).numpy()
    args = (given(x, quant_for(x, 16)), n, None, None, 1e-5)
    graph = check_tflite("aten.layer_norm", args, lambda t, s, w, c, e: F.layer_norm(t, s, w, c, e),
                         out_quant=quant_for(want), limits=limits, steps=2)  # fmt: skip
    assert not {"GATHER", "CAST"} & set(names(graph))
