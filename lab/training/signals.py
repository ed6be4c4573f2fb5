"""Which signal tells a drafter's disagreements about facts, which must be rejected, from those about style.

    python signals.py run/target-model --drafter run/other-model --stream "specreel-lab scenes stream --author 1" --format 128x112x112

Drafts are the drafter's most likely tokens after the target's own text, where they differ from it: those that exact acceptance
rejects. Intervals are of resampled clips.
"""

import argparse
import pathlib
import random

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from data import Encoder, collate, read_samples
from evaluate import Cache, generate, load, predictions

TOP = 10  # N of LVSpec's relevance
SIGNALS = ["state at the draft (LVSpec)", "state before it", "input embeddings", "entropy of the three best", "probability of the draft"]


class Beside(Cache):
    """Rows that each see the cached rows up to their own place, and themselves, but not each other."""

    def __init__(self, kept, seen):
        self.kept, n = kept, len(seen)
        total = next(iter(kept.values()))[0].shape[2]
        before = torch.arange(total)[None, :] < torch.tensor(seen)[:, None]
        self.mask = torch.cat([before, torch.eye(n, dtype=torch.bool)], dim=1)

    def extend(self, layer, k, v):
        old = self.kept[layer]
        return torch.cat([old[0], k], dim=2), torch.cat([old[1], v], dim=2), self.mask


def relevance(states, visual):
    """Mean of the largest cosine similarities of each state with the visual tokens."""
    near = F.normalize(states, dim=-1) @ F.normalize(visual, dim=-1).T
    return near.topk(min(TOP, visual.shape[0]), dim=-1).values.mean(-1)


@torch.inference_mode()
def signals(model, encoder, sample, prompt, text, drafts):
    """A list for every place where draft and text differ: the place, and each signal; the higher, the stricter a rule is."""
    header, pixels = sample
    batch = collate(encoder, [(header | {"prompt": prompt, "answer": "", "fact_ranges": []}, pixels)])
    seen = model.visual(batch["patches"], batch["grid"])
    prompt_ids = batch["ids"][:, :-1]  # the end token of the empty answer
    batch["ids"] = torch.cat([prompt_ids, torch.tensor([text[:-1]], dtype=torch.long)], dim=1)
    first, last = len(encoder.prefix), batch["positions"][:, :, -2:-1]
    place = torch.cat([batch["positions"][:, :, :-1], last + torch.arange(1, len(text))], dim=2)
    cache = Cache()
    states = model.model.norm(model.decode(model.embed(batch, seen), place, cache))[0]
    visual = states[first : first + seen.shape[1]]
    root = states.shape[0] - len(text)  # its row predicts the first token
    apart = [i for i, (own, other) in enumerate(zip(text, drafts)) if own != other]
    if not apart:
        return []
    ids = torch.tensor([[drafts[i] for i in apart]])
    beside = Beside(cache.kept, [root + 1 + i for i in apart])
    rows = model.decode(model.model.embed_tokens(ids), last + 1 + torch.tensor(apart), beside)
    before = states[[root + i for i in apart]]
    chances = F.linear(before, model.model.embed_tokens.weight).softmax(-1)
    best = chances.topk(3, dim=-1).values
    entropy = -(best * best.log()).sum(-1)
    ratio = chances.gather(1, ids.T)[:, 0] / best[:, 0]
    columns = [
        relevance(model.model.norm(rows)[0], visual), relevance(before, visual),
        relevance(model.model.embed_tokens(ids)[0], seen[0]), -entropy, -ratio,
    ]
    return [[place, *values] for place, *values in zip(apart, *(column.tolist() for column in columns))]


def separation(pairs):
    """Chance that a fact's signal is above that of another disagreement (ROC area)."""
    facts, others = [[s for s, fact in pairs if fact == wanted] for wanted in (True, False)]
    if not facts or not others:
        return float("nan")
    others, facts = torch.tensor(others).sort().values, torch.tensor(facts)
    below, up_to = torch.searchsorted(others, facts), torch.searchsorted(others, facts, right=True)
    return float((below + up_to).float().mean() / 2 / len(others))


def rejected(pairs, share):
    """Recall and precision of rejecting this share of the disagreements, those with the highest signal."""
    ranked = sorted(pairs, key=lambda pair: -pair[0])
    top = [fact for _, fact in ranked[: round(share * len(ranked))]]
    return sum(top) / max(sum(fact for _, fact in pairs), 1), sum(top) / max(len(top), 1)


def interval(clips, figure, times=1000):
    """95 % of resampled sets of clips; each clip is a list of pairs."""
    draw = random.Random(0)
    values = (figure([pair for clip in draw.choices(clips, k=len(clips)) for pair in clip]) for _ in range(times))
    values = sorted(value for value in values if value == value)
    at = lambda share: values[round(share * (len(values) - 1))]
    return f"({at(0.025):.3f} to {at(0.975):.3f})" if values else "(none)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="directory of the target")
    parser.add_argument("--drafter", required=True, help="directory of the drafter")
    parser.add_argument("--stream", default="specreel-lab scenes stream", help="command that writes the clips")
    parser.add_argument("--clips", type=int, default=64, help="number of clips")
    parser.add_argument("--first-seed", type=int, default=1000, help="seed of the first clip")
    parser.add_argument("--format", default="128x112x112", help="frames x height x width")
    parser.add_argument("--prompt", default="Describe the video in detail.")
    parser.add_argument("--reject", type=float, nargs="+", default=[0.5, 0.25], help="shares of the disagreements to reject")
    options = parser.parse_args()
    encoder = Encoder(Tokenizer.from_file(str(pathlib.Path(options.target) / "tokenizer.json")))
    target, drafter = load(options.target), load(options.drafter)
    arguments = ["--seed", options.first_seed, "--count", options.clips, "--format", options.format]
    word = lambda token: encoder.tokenizer.decode([token]).strip().lower()
    facts, clips = set(), []
    for sample in read_samples(options.stream, arguments):
        header = sample[0]
        facts |= {header["answer"][start:stop].lower() for start, stop in header["fact_ranges"]}
        text = generate(target, encoder, [sample], options.prompt)[0]
        drafts = predictions(drafter, encoder, [sample], options.prompt, [text])[0]
        found = signals(target, encoder, sample, options.prompt, text, drafts)
        clips.append([(word(text[place]), word(drafts[place]), values) for place, *values in found])
    clips = [[(own in facts or other in facts, values) for own, other, values in clip] for clip in clips]
    every = [pair for clip in clips for pair in clip]
    about = sum(fact for fact, _ in every)
    print(f"{len(clips)} clips, {len(every)} disagreements, {about} about a fact ({about / max(len(every), 1):.1%})")
    for at, name in enumerate(SIGNALS):
        pairs = [[(values[at], fact) for fact, values in clip] for clip in clips]
        flat = [pair for clip in pairs for pair in clip]
        print(f"{name}: area {separation(flat):.3f} {interval(pairs, separation)}")
        for share in options.reject:
            recall, precision = (lambda pairs, which=which: rejected(pairs, share)[which] for which in (0, 1))
            print(
                f"  reject {share:.0%}: facts rejected {recall(flat):.3f} {interval(pairs, recall)},"
                f" of the rejected about a fact {precision(flat):.3f} {interval(pairs, precision)}"
            )


if __name__ == "__main__":
    main()
