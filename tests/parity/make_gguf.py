"""Make the GGUF fixtures: parity checkpoints as a language model and a vision tower (mmproj), with the `gguf` package.

    python tests/parity/make_gguf.py                      # all fixtures, in tests/parity/fixtures/gguf
    python tests/parity/make_gguf.py DIR OUT TYPE [TOWER]  # one directory in Hugging Face layout, for example in q8_0 and f16

Needs gguf, numpy and safetensors. Types are those that `gguf` quantises: f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0. Names of
tensors are those that `gguf` maps; metadata is what llama.cpp's converter writes for Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3.5 (both
also with experts), SmolVLM2, MiniCPM-V 4.6 and Gemma 4.
"""

import json
import pathlib
import sys

import gguf
import numpy as np
import safetensors

HERE = pathlib.Path(__file__).parent / "fixtures"
# checkpoint, types of the language model, type of the tower
FIXTURES = [
    ("gqa_tied", ["f32", "f16", "q8_0", "q5_0", "q4_1", "q4_0"], "f32"),
    ("qwen2_vl", ["f16"], "f16"),
    ("qwen3_vl", ["bf16", "q8_0"], "bf16"),
    ("qwen3_5", ["bf16", "q8_0"], "bf16"),
    ("qwen3_vl_moe", ["bf16", "q8_0"], "bf16"),
    ("qwen3_5_moe", ["bf16", "q8_0"], "bf16"),
    ("smolvlm", ["bf16", "q8_0"], "bf16"),
    ("smolvlm_untied", ["f16"], "f16"),
    ("minicpmv4_6", ["bf16", "q8_0"], "bf16"),
    ("minicpmv4_6_4x", ["f16"], "f16"),
    ("gemma4", ["bf16", "q8_0"], "bf16"),
    ("gemma4_plain", ["f16"], "f16"),
]
TYPES = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "bf16": gguf.GGMLQuantizationType.BF16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q5_1": gguf.GGMLQuantizationType.Q5_1,
    "q5_0": gguf.GGMLQuantizationType.Q5_0,
    "q4_1": gguf.GGMLQuantizationType.Q4_1,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
}


def read_json(path):
    return json.loads(path.read_text()) if path.is_file() else {}


def load(file):
    """The tensors of a file as float32; NumPy has no bfloat16."""
    found = {}
    for name, tensor in safetensors.deserialize(file.read_bytes()):
        if tensor["dtype"] == "BF16":
            values = (np.frombuffer(tensor["data"], np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(tensor["data"], {"F32": np.float32, "F16": np.float16}[tensor["dtype"]])
        found[name] = values.astype(np.float32).reshape(tensor["shape"])
    return found


def tensors(folder):
    """All tensors as float32, under their first published names."""
    found = {}
    for file in sorted(folder.glob("model*.safetensors")):
        found |= load(file)
    # The layer for multi-token prediction is a fixture of its own.
    if folder == HERE / "qwen3_5":
        found |= load(HERE / "mtp" / "mtp.safetensors")
    inner = [("model.language_model.", "model."), ("model.text_model.", "model."), ("model.visual.", "visual.")]

    def first(name):
        for newer, older in inner:
            name = name.replace(newer, older)
        return name

    names = {first(name): name for name in found}
    return {name: found[old] for name, old in names.items()}


def add(writer, name, values, kind):
    """A tensor in a type, or in float32 if it is no matrix to multiply with or its rows are not whole blocks."""
    block, _ = gguf.GGML_QUANT_SIZES[kind]
    if values.ndim == 1 or values.shape[-1] % block or "conv1d" in name:
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
            kind = gguf.TokenType.BYTE if texts[id].startswith("<0x") else gguf.TokenType.NORMAL
        elif token["special"] or (token["content"].startswith("<|") and token["content"].endswith("|>")):
            kind = gguf.TokenType.CONTROL
        else:
            kind = gguf.TokenType.USER_DEFINED
        tokens.append(texts.get(id, f"[PAD{id}]"))
        kinds.append(kind)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in parts["model"]["merges"]]
    family = read_json(folder / "config.json")["model_type"]
    writer.add_tokenizer_model("gemma4" if family == "gemma4" else "gpt2")
    # Qwen3.5's differs from Qwen2's for marks alone
    preparations = {"smolvlm": "smollm", "qwen3_5": "qwen35", "qwen3_5_moe": "qwen35", "minicpmv4_6": "qwen35"}
    if family == "gemma4":
        writer.add_bos_token_id(parts["model"]["vocab"]["<bos>"])
        writer.add_unk_token_id(parts["model"]["vocab"]["<unk>"])
        writer.add_pad_token_id(parts["model"]["vocab"]["<pad>"])
        writer.add_add_space_prefix(False)
        writer.add_add_bos_token(True)
    else:
        writer.add_tokenizer_pre(preparations.get(family, "qwen2"))
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    ends = read_json(folder / "generation_config.json")["eos_token_id"]
    writer.add_eos_token_id(ends[0] if isinstance(ends, list) else ends)
    if (folder / "chat_template.jinja").is_file():
        writer.add_chat_template((folder / "chat_template.jinja").read_text())
        return
    for file in ["chat_template.json", "tokenizer_config.json"]:
        if template := read_json(folder / file).get("chat_template"):
            writer.add_chat_template(template)
            break


ARCHITECTURES = {
    "qwen3_vl": gguf.MODEL_ARCH.QWEN3VL,
    "qwen3_5": gguf.MODEL_ARCH.QWEN35,
    "qwen3_vl_moe": gguf.MODEL_ARCH.QWEN3VLMOE,
    "qwen3_5_moe": gguf.MODEL_ARCH.QWEN35MOE,
    "smolvlm": gguf.MODEL_ARCH.LLAMA,
    "minicpmv4_6": gguf.MODEL_ARCH.QWEN35,
    "gemma4": gguf.MODEL_ARCH.GEMMA4,
}
# those of layers for multi-token prediction, beside the names of a decoder's layer
PREDICTION = {
    "mtp.fc.": "nextn.eh_proj.",
    "mtp.pre_fc_norm_embedding.": "nextn.enorm.",
    "mtp.pre_fc_norm_hidden.": "nextn.hnorm.",
    "mtp.norm.": "nextn.shared_head_norm.",
}


# how names of tensors begin that belong to a tower
TOWERS = ("visual.", "model.vision_model.", "model.connector.", "model.vision_tower.", "model.merger.", "model.embed_vision.")


def text_model(folder, config, weights, out, kind):
    text = config | config.get("text_config", {})
    layers, heads = text["num_hidden_layers"], text["num_attention_heads"]
    architecture = ARCHITECTURES.get(config["model_type"], gguf.MODEL_ARCH.QWEN2VL)
    # the same language model
    family = config["model_type"].removesuffix("_moe").replace("minicpmv4_6", "qwen3_5")
    writer = gguf.GGUFWriter(out, gguf.MODEL_ARCH_NAMES[architecture])
    rope = text.get("rope_scaling") or text.get("rope_parameters") or {}
    writer.add_name(folder.name)
    writer.add_context_length(text["max_position_embeddings"])
    writer.add_embedding_length(text["hidden_size"])
    predicting = 1 if family == "qwen3_5" and any(name.startswith("mtp.") for name in weights) else 0
    writer.add_block_count(layers + predicting)
    if family == "gemma4":
        windows(writer, text)
    elif "intermediate_size" in text:
        writer.add_feed_forward_length(text["intermediate_size"])
    if "num_experts" in text:
        writer.add_expert_count(text["num_experts"])
        writer.add_expert_used_count(text["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(text["moe_intermediate_size"])
        if shared := text.get("shared_expert_intermediate_size"):
            writer.add_expert_shared_feed_forward_length(shared)
    writer.add_head_count(heads)
    writer.add_head_count_kv(text["num_key_value_heads"])
    if family != "gemma4":
        writer.add_rope_freq_base(text.get("rope_theta") or rope["rope_theta"])
    if "mrope_section" in rope:
        writer.add_rope_dimension_sections(rope["mrope_section"] + [0])
    elif config["model_type"] == "minicpmv4_6":
        # as the converter has it: Qwen3.5's, without effect on positions that are equal on all axes
        writer.add_rope_dimension_sections([11, 11, 10, 0])
    writer.add_layer_norm_rms_eps(text["rms_norm_eps"])
    if "head_dim" in text and family != "gemma4":
        writer.add_key_length(text["head_dim"])
        writer.add_value_length(text["head_dim"])
    if family == "qwen3_vl":
        writer.add_num_deepstack_layers(len(config["vision_config"]["deepstack_visual_indexes"]))
    if family == "qwen3_5":
        hybrid(writer, text, rope, predicting)
    if family == "smolvlm":
        writer.add_vocab_size(text["vocab_size"])
        writer.add_rope_dimension_count(text["head_dim"])
    add_tokenizer(writer, folder, text["vocab_size"])
    names = gguf.get_tensor_name_map(architecture, layers + predicting)
    for name, values in weights.items():
        if family == "qwen3_5":
            name, values = hybrid_tensor(name, values, text, layers)
        if name.startswith(TOWERS):
            continue
        if name == "lm_head.weight" and text["tie_word_embeddings"]:
            continue
        if family == "smolvlm" and name.endswith(("q_proj.weight", "k_proj.weight")):
            values = pairs(values, heads if "q_proj" in name else text["num_key_value_heads"])
        if name.endswith(".layer_scalar"):
            name += ".weight"
        if ".mlp.experts." in name:
            expert_tensors(writer, name, values, text["hidden_size"], kind)
            continue
        if name.endswith("shared_expert_gate.weight"):
            values = values[0]
        new = name if name.startswith("blk.") else names.get_name(name, try_suffixes=(".weight", ".bias"))
        if new is None:
            # a dense layer among layers of experts, which no published model has
            layer, part = name.split(".")[2], name.split(".")[-2].removesuffix("_proj")
            new = f"blk.{layer}.ffn_{part}.weight"
        # the choice of experts is never quantized
        add(writer, new, values, TYPES["f32"] if name.endswith("mlp.gate.weight") else kind)
    finish(writer)


def windows(writer, text):
    """What only Gemma 4 has: attention within windows, layers that share keys and values, and embeddings for each layer."""
    layers, shared, rope = text["num_hidden_layers"], text["num_kv_shared_layers"], text["rope_parameters"]
    every = ["sliding_attention"] * 5 + ["full_attention"]
    kinds = text.get("layer_types") or (every * layers)[: layers - 1] + ["full_attention"]
    ffn, wide = text["intermediate_size"], text["use_double_wide_mlp"]
    writer.add_feed_forward_length([ffn * (1 + (i >= layers - shared)) for i in range(layers)] if wide else ffn)
    writer.add_rope_freq_base(rope["full_attention"]["rope_theta"])
    writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
    if cap := text.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(cap)
    writer.add_sliding_window(text["sliding_window"])
    writer.add_shared_kv_layers(shared)
    writer.add_embedding_length_per_layer_input(text["hidden_size_per_layer_input"])
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in kinds])
    full, own = text["global_head_dim"], text["head_dim"]
    writer.add_key_length(full)
    writer.add_value_length(full)
    writer.add_key_length_swa(own)
    writer.add_value_length_swa(own)
    writer.add_rope_dimension_count(full)
    writer.add_rope_dimension_count_swa(own)
    turned = int(full * rope["full_attention"]["partial_rotary_factor"] / 2)
    factors = np.array([1.0] * turned + [1e30] * (full // 2 - turned), np.float32)
    writer.add_tensor("rope_freqs.weight", factors, raw_dtype=TYPES["f32"])


def expert_tensors(writer, name, values, width, kind):
    """The experts of a layer as linear layers have them, gates and values apart."""
    layer = name.split(".")[2]
    is_down = "down_proj" in name
    # of a transposed one, the states' width is on the other side
    if values.shape[1 if is_down else 2] != width:
        values = values.swapaxes(1, 2)
    parts = {"down": values} if is_down else dict(zip(("gate", "up"), np.split(values, 2, axis=1), strict=True))
    for part, of_part in parts.items():
        add(writer, f"blk.{layer}.ffn_{part}_exps.weight", of_part, kind)


def hybrid(writer, text, rope, predicting):
    """What only Qwen3.5 has: sizes of linear attention, and the share of a head that turns."""
    value_heads = text["linear_num_value_heads"]
    writer.add_ssm_conv_kernel(text["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(text["linear_key_head_dim"])
    writer.add_ssm_group_count(text["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(value_heads)
    writer.add_ssm_inner_size(text["linear_value_head_dim"] * value_heads)
    kinds = text.get("layer_types")
    every = kinds.index("full_attention") + 1 if kinds else text["full_attention_interval"]
    if kinds:
        recurrent = [kind == "linear_attention" for kind in kinds] + [False] * predicting
        writer.add_array(f"{writer.arch}.attention.recurrent_layers", recurrent)
    writer.add_full_attention_interval(every)
    writer.add_rope_dimension_count(int(text["head_dim"] * rope.get("partial_rotary_factor", 0.25)))
    if predicting:
        writer.add_nextn_predict_layers(predicting)


def hybrid_tensor(name, values, text, layers):
    """A tensor of Qwen3.5 under the name that `gguf` maps, with its values as they are stored."""
    for ours, theirs in PREDICTION.items():
        if name.startswith(ours):
            name = f"blk.{layers}.{theirs}{name.removeprefix(ours)}"
    if name.startswith("mtp.layers.0."):
        name = f"model.layers.{layers}.{name.removeprefix('mtp.layers.0.')}"
    if name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
        # the other norms multiply by 1 + w
        values = values + 1
    if name.endswith(".A_log"):
        values = -np.exp(values)
    if ".linear_attn." in name:
        values = tiled(name.rsplit(".linear_attn.", 1)[1], values, text)
        if "conv1d" in name:
            values = values.reshape(values.shape[0], -1)
    return name.replace(".dt_bias", ".dt_proj.bias"), values


def tiled(part, values, text):
    """Value heads with those of a key head as far apart as there are key heads: the first of each, then the second of each."""
    keys, heads = text["linear_num_key_heads"], text["linear_num_value_heads"]
    before = 2 * keys * text["linear_key_head_dim"] if part.startswith(("in_proj_qkv", "conv1d")) else 0
    if part == "norm.weight" or keys == heads:
        return values
    axis = 1 if part.startswith("out_proj") else 0
    values = np.moveaxis(values, axis, 0)
    moved = values[before:].reshape(keys, heads // keys, -1, *values.shape[1:])
    moved = moved.swapaxes(0, 1).reshape(values[before:].shape)
    return np.moveaxis(np.concatenate([values[:before], moved]), 0, axis)


def pairs(values, heads):
    """The rows of each head with those that rotate together beside each other, as the architecture `llama` has them."""
    return values.reshape(heads, 2, values.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(values.shape)


def minicpmv_name(name):
    """The name of a tensor of MiniCPM-V 4.6's tower, as llama.cpp has it."""
    for ours, theirs in [
        ("model.merger.mlp.0.pre_norm", "mm.input_norm"), ("model.merger.mlp.0.linear_1", "mm.up"),
        ("model.merger.mlp.0.linear_2", "mm.down"), ("model.vision_tower.", "v."), ("post_layernorm", "post_ln"),
        ("embeddings.patch_embedding", "patch_embd"), ("embeddings.position_embedding", "position_embd"),
        ("encoder.layers.", "blk."), ("layer_norm1", "ln1"), ("layer_norm2", "ln2"), ("self_attn.out_proj", "attn_out"),
        ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"), ("mlp.fc1", "ffn_up"),
        ("mlp.fc2", "ffn_down"), ("vit_merger.pre_norm", "vit_merger.ds_ln"),
        ("vit_merger.linear_1", "vit_merger.ds_ffn_up"), ("vit_merger.linear_2", "vit_merger.ds_ffn_down"),
    ]:  # fmt: skip
        name = name.replace(ours, theirs)
    return name


def gemma_name(name):
    """The name of a tensor of Gemma 4's tower, as llama.cpp has it."""
    for ours, theirs in [
        ("model.embed_vision.embedding_projection", "mm.input_projection"), ("model.vision_tower.encoder.layers.", "v.blk."),
        ("model.vision_tower.patch_embedder.input_proj", "v.patch_embd"),
        ("model.vision_tower.patch_embedder.position_embedding_table", "v.position_embd.weight"),
        ("post_attention_layernorm", "attn_post_norm"), ("post_feedforward_layernorm", "ffn_post_norm"),
        ("input_layernorm", "ln1"), ("pre_feedforward_layernorm", "ln2"), (".linear.", "."), ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"), ("self_attn.o_proj", "attn_out"), ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"),
    ]:  # fmt: skip
        name = name.replace(ours, theirs)
    return name


def gemma_tensor(writer, name, values, vision, kind):
    name = gemma_name(name)
    if name == "v.patch_embd.weight":
        patch = vision["patch_size"]
        values, kind = values.reshape(-1, patch, patch, 3).transpose(0, 3, 1, 2), TYPES["f32"]
    if name == "v.position_embd.weight":
        kind = TYPES["f32"]
    add(writer, name, values.reshape(values.shape or (1,)), kind)


PROJECTORS = {"gemma4": "gemma4v", "minicpmv4_6": "minicpmv4_6", "qwen2_vl": "qwen2vl_merger", "qwen2_5_vl": "qwen2.5vl_merger", "qwen3_vl": "qwen3vl_merger", "qwen3_5": "qwen3vl_merger", "smolvlm": "idefics3"}
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
    # the same tower
    family = config["model_type"].removesuffix("_moe").replace("qwen3_5", "qwen3_vl")
    newer = family == "qwen2_5_vl"
    writer = gguf.GGUFWriter(out, "clip")
    writer.add_type("mmproj")
    writer.add_clip_has_vision_encoder(True)
    if family == "gemma4":
        # as the converter has it: there may be another one, for sound
        writer.add_clip_vision_projector_type(PROJECTORS[family])
    else:
        writer.add_clip_projector_type(PROJECTORS[family])
    writer.add_vision_projection_dim(text["hidden_size"])
    patch, depth = vision["patch_size"], vision.get("depth") or vision["num_hidden_layers"]
    side = round(vision.get("num_position_embeddings", 0) ** 0.5) * patch
    if family == "minicpmv4_6":
        # as the converter has it: what frames are scaled to
        side, vision = read_json(folder / "processor_config.json")["image_processor"]["scale_resolution"], vision | {"image_size": 0}
    writer.add_vision_image_size(vision.get("image_size") or side or 560)
    writer.add_vision_patch_size(patch)
    writer.add_vision_embedding_length(vision["embed_dim"] if family == "qwen2_vl" else vision["hidden_size"])
    # as the converter has it: for Qwen2-VL, the width of the embeddings
    writer.add_vision_feed_forward_length(vision["hidden_size" if family == "qwen2_vl" else "intermediate_size"])
    writer.add_vision_block_count(depth)
    writer.add_vision_head_count(vision.get("num_heads") or vision["num_attention_heads"])
    images = read_json(folder / "preprocessor_config.json")
    images = images or read_json(folder / "processor_config.json")["image_processor"]
    writer.add_vision_image_mean(images["image_mean"])
    writer.add_vision_image_std(images["image_std"])
    if family == "smolvlm":
        # as the converter has it: not the default of the reference, which is 1e-6
        writer.add_vision_attention_layernorm_eps(vision.get("layer_norm_eps", 1e-5))
        writer.add_vision_projector_scale_factor(config["scale_factor"])
        writer.add_vision_preproc_image_size(images["size"]["longest_edge"])
        writer.add_vision_use_gelu(True)
    elif family == "minicpmv4_6":
        writer.add_vision_attention_layernorm_eps(vision["layer_norm_eps"])
        writer.add_vision_projector_scale_factor({"16x": 4, "4x": 2}[config["downsample_mode"]])
        writer.add_array("clip.vision.wa_layer_indexes", [config["insert_layer_id"]])
        writer.add_vision_use_gelu(True)
    elif family == "gemma4":
        # the converter always writes 1e-6, which the published models have
        writer.add_vision_attention_layernorm_eps(vision["rms_norm_eps"])
    else:
        writer.add_vision_attention_layernorm_eps(text["rms_norm_eps"])
    if family == "qwen3_vl":
        writer.add_vision_use_gelu(True)
        writer.add_vision_spatial_merge_size(vision["spatial_merge_size"])
        merged = vision.get("deepstack_visual_indexes") or []
        writer.add_vision_is_deepstack_layers([block in merged for block in range(depth)])
    if newer:
        full = vision["fullatt_block_indexes"]
        assert [b - a for a, b in zip([-1] + full, full, strict=False)] == [full[0] + 1] * len(full)
        writer.add_vision_use_silu(True)
        writer.add_vision_n_wa_pattern(full[0] + 1)
    # enough numbers for the layers of the merger, too
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, max(depth, 3))
    for name, values in weights.items():
        if not name.startswith(TOWERS):
            continue
        if family == "minicpmv4_6":
            add(writer, minicpmv_name(name), values, kind)
            continue
        if family == "gemma4":
            gemma_tensor(writer, name, values, vision, kind)
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
