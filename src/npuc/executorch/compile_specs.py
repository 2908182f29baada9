"""Compile specs under the names of ExecuTorch's Arm backend; each stands for one npuc target.

A spec is written to a list of `CompileSpec`s (key, bytes) and read back without loss. Lists are
JSON, so that flags with spaces survive.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from npuc.errors import BadInput
from npuc.executorch.pass_pipeline_config import ArmPassPipelineConfig
from npuc.executorch.spec_encoding import (
    COMMON_KEYS,
    DebugMode,
    flag,
    is_set,
    read_debug_mode,
    read_json,
    read_texts,
)
from npuc.executorch.tosa_specification import TosaSpecification
from npuc.executorch.vela_flags import vela_settings

if TYPE_CHECKING:
    from npuc.targets.target import Target

Spec = TypeVar("Spec", bound="ArmCompileSpec")


class ArmCompileSpec:
    """What the three specs share: the TOSA part, flags, debug output and pass settings."""

    DebugMode = DebugMode
    #: value of the key output_format
    FORMAT: ClassVar[str] = ""
    #: keys that must be there, and those that may be, besides the common ones
    OWN_KEYS: ClassVar[tuple[str, ...]] = ()

    tosa_spec: TosaSpecification

    def __init__(self) -> None:
        self.compiler_flags: list[str] = []
        self.path_for_intermediates: str | None = None
        self.tosa_debug_mode: DebugMode | None = None
        self.pipeline_config = ArmPassPipelineConfig()
        self.output_order_workaround = False
        self.preserve_io_quantization = False
        self.tosa_dev_mode = False

    # settings of users ---------------------------------------------------------------------------

    def dump_intermediate_artifacts_to(self: Spec, output_path: str | None) -> Spec:
        """Write the .tosa of each partition, its MLIR and its debug data into this folder."""
        self.path_for_intermediates = None if output_path is None else str(output_path)
        return self

    def dump_debug_info(self: Spec, debug_mode: Any) -> Spec:
        """Also say which node of the model each op comes from."""
        if debug_mode is not None and not isinstance(debug_mode, DebugMode):
            raise BadInput(f"debug mode {debug_mode!r}", hint="DebugMode.JSON, .TOSA or None")
        self.tosa_debug_mode = debug_mode
        return self

    def set_pass_pipeline_config(self: Spec, config: ArmPassPipelineConfig) -> Spec:
        """Keep the settings of ExecuTorch's passes (they change nothing here)."""
        if not isinstance(config, ArmPassPipelineConfig):
            raise BadInput(f"pass settings {config!r}", hint="give an ArmPassPipelineConfig")
        self.pipeline_config = config
        return self

    def get_pass_pipeline_config(self) -> ArmPassPipelineConfig:
        """The settings of ExecuTorch's passes."""
        return self.pipeline_config

    def set_output_order_workaround(self: Spec, output_order_workaround: bool) -> Spec:
        """Kept for scripts that set it: outputs have the program's order in any case."""
        self.output_order_workaround = bool(output_order_workaround)
        return self

    def get_output_order_workaround(self) -> bool:
        """What `set_output_order_workaround` was given."""
        return self.output_order_workaround

    def get_intermediate_path(self) -> str | None:
        """The folder for debug output."""
        return self.path_for_intermediates

    def get_output_format(self) -> str:
        """ "tosa", "vela" or "vgf"."""
        return self.FORMAT

    def _set_preserve_io_quantization(self: Spec, enabled: bool) -> Spec:
        self.preserve_io_quantization = bool(enabled)
        return self

    def _set_tosa_dev_mode(self: Spec, enabled: bool) -> Spec:
        self.tosa_dev_mode = bool(enabled)
        return self

    # what it stands for --------------------------------------------------------------------------

    def target(self) -> Target:
        """The npuc target."""
        raise NotImplementedError

    def tosa_part(self) -> TosaCompileSpec:
        """The spec of the first half of the way: the TOSA program, before the hardware's tool."""
        part = TosaCompileSpec(self.tosa_spec)
        part.__dict__.update({k: v for k, v in self.__dict__.items() if k in part.__dict__})
        part.compiler_flags = []
        return part

    # to and from CompileSpecs --------------------------------------------------------------------

    def encoded(self) -> dict[str, bytes]:
        """Key -> bytes of everything that was set."""
        if self.tosa_debug_mode is not None and self.path_for_intermediates is None:
            raise BadInput(
                "dump_debug_info has no folder to write to",
                hint="call dump_intermediate_artifacts_to",
            )
        found: dict[str, Any] = {
            "tosa_spec": str(self.tosa_spec),
            "output_format": self.FORMAT,
            "compile_flags": json.dumps(self.compiler_flags) if self.compiler_flags else None,
            "debug_artifact_path": self.path_for_intermediates,
            "dump_debug_info": self.tosa_debug_mode.value if self.tosa_debug_mode else None,
            "output_order_workaround": flag(self.output_order_workaround),
            "preserve_io_quantization": flag(self.preserve_io_quantization),
            "tosa_sw_dev_mode": flag(self.tosa_dev_mode),
            **self._own(),
        }
        if not self.pipeline_config.is_default():
            found["transform_pipeline_config"] = self.pipeline_config.serialize().decode()
        return {key: value.encode() for key, value in found.items() if value is not None}

    def to_list(self) -> list[Any]:
        """The spec as ExecuTorch passes it around."""
        from executorch.exir.backend.compile_spec_schema import CompileSpec

        return [CompileSpec(key, value) for key, value in self.encoded().items()]

    _to_list = to_list

    @classmethod
    def from_list(cls: type[Spec], compile_specs: Iterable[Any]) -> Spec:
        """What `to_list` wrote. BadInput names an unknown, double or missing key, or a spec that
        is for another backend."""
        found = read_texts(compile_specs)
        known = {*COMMON_KEYS, *cls.OWN_KEYS}
        for key in found:
            if key not in known:
                raise BadInput(f"compile spec: unknown key {key!r}",
                               hint=f"known are {', '.join(sorted(known))}")  # fmt: skip
        for key in ("output_format", "tosa_spec"):
            if key not in found:
                raise BadInput(f"compile spec: key {key!r} is missing", hint=f"use {cls.__name__}")
        if found["output_format"] != cls.FORMAT:
            raise BadInput(f"compile spec for {found['output_format']!r}",
                           why=f"{cls.__name__} is for {cls.FORMAT!r}")  # fmt: skip
        spec = cls._made_from(found)
        spec.path_for_intermediates = found.get("debug_artifact_path")
        spec.tosa_debug_mode = read_debug_mode(found.get("dump_debug_info"))
        spec.output_order_workaround = is_set(found, "output_order_workaround")
        spec.preserve_io_quantization = is_set(found, "preserve_io_quantization")
        spec.tosa_dev_mode = is_set(found, "tosa_sw_dev_mode")
        if "transform_pipeline_config" in found:
            text = found["transform_pipeline_config"]
            spec.pipeline_config = ArmPassPipelineConfig.deserialize(text.encode())
        return spec

    _from_list = from_list

    def _own(self) -> dict[str, str | None]:
        """Further keys of this kind of spec."""
        return {}

    @classmethod
    def _made_from(cls: type[Spec], found: dict[str, str]) -> Spec:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self).__name__, str(self.tosa_spec), tuple(self.compiler_flags)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.tosa_spec}, {self.compiler_flags})"


class TosaCompileSpec(ArmCompileSpec):
    """A TOSA flatbuffer of the given specification ("TOSA-1.0+INT+int16")."""

    FORMAT = "tosa"

    def __init__(self, tosa_spec: TosaSpecification | str) -> None:
        super().__init__()
        self.tosa_spec = TosaSpecification.of(tosa_spec)

    def target(self) -> Target:
        """The TOSA target of the specification."""
        return self.tosa_spec.target()

    @classmethod
    def _made_from(cls, found: dict[str, str]) -> TosaCompileSpec:
        if "compile_flags" in found:
            raise BadInput("compile spec for TOSA has compile_flags", why="no tool takes them")
        return cls(found["tosa_spec"])


@dataclass(frozen=True)
class VelaExternalBlockPlacements:
    """Tags under which blocks of an Ethos-U payload are stored outside of it."""

    cmd_data: str | None = None
    weight_data: str | None = None

    def to_block_placements(self) -> dict[str, str]:
        """Block name -> tag, of the blocks that have one."""
        return {name: tag for name, tag in vars(self).items() if tag is not None}


#: what ExecuTorch's Arm backend assumes of a U65 where nothing is said
_U65_SYSTEM = "Ethos_U65_High_End"


class EthosUCompileSpec(ArmCompileSpec):
    """An Ethos-U command stream.

    target: "ethos-u55-128"; system_config and memory_mode: sections of config_ini; extra_flags:
    options of Vela's command line.
    """

    FORMAT = "vela"
    OWN_KEYS = ("target", "system_config", "memory_mode", "config_ini", "external_block_placements")

    def __init__(
        self,
        target: str,
        system_config: str | None = None,
        memory_mode: str | None = None,
        extra_flags: Sequence[str] | None = None,
        config_ini: str | None = "Arm/vela.ini",
        external_block_placements: VelaExternalBlockPlacements | None = None,
    ) -> None:
        from npuc.targets.vela import find_accelerator

        super().__init__()
        name = str(target).lower()
        accelerator = find_accelerator(name)
        settings = vela_settings(extra_flags or ())
        is_u65 = accelerator.family == "EthosU65"
        default = _U65_SYSTEM if is_u65 else accelerator.system_config
        self.target_name = name
        self.system_config = system_config or settings.system_config or default
        self.memory_mode = memory_mode or settings.memory_mode or accelerator.memory_mode
        self.config_ini = settings.config or config_ini or "Arm/vela.ini"
        self.extra_flags = [str(f) for f in extra_flags or ()]
        self.external_block_placements = external_block_placements
        words = "cf" if accelerator.family == "EthosU85" else "u55"
        self.tosa_spec = TosaSpecification.of(f"TOSA-1.0+INT+int16+int4+{words}")
        self.compiler_flags = [
            f"--accelerator-config={name}", f"--config={self.config_ini}", "--output-format=raw",
            f"--system-config={self.system_config}", f"--memory-mode={self.memory_mode}",
            *self.extra_flags,
        ]  # fmt: skip

    def target(self) -> Target:
        """The Ethos-U target with the options of Vela."""
        from npuc.targets.target import Target

        options: dict[str, Any] = {
            "system_config": self.system_config, "memory_mode": self.memory_mode,
            "extra_options": dict(vela_settings(self.extra_flags).options),
        }  # fmt: skip
        if self.config_ini != "Arm/vela.ini" or Path(self.config_ini).exists():
            options["config_ini"] = self.config_ini
        return Target.named(self.target_name, **options)

    def _own(self) -> dict[str, str | None]:
        placements = self.external_block_placements
        return {
            "target": self.target_name,
            "system_config": self.system_config,
            "memory_mode": self.memory_mode,
            "config_ini": self.config_ini,
            "compile_flags": json.dumps(self.extra_flags) if self.extra_flags else None,
            "external_block_placements": json.dumps(vars(placements)) if placements else None,
        }

    @classmethod
    def _made_from(cls, found: dict[str, str]) -> EthosUCompileSpec:
        if "target" not in found:
            raise BadInput("compile spec: key 'target' is missing", hint="use EthosUCompileSpec")
        external = read_json(found, "external_block_placements")
        spec = cls(
            found["target"], found.get("system_config"), found.get("memory_mode"),
            read_json(found, "compile_flags"), found.get("config_ini"),
            VelaExternalBlockPlacements(**external) if external is not None else None,
        )  # fmt: skip
        if str(spec.tosa_spec) != found["tosa_spec"]:
            raise BadInput(f"compile spec: tosa_spec {found['tosa_spec']}",
                           why=f"{spec.target_name} takes {spec.tosa_spec}")  # fmt: skip
        return spec


class VgfCompileSpec(ArmCompileSpec):
    """A VGF file. tosa_spec: default integer and float; compiler_flags: for model-converter."""

    FORMAT = "vgf"
    DEFAULT = "TOSA-1.0+FP+INT+int4+int16"

    def __init__(
        self,
        tosa_spec: TosaSpecification | str | None = None,
        compiler_flags: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self.tosa_spec = TosaSpecification.of(self.DEFAULT if tosa_spec is None else tosa_spec)
        self.compiler_flags = [str(f) for f in compiler_flags or ()]

    def target(self) -> Target:
        """The VGF target with the limits of the specification."""
        from npuc.targets.target import Target

        target = Target.named("vgf", flags=tuple(self.compiler_flags))
        if self.tosa_spec == TosaSpecification.of(self.DEFAULT):
            return target
        return replace(target, limits=replace(self.tosa_spec.target().limits, name="vgf"))

    def validate_environment(
        self, build_dir: str | Path | None = None, *, require_runtime_build: bool = False
    ) -> None:
        """Raise ToolMissing, with the line that installs it, for a tool that is not there.

        build_dir: a build of the ExecuTorch runtime that must exist; require_runtime_build: also
        what runs VGF files here (Vulkan loader, driver, emulation layers).
        """
        from npuc.errors import ToolMissing
        from npuc.execute.vgf_file import find_binary
        from npuc.targets.model_converter import INSTALL

        if find_binary("model_converter", "model-converter") is None:
            raise ToolMissing("model-converter (ai-ml-sdk-model-converter)", INSTALL)
        if build_dir is not None and not Path(build_dir).is_dir():
            raise BadInput(
                f"build_dir {build_dir} is no folder", hint="build the runtime there first"
            )
        if require_runtime_build:
            from npuc.execute.vulkan import find_vulkan

            find_vulkan()

    @classmethod
    def _made_from(cls, found: dict[str, str]) -> VgfCompileSpec:
        return cls(found["tosa_spec"], read_json(found, "compile_flags"))
