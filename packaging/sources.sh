#!/bin/sh
# sources.sh DIR: downloads and unpacks the sources of FFmpeg, dav1d and zlib into DIR, from Debian 13, with apt's signatures;
# from Debian 12 what a mirror lacks. The machine's own package lists are neither used nor changed.
set -eu
mkdir -p "$1" && dir=$(cd "$1" && pwd)
for name in ffmpeg dav1d zlib; do
    for found in "$dir/$name"-*/; do [ -d "$found" ] || missing=yes; done
done
[ -n "${missing:-}" ] || exit 0

mkdir -p "$dir/apt/lists/partial" "$dir/apt/parts" "$dir/apt/cache"
deb_src() {
    printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' \
        "$1" "$2" >"$dir/apt/parts/${2%% *}.sources"
}
deb_src http://deb.debian.org/debian "trixie trixie-updates"
deb_src http://deb.debian.org/debian bookworm
deb_src http://deb.debian.org/debian-security trixie-security
apt() {
    apt-get -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$dir/apt/parts" -o Dir::State::Lists="$dir/apt/lists" \
        -o Dir::Cache="$dir/apt/cache" -o APT::Sandbox::User="$(id -un)" "$@"
}
apt update
(cd "$dir" && for name in ffmpeg dav1d zlib; do apt source "$name" || apt source "$name/bookworm"; done)
