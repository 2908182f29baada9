"""The VGF target: TOSA through Arm's model-converter, for Vulkan ML."""

from __future__ import annotations

from npuc.dialects.tosa import Limits
from npuc.ir import Graph
from npuc.targets.target import Artifact, Target

EXTENSIONS = frozenset(
    {"EXT-INT16", "EXT-INT4", "EXT-BF16", "EXT-FP8E4M3", "EXT-FP8E5M2", "EXT-FFT"}
)


def vgf_target(name: str) -> Target:
    """`vgf`: integer and float profiles in one file."""
    limits = Limits((1, 0), frozenset({"PRO-INT", "PRO-FP"}), EXTENSIONS, "8K", None, name)
    return Target(name, "VGF file for Vulkan ML (neural graphics)", limits, finish_vgf,
                  families=("vgf",))  # fmt: skip


def finish_vgf(graph: Graph, target: Target) -> Artifact:
    """The VGF file of `graph`; option `flags`: further arguments of model-converter."""
    from npuc.serialize.tosa_flatbuffer import serialize
    from npuc.targets.model_converter import convert_to_vgf
    from npuc.targets.tosa import check_options

    check_options(target, {"flags": ()})
    tosa = serialize(graph, target.limits.version)
    data = convert_to_vgf(tosa, tuple(target.options.get("flags", ())))
    return Artifact(data, ".vgf", tosa, files={".tosa": tosa})
