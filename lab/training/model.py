"""The Qwen2.5-VL architecture, for clips of one shape per batch.

Same mathematics and (original) parameter names as transformers' `Qwen2_5_VLForConditionalGeneration`; `check.py` compares
the two. It is reimplemented because a batch of equal clips needs no per-segment loops, which makes training on a CPU
several times faster.
"""

import torch
import torch.nn.functional as F
from torch import nn

EPS = 1e-6
FACT_WEIGHT = 3.0


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), EPS)  # of one type, it is one kernel


class MLP(nn.Module):
    def __init__(self, width, ffn, bias):
        super().__init__()
        self.gate_proj = nn.Linear(width, ffn, bias=bias)
        self.up_proj = nn.Linear(width, ffn, bias=bias)
        self.down_proj = nn.Linear(ffn, width, bias=bias)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


def shrink(blocks):
    """Initialise the blocks' output projections small, so that deep stacks start near the identity."""
    for block in blocks:
        out = block.attn.proj if hasattr(block, "attn") else block.self_attn.o_proj
        for linear in (out, block.mlp.down_proj):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5 * (2 * len(blocks)) ** -0.5)


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class VisionAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x, cos, sin, mask):
        n, s, width = x.shape
        q, k, v = self.qkv(x).view(n, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.proj(out.transpose(1, 2).reshape(n, s, width))


class VisionBlock(nn.Module):
    def __init__(self, width, heads, ffn):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.attn = VisionAttention(width, heads)
        self.mlp = MLP(width, ffn, bias=True)

    def forward(self, x, cos, sin, mask):
        x = x + self.attn(self.norm1(x), cos, sin, mask)
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Conv3d(3, width, (2, 14, 14), bias=False)

    def forward(self, x):
        return F.linear(x, self.proj.weight.flatten(1))


class Merger(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.ln_q = RMSNorm(width)
        self.mlp = nn.Sequential(nn.Linear(4 * width, 4 * width), nn.GELU(), nn.Linear(4 * width, out))

    def forward(self, x):
        n, s, width = x.shape
        return self.mlp[:-1](self.ln_q(x).view(n, s // 4, 4 * width))


class Tower(nn.Module):
    def __init__(self, size):
        super().__init__()
        width = size.vision_hidden
        self.head_dim = width // size.vision_heads
        self.patch_embed = PatchEmbed(width)
        self.blocks = nn.ModuleList(
            VisionBlock(width, size.vision_heads, size.vision_ffn) for _ in range(size.vision_layers)
        )
        self.merger = Merger(width, size.hidden)

    def initialise(self):
        self.apply(Model.initialise)
        shrink(self.blocks)

    def layout(self, h, w):
        """cos, sin [S, d] and the window mask [S, S] (None where one window holds the frame); h, w merged cells."""
        cell_h, cell_w = torch.arange(h).view(h, 1, 1, 1), torch.arange(w).view(1, w, 1, 1)
        in_h, in_w = torch.arange(2).view(1, 1, 2, 1), torch.arange(2).view(1, 1, 1, 2)
        shape = (h, w, 2, 2)
        rows = (cell_h * 2 + in_h).expand(shape).flatten()
        columns = (cell_w * 2 + in_w).expand(shape).flatten()
        quarter = self.head_dim // 4
        frequency = 1.0 / 10000.0 ** (torch.arange(quarter).float() / quarter)
        angles = torch.cat([rows[:, None] * frequency, columns[:, None] * frequency], dim=1)
        angles = torch.cat([angles, angles], dim=1)
        window = ((cell_h // 4) * 1000 + cell_w // 4 + 0 * in_h + 0 * in_w).expand(shape).flatten()
        mask = None if h <= 4 and w <= 4 else window[:, None] == window[None, :]
        return angles.cos(), angles.sin(), mask

    def features(self, patches, grid):
        """Merged cells before the last linear layer: [B, cells, 4 * width]."""
        b, t, s, _ = patches.shape
        cos, sin, mask = self.layout(grid[1], grid[2])
        x = self.patch_embed(patches.view(b * t, s, -1))
        for index, block in enumerate(self.blocks):
            last = index + 1 == len(self.blocks)
            x = block(x, cos, sin, None if last else mask)
        return self.merger(x).view(b, t * s // 4, -1)

    def cells(self, features):
        """Visual tokens in the text's width: [B, cells, hidden]."""
        return self.merger.mlp[-1](features)

    def forward(self, patches, grid):
        return self.cells(self.features(patches, grid))


class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.heads, self.kv_heads, self.dim = size.heads, size.kv_heads, size.head_dim
        self.q_proj = nn.Linear(size.hidden, size.heads * self.dim)
        self.k_proj = nn.Linear(size.hidden, size.kv_heads * self.dim)
        self.v_proj = nn.Linear(size.hidden, size.kv_heads * self.dim)
        self.o_proj = nn.Linear(size.heads * self.dim, size.hidden, bias=False)

    def forward(self, x, cos, sin, cache):
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, self.heads, self.dim).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.kv_heads, self.dim).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.kv_heads, self.dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mask = None
        if cache is not None:
            k, v, mask = cache.extend(self, k, v)
        share = self.heads // self.kv_heads
        k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return self.o_proj(out.transpose(1, 2).reshape(b, n, -1))


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.self_attn = Attention(size)
        self.mlp = MLP(size.hidden, size.ffn, bias=False)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(size.hidden), RMSNorm(size.hidden)

    def forward(self, x, cos, sin, cache):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Text(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.embed_tokens = nn.Embedding(size.vocab, size.hidden)
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.norm = RMSNorm(size.hidden)


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.visual = Tower(size)
        self.model = Text(size)
        self.apply(self.initialise)
        shrink(self.visual.blocks)
        shrink(self.model.layers)

    @staticmethod
    def initialise(module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.05)
        elif isinstance(module, nn.Conv3d):
            nn.init.normal_(module.weight, std=0.02)

    def rope(self, positions):
        """positions [3, B, L] -> cos, sin [B, 1, L, d]: each frequency belongs to one axis."""
        half = self.size.head_dim // 2
        frequency = 1.0 / self.size.rope_theta ** (torch.arange(half).float() / half)
        axis = torch.repeat_interleave(torch.arange(3), torch.tensor(self.size.mrope_section))
        angles = positions[axis].permute(1, 2, 0).float() * frequency
        angles = torch.cat([angles, angles], dim=-1).unsqueeze(1)
        return angles.cos(), angles.sin()

    def layers(self, x, positions, cache=None):
        """States after every layer, each [B, L, hidden]."""
        cos, sin = self.rope(positions)
        states = []
        for layer in self.model.layers:
            x = layer(x, cos, sin, cache)
            states.append(x)
        return states

    def decode(self, x, positions, cache=None):
        return self.layers(x, positions, cache)[-1]

    def logits(self, states):
        return F.linear(self.model.norm(states), self.model.embed_tokens.weight)

    def embed(self, batch, visual=None):
        """Prefix, visual tokens, then text: [B, L, hidden]."""
        visual = self.visual(batch["patches"], batch["grid"]) if visual is None else visual
        prefix = self.model.embed_tokens(batch["prefix"]).expand(visual.shape[0], -1, -1)
        return torch.cat([prefix, visual, self.model.embed_tokens(batch["ids"])], dim=1)

    def answers(self, batch, visual=None):
        """States after every layer, and the logits that predict the answers' tokens: [tokens, vocabulary]."""
        states = self.layers(self.embed(batch, visual), batch["positions"])
        wanted = batch["labels"] >= 0
        return states, self.logits(states[-1][:, -batch["ids"].shape[1] :][wanted]).float()

    def forward(self, batch, visual=None, lesson=None):
        """Loss over answer tokens, the predicted ones, and which of them belong to a fact (these weigh more).

        A `lesson` (teacher.py) adds its own loss.
        """
        states, logits = self.answers(batch, visual)
        wanted = batch["labels"] >= 0
        labels, facts = batch["labels"][wanted], batch["facts"][wanted]
        weights = 1.0 + (FACT_WEIGHT - 1.0) * facts
        weights = weights / weights.sum()
        loss = (F.cross_entropy(logits, labels, reduction="none") * weights).sum()
        if lesson is not None:
            loss = lesson(loss, weights, logits, states, batch)
        return loss, logits.argmax(-1), facts
