"""One compiled program at several sizes, among them the bounds, against PyTorch and the reference
model; open sizes together with state, branches, loops and channels-last tensors."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import npuc
from npuc.check.report import sqnr_db
from npuc.errors import BadInput

torch.set_num_threads(1)

BATCH, TIME = Dim("batch", min=1, max=4), Dim("time", min=4, max=19)
HEIGHT, WIDTH = Dim("height", min=8, max=17), Dim("width", min=9, max=16)
IMAGE, SEQUENCE = {0: BATCH, 2: HEIGHT, 3: WIDTH}, {0: BATCH, 1: TIME}
BLOCKS = {0: BATCH, 2: 4 * Dim("rows", min=2, max=5), 3: 4 * Dim("columns", min=3, max=6)}
#: the exported sizes first, then both bounds, then sizes with other remainders
IMAGES = ((2, 3, 12, 12), (1, 3, 8, 9), (4, 3, 17, 16), (3, 3, 15, 11))
SEQUENCES = ((2, 7, 8), (1, 4, 8), (4, 19, 8), (3, 10, 8))


class Classifier(nn.Module):
    """Strided and padded convolutions, pools, a gate by means, and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.depth = nn.Sequential(nn.Conv2d(8, 8, 5, 1, 2, groups=8), nn.Hardswish())
        self.gate, self.last = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 6, 4, padding="same")
        self.head = nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.max_pool2d(self.first(x), 3, 2, 1)
        y = self.depth(y)
        y = y * torch.sigmoid(self.gate(y.mean((2, 3), keepdim=True)))
        y = torch.relu(self.last(F.avg_pool2d(y, 3, 1, 1)))
        return self.head(F.adaptive_avg_pool2d(y, 1).flatten(1))


class Segmenter(nn.Module):
    """Down and up again: transposed convolution, both resizes, skips."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.mid = nn.Conv2d(3, 6, 3, 2, 1), nn.Conv2d(6, 6, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(6, 4, 2, 2), nn.Conv2d(7, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.down(x))
        z = F.interpolate(F.avg_pool2d(y, 2), scale_factor=2.0, mode="nearest")
        y = self.up(torch.relu(self.mid(y + z)))
        y = torch.cat([y, x], 1)
        return F.interpolate(self.out(y), scale_factor=2.0, mode="bilinear")


class Encoder(nn.Module):
    """A transformer block over a sequence with positions, and the mean of its tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.register_buffer("places", torch.randn(1, 32, 8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.block(x + self.places[:, : x.shape[1]])
        return y, y.mean(1)


class Causal(nn.Module):
    """Attention that looks back only, and the last token's scores."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, t, c))[:, -1].softmax(-1)


class Audio(nn.Module):
    """1-d convolutions with stride and dilation, an LSTM over a batch, a padded tail."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(8, 8, 5, 2, 2)
        self.second = nn.Conv1d(8, 8, 3, padding=2, dilation=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.gelu(self.first(x.transpose(1, 2)))
        y = F.pad(torch.tanh(self.second(y)), (0, y.shape[2] % 2))
        return torch.cat([y.amax(2), y.std(2)], 1)


class Stream(nn.Module):
    """A streaming convolution over pieces of any length, and a count of the pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 6, 3)
        self.register_buffer("past", torch.zeros(1, 8, 2))
        self.register_buffer("pieces", torch.zeros(1, dtype=torch.int32))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.cat([self.past, x], 2)
        self.past.copy_(y[:, :, -2:])
        self.pieces.add_(1)
        return torch.relu(self.conv(y)), self.pieces


class Cache(nn.Module):
    """Attention over a cache of keys into which any number of positions is written."""

    def __init__(self) -> None:
        super().__init__()
        self.k = nn.Linear(8, 8)
        self.register_buffer("cache", torch.linspace(-0.2, 0.2, 128).reshape(1, 16, 8))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        self.cache.index_copy_(1, place, self.k(x))
        scores = torch.softmax(x @ self.cache.transpose(1, 2) * 0.35, -1)
        return scores @ self.cache


class Memory(nn.Module):
    """A cell over a batch whose mean is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 7)
        self.register_buffer("h", torch.zeros(1, 7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.cell(x, self.h.expand(x.shape[0], -1))
        self.h.copy_(h.mean(0, keepdim=True))
        return h


class Branches(nn.Module):
    """One of two ways through an image, then a convolution; the ways are of unlike layout."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 1)
        self.c = nn.Conv2d(4, 2, 3, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(
            x.mean() > 0, lambda x: torch.relu(self.a(x)),
            lambda x: self.b(x - x.mean((2, 3), keepdim=True)), (x,),
        )  # fmt: skip
        return self.c(y)


class Loop(nn.Module):
    """Three rounds of centring and mixing."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def body(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, torch.tanh(self.mix(y - y.mean(1, keepdim=True)))

        return while_loop(lambda i, y: i < 3, body, (torch.zeros((), dtype=torch.int32), x))[1]


@dataclass(frozen=True)
class Case:
    """A model, its open sizes, and the inputs of one run after the other; the first is exported."""

    model: type[nn.Module]
    open: tuple[Any, ...]
    runs: list[tuple[torch.Tensor, ...]]
    needs: str = ""


def _runs(shapes: Any, shift: float = 0.0) -> list[tuple[torch.Tensor, ...]]:
    g = torch.Generator().manual_seed(3)
    return [(torch.randn(s, generator=g) + shift * (-1) ** i,) for i, s in enumerate(shapes)]


def _places(counts: tuple[int, ...]) -> list[tuple[torch.Tensor, ...]]:
    starts = [sum(counts[:i]) for i in range(len(counts))]
    return [
        (*x, torch.arange(s, s + n))
        for x, s, n in zip(_runs([(1, n, 8) for n in counts]), starts, counts, strict=True)
    ]


COUNT = Dim("count", min=1, max=6)
CASES = {
    "classifier": Case(Classifier, (IMAGE,), _runs(IMAGES)),
    "segmenter": Case(
        Segmenter, (BLOCKS,), _runs([(2, 3, 12, 16), (1, 3, 8, 12), (4, 3, 20, 24), (3, 3, 16, 20)])
    ),
    "encoder": Case(Encoder, (SEQUENCE,), _runs(SEQUENCES)),
    "causal": Case(Causal, (SEQUENCE,), _runs(SEQUENCES)),
    "audio": Case(Audio, (SEQUENCE,), _runs(SEQUENCES)),
    "stream": Case(Stream, ({2: TIME},), _runs([(1, 8, n) for n in (7, 4, 19, 5)])),
    "cache": Case(Cache, ({1: COUNT}, {0: COUNT}), _places((3, 1, 6, 2))),
    "memory": Case(Memory, ({0: BATCH},), _runs([(n, 8) for n in (3, 1, 4, 2)])),
    "branches": Case(Branches, (IMAGE,), _runs(IMAGES, 0.5), "+cf"),
    "loop": Case(Loop, (SEQUENCE,), _runs(SEQUENCES), "+cf"),
}


def compiled(case: Case, quantization: str | None, **options: Any) -> tuple[Any, nn.Module]:
    torch.manual_seed(1)
    model = case.model().eval()
    profile = "int" if quantization else "fp"
    options.setdefault("target", f"tosa-1.1+{profile}+shape{case.needs}")
    options.setdefault("dynamic_shapes", case.open)
    if quantization:
        options["calibration"] = case.runs
    c = npuc.compile(
        copy.deepcopy(model), case.runs[0], quantization=quantization, progress=False, **options
    )
    return c, model


def compare(c: Any, model: nn.Module, case: Case, least_db: float) -> None:
    """All runs in one sequence, on the evaluator and on the reference model."""
    codes: dict[str, list[torch.Tensor]] = {"evaluator": [], "reference-model": []}
    for on, results in codes.items():
        c.reset()
        torch_model = copy.deepcopy(model)
        for inputs in case.runs:
            with torch.no_grad():
                wanted = torch.utils._pytree.tree_leaves(torch_model(*inputs))
            got = torch.utils._pytree.tree_leaves(c.run(*inputs, on=on))
            results += got
            for w, g in zip(wanted, got, strict=True):
                assert w.shape == g.shape
                if w.is_floating_point():
                    assert sqnr_db(g.numpy(), w.numpy()) > least_db, tuple(inputs[0].shape)
                else:
                    assert torch.equal(w, g.to(w.dtype))
    for ours, theirs in zip(*codes.values(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_float(name: str) -> None:
    compare(*compiled(CASES[name], None), CASES[name], 90)


@pytest.mark.parametrize("name", CASES)
def test_int8(name: str) -> None:
    compare(*compiled(CASES[name], "int8"), CASES[name], 14)


@pytest.mark.parametrize("name", ["classifier", "branches"])
def test_channels_last(name: str) -> None:
    """Nothing is transposed, as for fixed sizes."""
    c, model = compiled(CASES[name], "int8", io_layout="channels_last")
    assert [op for op in c.graph.walk() if op.kind == "tosa.TRANSPOSE"] == []
    compare(c, model, CASES[name], 14)


@pytest.mark.parametrize("name", ["classifier", "segmenter", "encoder", "causal"])
def test_no_more_is_moved_than_for_fixed_sizes(name: str) -> None:
    def count(open_sizes: Any) -> int:
        c, _ = compiled(CASES[name], None, dynamic_shapes=open_sizes, check=False)
        return sum(op.kind == "tosa.TRANSPOSE" for op in c.graph.ops)

    assert count(CASES[name].open) == count(None)


def test_sizes_outside_the_bounds_are_refused() -> None:
    c, _ = compiled(CASES["classifier"], None)
    with pytest.raises(BadInput, match=r"height is 18, outside 8\.\.17"):
        c.run(torch.zeros(1, 3, 18, 12))
    with pytest.raises(BadInput, match=r"batch is 5, outside 1\.\.4"):
        c.run(torch.zeros(5, 3, 12, 12))


@pytest.mark.parametrize(
    ("target", "form"),
    [("tosa-1.1+fp", {}), ("tflite", {}), ("vgf", {"format": "pte"})],
)
def test_targets_of_fixed_sizes_say_so(target: str, form: dict[str, str]) -> None:
    wanted = (
        r"input x: axis 0 is batch \(1\.\.4\), axis 1 is time \(4\.\.19\), known only at run time, "
        rf"and {target.replace('+', '.')} takes fixed sizes; compile once per size with "
        r"sizes=.'batch': 4, 'time': 19. \(npuc compile --size batch=4 --size time=19\)"
    )
    with pytest.raises(npuc.Unsupported, match=wanted) as refusal:
        compiled(CASES["causal"], None, target=target, **form)
    assert len(refusal.value.reasons) == 1


def test_explain_says_it_of_every_op() -> None:
    case, target = CASES["causal"], "ethos-u55-128"
    coverage = npuc.explain(
        case.model().eval(), case.runs[0], target=target, dynamic_shapes=case.open, progress=False
    )
    assert len(coverage) > 5
    assert all(f"{target} takes fixed sizes" in v.reason.why for v in coverage)


def test_some_sizes_fixed() -> None:
    """What is fixed is a number in the artifact, the rest stays open."""
    case = CASES["classifier"]
    c, model = compiled(case, None, sizes={"batch": 3})
    assert [str(d) for d in c.io.inputs[0].shape] == ["3", "3", "height", "width"]
    fixed = replace(case, runs=_runs([(3, *s[1:]) for s in IMAGES]))
    compare(c, model, fixed, 90)
    with pytest.raises(BadInput, match=r"expected \(3, 3, height, width\)"):
        c.run(torch.zeros(2, 3, 12, 12))


def test_all_sizes_fixed_for_a_chip() -> None:
    case = CASES["classifier"]
    sizes = {"batch": 1, "height": 17, "width": 9}
    c, model = compiled(case, "int8", sizes=sizes, target="ethos-u55-128")
    (x,) = _runs([(1, 3, 17, 9)])[0]
    with torch.no_grad():
        assert sqnr_db(c.run(x).numpy(), model(x).numpy()) > 14
