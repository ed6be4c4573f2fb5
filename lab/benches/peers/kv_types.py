"""What a KV cache in ggml's 4-bit blocks would cost: KL divergence from an f32 cache on the text of `specreel-lab bench --suite quality`.

    python kv_types.py ~/.cache/specreel-test/smolvlm2-text-1

Weights and arithmetic are f32, so that only the cache differs. `q8_0` is there to compare with specreel's own figure. Needs torch,
safetensors and tokenizers.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

WINDOW = 512  # as llama-perplexity: the first half is read, the second predicted
WINDOWS = 8
BLOCK = 32


def q8_0(x):
    """ggml's q8_0: 32 values share an f16 scale, the largest magnitude over 127."""
    blocks = x.unflatten(-1, (-1, BLOCK))
    scale = (blocks.abs().amax(-1, keepdim=True) / 127).half().float()
    values = (blocks / scale.clamp_min(1e-30)).round().clamp(-127, 127)
    return (values * scale).flatten(-2)


def q4_0(x):
    """ggml's q4_0: the scale maps the value of largest magnitude to -8."""
    blocks = x.unflatten(-1, (-1, BLOCK))
    largest = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True))
    scale = (largest / -8).half().float()
    inverse = torch.where(scale == 0, torch.zeros_like(scale), 1 / scale)
    values = (blocks * inverse + 8.5).floor().clamp(0, 15) - 8
    return (values * scale).flatten(-2)


def rotate(x, theta):
    """Rotary embedding of [rows, heads, width], as Llama: pairs are half a head apart."""
    half = x.shape[-1] // 2
    frequencies = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(x.shape[0], dtype=torch.float64)[:, None] * frequencies
    cos, sin = angles.cos().float()[:, None], angles.sin().float()[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def logits(weights, config, ids, keys, values):
    """Logits of each row; `keys` and `values` change what the cache holds."""
    get = lambda name: weights[f"model.text_model.{name}"].float()
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    norm = lambda x, name: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]) * get(name)
    x = get("embed_tokens.weight")[ids]
    for i in range(config["num_hidden_layers"]):
        layer = f"layers.{i}."
        y = norm(x, layer + "input_layernorm.weight")
        q, k, v = (y @ get(f"{layer}self_attn.{part}_proj.weight").T for part in "qkv")
        q = rotate(q.unflatten(-1, (heads, -1)), config["rope_theta"])
        k = keys(rotate(k.unflatten(-1, (groups, -1)), config["rope_theta"]))
        v = values(v.unflatten(-1, (groups, -1)))
        q, k, v = (part.transpose(0, 1) for part in (q, k, v))
        read = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + read.transpose(0, 1).flatten(1) @ get(layer + "self_attn.o_proj.weight").T
        y = norm(x, layer + "post_attention_layernorm.weight")
        gate = torch.nn.functional.silu(y @ get(layer + "mlp.gate_proj.weight").T)
        x = x + (gate * (y @ get(layer + "mlp.up_proj.weight").T)) @ get(layer + "mlp.down_proj.weight").T
    return norm(x, "norm.weight") @ weights["lm_head.weight"].float().T


def main():
    directory = pathlib.Path(sys.argv[1])
    config = json.loads((directory / "config.json").read_text())["text_config"]
    weights = load_file(directory / "model.safetensors")
    text = pathlib.Path(__file__).parents[2] / "assets/text/workshop.txt"
    ids = Tokenizer.from_file(str(directory / "tokenizer.json")).encode(text.read_text()).ids
    same = lambda x: x
    forms = {"q8_0": (q8_0, q8_0), "keys in q8_0, values in q4_0": (q8_0, q4_0), "q4_0": (q4_0, q4_0)}
    found = {name: [] for name in forms}
    with torch.inference_mode():
        for start in range(0, min(len(ids), WINDOWS * WINDOW) - WINDOW + 1, WINDOW):
            window = ids[start : start + WINDOW]
            last = slice(WINDOW // 2, WINDOW - 1)
            reference = logits(weights, config, window, same, same)[last].log_softmax(-1)
            for name, (keys, values) in forms.items():
                other = logits(weights, config, window, keys, values)[last].log_softmax(-1)
                kl = (reference.exp() * (reference - other)).sum(-1)
                found[name].append(torch.stack([kl, (reference.argmax(-1) == other.argmax(-1)).float()]))
    for name, parts in found.items():
        kl, top = torch.cat(parts, 1)
        print(f"{name}: KL {kl.mean():.2e}, p99 {kl.quantile(0.99):.2e}, same top {100 * top.mean():.1f} %, {len(kl)} tokens")


if __name__ == "__main__":
    main()
