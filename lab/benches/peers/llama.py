"""Measure llama.cpp and specreel on one GGUF model, in turn; called by llama.sh.

    python llama.py LLAMA_BIN SPECREEL MODEL ROUNDS

Every line is the median of the rounds with its extremes, and the ratio of the medians (above 1: specreel is faster).
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROWS = [1, 2, 4, 6, 8, 11, 16, 26]
PROMPTS = [512]
SLOTS = 256
SIDE = 448
THREADS = os.cpu_count()


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stderr[-2000:]}")
    return done.stdout, done.stderr


def llama_passes(folder, model):
    """Milliseconds by rows, and by length of a prompt."""
    found = {}
    for rows, depth in [(ROWS, SLOTS), (PROMPTS, 0)]:
        sizes = ",".join(map(str, rows))
        out, _ = run(folder / "llama-bench", "-m", model, "-p", sizes, "-n", 0, "-d", depth, "-t", THREADS, "-r", 2, "-o", "json")
        for entry in json.loads(out):
            # The fastest of the repetitions, as for specreel, whose figure is a median of many.
            found["prompt" if depth == 0 else "rows", entry["n_prompt"]] = min(entry["samples_ns"]) / 1e6
    return found


def our_passes(specreel, model):
    found = {}
    rows, slots = ",".join(map(str, ROWS)), ",".join(map(str, [SLOTS, *PROMPTS]))
    out, _ = run(specreel, "bench", "--suite", "step", "--target", model, "--rows", rows, "--slots", slots, "--json")
    for line in out.splitlines():
        entry = json.loads(line)
        entry = entry.get("step", entry)
        if entry.get("role") != "target":
            continue
        if entry["slots"] == SLOTS:
            found |= {("rows", p["rows"]): p["ms"] for p in entry["passes"]}
        if entry["slots"] in PROMPTS:
            found["prompt", entry["slots"]] = entry["fill_ms"]
    return found


def llama_picture(folder, model, picture):
    """Milliseconds of the tower for one picture, and from the start of the program to the first token."""
    start = time.monotonic()
    mmproj = model.parent / "mmproj.gguf"
    out, err = run(folder / "llama-mtmd-cli", "-m", model, "--mmproj", mmproj, "--image", picture, "-p", "What is this?", "-n", 1, "-t", THREADS)
    whole = (time.monotonic() - start) * 1e3
    tower = re.findall(r"(?:encoded in|encoding done in) (\d+) ms", out + err)
    return {("tower", SIDE): sum(map(float, tower)) if tower else float("nan"), ("start to first token", SIDE): whole}


def our_picture(specreel, model, picture):
    start = time.monotonic()
    command = [specreel, "caption", picture, "--target", model, "--method", "autoregressive", "--max-new-tokens", "1", "--json", "--measure", "never", "--ignore-memory"]
    out, _ = run(*command)
    whole = (time.monotonic() - start) * 1e3
    done = [json.loads(line) for line in out.splitlines() if '"done"' in line][-1]
    timings = (done.get("stats") or done["done"]["stats"])["timings"]
    return {("tower", SIDE): timings["encode_target_ms"], ("start to first token", SIDE): whole}


def main():
    folder, specreel, model, rounds = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4])
    from PIL import Image

    with tempfile.TemporaryDirectory() as scratch:
        picture = pathlib.Path(scratch) / "picture.png"
        Image.effect_noise((SIDE, SIDE), 80).convert("RGB").save(picture)
        theirs, ours = [], []
        for number in range(rounds):
            # Alternately first, so that neither profits from a machine that warms up or slows down.
            turns = [
                lambda: theirs.append(llama_passes(folder, model) | llama_picture(folder, model, picture)),
                lambda: ours.append(our_passes(specreel, model) | our_picture(specreel, model, picture)),
            ]
            for turn in turns if number % 2 == 0 else reversed(turns):
                turn()
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    print(f"{model.name}, {THREADS} threads, ms: median (extremes) of {rounds} rounds\n")
    print("| | llama.cpp | specreel | ratio |\n|---|---|---|---|")
    middle = lambda all, key: statistics.median(found[key] for found in all)
    spread = lambda all, key: f"{middle(all, key):.0f} ({min(f[key] for f in all):.0f} to {max(f[key] for f in all):.0f})"
    for key in theirs[0]:
        name = f"{key[1]} {key[0]}" if key[0] == "rows" else f"{key[0]} {key[1]}"
        print(f"| {name} | {spread(theirs, key)} | {spread(ours, key)} | {middle(theirs, key) / middle(ours, key):.2f} |")


main()
