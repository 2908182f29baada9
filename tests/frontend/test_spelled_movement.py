"""Spellings of data movement and indexing: canonical kinds and the same values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.frontend.models import assert_computes, imported, kinds, random

aten = torch.ops.aten
X = random(2, 4, 6)
IMAGE = random(1, 4, 8, 6)
INTS = torch.arange(24, dtype=torch.int32).reshape(2, 3, 4) - 7
FLAGS = random(2, 4, 6) > 0
VECTOR = random(6, seed=3)
MATRIX = random(5, 6, seed=4)

# (name, function, inputs, canonical kinds)
CASES: dict[str, tuple[Any, tuple[Any, ...], str]] = {}


def case(name: str, function: Any, inputs: Any, wanted: str) -> None:
    assert name not in CASES
    CASES[name] = (function, inputs, wanted)


# data movement
case("reshape", lambda x: x.reshape(4, -1), (X,), "view")
case("flatten", lambda x: x.flatten(1), (X,), "view")
case("unflatten", lambda x: x.unflatten(1, (2, 2)), (X,), "view")
case("squeeze", lambda x: x[:, :1].squeeze(), (X,), "slice view")
case("unsqueeze chain", lambda x: x.unsqueeze(0).unsqueeze(-1).squeeze(0), (X,), "view")
case("view there and back", lambda x: x.view(48).view(2, 4, 6), (X,), "")
case("transpose", lambda x: x.transpose(-1, 0), (X,), "permute")
case("transpose twice", lambda x: x.transpose(1, 0).transpose(0, 1), (X,), "")
case("t", lambda x: x[0].t(), (X,), "slice view permute")
case("mT", lambda x: x.mT, (X,), "permute")
case("numpy_T", lambda x: x.T, (random(3, 4),), "permute")
case("movedim", lambda x: x.movedim((0, 1), (2, 0)), (X,), "permute")
case("swapaxes", lambda x: x.swapaxes(0, 2), (X,), "permute")
case("permute of permute", lambda x: x.permute(2, 0, 1).permute(1, 0, 2), (X,), "permute")
case("expand", lambda x: x[:, :1].expand(2, 4, 6), (X,), "slice expand")
case("expand a rank", lambda x: x.expand(3, 2, 4, 6), (X,), "view expand")
case("expand only a rank", lambda x: x.expand(1, 2, 4, 6), (X,), "view")
case("expand_as", lambda x, y: x.expand_as(y), (random(1, 6), X[0]), "expand")
case(
    "broadcast_tensors",
    lambda x, y: torch.broadcast_tensors(x, y)[0],
    (random(4, 1), X),
    "view expand",
)
case("repeat", lambda x: x.repeat(1, 2, 1), (X,), "repeat")
case("repeat a rank", lambda x: x.repeat(2, 1, 1, 1), (X,), "view expand")
case("tile", lambda x: x.tile(2), (X,), "repeat")
case("repeat_interleave", lambda x: x.repeat_interleave(2, 1), (X,), "view expand view")
case("cat", lambda x, y: torch.cat([x, y, x], -1), (X, X + 1), "cat")
case("cat of one", lambda x: torch.cat([x]), (X,), "")
case("cat with nothing", lambda x: torch.cat([x, x.new_zeros(0), x[:, :0]], 1), (X,), "")
case("cat of types", lambda x, y: torch.cat([x, y]), (X, INTS.reshape(1, 4, 6)), "to cat")
case("stack", lambda x, y: torch.stack([x, y], 1), (X, X + 1), "view view cat")
case("split", lambda x: x.split(3, 1)[1], (X,), "slice")
case("split sizes", lambda x: x.split([1, 3], 1)[1], (X,), "slice")
case("chunk", lambda x: x.chunk(2, -1)[0], (X,), "slice")
case("tensor_split", lambda x: x.tensor_split(3, 2)[2], (X,), "slice")
case("unbind", lambda x: x.unbind(1)[2], (X,), "slice view")
case("select from the end", lambda x: x[:, -1], (X,), "slice view")
case("slice", lambda x: x[:, 1:-1, ::2], (X,), "slice slice")
case("slice of all", lambda x: x[:, 0:99], (X,), "")
case("empty slice", lambda x: x[:, 3:1], (X,), "slice")
case("narrow", lambda x: x.narrow(-1, 2, 3), (X,), "slice")
case("slice_scatter", lambda x, y: x.slice_scatter(y, 1, 1, 3), (X, X[:, :2]), "slice slice cat")
case("slice_scatter all", lambda x, y: x.slice_scatter(y, 1), (X, X + 1), "")
case(
    "slice_scatter steps",
    lambda x, y: x.slice_scatter(y, 2, 0, 6, 2),
    (X, X[:, :, :3]),
    "slice_scatter",
)
case("select_scatter", lambda x, y: x.select_scatter(y, 1, 3), (X, X[:, 0]), "view slice cat")
case("pad", lambda x: F.pad(x, (1, 2), value=3.0), (X,), "pad")
case("pad and crop", lambda x: F.pad(x, (-1, 2, 0, -1)), (X,), "slice slice pad")
case("crop", lambda x: F.pad(x, (-1, -1)), (X,), "slice")
case("pad nothing", lambda x: F.pad(x, (0, 0)), (X,), "")
case("pad integers", lambda x: F.pad(x, (1, 0), value=5), (INTS,), "pad")
case("reflect", lambda x: F.pad(x, (1, 2, 2, 1), "reflect"), (IMAGE,), "pad")
case("replicate", lambda x: F.pad(x, (1, 2), "replicate"), (X,), "pad")
case("circular", lambda x: F.pad(x, (1, 2, 2, 0), "circular"), (IMAGE,), "pad")
case("reflection_pad2d", lambda x: aten.reflection_pad2d(x, [1, 1, 2, 0]), (IMAGE,), "pad")
case("flip", lambda x: x.flip(-1, 0), (X,), "flip")
case("rot90", lambda x: torch.rot90(x, 1, (1, 2)), (X,), "flip permute")
case("rot90 back", lambda x: torch.rot90(x, -1, (0, 2)), (X,), "permute flip")
case("roll", lambda x: x.roll((1, -2), (0, 2)), (X,), "roll")
case("roll flat", lambda x: x.roll(5), (X,), "view roll view")
case("roll by the size", lambda x: x.roll(6, 2), (X,), "")
case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), (IMAGE,), "pixel_shuffle")
case(
    "pixel_unshuffle 3-D",
    lambda x: F.pixel_unshuffle(x, 2),
    (IMAGE[0],),
    "view pixel_unshuffle view",
)
case("channel_shuffle", lambda x: F.channel_shuffle(x, 2), (IMAGE,), "view permute view")
case("unfold", lambda x: x.unfold(-1, 3, 2), (X,), "unfold")
case("im2col", lambda x: F.unfold(x, 3, padding=1), (IMAGE,), "im2col")
case("col2im", lambda x: F.fold(x, (4, 4), 2), (random(1, 8, 9),), "col2im")
case("clone", lambda x: x.clone().contiguous(), (X,), "")

# indexing
TABLE = random(7, 3, seed=8)
IDS = torch.tensor([[1, 6], [0, 3]])
case("embedding", lambda i: F.embedding(i, TABLE, padding_idx=0), (IDS,), "embedding")
case("index_select", lambda x: x.index_select(-1, torch.tensor([0, 2])), (X,), "index_select")
case("gather", lambda x, i: x.gather(-1, i), (TABLE, torch.tensor([[2], [0]])), "gather")
case(
    "index by one tensor",
    lambda x, i: x[:, i],
    (X, torch.tensor([[3, 0], [1, 1]])),
    "view index_select view",
)
case("index from the end", lambda x: x[torch.tensor([-1, 0])], (X,), "index_select")
case(
    "index by a constant mask",
    lambda x: x[:, torch.tensor([True, False, True, True])],
    (X,),
    "index_select",
)
case("index by two tensors", lambda x, i: x[i, :, i], (X, torch.tensor([1, 0])), "index.Tensor")
case(
    "index_put",
    lambda x, i, v: x.index_put((i,), v),
    (X, torch.tensor([1]), X[:1] + 1),
    "index_put",
)
case(
    "index_copy",
    lambda x, s: x.index_copy(-2, torch.tensor([3]), s),
    (X, X[:, :1] + 1),
    "index_copy",
)
case("index_fill", lambda x: x.index_fill(1, torch.tensor([0, 3]), 2.0), (X,), "index_copy")
case("scatter", lambda x, i: x.scatter(1, i, 2.0), (TABLE, torch.tensor([[2], [0]])), "scatter.src")
case("topk", lambda x: x.topk(2, -1), (X,), "topk")
case("sort", lambda x: x.sort(1, descending=True), (X,), "sort")
case("argsort", lambda x: x.argsort(-1), (X,), "sort")
case("rfft2", lambda x: torch.fft.rfft2(x).imag, (X,), "fft_rfft2")


@pytest.mark.parametrize("name", CASES)
def test_spelling(name):
    function, inputs, wanted = CASES[name]
    graph = imported(function, *inputs)
    assert sorted(kinds(graph)) == sorted(wanted.split())
    assert_computes(graph, inputs, function(*inputs), atol=1e-5, rtol=1e-4)
