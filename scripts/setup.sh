#!/bin/sh
# Installs what specreel needs to build: FFmpeg's headers, libclang, pkg-config, a C compiler, Rust.
# With `test` also tmux and cargo-nextest. Does nothing, quickly, when all is there.
# Knows apt, dnf, pacman and brew; elsewhere it says what is missing.
set -eu

purpose=${1:-build}
rust_minor=90    # the oldest Rust that builds this, 1.90
log() { printf 'setup: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

has_ffmpeg() {
    have pkg-config && pkg-config --exists libavcodec libavformat libavutil libswscale
}

has_compiler() { have cc || have gcc || have clang; }

has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return 0
    for file in /usr/lib/llvm*/lib/libclang*.so* /usr/lib/*/libclang*.so* /usr/lib/libclang*.so* \
        /usr/lib64/libclang*.so* /usr/lib64/llvm*/lib*/libclang*.so* /usr/local/lib/libclang*.so* \
        /Library/Developer/CommandLineTools/usr/lib/libclang.dylib \
        /Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib/libclang.dylib \
        /opt/homebrew/opt/llvm/lib/libclang.dylib /usr/local/opt/llvm/lib/libclang.dylib; do
        # libclang-cpp is another library.
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
        log "these need root, and there is no sudo. Run as root: $*"
        exit 1
    fi
}

# System packages, all in one go.
if ! { has_ffmpeg && has_compiler && has_libclang && { has_rust || have curl; } }; then
    log "installing FFmpeg's headers, libclang, pkg-config and a C compiler"
    if have apt-get; then
        as_root apt-get update -q
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
            build-essential pkg-config libclang-dev libavcodec-dev libavformat-dev libavutil-dev libswscale-dev \
            curl ca-certificates
    elif have dnf; then
        # Full FFmpeg where it is enabled (RPM Fusion), Fedora's own otherwise.
        as_root dnf install -y gcc gcc-c++ make pkgconf-pkg-config clang-devel curl
        as_root dnf install -y ffmpeg-devel || as_root dnf install -y ffmpeg-free-devel
    elif have pacman; then
        as_root pacman -S --needed --noconfirm base-devel pkgconf clang ffmpeg curl
    elif have brew; then
        brew install ffmpeg pkgconf
        has_libclang || brew install llvm
    else
        log "no apt, dnf, pacman or brew here. Please install what is missing:"
        has_ffmpeg || log "  FFmpeg's libraries with headers and pkg-config: libavcodec libavformat libavutil libswscale"
        has_compiler || log "  a C compiler"
        has_libclang || log "  libclang"
        exit 1
    fi
    has_ffmpeg || { log "FFmpeg's headers are still missing (pkg-config libavcodec libavformat libavutil libswscale)"; exit 1; }
    has_compiler || { log "a C compiler is still missing"; exit 1; }
    has_libclang || { log "libclang is still missing; set LIBCLANG_PATH if it is somewhere unusual"; exit 1; }
fi

# Rust.
if ! has_rust; then
    if have rustup; then
        log "updating Rust: 1.$rust_minor or later is needed"
        rustup toolchain install stable --profile minimal --component rustfmt,clippy && rustup default stable
    elif have curl; then
        log "installing Rust with rustup (into your home directory)"
        installer=$(mktemp)
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs -o "$installer" ||
            { log "cannot fetch rustup. Please install Rust 1.$rust_minor or later: https://rustup.rs"; exit 1; }
        sh "$installer" -y --profile minimal --component rustfmt,clippy --no-modify-path
        rm -f "$installer"
    fi
    has_rust || { log "Rust 1.$rust_minor or later is needed: https://rustup.rs"; exit 1; }
fi

[ "$purpose" = test ] || exit 0

if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version >/dev/null 2>&1; then
    have rustup && rustup component add rustfmt clippy
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 ||
        { log "rustfmt and clippy are missing"; exit 1; }
fi

# Some tests run the studio inside tmux; without it they say so and test nothing.
if ! have tmux; then
    if have apt-get; then as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends tmux
    elif have dnf; then as_root dnf install -y tmux
    elif have pacman; then as_root pacman -S --needed --noconfirm tmux
    elif have brew; then brew install tmux
    fi || log "could not install tmux"
fi

if ! cargo nextest --version >/dev/null 2>&1; then
    log "installing cargo-nextest"
    cargo install --locked --quiet cargo-nextest || log "could not install cargo-nextest; using cargo test"
fi
