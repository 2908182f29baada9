"""The TOSA target: names such as `tosa-1.0+int+int16`, and the flatbuffer as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from npuc.dialects.tosa import EXTENSIONS, ChipPolicy, Limits
from npuc.errors import BadInput
from npuc.ir import Graph
from npuc.targets.target import Artifact, Target

#: words of a target name -> extensions of the specification
WORDS = {
    "int64": ("EXT-INT64",), "int16": ("EXT-INT16",), "int4": ("EXT-INT4",),
    "bf16": ("EXT-BF16",), "fp8e4m3": ("EXT-FP8E4M3",), "fp8e5m2": ("EXT-FP8E5M2",),
    "fp8": ("EXT-FP8E4M3", "EXT-FP8E5M2"), "fft": ("EXT-FFT",), "var": ("EXT-VARIABLE",),
    "variable": ("EXT-VARIABLE",), "cf": ("EXT-CONTROLFLOW",),
    "controlflow": ("EXT-CONTROLFLOW",), "doubleround": ("EXT-DOUBLEROUND",),
    "inexactround": ("EXT-INEXACTROUND",), "dynamic": ("EXT-DYNAMIC",), "shape": ("EXT-SHAPE",),
    "mxfp": ("EXT-MX-COMMON", "EXT-MX-FP4E2M1", "EXT-MX-FP6E2M3", "EXT-MX-FP6E3M2",
             "EXT-MX-FP8E4M3", "EXT-MX-FP8E5M2", "EXT-MX-INT8"),
    "mxfp-conv": ("EXT-MXFP-CONV",),
}  # fmt: skip
PROFILES = {"int": "PRO-INT", "fp": "PRO-FP"}
#: extensions that TOSA 1.1 brought
SINCE_1_1 = {"int64", "shape", "mxfp", "mxfp-conv"}
VERSIONS = {"1.0": (1, 0), "1.0.0": (1, 0), "1.1": (1, 1), "1.1.0": (1, 1)}


def tosa_target(name: str) -> Target:
    """The target of a TOSA specification string.

    Form: tosa-<version>+<profile>[+<profile>][+extension...], in any case. `8k` names the level
    and `u55` the subset that Ethos-U55 takes. Raises BadInput that names the word at fault.
    """
    version, words = _split(name)
    profiles = frozenset(PROFILES[w] for w in words if w in PROFILES)
    if not profiles:
        raise BadInput(f"target {name!r} names no profile", hint="add +int, +fp or both")
    extensions: set[str] = set()
    chip: ChipPolicy | None = None
    families: tuple[str, ...] = ()
    for word in words:
        if word == "u55":
            from npuc.targets.ethos_u import FAMILIES
            from npuc.targets.ethos_u_policy import ethos_u55_policy

            chip, families = ethos_u55_policy, FAMILIES["EthosU55"]
        elif word in WORDS:
            if word in SINCE_1_1 and version < (1, 1):
                raise BadInput(f"target {name!r}: +{word} needs TOSA 1.1")
            _check_profile(name, word, profiles)
            extensions.update(WORDS[word])
        elif word not in PROFILES and word not in ("8k", "none"):
            known = ", ".join([*PROFILES, *WORDS, "8k", "none", "u55"])
            raise BadInput(f"target {name!r}: unknown word {word!r}", hint=f"known: {known}")
    level = "none" if "none" in words else "8K"
    limits = Limits(version, profiles, frozenset(extensions), level, chip, name)
    return Target(name, _describe(version, words), limits, finish_tosa, families=families)


def _split(name: str) -> tuple[tuple[int, int], list[str]]:
    match = re.fullmatch(r"tosa-([\d.]+)((?:\+[\w-]+)*)", name.lower())
    if match is None:
        raise BadInput(f"{name!r} is no TOSA target", hint="the form is tosa-1.0+int+int16")
    number = match.group(1)
    if number not in VERSIONS:
        raise BadInput(f"TOSA {number} is not known", hint="known are 1.0 and 1.1 (draft)")
    return VERSIONS[number], [w for w in match.group(2).split("+") if w]


def _check_profile(name: str, word: str, profiles: frozenset[str]) -> None:
    needs = {p for e in WORDS[word] for p in EXTENSIONS.get(e, [])}
    if not needs & profiles:
        wanted = " or ".join(sorted(needs))
        raise BadInput(f"target {name!r}: +{word} extends {wanted}, which is not named")


def _describe(version: tuple[int, int], words: list[str]) -> str:
    draft = " draft" if version > (1, 0) else ""
    return f"TOSA {version[0]}.{version[1]}{draft} flatbuffer, {', '.join(words)}"


def finish_tosa(graph: Graph, target: Target) -> Artifact:
    """The TOSA flatbuffer of `graph`."""
    from npuc.serialize.tosa_flatbuffer import serialize

    data = serialize(graph, target.limits.version)
    return Artifact(data, ".tosa", data)


def check_options(target: Target, allowed: Mapping[str, Any]) -> None:
    """Raise BadInput for an option that the target does not have."""
    for key in target.options:
        if key not in allowed:
            names = ", ".join(sorted(allowed)) or "none"
            raise BadInput(f"{target.name} has no option {key!r}", hint=f"it has: {names}")
