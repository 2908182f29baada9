"""Compile a TOSA file for Ethos-U with Vela, in process: bytes in, command stream out."""

from __future__ import annotations

import configparser
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from npuc.errors import BadInput, NpucError, ToolMissing
from npuc.execute.capture_output import capture_output
from npuc.execute.tosa_signature import Port, read_signature
from npuc.targets.vela_options import VelaOptions, parse_options
from npuc.targets.vela_report import OpCost, overhead_cycles, read_op_costs, read_performance

INSTALL = "pip install ethos-u-vela==5.2.0"

# Vela 5.1.0 computes some U55 pools and rescales wrongly (release notes of 5.2.0).
OLDEST = (5, 2, 0)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One Ethos-U configuration, and the system it is assumed to sit in when nothing is said."""

    family: str
    macs: int
    cores: int
    system_config: str
    memory_mode: str
    address_bits: int


def _accelerators() -> dict[str, Accelerator]:
    u55 = ("Ethos_U55_High_End_Embedded", "Shared_Sram", 32)
    u65 = ("Ethos_U65_Client_Server", "Dedicated_Sram_384KB", 40)
    u85 = ("Ethos_U85_SYS_DRAM_Mid", "Sram_Only", 40)
    table = {f"ethos-u55-{n}": Accelerator("EthosU55", n, 1, *u55) for n in (32, 64, 128, 256)}
    table["ethos-u65-256"] = Accelerator("EthosU65", 256, 1, *u65)
    table["ethos-u65-512"] = Accelerator("EthosU65", 256, 2, *u65)
    for macs in (128, 256, 512, 1024, 2048):
        table[f"ethos-u85-{macs}"] = Accelerator("EthosU85", macs, 1, *u85)
    return table


ACCELERATORS = _accelerators()


@dataclass(frozen=True, slots=True)
class VelaTensor:
    """Where a tensor of the network lies: 6-D shape, bytes per element, offset in its region.

    `name` is that of the TOSA file ("" when read back from a payload, which has no names).
    """

    shape: tuple[int, ...]
    element_size: int
    offset: int
    region: int
    quantization: tuple[str, tuple[float, ...], tuple[int, ...]] = ("none", (), ())
    name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class VelaResult:
    """What Vela made of a network.

    `perf` is described at `vela_report.read_performance`; `ops` are its rows per operation
    and `overhead` the cycles spent on lone RESCALE, TRANSPOSE and copies. `log` has what Vela
    printed when an option asked it to, e.g. {"verbose-register-command-stream": True}.
    `inputs` lacks the inputs of the graph that no output depends on: Vela drops them.
    """

    target: str
    system_config: str
    memory_mode: str
    version: str
    command_stream: bytes
    weights: bytes
    weights_region: int
    scratch_size: int
    scratch_region: int
    scratch_fast_size: int
    scratch_fast_region: int
    inputs: tuple[VelaTensor, ...]
    outputs: tuple[VelaTensor, ...]
    variables: tuple[VelaTensor, ...]
    perf: dict[str, Any]
    ops: tuple[OpCost, ...]
    overhead: dict[str, int]
    log: str


@dataclass(frozen=True, slots=True)
class System:
    """A checked choice of system configuration and memory mode, with the text that defines them."""

    system_config: str
    memory_mode: str
    ini_text: str
    core_clock: float
    arena_cache_size: int | None


def compile_vela(
    tosa_bytes: bytes,
    target_name: str,
    system_config: str | None = None,
    memory_mode: str | None = None,
    extra_options: Mapping[str, object] | None = None,
    config_ini: str | os.PathLike[str] | None = None,
) -> VelaResult:
    """Compile a TOSA file for `target_name` ("ethos-u55-128").

    `system_config` and `memory_mode` name sections of Vela's own vela.ini, or of the file
    `config_ini`. `extra_options` maps options of Vela's command line, without dashes in front, to
    values: {"optimise": "Size", "arena-cache-size": 262144}. The command stream is byte for byte
    that of the command line with the same options.

    Raises BadInput for unknown names, options and bytes that are no TOSA file, ToolMissing without
    Vela 5.2.0 or newer, and NpucError with Vela's own words for a graph that it refuses.
    """
    accelerator = find_accelerator(target_name)
    options = parse_options(extra_options or {})
    regor, version = load_regor()
    system = read_system(accelerator, system_config, memory_mode, config_ini)
    limit = arena_limit(accelerator, system, options)
    signature = read_signature(tosa_bytes)  # guards regor too, which dies of an empty buffer

    model, log = _run(
        regor,
        accelerator.family,
        bytes(tosa_bytes),
        architecture_text(accelerator, system),
        options.text(limit),
        listen=options.is_verbose,
        target=target_name,
    )
    tables = model.opt_database.tables
    ops = read_op_costs(tables)
    return VelaResult(
        target=target_name,
        system_config=system.system_config,
        memory_mode=system.memory_mode,
        version=version,
        command_stream=bytes(model.command_stream),
        weights=bytes(model.read_only.data),
        weights_region=model.read_only.region,
        scratch_size=model.scratch.size,
        scratch_region=model.scratch.region,
        scratch_fast_size=model.scratch_fast.size,
        scratch_fast_region=model.scratch_fast.region,
        inputs=_named("inputs", _tensors(model.inputs), signature.live_inputs),
        outputs=_named("outputs", _tensors(model.outputs), signature.outputs),
        variables=_tensors(model.variables),
        perf=read_performance(model.perf_report, system.core_clock),
        ops=ops,
        overhead=overhead_cycles(ops),
        log=log,
    )


def find_accelerator(target_name: str) -> Accelerator:
    """The configuration of this name. Raises BadInput with all names."""
    if target_name not in ACCELERATORS:
        raise BadInput(
            f"unknown Ethos-U target {target_name!r}", hint=f"one of {', '.join(ACCELERATORS)}"
        )
    return ACCELERATORS[target_name]


def read_system(
    accelerator: Accelerator,
    system_config: str | None = None,
    memory_mode: str | None = None,
    config_ini: str | os.PathLike[str] | None = None,
) -> System:
    """Check the two names against the configuration file. Raises BadInput with the valid names."""
    text = _own_ini() if config_ini is None else _read_ini(config_ini)
    parser = configparser.ConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise BadInput(f"Vela configuration {config_ini}", why=str(error)) from None

    system_name = system_config or accelerator.system_config
    mode_name = memory_mode or accelerator.memory_mode
    system = _section(parser, "System_Config", system_name, accelerator.family)
    mode = _section(parser, "Memory_Mode", mode_name, accelerator.family)
    try:
        clock = float(system.get("core_clock", "1"))
        arena = int(mode["arena_cache_size"]) if "arena_cache_size" in mode else None
    except ValueError as error:
        raise BadInput(f"Vela configuration {config_ini or 'vela.ini'}", why=str(error)) from None
    return System(system_name, mode_name, text, clock, arena)


def _section(
    parser: configparser.ConfigParser, kind: str, name: str, family: str
) -> dict[str, str]:
    """Values of [kind.name] and of the sections it inherits from."""
    if not parser.has_section(f"{kind}.{name}"):
        names = [s.split(".", 1)[1] for s in parser.sections() if s.startswith(f"{kind}.")]
        chip = family.replace("EthosU", "Ethos_U")
        fitting = [n for n in names if not n.startswith("Ethos_U") or n.startswith(chip)]
        what = kind.replace("_", " ").lower().replace("system config", "system configuration")
        raise BadInput(f"unknown {what} {name!r}", hint=f"one of {', '.join(fitting or names)}")
    values: dict[str, str] = {}
    section: str | None = f"{kind}.{name}"
    seen: list[str] = []
    while section is not None:
        if section in seen or not parser.has_section(section):
            raise BadInput(f"Vela configuration section {seen[-1]}", why=f"inherits {section}")
        seen.append(section)
        values = {**parser[section], **values}
        section = parser[section].get("inherit")
    return values


def arena_limit(accelerator: Accelerator, system: System, options: VelaOptions) -> int:
    """The limit that Vela's command line passes: option, else memory mode, else address space.

    Without it the scheduler puts everything into the slow memory.
    """
    whole = 1 << accelerator.address_bits
    limit = options.arena_cache_size
    if limit is None:
        limit = system.arena_cache_size
    if limit is None:
        return whole
    if not 0 <= limit <= whole:
        raise BadInput("Vela arena cache size", why=f"{limit} is not within 0 and {whole}")
    return limit


def architecture_text(accelerator: Accelerator, system: System) -> str:
    return (
        f"[architecture]\nmacs={accelerator.macs}\ncores={accelerator.cores}\n"
        f"[vela]\nsystem_config_name={system.system_config}\n"
        f"memory_mode_name={system.memory_mode}\n" + system.ini_text
    )


def _run(
    regor: Any,
    family: str,
    tosa_bytes: bytes,
    architecture: str,
    options: str,
    *,
    listen: bool,
    target: str,
) -> tuple[Any, str]:
    """The compiled model, and what was printed when `listen` is set."""
    try:
        if not listen:
            return regor.compile(family, tosa_bytes, "TOSA", architecture, options=options), ""
        with capture_output() as captured:
            model = regor.compile(family, tosa_bytes, "TOSA", architecture, options=options)
        return model, captured.text
    except (RuntimeError, ValueError) as error:
        lines = [line.strip(" -") for line in str(error).splitlines()]
        why = "; ".join(line for line in lines if line).replace(":; ", ": ")
        raise NpucError(f"Vela cannot compile this graph for {target}", why=why) from None


def _tensors(tensors: Any) -> tuple[VelaTensor, ...]:
    return tuple(
        VelaTensor(
            tuple(t.shape),
            t.element_size,
            _signed(t.address),
            t.region,
            (t.quant_type, tuple(t.scale), tuple(t.zero_point)),
        )
        for t in tensors
    )


def _named(
    kind: str, tensors: tuple[VelaTensor, ...], ports: tuple[Port, ...]
) -> tuple[VelaTensor, ...]:
    """Vela keeps the order of the TOSA file; its tensors get the names from there."""
    sizes = [math.prod(tensor.shape) for tensor in tensors]
    expected = [math.prod(port.shape) for port in ports]
    if sizes != expected:
        raise NpucError(
            f"Vela's {kind} are not those of the TOSA file",
            why=f"elements {sizes}, expected {expected}",
            hint="please report this as a bug of npuc",
        )
    return tuple(replace(t, name=port.name) for t, port in zip(tensors, ports, strict=True))


def _signed(address: int) -> int:
    """A tensor that nothing reads has no address: all ones in 64 bits, -1 in files."""
    return address - (1 << 64) if address >= 1 << 63 else address


def load_regor() -> tuple[Any, str]:
    """The native compiler and its version. Raises ToolMissing without Vela 5.2.0 or newer."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        from ethosu import regor

        installed = version("ethos-u-vela")
    except (ImportError, PackageNotFoundError):
        raise ToolMissing("Vela (ethos-u-vela)", INSTALL) from None
    if tuple(int(part) for part in installed.split(".")[:3] if part.isdigit()) < OLDEST:
        raise ToolMissing(
            "Vela 5.2.0 or newer", INSTALL, why=f"{installed} is there and computes wrong pools"
        )
    return regor, installed


@cache
def _own_ini() -> str:
    """The vela.ini that comes with Vela."""
    import ethosu.regor

    folder = Path(ethosu.regor.__file__).parent
    return (folder / "config_files" / "Arm" / "vela.ini").read_text()


def _read_ini(path: str | os.PathLike[str]) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"Vela configuration {os.fspath(path)}", why=str(error)) from None
