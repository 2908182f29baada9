"""What a backend writes beside a delegate: the .tosa, its MLIR, and where each op comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npuc.errors import NpucError
from npuc.executorch.compile_specs import ArmCompileSpec
from npuc.executorch.lower_delegate import Delegate
from npuc.executorch.spec_encoding import DebugMode
from npuc.ir import Graph, Loc, Op
from npuc.serialize.read_tosa import read_tosa
from npuc.serialize.tosa_flatbuffer import serialize
from npuc.targets.target import Artifact


def write_artifacts(
    spec: ArmCompileSpec, tag: str, delegate: Delegate, graph: Graph, artifact: Artifact
) -> None:
    """Write the files of one delegate into the folder that the spec names; nothing without one."""
    if spec.path_for_intermediates is None:
        return
    stem = f"output_{tag}_{spec.tosa_spec}"
    files = {
        f"{stem}.tosa": artifact.tosa,
        f"{stem}.mlir": str(graph).encode(),
        f"{stem}{artifact.suffix}": artifact.data,
    }
    files |= {f"{stem}{suffix}": data for suffix, data in artifact.files.items()}
    if spec.tosa_debug_mode is DebugMode.JSON:
        events = json.dumps(op_sources(graph, read_tosa(artifact.tosa), delegate), indent=1)
        files[f"debug_{tag}.json"] = events.encode()
    _write(spec.path_for_intermediates, files)


def write_failure(
    spec: ArmCompileSpec, tag: str, error: NpucError, delegate: Delegate | None
) -> None:
    """Write the error and what was made before it: graphs, the .tosa, what a tool left."""
    if spec.path_for_intermediates is None:
        return
    files = {".txt": f"{error}\n".encode(), **error.files}
    if delegate is not None:
        files[".imported.mlir"] = str(delegate.imported).encode()
        files[".lowered.mlir"] = str(delegate.lowered.graph).encode()
    if delegate is not None and delegate.optimized is not None:
        files[".optimized.mlir"] = str(delegate.optimized).encode()
        files |= _tosa_of(delegate.optimized, spec)
    named = {f"failed_{tag}{suffix}": data for suffix, data in files.items()}
    _write(spec.path_for_intermediates, named)


def _tosa_of(graph: Graph, spec: ArmCompileSpec) -> dict[str, bytes]:
    """The file that a vendor's tool was given; nothing where writing it is what failed."""
    try:
        return {".tosa": serialize(graph, spec.target().limits.version)}
    except NpucError:
        return {}


def op_sources(graph: Graph, written: Graph, delegate: Delegate) -> list[dict[str, Any]]:
    """For each operator of the .tosa the node, module path and source line that it came from.

    written: the file's graph, whose values have the file's names.
    """
    locs: dict[Op, Loc] = dict(_paired(graph, written))
    events = []
    for number, op in enumerate(o for o in written.walk() if o.kind != "const"):
        copied = op.operands[0].op if op.operands else None  # an output that the file copies
        loc = locs.get(op) or (locs.get(copied, op.loc) if copied is not None else op.loc)
        events.append({
            "event_id": number,
            "tosa": {"operator": op.name, "results": [r.name for r in op.results]},
            "node": delegate.nodes.get(loc.name, loc.name),
            "aten": loc.op,
            "module": loc.module,
            "file": loc.file,
            "line": loc.line,
        })  # fmt: skip
    return events


def _paired(graph: Graph, written: Graph) -> Iterator[tuple[Op, Loc]]:
    """Each op of the file's graph that is one of `graph`, with where that comes from.

    The file has the ops in the same order, and copies of outputs behind them.
    """
    for ours, theirs in zip(_computing(graph), _computing(written), strict=False):
        yield theirs, ours.loc
        for inner in zip(ours.regions, theirs.regions, strict=True):
            yield from _paired(*inner)


def _computing(graph: Graph) -> list[Op]:
    return [op for op in graph.ops if op.kind != "const"]


def _write(folder: str, files: Mapping[str, bytes]) -> None:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
    except OSError as error:
        raise NpucError(f"cannot write to {folder}", why=error.strerror or str(error)) from None
