#!/bin/sh
# Checks the program for macOS on Linux, without an SDK: nothing is linked. C code is compiled with Zig, whose headers of macOS
# libclang reads, too; FFmpeg's headers are the system's.
#
# check-macos.sh [CARGO ARGUMENT]...: FFmpeg's development packages, rustup and python3 with venv are needed. Installs Zig from
# PyPI, and builds below target/macos.
set -eu
cd "$(dirname "$0")/.."
sh scripts/setup.sh build
build=${CHECK_MACOS_BUILD:-$PWD/target/macos}
mkdir -p "$build"
[ -x "$build/venv/bin/pip" ] || python3 -m venv "$build/venv"
"$build/venv/bin/pip" install -q --disable-pip-version-check "$(grep ^ziglang packaging/requirements.txt)"
zig=$(echo "$build"/venv/lib/python3*/site-packages/ziglang)

# The headers of FFmpeg alone: other headers beside them are those of Linux.
ffmpeg=$build/ffmpeg
mkdir -p "$ffmpeg/include" "$ffmpeg/pkgconfig"
for library in libavcodec libavdevice libavfilter libavformat libavutil libpostproc libswresample libswscale; do
    headers=$(pkg-config --variable=includedir "$library" 2>/dev/null || true)/$library
    [ -d "$headers" ] || continue
    cp -R "$headers" "$ffmpeg/include/"
    cat >"$ffmpeg/pkgconfig/$library.pc" <<END
Name: $library
Description: $library
Version: $(pkg-config --modversion "$library")
Cflags: -I$ffmpeg/include
Libs: -l${library#lib}
END
done

# libclang needs its own headers among those of macOS, and older ones lack a type.
for headers in /usr/lib/llvm*/lib/clang/*/include; do [ ! -e "$headers/stdarg.h" ] || own=$headers; done

for machine in aarch64 x86_64; do
    target=$machine-apple-darwin
    rustup target add "$target" 2>/dev/null || { echo "check-macos: Rust's standard library for $target is missing" >&2; exit 1; }
    # Zig names the system itself, and has no SDK.
    cat >"$build/cc-$machine" <<END
#!/bin/bash
arguments=()
while [ \$# -gt 0 ]; do
    case \$1 in
        --target=* | -mmacosx-version-min=* | -gdwarf-2 | -Wno-*) ;;
        -arch | -isysroot) shift ;;
        *) arguments+=("\$1") ;;
    esac
    shift
done
exec "$zig/zig" cc -target $machine-macos -g0 "\${arguments[@]}"
END
    printf '#!/bin/sh\nexec "%s/zig" ar "$@"\n' "$zig" >"$build/ar"
    chmod +x "$build/cc-$machine" "$build/ar"
    variable=$(echo "$target" | tr - _)
    export "CC_$variable=$build/cc-$machine" "CXX_$variable=$build/cc-$machine" "AR_$variable=$build/ar"
    export "BINDGEN_EXTRA_CLANG_ARGS_$variable=-D_Float16=float -isystem ${own:?libclang has no headers} -isystem $zig/lib/libc/include/any-darwin-any"
    PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_LIBDIR="$ffmpeg/pkgconfig" CARGO_TARGET_DIR="$build" \
        cargo check --locked --target "$target" --bin specreel "$@"
done
