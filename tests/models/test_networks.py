"""Every example network on every kind of target: all of it on the NPU, checked, without waste."""

from __future__ import annotations

import numpy as np
import pytest
import torch.utils._pytree as pytree

from npuc.execute.reference_model import run_reference_model
from tests.models.networks import CONVOLUTIONAL, NETWORKS, compiled, load

TARGETS = [
    ("tosa-1.0+fp", False), ("tosa-1.0+int", True), ("ethos-u55-128", True),
    ("ethos-u85-256", True), ("vgf", False), ("vgf", True),
]  # fmt: skip

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target, is_int8", TARGETS, ids=lambda v: str(v))
@pytest.mark.parametrize("name", NETWORKS)
def test_network(name, target, is_int8):
    c = compiled(name, target, is_int8)
    assert c.coverage.supported
    assert c.check is not None and len(c.check.ops) > 0
    assert c.artifact
    if name in CONVOLUTIONAL:
        inside = [v for v in c.graph.inputs if v.type.rank == 4 and v.type.ints[1] > 1]
        outside = [v for v in c.graph.outputs if v.type.rank == 4 and v.type.ints[1] > 1]
        assert c.waste["transposes"] <= len(inside) + len(outside)
    if is_int8 and target.startswith("tosa"):
        _, _, inputs = load(name)
        arrays = c.input_arrays(inputs)
        from npuc.execute.tosa import evaluate

        for ours, theirs in zip(evaluate(c.graph, arrays), run_reference_model(c.artifact, arrays)):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("is_int8", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("name", CONVOLUTIONAL)
def test_no_transpose_with_channels_last(name, is_int8):
    target = "tosa-1.0+int" if is_int8 else "tosa-1.0+fp"
    c = compiled(name, target, is_int8, io_layout="channels_last")
    assert c.waste["transposes"] == 0
    assert all(p.layout == "channels_last" for p in c.io.inputs if len(p.shape) == 4)


#: at most these cycles, by Vela 5.2.0's estimate
CYCLES = [
    ("mobilenet_v2", "ethos-u55-128", 7_700_000),
    ("mobilenet_v2", "ethos-u85-256", 3_200_000),
    ("dscnn_kws", "ethos-u55-128", 84_000),
    ("dscnn_kws", "ethos-u85-256", 39_000),
    ("resnet8_cifar", "ethos-u55-128", 194_000),
    ("resnet8_cifar", "ethos-u85-256", 85_000),
    ("nss", "ethos-u55-128", 5_080_000),
    ("nss", "ethos-u85-256", 2_420_000),
    ("text_transformer", "ethos-u55-128", 14_000_000),
    ("text_transformer", "ethos-u85-256", 1_400_000),
    ("vit_blocks", "ethos-u55-128", 170_000_000),
    ("vit_blocks", "ethos-u85-256", 9_700_000),
]


@pytest.mark.parametrize("name, target, most", CYCLES, ids=lambda v: str(v))
def test_cycles(name, target, most):
    c = compiled(name, target, True, check=False)
    assert c.performance["total_cycles"] < most


@pytest.mark.parametrize("is_int8", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("name", ["dscnn_kws", "autoencoder_ad"])
def test_small_networks_run_on_vulkan(name, is_int8):
    c = compiled(name, "vgf", is_int8)
    _, _, inputs = load(name)
    (on_vulkan,) = pytree.tree_leaves(c.run(*inputs, on="vulkan"))
    (ours,) = pytree.tree_leaves(c.run(*inputs))
    if is_int8:
        np.testing.assert_array_equal(on_vulkan.numpy(), ours.numpy())
    else:
        np.testing.assert_allclose(on_vulkan.numpy(), ours.numpy(), rtol=1e-4, atol=1e-5)
