"""What the chip policies refuse: with the number, and what Vela would miscompile."""

import pytest

from npuc.ir import SymDim, TensorType, Value
from npuc.targets.ethos_u_policy import ethos_u55_policy
from tests.targets.ethos_u_graphs import (
    BOOL,
    CHIPS,
    I8,
    I16,
    I32,
    I48,
    S,
    compiles,
    graph_of,
    refusal,
    registers,
)

U55_REFUSALS = {
    "BOOL": (lambda b: b.LOGICAL_NOT(b.given(S, BOOL)), "has no BOOL tensors"),
    "INTDIV": (lambda b: b.INTDIV(b.given(S, I32), b.given(S, I32)), "has no INTDIV"),
    "type": (
        lambda b: b.REVERSE(b.given(S, I32), axis=1),
        "has REVERSE for INT8, INT16 only, not for INT32",
    ),
    "kernel height": (
        lambda b: b.conv("CONV2D", b.given((1, 65, 1, 4)), (65, 1)),
        "kernel height 65 exceeds 64",
    ),
    "kernel area": (
        lambda b: b.conv("CONV2D", b.given((1, 64, 65, 4)), (64, 65)),
        "kernel 64x65 has 4160 elements, more than 4096",
    ),
    "stride": (
        lambda b: b.conv("CONV2D", b.given((1, 8, 8, 4)), (3, 3), stride=(4, 4), pad=(1, 2, 1, 2)),
        "stride 4x4 exceeds 3 together with padding",
    ),
    "depthwise stride": (
        lambda b: b.conv("DEPTHWISE_CONV2D", b.given((1, 7, 7, 4)), (3, 3), stride=(4, 4)),
        "stride 4x4 exceeds 3",
    ),
    "channels": (
        lambda b: b.conv("CONV2D", b.given((1, 1, 1, 65537)), (1, 1)),
        "65537 channels exceed 65536",
    ),
    "weights": (
        lambda b: b.conv("CONV2D", b.given(S), (1, 1), weights=b.given((4, 1, 1, 16))),
        "weights computed at run time",
    ),
    "depth": (
        lambda b: b.conv("CONV3D", b.given((1, 2, 8, 8, 4)), (2, 3, 3)),
        "kernel depth 2 exceeds 1",
    ),
    "transposed stride": (
        lambda b: b.conv("TRANSPOSE_CONV2D", b.given(S), (3, 3), stride=(3, 3)),
        "stride 3x3 is neither 1x1 nor 2x2",
    ),
    "average": (
        lambda b: b.pool("AVG_POOL2D", b.given((1, 9, 9, 4)), kernel=(9, 9), pad=(4, 4, 4, 4)),
        "a padded average over 9x9 exceeds 8x8",
    ),
    "argmax": (
        lambda b: b.ARGMAX(b.given((1, 8, 8, 128)), axis=3),
        "ARGMAX over 128 elements exceeds 127",
    ),
    "argmax axis": (lambda b: b.ARGMAX(b.given(S), axis=1), "ARGMAX over axis 1 of 4"),
    "sum": (lambda b: b.REDUCE_SUM(b.given((70000, 2), I32), axis=0), "moves 70000 > 65536"),
    "matmul": (
        lambda b: b.MATMUL(b.given((1, 4, 8)), b.given((1, 8, 70000)), b.one(), b.one()),
        "an axis of 70000 exceeds 65536",
    ),
    "reverse": (lambda b: b.REVERSE(b.given(S), axis=3), "REVERSE of the last axis (3)"),
    "transposition": (
        lambda b: b.TRANSPOSE(b.given((70000, 3)), perms=(1, 0)),
        "has an axis above 65536",
    ),
    "bilinear": (
        lambda b: b.RESIZE(b.given(S), (4, 2, 4, 2), (-1, -1), (1, 1), mode="BILINEAR", dtype=I32),
        "bilinear RESIZE does not exist",
    ),
    "resize": (
        lambda b: b.RESIZE(
            b.given(S), (6, 2, 6, 2), (-2, -2), (2, 2), mode="NEAREST_NEIGHBOR", dtype=I8
        ),
        "nearest RESIZE by 6/2 x 6/2; the chip repeats pixels 2, 4 or 8 times",
    ),
    "resize form": (
        lambda b: b.RESIZE(
            b.given(S), (2, 1, 2, 1), (0, 0), (1, 1), mode="NEAREST_NEIGHBOR", dtype=I8
        ),
        "is not the half-pixel form",
    ),
    "batch": (
        lambda b: b.RESIZE(
            b.given((2, 8, 8, 4)), (4, 2, 4, 2), (-1, -1), (1, 1), mode="NEAREST_NEIGHBOR", dtype=I8
        ),
        "RESIZE of a batch of 2",
    ),
}

#: rules that Arm documents although Vela compiles what they exclude
DOCUMENTED_ONLY = {"type", "kernel height", "kernel area"}


@pytest.mark.parametrize("what", U55_REFUSALS)
def test_u55_refuses_with_the_number(what):
    make, text = U55_REFUSALS[what]
    graph = graph_of(make)
    assert text in (refusal(graph, "ethos-u55-128") or "")
    assert text.replace("U55", "U65") in (refusal(graph, "ethos-u65-256") or "")
    assert compiles(graph, "ethos-u55-128") == (what in DOCUMENTED_ONLY)


U85_REFUSALS = {
    "channels": (
        lambda b: b.conv("CONV2D", b.given((1, 1, 1, 65537)), (1, 1)),
        "65537 channels exceed 65536",
    ),
    "weights": (
        lambda b: b.conv("TRANSPOSE_CONV2D", b.given(S), (3, 3), weights=b.given((4, 3, 3, 16))),
        "weights computed at run time",
    ),
}


@pytest.mark.parametrize("what", U85_REFUSALS)
def test_u85_refuses_with_the_number(what):
    make, text = U85_REFUSALS[what]
    graph = graph_of(make)
    assert text in (refusal(graph, "ethos-u85-256") or "")
    assert not compiles(graph, "ethos-u85-256")


def test_dynamic_shapes_are_refused():
    x = TensorType(I8, (SymDim("batch"), 4))
    for policy in CHIPS.values():
        reason = policy("IDENTITY", [Value(x)], {}, [x])
        assert "takes static shapes only, not (batch, 4)" in reason


# -- what Vela compiles to a wrong command stream ------------------------------------------------


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("side, most", [(0, 127), (1, 255), (2, 127), (3, 255)])
def test_padding_beyond_its_register_is_refused(chip, side, most):
    def padded(size):
        pad = [0, 0, 0, 0]
        pad[side] = size
        return graph_of(lambda b: b.conv("CONV2D", b.given((1, 10, 10, 4)), (3, 3), pad=tuple(pad)))

    register = ["TOP", "BOTTOM", "LEFT", "RIGHT"][side]
    assert refusal(padded(most), chip) is None
    assert registers(padded(most), chip, f"IFM_PAD_{register}") == [most]
    assert f"padding of {most + 1} exceeds {most}" in refusal(padded(most + 1), chip)
    # Vela writes the low bits only; when it no longer does, this rule can go
    assert registers(padded(most + 1), chip, f"IFM_PAD_{register}") == [0]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", ["CONV2D", "DEPTHWISE_CONV2D"])
def test_pad_by_zero_before_a_convolution_with_a_zero_point_is_refused(chip, name):
    def padded(constant, zp):
        def make(b):
            x = b.PAD(b.given((1, 8, 8, 4)), (0, 0, 1, 1, 1, 1, 0, 0), b.one(constant))
            return b.conv(name, x, (3, 3), zp=zp)

        return graph_of(make)

    assert "Vela fuses the two and pads with -5" in refusal(padded(0, -5), chip)
    assert registers(padded(0, -5), chip, "IFM_PAD_TOP") == [1], (
        "fused: it pads with the zero point"
    )
    for constant, zp in ((-5, -5), (0, 0), (7, -5)):
        assert refusal(padded(constant, zp), chip) is None
    assert 1 not in registers(padded(-5, -5), chip, "IFM_PAD_TOP")


def test_shift_that_does_not_round_is_refused_on_u55():
    def shift(rounds):
        return graph_of(
            lambda b: b.ARITHMETIC_RIGHT_SHIFT(b.given(S, I32), b.given(S, I32), round=rounds)
        )

    for chip in ("ethos-u55-128", "ethos-u65-256"):
        assert "set round" in refusal(shift(False), chip)
        assert refusal(shift(True), chip) is None
    assert refusal(shift(False), "ethos-u85-256") is None


@pytest.mark.parametrize("source, target", [(I32, I8), (I32, I16), (I16, I8)], ids=str)
def test_narrowing_cast_is_refused_on_u55(source, target):
    graph = graph_of(lambda b: b.CAST(b.given(S, source), dtype=target))
    assert "saturates instead of wrapping" in refusal(graph, "ethos-u55-128")
    assert refusal(graph, "ethos-u85-256") is None
    assert (
        refusal(graph_of(lambda b: b.CAST(b.given(S, target), dtype=source)), "ethos-u55-128")
        is None
    )


def test_rescale_of_int48_follows_its_convolution_on_u55():
    def apart(b):
        x = b.given((1, 4, 4, 4), I16)
        image = b.RESIZE(x, (4, 2, 4, 2), (-1, -1), (1, 1), mode="BILINEAR", dtype=I48)
        return b.scaled(image, I16)

    rescale = graph_of(apart).outputs[0].op
    types = [r.type for r in rescale.results]
    assert "does not follow a convolution" in ethos_u55_policy(
        "RESCALE", rescale.operands, rescale.attrs, types
    )
    assert (
        refusal(graph_of(lambda b: b.conv("CONV2D", b.given(S, I16), (3, 3))), "ethos-u55-128")
        is None
    )
