"""Score greedy captions of held-out clips with `specreel-lab scenes score`, and the acceptance of a chain of draft tokens.

    python evaluate.py assets/demo/target --drafter assets/demo/drafter --clips 64
"""

import argparse
import json
import pathlib
import shlex
import subprocess

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from data import Encoder, collate, read_samples
from model import Model
from presets import Size


class Cache:
    """KV cache of a batch whose rows have prompts of the same length."""

    def __init__(self):
        self.kept = {}

    def extend(self, layer, k, v):
        old = self.kept.get(layer)
        if old is not None:
            k, v = torch.cat([old[0], k], dim=2), torch.cat([old[1], v], dim=2)
        self.kept[layer] = (k, v)
        n, total = (k.shape[2] - old[0].shape[2] if old is not None else k.shape[2]), k.shape[2]
        return k, v, torch.ones(n, total, dtype=torch.bool).tril(total - n)


def load(folder):
    """Load a model from a directory in hub layout."""
    folder = pathlib.Path(folder)
    weights = {name: value.float() for name, value in load_file(folder / "model.safetensors").items()}
    config = json.loads((folder / "config.json").read_text())
    model = Model(Size.of(config))
    model.load_state_dict(weights)
    return model.eval()


@torch.inference_mode()
def generate(model, encoder, samples, prompt, limit=256):
    """Greedy token ids for every sample (one format for all)."""
    headers = [header | {"prompt": prompt, "answer": "", "fact_ranges": []} for header, _ in samples]
    batch = collate(encoder, [(header, pixels) for header, (_, pixels) in zip(headers, samples)])
    batch["ids"] = batch["ids"][:, :-1]  # the end token of the empty answer
    place = batch["positions"][:, :, :-1]
    cache = Cache()
    states = model.decode(model.embed(batch), place, cache)[:, -1:]
    following = place[:, :, -1:] + 1
    rows, done = [[] for _ in samples], torch.zeros(len(samples), dtype=torch.bool)
    for _ in range(limit):
        token = model.logits(states).argmax(-1)
        for row, value in enumerate(token[:, 0].tolist()):
            if not done[row]:
                rows[row].append(value)
        done |= token[:, 0] == encoder.end
        if done.all():
            break
        states = model.decode(model.model.embed_tokens(token), following, cache)
        following = following + 1
    return rows


@torch.inference_mode()
def predictions(model, encoder, samples, prompt, texts):
    """For every token of `texts`, the model's most likely token after the same text."""
    headers = [header | {"prompt": prompt, "answer": "", "fact_ranges": []} for header, _ in samples]
    batch = collate(encoder, [(header, pixels) for header, (_, pixels) in zip(headers, samples)])
    prompt_ids, longest = batch["ids"][:, :-1], max(map(len, texts))
    ids = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
    batch["ids"] = torch.cat([prompt_ids, ids], dim=1)
    last = batch["positions"][:, :, -2:-1]
    more = last + torch.arange(1, longest + 1)
    place = torch.cat([batch["positions"][:, :, :-1], more], dim=2)
    states = model.decode(model.embed(batch), place)[:, -longest - 1 : -1]
    choice = model.logits(states).argmax(-1)
    return [choice[row, : len(text)].tolist() for row, text in enumerate(texts)]


def chain(agrees, length):
    """Draft tokens accepted per step for a chain of `length`, exact acceptance.

    While draft tokens are accepted, the drafter has seen exactly the target's text, so agreement after the same text
    suffices.
    """
    accepted = steps = 0
    for row in agrees:
        place = 0
        while place < len(row):
            run = 0
            while run < length and place + run < len(row) and row[place + run]:
                run += 1
            accepted, steps, place = accepted + run, steps + 1, place + run + 1
    return accepted / max(steps, 1)


def score(command, seeds, texts):
    lines = "\n".join(json.dumps({"seed": seed, "text": text}) for seed, text in zip(seeds, texts))
    answer = subprocess.run(shlex.split(command), input=lines, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in answer.splitlines()]


def summary(scores):
    total = sum(s["total"] for s in scores)
    kinds = {}
    for s in scores:
        for detail in s["details"]:
            kind = detail["what"].split(", ")[-1]
            right, all_ = kinds.get(kind, (0, 0))
            kinds[kind] = (right + (detail["truth"] == detail["said"]), all_ + 1)
    figures = {key: round(sum(s[key] for s in scores) / total, 3) for key in ("right", "wrong", "missing", "extra")}
    return figures | {kind: round(right / all_, 3) for kind, (right, all_) in kinds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="directory of the target")
    parser.add_argument("--drafter", help="directory of the drafter")
    parser.add_argument("--stream", default="specreel-lab scenes stream", help="command that writes the clips")
    parser.add_argument("--score", default="specreel-lab scenes score --lines -", help="command that reads lines {seed, text} and prints one score per line")
    parser.add_argument("--clips", type=int, default=64, help="number of clips")
    parser.add_argument("--first-seed", type=int, default=1000, help="seed of the first clip")
    parser.add_argument("--format", default="8x112x112", help="frames x height x width")
    parser.add_argument("--prompt", default="Describe the video in detail.")
    parser.add_argument("--show", type=int, default=0, help="number of captions to print")
    options = parser.parse_args()
    encoder = Encoder(Tokenizer.from_file(str(pathlib.Path(options.target) / "tokenizer.json")))
    arguments = ["--seed", options.first_seed, "--count", options.clips, "--format", options.format]
    samples = list(read_samples(options.stream, arguments))
    seeds = [header["seed"] for header, _ in samples]
    target = load(options.target)
    texts = {}
    for name, model in [("target", target)] + ([("drafter", load(options.drafter))] if options.drafter else []):
        texts[name] = generate(model, encoder, samples, options.prompt)
        words = [encoder.tokenizer.decode(row) for row in texts[name]]
        print(name, json.dumps(summary(score(options.score, seeds, words))))
        lengths = sorted(map(len, texts[name]))
        print(name, "tokens per caption: shortest, median, longest", lengths[0], lengths[len(lengths) // 2], lengths[-1])
        for seed, text in list(zip(seeds, words))[: options.show]:
            print(f"  [{seed}] {text}")
    if options.drafter:
        facts = {header["answer"][start:stop].lower() for header, _ in samples for start, stop in header["fact_ranges"]}
        drafts = predictions(model, encoder, samples, options.prompt, texts["target"])
        pairs = [list(zip(*rows)) for rows in zip(texts["target"], drafts)]
        agrees = [[own == other for own, other in row] for row in pairs]
        share = sum(map(sum, agrees)) / sum(map(len, agrees))
        print("drafter agrees with", round(share, 3), "of tokens; tau:", {k: round(chain(agrees, k), 2) for k in (3, 5, 7, 10)})

        word = lambda token: encoder.tokenizer.decode([token]).strip().lower()
        apart = [(word(own), word(other)) for row in pairs for own, other in row if own != other]
        about = sum(own in facts or other in facts for own, other in apart)
        print(f"of {len(apart)} disagreements {about} are about a fact ({about / max(len(apart), 1):.1%})")


if __name__ == "__main__":
    main()
