#!/bin/sh
# Builds the container image NAME:VERSION (default specreel:VERSION) from the archives in dist/, for each processor that has one.
#
# image.sh [NAME]: buildah is needed and, for another processor, qemu-user-static. BASE is another base image (Debian or Ubuntu).
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
image=${1:-specreel}:$version
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT

buildah manifest rm "$image" >/dev/null 2>&1 || true
for archive in dist/specreel-"$version"-*-unknown-linux-gnu.tar.gz; do
    [ -e "$archive" ] || { echo "image: error: dist/ has no archive for Linux; run make dist" >&2; exit 1; }
    case $archive in
        *-x86_64-*) arch=amd64 ;;
        *-aarch64-*) arch=arm64 ;;
    esac
    mkdir "$files/$arch"
    tar -C "$files/$arch" --strip-components=1 -xzf "$archive"
    buildah build --manifest "$image" --platform "linux/$arch" --build-arg "VERSION=$version" ${BASE:+--build-arg "BASE=$BASE"} \
        --file packaging/Containerfile "$files"
done
echo "$image"
