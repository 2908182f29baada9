"""Calls NXP's converter. Runs as a process of its own: it may crash, and prints to the terminal.

    python -m npuc.targets.neutron_process FOLDER

FOLDER has `request.json` and `model.tflite`; `result.json` and `converted.tflite` are left there, and
whatever the converter writes into its working directory.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

REQUEST, RESULT = "request.json", "result.json"
MODEL, CONVERTED = "model.tflite", "converted.tflite"
#: passes of the converter that NXP's ExecuTorch backend turns off
EXCLUDED_PASSES = "HoistSliceAboveTranspose,MergeTranspose"
#: what NXP's library says of a target
FACTS = ("name", "subsystem", "numUnits", "numPipes", "numMacs", "hwVersion")


class Refused(Exception):
    """Something that the caller tells the user as it is."""


def convert(model: bytes, request: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """The converted model, and facts of the target."""
    from eiq_neutron_sdk import neutron_converter, neutron_library_utils

    target = request["target"]
    # an unknown target crashes the converter
    if not neutron_library_utils.isNeutronTarget(target):
        known = ", ".join(map(str, neutron_library_utils.getNeutronTargets()))
        raise Refused(f"this SDK has no target {target}, it has {known}")
    context = neutron_converter.CompilationContext()
    context.targetOpts = neutron_converter.getNeutronTarget(target)
    set_options(context.compilationOpts, request)
    return call(neutron_converter, model, context), facts_of(context.targetOpts)


def set_options(options: Any, request: dict[str, Any]) -> None:
    """Set what was asked for on NXP's options; Refused for what this SDK does not have."""
    options.minNumOpsPerGraph = 1
    options.excludeGraphPasses = EXCLUDED_PASSES
    options.fetchConstantsToSRAM = request["fetch_constants_to_sram"]
    options.dumpKernelSelectionCode = request["dump_kernel_selection"]
    if request["profiling"]:
        if not hasattr(options, "useProfiling"):
            raise Refused("this SDK has no profiling (useProfiling)")
        options.useProfiling = options.verbose = True
        options.dumpAfterImport = options.dumpAfterGenerate = "console"
    names = {_plain(n): n for n in dir(options) if not n.startswith("_")}
    for flag in request["extra_flags"]:
        key, has_value, value = flag.lstrip("-").partition("=")
        name = names.get(_plain(key))
        if name is None or callable(getattr(options, name)):
            raise Refused(
                f"this SDK has no option {flag!r}, it has {', '.join(sorted(names.values()))}"
            )
        setattr(
            options, name, _parsed(value if has_value else "true", getattr(options, name), flag)
        )


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _parsed(value: str, now: Any, flag: str) -> Any:
    """A flag's text as the type that the option has now."""
    if isinstance(now, bool):
        if value.lower() not in ("true", "false"):
            raise Refused(f"{flag!r} is true or false")
        return value.lower() == "true"
    if isinstance(now, int):
        try:
            return int(value)
        except ValueError:
            raise Refused(f"{flag!r} takes a whole number") from None
    return value


def call(converter: Any, model: bytes, context: Any) -> bytes:
    """Convert. A bytearray is a sequence of numbers without being a list of them (nine times the
    memory); a binding that takes lists only says TypeError."""
    try:
        result = converter.convertModel(bytearray(model), context)
    except TypeError:
        result = converter.convertModel(list(model), context)
    return bytes(result)


def facts_of(target: Any) -> dict[str, Any]:
    """What the library says of a target; newer SDKs nest it under `npu`."""
    holders = [h for h in (target, getattr(target, "npu", None)) if h is not None]
    found = {n: getattr(h, n) for h in holders for n in FACTS if hasattr(h, n)}
    return {n: v if isinstance(v, (int, str, bool)) else str(v) for n, v in found.items()}


def main(folder: Path) -> None:
    """Convert what is in `folder`; what goes wrong is written down."""
    request = json.loads((folder / REQUEST).read_text())
    answer: dict[str, Any] = {}
    try:
        data, answer["facts"] = convert((folder / MODEL).read_bytes(), request)
        (folder / CONVERTED).write_bytes(data)
    except Refused as refusal:
        answer["refused"] = str(refusal)
    except ImportError as error:
        answer["missing"] = str(error)
    except Exception as error:  # NXP's library raises what it likes
        answer["failed"] = f"{type(error).__name__}: {error}"
    (folder / RESULT).write_text(json.dumps(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
