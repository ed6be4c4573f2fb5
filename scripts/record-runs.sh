#!/bin/sh
# Records the runs that the pictures of the docs play: real ones, of the embedded models on embedded clips, with measured speeds
# (on a quiet machine). They go to assets/demo/runs; the pictures are then made by
#     SPECREEL_UPDATE_SCREEN=1 cargo test --test it pictures
# Takes the program: scripts/record-runs.sh target/release/specreel
set -eu

specreel=$(realpath "${1:-target/release/specreel}")
# The runs name the clip as it is typed here, without a directory.
cd "$(dirname "$0")/../assets/demo/clips"
mkdir -p ../runs

record() {
    name=$1
    shift
    log=$("$specreel" "$@" --json --measure always)
    # How far the models were loaded is not a part of a run.
    printf '%s\n' "$log" | grep -v '"stage":"load"' >"../runs/$name.jsonl"
}

record comparison compare three-shapes.mp4 --methods auto,naive,lenient --logprobs 5
# In the order of the studio's library.
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
record batch caption three-shapes.mp4 one-large-shape.mp4 three-shots.mp4 wide-two-shots.mp4 --sidecar txt --out-dir "$out"
