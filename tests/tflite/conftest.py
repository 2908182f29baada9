"""Random numbers of a test depend on its name alone, not on the tests that ran before it."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def fresh_numbers(request: pytest.FixtureRequest) -> None:
    seed = zlib.crc32(request.node.name.encode())
    torch.manual_seed(seed)
    generator = getattr(request.module, "rng", None)
    if generator is not None:
        generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state
