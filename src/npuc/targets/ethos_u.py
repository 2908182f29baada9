"""The Ethos-U targets: TOSA through Vela to a command stream, and the payload ExecuTorch takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuc.dialects.tosa import Limits
from npuc.ir import Builder, DType, Graph, Value
from npuc.targets.target import TOSA_PASSES, Artifact, Target

FAMILIES = {
    "EthosU55": ("ethos-u55", "ethos-u"),
    "EthosU65": ("ethos-u65", "ethos-u55", "ethos-u"),
    "EthosU85": ("ethos-u85", "ethos-u"),
}
#: integers of the size of a float
WORDS = {DType.FP16: DType.INT16, DType.BF16: DType.INT16, DType.FP32: DType.INT32}
EXTENSIONS = frozenset({"EXT-INT16", "EXT-INT4", "EXT-DOUBLEROUND"})
_PASSES = (
    *TOSA_PASSES, "split_heads", "merge_heads", "cheapen_tiles", "cheapen_widenings",
)  # fmt: skip
# separate_rescales has to be last: a builder would merge them again.
_U55_PASSES = (
    *_PASSES, "cheapen_rescales_u55", "merge_tables", "cheapen_concats", "cheapen_sums",
    "halve_maxima", "cheapen_reductions", "cheapen_transposes", "lower_slice_ranks",
    "copy_outputs", "separate_rescales",
)  # fmt: skip
_U85_PASSES = (
    *_PASSES, "cheapen_shuffles", "cheapen_rescales", "merge_tables", "cheapen_concats", "halve_maxima",
    "cheapen_reductions", "halve_sums", "cheapen_transposes", "interleave_planes",
    "split_transposes", "copy_outputs", "separate_rescales",
)  # fmt: skip
PASSES = {"EthosU55": _U55_PASSES, "EthosU65": _U55_PASSES, "EthosU85": _U85_PASSES}


def ethos_u_target(name: str) -> Target:
    """The target of an accelerator such as `ethos-u55-128`."""
    from npuc.targets import ethos_u_policy
    from npuc.targets.vela import ACCELERATORS

    accelerator = ACCELERATORS[name]
    family = accelerator.family
    extensions = EXTENSIONS | ({"EXT-CONTROLFLOW"} if family == "EthosU85" else set())
    policy = getattr(ethos_u_policy, f"ethos_{family[5:].lower()}_policy")
    limits = Limits((1, 0), frozenset({"PRO-INT"}), extensions, "8K", policy, name)
    text = f"Arm {family} with {accelerator.macs * accelerator.cores} MACs per cycle (Vela)"
    return Target(
        name, text, limits, finish_ethos_u, families=FAMILIES[family], passes=PASSES[family]
    )


def floats_as_words(graph: Graph) -> Graph:
    """The graph with INT16 and INT32 for floats, which Vela does not even copy.

    No operator of the chip reads a float: an input or constant is handed on, bit by bit.
    """
    builder = Builder()
    words: dict[Value, Value] = {}
    for value in (*graph.inputs, *(op.result for op in graph.ops if op.kind == "const")):
        word = WORDS.get(value.type.dtype)
        if word is not None:
            words[value] = (
                builder.const(np.ascontiguousarray(value.array).view(word.numpy))
                if value.is_const
                else Value(value.type.with_(dtype=word), name=value.name)
            )
    constants = {v.op: w.op for v, w in words.items() if v.op and w.op}
    return replace(
        graph,
        inputs=tuple(words.get(v, v) for v in graph.inputs),
        ops=tuple(constants.get(op, op) for op in graph.ops),
        outputs=tuple(words.get(v, v) for v in graph.outputs),
    )


def finish_ethos_u(graph: Graph, target: Target) -> Artifact:
    """Vela's command stream for `graph`.

    Options: system_config, memory_mode, config_ini (path of a vela.ini), extra_options (mapping of
    further Vela options). The artifact is the payload of ExecuTorch's EthosUBackend; beside it are
    Vela's raw .npz and the TOSA file.
    """
    from npuc.execute.tosa_signature import read_signature
    from npuc.serialize.tosa_flatbuffer import serialize
    from npuc.targets.ethos_u_files import executorch_payload, raw_npz
    from npuc.targets.tosa import check_options
    from npuc.targets.vela import compile_vela

    allowed = {"system_config": "", "memory_mode": "", "config_ini": "", "extra_options": {}}
    check_options(target, allowed)
    tosa = serialize(floats_as_words(graph), target.limits.version)
    result = compile_vela(tosa, target.name, **target.options)
    files = {".tosa": tosa, ".npz": raw_npz(result)}
    performance = {
        **result.perf,
        "overhead": result.overhead,
        "system_config": result.system_config,
        "memory_mode": result.memory_mode,
    }
    payload = executorch_payload(result, read_signature(tosa).inputs)
    return Artifact(payload, ".bin", tosa, files, performance, result.ops)
