"""What a backend writes beside a delegate: the .tosa, its MLIR, and where each op comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuc.errors import NpucError
from npuc.executorch.compile_specs import ArmCompileSpec
from npuc.executorch.lower_delegate import Delegate
from npuc.executorch.spec_encoding import DebugMode
from npuc.ir import Graph
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
        events = json.dumps(op_sources(graph, delegate), indent=1)
        files[f"debug_{tag}.json"] = events.encode()
    _write(spec.path_for_intermediates, files)


def write_failure(
    spec: ArmCompileSpec, tag: str, error: NpucError, graphs: Mapping[str, Graph]
) -> None:
    """Write the error and the graphs that were made before it."""
    if spec.path_for_intermediates is None:
        return
    files = {f"failed_{tag}.{stage}.mlir": str(graph).encode() for stage, graph in graphs.items()}
    files[f"failed_{tag}.txt"] = f"{error}\n".encode()
    _write(spec.path_for_intermediates, files)


def op_sources(graph: Graph, delegate: Delegate) -> list[dict[str, Any]]:
    """For each op of the artifact the node, module path and source line that it came from."""
    return [
        {
            "event_id": number,
            "tosa": {"operator": op.name, "results": [r.name for r in op.results]},
            "node": delegate.nodes.get(op.loc.name, op.loc.name),
            "aten": op.loc.op,
            "module": op.loc.module,
            "file": op.loc.file,
            "line": op.loc.line,
        }
        for number, op in enumerate(o for o in graph.walk() if o.kind != "const")
    ]


def _write(folder: str, files: Mapping[str, bytes]) -> None:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
    except OSError as error:
        raise NpucError(f"cannot write to {folder}", why=error.strerror or str(error)) from None
