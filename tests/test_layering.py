"""The architecture as a test: imports go downwards, importing is cheap, nothing grows too large."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "npuc"

# From the bottom up. Modules of one layer may import each other.
LAYERS = (
    {"errors"},
    {"ir"},
    {"dialects"},
    {"execute"},
    {"passes"},
    {"serialize"},
    {"frontend"},
    {"lowering"},
    {"targets"},
    {"quantizer"},
    {"boundary", "c_header"},
    {"check"},
    {"compilation", "execute_artifact", "executorch", "pipeline"},
    {"report"},
    {"cli", "__main__"},
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

# What an installed compiler must never load: other compilers' backends.
FORBIDDEN = ("executorch.backends.arm", "executorch.backends.nxp")

# What the lower layers may use: they must work without torch.
NUMPY_ONLY = ("ir", "dialects")
ALLOWED_BELOW = {"npuc", "numpy", "ml_dtypes", *sys.stdlib_module_names}

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
EXCEPTIONS = ROOT / "tests" / "size_exceptions.txt"

MAX_IMPORT_SECONDS = 0.3
HEAVY = ("torch", "torchao", "executorch", "scipy", "tosa_serializer", "ethosu", "rich", "click")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> list[Path]:
    """Every module of the package."""
    found = sorted(SOURCE.rglob("*.py"))
    assert len(found) > 20, "the package was not found"
    return found


@cache
def parse(path: Path) -> ast.Module:
    """Syntax tree of a file."""
    return ast.parse(path.read_text(), filename=str(path))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, full name) of every import, those inside functions included."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            # "from npuc import ir" imports npuc.ir.
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def layer_of(name: str) -> str | None:
    """The part of the package that a full name belongs to; None for other packages."""
    parts = name.split(".")
    return parts[1] if parts[0] == "npuc" and len(parts) > 1 else None


def own_layer(path: Path) -> str | None:
    """The part that a file belongs to; None for npuc/__init__.py, which only points at others."""
    first = path.relative_to(SOURCE).parts[0]
    return None if first == "__init__.py" else first.removesuffix(".py")


def test_every_module_has_a_layer() -> None:
    unknown = {own_layer(path) for path in modules()} - set(RANK) - {None}
    assert not unknown, f"add to LAYERS where they belong: {sorted(map(str, unknown))}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_downwards(path: Path) -> None:
    layer = own_layer(path)
    wrong = []
    for line, name in imported(path):
        other = layer_of(name)
        if other in RANK and layer is not None and RANK[other] > RANK[layer]:
            wrong.append(f"{path.relative_to(ROOT)}:{line}: {layer} imports {name}")
        if layer is None and other in RANK and other != "errors":
            wrong.append(f"{path.relative_to(ROOT)}:{line}: npuc/__init__ must import lazily")
        if name.startswith(FORBIDDEN):
            wrong.append(f"{path.relative_to(ROOT)}:{line}: {name} is another compiler")
        if layer in NUMPY_ONLY and name.split(".")[0] not in ALLOWED_BELOW:
            wrong.append(f"{path.relative_to(ROOT)}:{line}: {layer} uses numpy only, not {name}")
    assert not wrong, "\n".join(wrong)


def test_import_is_cheap() -> None:
    """CPU seconds of `import npuc` and of its lazy parts: the best of three fresh processes."""
    code = (
        "import sys, time; start = time.process_time(); import npuc; "
        f"print(time.process_time() - start, [m for m in {HEAVY} if m in sys.modules])"
    )
    best = 1e9
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
        )
        seconds, heavy = done.stdout.split(maxsplit=1)
        assert heavy.strip() == "[]", f"import npuc loads {heavy}"
        best = min(best, float(seconds))
    assert best < MAX_IMPORT_SECONDS


def test_lower_layers_load_without_torch() -> None:
    names = [
        f"npuc.{path.relative_to(SOURCE).with_suffix('').as_posix().replace('/', '.')}"
        for path in modules()
        if own_layer(path) in NUMPY_ONLY
    ]
    code = (
        f"import importlib, sys; [importlib.import_module(m) for m in {names}]; "
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
    )
    assert done.stdout.strip() == "[]"


def exceptions() -> dict[str, str]:
    """Name -> reason of what may be larger: lines "path[::function]  reason"."""
    found = {}
    for line in EXCEPTIONS.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, reason = line.partition(" ")
            assert reason.strip(), f"{EXCEPTIONS.name}: no reason for {name}"
            found[name] = reason.strip()
    return found


def functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """(qualified name, lines) of every function and method; decorators do not count."""

    def visit(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, Function):
                inner = f"{prefix}{child.name}."
                yield inner[:-1], (child.end_lineno or child.lineno) - child.lineno + 1
            elif isinstance(child, ast.ClassDef):
                inner = f"{prefix}{child.name}."
            yield from visit(child, inner)

    return visit(tree, "")


def oversized() -> dict[str, int]:
    """Name -> lines of every file and function above the limits."""
    found = {}
    for path in modules():
        name = path.relative_to(ROOT).as_posix()
        lines = len(path.read_text().splitlines())
        if lines >= MAX_FILE_LINES:
            found[name] = lines
        for function, length in functions(parse(path)):
            if length >= MAX_FUNCTION_LINES:
                found[f"{name}::{function}"] = length
    return found


def test_sizes() -> None:
    large, excepted = oversized(), exceptions()
    wrong = [f"{name}: {lines} lines" for name, lines in large.items() if name not in excepted]
    assert not wrong, "split, or name with a reason in size_exceptions.txt:\n" + "\n".join(wrong)
    stale = sorted(set(excepted) - set(large))
    assert not stale, f"no longer too large, remove from size_exceptions.txt: {stale}"


def test_no_vague_names() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
    wrong = [str(p.relative_to(ROOT)) for p in modules() if vague & {p.stem, p.parent.name}]
    assert not wrong, f"name the module after what it does: {wrong}"


def test_the_rules_catch_what_they_forbid(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(
        "import executorch.backends.arm.vgf\n\ndef f() -> None:\n    from npuc import lowering\n"
        + "    x = 1\n" * MAX_FUNCTION_LINES
    )
    assert list(imported(bad)) == [(1, "executorch.backends.arm.vgf"), (4, "npuc.lowering")]
    assert layer_of("npuc.lowering.registry") == "lowering" and RANK["lowering"] > RANK["ir"]
    assert list(functions(parse(bad))) == [("f", MAX_FUNCTION_LINES + 2)]
