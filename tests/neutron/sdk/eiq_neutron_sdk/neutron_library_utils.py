"""The stand-in under NXP's names."""

from standin_converter import TARGETS


def isNeutronTarget(name: str) -> bool:
    """Whether there is such a target."""
    return name in TARGETS


def getNeutronTargets() -> list[str]:
    """All targets."""
    return list(TARGETS)
