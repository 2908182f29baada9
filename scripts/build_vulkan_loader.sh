#!/usr/bin/env bash
# Build the Vulkan loader that the ML emulation layers need, and the software driver to run on.
#
# Debian bookworm's loader (1.3.239) does not know the extension VK_ARM_tensors; the source package
# of the next Debian release does. It is built once into a cached prefix, without touching the
# system's loader or the state of apt. USE_GAS stays on: without it the tensor entry points are missing.
#
# Usage: scripts/build_vulkan_loader.sh            prefix: $NPUC_VULKAN_PREFIX or ~/.cache/npuc/vulkan-loader
# Result: $prefix/build/loader/libvulkan.so.1
set -euo pipefail

prefix=${NPUC_VULKAN_PREFIX:-~/.cache/npuc/vulkan-loader}
loader=$prefix/build/loader/libvulkan.so.1
release=trixie

fail() {
    echo "build_vulkan_loader: $1" >&2
    exit 1
}

# Prints the packages that are needed and not there; each line has a command and its package.
missing_packages() {
    local command package
    while read -r command package; do
        command -v "$command" >/dev/null || echo "$package"
    done <<'PAIRS'
cmake cmake
g++ g++
make make
python3 python3
xz xz-utils
PAIRS
    compgen -G '/usr/share/vulkan/icd.d/lvp_icd*.json' >/dev/null || echo mesa-vulkan-drivers
}

install_packages() {
    local packages
    packages=$(missing_packages)
    [ -n "$packages" ] || return 0
    # shellcheck disable=SC2086  # one word per package is wanted
    if [ "$(id -u)" != 0 ]; then
        fail "missing packages, run as root: apt-get install $(echo $packages)"
    fi
    apt-get -qq update
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends -y $packages >/dev/null
}

# The mirror that this machine already uses, from deb822 or one-line sources.
debian_mirror() {
    local mirror
    mirror=$(grep -rhoE '^URIs: *\S+' /etc/apt/sources.list.d/*.sources 2>/dev/null | awk 'NR==1{print $2}')
    [ -n "$mirror" ] || mirror=$(sed -nE 's/^deb +(\[[^]]*\] +)?(\S+) .*/\2/p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | head -n 1)
    [ -n "$mirror" ] || fail "no Debian mirror in /etc/apt; add one"
    echo "$mirror"
}

# Downloads source and headers of the newer loader with private package lists.
fetch_sources() {
    local mirror options
    mirror=$(debian_mirror)
    mkdir -p lists/partial
    printf 'deb %s %s main\ndeb-src %s %s main\n' "$mirror" $release "$mirror" $release >sources.list
    options=(-qq -o "Dir::State::Lists=$PWD/lists" -o "Dir::Etc::sourcelist=$PWD/sources.list"
        -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update
    apt-get "${options[@]}" source --download-only vulkan-loader
    apt-get "${options[@]}" download libvulkan-dev
    mkdir -p src
    tar xf vulkan-loader_*.orig.tar.* -C src --strip-components=1
    dpkg -x libvulkan-dev_*.deb headers
}

build() {
    local headers=$PWD/headers/usr
    mkdir -p src/loader/generated
    (cd src && python3 scripts/generate_source.py "$headers/share/vulkan/registry" >/dev/null)
    cmake -S src -B build -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=$headers" \
        -DBUILD_WSI_XCB_SUPPORT=OFF -DBUILD_WSI_XLIB_SUPPORT=OFF \
        -DBUILD_WSI_XLIB_XRANDR_SUPPORT=OFF -DBUILD_WSI_WAYLAND_SUPPORT=OFF >cmake.log
    cmake --build build -j2 >>cmake.log || fail "the build failed, see $PWD/cmake.log"
}

install_packages
if [ -e "$loader" ]; then
    echo "Vulkan loader: $loader"
    exit 0
fi

# A lock, so that two builds do not share a directory; a broken earlier try starts over.
mkdir -p "$prefix"
exec 9>"$prefix/lock"
flock 9
if [ ! -e "$loader" ]; then
    cd "$prefix"
    rm -rf lists src headers build vulkan-loader_* libvulkan-dev_*
    fetch_sources
    build
    rm -rf lists src headers vulkan-loader_* libvulkan-dev_*
fi
[ -e "$loader" ] || fail "no $loader after the build"
echo "Vulkan loader: $loader"
