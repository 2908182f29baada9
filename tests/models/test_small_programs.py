"""Small whole programs, each for a kind that once came out wrong or was refused, compiled and run."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import npuc

INTEGER_TARGETS = ["tosa-1.0+int", "ethos-u55-128", "ethos-u85-256", "vgf"]


class Program(nn.Module):
    """A function as a module, with buffers that it gets as its first argument."""

    def __init__(self, function, **buffers):
        super().__init__()
        self.function = function
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def compiled(function, inputs, target, quantization=None, **buffers):
    """The checked compilation of `function(module, *inputs)`."""
    return npuc.compile(
        Program(function, **buffers), inputs, target=target, quantization=quantization,
        calibration=[inputs] if quantization else None, progress=False,
    )  # fmt: skip


def random(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(1, 4, 2, 2), (1, 2, 3), (1, 1, 2, 2, 2), (1, 1, 70, 70)])
@pytest.mark.parametrize("scale", [2.25, 1.3, 2.01])
def test_nearest_resize_to_twice_the_size_by_another_scale(shape, scale):
    """PyTorch's kernel for small images repeats each element, whatever the scale says."""
    x = random(*shape)

    def resize(m, x):
        return F.interpolate(x, scale_factor=scale, mode="nearest")

    c = compiled(resize, (x,), "tosa-1.0+fp")
    assert torch.equal(c.run(x), resize(None, x))


@pytest.mark.parametrize("target", INTEGER_TARGETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_what_is_only_handed_on_keeps_its_type(target, dtype):
    """Vela copies integers only: floats pass as their bits."""
    x, y, w = random(1, 2, 3, 4), random(2, 3, seed=1).to(dtype), random(3, seed=2).to(dtype)
    c = compiled(lambda m, x, y: (y, x * x, m.w, y), (x, y), target, "int8", w=w)
    first, square, constant, second = c.run(x, y)
    assert torch.equal(first, y) and torch.equal(second, y) and torch.equal(constant, w)
    assert (square - x * x).abs().max() < 0.01


def test_integers_are_indexed_on_a_target_that_does_not_reshape_them():
    """PRO-FP has no RESHAPE of INT32: the choice of shapes leaves such values alone."""
    x = torch.arange(-60, 60, dtype=torch.int32).reshape(4, 3, 2, 5) * 10**7
    rows, columns = torch.tensor([0, 3]), torch.tensor([2, 1])

    def pick(m, x, rows, columns):
        return x[rows, columns, torch.ones_like(rows)]

    c = compiled(pick, (x, rows, columns), "tosa-1.0+fp")
    assert torch.equal(c.run(x, rows, columns), pick(None, x, rows, columns))


@pytest.mark.parametrize("target", INTEGER_TARGETS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int8, torch.int64, torch.bool])
def test_quantized_values_become_integers(target, dtype):
    """Numbers are cut off towards zero, from the codes and without floats."""
    x = torch.linspace(-12.7, 12.6, 40).reshape(4, 10)
    c = compiled(lambda m, x: (x + x).to(dtype), (x,), target, "int8")
    got, real = c.run(x), x + x
    assert got.dtype is dtype
    if dtype is torch.bool:
        assert torch.equal(got, real.abs() > c.io.inputs[0].scale / 2)
    else:  # one step of the codes may lie across a whole number
        step = 25.4 * 2 / 255
        low, high = (real - step).trunc().to(dtype), (real + step).trunc().to(dtype)
        assert ((got >= low) & (got <= high)).all()


@pytest.mark.parametrize("target", INTEGER_TARGETS)
def test_a_cache_of_bytes_is_written_and_read(target):
    """The model quantizes what it keeps: division, rounding, cast, write, cast back, product."""
    cache, scale = torch.zeros(2, 6, 4, dtype=torch.int8), random(1, 1, 4, seed=3) / 50 + 0.01

    def step(m, x, place):
        codes = torch.round(x / m.scale).clamp(-128, 127).to(torch.int8)
        kept = m.cache.clone()
        kept[:, place] = codes
        return kept.to(torch.float32) * m.scale

    inputs = random(2, 1, 4) - 0.5, torch.tensor([3])
    c = compiled(step, inputs, target, "int8", cache=cache, scale=scale)
    want = step(Program(None, cache=cache, scale=scale), *inputs)
    assert (c.run(*inputs) - want).abs().max() < 0.04 and want.abs().max() > 0.3


@pytest.mark.parametrize("target", ["tosa-1.0+int", "ethos-u85-256", "vgf"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_sample_of_quantized_values(target, mode):
    x, grid = random(1, 3, 6, 5), random(1, 4, 4, 2, seed=1) * 2.4 - 1.2
    c = compiled(
        lambda m, x, grid: F.grid_sample(x, grid, mode=mode, align_corners=False),
        (x, grid), target, "int8",
    )  # fmt: skip
    quant = c.io.inputs[1]
    codes = torch.round(grid / quant.scale) + quant.zero_point
    places = (codes - quant.zero_point) * quant.scale
    want = F.grid_sample(x, places, mode=mode, align_corners=False)
    assert (c.run(x, grid) - want).abs().max() < 0.02


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
@pytest.mark.parametrize(
    "pick",
    [
        lambda x: torch.cat([x[:, :, 0].reshape(3, 1, 9, 8), x[:, :, 2].reshape(3, 1, 9, 8)]) * 1.5,
        lambda x: x[:, :, 1:2].reshape(3, 1, 9, 8).tanh(),
        lambda x: x.reshape(1, 3, 2, 2, 9, 8)[:, :, :, 1:2].reshape(3, 2, 1, 9, 8).tanh(),
    ],
)
def test_a_slice_that_loses_a_leading_axis(target, pick):
    """Vela overflows its stack where a slice of rank 5 loses its first axis behind it."""
    x = random(1, 3, 4, 9, 8)
    c = compiled(lambda m, x: pick(x), (x,), target, "int8")
    assert (c.run(x) - pick(x)).abs().max() < 0.02


def test_expansions_name_the_op_of_the_model():
    """PyTorch's expansion ends in an op that nobody knows: the user has never written it."""
    x = random(3, 4)
    with pytest.raises(npuc.Unsupported, match=r"^aten\.fft_fft at .*complex numbers"):
        compiled(lambda m, x: torch.fft.fft(x).real, (x,), "tosa-1.0+fp")
    with pytest.raises(npuc.Unsupported, match=r"^aten\.adaptive_max_pool3d at .*no lowering rule"):
        compiled(lambda m, x: F.adaptive_max_pool3d(x, 2), (random(1, 1, 5, 5, 5),), "tosa-1.0+fp")


def test_16_bit_values_equal_the_number_that_they_are():
    """The largest value seen is a code in spite of the headroom above it."""
    x = torch.ones(7)
    c = compiled(lambda m, x: x == 1.0, (x,), "tosa-1.0+int+int16", "a16w8")
    assert c.run(x).all()


@pytest.mark.parametrize("target", ["tosa-1.0+int+int16", "ethos-u55-128"])
def test_16_bit_functions_at_the_ends_of_their_domains(target):
    """A code cannot tell 1e-6 from zero: its logarithm is the lowest that was seen."""
    x = 10 * random(1, 64)
    x[0, :4] = 0
    want = x.clamp(min=1e-6).log()
    got = compiled(lambda m, x: x.clamp(min=1e-6).log(), (x,), target, "a16w8").run(x)
    assert (got - want)[:, :4].abs().max() < 1e-3
    ones = torch.tensor([[1.0, 20.0]])
    got = compiled(lambda m, x: x.acosh(), (ones,), target, "a16w8").run(ones)
    assert (got - ones.acosh()).abs().max() < 0.05
    zeros = torch.zeros(1, 8)
    assert not compiled(lambda m, x: x.asinh(), (zeros,), target, "a16w8").run(zeros).any()


def test_attention_of_16_bits_on_u55_says_which_override_makes_it_possible():
    x = random(1, 2, 8, 16)

    def attend(m, x):
        return F.scaled_dot_product_attention(x, x, x)

    override = r'recipe\.ops\["aten\.scaled_dot_product_attention"\] = "int8"'
    with pytest.raises(npuc.Unsupported, match=f"MATMUL for INT8 only(.|\n)*{override}"):
        compiled(attend, (x,), "ethos-u55-128", "a16w8")
    recipe = npuc.Recipe.named("a16w8")
    recipe.ops["aten.scaled_dot_product_attention"] = "int8"
    c = compiled(attend, (x,), "ethos-u55-128", recipe)
    assert (c.run(x) - attend(None, x)).abs().max() < 0.02


def test_models_of_half_floats_are_checked_by_the_steps_of_these():
    x = random(3, 3).bfloat16()
    got = compiled(lambda m, x: x.sin() + 2 * x, (x,), "tosa-1.0+int+int16", "a16w8").run(x)
    assert (got.float() - (x.float().sin() + 2 * x.float())).abs().max() < 0.01
