"""Make the fixture of a layer for multi-token prediction: a random one for the checkpoint `qwen3_5`, and what torch computes with it.

    python tests/parity/make_mtp_fixture.py

Needs torch (CPU), safetensors. Written below `tests/parity/fixtures/mtp`:

    mtp.safetensors          the tensors `mtp.…` as Qwen3.5's checkpoints hold them beside the target's
    reference.safetensors    a prompt of text and visual rows, the target's final states at them, the layer's logits at every row,
                             and those of a chain that goes on from its own outputs

Written from the published description of the layer, without its code, in float64: one pass over all rows, the whole prompt again
for every token of the chain.
"""

import json
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent / "fixtures"
OUT = HERE / "mtp"
TARGET = HERE / "qwen3_5"
OUT.mkdir(exist_ok=True)
torch.manual_seed(29)

config = json.loads((TARGET / "config.json").read_text())
text = config | config.get("text_config", {})
rope = text["rope_parameters"]
D, VOCAB, FFN = text["hidden_size"], text["vocab_size"], text["intermediate_size"]
HEADS, KV, HEAD = text["num_attention_heads"], text["num_key_value_heads"], text["head_dim"]
THETA, SECTION, EPS = rope["rope_theta"], rope["mrope_section"], text["rms_norm_eps"]
ROTATED = round(HEAD * rope.get("partial_rotary_factor", text.get("partial_rotary_factor", 0.25)))
assert sum(SECTION) == ROTATED // 2 and rope["mrope_interleaved"]
weights = load_file(TARGET / "model.safetensors")


def published(part):
    return next(weights[n].double() for n in weights if n.endswith(part))


embeddings = published("embed_tokens.weight")
lm_head = embeddings if config["tie_word_embeddings"] else published("lm_head.weight")


def make(*shape, scale=0.15):
    return (torch.randn(*shape) * scale).bfloat16()


def norm_weight(width):
    return (torch.randn(width) * 0.3).bfloat16()


LAYER = "mtp.layers.0."
P = {
    "mtp.fc.weight": make(D, 2 * D),
    "mtp.pre_fc_norm_embedding.weight": norm_weight(D),
    "mtp.pre_fc_norm_hidden.weight": norm_weight(D),
    "mtp.norm.weight": norm_weight(D),
    LAYER + "input_layernorm.weight": norm_weight(D),
    LAYER + "post_attention_layernorm.weight": norm_weight(D),
    LAYER + "self_attn.q_proj.weight": make(2 * HEADS * HEAD, D),
    LAYER + "self_attn.k_proj.weight": make(KV * HEAD, D),
    LAYER + "self_attn.v_proj.weight": make(KV * HEAD, D),
    LAYER + "self_attn.o_proj.weight": make(D, HEADS * HEAD),
    LAYER + "self_attn.q_norm.weight": norm_weight(HEAD),
    LAYER + "self_attn.k_norm.weight": norm_weight(HEAD),
    LAYER + "mlp.gate_proj.weight": make(FFN, D),
    LAYER + "mlp.up_proj.weight": make(FFN, D),
    LAYER + "mlp.down_proj.weight": make(D, FFN),
}


def weight(name):
    return P[name + ".weight"].double()


def norm(x, name):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * (1 + weight(name))


def axes():
    """The axis of each frequency: time, row and column in turn, what is left over is time."""
    axis = torch.zeros(ROTATED // 2, dtype=torch.long)
    for which in (1, 2):
        axis[which : 3 * SECTION[which] : 3] = which
    return axis


def rotate(x, positions):
    """x: rows x heads x HEAD, positions: 3 x rows. Only the first ROTATED values turn."""
    half = ROTATED // 2
    frequency = 1.0 / THETA ** (torch.arange(half).double() * 2 / ROTATED)
    angle = positions.double()[axes()].T * frequency
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b, rest = x[..., :half], x[..., half:ROTATED], x[..., ROTATED:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def layer(embedded, states, positions):
    """The outputs after the norm, from embeddings and the states before them."""
    rows = embedded.shape[0]
    pair = torch.cat([norm(embedded, "mtp.pre_fc_norm_embedding"), norm(states, "mtp.pre_fc_norm_hidden")], -1)
    x = F.linear(pair, weight("mtp.fc"))
    n = norm(x, LAYER + "input_layernorm")
    attention = LAYER + "self_attn."
    q, gate = F.linear(n, weight(attention + "q_proj")).view(rows, HEADS, 2 * HEAD).chunk(2, -1)
    k = F.linear(n, weight(attention + "k_proj")).view(rows, KV, HEAD)
    v = F.linear(n, weight(attention + "v_proj")).view(rows, KV, HEAD)
    q = rotate(norm(q, attention + "q_norm"), positions)
    k = rotate(norm(k, attention + "k_norm"), positions)
    k, v = k.repeat_interleave(HEADS // KV, 1), v.repeat_interleave(HEADS // KV, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) / HEAD**0.5
    scores = scores.masked_fill(torch.triu(torch.ones(rows, rows, dtype=torch.bool), 1), float("-inf"))
    attended = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v) * gate.sigmoid()
    x = x + F.linear(attended.reshape(rows, -1), weight(attention + "o_proj"))
    n = norm(x, LAYER + "post_attention_layernorm")
    gated = F.silu(F.linear(n, weight(LAYER + "mlp.gate_proj"))) * F.linear(n, weight(LAYER + "mlp.up_proj"))
    return norm(x + F.linear(gated, weight(LAYER + "mlp.down_proj")), "mtp.norm")


# Text, six visual tokens, text. Row i holds the embedding of token i + 1 and the target's state at i.
FRONT, VISUAL, ROWS = 3, 6, 14
ids = torch.randint(0, VOCAB, (ROWS,))
embedded = embeddings[ids]
embedded[FRONT : FRONT + VISUAL] = torch.randn(VISUAL, D).double()
at = torch.arange(VISUAL)
line = torch.arange(FRONT)
shown = torch.stack([FRONT + at // 6, FRONT + at % 6 // 3, FRONT + at % 3])
after = int(shown.max()) + 1 + torch.arange(ROWS - FRONT - VISUAL)
positions = torch.cat([torch.stack([line] * 3), shown, torch.stack([after] * 3)], 1)
# what is stored is what is computed with
embedded = embedded.float().double()
states = (torch.randn(ROWS, D) * 1.5).double()
record = {"ids": ids, "embeddings": embedded, "positions": positions, "states": states}
out = layer(embedded, states, positions)
record["logits"] = F.linear(out, lm_head)
chain, drafted = [], []
for step in range(4):
    row = F.linear(out, lm_head)[-1]
    chain.append(row)
    token = int(row.argmax())
    drafted.append(token)
    embedded = torch.cat([embedded, embeddings[token : token + 1]])
    states = torch.cat([states, out[-1:]])
    positions = torch.cat([positions, positions[:, -1:] + 1], 1)
    # Every token of the chain reads the output of the pass before it; earlier rows do not change.
    out = layer(embedded, states, positions)
record["chain"] = torch.stack(chain)
record["drafted"] = torch.tensor(drafted)
stored = {n: (v.float() if v.is_floating_point() else v).contiguous() for n, v in record.items()}
save_file(stored, OUT / "reference.safetensors")
save_file(P, OUT / "mtp.safetensors")
print("drafted", drafted)
