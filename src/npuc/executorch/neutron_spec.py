"""Compile specs under the names of ExecuTorch's NXP backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuc.errors import BadInput
from npuc.executorch.spec_encoding import read_texts
from npuc.targets.neutron import PAYLOAD_CHIP, PREFIX
from npuc.targets.neutron_policy import CHIPS

if TYPE_CHECKING:
    from npuc.targets.target import Target

#: flags of a spec -> options of the target
FLAGS = {
    "use_neutron_for_format_conversion": "format_conversion",
    "fetch_constants_to_sram": "fetch_constants_to_sram",
    "dump_kernel_selection_code": "dump_kernel_selection",
    "use_profiling": "profiling",
}
#: all keys, in the order in which the partitioner of ExecuTorch expects them
KEYS = (
    "output_format", "compile_flags", "target", "intermediates_dir", "operators_not_to_delegate",
    *FLAGS,
)  # fmt: skip


class NeutronTargetSpec:
    """A chip that ExecuTorch's Neutron runtime takes: "imxrt700". Raises BadInput for others."""

    def __init__(self, target: str) -> None:
        name = str(target).lower().removeprefix(PREFIX)
        if name not in CHIPS:
            raise BadInput(f"unknown Neutron chip {target!r}", hint=f"known: {', '.join(CHIPS)}")
        if name != PAYLOAD_CHIP:
            raise BadInput(
                f"{name} has no ExecuTorch runtime", why=f"ExecuTorch's takes {PAYLOAD_CHIP} only",
                hint=f"npuc's target {PREFIX}{name} makes TFLite files",
            )  # fmt: skip
        self.name = name

    def get_name(self) -> str:
        """The name under which NXP's converter knows the chip."""
        return self.name

    def get_num_macs(self) -> int:
        """MACs per pipe."""
        return CHIPS[self.name].macs

    def target(self) -> Target:
        """npuc's target of the chip."""
        from npuc.targets.target import Target

        return Target.named(PREFIX + self.name)


@dataclass
class NeutronCompileSpec:
    """What a list of CompileSpecs for the Neutron backend says.

    chip: "imxrt700". extra_flags: options of NXP's converter by name ("minNumOpsPerGraph=2").
    intermediates_dir: existing folder for the TFLite files and the log of each delegate.
    operators_not_to_delegate: names of ops, matched exactly. flags: see FLAGS.
    """

    chip: str
    extra_flags: tuple[str, ...] = ()
    intermediates_dir: str | None = None
    operators_not_to_delegate: tuple[str, ...] = ()
    flags: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chip = NeutronTargetSpec(self.chip).name
        folder = self.intermediates_dir
        if folder is not None and not Path(folder).is_dir():
            raise BadInput(f"intermediates_dir {folder} is no folder", hint="make it first")
        for name in self.operators_not_to_delegate:
            if "," in name or not name:
                raise BadInput(f"operators_not_to_delegate has {name!r}", hint="one name per entry")

    @property
    def path_for_intermediates(self) -> str | None:
        """The folder that the partitioner's report goes to."""
        return self.intermediates_dir

    def target(self) -> Target:
        """npuc's target: the payload of this chip."""
        from npuc.targets.target import Target

        options: dict[str, Any] = {FLAGS[k]: v for k, v in self.flags.items()}
        return Target.named(
            PREFIX + self.chip, artifact="payload", extra_flags=self.extra_flags, **options
        )

    @staticmethod
    def of_target(target: Target) -> NeutronCompileSpec:
        """The spec that stands for a target with its options."""
        from npuc.targets.neutron import Options

        options = Options.of(target.options, target.name)
        flags = {key: getattr(options, name) for key, name in FLAGS.items()}
        chip = target.name.removeprefix(PREFIX)
        return NeutronCompileSpec(chip, options.extra_flags, flags=flags)

    def to_list(self) -> list[Any]:
        """The spec as ExecuTorch passes it around."""
        from executorch.exir.backend.compile_spec_schema import CompileSpec

        flags = {k: str(self.flags.get(k, k == "use_neutron_for_format_conversion")) for k in FLAGS}
        texts = {
            "output_format": "tflite",
            "compile_flags": " ".join(self.extra_flags),
            "target": self.chip,
            "intermediates_dir": str(self.intermediates_dir),
            "operators_not_to_delegate": ",".join(self.operators_not_to_delegate),
            **flags,
        }
        return [CompileSpec(key, texts[key].encode()) for key in KEYS]

    @staticmethod
    def from_list(compile_specs: Iterable[Any]) -> NeutronCompileSpec:
        """What `to_list` wrote. BadInput names an unknown, double or missing key or a wrong value."""
        found = read_texts(compile_specs)
        for key in found:
            if key not in KEYS:
                raise BadInput(
                    f"compile spec: unknown key {key!r}", hint=f"known: {', '.join(KEYS)}"
                )
        for key in ("output_format", "target"):
            if key not in found:
                raise BadInput(
                    f"compile spec: key {key!r} is missing",
                    hint="use generate_neutron_compile_spec",
                )
        if found["output_format"] != "tflite":
            raise BadInput(
                f"compile spec for {found['output_format']!r}", why="Neutron takes tflite"
            )
        folder = found.get("intermediates_dir", "None")
        names = found.get("operators_not_to_delegate", "")
        return NeutronCompileSpec(
            found["target"],
            tuple(found.get("compile_flags", "").split()),
            None if folder == "None" else folder,
            tuple(n for n in names.split(",") if n),
            {key: _is_true(key, found[key]) for key in FLAGS if key in found},
        )


def _is_true(key: str, text: str) -> bool:
    if text not in ("True", "False"):
        raise BadInput(f"compile spec: {key}={text!r}", hint="True or False")
    return text == "True"


class NeutronCompileSpecBuilder:
    """Makes the list of CompileSpecs: `neutron_compile_spec(...).build()`."""

    def __init__(self) -> None:
        self.spec: NeutronCompileSpec | None = None

    def neutron_compile_spec(
        self, config: str, intermediates_dir: str | None = None, extra_flags: str | None = None,
        operators_not_to_delegate: Sequence[str] | None = None,
        use_neutron_for_format_conversion: bool = True, fetch_constants_to_sram: bool = False,
        dump_kernel_selection_code: bool = False, use_profiling: bool = False,
    ) -> NeutronCompileSpecBuilder:  # fmt: skip
        """Say what is wanted; see `NeutronCompileSpec`.

        use_neutron_for_format_conversion: the NPU transposes channels-first images at the ends of a
        delegate, else the host does. dump_kernel_selection_code: C code that registers the kernels.
        """
        flags = {
            "use_neutron_for_format_conversion": use_neutron_for_format_conversion,
            "fetch_constants_to_sram": fetch_constants_to_sram,
            "dump_kernel_selection_code": dump_kernel_selection_code,
            "use_profiling": use_profiling,
        }
        self.spec = NeutronCompileSpec(
            config, tuple((extra_flags or "").split()), intermediates_dir,
            tuple(operators_not_to_delegate or ()), flags,
        )  # fmt: skip
        return self

    def build(self) -> list[Any]:
        """The CompileSpecs. Raises BadInput where nothing was said."""
        if self.spec is None:
            raise BadInput("a compile spec without a chip", hint="call neutron_compile_spec first")
        return self.spec.to_list()


def generate_neutron_compile_spec(
    config: str, system_config: str | None = None, extra_flags: str | None = None,
    intermediates_dir: str | None = None, operators_not_to_delegate: Sequence[str] | None = None,
    use_neutron_for_format_conversion: bool = True, fetch_constants_to_sram: bool = False,
    dump_kernel_selection_code: bool = False, use_profiling: bool = False,
) -> list[Any]:  # fmt: skip
    """The CompileSpecs for a chip ("imxrt700"); arguments as `NeutronCompileSpecBuilder` takes them.

    Raises BadInput for `system_config`: there is nothing that it could change.
    """
    if system_config is not None:
        raise BadInput(
            f"system_config={system_config!r}", why="NXP's converter has no such setting",
            hint="extra_flags sets options of the converter by name",
        )  # fmt: skip
    builder = NeutronCompileSpecBuilder().neutron_compile_spec(
        config, intermediates_dir, extra_flags, operators_not_to_delegate,
        use_neutron_for_format_conversion, fetch_constants_to_sram, dump_kernel_selection_code,
        use_profiling,
    )  # fmt: skip
    return builder.build()
