"""Find what runs a VGF file here: a Vulkan loader, a software driver, Arm's emulation layers."""

from __future__ import annotations

import ctypes
import json
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from npuc.errors import NpucError, ToolMissing

# Order matters: the graph layer builds on the tensor layer.
LAYERS = ("VK_LAYER_ML_Graph_Emulation", "VK_LAYER_ML_Tensor_Emulation")
INSTALL_LAYERS = "pip install ai-ml-emulation-layer-for-vulkan==0.11.0"
INSTALL_LOADER = "run scripts/build_vulkan_loader.sh of the npuc repository"
INSTALL_DRIVER = "apt-get install mesa-vulkan-drivers"

# The first loader known to pass VK_ARM_tensors on; Debian bookworm has 1.3.239.
OLDEST_LOADER = (1, 4, 309)

_DRIVER_FOLDERS = ("/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d")


@dataclass(frozen=True, slots=True)
class VulkanSetup:
    """Files that a process needs to run VGF: the loader's library, drivers, layer manifests."""

    loader: Path
    drivers: tuple[Path, ...]
    manifests: tuple[Path, ...]

    def environment(self, folder: Path) -> dict[str, str]:
        """Environment variables for the process; writes layer manifests into `folder`.

        The manifests of the package point at its libraries relatively, which the loader resolves
        only for some install layouts: they are rewritten with absolute paths.
        """
        for source in self.manifests:
            manifest = json.loads(source.read_text())
            library = source.parent / manifest["layer"]["library_path"]
            manifest["layer"]["library_path"] = str(_library(source, library))
            (folder / source.name).write_text(json.dumps(manifest))
        drivers = os.pathsep.join(map(str, self.drivers))
        return {
            "VK_LAYER_PATH": str(folder),
            "VK_INSTANCE_LAYERS": os.pathsep.join(LAYERS),
            "VK_ICD_FILENAMES": drivers,
            "VK_DRIVER_FILES": drivers,
        }


def find_vulkan() -> VulkanSetup:
    """What is installed. Raises ToolMissing that names the first part that is not there."""
    return VulkanSetup(find_loader(), find_drivers(), find_layers())


def vulkan_prefix() -> Path:
    """Where scripts/build_vulkan_loader.sh puts its result."""
    chosen = os.environ.get("NPUC_VULKAN_PREFIX")
    return Path(chosen) if chosen else Path.home() / ".cache" / "npuc" / "vulkan-loader"


def find_loader() -> Path:
    """The loader of the build script, or the system's when that one is new enough."""
    built = vulkan_prefix() / "build" / "loader" / "libvulkan.so.1"
    if built.exists():
        return built
    version = loader_version("libvulkan.so.1")
    if version is not None and version >= OLDEST_LOADER:
        return Path("libvulkan.so.1")
    found = "none here" if version is None else f"version {'.'.join(map(str, version))} here"
    needed = ".".join(map(str, OLDEST_LOADER))
    raise ToolMissing(
        f"a Vulkan loader with VK_ARM_tensors ({needed} or newer)", INSTALL_LOADER, why=found
    )


def loader_version(library: str) -> tuple[int, int, int] | None:
    """Version of a Vulkan loader; None when the library cannot be loaded."""
    try:
        loader = ctypes.CDLL(library)
        packed = ctypes.c_uint32()
        loader.vkEnumerateInstanceVersion(ctypes.byref(packed))
    except (OSError, AttributeError):
        return None
    return packed.value >> 22 & 0x7F, packed.value >> 12 & 0x3FF, packed.value & 0xFFF


def find_drivers() -> tuple[Path, ...]:
    """Drivers that the user set with VK_DRIVER_FILES, else Mesa's software driver lavapipe."""
    chosen = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    if chosen:
        return tuple(Path(part) for part in chosen.split(os.pathsep))
    for folder in _DRIVER_FOLDERS:
        found = tuple(sorted(Path(folder).glob("lvp_icd*.json")))
        if found:
            return found[:1]
    raise ToolMissing("a Vulkan driver (Mesa lavapipe)", INSTALL_DRIVER)


def find_layers() -> tuple[Path, ...]:
    """Manifests of Arm's two emulation layers."""
    spec = find_spec("emulation_layer")
    if spec is not None and spec.submodule_search_locations:
        root = Path(spec.submodule_search_locations[0])
        found = tuple(sorted(root.glob("deploy/share/vulkan/explicit_layer.d/*.json")))
        if len(found) >= len(LAYERS):
            return found
    raise ToolMissing("Arm's ML emulation layers for Vulkan", INSTALL_LAYERS)


def _library(manifest: Path, library: Path) -> Path:
    """The layer's library: where the manifest says, or in the package's lib folder."""
    for path in (library, manifest.parents[3] / "lib" / library.name):
        if path.exists():
            return path.resolve()
    raise NpucError("Arm's ML emulation layers", why=f"no library for {manifest.name}")
