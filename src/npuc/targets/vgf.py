"""The VGF target: TOSA through Arm's model-converter, for Vulkan ML."""

from __future__ import annotations

from npuc.dialects.tosa import Limits
from npuc.errors import BadInput
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
    """The VGF file of `graph`.

    Options: `flags`, further arguments of model-converter; `vgf_version`, "0.4" for readers that
    know no newer one (ExecuTorch 1.4.1): see `mark_version`.
    """
    from npuc.serialize.tosa_flatbuffer import serialize
    from npuc.targets.model_converter import convert_to_vgf
    from npuc.targets.tosa import check_options

    check_options(target, {"flags": (), "vgf_version": ""})
    tosa = serialize(graph, target.limits.version)
    data = convert_to_vgf(tosa, tuple(target.options.get("flags", ())))
    if "vgf_version" in target.options:
        data = mark_version(data, target.options["vgf_version"])
    return Artifact(data, ".vgf", tosa, files={".tosa": tosa})


def mark_version(data: bytes, version: str) -> bytes:
    """A VGF file that says it is of this version of the format ("0.4"), its content unchanged.

    model-converter 0.11.0 writes 0.5, which differs from 0.4 in nothing that a converted model
    contains, but readers refuse versions newer than their own. Raises BadInput for other versions.
    """
    if version not in ("0.4", "0.5"):
        raise BadInput(f"VGF version {version!r}", hint="0.4 or 0.5")
    if data[:4] != b"VGF1" or tuple(data[8:10]) not in ((0, 4), (0, 5)):
        raise BadInput("not a VGF file of version 0.4 or 0.5", why=f"it starts with {data[:12]!r}")
    return data[:8] + bytes(map(int, version.split("."))) + data[10:]
