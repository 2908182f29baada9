"""The stand-in under NXP's names."""

from standin_converter import CompilationContext, TargetOptions
from standin_converter import convert_model as convertModel  # noqa: N812

__all__ = ["CompilationContext", "convertModel", "getNeutronTarget"]


def getNeutronTarget(name: str) -> TargetOptions:  # noqa: N802 - NXP's name
    """The target called `name`."""
    return TargetOptions(name)
