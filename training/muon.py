"""Muon for the matrices inside blocks, AdamW for everything else.

Muon orthogonalises the momentum of each matrix by Newton-Schulz iteration (Jordan et al., 2024). Where every clip gives
many labels, as in `tower.py`, it needs far fewer steps than AdamW.
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


class Muon:
    def __init__(self, named_parameters, lr, matrix_lr, weight_decay=0.01):
        self.groups, others = {}, []
        for name, parameter in named_parameters:
            if ("layers." in name or "blocks." in name) and parameter.ndim == 2:
                self.groups.setdefault(tuple(parameter.shape), []).append(parameter)
            else:
                others.append(parameter)
        self.adam = torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.98), weight_decay=weight_decay, fused=True)
        self.others, self.lr, self.matrix_lr, self.decay = others, lr, matrix_lr, weight_decay
        self.momentum = {shape: torch.zeros(len(group), *shape) for shape, group in self.groups.items()}

    @torch.no_grad()
    def step(self, scale, momentum=0.95):
        """One update; `scale` is the schedule's factor, 0 to 1."""
        torch.nn.utils.clip_grad_norm_(self.others, 1.0)
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
