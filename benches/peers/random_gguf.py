"""Write a language model and a vision tower (mmproj) with random weights, in the shape of a published Qwen2.5-VL, as GGUF.

    python benches/peers/random_gguf.py OUT 3b|7b q8_0|q4_k_m VOCABULARY [TOWER]

The cost of a pass depends on shapes and types alone. VOCABULARY is llama.cpp's models/ggml-vocab-qwen2.gguf; TOWER is f16 (default) or
q8_0. Needs gguf and numpy.
"""

import pathlib
import sys

import gguf
import numpy as np

TYPE = gguf.GGMLQuantizationType
#        width, layers, heads, key heads, feed-forward, vocabulary, tied
SHAPES = {"3b": (2048, 36, 16, 2, 11008, 151936, True), "7b": (3584, 28, 28, 4, 18944, 152064, False)}
CHAT = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system\n"
    "You are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>{% elif part['type'] == 'text' %}"
    "{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
RANDOM = np.random.default_rng(1)


def blocks(kind, rows, width):
    """Random blocks whose scales are about 1 / sqrt(width) over the largest integer."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    count = width // values
    one = RANDOM.integers(0, 256, (min(rows, 512), count, size), dtype=np.uint8)
    scale = lambda largest: np.frombuffer(np.float16(width**-0.5 / largest).tobytes(), np.uint8)
    if kind == TYPE.Q8_0:
        one[..., 0:2] = scale(64)
    elif kind == TYPE.Q4_K:
        # 4-bit integers times 6-bit scales; minima of the same size
        one[..., 0:2], one[..., 2:4] = scale(8 * 32), scale(32)
    elif kind == TYPE.Q6_K:
        one[..., 208:210] = scale(32 * 64)
    return np.tile(one, (-(-rows // len(one)), 1, 1))[:rows].reshape(rows, -1)


def add(writer, name, kind, rows, width=None):
    if width is None:
        writer.add_tensor(name, np.ones(rows, np.float32) if "norm" in name or ".ln" in name else np.zeros(rows, np.float32))
    elif kind == TYPE.F16:
        one = RANDOM.standard_normal((min(rows, 512), width), np.float32) * width**-0.5
        writer.add_tensor(name, np.tile(one, (-(-rows // len(one)), 1))[:rows].astype(np.float16))
    else:
        writer.add_tensor(name, blocks(kind, rows, width), raw_dtype=kind)


def more_bits(layer, layers):
    """The layers of which Q4_K_M keeps attn_v and ffn_down in q6_k."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def text_model(out, shape, mix, vocabulary):
    width, layers, heads, key_heads, ffn, size, tied = SHAPES[shape]
    kind, large = (TYPE.Q8_0, TYPE.Q8_0) if mix == "q8_0" else (TYPE.Q4_K, TYPE.Q6_K)
    keys = key_heads * (width // heads)
    writer = gguf.GGUFWriter(out, "qwen2vl")
    writer.add_name(f"random {shape}")
    writer.add_context_length(128000)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_rope_freq_base(1e6)
    writer.add_rope_dimension_sections([16, 24, 24, 0])
    writer.add_layer_norm_rms_eps(1e-6)
    fields = gguf.GGUFReader(vocabulary).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    for text, id in [("<|vision_start|>", 151652), ("<|vision_end|>", 151653), ("<|image_pad|>", 151655), ("<|video_pad|>", 151656)]:
        tokens[id], kinds[id] = text, gguf.TokenType.CONTROL
    padding = size - len(tokens)
    tokens, kinds = tokens + [f"[PAD{len(tokens) + i}]" for i in range(padding)], kinds + [gguf.TokenType.UNUSED] * padding
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens[:size])
    writer.add_token_types(kinds[:size])
    writer.add_token_merges(fields["tokenizer.ggml.merges"].contents())
    writer.add_eos_token_id(151645)
    writer.add_chat_template(CHAT)
    add(writer, "token_embd.weight", large if tied else kind, size, width)
    add(writer, "output_norm.weight", None, width)
    if not tied:
        add(writer, "output.weight", large, size, width)
    for layer in range(layers):
        better = large if more_bits(layer, layers) else kind
        at = f"blk.{layer}."
        for name, rows in [("attn_norm", width), ("ffn_norm", width)]:
            add(writer, f"{at}{name}.weight", None, rows)
        for name, rows, matrix in [("attn_q", width, kind), ("attn_k", keys, kind), ("attn_v", keys, better)]:
            add(writer, f"{at}{name}.weight", matrix, rows, width)
            add(writer, f"{at}{name}.bias", None, rows)
        add(writer, f"{at}attn_output.weight", kind, width, width)
        add(writer, f"{at}ffn_gate.weight", kind, ffn, width)
        add(writer, f"{at}ffn_up.weight", kind, ffn, width)
        add(writer, f"{at}ffn_down.weight", better, width, ffn)
    finish(writer)


def tower(out, shape, kind):
    width, heads, ffn, layers, projected = 1280, 16, 3420, 32, SHAPES[shape][0]
    # 3420 is no multiple of a block: such matrices stay in f16
    fitting = lambda inputs: kind if inputs % 32 == 0 else TYPE.F16
    writer = gguf.GGUFWriter(out, "clip")
    writer.add_type("mmproj")
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type("qwen2.5vl_merger")
    writer.add_vision_projection_dim(projected)
    writer.add_vision_image_size(560)
    writer.add_vision_patch_size(14)
    writer.add_vision_embedding_length(width)
    writer.add_vision_feed_forward_length(ffn)
    writer.add_vision_block_count(layers)
    writer.add_vision_head_count(heads)
    writer.add_vision_image_mean([0.48145466, 0.4578275, 0.40821073])
    writer.add_vision_image_std([0.26862954, 0.26130258, 0.27577711])
    writer.add_vision_attention_layernorm_eps(1e-6)
    writer.add_vision_use_silu(True)
    writer.add_vision_n_wa_pattern(8)
    for suffix in ["", ".1"]:
        values = RANDOM.standard_normal((width, 3, 14, 14), np.float32) * (3 * 2 * 196) ** -0.5
        writer.add_tensor(f"v.patch_embd.weight{suffix}", values)
    add(writer, "v.post_ln.weight", None, width)
    for layer in range(layers):
        at = f"v.blk.{layer}."
        for name in ["ln1", "ln2"]:
            add(writer, f"{at}{name}.weight", None, width)
        matrices = [("attn_q", width, width), ("attn_k", width, width), ("attn_v", width, width), ("attn_out", width, width)]
        matrices += [("ffn_gate", ffn, width), ("ffn_up", ffn, width), ("ffn_down", width, ffn)]
        for name, rows, inputs in matrices:
            add(writer, f"{at}{name}.weight", fitting(inputs), rows, inputs)
            add(writer, f"{at}{name}.bias", None, rows)
    for name, rows in [("mm.0", 4 * width), ("mm.2", projected)]:
        add(writer, f"{name}.weight", kind, rows, 4 * width)
        add(writer, f"{name}.bias", None, rows)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    folder, shape, mix, vocabulary = sys.argv[1:5]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    text_model(folder / f"{shape}-{mix}.gguf", shape, mix, vocabulary)
    tower(folder / "mmproj.gguf", shape, TYPE[(sys.argv[5:] or ["f16"])[0].upper()])
