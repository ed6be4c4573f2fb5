#!/bin/sh
# Builds the packages of this commit again, from a clone in another directory and with everything that is in them, and compares
# them with those in dist/: see docs/releasing.md.
#
# reproduce.sh [x86_64|aarch64]...; REPRODUCE=DIR keeps the second build. The processor of this machine must come first: man pages
# and completions are its.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
log() { printf 'reproduce: %s\n' "$*" >&2; }
[ $# -gt 0 ] || set -- "$(uname -m)"
[ -e dist/SHA256SUMS ] || { log "error: dist/ has no packages; run make dist"; exit 2; }
[ -z "$(git status --porcelain)" ] || { log "error: this checkout has changes that a clone has not"; exit 2; }

if [ -n "${REPRODUCE:-}" ]; then
    mkdir -p "$REPRODUCE" && again=$(cd "$REPRODUCE" && pwd)
else
    again=$(mktemp -d)
    trap 'rm -rf "$again"' EXIT
fi
rm -rf "$again/checkout"
git clone --quiet --no-tags "file://$root" "$again/checkout"
git -C "$again/checkout" checkout --quiet --detach "$(git rev-parse HEAD)"
for arch in "$@"; do
    (cd "$again/checkout" && SPECREEL_DIST_BUILD="$again/build" make --no-print-directory dist ARCH="$arch")
done

different=0
while read -r sum name; do
    found=$(sed -n "s/^\([0-9a-f]*\)  $(printf '%s' "$name" | sed 's/[.*[]/\\&/g')\$/\1/p" dist/SHA256SUMS)
    if [ "$sum" = "$found" ]; then echo "same     $name"
    else
        echo "differs  $name"
        different=$((different + 1))
    fi
done <"$again/checkout/dist/SHA256SUMS"
echo "$different packages differ"
[ "$different" -eq 0 ] || { log "diffoscope dist/NAME $again/checkout/dist/NAME shows where (with REPRODUCE=DIR)"; exit 1; }
