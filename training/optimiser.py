"""Muon for the matrices inside blocks, AdamW for everything else, as one optimiser.

Muon orthogonalises the momentum of each matrix (Newton-Schulz iteration, Jordan et al. 2024); on these small models it
needs clearly fewer clips than AdamW for the same loss.
"""

import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(g, steps=5):
    """Approximately U V^T of g = U S V^T, for a stack of matrices."""
    a, b, c = COEFFICIENTS
    tall = g.shape[-2] > g.shape[-1]
    x = g.mT if tall else g
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = x @ x.mT
        x = a * x + (b * s + c * s @ s) @ x
    return x.mT if tall else x


class Optimiser:
    def __init__(self, model, lr=1e-3, matrix_lr=0.01, weight_decay=0.01):
        self.model = model
        matrices, others = [], []
        for name, parameter in model.named_parameters():
            inside = ("layers." in name or "blocks." in name) and parameter.ndim == 2
            (matrices if inside else others).append(parameter)
        self.adam = torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.98), weight_decay=weight_decay, fused=True)
        self.lr, self.matrix_lr, self.decay = lr, matrix_lr, weight_decay
        self.groups = {}
        for parameter in matrices:
            self.groups.setdefault(tuple(parameter.shape), []).append(parameter)
        self.momentum = {shape: torch.zeros(len(group), *shape) for shape, group in self.groups.items()}

    @torch.no_grad()
    def step(self, scale, momentum=0.95):
        """One update; `scale` is the schedule's factor, 0 to 1."""
        torch.nn.utils.clip_grad_norm_(self.adam.param_groups[0]["params"], 1.0)
        for group in self.adam.param_groups:
            group["lr"] = self.lr * scale
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        for shape, group in self.groups.items():
            gradient = torch.stack([parameter.grad for parameter in group])
            state = self.momentum[shape]
            state.lerp_(gradient, 1 - momentum)
            update = orthogonalise(gradient.lerp_(state, momentum))
            rate = self.matrix_lr * scale
            size = max(1.0, shape[0] / shape[1]) ** 0.5
            for parameter, delta in zip(group, update):
                parameter.mul_(1 - rate * self.decay).add_(delta, alpha=-rate * size)
                parameter.grad = None

    def state_dict(self):
        return {"adam": self.adam.state_dict(), "momentum": self.momentum}

    def load_state_dict(self, state):
        self.adam.load_state_dict(state["adam"])
        for shape, value in state["momentum"].items():
            self.momentum[shape].copy_(value)
