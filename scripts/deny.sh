#!/bin/sh
# Checks licenses, sources and duplicate versions of all dependencies against deny.toml.
set -eu
cd "$(dirname "$0")/.."
version=0.20.2    # older ones do not read deny.toml
tools=${CARGO_TARGET_DIR:-target}/tools
export PATH="$tools:$PATH"

[ "$(cargo-deny --version 2>/dev/null)" = "cargo-deny $version" ] || sh scripts/tool.sh cargo-deny "$version" "$tools"
cargo-deny --log-level error check --hide-inclusion-graph licenses bans sources
