"""What an export takes for granted about sizes that it leaves open."""

from __future__ import annotations

import ast

import pytest
import torch

from npuc.errors import BadInput
from npuc.frontend.capture import capture
from npuc.frontend.export_guards import _comparisons
from npuc.ir import SymDim

SIZE = SymDim("s", 2, 64)
INPUTS = {"x": (3, SIZE), "pair": ((SIZE, 8), (4,))}


@pytest.mark.parametrize(
    ("text", "signs", "least", "most"),
    [
        ("L['x'].size()[1] >= 2", ["GreaterThan"], 0, 62),
        ("2*(L['x'].size()[1] // 4) == 4", ["Equality"], -4, 28),
        ("L['pair'][0].size()[0] - L['pair'][0].size()[1] < 5", ["StrictLessThan"], -11, 51),
        ("max(L['x'].size()[1], 10) != -1", ["Unequality"], 11, 65),
        ("min(L['x'].size()[1], 10) <= 10", ["LessThan"], -8, 0),
        ("4 < 5 and L['x'].size()[1] > 1", ["StrictLessThan", "StrictGreaterThan"], None, None),
    ],
)
def test_conditions_are_read(
    text: str, signs: list[str], least: int | None, most: int | None
) -> None:
    found = list(_comparisons(ast.parse(text, mode="eval").body, INPUTS))
    assert [sign for sign, _ in found] == signs
    if least is not None:
        difference = found[0][1]
        assert isinstance(difference, SymDim)
        assert (difference.lo, difference.hi) == (least, most)


@pytest.mark.parametrize(
    "text",
    [
        "L['x'].dtype == 5",
        "L['missing'].size()[0] == 5",
        "hasattr(L['x'], 'y')",
        "().__class__.__bases__[0] == 1",
        "__import__('os').system('false') == 0",
    ],
)
def test_other_conditions_are_not_evaluated(text: str) -> None:
    assert not list(_comparisons(ast.parse(text, mode="eval").body, INPUTS))


def test_an_export_for_one_size_is_refused() -> None:
    exported = torch.export.export(
        torch.nn.ReLU(), (torch.zeros(2, 8),),
        dynamic_shapes={"input": {1: torch.export.Dim("n", min=2, max=64)}},
    )  # fmt: skip
    capture(exported)
    exported._guards_code.append("2*(L['input'].size()[1] // 4) == 4")
    with pytest.raises(BadInput, match=r"holds only where 2\*\(input.shape\[1\] // 4\) == 4"):
        capture(exported)
