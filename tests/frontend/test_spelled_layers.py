"""Spellings of products, norms, pools and reductions: canonical kinds and the same values."""

from __future__ import annotations

from types import SimpleNamespace
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


# products
case("linear", lambda x: F.linear(x, MATRIX, VECTOR[:5]), (X,), "linear")
case("linear of a vector", lambda x: F.linear(x, MATRIX), (VECTOR,), "view linear view")
case("matmul by a constant", lambda x: x @ MATRIX.t(), (X,), "linear")
case("matmul by a constant vector", lambda x: x @ VECTOR, (X,), "linear view")
case("addmm", lambda x: torch.addmm(VECTOR[:5], x, MATRIX.t()), (random(3, 6),), "linear")
case(
    "addmm scaled",
    lambda x: torch.addmm(VECTOR[:5], x, MATRIX.t(), beta=2, alpha=3),
    (random(3, 6),),
    "linear mul.Tensor add.Tensor",
)
case(
    "addmm of activations",
    lambda b, x, y: torch.addmm(b, x, y),
    (VECTOR[:5], random(3, 6), MATRIX.t()),
    "matmul add.Tensor",
)
case("linear of activations", F.linear, (X, MATRIX, VECTOR[:5]), "permute view matmul add.Tensor")
case("constant by activation", lambda x: MATRIX @ x, (random(6, 3),), "matmul")
case("bmm", torch.bmm, (X, X.mT), "matmul")
case("matmul of ranks", lambda x, y: x @ y, (X, random(3, 2, 6, 5)), "view matmul")
case("mv", torch.mv, (MATRIX, VECTOR), "view matmul view")
case("dot", torch.dot, (VECTOR, VECTOR + 1), "view view matmul view")
case("baddbmm", torch.baddbmm, (random(2, 4, 4), X, X.mT), "matmul add.Tensor")
case("matmul of halves", lambda x: x.half() @ MATRIX.half().t(), (X,), "to linear")

# convolutions
WT = random(4, 3, 4)
W2, W1, W3 = random(6, 4, 3, 2, seed=5), random(6, 2, 3, seed=6), random(2, 4, 2, 2, 2, seed=7)
case("conv2d", lambda x: F.conv2d(x, W2, VECTOR, 2, (1, 0)), (IMAGE,), "convolution")
case("conv2d unbatched", lambda x: F.conv2d(x, W2), (IMAGE[0],), "view convolution view")
case(
    "conv2d same",
    lambda x: F.conv2d(x, W2, padding="same", dilation=(2, 1)),
    (IMAGE,),
    "convolution",
)
case("conv2d valid", lambda x: F.conv2d(x, W2, padding="valid"), (IMAGE,), "convolution")
case("conv1d groups", lambda x: F.conv1d(x, W1, VECTOR, groups=2, padding=1), (X,), "convolution")
case("conv3d", lambda x: F.conv3d(x, W3, stride=(1, 2, 1)), (random(1, 4, 3, 4, 4),), "convolution")
case(
    "conv_transpose2d",
    lambda x: F.conv_transpose2d(x, W2.transpose(0, 1), None, 2, 1, 1),
    (IMAGE,),
    "convolution",
)
case("conv_transpose1d", lambda x: F.conv_transpose1d(x, WT, None, 2, 1), (X,), "convolution")
case(
    "convolution",
    lambda x: aten.convolution(x, W2, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    (IMAGE,),
    "convolution",
)

# normalizations
N = SimpleNamespace(w=random(4), b=random(4, seed=1), m=random(4, seed=2), v=random(4).abs() + 0.5)
case("batch_norm", lambda x: F.batch_norm(x, N.m, N.v, N.w, N.b), (IMAGE,), "batch_norm")
case(
    "batch_norm inference",
    lambda x: aten._native_batch_norm_legit_no_training(x, N.w, N.b, N.m, N.v, 0.1, 1e-3)[0],
    (IMAGE,),
    "batch_norm",
)
case("layer_norm", lambda x: F.layer_norm(x, (6,), VECTOR), (X,), "layer_norm")
case(
    "native_layer_norm",
    lambda x: aten.native_layer_norm(x, [4, 6], None, None, 1e-5)[0],
    (X,),
    "layer_norm",
)
case("group_norm", lambda x: F.group_norm(x, 2, N.w, N.b), (IMAGE,), "group_norm")
case(
    "native_group_norm",
    lambda x: aten.native_group_norm(x, N.w, None, 1, 4, 48, 2, 1e-5)[0],
    (IMAGE,),
    "group_norm",
)
case("instance_norm", lambda x: F.instance_norm(x, weight=N.w, bias=N.b), (IMAGE,), "group_norm")
case(
    "instance_norm running",
    lambda x: F.instance_norm(x, N.m, N.v, use_input_stats=False),
    (IMAGE,),
    "batch_norm",
)
case("rms_norm", lambda x: F.rms_norm(x, (6,), VECTOR), (X,), "rms_norm")
case("softmax", lambda x: x.softmax(-1), (X,), "softmax")
case("softmax of half", lambda x: x.half().softmax(1, dtype=torch.float32), (X,), "to to softmax")
case("_log_softmax", lambda x: aten._log_softmax(x, 1, False), (X,), "log_softmax")

# pools and resizes
case("max_pool1d", lambda x: F.max_pool1d(x, 2), (X,), "view max_pool2d view")
case("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), (IMAGE,), "max_pool2d")
case("max_pool2d unbatched", lambda x: F.max_pool2d(x, 2), (IMAGE[0],), "view max_pool2d view")
case(
    "max_pool2d indices unused",
    lambda x: aten.max_pool2d_with_indices(x, [2, 2])[0],
    (IMAGE,),
    "max_pool2d",
)
case(
    "max_pool2d indices",
    lambda x: aten.max_pool2d_with_indices(x, [2, 2]),
    (IMAGE,),
    "max_pool2d_with_indices",
)
case("max_pool3d", lambda x: F.max_pool3d(x, 2), (random(1, 2, 4, 4, 4),), "max_pool3d")
case("avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), (X,), "view avg_pool2d view")
case("avg_pool2d", lambda x: F.avg_pool2d(x, (2, 3), divisor_override=5), (IMAGE,), "avg_pool2d")
case("adaptive to one", lambda x: F.adaptive_avg_pool2d(x, 1), (IMAGE,), "mean.dim")
case("adaptive that divides", lambda x: F.adaptive_avg_pool2d(x, (4, None)), (IMAGE,), "avg_pool2d")
case(
    "adaptive that does not divide",
    lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    (IMAGE,),
    "adaptive_avg_pool2d",
)
case("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 2), (X,), "view avg_pool2d view")
case("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (4, 3)), (IMAGE,), "max_pool2d")
case(
    "nearest by factor",
    lambda x: F.interpolate(x, scale_factor=2.5),
    (IMAGE,),
    "upsample_nearest2d",
)
case("nearest to size", lambda x: F.interpolate(x, (5, 7)), (IMAGE,), "upsample_nearest2d")
case("nearest 1-D", lambda x: F.interpolate(x, 9), (X,), "view upsample_nearest2d view")
case(
    "nearest-exact",
    lambda x: F.interpolate(x, (5, 7), mode="nearest-exact"),
    (IMAGE,),
    "_upsample_nearest_exact2d",
)
case(
    "linear 1-D",
    lambda x: F.interpolate(x, scale_factor=2.0, mode="linear"),
    (X,),
    "view upsample_bilinear2d view",
)
case(
    "bilinear",
    lambda x: F.interpolate(x, (5, 7), mode="bilinear", align_corners=True),
    (IMAGE,),
    "upsample_bilinear2d",
)
case("bicubic", lambda x: F.interpolate(x, (5, 7), mode="bicubic"), (IMAGE,), "upsample_bicubic2d")

# reductions
case("mean", lambda x: x.mean(), (X,), "mean.dim")
case("mean dim", lambda x: x.mean((-1, 0), keepdim=True), (X,), "mean.dim")
case(
    "mean of half in float", lambda x: x.half().mean(1, dtype=torch.float32), (X,), "to to mean.dim"
)
case("sum of flags", lambda x: x.sum(1), (FLAGS,), "to sum.dim_IntList")
case("prod", lambda x: x.prod(1), (X,), "prod.dim_int")
case("prod of all", lambda x: x.prod(), (random(2, 3),), "prod.dim_int")
case("max", lambda x: x.max(), (X,), "amax")
case("max dim values", lambda x: x.max(1)[0], (X,), "amax")
case("min dim", lambda x: x.min(-1, keepdim=True), (X,), "amin argmin")
case("aminmax", lambda x: torch.aminmax(x, dim=1), (X,), "amin amax")
case("any", lambda x: x.any(), (FLAGS,), "any.dims")
case("all dims", lambda x: x.all((0, 1)), (FLAGS,), "all.dims")
case("any of numbers", lambda x: x.any(1), (INTS,), "to any.dims")
case("var", lambda x: x.var(), (X,), "var.correction")
case("var biased", lambda x: x.var(1, unbiased=False), (X,), "var.correction")
case("std", lambda x: x.std((0, 1), correction=0, keepdim=True), (X,), "std.correction")
case("var_mean", lambda x: torch.var_mean(x, 1), (X,), "var.correction mean.dim")
case("argmax", lambda x: x.argmax(-1), (X,), "argmax")
case("argmin of all", lambda x: x.argmin(), (X,), "view argmin")
case("cumsum", lambda x: x.cumsum(-1), (INTS,), "to cumsum")
case("reduce a number", lambda x: x.sum().sum() + x.sum().max(), (X,), "sum.dim_IntList add.Tensor")


@pytest.mark.parametrize("name", CASES)
def test_spelling(name):
    function, inputs, wanted = CASES[name]
    graph = imported(function, *inputs)
    assert sorted(kinds(graph)) == sorted(wanted.split())
    assert_computes(graph, inputs, function(*inputs), atol=1e-5, rtol=1e-4)
