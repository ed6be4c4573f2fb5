"""Make the fixture of a DFlash head: a random head for the checkpoint `gqa_untied_f16`, and what torch computes with it.

    python tests/parity/make_dflash_fixture.py

Needs torch (CPU), safetensors. Written below `tests/parity/fixtures/dflash`:

    config.json, model.safetensors   a head in the published layout (z-lab's)
    reference.safetensors            states after two layers of the target at the rows of a context, and the logits of two blocks:
                                     one after the context's first rows, one after all; also with later rows of the block hidden
                                     in the layer with a window

Written from the paper (arXiv:2602.06036) and the published description, without their code: nothing is cached, every block
computes keys and values of all context rows again.
"""

import json
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent / "fixtures"
OUT = HERE / "dflash"
TARGET = HERE / "gqa_untied_f16"
OUT.mkdir(exist_ok=True)
torch.manual_seed(29)

target = json.loads((TARGET / "config.json").read_text())
target = target.get("text_config", target)
D, VOCAB, TARGET_LAYERS = target["hidden_size"], target["vocab_size"], target["num_hidden_layers"]
# Another shape than the target's own layers.
HEADS, KV, HEAD, FFN, LAYERS = 4, 2, 24, 80, 3
BLOCK, MASK, WINDOW, READ = 6, 5, 9, [0, 2]
THETA, EPS = 10000.0, 1e-5
TYPES = ["sliding_attention", "full_attention", "sliding_attention"]
weights = load_file(TARGET / "model.safetensors")
embeddings = weights[next(n for n in weights if n.endswith("embed_tokens.weight"))].float()
lm_head = weights[next(n for n in weights if n.endswith("lm_head.weight"))].float()


def make(*shape, scale=0.12):
    return torch.randn(*shape) * scale


def norm_weight(width=D):
    return 1 + 0.1 * torch.randn(width)


P = {"fc.weight": make(D, len(READ) * D), "hidden_norm.weight": norm_weight(), "norm.weight": norm_weight()}
for layer in range(LAYERS):
    p = f"layers.{layer}."
    P[p + "input_layernorm.weight"] = norm_weight()
    P[p + "post_attention_layernorm.weight"] = norm_weight()
    P[p + "self_attn.q_proj.weight"] = make(HEADS * HEAD, D)
    P[p + "self_attn.k_proj.weight"] = make(KV * HEAD, D)
    P[p + "self_attn.v_proj.weight"] = make(KV * HEAD, D)
    P[p + "self_attn.o_proj.weight"] = make(D, HEADS * HEAD)
    P[p + "self_attn.q_norm.weight"] = norm_weight(HEAD)
    P[p + "self_attn.k_norm.weight"] = norm_weight(HEAD)
    P[p + "mlp.gate_proj.weight"] = make(FFN, D)
    P[p + "mlp.up_proj.weight"] = make(FFN, D)
    P[p + "mlp.down_proj.weight"] = make(D, FFN)


def norm(x, weight):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * P[weight]


def rotate(x, positions):
    """x: rows x heads x HEAD."""
    half = HEAD // 2
    frequency = 1.0 / THETA ** (torch.arange(half).float() * 2 / HEAD)
    angle = positions.float()[:, None] * frequency
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def block(tapped, root, hides_later):
    """The logits of a block's rows after a context; with `hides_later` layers with a window see no later rows of it."""
    context = norm(F.linear(tapped, P["fc.weight"]), "hidden_norm.weight")
    count = context.shape[0]
    ids = torch.tensor([root] + [MASK] * (BLOCK - 1))
    at = torch.arange(count + BLOCK)
    own = at[count:]
    x = embeddings[ids]
    for layer, kind in enumerate(TYPES):
        p = f"layers.{layer}."
        normed = norm(x, p + "input_layernorm.weight")
        read = torch.cat([context, normed])
        q = F.linear(normed, P[p + "self_attn.q_proj.weight"]).view(BLOCK, HEADS, HEAD)
        k = F.linear(read, P[p + "self_attn.k_proj.weight"]).view(-1, KV, HEAD)
        v = F.linear(read, P[p + "self_attn.v_proj.weight"]).view(-1, KV, HEAD)
        q = rotate(norm(q, p + "self_attn.q_norm.weight"), own)
        k = rotate(norm(k, p + "self_attn.k_norm.weight"), at)
        k, v = k.repeat_interleave(HEADS // KV, 1), v.repeat_interleave(HEADS // KV, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / HEAD**0.5
        distance = own[:, None] - at[None]
        hidden = torch.zeros_like(distance, dtype=torch.bool)
        if kind == "sliding_attention":
            hidden |= distance.abs() >= WINDOW
            if hides_later:
                hidden |= distance < 0
        scores = scores.masked_fill(hidden, float("-inf"))
        mixed = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(BLOCK, -1)
        x = x + F.linear(mixed, P[p + "self_attn.o_proj.weight"])
        normed = norm(x, p + "post_attention_layernorm.weight")
        gate, up = F.linear(normed, P[p + "mlp.gate_proj.weight"]), F.linear(normed, P[p + "mlp.up_proj.weight"])
        x = x + F.linear(F.silu(gate) * up, P[p + "mlp.down_proj.weight"])
    return F.linear(norm(x, "norm.weight"), lm_head)


FIRST, ROWS, ROOTS = 12, 15, [17, 40]
tapped = torch.randn(ROWS, len(READ) * D) * 1.5
record = {"tapped": tapped, "roots": torch.tensor(ROOTS)}
for name, hides_later in [("block", False), ("causal", True)]:
    record[f"{name}.first"] = block(tapped[:FIRST], ROOTS[0], hides_later)
    record[f"{name}.second"] = block(tapped, ROOTS[1], hides_later)
save_file({n: v.contiguous() for n, v in record.items()}, OUT / "reference.safetensors")
save_file({n: v.contiguous() for n, v in P.items()}, OUT / "model.safetensors")
(OUT / "config.json").write_text(
    json.dumps(
        {
            "architectures": ["DFlashDraftModel"],
            "model_type": "qwen3",
            "attention_bias": False,
            "block_size": BLOCK,
            "dflash_config": {"mask_token_id": MASK, "target_layer_ids": READ},
            "head_dim": HEAD,
            "hidden_act": "silu",
            "hidden_size": D,
            "intermediate_size": FFN,
            "is_causal": False,
            "layer_types": TYPES,
            "max_position_embeddings": 2048,
            "num_attention_heads": HEADS,
            "num_hidden_layers": LAYERS,
            "num_key_value_heads": KV,
            "num_target_layers": TARGET_LAYERS,
            "rms_norm_eps": EPS,
            "rope_scaling": None,
            "rope_theta": int(THETA),
            "sliding_window": WINDOW,
            "tie_word_embeddings": False,
            "use_sliding_window": True,
            "vocab_size": VOCAB,
        },
        indent=1,
    )
    + "\n"
)
