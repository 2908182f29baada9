"""add, sub, mul, maximum, minimum, clamp, prelu, pow, atan2."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from npuc.ir import DType, Quant
from npuc.passes.fold_constants import fold_constants
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
    lowered,
    ops,
    quant_for,
    refuses,
    vela,
)

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(-3, 3, (2, 8, 6, 5)), RNG.uniform(-1, 1, (2, 8, 6, 5))
CHIPS = pytest.mark.parametrize("limits", [U55, U85], ids=["u55", "u85"])


def add(a, b, alpha=1):
    return a + alpha * b


def sub(a, b, alpha=1):
    return a - alpha * b


BINARY = {
    "aten.add.Tensor": add, "aten.sub.Tensor": sub, "aten.mul.Tensor": torch.mul,
    "aten.maximum": torch.maximum, "aten.minimum": torch.minimum,
}  # fmt: skip


def keywords(kind: str, alpha: float = 1) -> dict:
    return {"alpha": alpha} if kind in ("aten.add.Tensor", "aten.sub.Tensor") else {}


@pytest.mark.parametrize("kind", BINARY)
def test_floats_and_integers(kind: str) -> None:
    function = BINARY[kind]
    for alpha in (1, -2):
        kwargs = keywords(kind, alpha)
        check_op(kind, (given(X), given(Y)), function, kwargs=kwargs)
        check_op(kind, (given(X), given(Y[0, :, :1])), function, kwargs=kwargs)
        check_op(kind, (given(X), constant(np.asarray(0.5))), function, kwargs=kwargs)
        check_op(
            kind, (given(X, dtype=DType.FP16), given(Y, dtype=DType.FP16)), function, kwargs=kwargs
        )
        check_op(
            kind, (given(X, dtype=DType.BF16), given(Y, dtype=DType.BF16)), function,
            kwargs=kwargs, limits=TOSA_BF16,
        )  # fmt: skip
        for dtype in (np.int32, np.int8, np.int16):
            a = np.arange(-9, 9, dtype=dtype)
            for limits in (TOSA_ALL, U55, U85):
                check_op(kind, (given(a), given(a[::-1])), function, kwargs=kwargs, limits=limits)
    wide = np.arange(-128, 128).astype(np.int8)  # sums and products wrap
    for limits in (TOSA_ALL, U55):
        check_op(kind, (given(wide), given(wide)), function, kwargs=keywords(kind), limits=limits)


def test_mixed_element_types_are_promoted() -> None:
    half = given(X.astype(np.float16), dtype=DType.FP16)
    check_op("aten.mul.Tensor", (half, given(Y)), torch.mul, out_dtype=DType.FP32)
    whole = given(np.arange(6, dtype=np.int32))
    check_op(
        "aten.mul.Tensor", (whole, given(Y[0, 0, 0, 0] * np.ones(6))), torch.mul, limits=TOSA_ALL
    )


@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize("limits", [TOSA_INT16, U55, U85], ids=lambda x: x.name)
def test_quantized(kind: str, limits) -> None:
    function = BINARY[kind]
    for bits in (8, 16):
        q, r = quant_for(X, bits), quant_for(Y, bits)
        for alpha in (1, 3, -0.5) if "alpha" in keywords(kind) else (1,):
            kwargs = keywords(kind, alpha)
            want = function(torch.from_numpy(X), torch.from_numpy(Y), **kwargs).numpy()
            run = partial(check_op, kind, torch_fn=function, kwargs=kwargs, limits=limits,
                          out_quant=quant_for(want, bits))  # fmt: skip
            exact = 0.01 if bits == 8 else 0.3
            run(args=(given(X, quant=q), given(Y, quant=r)), wrong=exact)
            run(args=(given(X, quant=q), given(Y, quant=q)), wrong=exact)
            run(args=(given(X, quant=q), given(Y[:1, :, :1, :1], quant=r)), wrong=exact)
            run(args=(given(X, quant=q), given(Y[0, 0, 0], quant=r)), wrong=exact)
            run(args=(given(X, quant=q), constant(np.asarray(-0.7))), wrong=0.1)
            run(args=(constant(np.asarray(0.7)), given(X, quant=q)), wrong=0.1)


@CHIPS
@pytest.mark.parametrize("bits", [8, 16])
def test_vela_fuses_the_rescales(limits, bits: int) -> None:
    """vela.md section 4: one operation each, equal or different scales."""
    x, y = RNG.uniform(-3, 3, (1, 16, 16, 16)), RNG.uniform(-1, 1, (1, 16, 16, 16))
    q, r, out = quant_for(x, bits), quant_for(y, bits), quant_for([-4.0, 4.0], bits)
    for kind, function in BINARY.items():
        same_only = limits is U55 and kind in ("aten.maximum", "aten.minimum")
        for other in (q,) if same_only else (q, r):
            graph = lowered(
                kind, (given(x, quant=q), given(y, quant=other)), function,
                kwargs=keywords(kind, 3), limits=limits, out_quant=q if same_only else out,
            )  # fmt: skip
            assert len(vela(graph, limits.name).ops) == 1, (kind, ops(graph))


@CHIPS
def test_vela_fuses_a_number(limits) -> None:
    """A constant keeps its RESCALE through constant folding: an INT32 constant is not fused."""
    x = RNG.uniform(-3, 3, (1, 16, 16, 16))
    for bits in (8, 16):
        q = quant_for(x, bits)
        graph = lowered(
            "aten.add.Tensor", (given(x, quant=q), constant(np.asarray(0.7), quant=q)), add,
            kwargs={"alpha": 1}, limits=limits, out_quant=quant_for([-4.0, 4.0], bits),
        )  # fmt: skip
        graph = fold_constants(graph, limits)
        assert len(vela(graph, limits.name).ops) == 1, ops(graph)


@CHIPS
@pytest.mark.parametrize("kind", ["aten.add.Tensor", "aten.sub.Tensor"])
def test_a_constant_beside_16_bits_has_16_bits(kind: str, limits) -> None:
    """Two types in one sum are two operations more; the codes of the constant fit exactly."""
    function = BINARY[kind]
    x, y = given(X, int16(1e-4)), constant(Y, quant_for(Y))
    for args in ((x, y), (y, x)):
        graph = check_op(
            kind, args, function, kwargs=keywords(kind), out_quant=int16(1.5e-4), limits=limits
        )
        summands = [op.operands[0].type.dtype for op in graph.ops if op.kind == "tosa.RESCALE"][:2]
        assert summands == [DType.INT16] * 2
        result = vela(graph, limits.name)
        assert [op.operator for op in result.ops] in (["Add"], ["Sub"])


def test_constants_along_an_axis_on_u55_are_depthwise_weights() -> None:
    """vela.md section 4: 8 cycles per element as an operand of ADD or MUL."""
    for shape, along in (((1, 16, 8, 8), (16, 1, 1)), ((1, 20, 32), (32,)), ((2, 5, 8), (1, 1, 8))):
        x, c = RNG.normal(size=shape), RNG.uniform(0.5, 2, along) * np.sign(RNG.normal(size=along))
        for bits in (8, 16):
            q, out = quant_for(x, bits), quant_for([-5.0, 5.0], bits)
            operands = (given(x, quant=q), constant(c, quant=quant_for(c, bits)))
            for kind in ("aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor"):
                for args in (operands, operands[::-1]):
                    graph = check_op(
                        kind, args, BINARY[kind], kwargs=keywords(kind, 0.5), limits=U55,
                        out_quant=out, steps=1 if bits == 8 else 3,
                    )  # fmt: skip
                    assert "DEPTHWISE_CONV2D" in ops(graph)
    one_position = (given(c[0, 0], quant=quant_for(c)), constant(c[0, 0], quant=quant_for(c)))
    graph = lowered("aten.mul.Tensor", one_position, torch.mul, limits=U55, out_quant=Quant(0.1))
    assert ops(graph) == ["RESCALE", "RESCALE", "MUL", "RESCALE"]


def test_scalar_products_are_one_rescale_or_table() -> None:
    x = given(X, quant=quant_for(X))
    for factor, want in ((2.5, ["RESCALE"]), (-2.5, ["TABLE"])):
        args = (x, constant(np.asarray(factor), quant=Quant(abs(factor) / 127)))
        graph = lowered("aten.mul.Tensor", args, torch.mul, limits=TOSA_INT, out_quant=Quant(0.1))
        assert ops(graph) == want


def test_clamp() -> None:
    for low, high in ((0, None), (0, 6), (-1.5, 1.0), (None, 0.5), (2.0, -2.0)):
        check_op("aten.clamp", (given(X), low, high), torch.clamp)
        check_op("aten.clamp", (given(X, dtype=DType.FP16), low, high), torch.clamp)
        for bits, limits in ((8, TOSA_INT), (8, U55), (16, TOSA_INT16)):
            q = quant_for(X, bits)
            for out in (q, Quant(q.s * 0.7, q.zp, None, q.qmin, q.qmax)):
                graph = check_op(
                    "aten.clamp", (given(X, quant=q), low, high), torch.clamp, limits=limits,
                    out_quant=out,
                )  # fmt: skip
                assert len(ops(graph)) <= (1 if bits == 8 else 2)
    whole = given(np.arange(-9, 9, dtype=np.int32))
    check_op("aten.clamp", (whole, -3, 4), torch.clamp, limits=TOSA_ALL)
    edge = given(np.asarray([np.inf, -np.inf, np.nan, 1.0]))
    check_op("aten.clamp", (edge, 0.0, None), torch.clamp)


def test_clamp_that_the_range_implies_is_nothing() -> None:
    relu = Quant(3 / 255, -128)
    x = given(np.linspace(0, 3, 40), quant=relu)
    assert (
        ops(lowered("aten.clamp", (x, 0, None), torch.clamp, limits=TOSA_INT, out_quant=relu)) == []
    )
    both = Quant(6 / 255, 0)
    x = given(np.linspace(-3, 3, 40), quant=both)
    graph = check_op(
        "aten.clamp", (x, 0, None), torch.clamp, limits=TOSA_INT, out_quant=both, steps=0
    )
    assert ops(graph) == ["CLAMP"]


def test_prelu() -> None:
    weight = RNG.uniform(-0.5, 1, 8)
    prelu = lambda x, w: torch.nn.functional.prelu(x, w.to(x.dtype))  # noqa: E731
    want = prelu(torch.from_numpy(X), torch.from_numpy(weight)).numpy()
    check_op("aten.prelu", (given(X), constant(weight, dtype=DType.FP32)), prelu)
    for bits, limits in ((8, TOSA_INT), (16, TOSA_INT16), (8, U55), (8, U85)):
        for w in (weight, weight[:1]):
            check_op(
                "aten.prelu", (given(X, quant=quant_for(X, bits)), constant(w, dtype=DType.FP32)),
                prelu, limits=limits, out_quant=quant_for(want, bits), steps=1 if bits == 8 else 16,
            )  # fmt: skip


def test_power_of_tensors() -> None:
    base = np.concatenate([RNG.uniform(-3, 3, 200), [0, 0, 0, -2, -2, 2]])
    exponent = np.concatenate(
        [RNG.integers(-3, 4, 100), RNG.uniform(-2, 2, 100), [0, 1.5, 2, 3, 0.5, -1]]
    )
    kind = "aten.pow.Tensor_Tensor"
    check_op(kind, (given(base), given(exponent)), torch.pow, tolerance=1e-5)
    check_op(kind, (constant(np.asarray(2.5)), given(exponent)), torch.pow, tolerance=1e-5)
    check_op(kind, (given(base), constant(np.asarray(3.0))), torch.pow, tolerance=1e-5)
    x = given(np.abs(X) + 0.1, quant=quant_for(np.abs(X) + 0.1))
    args = (constant(np.asarray(2.0), quant=Quant(2 / 127)), x)
    graph = check_op(kind, args, torch.pow, limits=TOSA_INT, out_quant=Quant(9 / 255, -128))
    assert ops(graph) == ["TABLE"]
    y = given(np.abs(Y), quant=quant_for(np.abs(Y)))
    out = quant_for((np.abs(X) + 0.1) ** np.abs(Y))
    check_op(kind, (x, y), torch.pow, limits=TOSA_ALL, out_quant=out)
    refuses(kind, (x, y), torch.pow, "integer form", limits=TOSA_INT, out_quant=Quant(1.0))


def test_atan2() -> None:
    y = np.concatenate([RNG.normal(size=300), [0, 1, -1, 0, 1e-30, 3]])
    x = np.concatenate([RNG.normal(size=300), [0, 0, 0, -1, 1e-30, -3]])
    check_op("aten.atan2", (given(y), given(x)), torch.atan2)
    q = quant_for(y)
    refuses("aten.atan2", (given(y, quant=q), given(x, quant=q)), torch.atan2, "no integer form",
            limits=TOSA_INT, out_quant=Quant(0.03))  # fmt: skip


def test_refusals() -> None:
    q = Quant(0.01, 3, None, -(2**15), 2**15 - 1)
    odd = given(X, quant=q)
    refuses("aten.mul.Tensor", (odd, odd), torch.mul, "zero point 3 of INT16", limits=TOSA_INT16,
            out_quant=int16(0.01))  # fmt: skip
    refuses("aten.add.Tensor", (given(X, quant=quant_for(X)), given(Y)), add, "not quantized",
            kwargs={"alpha": 1}, limits=TOSA_INT, out_quant=Quant(0.1))  # fmt: skip
    refuses("aten.add.Tensor", (given(X, quant=quant_for(X)), given(Y)), add, "is quantized",
            kwargs={"alpha": 1}, out_dtype=DType.FP32)  # fmt: skip
    refuses("aten.add.Tensor", (given(X), given(Y)), add, "PRO-FP", kwargs={"alpha": 1},
            limits=TOSA_INT)  # fmt: skip
    assert TOSA_FP


@pytest.mark.parametrize("kind", BINARY)
def test_a_wide_result_without_16_bit_tables(kind: str) -> None:
    """int8 operand and number -> int16 on PRO-INT alone, which has no TABLE of 16 bits."""
    function, number = BINARY[kind], np.array(0.5)
    check_op(
        kind, (given(X, quant_for(X)), constant(number, quant_for(number))), function,
        kwargs=keywords(kind), out_quant=int16(0.001), limits=TOSA_INT, steps=64,
    )  # fmt: skip
