"""Train one model of a pair on new clips, for a time or a number of clips.

    python train.py demo-target --tokenizer TOKENIZER --out RUN --minutes 100

The schedule follows the clock, so the learning rate reaches its final value when the time is up, however fast the machine
is; with `--clips` it follows the clips instead, however busy the machine is. A stopped run resumes from its last checkpoint
when it is started again with the same `--out`; a finished one ends at once.
"""

import argparse
import json
import pathlib
import time

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from clock import Clock, Threads, precision
from data import Encoder, batches, prefetch, repeat
from model import Model
from evaluate import load
from presets import PRESETS
from teacher import Captions, Guide
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
# The second world: the tower knows the pictures, and a text that knows where to look learns facts and words together; then
# longer and longer clips, up to 1,088 visual tokens.
SECOND_PHASES = [
    (0.10, ["--short", 0.50, "--format", "8x112x112"]),
    (0.55, ["--short", 0.15, "--format", "8x112x112:6", "--format", "12x112x112:2", "--format", "16x112x112:2"]),
    (0.75, ["--short", 0.05, "--format", "8x112x112:8", "--format", "16x112x112:4", "--format", "32x112x112:2", "--format", "64x112x112"]),
    (1.01, ["--short", 0.05, "--format", "16x112x112:4", "--format", "64x112x112:2", "--format", "128x112x112:3", "--format", "136x112x112"]),
]
# A trained tower (`--tower`, `--inherit`) is frozen for this share of the run, then trained on its own loss and the text's.
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
    parser.add_argument("--stream", default="specreel-lab scenes stream", help="command that writes the clips")
    parser.add_argument("--out", required=True, help="directory of the run")
    parser.add_argument("--minutes", type=float, default=100.0, help="training time")
    parser.add_argument("--clips", type=int, help="number of clips to train on, instead of --minutes")
    parser.add_argument("--until", help="time of day HH:MM at which training ends, instead of --minutes")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1.5e-3)
    parser.add_argument("--tower", help="directory of a run of tower.py: start from its tower")
    parser.add_argument("--inherit", help="directory of a run of inherit.py: start from its weights")
    parser.add_argument("--init", help="directory in hub layout or of an earlier run: start from its weights, at the last phase")
    resting = f"share of the run for which the tower is frozen; its last layer is not, except with --tower [default: {RESTING} with --tower, else 0]"
    parser.add_argument("--rest", type=float, help=resting)
    parser.add_argument("--teacher", help="directory in hub layout: learn from this model")
    parser.add_argument("--taught", type=float, default=0.9, help="share of the groups whose answers the teacher writes")
    parser.add_argument("--soft", type=float, default=0.0, help="share of the teacher's probabilities in the loss")
    parser.add_argument("--states", type=float, default=0.0, help="weight of the distance to the teacher's states")
    parser.add_argument("--uses", type=int, default=1, help="how often each clip is trained on; the teacher and a frozen tower look at it once")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--save-every", type=float, default=120.0, help="seconds between checkpoints")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    phases = SECOND_PHASES if options.preset.startswith("second-") else PHASES
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    encoder = Encoder(Tokenizer.from_file(str(pathlib.Path(options.tokenizer) / "tokenizer.json")))
    model = Model(PRESETS[options.preset])
    heads = Heads(model.size.hidden)
    guide = rewrite = None
    if options.teacher:
        teacher = load(options.teacher)
        rewrite = Captions(teacher, encoder, options.taught) if options.taught > 0 else None
        guide = Guide(teacher, model.size, options.soft, options.states) if options.soft + options.states > 0 else None
    if options.init and (pathlib.Path(options.init) / "checkpoint.pt").exists():
        state = torch.load(pathlib.Path(options.init) / "checkpoint.pt", weights_only=True)
        model.load_state_dict(state["average"])
        heads.load_state_dict(state["heads"], strict=False)
        if guide and "guide" in state:
            guide.load_state_dict(state["guide"])
    elif options.init:
        model.load_state_dict({name: value.float() for name, value in load_file(pathlib.Path(options.init) / "model.safetensors").items()})
    if options.inherit:
        state = torch.load(pathlib.Path(options.inherit) / "inherit.pt", weights_only=True)
        model.load_state_dict(state["model"])
        if guide:
            guide.start(state["down"])
    if options.tower:
        state = torch.load(pathlib.Path(options.tower) / "tower.pt", weights_only=True)
        model.visual.load_state_dict(state["tower"])
        heads.load_state_dict(state["heads"], strict=False)
    rest = options.rest if options.rest is not None else RESTING if options.tower else 0.0
    parameters = [*model.parameters(), *heads.parameters(), *(guide.parameters() if guide else [])]
    average = {name: value.clone() for name, value in model.state_dict().items()}
    optimiser = torch.optim.AdamW(parameters, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    step, clips, elapsed = 0, 0, 0.0
    fresh = 1_000_000 + options.seed * 100_000_000  # the first unseen scene; runs of other seeds use other scenes
    saved = out / "checkpoint.pt"
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        heads.load_state_dict(state["heads"], strict=False)
        if guide:
            guide.load_state_dict(state["guide"])
        optimiser.load_state_dict(state["optimiser"])
        average, step, clips, elapsed = state["average"], state["step"], state["clips"], state["elapsed"]
        fresh = state.get("fresh", fresh + 20000)
    clock = Clock(elapsed, options.minutes, options.until, options.clips)
    clock.seen = clips
    threads = Threads(options.threads)
    log = open(out / "log.jsonl", "a")

    def save():
        state = {"model": model.state_dict(), "heads": heads.state_dict(), "optimiser": optimiser.state_dict(), "average": average}
        state |= {"guide": guide.state_dict()} if guide else {}
        state |= {"preset": options.preset, "step": step, "clips": clips, "elapsed": clock.elapsed, "fresh": fresh}
        torch.save(state, saved.with_suffix(".new"))
        saved.with_suffix(".new").replace(saved)

    def phase():
        if options.init:  # the easy phases are over
            return len(phases) - 1
        return next(index for index, (end, _) in enumerate(phases) if min(clock.progress, 1.0) < end)

    last_save = last_log = time.monotonic()
    # loss, right facts, facts, right tokens, tokens, right shapes in cells, shapes in cells, teacher's right facts, agreed tokens
    tally = torch.zeros(9)
    # A frozen tower that is the teacher's own sees for both.
    shared = guide and all(
        torch.equal(value, teacher.state_dict().get(name, torch.empty(0)))
        for name, value in model.state_dict().items()
        if name.startswith("visual.") and not name.startswith(f"visual.merger.mlp.{len(model.visual.merger.mlp) - 1}.")
    )
    steps = 0
    while clock.progress < 1.0:
        current = phase()
        stream = batches(encoder, options.stream, ["--seed", fresh, *phases[current][1]], options.batch, rewrite=rewrite)
        for batch in repeat(prefetch(stream), options.uses):
            begin = time.monotonic()
            resting = clock.progress < rest
            whole = resting and bool(options.tower)  # tower.py trained the last layer, too
            with precision():
                if resting and "features" in batch:
                    features = batch["features"]
                else:
                    with torch.set_grad_enabled(not resting):
                        features = model.visual.features(batch["patches"], batch["grid"])
                with torch.set_grad_enabled(not whole):
                    cells = model.visual.cells(features)
                if guide and "teacher_logits" not in batch:
                    guide.read(batch, features if resting and shared else None)
                if resting:
                    batch["features"] = features
                if rest >= 1.0:
                    batch.pop("patches", None)  # never needed again
                loss, choice, facts = model(batch, cells, guide)
                lesson, hits = heads(cells, labels(batch["headers"]))
            (loss if whole else loss + LESSONS * lesson).backward()
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
            clock.seen = clips
            fresh = max(fresh, 1 + max(header["seed"] for header in batch["headers"]))
            tokens = 2 * batch["visual"] + batch["ids"].shape[1]
            threads.step(time.monotonic() - begin, tokens)
            truth = batch["labels"][batch["labels"] >= 0]
            right, taught = choice == truth, batch["teacher_logits"].argmax(-1) if guide else truth
            counts = [(right & facts).sum(), facts.sum(), right.sum(), right.numel(), *hits["shape"]]
            counts += [((taught == truth) & facts).sum(), (taught == choice).sum()]
            tally += torch.tensor([float(loss.detach()), *map(float, counts)])
            now = time.monotonic()
            if now - last_log > 30:
                line = {
                    "minutes": round(clock.elapsed / 60, 2), "step": step, "clips": clips, "phase": current,
                    "loss": round(float(tally[0]) / steps, 4), "facts": round(float(tally[1] / tally[2].clamp(1)), 4),
                    "tokens": round(float(tally[3] / tally[4]), 4), "cells": round(float(tally[5] / tally[6]), 4),
                    "threads": torch.get_num_threads(),
                    "clips_per_s": round(steps * options.batch / (now - last_log), 2),
                }
                if guide:
                    line["teacher_facts"] = round(float(tally[7] / tally[2].clamp(1)), 4)
                    line["agreed"] = round(float(tally[8] / tally[4]), 4)
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
