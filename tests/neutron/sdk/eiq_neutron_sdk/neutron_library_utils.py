"""The stand-in under NXP's names."""

from standin_converter import TARGETS


def isNeutronTarget(name: str) -> bool:  # noqa: N802 - NXP's name
    """Whether there is such a target."""
    return name in TARGETS


def getNeutronTargets() -> list[str]:  # noqa: N802 - NXP's name
    """All targets."""
    return list(TARGETS)
