"""Write a checkpoint with random weights in bf16, in the shape of a published Qwen2.5-VL, in Hugging Face layout.

    python lab/benches/peers/random_directory.py OUT qwen2.5-vl-3b VOCABULARY

The shape is one of crates/model/src/shapes.json. VOCABULARY is llama.cpp's models/ggml-vocab-qwen2.gguf. Tensors are written one by one.
Needs gguf and numpy.
"""

import json
import pathlib
import shutil
import struct
import sys

import gguf
import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
PUBLISHED = ROOT / "tests/parity/fixtures/published"
RANDOM = np.random.default_rng(1)
# rows that differ; the rest of a matrix repeats them
ROWS = 512


def tensors(config):
    """Names and shapes: vectors are norms of ones or biases of zeros."""
    width, ffn = config["hidden_size"], config["intermediate_size"]
    keys = config["num_key_value_heads"] * width // config["num_attention_heads"]
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], width], "model.norm.weight": [width]}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = [config["vocab_size"], width]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        for name in ["input_layernorm", "post_attention_layernorm"]:
            shapes[f"{at}.{name}.weight"] = [width]
        for name, rows in [("q", width), ("k", keys), ("v", keys)]:
            shapes |= {f"{at}.self_attn.{name}_proj.weight": [rows, width], f"{at}.self_attn.{name}_proj.bias": [rows]}
        shapes[f"{at}.self_attn.o_proj.weight"] = [width, width]
        shapes |= {f"{at}.mlp.{name}_proj.weight": [ffn, width] for name in ["gate", "up"]}
        shapes[f"{at}.mlp.down_proj.weight"] = [width, ffn]
    vision = config["vision_config"]
    inner, wide, merged = vision["hidden_size"], vision["intermediate_size"], 4 * vision["hidden_size"]
    shapes["visual.patch_embed.proj.weight"] = [inner, 3, 2, vision["patch_size"], vision["patch_size"]]
    for block in range(vision["depth"]):
        at = f"visual.blocks.{block}"
        shapes |= {f"{at}.norm{number}.weight": [inner] for number in [1, 2]}
        matrices = [("attn.qkv", 3 * inner, inner), ("attn.proj", inner, inner), ("mlp.gate_proj", wide, inner)]
        for name, rows, inputs in [*matrices, ("mlp.up_proj", wide, inner), ("mlp.down_proj", inner, wide)]:
            shapes |= {f"{at}.{name}.weight": [rows, inputs], f"{at}.{name}.bias": [rows]}
    shapes["visual.merger.ln_q.weight"] = [inner]
    for name, rows in [("0", merged), ("2", vision["out_hidden_size"])]:
        shapes |= {f"visual.merger.mlp.{name}.weight": [rows, merged], f"visual.merger.mlp.{name}.bias": [rows]}
    return shapes


def values(name, shape):
    """bf16 as 16-bit integers."""
    if len(shape) == 1:
        one = np.zeros(shape, np.float32) if name.endswith("bias") else np.ones(shape, np.float32)
    else:
        rows, width = shape[0], int(np.prod(shape[1:]))
        one = RANDOM.standard_normal((min(rows, ROWS), width), np.float32) * width**-0.5
        one = np.tile(one, (-(-rows // len(one)), 1))[:rows]
    return (np.ascontiguousarray(one).view(np.uint32) >> 16).astype(np.uint16)


def tokenizer(vocabulary):
    """The cut tokenizer of the fixtures with all tokens and merges."""
    parts = json.loads((PUBLISHED / "qwen/tokenizer.json").read_text())
    fields = gguf.GGUFReader(vocabulary).fields
    tokens, kinds = (fields[f"tokenizer.ggml.{key}"].contents() for key in ["tokens", "token_type"])
    normal = {text: id for id, (text, kind) in enumerate(zip(tokens, kinds, strict=True)) if kind == gguf.TokenType.NORMAL}
    parts["model"]["vocab"], parts["model"]["merges"] = normal, fields["tokenizer.ggml.merges"].contents()
    for number, token in enumerate(parts["added_tokens"]):
        token["id"] = len(normal) + number
    return parts


def main():
    out, name, vocabulary = sys.argv[1:4]
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    config = json.loads((ROOT / "crates/model/src/shapes.json").read_text())[name]
    (out / "config.json").write_text(json.dumps(config))
    (out / "tokenizer.json").write_text(json.dumps(tokenizer(vocabulary)))
    (out / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (out / "generation_config.json").write_text(json.dumps({"eos_token_id": [151645, 151643]}))
    shutil.copy(PUBLISHED / "processors/qwen2_5_vl/preprocessor_config.json", out)
    shutil.copy(PUBLISHED / "templates/qwen2_5_vl.jinja", out / "chat_template.jinja")
    header, end = {}, 0
    shapes = tensors(config)
    for name, shape in shapes.items():
        begin, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes.items():
            values(name, shape).tofile(file)


if __name__ == "__main__":
    main()
