"""Ops of the user's own pass through as TOSA CUSTOM, with their domain, name and payload."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import npuc
from npuc.ir import DType
from npuc.serialize.read_tosa import read_tosa

torch.set_num_threads(1)


@torch.library.custom_op("npuc_tests::swirl", mutates_args=())
def swirl(
    x: torch.Tensor, y: torch.Tensor, factor: float = 2.0, axes: list[int] | None = None
) -> torch.Tensor:
    return x * factor + torch.sin(y)


@swirl.register_fake
def _(x, y, factor=2.0, axes=None):
    return torch.empty_like(x)


@torch.library.custom_op("npuc_tests::both_ends", mutates_args=())
def both_ends(x: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.cat(x, 1).amin(1), torch.cat(x, 1).argmax(1)


@both_ends.register_fake
def _(x):
    rows = x[0].shape[0]
    return x[0].new_empty(rows), x[0].new_empty(rows, dtype=torch.int64)


class Model(nn.Module):
    """A layer, the custom op, a layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.a(x))
        return self.b(torch.ops.npuc_tests.swirl(y, x, 0.5, axes=[1, 2]))


class Ends(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.ops.npuc_tests.both_ends([x * 2, x + 1])


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    npuc.unregister_custom_op("npuc_tests.swirl")
    npuc.unregister_custom_op("npuc_tests.both_ends")


def payload(*args: Any, **kwargs: Any) -> bytes:
    x, y, factor, axes = args
    types = [[t.dtype.name, *t.shape, t.quant.s if t.quant else None] for t in (x, y)]
    return json.dumps({"types": types, "factor": factor, "axes": axes, **kwargs}).encode()


def compiled(target: str, quantization: str | None = None, **options: Any) -> npuc.Compilation:
    npuc.register_custom_op(
        "npuc_tests::swirl", operator_name="Swirl", domain_name="acme.dsp",
        implementation_attrs=payload, **options,
    )  # fmt: skip
    kw = {"calibration": samples()} if quantization else {}
    return npuc.compile(
        Model().eval(), samples()[0], target=target, quantization=quantization, progress=False, **kw
    )


def samples() -> list[Any]:
    generator = torch.Generator().manual_seed(5)
    return [(torch.randn(2, 4, generator=generator),) for _ in range(4)]


def custom_of(c: npuc.Compilation) -> Any:
    """The operator as a reader of the file finds it."""
    (op,) = [op for op in read_tosa(c.output.tosa or c.artifact).ops if op.name == "CUSTOM"]
    return op


def test_without_a_registration_it_is_refused() -> None:
    with pytest.raises(
        npuc.Unsupported, match=r"npuc_tests.swirl at .*test_custom_op.py.*no lowering rule"
    ):
        npuc.compile(Model().eval(), samples()[0], target="tosa-1.0+fp", progress=False)


def test_float() -> None:
    c = compiled("tosa-1.0+fp")
    op = custom_of(c)
    assert (op.attrs["operator_name"], op.attrs["domain_name"]) == ("Swirl", "acme.dsp")
    assert json.loads(bytes(op.attrs["implementation_attrs"])) == {
        "types": [["FP32", 2, 4, None]] * 2, "factor": 0.5, "axes": [1, 2]
    }  # fmt: skip
    assert [v.type.dtype for v in op.operands] == [DType.FP32] * 2
    for sample in samples():
        with torch.no_grad():
            torch.testing.assert_close(c.run(*sample), Model().eval()(*sample))


def test_int8_when_its_implementation_takes_it() -> None:
    c = compiled("tosa-1.0+int", "int8", quantized=True)
    op = custom_of(c)
    assert [v.type.dtype for v in (*op.operands, *op.results)] == [DType.INT8] * 3
    scales = [t[-1] for t in json.loads(bytes(op.attrs["implementation_attrs"]))["types"]]
    original = next(op for op in c.graph.ops if op.name == "CUSTOM")
    assert scales == [v.type.quant.s for v in original.operands]
    close(c)


def test_floats_between_int8_ops() -> None:
    c = compiled("tosa-1.0+int+fp", "int8")
    op = custom_of(c)
    assert [v.type.dtype for v in (*op.operands, *op.results)] == [DType.FP32] * 3
    close(c)


def close(c: npuc.Compilation) -> None:
    for sample in samples():
        with torch.no_grad():
            want = Model().eval()(*sample)
        assert float((c.run(*sample) - want).norm() / want.norm()) < 0.05


def test_floats_on_a_target_without_them_are_refused() -> None:
    with pytest.raises(npuc.Unsupported, match=r"integers only.*quantized=True"):
        compiled("tosa-1.0+int", None)


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_ethos_u_has_no_custom_operators(target: str) -> None:
    with pytest.raises(npuc.Unsupported, match=r"CUSTOM: Ethos-U.5 has no CUSTOM"):
        compiled(target, "int8", quantized=True)


def test_lists_of_tensors_and_several_results_of_other_types() -> None:
    npuc.register_custom_op(
        "npuc_tests.both_ends",
        operator_name="Ends",
        domain_name="acme",
        implementation_attrs=b"\0\1",
    )
    x = torch.randn(3, 4)
    c = npuc.compile(Ends(), (x,), target="tosa-1.0+fp+int", progress=False)
    op = custom_of(c)
    assert bytes(op.attrs["implementation_attrs"]) == b"\0\1"
    assert [r.type.dtype for r in op.results] == [DType.FP32, DType.INT32]
    for got, want in zip(c.run(x), Ends()(x), strict=True):
        torch.testing.assert_close(got, want)


def test_the_reference_takes_the_place_of_the_op() -> None:
    seen = []

    def reference(x: torch.Tensor, y: torch.Tensor, factor: float, axes: list[int]) -> torch.Tensor:
        seen.append((factor, axes))
        return x * factor + torch.sin(y)

    c = compiled("tosa-1.0+fp", reference=reference)
    assert seen[0] == (0.5, [1, 2])
    c.run(*samples()[0])
    assert len(seen) == 2


def test_a_wrong_reference_is_found_by_the_check() -> None:
    with pytest.raises(npuc.CheckFailed, match=r"npuc_tests.swirl.*departs from PyTorch"):
        compiled("tosa-1.0+fp", reference=lambda x, y, factor, axes: x)


def test_the_reference_model_does_not_know_it() -> None:
    c = compiled("tosa-1.0+fp")
    with pytest.raises(npuc.NpucError):
        c.run(*samples()[0], on="reference-model")


@pytest.mark.parametrize("name", ["swirl", "a.b.c.d", "a..b"])
def test_malformed_names(name: str) -> None:
    with pytest.raises(npuc.BadInput, match="the form is"):
        npuc.register_custom_op(name, operator_name="x", domain_name="y")


def test_a_payload_that_is_no_bytes() -> None:
    npuc.register_custom_op(
        "npuc_tests.swirl",
        operator_name="x",
        domain_name="y",
        implementation_attrs=lambda *a: "text",
    )
    with pytest.raises(npuc.BadInput, match=r"implementation_attrs of npuc_tests.swirl is a str"):
        npuc.compile(Model().eval(), samples()[0], target="tosa-1.0+fp", progress=False)


def test_an_op_that_npuc_knows_can_be_the_users() -> None:
    npuc.register_custom_op("aten.tanh", operator_name="Tanh", domain_name="acme")
    try:
        x = torch.randn(2, 3)
        c = npuc.compile(nn.Tanh(), (x,), target="tosa-1.0+fp", progress=False)
        assert [op.name for op in c.graph.ops] == ["CUSTOM"]
        np.testing.assert_allclose(c.run(x).numpy(), np.tanh(x.numpy()), rtol=1e-6)
    finally:
        npuc.unregister_custom_op("aten.tanh")
