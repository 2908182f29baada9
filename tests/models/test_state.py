"""Models that keep state (mutated buffers): each step on every executor against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import npuc
from npuc.compilation import Compilation

torch.set_num_threads(1)

#: ranges leave room for samples to come, which costs the few and small ones of this file 2 to 4 dB
INT8_DB = 27

Write = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]


class Cache(nn.Module):
    """Attention over a cache of keys; `write(cache, position, key)` writes into it."""

    def __init__(self, write: Write) -> None:
        super().__init__()
        self.write = write
        self.k = nn.Linear(8, 8)
        self.register_buffer("cache", torch.linspace(-0.2, 0.2, 48).reshape(1, 6, 8))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        self.write(self.cache, position, self.k(x))
        scores = torch.softmax(x @ self.cache.transpose(1, 2) * 0.35, -1)
        return scores @ self.cache


def put(cache: torch.Tensor, position: torch.Tensor, key: torch.Tensor) -> None:
    cache[:, position] = key


def put_static(cache: torch.Tensor, position: torch.Tensor, key: torch.Tensor) -> None:
    cache[:, 2:3] = key


def shift(cache: torch.Tensor, position: torch.Tensor, key: torch.Tensor) -> None:
    cache.copy_(torch.cat([cache[:, 1:], key], 1))


def scatter_slice(cache: torch.Tensor, position: torch.Tensor, key: torch.Tensor) -> None:
    cache.copy_(torch.slice_scatter(cache, key, 1, 3, 4))


def mask(cache: torch.Tensor, position: torch.Tensor, key: torch.Tensor) -> None:
    cache.copy_(torch.where(torch.arange(6)[None, :, None] == position, key, cache))


CACHES: dict[str, Write] = {
    "index_copy": lambda cache, position, key: cache.index_copy_(1, position, key),
    "index_put": put,
    "static": put_static,
    "copy": shift,
    "slice_scatter": scatter_slice,
    "mask": mask,
}


class Stream(nn.Module):
    """A streaming convolution with the last two samples, and a count of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 6, 3)
        self.register_buffer("past", torch.zeros(1, 4, 2))
        self.register_buffer("steps", torch.zeros(1, dtype=torch.int32))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.cat([self.past, x], 2)
        self.past.copy_(y[:, :, -2:])
        self.steps.add_(1)
        return torch.relu(self.conv(y)), self.steps * 2


class Images(nn.Module):
    """A convolution over the last image and this one: state of rank 4."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 3, 3, padding=1)
        self.register_buffer("last", torch.full((1, 2, 5, 6), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.conv(torch.cat([x, self.last], 1)))
        self.last.copy_(y[:, 1:])
        return y


class Recurrent(nn.Module):
    """A GRU cell and an LSTM whose states are buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.lstm = nn.GRUCell(5, 7), nn.LSTM(7, 4, batch_first=True)
        self.register_buffer("hidden", torch.full((1, 7), 0.25))
        self.register_buffer("h", torch.zeros(1, 1, 4))
        self.register_buffer("c", torch.zeros(1, 1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.cell(x, self.hidden)
        self.hidden.copy_(hidden)
        y, (h, c) = self.lstm(hidden[:, None], (self.h, self.c))
        self.h.copy_(h)
        self.c.copy_(c)
        return y


def make(name: str) -> tuple[nn.Module, list[Any]]:
    """A model at its initial state and the inputs of some steps."""
    torch.manual_seed(1)
    if name in CACHES:
        steps = [(torch.randn(1, 1, 8), torch.tensor([i])) for i in (0, 1, 2, 4, 5, 3)]
        return Cache(CACHES[name]).eval(), steps
    if name == "stream":
        return Stream().eval(), [(torch.randn(1, 4, 3),) for _ in range(5)]
    if name == "images":
        return Images().eval(), [(torch.randn(1, 2, 5, 6),) for _ in range(4)]
    return Recurrent().eval(), [(torch.randn(1, 5),) for _ in range(5)]


NAMES = [*CACHES, "stream", "images", "recurrent"]


def compiled(name: str, target: str, **options: Any) -> Compilation:
    model, steps = make(name)
    if options.get("quantization"):
        options["calibration"] = steps
    return npuc.compile(model, steps[0], target=target, progress=False, **options)


def compare(c: Compilation, name: str, least_db: float, on: str) -> None:
    """All steps from the initial state, in one sequence."""
    model, steps = make(name)
    c.reset()
    signal = noise = 0.0
    for step in steps:
        with torch.no_grad():
            want = torch.utils._pytree.tree_leaves(model(*step))
        got = torch.utils._pytree.tree_leaves(c.run(*step, on=on))
        for w, g in zip(want, got, strict=True):
            if not w.is_floating_point():
                assert torch.equal(w, g.to(w.dtype))
                continue
            signal += float((w**2).sum())
            noise += float(((w - g) ** 2).sum())
    assert 10 * np.log10(signal / max(noise, 1e-30)) > least_db


@pytest.mark.parametrize("name", NAMES)
def test_float(name: str) -> None:
    c = compiled(name, "tosa-1.0+fp")
    compare(c, name, 110, "evaluator")
    compare(c, name, 110, "reference-model")


@pytest.mark.parametrize("name", NAMES)
def test_int8(name: str) -> None:
    c = compiled(name, "tosa-1.0+int", quantization="int8")
    compare(c, name, INT8_DB, "evaluator")
    compare(c, name, INT8_DB, "reference-model")
    for output, place in c.io.state:
        assert c.io.outputs[output].type == c.io.inputs[place].type, "no requantize between runs"


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("name", ["index_put", "mask", "stream"])
def test_ethos_u(name: str, target: str) -> None:
    c = compiled(name, target, quantization="int8")
    assert c.artifact
    compare(c, name, INT8_DB, "evaluator")


def test_state_in_channels_last() -> None:
    c = compiled("images", "tosa-1.0+int", quantization="int8", io_layout="channels_last")
    compare(c, "images", INT8_DB, "reference-model")
    assert c.initial_state[0].shape == (1, 5, 6, 2)


def test_the_state_of_a_run_is_what_the_next_one_takes() -> None:
    c = compiled("index_put", "tosa-1.0+int", quantization="int8")
    _, steps = make("index_put")
    (start,) = c.initial_state
    quant = c.io.inputs[2].type.quant
    assert start.dtype == np.int8
    np.testing.assert_allclose(
        quant.dequantize(start), make("index_put")[0].cache.numpy(), atol=0.51 * quant.s
    )
    first = c.run(*steps[0])
    np.testing.assert_array_equal(np.delete(c.state[0], 0, 1), np.delete(start, 0, 1))
    assert (c.state[0][:, 0] != start[:, 0]).any()
    assert not torch.equal(c.run(*steps[1]), first)
    c.reset()
    assert torch.equal(c.run(*steps[0]), first)


def test_the_initial_state_is_saved(tmp_path: Any) -> None:
    c = compiled("stream", "tosa-1.0+int", quantization="int8")
    c.save(tmp_path, "model")
    with np.load(tmp_path / "model.state.npz") as saved:
        assert list(saved) == ["past", "steps"]
        for name, value in zip(saved, c.initial_state, strict=True):
            np.testing.assert_array_equal(saved[name], value)


def test_calibration_runs_through_the_states() -> None:
    """What a cache holds after some steps decides its range, not its initial zeros alone."""
    model, steps = make("index_copy")
    model.cache.zero_()
    loud = [(x * s, p) for s, (x, p) in zip((1, 1, 1, 9, 9, 9), steps, strict=True)]
    c = npuc.compile(
        model, loud[0], target="tosa-1.0+int", quantization="int8", calibration=loud, progress=False
    )
    with torch.no_grad():
        for step in loud:
            model(*step)
    largest = float(model.cache.abs().max())
    assert c.io.inputs[2].scale * 255 > largest
