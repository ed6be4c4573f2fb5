"""What a drafter learns from its target: the captions that the target writes, its probabilities and its states.

A drafter has to predict what the target will write, down to the wording, not what is true.
"""

import random

import torch
import torch.nn.functional as F
from torch import nn

from clock import precision
from evaluate import generate
from inherit import counterparts


class Captions:
    """Replaces the answers of most groups of samples with greedy captions of a trained target."""

    def __init__(self, model, encoder, share):
        self.model, self.encoder, self.share = model, encoder, share

    def __call__(self, samples):
        prompts = [header["prompt"] for header, _ in samples if header["kind"] == "long"]
        if not prompts or random.random() >= self.share:
            return samples
        prompt = random.choice(prompts)
        with precision():
            rows = generate(self.model, self.encoder, samples, prompt, limit=224)
        taught = []
        for (header, pixels), row in zip(samples, rows):
            if row[-1] == self.encoder.end:
                taught.append((header | {"prompt": prompt, "answer_ids": row[:-1]}, pixels))
        return taught or samples


class Guide(nn.Module):
    """Loss against a teacher that reads the same answers.

    `soft` is the share of its probabilities in the loss of a token (the rest is the token itself); `states` is the weight
    of the mean squared distance between the normalised states of both, after the student's layers and after the
    teacher's that stand for the same depth. A linear map per layer, trained alongside, compares states of two widths.
    """

    def __init__(self, teacher, size, soft, states):
        super().__init__()
        self.teacher = [teacher]  # in a list: neither trained nor saved
        self.soft, self.weight = soft, states
        self.depths = counterparts(teacher.size.layers, size.layers)
        self.maps = nn.ModuleList(nn.Linear(size.hidden, teacher.size.hidden, bias=False) for _ in self.depths)

    def start(self, down):
        """Start the maps from the projection that the student was made with (inherit.py)."""
        for linear in self.maps:
            linear.weight.data.copy_(down * (down.shape[0] / down.shape[1]) ** 0.5)

    @torch.no_grad()
    def read(self, batch, features):
        """The teacher's logits and normalised states, kept in the batch. Without `features` its own tower looks."""
        teacher = self.teacher[0]
        if features is None:
            features = teacher.visual.features(batch["patches"], batch["grid"])
        states, batch["teacher_logits"] = teacher.answers(batch, teacher.visual.cells(features))
        batch["teacher_states"] = [F.rms_norm(states[depth - 1], (teacher.size.hidden,)).half() for depth in self.depths]

    def forward(self, loss, weights, logits, states, batch):
        if self.soft:
            wanted = F.log_softmax(batch["teacher_logits"], dim=-1)
            distance = F.kl_div(F.log_softmax(logits, dim=-1), wanted, reduction="none", log_target=True).sum(-1)
            loss = (1.0 - self.soft) * loss + self.soft * (distance * weights).sum()
        if self.weight:
            real = torch.arange(states[0].shape[1]) < batch["lengths"][:, None]
            for linear, own, wanted in zip(self.maps, states, batch["teacher_states"]):
                own = linear(F.rms_norm(own[real].float(), (own.shape[-1],)))
                loss = loss + self.weight / len(self.maps) * F.mse_loss(own, wanted[real].float())
        return loss
