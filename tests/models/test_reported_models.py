"""Models as people write them, which once were refused, wrong, or failed in npuc's own check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import npuc

torch.set_num_threads(1)


def decibels(got: Any, want: torch.Tensor) -> float:
    """Signal to noise of a result against PyTorch's."""
    w, g = want.detach().double().numpy(), got.detach().double().numpy()
    return float(10 * np.log10((w**2).sum() / max(((g - w) ** 2).sum(), 1e-30)))


def right(model: nn.Module, inputs: tuple[Any, ...], target: str, least: float = 30.0) -> Any:
    """Compile `model` (int8 where the target has no floats) with the self-check, compare the first
    output with eager PyTorch, and return the compilation."""
    is_float = target in ("tosa-1.0+fp", "vgf")
    quantization = None if is_float else "int8"
    with torch.no_grad():
        want = model(*inputs)
    c = npuc.compile(model, inputs, target=target, quantization=quantization, progress=False,
                     calibration=None if is_float else [inputs])  # fmt: skip
    got = c.run(*inputs)
    first = (got, want) if isinstance(want, torch.Tensor) else (got[0], want[0])
    assert first[0].shape == first[1].shape and first[0].dtype == first[1].dtype
    assert decibels(*first) > (90 if is_float else least)
    return c


class InstantNorm(nn.Module):
    """DTLN's: the same difference is read with 8 bits and, squared, with 16."""

    def forward(self, x):
        x = torch.log(x + 1e-7)
        mean = x.mean(-1, keepdim=True)
        variance = torch.square(x - mean).mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + 1e-7)


@pytest.mark.parametrize("target", ["ethos-u85-256", "tflite"])
def test_each_form_of_a_value_is_checked_by_itself(target):
    torch.manual_seed(0)
    right(InstantNorm(), (torch.rand(1, 1, 24),), target)


class GruOfTanh(nn.Module):
    """RNNoise's: LiteRT's TANH has 16 bits, the value that the GRU reads has 8."""

    def __init__(self):
        super().__init__()
        self.dense, self.gru = nn.Linear(14, 12), nn.GRU(12, 12, batch_first=True)

    def forward(self, x):
        return self.gru(torch.tanh(self.dense(x)))[0]


def test_a_value_of_8_bits_between_16_bit_ones_is_rounded():
    torch.manual_seed(0)
    right(GruOfTanh().eval(), (torch.randn(1, 3, 14),), "tflite")


class Distances(nn.Module):
    """PatchCore's and prototypical networks': distances to rows that were seen in training."""

    def __init__(self, p: float, count: int = 5):
        super().__init__()
        self.p = p
        self.register_buffer("bank", torch.randn(count, 8))

    def forward(self, x):
        return torch.cdist(x, self.bank, p=self.p)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_distances(p):
    torch.manual_seed(0)
    right(Distances(p), (torch.randn(2, 3, 8),), "tosa-1.0+fp")


@pytest.mark.parametrize("target", ["tosa-1.0+int", "ethos-u55-128", "tflite"])
def test_quantized_distances(target):
    torch.manual_seed(0)
    right(Distances(2.0), (torch.randn(6, 8),), target)


def test_distances_of_many_rows_are_a_product():
    torch.manual_seed(0)
    c = right(Distances(2.0, 40_000), (torch.randn(16, 8),), "tosa-1.0+fp")
    assert max(r.type.size for op in c.graph.ops for r in op.results) < 2**21


class Bags(nn.Module):
    def __init__(self, mode: str):
        super().__init__()
        self.bag = nn.EmbeddingBag(10, 4, mode=mode)

    def forward(self, ids):
        return self.bag(ids)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_one_size(mode):
    torch.manual_seed(0)
    right(Bags(mode), (torch.randint(0, 10, (3, 4)),), "tosa-1.0+fp")
    right(Bags(mode), (torch.randint(0, 10, (3, 4)),), "tosa-1.0+int")


class BagsAt(Bags):
    def forward(self, ids, offsets):
        return self.bag(ids, offsets)


def test_bags_of_open_sizes_are_refused():
    inputs = (torch.randint(0, 10, (6,)), torch.tensor([0, 2]))
    with pytest.raises(npuc.Unsupported, match="bags of different sizes"):
        npuc.compile(BagsAt("sum"), inputs, target="tosa-1.0+fp", progress=False)


class OneHot(nn.Module):
    def forward(self, ids):
        return nn.functional.one_hot(ids, 5).float() * 0.5


def test_one_hot_of_an_input():
    right(OneHot(), (torch.tensor([0, 3, 2]),), "tosa-1.0+fp")


class MaskWrites(nn.Module):
    """In-place writes by masks of all, of the leading and of the last dimensions."""

    def forward(self, x, m):
        y = x.clone()
        y[x > 1] = -3.0
        y[m[:, 0]] = x.mean((0, 1))
        y[:, m[0]] = torch.full((6,), 2.0)
        return y


@pytest.mark.parametrize("target", ["tosa-1.0+fp", "tosa-1.0+int", "ethos-u55-128", "tflite"])
def test_writes_by_masks_are_choices(target):
    torch.manual_seed(0)
    right(MaskWrites(), (torch.randn(2, 4, 6), torch.rand(2, 4) > 0.5), target)


class Finite(nn.Module):
    def forward(self, x):
        return torch.where(torch.isfinite(x) & ~torch.isnan(x), x, torch.zeros_like(x)) * 0.5


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_tests_for_nan_of_integers(target):
    right(Finite(), (torch.linspace(-1, 1, 15).view(3, 5),), target)


class Smallest(nn.Module):
    def forward(self, x):
        return x.topk(3, largest=False)


def test_smallest_elements_in_tflite():
    x = (torch.arange(20.0).view(2, 10) * 7) % 20 - 8
    c = right(Smallest(), (x,), "tflite", 40)
    assert torch.equal(c.run(x)[1], x.topk(3, largest=False)[1])


def test_order_on_a_chip_without_scatter_is_refused():
    x = torch.randn(2, 10)
    with pytest.raises(npuc.Unsupported, match="ethos-u55-128 does not have; amax and argmax"):
        npuc.compile(Smallest(), (x,), quantization="int8", calibration=[(x,)], progress=False)


class SuperResolution(nn.Module):
    """ESPCN with a bicubic skip."""

    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(1, 9, 3, padding=1)

    def forward(self, x):
        skip = nn.functional.interpolate(x, scale_factor=3, mode="bicubic")
        return nn.functional.pixel_shuffle(self.body(x), 3) + skip


@pytest.mark.parametrize("target", ["tosa-1.0+int", "ethos-u55-128", "tflite"])
def test_bicubic_skip(target):
    torch.manual_seed(0)
    right(SuperResolution(), (torch.rand(1, 1, 6, 7),), target)


class ScriptedPart(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = torch.jit.script(nn.ReLU())

    def forward(self, x):
        return self.part(x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("made", [torch.jit.script, lambda m: torch.jit.trace(m, torch.ones(2))])
def test_torchscript_is_refused(made):
    with pytest.raises(npuc.BadInput, match="a TorchScript model"):
        npuc.compile(made(nn.ReLU()), (torch.ones(2),), progress=False)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_torchscript_part_is_named():
    with pytest.raises(npuc.BadInput, match="part is TorchScript"):
        npuc.compile(ScriptedPart(), (torch.ones(2),), progress=False)


class Keywords(nn.Module):
    def forward(self, x, *, scale, bias=None):
        return x * scale if bias is None else x * scale + bias


def test_keyword_inputs_that_are_missing():
    given = ((torch.ones(2),), {"scale": torch.ones(2), "bias": torch.ones(2)})
    c = npuc.compile(Keywords(), given, target="tosa-1.0+fp", progress=False)
    assert c.run(*given).tolist() == [2, 2]
    with pytest.raises(npuc.BadInput, match="keyword inputs scale: Keywords takes scale, bias"):
        c.run(torch.ones(2), torch.ones(2))
    with pytest.raises(npuc.BadInput, match="4 inputs given: Keywords takes 1 and scale, bias"):
        c.run(*[torch.ones(2)] * 4)


class Warp(nn.Module):
    """Optical flow: the floor of a position is an index, which has to be exact."""

    def forward(self, x, flow):
        h, w = x.shape[2:]
        grid = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
        grid = torch.stack(grid[::-1], -1)[None] + flow.permute(0, 2, 3, 1) * 0.1
        return nn.functional.grid_sample(x, grid, align_corners=True, padding_mode="border")


@pytest.mark.parametrize("target", ["tosa-1.0+int", "tflite"])
def test_floors_of_positions_are_exact(target):
    torch.manual_seed(0)
    right(Warp(), (torch.randn(1, 4, 6, 7), torch.randn(1, 2, 6, 7)), target, least=23)


class Peaks(nn.Module):
    """CenterNet's: scores that are equal in 8 bits come in any order."""

    def forward(self, x):
        scores, places = torch.sigmoid(x).flatten(1).topk(5)
        return scores, places % 8, places // 8


@pytest.mark.parametrize("target", ["tosa-1.0+int", "tflite"])
def test_equal_scores_come_in_any_order(target):
    torch.manual_seed(0)
    c = right(Peaks(), (torch.rand(1, 1, 8, 8) / 16,), target)
    assert c.check.other_path, "the highest scores differ by less than a step"


class Experts(nn.Module):
    """A gate of two experts out of four: zeros of a constant, and values at places of top-k."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        gate = torch.softmax(self.gate(x), -1)
        values, places = gate.topk(2, -1)
        gate = torch.zeros_like(gate).scatter(-1, places, values / values.sum(-1, keepdim=True))
        return sum(gate[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))


@pytest.mark.parametrize("target", ["tosa-1.0+fp", "tosa-1.0+int", "tflite"])
def test_experts(target):
    torch.manual_seed(0)
    right(Experts(), (torch.randn(3, 8),), target)


class Camera(nn.Module):
    """An image of bytes, as the camera gives it, is normalized in the model."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, image):
        x = image.permute(0, 3, 1, 2).to(torch.float32) / 127.5 - 1
        return self.conv(x)


@pytest.mark.parametrize("target", ["vgf", "tosa-1.0+int", "ethos-u55-128", "tflite"])
def test_images_of_bytes(target):
    torch.manual_seed(0)
    right(Camera(), (torch.randint(0, 256, (1, 8, 8, 3), dtype=torch.uint8),), target)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_quantized_models_of_short_floats_give_their_type(dtype):
    torch.manual_seed(0)
    right(nn.Linear(8, 4).to(dtype), (torch.randn(2, 8, dtype=dtype),), "tosa-1.0+int")


class Counts(nn.Module):
    """Lengths and choices of integers, as a greedy decoder has them."""

    def forward(self, x, ids):
        chosen = torch.where(x > 0, ids, torch.full_like(ids, -1))
        return x * 0.5, chosen, ids.sum(1), (x > 0).sum(1), (x > 0).sum()


@pytest.mark.parametrize("target", ["tosa-1.0+fp", "tosa-1.0+int", "vgf"])
def test_integers_on_every_profile(target):
    torch.manual_seed(0)
    inputs = (torch.randn(2, 5), torch.randint(-(2**20), 2**20, (2, 5)))
    results = right(Counts(), inputs, target).run(*inputs)
    for got, want in zip(results[1:], Counts()(*inputs)[1:], strict=True):
        assert torch.equal(got, want)


class SixAxes(nn.Module):
    def forward(self, x):
        return x.sum(3)


@pytest.mark.parametrize("target", ["tosa-1.0+int", "ethos-u55-128"])
def test_sums_of_six_axes(target):
    right(SixAxes(), (torch.randn(1, 2, 3, 5, 2, 2),), target)


@pytest.mark.parametrize("target", ["tosa-1.0+fp", "tosa-1.0+int"])
@pytest.mark.parametrize("bits", [8, 4])
def test_weights_that_torchao_quantized(target, bits):
    from torchao.quantization import Int8WeightOnlyConfig, IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerGroup

    blocks = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)).eval()
    quantize_(model, Int8WeightOnlyConfig() if bits == 8 else blocks)
    right(model, (torch.randn(2, 64),), target)


REFUSED = {
    "random numbers": (lambda x: x + torch.randn_like(x), "make them an input of the model"),
    "a mask that picks": (lambda x: x[x > 0], "torch.where(mask, x, 0)"),
    "complex numbers": (lambda x: torch.fft.rfft(x).abs(), "a product with cosines and sines"),
}


class Wrapped(nn.Module):
    def __init__(self, function: Any):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_to_do(name):
    function, text = REFUSED[name]
    x = torch.randn(2, 8)
    with pytest.raises(npuc.Unsupported) as error:
        npuc.compile(Wrapped(function), (x,), target="tosa-1.0+fp", progress=False)
    assert text in str(error.value)
    verdicts = npuc.explain(Wrapped(function), (x,), target="tosa-1.0+fp", progress=False)
    assert any(text in v.reason.hint for v in verdicts.refused)
    assert all(v.loc.file.endswith("test_reported_models.py") for v in verdicts.refused)


class MaskedMean(nn.Module):
    """A mask and lengths beside floats, without a cast."""

    def forward(self, x, lengths):
        mask = torch.arange(x.shape[1])[None] < lengths[:, None]
        return (x * mask[..., None]).sum(1) / lengths[:, None].float(), x + lengths[:, None, None]


@pytest.mark.parametrize("target", ["tosa-1.0+fp", "tosa-1.0+int", "ethos-u55-128", "tflite"])
def test_masks_and_integers_beside_floats(target):
    torch.manual_seed(0)
    right(MaskedMean(), (torch.randn(2, 6, 8), torch.tensor([4, 6])), target)
