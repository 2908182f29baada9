"""TOSA specification strings of ExecuTorch ("TOSA-1.0+INT+int16") as npuc targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from npuc.errors import BadInput
from npuc.targets.tosa import PROFILES, tosa_target

if TYPE_CHECKING:
    from npuc.targets.target import Target

#: words that ExecuTorch accepts and for which no operator exists that a model leads to
WITHOUT_EFFECT = ("random", "blockscale_ue5m3")
#: words that are no extensions
_LEVEL, _SUBSET = "8k", "u55"


@dataclass(frozen=True)
class TosaSpecification:
    """A TOSA version with profiles and extensions. Two that differ in an extension are different.

    profiles: "INT", "FP"; extensions: lower case ("int16", "cf"), without "8k" and "u55".
    """

    version: str
    profiles: tuple[str, ...]
    extensions: tuple[str, ...] = ()
    level_8k: bool = False
    is_U55_subset: bool = False

    @staticmethod
    def create_from_string(text: str) -> TosaSpecification:
        """The specification that `text` ("TOSA-1.0+INT+int16+cf") names.

        Raises BadInput that names the word at fault, or the version that cannot be written.
        """
        head, *words = str(text).split("+")
        lower = [w.lower() for w in words]
        real = [w for w in lower if w not in WITHOUT_EFFECT]
        tosa_target("+".join([head, *real]))
        version = head.partition("-")[2]
        if len(real) < len(lower) and not version.startswith("1.1"):
            raise BadInput(f"TOSA specification {text!r}", why=f"+{WITHOUT_EFFECT[0]} needs 1.1")
        return TosaSpecification(
            version.removesuffix(".0") if version.count(".") == 2 else version,
            tuple(sorted({w.upper() for w in lower if w in PROFILES})),
            tuple(sorted({w for w in lower if w not in (*PROFILES, _LEVEL, _SUBSET, "none")})),
            _LEVEL in lower,
            _SUBSET in lower,
        )

    @staticmethod
    def of(spec: TosaSpecification | str) -> TosaSpecification:
        """`spec` itself, or the specification that a string names."""
        if isinstance(spec, TosaSpecification):
            return spec
        return TosaSpecification.create_from_string(spec)

    def support_integer(self) -> bool:
        """Whether the INT profile is in it."""
        return "INT" in self.profiles

    def support_float(self) -> bool:
        """Whether the FP profile is in it."""
        return "FP" in self.profiles

    def support_extension(self, extension: str) -> bool:
        """Whether an extension ("int16") is in it."""
        return extension in self.extensions

    def target(self) -> Target:
        """The npuc target with these limits."""
        words = [w for w in self._words() if w not in WITHOUT_EFFECT]
        return tosa_target("+".join([f"tosa-{self.version}", *words]).lower())

    def _words(self) -> list[str]:
        words = [*self.profiles, *self.extensions]
        words += [_SUBSET] if self.is_U55_subset else []
        return words + ([_LEVEL] if self.level_8k else [])

    def __str__(self) -> str:
        return "+".join([f"TOSA-{self.version}", *self._words()])

    __repr__ = __str__
