"""Write a language model and a vision tower (mmproj) with random weights, in the shape of a published model, as GGUF.

    python lab/benches/peers/random_gguf.py OUT SHAPE q8_0|q4_k|q4_k_m VOCABULARY [TOWER]

SHAPE is 3b or 7b (Qwen2.5-VL), qwen3-vl-2b or qwen3-vl-30b-a3b. The cost of a pass depends on shapes and types alone, but for the
experts that its rows take. Layers add little to the embeddings, so that the states of different tokens stay different, and a random
router chooses for each token independently. VOCABULARY is llama.cpp's models/ggml-vocab-qwen2.gguf; TOWER
is f16 (default) or q8_0. Tensors are written one by one, so that the 30B takes less than a gigabyte of memory. Needs gguf and numpy.
"""

import dataclasses
import pathlib
import sys

import gguf
import numpy as np

TYPE = gguf.GGMLQuantizationType


@dataclasses.dataclass
class Tower:
    width: int
    ffn: int
    layers: int
    # the blocks whose states are merged (Qwen3-VL)
    deepstack: tuple = ()
    heads: int = 16


@dataclasses.dataclass
class Shape:
    architecture: str
    width: int
    layers: int
    heads: int
    key_heads: int
    # of one expert, where there are experts
    ffn: int
    vocabulary: int
    tied: bool
    tower: Tower
    experts: int = 0
    chosen: int = 0
    head: int = 128
    context: int = 128000
    theta: float = 1e6
    sections: tuple = (16, 24, 24, 0)


QWEN3 = {"context": 262144, "theta": 5e6, "sections": (24, 20, 20, 0)}
QWEN2_5_TOWER = Tower(1280, 3420, 32)
SHAPES = {
    "3b": Shape("qwen2vl", 2048, 36, 16, 2, 11008, 151936, True, QWEN2_5_TOWER),
    "7b": Shape("qwen2vl", 3584, 28, 28, 4, 18944, 152064, False, QWEN2_5_TOWER),
    "qwen3-vl-2b": Shape("qwen3vl", 2048, 28, 16, 8, 6144, 151936, True, Tower(1024, 4096, 24, (5, 11, 17)), **QWEN3),
    "qwen3-vl-30b-a3b": Shape(
        "qwen3vlmoe", 2048, 48, 32, 4, 768, 151936, False, Tower(1152, 4304, 27, (8, 16, 24)), experts=128, chosen=8, **QWEN3
    ),
}
CHAT = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system\n"
    "You are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>{% elif part['type'] == 'text' %}"
    "{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
RANDOM = np.random.default_rng(1)
# rows that differ; the rest of a matrix repeats them
ROWS = 512
# what a layer adds to the states, relative to the embeddings
LITTLE = 0.1


def blocks(kind, rows, width, factor=1.0, distinct=ROWS):
    """Random blocks whose values are about factor / sqrt(width)."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    count = width // values
    one = RANDOM.integers(0, 256, (min(rows, distinct), count, size), dtype=np.uint8)
    scale = lambda largest: np.frombuffer(np.float16(factor * width**-0.5 / largest).tobytes(), np.uint8)
    if kind == TYPE.Q8_0:
        one[..., 0:2] = scale(64)
    elif kind == TYPE.Q4_K:
        # 4-bit integers minus 7.5, times 6-bit scales: the minima are the scales. Blocks whose mean is not 0 would make the states of
        # all tokens alike.
        one[..., 0:2], one[..., 2:4] = scale(4.6 * 36), scale(4.6 * 36 / 7.5)
        one[..., 8:12] = one[..., 4:8]
        one[..., 12:16] = (one[..., 12:16] & 15) * 17
    elif kind == TYPE.Q6_K:
        one[..., 208:210] = scale(32 * 64)
    one = one if len(one) == rows else np.tile(one, (-(-rows // len(one)), 1, 1))[:rows]
    return one.reshape(rows, -1)


def floats(rows, width):
    one = RANDOM.standard_normal((min(rows, ROWS), width), np.float32) * width**-0.5
    return np.tile(one, (-(-rows // len(one)), 1))[:rows]


class Writer(gguf.GGUFWriter):
    """A file whose tensors are made when they are written."""

    def __init__(self, out, architecture):
        super().__init__(out, architecture)
        self.makers = []

    def add(self, name, kind, rows, width=None, experts=0, factor=1.0):
        """A vector of ones or zeros, a matrix, or the matrices of all experts."""
        if width is None:
            shape, kind = [rows], TYPE.F32
            make = lambda: np.ones(rows, np.float32) if "norm" in name else np.zeros(rows, np.float32)
        elif kind in (TYPE.F16, TYPE.F32):
            shape, make = [rows, width], lambda: floats(rows, width).astype(np.float16 if kind == TYPE.F16 else np.float32)
        elif experts:
            shape, make = [experts, rows, width], lambda: blocks(kind, experts * rows, width, factor, experts * rows)
        else:
            shape, make = [rows, width], lambda: blocks(kind, rows, width, factor, rows if name.startswith("token_embd") else ROWS)
        self.add_values(name, kind, shape, make)

    def add_values(self, name, kind, shape, make):
        values, size = gguf.GGML_QUANT_SIZES[kind]
        self.add_tensor_info(name, shape, np.dtype(np.float32), int(np.prod(shape)) // values * size, raw_dtype=kind)
        self.makers.append(make)

    def finish(self):
        self.write_header_to_file()
        self.write_kv_data_to_file()
        self.write_ti_data_to_file()
        for make in self.makers:
            self.write_tensor_data(np.ascontiguousarray(make()))
        self.close()


def more_bits(layer, layers):
    """The layers of which Q4_K_M keeps attn_v and ffn_down in q6_k."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def text_model(out, name, mix, vocabulary):
    shape = SHAPES[name]
    width, layers, size = shape.width, shape.layers, shape.vocabulary
    kind, large = (TYPE.Q8_0, TYPE.Q8_0) if mix == "q8_0" else (TYPE.Q4_K, TYPE.Q6_K)
    queries, keys = shape.heads * shape.head, shape.key_heads * shape.head
    writer = Writer(out, shape.architecture)
    writer.add_name(f"random {name}")
    writer.add_context_length(shape.context)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(shape.ffn)
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.chosen)
        writer.add_expert_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.key_heads)
    writer.add_rope_freq_base(shape.theta)
    writer.add_rope_dimension_sections(list(shape.sections))
    writer.add_layer_norm_rms_eps(1e-6)
    if shape.tower.deepstack:
        writer.add_key_length(shape.head)
        writer.add_value_length(shape.head)
        writer.add_num_deepstack_layers(len(shape.tower.deepstack))
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
    writer.add("token_embd.weight", large if shape.tied else kind, size, width, factor=width**0.5)
    writer.add("output_norm.weight", None, width)
    if not shape.tied:
        writer.add("output.weight", large, size, width)
    for layer in range(layers):
        better = large if mix == "q4_k_m" and more_bits(layer, layers) else kind
        at = f"blk.{layer}."
        for name, rows in [("attn_norm", width), ("ffn_norm", width)]:
            writer.add(f"{at}{name}.weight", None, rows)
        for name, rows, matrix in [("attn_q", queries, kind), ("attn_k", keys, kind), ("attn_v", keys, better)]:
            writer.add(f"{at}{name}.weight", matrix, rows, width)
            if not shape.tower.deepstack:
                writer.add(f"{at}{name}.bias", None, rows)
        if shape.tower.deepstack:
            for name in ["attn_q_norm", "attn_k_norm"]:
                writer.add(f"{at}{name}.weight", None, shape.head)
        writer.add(f"{at}attn_output.weight", kind, width, queries, factor=LITTLE)
        suffix = "_exps" if shape.experts else ""
        if shape.experts:
            # the choice of experts is never quantized
            writer.add(f"{at}ffn_gate_inp.weight", TYPE.F32, shape.experts, width)
        for name in ["ffn_gate", "ffn_up"]:
            writer.add(f"{at}{name}{suffix}.weight", kind, shape.ffn, width, shape.experts)
        writer.add(f"{at}ffn_down{suffix}.weight", better, width, shape.ffn, shape.experts, factor=LITTLE)
    writer.finish()


def tower(out, name, kind):
    shape = SHAPES[name]
    sizes, projected = shape.tower, shape.width
    width, ffn, newer, merged = sizes.width, sizes.ffn, bool(sizes.deepstack), 4 * sizes.width
    patch = 16 if newer else 14
    # rows that are no multiple of a block stay in f16 (3420, 4304)
    fitting = lambda inputs: kind if inputs % 32 == 0 else TYPE.F16
    writer = Writer(out, "clip")
    writer.add_type("mmproj")
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type("qwen3vl_merger" if newer else "qwen2.5vl_merger")
    writer.add_vision_projection_dim(projected)
    writer.add_vision_image_size(768 if newer else 560)
    writer.add_vision_patch_size(patch)
    writer.add_vision_embedding_length(width)
    writer.add_vision_feed_forward_length(ffn)
    writer.add_vision_block_count(sizes.layers)
    writer.add_vision_head_count(sizes.heads)
    writer.add_vision_image_mean([0.5] * 3 if newer else [0.48145466, 0.4578275, 0.40821073])
    writer.add_vision_image_std([0.5] * 3 if newer else [0.26862954, 0.26130258, 0.27577711])
    writer.add_vision_attention_layernorm_eps(1e-6)
    if newer:
        writer.add_vision_use_gelu(True)
        writer.add_vision_spatial_merge_size(2)
        writer.add_vision_is_deepstack_layers([layer in sizes.deepstack for layer in range(sizes.layers)])
    else:
        writer.add_vision_use_silu(True)
        writer.add_vision_n_wa_pattern(8)
    patches = lambda: RANDOM.standard_normal((width, 3, patch, patch), np.float32) * (3 * 2 * patch**2) ** -0.5
    for suffix in ["", ".1"]:
        writer.add_values(f"v.patch_embd.weight{suffix}", TYPE.F32, [width, 3, patch, patch], patches)

    def norm(name, size):
        for suffix in ["weight", "bias"] if newer else ["weight"]:
            # a bias of zeros: its name must not look like a norm's weight
            ones = suffix == "weight"
            writer.add_values(f"{name}.{suffix}", TYPE.F32, [size], lambda ones=ones: np.full(size, float(ones), np.float32))

    def matrix(name, rows, inputs):
        writer.add(f"{name}.weight", fitting(inputs), rows, inputs)
        writer.add(f"{name}.bias", None, rows)

    norm("v.post_ln", width)
    if newer:
        writer.add("v.patch_embd.bias", None, width)
        writer.add("v.position_embd.weight", TYPE.F16, 2304, width)
    for layer in range(sizes.layers):
        at = f"v.blk.{layer}."
        for name in ["ln1", "ln2"]:
            norm(at + name, width)
        queries = [("attn_qkv", 3 * width)] if newer else [("attn_q", width), ("attn_k", width), ("attn_v", width)]
        for name, rows in [*queries, ("attn_out", width), *([] if newer else [("ffn_gate", ffn)]), ("ffn_up", ffn)]:
            matrix(at + name, rows, width)
        matrix(f"{at}ffn_down", width, ffn)
    for block in sizes.deepstack:
        norm(f"v.deepstack.{block}.norm", merged)
        matrix(f"v.deepstack.{block}.fc1", merged, merged)
        matrix(f"v.deepstack.{block}.fc2", projected, merged)
    matrix("mm.0", merged, merged)
    matrix("mm.2", projected, merged)
    writer.finish()


if __name__ == "__main__":
    folder, shape, mix, vocabulary = sys.argv[1:5]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    text_model(folder / f"{shape}-{mix}.gguf", shape, mix, vocabulary)
    tower(folder / "mmproj.gguf", shape, TYPE[(sys.argv[5:] or ["f16"])[0].upper()])
