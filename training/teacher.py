"""A target's own captions as lessons for its drafter (sequence-level distillation).

What a drafter has to guess is not what is true but what the target will write, down to the wording. Captions that the target
wrote itself teach it that; it still sees less of the video, so the facts stay where the two differ.
"""

import random

from clock import precision
from evaluate import generate, load


class Teacher:
    """Rewrites the answers of most groups of samples with greedy captions of a trained target."""

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
