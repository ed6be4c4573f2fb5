"""Pre-train a vision tower on cell labels: every merged cell names the figure that covers it.

    python tower.py demo-target --out RUN --minutes 10

A caption has a handful of facts per clip; the cells of a clip have hundreds of labels. A tower trained this way gives the
text model ready features, which saves most of the time that grounding takes with captions alone.
"""

import argparse
import itertools
import json
import pathlib
import time

import torch
import torch.nn.functional as F
from torch import nn

from clock import Clock, Threads, precision
from data import patches, prefetch, read_samples
from model import Tower
from presets import PRESETS

WORDS = {
    "background": "black white gray brown navy mint".split(),
    "colour": "none red orange yellow green cyan blue purple pink".split(),
    "shape": "circle triangle ring cross".split(),
    "size": "small medium large".split(),
    "texture": "plain striped dotted".split(),
    "motion": "left right rises falls grows shrinks spins stays".split(),
    "place": [0, 1, 2],  # index of the figure in its shot
    "count": [1, 2, 3],  # figures in the shot
    "relation": ["left", "above"],  # of the first of two figures to the second
}
# Curriculum, in equal shares of the run: first as many different figures as possible, then longer clips with cuts.
STAGES = [
    ["--shots", 1, "--format", "2x112x112:5", "--format", "4x112x112"],
    ["--shots", 1, "--format", "2x112x112:5", "--format", "4x112x112"],
    ["--shots", 2, "--format", "2x112x112:2", "--format", "4x112x112", "--format", "8x112x112"],
]


class Heads(nn.Module):
    """One linear classifier per attribute, on merged cells."""

    def __init__(self, width):
        super().__init__()
        self.heads = nn.ModuleDict({name: nn.Linear(width, len(words)) for name, words in WORDS.items()})

    def forward(self, cells, labels):
        """Loss, and (right, all) for every attribute."""
        cells = F.rms_norm(cells.float(), (cells.shape[-1],))
        loss, right = 0.0, {}
        for name, head in self.heads.items():
            known = labels[name] >= 0
            logits, wanted = head(cells[known]).float(), labels[name][known]
            loss = loss + (F.cross_entropy(logits, wanted) if len(wanted) else 0.0)
            right[name] = (int((logits.argmax(-1) == wanted).sum()), wanted.numel())
        return loss / len(WORDS), right


def labels(headers):
    """For every attribute the word index of each cell, -1 for none: [B, cells]."""
    table = {name: [] for name in WORDS}
    for header in headers:
        shots = header["facts"]["shots"]
        per_grid = len(header["cells"]) // len(header["shots"])
        for name, words in WORDS.items():
            if name in ("background", "count", "relation"):
                facts = [shot | {"count": len(shot["figures"])} for shot in shots]
                known = [words.index(fact[name]) if fact[name] else -1 for fact in facts]
                row = [known[shot] for shot in header["shots"] for _ in range(per_grid)]
            else:
                nothing = 0 if name == "colour" else -1
                figures = [figure | {"place": i} for shot in shots for i, figure in enumerate(shot["figures"])]
                index = [words.index(figure[name]) for figure in figures]
                row = [index[cell] if cell >= 0 else nothing for cell in header["cells"]]
            table[name].append(row)
    return {name: torch.tensor(rows) for name, rows in table.items()}


def chunks(stream, size):
    while samples := list(itertools.islice(stream, size)):
        headers = [header for header, _ in samples]
        pixels = torch.stack([pixels for _, pixels in samples])
        grid = (pixels.shape[1] // 2, pixels.shape[2] // 28, pixels.shape[3] // 28)
        yield patches(pixels), grid, labels(headers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", choices=PRESETS)
    parser.add_argument("--stream", default="specreel-lab scenes stream", help="command that writes the clips")
    parser.add_argument("--out", required=True, help="directory of the run")
    parser.add_argument("--minutes", type=float, default=10.0, help="training time")
    parser.add_argument("--init", help="directory of an earlier run to continue from")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    size = PRESETS[options.preset]
    tower, heads = Tower(size), Heads(size.hidden)
    tower.initialise()
    if options.init:
        state = torch.load(pathlib.Path(options.init) / "tower.pt", weights_only=True)
        tower.load_state_dict(state["tower"])
        heads.load_state_dict(state["heads"], strict=False)
    parameters = [*tower.parameters(), *heads.parameters()]
    optimiser = torch.optim.AdamW(parameters, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    clock, threads = Clock(0.0, options.minutes, None), Threads(options.threads)

    def stage():
        return min(int(clock.progress * len(STAGES)), len(STAGES) - 1)

    def samples():
        first = 1_000_000 + (50 + options.seed) * 100_000_000
        for index, kind in enumerate(STAGES):
            arguments = ["--seed", first + index * 10_000_000, "--short", 1, "--question", 0, "--group", options.batch]
            for batch in chunks(read_samples(options.stream, [*arguments, *kind]), options.batch):
                yield batch
                if stage() > index:
                    break

    tally, total, steps, last = {name: [0, 0] for name in WORDS}, 0.0, 0, time.monotonic()
    with open(out / "tower.jsonl", "a") as log:
        for step, (rows, grid, wanted) in enumerate(prefetch(samples())):
            begin = time.monotonic()
            scale = min(1.0, (step + 1) / 100) * max(0.05, 1.0 - clock.progress)
            for group in optimiser.param_groups:
                group["lr"] = options.lr * scale
            with precision():
                loss, right = heads(tower(rows, grid), wanted)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            threads.step(time.monotonic() - begin, grid[0])
            total, steps = total + float(loss.detach()), steps + 1
            for name, (hits, all_) in right.items():
                tally[name][0] += hits
                tally[name][1] += all_
            if time.monotonic() - last > 20 or clock.progress >= 1.0:
                line = {"minutes": round(clock.elapsed / 60, 2), "step": step, "loss": round(total / steps, 4)}
                line |= {name: round(hits / max(all_, 1), 3) for name, (hits, all_) in tally.items()}
                line["clips_per_s"] = round(steps * options.batch / (time.monotonic() - last), 1)
                print(json.dumps(line), file=log, flush=True)
                tally, total, steps, last = {name: [0, 0] for name in WORDS}, 0.0, 0, time.monotonic()
                torch.save({"preset": options.preset, "tower": tower.state_dict(), "heads": heads.state_dict()}, out / "tower.pt")
            if clock.progress >= 1.0:
                break


if __name__ == "__main__":
    main()
