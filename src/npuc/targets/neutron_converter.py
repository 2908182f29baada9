"""NXP's converter (`eiq_neutron_sdk`), which is not on public registries: found, asked, watched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from npuc.errors import BadInput, NpucError, ToolMissing
from npuc.targets.neutron_process import CONVERTED, MODEL, REQUEST, RESULT

TOOL = "NXP's converter (eiq_neutron_sdk)"
#: SDK that the restrictions are of; before OLDEST the converter took other operators
VERSION, OLDEST = "3.2.0", (3, 1, 2)
INSTALL = f"install eiq-neutron-sdk=={VERSION} with pip from NXP's own package index"
TIMEOUT = 600
#: suffix of the log
LOG = ".converter.log"
KERNEL_SELECTION = "_kernel_selection.c"
#: lines of the converter's log that an error shows
LAST_LINES = 8


@dataclass(frozen=True)
class Settings:
    """What NXP's converter is asked to do.

    fetch_constants_to_sram: microcode that fetches weights from flash. dump_kernel_selection: C code
    that registers the kernels in use. profiling: code that writes events. extra_flags: further
    options by name, "minNumOpsPerGraph=2". timeout: seconds.
    """

    fetch_constants_to_sram: bool = False
    dump_kernel_selection: bool = False
    profiling: bool = False
    extra_flags: tuple[str, ...] = ()
    timeout: float = TIMEOUT


@dataclass(frozen=True)
class Conversion:
    """A converted TFLite file, the converter's log, the code that selects kernels (empty where it
    was not asked for), the SDK's version, and what it says of the target."""

    model: bytes
    log: str
    kernel_selection: bytes
    version: str
    facts: dict[str, Any]


def find_sdk() -> str | None:
    """The version of the installed SDK ("unknown" where it has none); None without it."""
    if find_spec("eiq_neutron_sdk") is None:
        return None
    try:
        return version("eiq-neutron-sdk")
    except PackageNotFoundError:
        return "unknown"


def usable_sdk() -> str:
    """The version of the installed SDK. Raises ToolMissing without it, NpucError for an old one."""
    found = find_sdk()
    if found is None:
        raise ToolMissing(TOOL, INSTALL)
    numbers = tuple(int(n) for n in re.findall(r"\d+", found)[:3])
    if numbers and numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        why = f"{found} is installed, before {oldest} it took other operators"
        raise NpucError(f"{TOOL} is too old", why=why, hint=INSTALL)
    return found


def convert_for_neutron(data: bytes, target: str, settings: Settings) -> Conversion:
    """What NXP's converter makes of the TFLite file `data` for `target` ("imxrt700").

    Raises ToolMissing without the SDK, NpucError for an old one, BadInput for an option that it does
    not have, NpucError with the end of its log where it fails, crashes or takes too long.
    """
    found = usable_sdk()
    with tempfile.TemporaryDirectory(prefix="npuc-neutron-") as name:
        folder = Path(name)
        request = {"target": target, **asdict(settings)}
        (folder / REQUEST).write_text(json.dumps(request))
        (folder / MODEL).write_bytes(data)
        log, code = _run(folder, settings.timeout)
        answer = _answer(folder, code, log, settings.timeout)
        selection = folder / KERNEL_SELECTION
        return Conversion(
            (folder / CONVERTED).read_bytes(),
            log,
            selection.read_bytes() if selection.exists() else b"",
            found,
            answer["facts"],
        )


def _run(folder: Path, timeout: float) -> tuple[str, int | None]:
    """The log and the exit code of the process; None: it took too long."""
    # The child looks for packages where this process does.
    paths = [p for p in dict.fromkeys(sys.path) if p]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "npuc.targets.neutron_process", str(folder)]
    log = folder / "converter.log"
    with log.open("wb") as out:
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, timeout=timeout, check=False,
            )  # fmt: skip
            code: int | None = done.returncode
        except subprocess.TimeoutExpired:
            code = None
    return log.read_text(errors="replace"), code


def _answer(folder: Path, code: int | None, log: str, timeout: float) -> dict[str, Any]:
    """What the process wrote down; NpucError where it did not come so far."""
    if code is None:
        raise _failure(f"it took more than {timeout:g} s", log)
    result = folder / RESULT
    if not result.exists():
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise _failure(f"it ended with {how}", log)
    answer: dict[str, Any] = json.loads(result.read_text())
    if "missing" in answer:
        raise ToolMissing(TOOL, INSTALL, why=answer["missing"])
    if "refused" in answer:
        raise BadInput(f"{TOOL} refuses", why=answer["refused"])
    if "failed" in answer:
        raise _failure(answer["failed"], log)
    return answer


def _failure(why: str, log: str) -> NpucError:
    lines: Sequence[str] = [line.strip() for line in log.splitlines() if line.strip()]
    tail = f"; its log ends: {' | '.join(lines[-LAST_LINES:])}" if lines else ""
    error = NpucError(
        f"{TOOL} failed", why=why + tail,
        hint="option artifact=tflite makes only the TFLite file that it was given",
    )  # fmt: skip
    error.files = {LOG: log.encode()}
    return error
