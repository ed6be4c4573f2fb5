"""Make the fixtures of DFlash heads: random heads for the checkpoint `gqa_untied_f16`, and what torch computes with them.

    python tests/parity/make_dflash_fixture.py

Needs torch (CPU), safetensors. Written below `tests/parity/fixtures/dflash`:

    config.json, model.safetensors   a head in the published layout (z-lab's)
    reference.safetensors            states after two layers of the target at the rows of a context, and the logits of two blocks:
                                     one after the context's first rows, one after all; also with later rows of the block hidden
                                     in the layer with a window

`tests/parity/fixtures/dflash2` holds the same of a DFlash 2 head, which has convolutions and a selector, and of each block the chain
that the selector walks, with the scores of the candidates on its way.

Written from the paper (arXiv:2602.06036) and the published descriptions, without their code: nothing is cached, every block
computes keys and values of all context rows again.
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
D, VOCAB, TARGET_LAYERS = target["hidden_size"], target["vocab_size"], target["num_hidden_layers"]
# Another shape than the target's own layers.
HEADS, KV, HEAD, FFN, LAYERS = 4, 2, 24, 80, 3
BLOCK, MASK, WINDOW, READ = 6, 5, 9, [0, 2]
THETA, EPS = 10000.0, 1e-5
TYPES = ["sliding_attention", "full_attention", "sliding_attention"]
# Of DFlash 2.
TAPS, GROUP, RANK, CANDIDATES = 3, 8, 12, 6
weights = load_file(TARGET / "model.safetensors")
embeddings = weights[next(n for n in weights if n.endswith("embed_tokens.weight"))].float()
lm_head = weights[next(n for n in weights if n.endswith("lm_head.weight"))].float()


def make(*shape, scale=0.12):
    return torch.randn(*shape) * scale


def norm_weight(width=D):
    return 1 + 0.1 * torch.randn(width)


def make_head(second):
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
        if second:
            for part in ["attention_conv", "mlp_conv"]:
                P[p + part + ".base_kernel"] = make(2, TAPS, D, scale=0.4)
                P[p + part + ".kernel_projection.weight"] = make(2 * TAPS * D // GROUP, D, scale=0.04)
    if second:
        P["candidate_selector.predecessor_codebook"] = make(VOCAB, RANK, scale=1.0)
        P["candidate_selector.successor_codebook"] = make(VOCAB, RANK, scale=1.0)
        P["candidate_selector.hidden_projection.weight"] = make(RANK, D, scale=0.2)
    return P


def norm(x, weight):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * weight


def rotate(x, positions):
    """x: rows x heads x HEAD."""
    half = HEAD // 2
    frequency = 1.0 / THETA ** (torch.arange(half).float() * 2 / HEAD)
    angle = positions.float()[:, None] * frequency
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def convolve(x, shared, corrections):
    """x: rows x D; shared: taps x D; corrections: rows x taps x groups."""
    rows = []
    for i in range(x.shape[0]):
        kernels = shared + corrections[i].repeat_interleave(GROUP, -1)
        rows.append(sum(kernels[t] * x[i - t] for t in range(min(TAPS, i + 1))))
    return torch.stack(rows)


def around(P, name, x, sublayer):
    """A sublayer of rows of a block, between the convolutions `name` if the head has some."""
    if name + ".base_kernel" not in P:
        return sublayer(x)
    shared = P[name + ".base_kernel"]
    corrections = F.linear(x, P[name + ".kernel_projection.weight"]).view(-1, 2, TAPS, D // GROUP)
    return convolve(sublayer(convolve(x, shared[0], corrections[:, 0])), shared[1], corrections[:, 1])


def block(P, tapped, root, hides_later):
    """The final states of a block's rows after a context; with `hides_later` layers with a window see no later rows of it."""
    context = norm(F.linear(tapped, P["fc.weight"]), P["hidden_norm.weight"])
    count = context.shape[0]
    ids = torch.tensor([root] + [MASK] * (BLOCK - 1))
    at = torch.arange(count + BLOCK)
    own = at[count:]
    x = embeddings[ids]
    for layer, kind in enumerate(TYPES):
        p = f"layers.{layer}."

        def attention(normed):
            read = torch.cat([context, normed])
            q = F.linear(normed, P[p + "self_attn.q_proj.weight"]).view(BLOCK, HEADS, HEAD)
            k = F.linear(read, P[p + "self_attn.k_proj.weight"]).view(-1, KV, HEAD)
            v = F.linear(read, P[p + "self_attn.v_proj.weight"]).view(-1, KV, HEAD)
            q = rotate(norm(q, P[p + "self_attn.q_norm.weight"]), own)
            k = rotate(norm(k, P[p + "self_attn.k_norm.weight"]), at)
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
            return F.linear(mixed, P[p + "self_attn.o_proj.weight"])

        def feed_forward(normed):
            gate, up = F.linear(normed, P[p + "mlp.gate_proj.weight"]), F.linear(normed, P[p + "mlp.up_proj.weight"])
            return F.linear(F.silu(gate) * up, P[p + "mlp.down_proj.weight"])

        x = x + around(P, p + "attention_conv", norm(x, P[p + "input_layernorm.weight"]), attention)
        x = x + around(P, p + "mlp_conv", norm(x, P[p + "post_attention_layernorm.weight"]), feed_forward)
    return norm(x, P["norm.weight"])


def chain(P, states, root):
    """The chain that the selector walks from the root, and the scores of each place's candidates, the likeliest first."""
    before, ids, scores = root, [], []
    for state in states[1:]:
        top = F.linear(state, lm_head).topk(CANDIDATES)
        gate = F.linear(state, P["candidate_selector.hidden_projection.weight"])
        edges = P["candidate_selector.predecessor_codebook"][before] * gate
        edges = top.values + P["candidate_selector.successor_codebook"][top.indices] @ edges
        before = int(top.indices[edges.argmax()])
        ids.append(before)
        scores.append(edges)
    return torch.tensor(ids), torch.stack(scores)


def description(second):
    own = {"mask_token_id": MASK, "target_layer_ids": READ}
    if second:
        own |= {"block_size": BLOCK, "conv_kernel_size": TAPS, "conv_group_size": GROUP}
        own |= {"selector_rank": RANK, "selector_top_k": CANDIDATES}
    return {
        "architectures": ["DFlash2DraftModel" if second else "DFlashDraftModel"],
        "model_type": "qwen3",
        "attention_bias": False,
        "block_size": BLOCK,
        "dflash_config": own,
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
    }


FIRST, ROWS, ROOTS = 12, 15, [17, 40]
for name, seed, second in [("dflash", 29, False), ("dflash2", 31, True)]:
    out = HERE / name
    out.mkdir(exist_ok=True)
    torch.manual_seed(seed)
    P = make_head(second)
    tapped = torch.randn(ROWS, len(READ) * D) * 1.5
    record = {"tapped": tapped, "roots": torch.tensor(ROOTS)}
    for which, hides_later in [("block", False), ("causal", True)]:
        for at, context, root in [("first", tapped[:FIRST], ROOTS[0]), ("second", tapped, ROOTS[1])]:
            states = block(P, context, root, hides_later)
            record[f"{which}.{at}"] = F.linear(states, lm_head)
            if second:
                record[f"{which}.{at}.chain"], record[f"{which}.{at}.scores"] = chain(P, states, root)
    save_file({n: v.contiguous() for n, v in record.items()}, out / "reference.safetensors")
    save_file({n: v.contiguous() for n, v in P.items()}, out / "model.safetensors")
    (out / "config.json").write_text(json.dumps(description(second), indent=1) + "\n")
