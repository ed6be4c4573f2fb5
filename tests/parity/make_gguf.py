"""Make the GGUF fixtures: parity checkpoints as a language model and a vision tower (mmproj), with the `gguf` package.

    python tests/parity/make_gguf.py                      # all fixtures, in tests/parity/fixtures/gguf
    python tests/parity/make_gguf.py DIR OUT TYPE [TOWER]  # one directory in Hugging Face layout, for example in q8_0 and f16

Needs gguf, numpy, safetensors and torch (CPU). Types are those that `gguf` quantises: f32, f16, bf16, q8_0, q4_0. Names of tensors
are those that `gguf` maps; metadata is what llama.cpp's converter writes for Qwen2-VL, Qwen2.5-VL, Qwen3-VL and SmolVLM2.
"""

import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

HERE = pathlib.Path(__file__).parent / "fixtures"
# checkpoint, types of the language model, type of the tower
FIXTURES = [
    ("gqa_tied", ["f32", "f16", "q8_0", "q4_0"], "f32"),
    ("qwen2_vl", ["f16"], "f16"),
    ("qwen3_vl", ["bf16", "q8_0"], "bf16"),
    ("smolvlm", ["bf16", "q8_0"], "bf16"),
    ("smolvlm_untied", ["f16"], "f16"),
]
TYPES = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "bf16": gguf.GGMLQuantizationType.BF16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
}


def read_json(path):
    return json.loads(path.read_text()) if path.is_file() else {}


def tensors(folder):
    """All tensors as float32, under their first published names."""
    found = {}
    for file in sorted(folder.glob("model*.safetensors")):
        found |= load_file(file)
    inner = [("model.language_model.", "model."), ("model.text_model.", "model."), ("model.visual.", "visual.")]

    def first(name):
        for newer, older in inner:
            name = name.replace(newer, older)
        return name

    names = {first(name): name for name in found}
    return {name: found[old].to(torch.float32).numpy() for name, old in names.items()}


def add(writer, name, values, kind):
    """A tensor in a type, or in float32 if it is no matrix or its rows are not whole blocks."""
    block, _ = gguf.GGML_QUANT_SIZES[kind]
    if values.ndim == 1 or values.shape[-1] % block:
        kind = gguf.GGMLQuantizationType.F32
    data = gguf.quants.quantize(np.ascontiguousarray(values), kind)
    writer.add_tensor(name, data, raw_dtype=kind)


def add_tokenizer(writer, folder, size):
    parts = read_json(folder / "tokenizer.json")
    added = {token["id"]: token for token in parts["added_tokens"]}
    texts = {id: text for text, id in parts["model"]["vocab"].items()} | {id: t["content"] for id, t in added.items()}
    tokens, kinds = [], []
    for id in range(size):
        token = added.get(id)
        if id not in texts:
            kind = gguf.TokenType.UNUSED
        elif token is None:
            kind = gguf.TokenType.NORMAL
        elif token["special"] or (token["content"].startswith("<|") and token["content"].endswith("|>")):
            kind = gguf.TokenType.CONTROL
        else:
            kind = gguf.TokenType.USER_DEFINED
        tokens.append(texts.get(id, f"[PAD{id}]"))
        kinds.append(kind)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in parts["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    # what splits text into digits by a rule of its own is SmolLM's
    writer.add_tokenizer_pre("smollm" if '"Digits"' in (folder / "tokenizer.json").read_text() else "qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    ends = read_json(folder / "generation_config.json")["eos_token_id"]
    writer.add_eos_token_id(ends[0] if isinstance(ends, list) else ends)
    for file in ["chat_template.json", "tokenizer_config.json"]:
        if template := read_json(folder / file).get("chat_template"):
            writer.add_chat_template(template)
            break


ARCHITECTURES = {"qwen3_vl": gguf.MODEL_ARCH.QWEN3VL, "smolvlm": gguf.MODEL_ARCH.LLAMA}


def text_model(folder, config, weights, out, kind):
    text = config | config.get("text_config", {})
    layers, heads = text["num_hidden_layers"], text["num_attention_heads"]
    family = config["model_type"]
    architecture = ARCHITECTURES.get(family, gguf.MODEL_ARCH.QWEN2VL)
    writer = gguf.GGUFWriter(out, gguf.MODEL_ARCH_NAMES[architecture])
    rope = text.get("rope_scaling") or text.get("rope_parameters") or {}
    writer.add_name(folder.name)
    writer.add_context_length(text["max_position_embeddings"])
    writer.add_embedding_length(text["hidden_size"])
    writer.add_block_count(layers)
    writer.add_feed_forward_length(text["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(text["num_key_value_heads"])
    writer.add_rope_freq_base(text.get("rope_theta") or rope["rope_theta"])
    if "mrope_section" in rope:
        writer.add_rope_dimension_sections(rope["mrope_section"] + [0])
    writer.add_layer_norm_rms_eps(text["rms_norm_eps"])
    if "head_dim" in text:
        writer.add_key_length(text["head_dim"])
        writer.add_value_length(text["head_dim"])
    if family == "qwen3_vl":
        writer.add_num_deepstack_layers(len(config["vision_config"]["deepstack_visual_indexes"]))
    if family == "smolvlm":
        writer.add_vocab_size(text["vocab_size"])
        writer.add_rope_dimension_count(text["head_dim"])
    add_tokenizer(writer, folder, text["vocab_size"])
    names = gguf.get_tensor_name_map(architecture, layers)
    for name, values in weights.items():
        if name.startswith(("visual.", "model.vision_model.", "model.connector.")):
            continue
        if name == "lm_head.weight" and text["tie_word_embeddings"]:
            continue
        if family == "smolvlm" and name.endswith(("q_proj.weight", "k_proj.weight")):
            values = pairs(values, heads if "q_proj" in name else text["num_key_value_heads"])
        add(writer, names.get_name(name, try_suffixes=(".weight", ".bias")), values, kind)
    finish(writer)


def pairs(values, heads):
    """The rows of each head with those that rotate together beside each other, as the architecture `llama` has them."""
    return values.reshape(heads, 2, values.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(values.shape)


PROJECTORS = {"qwen2_vl": "qwen2vl_merger", "qwen2_5_vl": "qwen2.5vl_merger", "qwen3_vl": "qwen3vl_merger", "smolvlm": "idefics3"}
MERGER = {
    f"visual.{ours}.{suffix}": f"{theirs}.{suffix}"
    for ours, theirs in [
        ("patch_embed.proj", "v.patch_embd"),
        ("merger.norm", "v.post_ln"),
        ("merger.linear_fc1", "mm.0"),
        ("merger.linear_fc2", "mm.2"),
    ]
    for suffix in ["weight", "bias"]
}


def tower(folder, config, weights, out, kind):
    vision, text = config["vision_config"], config | config.get("text_config", {})
    family = config["model_type"]
    newer = family == "qwen2_5_vl"
    writer = gguf.GGUFWriter(out, "clip")
    writer.add_type("mmproj")
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type(PROJECTORS[family])
    writer.add_vision_projection_dim(text["hidden_size"])
    patch, depth = vision["patch_size"], vision.get("depth") or vision["num_hidden_layers"]
    side = round(vision.get("num_position_embeddings", 0) ** 0.5) * patch
    writer.add_vision_image_size(vision.get("image_size") or side or 560)
    writer.add_vision_patch_size(patch)
    writer.add_vision_embedding_length(vision["embed_dim"] if family == "qwen2_vl" else vision["hidden_size"])
    # as the converter has it: for Qwen2-VL, the width of the embeddings
    writer.add_vision_feed_forward_length(vision["hidden_size" if family == "qwen2_vl" else "intermediate_size"])
    writer.add_vision_block_count(depth)
    writer.add_vision_head_count(vision.get("num_heads") or vision["num_attention_heads"])
    images = read_json(folder / "preprocessor_config.json")
    writer.add_vision_image_mean(images["image_mean"])
    writer.add_vision_image_std(images["image_std"])
    if family == "smolvlm":
        # as the converter has it: not the default of the reference, which is 1e-6
        writer.add_vision_attention_layernorm_eps(vision.get("layer_norm_eps", 1e-5))
        writer.add_vision_projector_scale_factor(config["scale_factor"])
        writer.add_vision_preproc_image_size(images["size"]["longest_edge"])
        writer.add_vision_use_gelu(True)
    else:
        writer.add_vision_attention_layernorm_eps(text["rms_norm_eps"])
    if family == "qwen3_vl":
        writer.add_vision_use_gelu(True)
        writer.add_vision_spatial_merge_size(vision["spatial_merge_size"])
        writer.add_vision_is_deepstack_layers([block in vision["deepstack_visual_indexes"] for block in range(depth)])
    if newer:
        full = vision["fullatt_block_indexes"]
        assert [b - a for a, b in zip([-1] + full, full, strict=False)] == [full[0] + 1] * len(full)
        writer.add_vision_use_silu(True)
        writer.add_vision_n_wa_pattern(full[0] + 1)
    # enough numbers for the layers of the merger, too
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, max(depth, 3))
    for name, values in weights.items():
        if not name.startswith(("visual.", "model.vision_model.", "model.connector.")):
            continue
        if name == "visual.patch_embed.proj.weight":
            for frame, suffix in enumerate(["", ".1"]):
                add(writer, f"v.patch_embd.weight{suffix}", values[:, :, frame], kind)
        elif name.startswith("visual.deepstack_merger_list."):
            level, part, suffix = name.split(".")[2:]
            block = vision["deepstack_visual_indexes"][int(level)]
            add(writer, f"v.deepstack.{block}.{part.removeprefix('linear_')}.{suffix}", values, kind)
        elif family == "qwen3_vl" and name in MERGER:
            add(writer, MERGER[name], values, kind)
        elif ".qkv." in name and family != "qwen3_vl":
            for part, third in zip("qkv", np.split(values, 3), strict=True):
                new = names.get_name(name.replace("qkv", part), try_suffixes=(".weight", ".bias"))
                add(writer, new, third, kind)
        else:
            add(writer, names.get_name(name, try_suffixes=(".weight", ".bias")), values, kind)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def convert(folder, out, kinds, tower_kind):
    out.mkdir(parents=True, exist_ok=True)
    config, weights = read_json(folder / "config.json"), tensors(folder)
    for kind in kinds:
        text_model(folder, config, weights, out / f"model-{kind}.gguf", TYPES[kind])
    tower(folder, config, weights, out / f"mmproj-{tower_kind}.gguf", TYPES[tower_kind])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        folder, out, kind = sys.argv[1:4]
        convert(pathlib.Path(folder), pathlib.Path(out), [kind], (sys.argv[4:] or ["f16"])[0])
    else:
        for name, kinds, tower_kind in FIXTURES:
            convert(HERE / name, HERE / "gguf" / name, kinds, tower_kind)
