"""The text of TOSA graphs is MLIR: tosa-opt parses and verifies it, and agrees with our files."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from npuc.ir import Builder, DType, Graph, Loc, SymDim, TensorType
from npuc.ir.print_mlir import print_mlir
from npuc.serialize.tosa_flatbuffer import serialize
from tests.execute.compare import graph_of
from tests.execute.control_flow import accumulator, branches, loop
from tests.execute.operator_samples import SAMPLES, modes
from tests.execute.test_tosa_blocks import MX, from_blocks, to_blocks

TOSA_OPT = Path(sysconfig.get_path("purelib")) / "bin" / "tosa-opt"
EVERYTHING = 1_000_000

pytestmark = pytest.mark.skipif(not TOSA_OPT.exists(), reason="tosa-tools is not installed")


def tosa_opt(text: str, *options: str) -> str:
    """What tosa-opt makes of a text, in its own form. Fails with its message."""
    done = subprocess.run(
        [TOSA_OPT, "-", *options], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stderr}\n{text}"
    return done.stdout


def body(text: str) -> list[str]:
    """The ops of a module as tosa-opt prints it, without names and attributes of the function."""
    lines = [line.strip() for line in text.splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith("func.func"))
    return [line for line in lines[start + 1 :] if line != "}"]


def assert_same_as_file(graph: Graph, path: Path) -> None:
    """tosa-opt reads the same ops from our text as from our .tosa file."""
    path.write_bytes(serialize(graph, (1, 1)))
    from_file = tosa_opt("", f"--tosa-deserialize=tosa-flatbuffer-filename={path}")
    from_text = tosa_opt(print_mlir(graph, EVERYTHING))
    assert sorted(body(from_text)) == sorted(body(from_file))


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_operator_parses_and_verifies(name: str) -> None:
    texts = []
    for index, types in enumerate(modes(name)):
        graph, _ = graph_of(name, SAMPLES[name](np.random.default_rng(index), types))
        graph.name = f"mode{index}"
        texts.append(print_mlir(graph))
    parsed = tosa_opt("\n".join(texts))
    assert parsed.count("func.func") == len(texts)


@pytest.mark.parametrize(
    "name", ["CLAMP", "CONV2D", "RESCALE", "RESIZE", "TRANSPOSE", "MUL", "PAD", "ARGMAX", "FFT2D"]
)
def test_text_and_file_say_the_same(name: str, tmp_path: Path) -> None:
    for index, types in enumerate(modes(name)):
        graph, _ = graph_of(name, SAMPLES[name](np.random.default_rng(index), types))
        if name == "CONV2D" and types["weight_t"] is DType.INT4:
            continue  # constants come in another order of definition
        assert_same_as_file(graph, tmp_path / "graph.tosa")


@pytest.mark.parametrize("graph", [branches(), loop()], ids=["cond_if", "while_loop"])
def test_regions(graph: Graph, tmp_path: Path) -> None:
    text = tosa_opt(print_mlir(graph, EVERYTHING))
    assert text.count("tosa.yield") == 2


def test_variables() -> None:
    text = tosa_opt(print_mlir(accumulator()))
    assert "tosa.variable @total = dense<[1.000000e+00, 2.000000e+00" in text
    assert "tosa.variable_write @total" in text
    assert "tosa.variable @total : tensor<4xf32>" in tosa_opt(print_mlir(accumulator(False)))


@pytest.mark.parametrize("dtype", MX)
def test_block_scaled(dtype: DType) -> None:
    b = Builder()
    x = b.input(TensorType(DType.FP32, (4, 64)))
    graph = b.finish([from_blocks(b, *to_blocks(b, x, dtype))])
    assert "block_size = BLOCK_SIZE_32" in tosa_opt(print_mlir(graph))


def test_symbolic_sizes_shapes_custom_and_locations() -> None:
    b = Builder()
    n = SymDim("n")
    b.loc = Loc("model.py", 41, 'block["a"]')
    x = b.input(TensorType(DType.INT8, (n, 4)))
    (rows,) = b.emit("tosa.DIM", [x], {"axis": 0}, [TensorType(DType.SHAPE, (1,))])
    tail = b.const(np.array((2, 2)), DType.SHAPE)
    (shape,) = b.emit("tosa.CONCAT_SHAPE", [rows, tail], {}, [TensorType(DType.SHAPE, (3,))])
    (y,) = b.emit("tosa.RESHAPE", [x, shape], {}, [TensorType(DType.INT8, (n, 2, 2))])
    attrs = {"operator_name": "a", "domain_name": "d", "implementation_attrs": b'\x00"\\z'}
    graph = b.finish(b.emit("tosa.CUSTOM", [y], attrs, [y.type]))
    text = tosa_opt(print_mlir(graph, locations=True), "--mlir-print-debuginfo")
    assert "tensor<?x2x2xi8>" in text
    assert 'implementation_attrs = "\\00\\22\\\\z"' in text
    assert "model.py:41" in text


def test_large_constants_are_splats() -> None:
    b = Builder()
    x = b.input(TensorType(DType.FP32, (100,)))
    graph = b.finish(b.emit("tosa.ADD", [x, b.const(np.full(100, 2.5, np.float32))], {}, [x.type]))
    assert "dense<2.500000000e+00> : tensor<100xf32>" in print_mlir(graph)
    assert "dense<2.500000e+00> : tensor<100xf32>" in tosa_opt(print_mlir(graph, EVERYTHING))


@pytest.mark.parametrize("dtype", [DType.FP32, DType.FP16, DType.BF16, DType.FP8E5M2])
def test_constants_are_read_back_exactly(dtype: DType, tmp_path: Path) -> None:
    b = Builder()
    values = np.array([np.inf, -np.inf, np.nan, 0.1, -0.0, 3.4e38, 1e-40], np.float32)
    with np.errstate(over="ignore"):
        constant = b.const(values.astype(dtype.numpy), dtype)
    x = b.input(TensorType(dtype, (7,)))
    graph = b.finish(b.emit("tosa.CONCAT", [x, constant], {"axis": 0}, [TensorType(dtype, (14,))]))
    assert_same_as_file(graph, tmp_path / "graph.tosa")
