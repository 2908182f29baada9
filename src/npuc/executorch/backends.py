"""The backends that ExecuTorch hands partitions to; importing this imports `executorch.exir`.

Their names are those under which the C++ runtimes are registered, and what they return is what
these read: a VGF file, the blocks of an Ethos-U payload, or a TOSA file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult

from npuc.errors import NpucError
from npuc.executorch.compile_specs import (
    ArmCompileSpec,
    EthosUCompileSpec,
    TosaCompileSpec,
    VgfCompileSpec,
)
from npuc.executorch.debug_files import write_artifacts, write_failure
from npuc.executorch.edge_program import whole_of
from npuc.executorch.lower_delegate import Delegate, finish_delegate, lower_delegate
from npuc.executorch.pte import VGF_VERSION
from npuc.executorch.run_edge import RECORD, record_of
from npuc.ir import Graph

Preprocess = Callable[[Any, list[Any]], PreprocessResult]

#: meta key of the nodes of npuc's partitions
OURS = "npuc_partition"


class TOSABackend(BackendDetails):  # type: ignore[misc]
    """TOSA flatbuffers. No runtime executes them: they are for inspection and other compilers."""

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: list[Any]) -> PreprocessResult:
        """The TOSA file of `edge_program`. Raises Unsupported, or BadInput for a wrong spec."""
        spec = TosaCompileSpec.from_list(compile_specs)
        return _result(*_compile(edge_program, spec))

    @staticmethod
    def filter_tosa_compile_specs(compile_spec: ArmCompileSpec) -> TosaCompileSpec:
        """The TOSA part of a hardware backend's spec."""
        return compile_spec.tosa_part()


class EthosUBackend(BackendDetails):  # type: ignore[misc]
    """Command streams of Vela for Ethos-U."""

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: list[Any]) -> PreprocessResult:
        """The payload of `edge_program`. Raises Unsupported, BadInput, ToolMissing or NpucError."""
        spec = EthosUCompileSpec.from_list(compile_specs)
        told, data = _compile(edge_program, spec)
        placements = spec.external_block_placements
        if placements is None or not placements.to_block_placements():
            return _result(told, data)
        from executorch.exir._serialize._named_data_store import NamedDataStore

        from npuc.executorch.external_blocks import ALIGNMENT, externalize

        tags = placements.to_block_placements()
        store = NamedDataStore()
        for name, tag in tags.items():
            data, moved = externalize(data, {name: tag})
            for key, block in moved.items():
                store.add_named_data(key, block, ALIGNMENT, external_tag=tag)
        return _result(told, data, store.get_named_data_store_output())


class VgfBackend(BackendDetails):  # type: ignore[misc]
    """VGF files for Vulkan ML."""

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: list[Any]) -> PreprocessResult:
        """The VGF file of `edge_program`, marked as a version that ExecuTorch 1.4.1 reads.

        Raises Unsupported, BadInput, ToolMissing or NpucError.
        """
        from npuc.targets.vgf import mark_version

        spec = VgfCompileSpec.from_list(compile_specs)
        told, data = _compile(edge_program, spec)
        return _result(told, mark_version(data, VGF_VERSION))


def claim(backend: Any) -> None:
    """Let `backend` have the partitions that are marked as npuc's.

    ExecuTorch looks backends up by the name of their class. Where its own backend of the same name
    is imported too (its Cortex-M passes do that), that one may be asked: it passes on what is ours.
    """
    for rival in BackendDetails.__subclasses__():
        is_rival = rival.__name__ == backend.__name__ and rival is not backend
        if is_rival and not hasattr(rival.preprocess, "passes_on"):
            rival.preprocess = staticmethod(_passing_on(rival.preprocess, backend.preprocess))


def _passing_on(theirs: Preprocess, ours: Preprocess) -> Preprocess:
    def preprocess(edge_program: Any, compile_specs: list[Any]) -> PreprocessResult:
        is_ours = any(OURS in n.meta for n in edge_program.graph.nodes)
        return (ours if is_ours else theirs)(edge_program, compile_specs)

    preprocess.passes_on = True  # type: ignore[attr-defined]
    return preprocess


def _compile(edge_program: Any, spec: ArmCompileSpec) -> tuple[dict[str, Any], bytes]:
    """What is told about a delegate, and the target's file; writes what the spec wants."""
    target, tag = spec.target(), _tag_of(edge_program)
    delegate = None
    try:
        delegate = lower_delegate(whole_of(edge_program, tag), target)
        graph, artifact = finish_delegate(delegate, target)
    except NpucError as error:
        write_failure(spec, tag, error, delegate)
        raise
    write_artifacts(spec, tag, delegate, graph, artifact)
    told = {
        "debug_handle_map": _handles(edge_program, delegate, graph),
        RECORD: record_of(delegate.part, graph),
    }
    return told, artifact.data


def _tag_of(edge_program: Any) -> str:
    """The delegation tag of a partition: that of its nodes."""
    tags = (n.meta.get("delegation_tag") for n in edge_program.graph.nodes)
    return next((t for t in tags if t), "whole")


def _handles(edge_program: Any, delegate: Delegate, graph: Graph) -> dict[int, tuple[int, ...]]:
    """Number of each op of the artifact -> ExecuTorch's debug handle of its node."""
    known = {n.name: n.meta.get("debug_handle") for n in edge_program.graph.nodes}
    found = {}
    for number, op in enumerate(o for o in graph.walk() if o.kind != "const"):
        handle = known.get(delegate.nodes.get(op.loc.name, op.loc.name))
        if handle is not None:
            found[number] = handle if isinstance(handle, tuple) else (handle,)
    return found


def _result(told: dict[str, Any], data: bytes, store: Any = None) -> PreprocessResult:
    return PreprocessResult(processed_bytes=data, data_store_output=store, **told)
