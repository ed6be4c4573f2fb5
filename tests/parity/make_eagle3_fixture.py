"""Make the fixtures of EAGLE-3 heads: random heads for the checkpoint `gqa_untied_f16`, and what torch computes with them.

    python tests/parity/make_eagle3_fixture.py

Needs torch (CPU), safetensors. Written below `tests/parity/fixtures/eagle3`, and below `eagle3_1` for a head that reads two states, each
normed on its own and both together, and goes on from its normed outputs (EAGLE 3.1's keys):

    config.json, model.safetensors   a head in the published layout (EAGLE's, SpecForge's)
    reference.safetensors            a prompt of text and visual rows, the states after the layers of the target, the head's
                                     logits at every row, and those of a chain that goes on from its own outputs

Written from the published description of the head, without its code: one pass over all rows, the whole prompt again for every
token of the chain.
"""

import json
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent / "fixtures"
TARGET = HERE / "gqa_untied_f16"

target = json.loads((TARGET / "config.json").read_text())
target = target.get("text_config", target)
D, VOCAB = target["hidden_size"], target["vocab_size"]
# Another shape than the target's own layers.
HEADS, KV, HEAD, FFN, DRAFT = 4, 2, 24, 80, 96
THETA, SECTION, EPS = 10000.0, [4, 4, 4], 1e-5
weights = load_file(TARGET / "model.safetensors")
name = next(n for n in weights if n.endswith("embed_tokens.weight"))
embeddings = weights[name]


def make(*shape, scale=0.12):
    return torch.randn(*shape) * scale


def norm_weight():
    return 1 + 0.1 * torch.randn(D)


def parameters(count, newer):
    kept = torch.randperm(VOCAB)[:DRAFT].sort().values
    members = torch.zeros(VOCAB, dtype=torch.bool)
    members[kept] = True
    P = {
        "fc.weight": make(D, count * D),
        "midlayer.input_layernorm.weight": norm_weight(),
        "midlayer.hidden_norm.weight": norm_weight(),
        "midlayer.post_attention_layernorm.weight": norm_weight(),
        "midlayer.self_attn.q_proj.weight": make(HEADS * HEAD, 2 * D),
        "midlayer.self_attn.k_proj.weight": make(KV * HEAD, 2 * D),
        "midlayer.self_attn.v_proj.weight": make(KV * HEAD, 2 * D),
        "midlayer.self_attn.o_proj.weight": make(D, HEADS * HEAD),
        "midlayer.mlp.gate_proj.weight": make(FFN, D),
        "midlayer.mlp.up_proj.weight": make(FFN, D),
        "midlayer.mlp.down_proj.weight": make(D, FFN),
        "norm.weight": norm_weight(),
        "lm_head.weight": make(DRAFT, D),
        "embed_tokens.weight": embeddings,
        "d2t": kept - torch.arange(DRAFT),
        "t2d": members,
    }
    if newer:
        P["input_norm.weight"] = 1 + 0.1 * torch.randn(count * D)
        P |= {f"fc_norm.{i}.weight": norm_weight() for i in range(count)}
    return P, kept


def norm(x, weight):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * weight


def rotate(x, positions):
    """x: rows x heads x HEAD, positions: 3 x rows."""
    half = HEAD // 2
    frequency = 1.0 / THETA ** (torch.arange(half).float() * 2 / HEAD)
    axis = torch.tensor([a for a, n in enumerate(SECTION) for _ in range(n)])
    angle = positions.float()[axis].T * frequency
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def head(P, embedded, states, positions):
    """The outputs before the norm, from embeddings and the states before them."""
    rows = embedded.shape[0]
    p = lambda n: "midlayer." + n
    pair = torch.cat([norm(embedded, P[p("input_layernorm.weight")]), norm(states, P[p("hidden_norm.weight")])], -1)
    q = F.linear(pair, P[p("self_attn.q_proj.weight")]).view(rows, HEADS, HEAD)
    k = F.linear(pair, P[p("self_attn.k_proj.weight")]).view(rows, KV, HEAD)
    v = F.linear(pair, P[p("self_attn.v_proj.weight")]).view(rows, KV, HEAD)
    q, k = rotate(q, positions), rotate(k, positions)
    k, v = k.repeat_interleave(HEADS // KV, 1), v.repeat_interleave(HEADS // KV, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) / HEAD**0.5
    scores = scores.masked_fill(torch.triu(torch.ones(rows, rows, dtype=torch.bool), 1), float("-inf"))
    x = states + F.linear(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(rows, -1), P[p("self_attn.o_proj.weight")])
    n = norm(x, P[p("post_attention_layernorm.weight")])
    gated = F.silu(F.linear(n, P[p("mlp.gate_proj.weight")])) * F.linear(n, P[p("mlp.up_proj.weight")])
    return x + F.linear(gated, P[p("mlp.down_proj.weight")])


def logits(P, out):
    return F.linear(norm(out, P["norm.weight"]), P["lm_head.weight"])


def reduce(P, tapped, newer):
    """The target's states as the head reads them."""
    if newer:
        tapped = norm(tapped, P["input_norm.weight"])
        parts = [norm(part, P[f"fc_norm.{i}.weight"]) for i, part in enumerate(tapped.split(D, -1))]
        tapped = torch.cat(parts, -1)
    return F.linear(tapped, P["fc.weight"])


def build(out_dir, seed, layers, newer):
    out_dir.mkdir(exist_ok=True)
    torch.manual_seed(seed)
    count = len(layers)
    P, kept = parameters(count, newer)
    # Text, six visual tokens, text. Row i holds the embedding of token i + 1 and the target's states at i.
    FRONT, VISUAL, ROWS = 3, 6, 14
    ids = torch.randint(0, VOCAB, (ROWS,))
    embedded = embeddings[ids].float()
    embedded[FRONT : FRONT + VISUAL] = torch.randn(VISUAL, D)
    at = torch.arange(VISUAL)
    line = torch.arange(FRONT)
    shown = torch.stack([FRONT + at // 6, FRONT + at % 6 // 3, FRONT + at % 3])
    after = int(shown.max()) + 1 + torch.arange(ROWS - FRONT - VISUAL)
    positions = torch.cat([torch.stack([line] * 3), shown, torch.stack([after] * 3)], 1)
    tapped = torch.randn(ROWS, count * D) * 1.5
    states = reduce(P, tapped, newer)
    record = {
        "ids": ids,
        "embeddings": embedded,
        "positions": positions,
        "tapped": tapped,
    }
    out = head(P, embedded, states, positions)
    record["logits"] = logits(P, out)
    chain, drafted = [], []
    for step in range(4):
        row = logits(P, out)[-1]
        chain.append(row)
        token = int(kept[row.argmax()])
        drafted.append(token)
        embedded = torch.cat([embedded, embeddings[token : token + 1].float()])
        own = norm(out[-1:], P["norm.weight"]) if newer else out[-1:]
        states = torch.cat([states, own])
        positions = torch.cat([positions, positions[:, -1:] + 1], 1)
        # Every token of the chain reads the output of the pass before it; earlier rows do not change.
        out = head(P, embedded, states, positions)
    record["chain"] = torch.stack(chain)
    record["drafted"] = torch.tensor(drafted)
    save_file({n: v.contiguous() for n, v in record.items()}, out_dir / "reference.safetensors")
    save_file({n: v.contiguous() for n, v in P.items()}, out_dir / "model.safetensors")
    (out_dir / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["LlamaForCausalLMEagle3"],
                "model_type": "llama",
                "hidden_size": D,
                "intermediate_size": FFN,
                "num_attention_heads": HEADS,
                "num_key_value_heads": KV,
                "num_hidden_layers": 1,
                "head_dim": HEAD,
                "hidden_act": "silu",
                "rms_norm_eps": EPS,
                "rope_theta": int(THETA),
                "rope_scaling": {"type": "mrope", "mrope_section": SECTION},
                "max_position_embeddings": 2048,
                "attention_bias": False,
                "tie_word_embeddings": False,
                "vocab_size": VOCAB,
                "draft_vocab_size": DRAFT,
                "eagle_config": {"eagle_aux_hidden_state_layer_ids": layers, "use_aux_hidden_state": True},
            }
            | ({"fc_norm": True, "norm_before_fc": True, "norm_output": True} if newer else {}),
            indent=1,
        )
        + "\n"
    )
    print(out_dir.name, "drafted", drafted)


build(HERE / "eagle3", 23, [0, 1, 2], False)
build(HERE / "eagle3_1", 31, [0, 2], True)
