#!/bin/sh
# ffmpeg.sh SOURCES PREFIX [TARGET]: builds FFmpeg as static libraries that read videos and pictures, and write MPEG-4 (for
# `specreel-lab scenes`), and nothing else: no network, no devices, no parts under the GPL. AV1 is decoded by dav1d.
#
# SOURCES has the unpacked sources of ffmpeg, dav1d and zlib (packaging/sources.sh). TARGET is a Rust target; with ZIG set, the
# libraries are for glibc 2.28, and for Windows they are built with mingw-w64. The licenses go to PREFIX/licenses.
set -eu
sources=$1 prefix=$2 target=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
work=$prefix/build
mkdir -p "$work" "$prefix/licenses"

ffmpeg=$(echo "$sources"/ffmpeg-*/) dav1d=$(echo "$sources"/dav1d-*/) zlib=$(echo "$sources"/zlib-*/)
# Zig's compiler writes debug information unless it is told not to, with the paths of its own headers.
flags="-O3 -g0 -fPIC -ffile-prefix-map=$sources=/usr/src -ffile-prefix-map=$prefix=/usr/src"
case $target in
    x86_64-*) arch=x86_64 ;;
    aarch64-*) arch=aarch64 ;;
    *) arch=$(uname -m) ;;
esac

system=linux threads='' pic=--enable-pic
if [ "${target%-windows-gnu}" != "$target" ]; then
    system=windows mingw=$arch-w64-mingw32 threads=--enable-w32threads pic=''
    export CC="$mingw-gcc" AR="$mingw-ar" RANLIB="$mingw-ranlib" CHOST="$mingw"
    # Code for Windows is always independent of its position, and the option is a warning.
    flags="$(echo "$flags" | sed 's/ -fPIC//')"
elif [ -n "${ZIG:-}" ]; then
    wrapper() { printf '#!/bin/sh\nexec %s %s "$@"\n' "$ZIG" "$2" >"$work/$1" && chmod +x "$work/$1"; }
    wrapper cc "cc -target $arch-linux-gnu.2.28"
    wrapper ar ar
    wrapper ranlib ranlib
    export CC="$work/cc" AR="$work/ar" RANLIB="$work/ranlib" CHOST="$arch-linux"
else
    export CC="${CC:-cc}" AR="${AR:-ar}" RANLIB="${RANLIB:-ranlib}"
fi
# Only these libraries: none of the machine's.
export PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig" PKG_CONFIG_PATH=
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN)}

[ -e "$prefix/lib/libz.a" ] || {
rm -rf "$work/zlib" && cp -R "$zlib" "$work/zlib"
(cd "$work/zlib" && CFLAGS="$flags" ./configure --static --prefix="$prefix" && make -j"$jobs" libz.a && make install) \
    >"$work/zlib.log" 2>&1 || { tail -n 20 "$work/zlib.log" >&2; exit 1; }
}

cross=
if [ -n "${CHOST:-}" ]; then
    cross="--cross-file $work/cross.ini"
    cat >"$work/cross.ini" <<END
[binaries]
c = '$CC'
ar = '$AR'
pkg-config = 'pkg-config'
nasm = 'nasm'
[host_machine]
system = '$system'
cpu_family = '$arch'
cpu = '$arch'
endian = 'little'
END
fi
[ -e "$prefix/lib/libdav1d.a" ] || {
rm -rf "$work/dav1d"
# shellcheck disable=SC2086
(CFLAGS="$flags" meson setup "$work/dav1d" "$dav1d" $cross --prefix "$prefix" --libdir lib --buildtype release --default-library static \
    -Denable_tools=false -Denable_tests=false && ninja -C "$work/dav1d" -j "$jobs" install) \
    >"$work/dav1d.log" 2>&1 || { tail -n 20 "$work/dav1d.log" >&2; exit 1; }
}

list() { tr -s ' \n' ',' <"$here/ffmpeg/$1" | sed 's/,$//'; }
cross=
os=$system && [ "$os" = linux ] || os=mingw32
[ -z "${CHOST:-}" ] || cross="--enable-cross-compile --target-os=$os $threads --arch=$arch --cc=$CC --ar=$AR --ranlib=$RANLIB"
mkdir -p "$work/ffmpeg"
# shellcheck disable=SC2086
(cd "$work/ffmpeg" && "$ffmpeg/configure" $cross --prefix="$prefix" --extra-cflags="$flags -I$prefix/include" --extra-ldflags="-L$prefix/lib" \
    --pkg-config-flags=--static --enable-static --disable-shared $pic --disable-stripping --disable-debug \
    --disable-everything --disable-autodetect --disable-programs --disable-doc --disable-network \
    --disable-avdevice --disable-avfilter --enable-zlib --enable-libdav1d --enable-protocol=file,pipe \
    --enable-parsers --enable-demuxer="$(list demuxers)" --enable-decoder="$(list decoders)" \
    --enable-encoder=mpeg4 --enable-muxer=mp4,matroska &&
    # Glibc 2.28 has sysctl, Zig's headers do not; and FFmpeg would name its options, with paths of this machine.
    sed -e 's/^#define HAVE_SYSCTL 1$/#define HAVE_SYSCTL 0/' -e 's|^\(#define FFMPEG_CONFIGURATION\) .*|\1 "packaging/ffmpeg.sh"|' \
        config.h >config.new && mv config.new config.h &&
    make -j"$jobs" install) >"$work/ffmpeg.log" 2>&1 || { tail -n 20 "$work/ffmpeg.log" >&2; exit 1; }

# Headers of hardware that is not used, which need others.
rm -f "$prefix"/include/libavutil/hwcontext_d3d*.h

# The license that configure found: anything but this one must not be shipped.
grep -q '^License: LGPL version 2.1 or later$' "$work/ffmpeg.log" || { grep '^License' "$work/ffmpeg.log" >&2; exit 1; }
cp "$ffmpeg/COPYING.LGPLv2.1" "$prefix/licenses/FFmpeg-LGPL-2.1.txt"
cp "$dav1d/COPYING" "$prefix/licenses/dav1d-BSD-2-Clause.txt"
cp "$zlib/LICENSE" "$prefix/licenses/zlib.txt" 2>/dev/null || sed -n '/Copyright (C)/,/\*\//p' "$zlib/zlib.h" >"$prefix/licenses/zlib.txt"
(cd "$sources" && ls -- *.dsc) >"$prefix/licenses/SOURCES.txt"
