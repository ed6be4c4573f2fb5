#!/bin/sh
# Builds the artifacts of a release for Linux or Windows into dist/, from package registries alone: see docs/releasing.md.
#
# dist.sh [x86_64|aarch64|x86_64-windows]; SPECREEL_DIST_BUILD=DIR keeps what is built (default target/dist-build). Debian 12 or later.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
arch=${1:-$(uname -m)}
case $arch in
    x86_64 | aarch64) target=$arch-unknown-linux-gnu ;;
    x86_64-windows) target=x86_64-pc-windows-gnu ;;
    *) echo "dist: expected one of: x86_64, aarch64, x86_64-windows, got $arch" >&2; exit 2 ;;
esac
build=${SPECREEL_DIST_BUILD:-$root/target/dist-build}
mkdir -p "$build" && build=$(cd "$build" && pwd)
out=$root/dist
jobs=${JOBS:-$(nproc)}
log() { printf 'dist: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }
# `make dist ARCH=x86_64` would set FFmpeg's own ARCH, which has other names, and leave out its assembly.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES

# Tools: system packages, and Zig as a C compiler and linker for an older glibc, from PyPI.
sh scripts/setup.sh build
if ! { have nasm && have dpkg-source && have rpmbuild && have python3 && python3 -c 'import venv, ensurepip'; }; then
    as_root=; [ "$(id -u)" -eq 0 ] || as_root=sudo
    $as_root apt-get update -q
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends nasm dpkg-dev rpm python3-venv
fi
if [ "$arch" = x86_64-windows ] && ! have x86_64-w64-mingw32-gcc; then
    as_root=; [ "$(id -u)" -eq 0 ] || as_root=sudo
    $as_root apt-get update -q
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends gcc-mingw-w64-x86-64-win32
fi
if [ ! -x "$build/venv/bin/pip" ]; then
    log "installing Zig, cargo-zigbuild, Meson and Ninja from PyPI"
    python3 -m venv "$build/venv"
fi
"$build/venv/bin/pip" install -q --disable-pip-version-check -r packaging/requirements.txt
export PATH="$build/venv/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
SPECREEL_COMMIT=${SPECREEL_COMMIT:-$(git describe --always --abbrev=12 --dirty=-changed --exclude='*' 2>/dev/null || true)}
export SOURCE_DATE_EPOCH SPECREEL_COMMIT

log "licenses, sources and duplicates of dependencies"
PYTHON=$build/venv/bin/python sh scripts/deny.sh

if [ ! -d "$(rustc --print target-libdir --target "$target")" ]; then
    if have rustup && rustup target add "$target"; then :
    else log "error: Rust's standard library for $target is missing; run: rustup target add $target"; exit 1
    fi
fi

ffmpeg=$build/ffmpeg-$arch
sh packaging/sources.sh "$build/sources"
# Built again when anything it is built from changes, and with it the crate that holds it.
recipe=$(cat packaging/ffmpeg.sh packaging/ffmpeg/* packaging/requirements.txt "$build"/sources/*.dsc | sha256sum)
if [ "$(cat "$ffmpeg/recipe" 2>/dev/null)" != "$recipe" ]; then
    log "building FFmpeg for $target"
    rm -rf "$ffmpeg"
    ZIG=$(echo "$build"/venv/lib/python3*/site-packages/ziglang/zig) JOBS=$jobs sh packaging/ffmpeg.sh "$build/sources" "$ffmpeg" "$target"
    [ ! -d "$build/cargo/$target" ] ||
        cargo clean --quiet --locked --release --target "$target" --target-dir "$build/cargo" --package ffmpeg-sys-next
    printf '%s\n' "$recipe" >"$ffmpeg/recipe"
fi

log "building specreel for $target"
cargo fetch --locked --quiet
for crates in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/index.crates.io-*; do :; done
# No path of this machine gets into the binary.
export RUSTFLAGS="--remap-path-prefix=$crates=/cargo --remap-path-prefix=$root=/specreel --remap-path-prefix=$build/cargo=/target"
export CFLAGS="-ffile-prefix-map=$crates=/cargo -ffile-prefix-map=$build/cargo=/target"
export CARGO_TARGET_DIR="$build/cargo" PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_LIBDIR="$ffmpeg/lib/pkgconfig"
if [ "$arch" = x86_64-windows ]; then
    . packaging/windows-env.sh
    cargo build --release --locked --jobs "$jobs" --bin specreel --features static-ffmpeg --target "$target"
    binary=$CARGO_TARGET_DIR/$target/release/specreel.exe
    # The linker leaves a table of symbols.
    x86_64-w64-mingw32-strip "$binary"
else
    cargo zigbuild --release --locked --jobs "$jobs" --bin specreel --features static-ffmpeg --target "$target.2.28"
    binary=$CARGO_TARGET_DIR/$target/release/specreel
fi

# The binary may need the system's libraries only, of glibc 2.28 at most, and may name no path of this machine.
if [ "$arch" = x86_64-windows ]; then
    needed=$(x86_64-w64-mingw32-objdump -p "$binary" | sed -n 's/.*DLL Name: //p' | tr '[:upper:]' '[:lower:]' | sort -u |
        grep -vxE "$(tr '\n' '|' <packaging/windows-libraries | sed 's/|$//')" || true)
else
    needed=$(readelf -d "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libm|libdl|libpthread|librt|ld-linux-[a-z0-9_-]+)\.so\.[0-9]+$' || true)
    newest=$(readelf -V "$binary" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1)
    [ "$(printf '%s\nGLIBC_2.28\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.28 ] || { log "error: the binary needs $newest"; exit 1; }
fi
[ -z "$needed" ] || { log "error: the binary needs $needed"; exit 1; }
if strings "$binary" | grep -F -e "$root" -e "$build" -e "$HOME/" | sort -u | grep . >&2; then
    log "error: the binary names these paths of this machine"; exit 1
fi

# Completions and man pages come from the program itself, and are the same for every processor. Windows has neither.
texts=$build/texts
if [ "$arch" = "$(uname -m)" ]; then
    rm -rf "$texts" && mkdir -p "$texts/completions" "$texts/man"
    "$binary" completions bash >"$texts/completions/specreel.bash"
    "$binary" completions zsh >"$texts/completions/_specreel"
    "$binary" completions fish >"$texts/completions/specreel.fish"
    "$binary" man --dir "$texts/man" >/dev/null
fi
[ "$arch" = x86_64-windows ] || [ -d "$texts/man" ] || { log "error: no man pages; run make dist for this processor first"; exit 1; }

log "packages"
mkdir -p "$out"
python3 packaging/package.py --binary "$binary" --target "$target" --ffmpeg "$ffmpeg" --texts "$texts" --out "$out"
(cd "$build/sources" && tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    -cf "$out/specreel-c-sources.tar" -- *.dsc *.tar.*)
(cd "$out" && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS)
ls -l "$out" >&2
