"""Which external tools are here, and do they work: what `npuc doctor` shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from npuc.errors import NpucError, ToolMissing


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `ok` is the result of using it, not of finding it; `problem` says what failed."""

    name: str
    purpose: str
    version: str | None
    ok: bool
    how_to_install: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Probe:
    """How to look at one tool: its package on the registry, and a function that uses it."""

    package: str
    purpose: str
    how_to_install: str
    use: Callable[[], str | None]


def installed_tools() -> list[Tool]:
    """Every tool that npuc can use, each one tried on a tiny graph. Takes a few seconds."""
    return [_look(probe) for probe in _probes()]


def _probes() -> list[_Probe]:
    from npuc.execute import vgf, vgf_file, vulkan
    from npuc.targets import model_converter, neutron_converter, vela

    pip = "pip install "
    return [
        _Probe("torch", "reads the models", pip + "torch==2.13.0", _find("torch")),
        _Probe("torchao", "quantizes", pip + "torchao==0.18.0", _find("torchao")),
        _Probe(
            "tosa-tools",
            "writes TOSA; the reference model is the oracle of the check",
            pip + "tosa-tools==2026.8.0",
            _use_reference_model,
        ),
        _Probe("ethos-u-vela", "makes Ethos-U files", vela.INSTALL, _use_vela),
        _Probe(
            "ai-ml-sdk-model-converter", "makes VGF files", model_converter.INSTALL, _use_converter
        ),
        _Probe("ai-ml-sdk-vgf-library", "reads VGF files", vgf_file.INSTALL, _use_vgf_dump),
        _Probe(
            "ai-ml-sdk-scenario-runner",
            "executes VGF files",
            vgf.INSTALL_RUNNER,
            _find("scenario_runner_py"),
        ),
        _Probe(
            "ai-ml-emulation-layer-for-vulkan",
            "executes VGF files on any Vulkan driver",
            vulkan.INSTALL_LAYERS,
            _use_layers,
        ),
        _Probe("Vulkan loader", "executes VGF files", vulkan.INSTALL_LOADER, _use_vulkan_loader),
        _Probe(
            "Vulkan driver",
            "executes VGF files",
            vulkan.INSTALL_DRIVER,
            _use_vulkan_driver,
        ),
        _Probe(
            "Vulkan run",
            "a tiny VGF file was executed and gave the right numbers",
            "see the lines above",
            _use_vulkan,
        ),
        _Probe(
            "ai-edge-litert",
            "executes TFLite files",
            pip + "ai-edge-litert==2.3.0",
            _find("ai_edge_litert"),
        ),
        _Probe(
            "eiq-neutron-sdk",
            "makes Neutron files of checked TFLite files",
            neutron_converter.INSTALL,
            _use_neutron_sdk,
        ),
        _Probe("executorch", "writes .pte files", pip + "executorch==1.4.1", _find("executorch")),
    ]


def _look(probe: _Probe) -> Tool:
    """Use the tool; whatever goes wrong is told in `problem`, for this is a diagnosis."""
    try:
        number: str | None = version(probe.package)
    except PackageNotFoundError:
        number = None
    problem = ""
    try:
        number = probe.use() or number
    except ToolMissing as error:
        problem = error.why or "not installed"
    except NpucError as error:
        problem = str(error)
    except Exception as error:  # a broken installation can raise anything
        problem = f"{type(error).__name__}: {error}"
    return Tool(probe.package, probe.purpose, number, not problem, probe.how_to_install, problem)


def _find(module: str) -> Callable[[], str | None]:
    """Only look for a module: importing it is slow."""

    def use() -> None:
        from importlib.util import find_spec

        if find_spec(module) is None:
            raise ToolMissing(module, "")

    return use


def _use_reference_model() -> None:
    import numpy as np

    from npuc.execute.reference_model import run_reference_model

    arrays = [np.array(values, np.int32) for values in _INPUTS]
    (result,) = run_reference_model(_tiny_graph(), arrays)
    _expect_sum(result.tolist())


def _use_vela() -> str:
    from npuc.targets.vela import compile_vela

    return compile_vela(_tiny_graph(), "ethos-u85-256").version


def _use_converter() -> None:
    from npuc.targets.model_converter import convert_to_vgf

    convert_to_vgf(_tiny_graph())


def _use_vgf_dump() -> None:
    from npuc.targets.model_converter import convert_to_vgf, describe_vgf

    describe_vgf(convert_to_vgf(_tiny_graph()))


def _use_neutron_sdk() -> str:
    from npuc.targets.neutron_converter import usable_sdk

    return usable_sdk()


def _use_layers() -> None:
    from npuc.execute.vulkan import find_layers

    find_layers()


def _use_vulkan_loader() -> str:
    from npuc.execute.vulkan import find_loader, loader_version

    path = find_loader()
    number = loader_version(str(path))
    if number is None:
        raise NpucError(f"{path} cannot be loaded")
    return f"{'.'.join(map(str, number))} ({path})"


def _use_vulkan_driver() -> str:
    from npuc.execute.vulkan import find_drivers

    drivers = find_drivers()
    for path in drivers:
        if not Path(path).exists():
            raise NpucError(f"{path} does not exist")
    return ", ".join(map(str, drivers))


def _use_vulkan() -> str:
    import numpy as np

    from npuc.execute.vgf import run_vgf
    from npuc.targets.model_converter import convert_to_vgf

    arrays = [np.array(values, np.int32) for values in _INPUTS]
    (result,) = run_vgf(convert_to_vgf(_tiny_graph()), arrays, timeout_seconds=60)
    _expect_sum(result.tolist())
    return "yes"


_INPUTS = ([1, -2, 3, 4], [10, 20, -30, 2**20])


def _expect_sum(result: list[int]) -> None:
    expected = [a + b for a, b in zip(*_INPUTS, strict=True)]
    if result != expected:
        raise NpucError("a tiny addition", why=f"{result} instead of {expected}")


def _tiny_graph() -> bytes:
    """y = ADD(a, b) of four INT32 values."""
    try:
        import tosa_serializer as ts
    except ImportError:
        raise ToolMissing("tosa-tools", "pip install tosa-tools==2026.8.0") from None
    graph = ts.TosaSerializer("", ts.ConstMode.EMBED, 1, 0, 0, False)
    for name in ("a", "b"):
        graph.addInputTensor(ts.TosaSerializerTensor(name, [4], ts.DType.INT32))
    block = graph.currRegion.currBasicBlock
    block.addTensor("y", [4], ts.DType.INT32)
    block.addOutput("y")
    attribute = ts.TosaSerializerAttribute()
    attribute.AddAttribute()
    graph.addOperator(ts.Op.ADD, ["a", "b"], ["y"], attribute)
    return bytes(graph.serialize())
