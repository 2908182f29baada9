"""The stand-in under NXP's names."""

from standin_converter import CompilationContext, TargetOptions
from standin_converter import convert_model as convertModel

__all__ = ["CompilationContext", "convertModel", "getNeutronTarget"]


def getNeutronTarget(name: str) -> TargetOptions:
    """The target called `name`."""
    return TargetOptions(name)
