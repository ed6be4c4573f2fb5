"""Train one model of a pair on new clips until a deadline.

    python train.py demo-target --tokenizer TOKENIZER --out RUN --minutes 100

The schedule follows the clock, so the learning rate reaches its final value when the time is up, however fast the machine
is. A stopped run resumes from its last checkpoint when it is started again with the same `--out`.
"""

import argparse
import json
import pathlib
import time

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from clock import Clock, Threads, precision
from data import Encoder, batches, prefetch
from model import Model
from presets import PRESETS, VOCAB_SIZE
from teacher import Teacher
from tower import Heads, labels

# (share of the run at which the phase ends, arguments of the stream): easy clips and dense facts first, then prose and many
# formats.
PHASES = [
    (0.15, ["--figures", 1, "--short", 0.60, "--question", 0.15, "--format", "4x112x112:3", "--format", "8x112x112"]),
    (0.35, ["--figures", 2, "--short", 0.45, "--question", 0.15, "--format", "4x112x112", "--format", "8x112x112"]),
    (0.80, ["--short", 0.35, "--question", 0.08, "--format", "8x112x112"]),
    (
        1.01,
        ["--short", 0.10, "--question", 0.10, "--format", "8x112x112:4", "--format", "12x112x112:4"]
        + ["--format", "16x112x112:3", "--format", "8x84x140:2", "--format", "8x140x84:1"],
    ),
]
# A pre-trained tower (tower.py) is frozen for this share of the run, then trained on its own loss and the text's.
RESTING = 0.3
LESSONS = 0.5  # weight of the tower's own loss
WARM_UP = 200
FLOOR = 0.03


def schedule(step, progress):
    """Factor of the learning rate: linear warm-up in steps, linear decay in time."""
    return min(1.0, (step + 1) / WARM_UP) * max(FLOOR, 1.0 - progress * (1.0 - FLOOR))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", choices=PRESETS)
    parser.add_argument("--tokenizer", required=True, help="directory of the tokenizer")
    parser.add_argument("--stream", default="specreel scenes stream", help="command that writes the clips")
    parser.add_argument("--out", required=True, help="directory of the run")
    parser.add_argument("--minutes", type=float, default=100.0, help="training time")
    parser.add_argument("--until", help="time of day HH:MM at which training ends, instead of --minutes")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1.5e-3)
    parser.add_argument("--tower", help="directory of a run of tower.py: start from its tower")
    parser.add_argument("--init", help="directory in hub layout: start from its weights")
    parser.add_argument("--teacher", help="directory in hub layout: learn from captions that this model writes")
    parser.add_argument("--taught", type=float, default=0.9, help="share of the groups that the teacher rewrites")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--save-every", type=float, default=120.0, help="seconds between checkpoints")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    encoder = Encoder(Tokenizer.from_file(str(pathlib.Path(options.tokenizer) / "tokenizer.json")))
    model = Model(PRESETS[options.preset], VOCAB_SIZE)
    heads = Heads(model.size.hidden)
    if options.init:
        model.load_state_dict({name: value.float() for name, value in load_file(pathlib.Path(options.init) / "model.safetensors").items()})
    teacher = Teacher(options.teacher, encoder, options.taught) if options.teacher else None
    if options.tower:
        state = torch.load(pathlib.Path(options.tower) / "tower.pt", weights_only=True)
        model.visual.load_state_dict(state["tower"])
        heads.load_state_dict(state["heads"], strict=False)
    parameters = [*model.parameters(), *heads.parameters()]
    average = {name: value.clone() for name, value in model.state_dict().items()}
    optimiser = torch.optim.AdamW(parameters, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    step, clips, elapsed = 0, 0, 0.0
    fresh = 1_000_000 + options.seed * 100_000_000  # the first unseen scene; runs of other seeds use other scenes
    saved = out / "checkpoint.pt"
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        heads.load_state_dict(state["heads"], strict=False)
        optimiser.load_state_dict(state["optimiser"])
        average, step, clips, elapsed = state["average"], state["step"], state["clips"], state["elapsed"]
        fresh = state.get("fresh", fresh + 20000)
    clock = Clock(elapsed, options.minutes, options.until)
    threads = Threads(options.threads)
    log = open(out / "log.jsonl", "a")

    def save():
        state = {"model": model.state_dict(), "heads": heads.state_dict(), "optimiser": optimiser.state_dict(), "average": average}
        state |= {"preset": options.preset, "step": step, "clips": clips, "elapsed": clock.elapsed, "fresh": fresh}
        torch.save(state, saved.with_suffix(".new"))
        saved.with_suffix(".new").replace(saved)

    def phase():
        if options.init:  # the easy phases are over
            return len(PHASES) - 1
        return next(index for index, (end, _) in enumerate(PHASES) if min(clock.progress, 1.0) < end)

    last_save = last_log = time.monotonic()
    tally = torch.zeros(7)  # loss, right facts, facts, right tokens, tokens, right shapes in cells, shapes in cells
    steps = 0
    while clock.progress < 1.0:
        current = phase()
        stream = batches(encoder, options.stream, ["--seed", fresh, *PHASES[current][1]], options.batch, rewrite=teacher)
        for batch in prefetch(stream):
            begin = time.monotonic()
            resting = options.tower and clock.progress < RESTING
            with precision():
                with torch.set_grad_enabled(not resting):
                    cells = model.visual(batch["patches"], batch["grid"])
                loss, right, facts = model(batch, cells)
                lesson, hits = heads(cells, labels(batch["headers"]))
            (loss if resting else loss + LESSONS * lesson).backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            for group in optimiser.param_groups:
                group["lr"] = options.lr * schedule(step, clock.progress)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            if step % 10 == 0:
                for name, value in model.state_dict().items():
                    average[name].lerp_(value, 0.1 if step > 200 else 1.0)
            step += 1
            steps += 1
            clips += len(batch["headers"])
            fresh = max(fresh, 1 + max(header["seed"] for header in batch["headers"]))
            tokens = batch["patches"].shape[1] * batch["patches"].shape[2] // 2 + batch["ids"].shape[1]
            threads.step(time.monotonic() - begin, tokens)
            counts = [(right & facts).sum(), facts.sum(), right.sum(), right.numel(), *hits["shape"]]
            tally += torch.tensor([float(loss.detach()), *map(float, counts)])
            now = time.monotonic()
            if now - last_log > 30:
                line = {
                    "minutes": round(clock.elapsed / 60, 2), "step": step, "clips": clips, "phase": current,
                    "loss": round(float(tally[0]) / steps, 4), "facts": round(float(tally[1] / tally[2]), 4),
                    "tokens": round(float(tally[3] / tally[4]), 4), "cells": round(float(tally[5] / tally[6]), 4),
                    "threads": torch.get_num_threads(),
                    "clips_per_s": round(steps * options.batch / (now - last_log), 2),
                }
                print(json.dumps(line), file=log, flush=True)
                tally.zero_()
                steps, last_log = 0, now
            if now - last_save > options.save_every:
                save()
                last_save = now
            if clock.progress >= 1.0 or phase() != current:
                break
    save()


if __name__ == "__main__":
    main()
