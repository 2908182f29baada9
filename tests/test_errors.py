"""The one form of error texts: what failed, where, why, what to do."""

from __future__ import annotations

import pickle

import pytest

from npuc.errors import BadInput, CheckFailed, NpucError, Reason, ToolMissing, Unsupported

POOL = Reason(
    "aten.avg_pool2d",
    "model.py:41 (features.3)",
    "kernel 300x300 exceeds 256 on ethos-u55-128",
    "split the pool, or compile for ethos-u85-256",
)


def test_form() -> None:
    assert str(Unsupported(POOL)) == (
        "aten.avg_pool2d at model.py:41 (features.3): kernel 300x300 exceeds 256 on "
        "ethos-u55-128; split the pool, or compile for ethos-u85-256"
    )


@pytest.mark.parametrize(
    "error, text",
    [
        (NpucError("a"), "a"),
        (NpucError("a", why="b"), "a: b"),
        (NpucError("a", where="m.py:1", hint="c"), "a at m.py:1; c"),
        (BadInput("a", why="b", hint="c"), "a: b; c"),
        (CheckFailed("a", where="m.py:1", why="b"), "a at m.py:1: b"),
        (ToolMissing("vela", "pip install it"), "vela is not installed; pip install it"),
        (ToolMissing("vela", "get it", why="1.0"), "vela is not installed: 1.0; get it"),
        (Unsupported("rank 7 exceeds 6"), "rank 7 exceeds 6"),
    ],
)
def test_texts_survive_pickling(error: NpucError, text: str) -> None:
    assert str(error) == text
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == text


def test_several_reasons() -> None:
    error = Unsupported([POOL, Reason("aten.sort", "model.py:9", "no rule")])
    assert [reason.op for reason in error.reasons] == ["aten.avg_pool2d", "aten.sort"]
    assert str(error).splitlines() == [
        "2 ops are not supported on the target:",
        f"  {POOL}",
        "  aten.sort at model.py:9: no rule",
    ]
    assert pickle.loads(pickle.dumps(error)).reasons == error.reasons


def test_a_common_hint_is_said_once() -> None:
    error = Unsupported([Reason(f"aten.{name}", "", "FP32", "quantize it") for name in "ab"])
    lines = ["2 ops are not supported on the target:", "  aten.a: FP32", "  aten.b: FP32"]
    assert str(error).splitlines() == [*lines, "quantize it"]


def test_many_reasons_are_cut() -> None:
    error = Unsupported([Reason(f"aten.op{i}", "", "no rule") for i in range(1000)])
    lines = str(error).splitlines()
    assert len(lines) == 22 and lines[-1] == "  and 980 more; explain lists all"
    assert len(error.reasons) == 1000


def test_no_reason_is_our_mistake() -> None:
    with pytest.raises(ValueError, match="at least one reason"):
        Unsupported([])
