"""Make the fixture of a ViSpec head: a random head for the checkpoint `gqa_tied`, and what torch computes with it.

    python tests/parity/make_vispec_fixture.py

Needs torch (CPU), safetensors, numpy. Written below `tests/parity/fixtures/vispec`:

    config.json, model.safetensors   a drafter directory, loadable like a trained one
    reference.safetensors            two samples, the states of a first pass, the loss of two passes and its gradients

The head is implemented here independently: row by row in the order of the prompt (text, video, text), with the compressed rows
through the whole layer, one sample and one head of the adaptor at a time, without the batching of `crates/train/src`.
"""

import json
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent / "fixtures"
OUT = HERE / "vispec"
TARGET = HERE / "gqa_tied"
OUT.mkdir(exist_ok=True)
torch.manual_seed(17)

config = json.loads((TARGET / "config.json").read_text())
D, HEADS, KV, FFN, VOCAB = (
    config[k]
    for k in ("hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size")
)
HEAD = D // HEADS
THETA, SECTION = config["rope_theta"], config["rope_scaling"]["mrope_section"]
EPS = config["rms_norm_eps"]
# One row and the vector would be two; three show that all rows but the last are rows.
QUERIES = 3
weights = load_file(TARGET / "model.safetensors")
name = next(n for n in weights if n.endswith("embed_tokens.weight"))
embeddings = weights[name].float()


def fingerprint():
    value = 0xCBF29CE484222325
    for i in range(64):
        for byte in embeddings[i * VOCAB // 64].numpy().tobytes():
            value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def make(*shape, scale=0.15):
    return (torch.randn(*shape) * scale).requires_grad_()


P = {
    "fc.weight": make(D, 2 * D),
    "fc.bias": make(D),
    "imadpt.q": make(QUERIES, HEADS, HEAD, scale=0.5),
    "imadpt.k_proj.weight": make(D, D),
    "imadpt.k_proj.bias": make(D),
    "imadpt.v_proj.weight": make(D, D),
    "imadpt.v_proj.bias": make(D),
    "imadpt.o_proj.weight": make(D, D),
    "img_fc.weight": make(D, 2 * D),
    "img_fc.bias": make(D),
    "model.norm.weight": (1 + 0.1 * torch.randn(D)).requires_grad_(),
    "model.layers.0.input_layernorm.weight": (1 + 0.1 * torch.randn(D)).requires_grad_(),
    "model.layers.0.post_attention_layernorm.weight": (1 + 0.1 * torch.randn(D)).requires_grad_(),
    "model.layers.0.self_attn.q_proj.weight": make(D, D),
    "model.layers.0.self_attn.q_proj.bias": make(D),
    "model.layers.0.self_attn.k_proj.weight": make(KV * HEAD, D),
    "model.layers.0.self_attn.k_proj.bias": make(KV * HEAD),
    "model.layers.0.self_attn.v_proj.weight": make(KV * HEAD, D),
    "model.layers.0.self_attn.v_proj.bias": make(KV * HEAD),
    "model.layers.0.self_attn.o_proj.weight": make(D, D),
    "model.layers.0.mlp.gate_proj.weight": make(FFN, D),
    "model.layers.0.mlp.up_proj.weight": make(FFN, D),
    "model.layers.0.mlp.down_proj.weight": make(D, FFN),
}


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


def layer(x, positions):
    rows = x.shape[0]
    p = lambda n: P["model.layers.0." + n]
    n = norm(x, p("input_layernorm.weight"))
    q = F.linear(n, p("self_attn.q_proj.weight"), p("self_attn.q_proj.bias")).view(rows, HEADS, HEAD)
    k = F.linear(n, p("self_attn.k_proj.weight"), p("self_attn.k_proj.bias")).view(rows, KV, HEAD)
    v = F.linear(n, p("self_attn.v_proj.weight"), p("self_attn.v_proj.bias")).view(rows, KV, HEAD)
    q, k = rotate(q, positions), rotate(k, positions)
    k, v = k.repeat_interleave(HEADS // KV, 1), v.repeat_interleave(HEADS // KV, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) / HEAD**0.5
    scores = scores.masked_fill(torch.triu(torch.ones(rows, rows, dtype=torch.bool), 1), float("-inf"))
    out = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(rows, -1)
    x = x + F.linear(out, p("self_attn.o_proj.weight"))
    n = norm(x, p("post_attention_layernorm.weight"))
    gated = F.silu(F.linear(n, p("mlp.gate_proj.weight"))) * F.linear(n, p("mlp.up_proj.weight"))
    return norm(x + F.linear(gated, p("mlp.down_proj.weight")), P["model.norm.weight"])


def sample(front, visual, rows, answer):
    line = torch.arange(front)
    at = torch.arange(visual)
    shown = torch.stack([front + at // 4, front + at % 4 // 2, front + at % 2])
    after = int(shown.max()) + 1 + torch.arange(rows - front)
    text = torch.cat([line, after])
    return {
        "ids": torch.randint(0, 290, (rows,)),
        "positions": torch.stack([text] * 3),
        "states": torch.randn(rows, D),
        "last_visual": torch.randn(D),
        "visual": torch.randn(visual, D),
        "visual_positions": shown,
        "shape": torch.tensor([front, answer, rows]),
    }


def compress(visual):
    """A row for each query, from the visual embeddings."""
    k = F.linear(visual, P["imadpt.k_proj.weight"], P["imadpt.k_proj.bias"]).view(-1, HEADS, HEAD)
    v = F.linear(visual, P["imadpt.v_proj.weight"], P["imadpt.v_proj.bias"]).view(-1, HEADS, HEAD)
    heads = [(P["imadpt.q"][:, h] @ k[:, h].T / HEAD**0.5).softmax(-1) @ v[:, h] for h in range(HEADS)]
    return F.linear(torch.cat(heads, -1), P["imadpt.o_proj.weight"])


def run(s, before, shown):
    """States at the text rows, computed from the states before them."""
    front, rows = int(s["shape"][0]), int(s["shape"][2])
    small = compress(s["visual"])
    vectors = torch.zeros(rows, D)
    if shown:
        vectors = torch.cat([vectors[:front], small[-1:].expand(rows - front, D)])
    mixed = F.linear(torch.cat([before, vectors], -1), P["img_fc.weight"], P["img_fc.bias"])
    z = F.linear(torch.cat([embeddings[s["ids"]], mixed], -1), P["fc.weight"], P["fc.bias"])
    n = QUERIES - 1 if shown else 0
    x = torch.cat([z[:front], small[:n], z[front:]])
    last = s["visual_positions"][:, s["visual_positions"].shape[1] - n :]
    positions = torch.cat([s["positions"][:, :front], last, s["positions"][:, front:]], 1)
    out = layer(x, positions)
    assert x.shape[0] == rows + n
    return torch.cat([out[:front], out[front + n :]])


def before(s):
    front = int(s["shape"][0])
    states = torch.cat([torch.zeros(1, D), s["states"][:-1]])
    states[front] = s["last_visual"]
    return states


SAMPLES = [sample(3, 8, 12, 6), sample(2, 4, 9, 5)]
SHOWN = [True, False]
STATE, TOKEN = 1.0, 0.1
record = {}
outs = [[], []]
for i, (s, shown) in enumerate(zip(SAMPLES, SHOWN)):
    record |= {f"{i}.{k}": v.contiguous() for k, v in s.items()}
    answer, rows = int(s["shape"][1]), int(s["shape"][2])
    first = run(s, before(s), shown)
    record[f"{i}.out"] = first.detach().contiguous()
    again = before(s).clone()
    again[answer + 1 :] = first[answer : rows - 1]
    second = run(s, again, shown)
    for pass_, out in enumerate((first, second)):
        outs[pass_].append(out[answer:])
wanted = torch.cat([s["states"][int(s["shape"][1]) :] for s in SAMPLES])
p = F.linear(wanted, embeddings).softmax(-1)
loss = 0
for pass_ in outs:
    out = torch.cat(pass_)
    loss = loss + STATE * F.smooth_l1_loss(out, wanted)
    loss = loss + TOKEN * -(p * F.linear(out, embeddings).log_softmax(-1)).sum(-1).mean()
loss.backward()
record["loss"] = loss.detach().reshape(1)
record |= {f"grad.{n}": v.grad.contiguous() for n, v in P.items()}
save_file(record, OUT / "reference.safetensors")
save_file({n: v.detach().contiguous() for n, v in P.items()}, OUT / "model.safetensors")
(OUT / "config.json").write_text(
    json.dumps(
        {
            "model_type": "specreel_sparrow",
            "recipe": "vispec",
            "visual_rows": "embeddings",
            "intermediate_size": FFN,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV,
            "head_dim": HEAD,
            "rope_theta": THETA,
            "mrope_section": SECTION,
            "rms_norm_eps": EPS,
            "num_queries": QUERIES,
            "target": {
                "name": "gqa_tied",
                "hidden_size": D,
                "vocab_size": VOCAB,
                "num_hidden_layers": config["num_hidden_layers"],
                "fingerprint": fingerprint(),
            },
        },
        indent=1,
    )
    + "\n"
)
print("loss", loss.item())
