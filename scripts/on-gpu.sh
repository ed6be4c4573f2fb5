#!/bin/sh
# Measures specreel on a GPU and writes one page, specreel-gpu.md, to send in. Needs specreel, specreel-lab beside it, and the driver of
# the card.
#
#     sh scripts/on-gpu.sh [PATH OF specreel] [DEVICE, such as gpu:1]
#
# Takes about ten minutes on a card. QUICK=1 measures less, for a try on a software driver.
set -eu

program=${1:-specreel}
device=${2:-gpu}
page=specreel-gpu.md
command -v "$program" >/dev/null 2>&1 || {
    echo "on-gpu: $program: not found; name the path of specreel" >&2
    exit 2
}
lab=$program-lab
command -v "$lab" >/dev/null 2>&1 || {
    echo "on-gpu: $lab: not found; build it with: cargo build --release --workspace --bins" >&2
    exit 2
}
if [ -e "$page" ]; then
    echo "on-gpu: $page exists; move it away" >&2
    exit 3
fi

failed=0
# Shows a command and what it prints; a failure is noted on the page and does not end the others.
section() {
    title=$1
    shift
    echo "on-gpu: $title" >&2
    {
        case $1 in bench) of=$lab ;; *) of=$program ;; esac
        printf '## %s\n\n```\n$ %s %s\n' "$title" "${of##*/}" "$*"
        begun=$(date +%s)
        if "$of" "$@" 2>&1; then
            printf '```\n\n%s seconds\n\n' "$(($(date +%s) - begun))"
        else
            printf '```\n\n**failed with exit code %s**\n\n' "$?"
            failed=$((failed + 1))
        fi
    } >>"$page"
}

printf '# specreel on a GPU\n\n%s, %s\n\n' "$("$program" --version | head -n 1)" "$(uname -srm)" >"$page"
section "Devices" doctor
if [ "${QUICK:-0}" = 1 ]; then
    kernels="--shape tiny --rows 1,6 --slots 100"
    shapes=tiny
    passes="--slots 100 --rows 1,6"
else
    kernels=
    shapes="qwen3-vl-2b qwen3-vl-8b"
    passes="--slots 1000,25000 --rows 1,6,11,26"
fi
# shellcheck disable=SC2086 # lists of options
section "Kernels" bench --suite device --device "$device" $kernels
for shape in $shapes; do
    for dtype in q8_0 q4_k; do
        # shellcheck disable=SC2086
        section "Passes: $shape, $dtype" bench --suite step --device "$device" --shape "$shape" --dtype "$dtype" $passes
    done
done
for method in naive naive-tree sparrow dflash std; do
    section "Equality: $method" caption demo --device "$device" --method "$method" --verify --max-new-tokens 48
done
section "Speed: embedded models" compare demo --device "$device" --methods naive,lvspec,sparrow,auto

# Paths name the user.
sed "s|${HOME:-/nonexistent}|~|g" "$page" >"$page.new" && mv "$page.new" "$page"

if [ "$failed" -gt 0 ]; then
    echo "on-gpu: $page: $failed sections failed" >&2
    exit 1
fi
echo "on-gpu: wrote $page" >&2
