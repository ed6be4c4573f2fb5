"""Sequence-level distillation: a drafter learns from captions that its target wrote.

A drafter has to predict what the target will write, down to the wording, not what is true. Its tower still sees less of
the video, so facts remain where the two differ.
"""

import random

from clock import precision
from evaluate import generate, load


class Teacher:
    """Replaces the answers of most groups of samples with greedy captions of a trained target."""

    def __init__(self, folder, encoder, share):
        self.model, self.encoder, self.share = load(folder), encoder, share

    def __call__(self, samples):
        prompts = [header["prompt"] for header, _ in samples if header["kind"] == "long"]
        if not prompts or random.random() > self.share:
            return samples
        prompt = random.choice(prompts)
        with precision():
            rows = generate(self.model, self.encoder, samples, prompt, limit=224)
        taught = []
        for (header, pixels), row in zip(samples, rows):
            if row[-1] == self.encoder.end:
                taught.append((header | {"prompt": prompt, "answer_ids": row[:-1]}, pixels))
        return taught or samples
