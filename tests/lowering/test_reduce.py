"""Reductions, spread, order, running sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from npuc.ir import DType
from tests.lowering.harness import (
    TOSA_ALL,
    TOSA_BF16,
    TOSA_FP,
    TOSA_INT,
    TOSA_INT16,
    U55,
    U85,
    check_op,
    given,
    lowered,
    ops,
    quant_for,
    refuses,
    vela,
)

aten = torch.ops.aten
RNG = np.random.default_rng(0)
X4, X3, X1 = RNG.normal(size=(2, 5, 6, 7)), RNG.normal(size=(1, 64, 40)), RNG.normal(size=33)
CASES = [
    (X4, (2, 3), True), (X4, (2, 3), False), (X4, (1,), True), (X4, (0, 1, 2, 3), False),
    (X4, (0, 3), False), (X3, (1, 2), True), (X3, (2,), False), (X3, (1,), True), (X1, (0,), False),
]  # fmt: skip
#: limits and bits of quantized values
INTEGER = [(TOSA_INT, 8), (TOSA_INT16, 16), (U55, 8), (U85, 8), (U85, 16)]
INTEGER_TARGETS = pytest.mark.parametrize(
    ("limits", "bits"), INTEGER, ids=[f"{t.name}-{b}" for t, b in INTEGER]
)


def var(x, dim, correction=1, keepdim=False):
    return aten.var.correction(x, dim, correction=correction, keepdim=keepdim)


def std(x, dim, correction=1, keepdim=False):
    return aten.std.correction(x, dim, correction=correction, keepdim=keepdim)


def norm(x, order, dim, keepdim):
    return aten.linalg_vector_norm(x, order, dim, keepdim)


def product(x, dim, keepdim):
    for d in sorted(dim, reverse=True):
        x = x.prod(d, keepdim=keepdim)
    return x


def cases(x, dim, keepdim):
    """(kind, arguments after x, keyword arguments, PyTorch's function)"""
    spread = {"correction": 1, "keepdim": keepdim}
    return [
        ("aten.sum.dim_IntList", (dim, keepdim), {}, aten.sum.dim_IntList),
        ("aten.mean.dim", (dim, keepdim), {}, aten.mean.dim),
        ("aten.amax", (dim, keepdim), {}, aten.amax),
        ("aten.amin", (dim, keepdim), {}, aten.amin),
        ("aten.var.correction", (dim,), spread, var),
        ("aten.std.correction", (dim,), {**spread, "correction": 0}, std),
        *(
            ("aten.linalg_vector_norm", (order, dim, keepdim), {}, norm)
            for order in (1, 2, math.inf, -math.inf)
        ),
    ]


@pytest.mark.parametrize("index", range(len(CASES)))
def test_floats(index: int) -> None:
    x, dim, keepdim = CASES[index]
    for kind, args, kwargs, function in cases(x, dim, keepdim):
        check_op(kind, (given(x), *args), function, kwargs=kwargs)
    half = given(x, dtype=DType.FP16)
    check_op("aten.mean.dim", (half, dim, keepdim), aten.mean.dim)
    check_op("aten.var.correction", (half, dim), var, kwargs={"correction": 1, "keepdim": keepdim})
    brain = given(x, dtype=DType.BF16)
    check_op("aten.sum.dim_IntList", (brain, dim, keepdim), aten.sum.dim_IntList, limits=TOSA_BF16)
    check_op("aten.prod.dim_int", (given(x * 1.2), dim, keepdim), product, tolerance=1e-5)
    check_op("aten.linalg_vector_norm", (given(x), 3.0, dim, keepdim), norm, tolerance=1e-5)
    check_op("aten.linalg_vector_norm", (given(x), 0, dim, keepdim), norm)


@INTEGER_TARGETS
@pytest.mark.parametrize("index", range(len(CASES)))
def test_quantized(index: int, limits, bits: int) -> None:
    x, dim, keepdim = CASES[index]
    for kind, args, kwargs, function in cases(x, dim, keepdim):
        want = function(torch.from_numpy(x), *args, **kwargs).numpy()
        rough = bits == 16 and ("var" in kind or "std" in kind or "norm" in kind)
        check_op(
            kind, (given(x, quant=quant_for(x, bits)), *args), function, kwargs=kwargs,
            limits=limits, out_quant=quant_for(want, bits),
            steps=8 if rough else 3 if bits == 16 else 1,
        )  # fmt: skip


def test_large_reductions_stay_within_int32() -> None:
    """A plain INT32 sum of 16-bit values overflows at 65,536 of them."""
    x = np.full((1, 300, 400), 3.0) + RNG.normal(size=(1, 300, 400)) * 0.1
    for limits, bits in ((TOSA_INT, 8), (TOSA_INT16, 16), (U55, 8)):
        for kind in ("aten.mean.dim", "aten.sum.dim_IntList"):
            function = aten.mean.dim if "mean" in kind else aten.sum.dim_IntList
            want = function(torch.from_numpy(x), (1, 2), True).numpy()
            check_op(kind, (given(x, quant=quant_for(x, bits)), (1, 2), True), function,
                     limits=limits, out_quant=quant_for(want * 1.1, bits))  # fmt: skip


def test_mean_over_an_image_is_a_pool() -> None:
    x = given(X4, quant=quant_for(X4))
    args = (x, (2, 3), True)
    out = x.type.quant
    for limits in (TOSA_INT, U55, U85):
        graph = lowered("aten.mean.dim", args, aten.mean.dim, limits=limits, out_quant=out)
        assert "AVG_POOL2D" in ops(graph)
    graph = lowered("aten.mean.dim", (given(X4), (2, 3), True), aten.mean.dim)
    assert "AVG_POOL2D" in ops(graph)


def test_integers_and_bool() -> None:
    x = RNG.integers(-9, 9, (3, 4, 5)).astype(np.int32)
    for kind, function in (
        ("aten.sum.dim_IntList", lambda x, d, k: x.sum(d, keepdim=k, dtype=torch.int32)),
        ("aten.amax", aten.amax), ("aten.amin", aten.amin),
        ("aten.prod.dim_int", lambda x, d, k: product(x, d, k).to(torch.int32)),
    ):  # fmt: skip
        for dim in ((1,), (0, 2)):
            small = np.sign(x) * (np.abs(x) % 3) if "prod" in kind else x
            check_op(kind, (given(small), dim, True), function, limits=TOSA_ALL)
    large = RNG.integers(-(2**31), 2**31 - 1, (3, 4, 5)).astype(np.int32)
    large[0, 0] = large[1, 1] + np.arange(5)
    for dim, keepdim in (((1,), False), ((0, 2), True)):
        for kind, function in (("aten.amax", aten.amax), ("aten.amin", aten.amin)):
            check_op(kind, (given(large), dim, keepdim), function, limits=TOSA_FP)
    flags = RNG.random((3, 4, 5)) < 0.8
    for limits in (TOSA_FP, TOSA_INT, U55, U85):
        for dim in (1, 2):
            check_op(
                "aten.any.dims",
                (given(flags), (dim,), True),
                lambda x, d, k: x.any(d[0], k),
                limits=limits,
            )
            check_op(
                "aten.all.dims",
                (given(flags), (dim,), False),
                lambda x, d, k: x.all(d[0], k),
                limits=limits,
            )


def test_quantized_product_of_few_values() -> None:
    for count in (2, 3, 5):
        x = RNG.uniform(0.3, 1.3, (2, 3, count))
        want = product(torch.from_numpy(x), (2,), True).numpy()
        check_op("aten.prod.dim_int", (given(x, quant=quant_for(x)), (2,), True), product,
                 limits=TOSA_INT, out_quant=quant_for(want))  # fmt: skip
    x = RNG.uniform(-3, 3, (2, 3, 12))
    refuses("aten.prod.dim_int", (given(x, quant=quant_for(x)), (2,), True), product,
            "16 bits of its partial products", limits=TOSA_INT,
            out_quant=quant_for([1.0]))  # fmt: skip


def sort(x, dim, descending):
    return torch.sort(x, dim=dim, descending=descending, stable=True)


# order ---------------------------------------------------------------------------------------


def distinct(bits: int | None, shape=(2, 5, 40)) -> np.ndarray:
    """Values without ties, whole steps apart where quantized."""
    rows = int(np.prod(shape[:-1]))
    codes = [
        np.random.default_rng(i).permutation(np.arange(-100, 100))[: shape[-1]] for i in range(rows)
    ]
    return np.stack(codes).reshape(shape) * 0.03


@pytest.mark.parametrize("limits", [TOSA_FP, TOSA_INT, U55, U85], ids=lambda x: x.name)
def test_argmax_and_argmin(limits) -> None:
    for shape in ((2, 5, 40), (1, 5, 6, 7)):
        x = distinct(8, shape)
        x = x.transpose(*range(1, x.ndim), 0).copy() if limits is not U55 else x
        operand = given(x) if limits is TOSA_FP else given(x, quant=quant_for([-3.0, 3.0]))
        for dim in range(-1, x.ndim):
            for keepdim in (True, False):
                for name in ("argmax", "argmin"):
                    function = lambda x, d, k, n=name: getattr(torch, n)(x, d, k)  # noqa: E731
                    check_op(f"aten.{name}", (operand, dim, keepdim), function, limits=limits)


def test_argmax_over_many_on_u55() -> None:
    x = given(np.zeros((1, 4, 200)), quant=quant_for([-1.0, 1.0]))
    refuses("aten.argmax", (x, 2, False), torch.argmax, "200 elements exceeds 127", limits=U55)
    whole = given(np.zeros((3, 4), np.int32))
    refuses("aten.argmax", (whole, 1, False), torch.argmax, "not INT32", limits=TOSA_ALL)


@pytest.mark.parametrize("limits", [TOSA_FP, TOSA_INT, U85], ids=lambda x: x.name)
def test_sort_and_topk(limits) -> None:
    x = distinct(8)
    quant = None if limits is TOSA_FP else quant_for([-3.0, 3.0])
    operand = given(x, quant=quant) if quant else given(x)
    for dim, descending in ((2, False), (2, True)):
        check_op(
            "aten.sort", (operand, dim, descending), sort, limits=limits, out_quant=[quant, None]
        )
    for k, largest in ((5, True), (3, False), (40, True)):
        check_op("aten.topk", (operand, k, 2, largest, True), torch.topk, limits=limits,
                 out_quant=[quant, None])  # fmt: skip


def test_sort_is_stable_and_takes_any_axis() -> None:
    x = np.asarray([[3, 1, 2, 1], [0, 0, 5, 1], [3, 1, 2, 0]], np.float64)
    for dim in (0, 1):
        for descending in (True, False):
            check_op("aten.sort", (given(x), dim, descending), sort)


def test_sort_of_too_many() -> None:
    x = given(np.zeros((1, 5000)))
    refuses("aten.sort", (x, 1, False), lambda x, d, e: torch.sort(x, d, e), "pairs")
    q = given(np.zeros((1, 8)), quant=quant_for([1.0]))
    refuses("aten.topk", (q, 2, 1, True, True), torch.topk, "SCATTER", limits=U55,
            out_quant=[quant_for([1.0]), None])  # fmt: skip


# running sums --------------------------------------------------------------------------------


def test_cumsum_and_cumprod() -> None:
    for dim in range(3):
        check_op("aten.cumsum", (given(X4[0]), dim), torch.cumsum)
        check_op("aten.cumprod", (given(X4[0] * 1.3), dim), torch.cumprod, tolerance=1e-5)
    whole = given(RNG.integers(-9, 9, (3, 17)).astype(np.int32))
    check_op(
        "aten.cumsum", (whole, 1), lambda x, d: x.cumsum(d, dtype=torch.int32), limits=TOSA_ALL
    )
    with_infinity = np.asarray([1.0, 2.0, np.inf, 3.0, 4.0])
    check_op("aten.cumsum", (given(with_infinity), 0), torch.cumsum)


@INTEGER_TARGETS
def test_quantized_cumsum(limits, bits: int) -> None:
    for x, dim in ((X4, 1), (X3, 2), (X1, 0)):
        want = np.cumsum(x, dim)
        graph = check_op("aten.cumsum", (given(x, quant=quant_for(x, bits)), dim), torch.cumsum,
                         limits=limits, out_quant=quant_for(want, bits))  # fmt: skip
        assert ("CONV2D" in ops(graph)) == (bits == 8)
    q = given(X1, quant=quant_for(X1))
    out = quant_for(np.cumprod(q.meaning.numpy()))
    check_op("aten.cumprod", (q, 0), torch.cumprod, limits=TOSA_ALL, out_quant=out)
    refuses("aten.cumprod", (q, 0), torch.cumprod, "running product", limits=TOSA_INT,
            out_quant=quant_for(X1))  # fmt: skip


@pytest.mark.parametrize("limits", [U55, U85], ids=lambda x: x.name)
def test_vela_compiles_reductions(limits) -> None:
    for x, dim, keepdim in CASES[:2] + CASES[5:8]:
        for kind, args, kwargs, function in cases(x, dim, keepdim):
            want = function(torch.from_numpy(x), *args, **kwargs).numpy()
            graph = lowered(kind, (given(x, quant=quant_for(x)), *args), function, kwargs=kwargs,
                            limits=limits, out_quant=quant_for(want))  # fmt: skip
            assert vela(graph, limits.name).perf["cpu_ops"] == 0


def test_quantized_norm_of_another_order_goes_through_floats() -> None:
    x = given(X3, quant=quant_for(X3))
    want = norm(torch.from_numpy(X3), 3.0, (2,), True).numpy()
    args = x, 3.0, (2,), True
    kind, out = "aten.linalg_vector_norm", quant_for(want)
    check_op(kind, args, norm, limits=TOSA_ALL, out_quant=out)
    refuses(kind, args, norm, "vector norm of order 3", limits=TOSA_INT, out_quant=out)
