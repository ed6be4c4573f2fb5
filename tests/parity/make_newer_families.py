"""Make the parity fixtures of Qwen3-VL and SmolVLM2: tiny random checkpoints, and what transformers computes with them.

    python tests/parity/make_newer_families.py [OUT]

Needs the packages of `make_fixtures.py` (torchvision 0.27 or newer, for Lanczos on tensors) and num2words. Seeded, on the
CPU, computed in float64 with eager attention, stored in float32. `fixtures/decoded.safetensors` is made as for
`make_families.py`.

    <checkpoint>/…                      a directory in the published layout
    <checkpoint>/fixture.safetensors    random patches to states, embeddings, logits and greedy ids, see `record`
    <checkpoint>/frames.safetensors     from decoded frames to greedy ids by the family's own processor, see `record_frames`

Every prompt is checked three ways: against the processor's own ids, the model's own positions, and a run without cache.
Qwen3-VL's prompts have the form of its release: the stamps replace the template's whole `<|vision_start|><|video_pad|>
<|vision_end|>`. From transformers 5.10 on only `<|video_pad|>` is replaced, so here the text is shortened to that first.
"""

import functools
import json
import math

import make_fixtures as base
import torch
from make_fixtures import OUT, save_weights, write_json
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
    SmolVLMProcessor,
)

PROMPT = "what moves?"
WORDS = [
    "a red ball moves to the left and a blue square moves to the right",
    "the small green ball stands still while the large square falls",
    "<0.2 seconds> <1.3 seconds> <14.8 seconds> Frame from 00:00: Frame from 01:12:",
    "You are provided the following series of twenty-one frames from a 0:00:21 [H:MM:SS] video.",
    "user assistant User: Assistant: what moves? the ball moves. system You are a helpful assistant.",
] * 4
MERGED = 330

# as published for Qwen3-VL, without its tools
QWEN_TEMPLATE = """\
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].content is string %}
        {{- messages[0].content }}
    {%- else %}
        {%- for content in messages[0].content %}
            {%- if 'text' in content %}
                {{- content.text }}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- set image_count = namespace(value=0) %}
{%- set video_count = namespace(value=0) %}
{%- for message in messages %}
    {%- if message.role == "user" %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- if message.content is string %}
            {{- message.content }}
        {%- else %}
            {%- for content in message.content %}
                {%- if content.type == 'image' or 'image' in content or 'image_url' in content %}
                    {%- set image_count.value = image_count.value + 1 %}
                    {%- if add_vision_id %}Picture {{ image_count.value }}: {% endif -%}
                    <|vision_start|><|image_pad|><|vision_end|>
                {%- elif content.type == 'video' or 'video' in content %}
                    {%- set video_count.value = video_count.value + 1 %}
                    {%- if add_vision_id %}Video {{ video_count.value }}: {% endif -%}
                    <|vision_start|><|video_pad|><|vision_end|>
                {%- elif 'text' in content %}
                    {{- content.text }}
                {%- endif %}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role + '\\n' }}
        {%- if message.content is string %}
            {{- message.content }}
        {%- else %}
            {%- for content_item in message.content %}
                {%- if 'text' in content_item %}
                    {{- content_item.text }}
                {%- endif %}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
# as published for SmolVLM2: nothing for a video; the processor takes another template for prompts with one
SMOL_TEMPLATE = (
    "<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}{% if message['content'][0]['type'] == "
    "'image' %}{{':'}}{% else %}{{': '}}{% endif %}{% for line in message['content'] %}{% if line['type'] == 'text' %}"
    "{{line['text']}}{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n"
    "{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
SMOL_FIRST = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SMOL_LAST = ["<global-img>"] + [f"<row_{i}_col_{j}>" for i in (1, 2) for j in (1, 2)]
SMOL_LAST += ["<fake_token_around_image>", "<image>", "<end_of_utterance>"]
# reserved by Qwen3 beyond what Qwen2.5 has
QWEN3_ADDED = ["<tool_response>", "</tool_response>", "<think>", "</think>"]

# Pixels of a whole clip of Qwen3-VL (patches of 16), and the pictures of SmolVLM2: six patches of 14 and six unused pixels.
PIXELS, SIDE, PICTURE, PATCH = 64_000, 96, 90, 14

# text: width, heads, kv heads, width of a head, layers, ffn; tower: width, heads, depth, ffn
CHECKPOINTS = {
    "qwen3_vl": dict(
        family="qwen3_vl", seed=451, text=(64, 4, 2, 32, 4, 96), tower=(32, 2, 6, 64), tied=True, vocab=384,
        dtype=torch.bfloat16, grid=(3, 4, 6), table=49, deepstack=[1, 2, 4], eps=1e-4,
        theta=5000000, side=4,
    ),
    "qwen3_vl_small": dict(
        family="qwen3_vl", seed=222, text=(32, 2, 1, 32, 2, 64), tower=(32, 1, 3, 96), tied=False, vocab=416,
        dtype=torch.float16, grid=(2, 6, 4), table=25, deepstack=[0, 2], eps=1e-3,
        theta=10000, side=3, shards=2,
    ),
    "smolvlm": dict(
        family="smolvlm", seed=433, text=(96, 3, 1, 32, 3, 96), tower=(32, 2, 3, 64), tied=True, vocab=352,
        dtype=torch.bfloat16, frames=3, scale=3, eps=1e-4,
    ),
    "smolvlm_untied": dict(
        family="smolvlm", seed=324, text=(64, 4, 2, 16, 2, 96), tower=(32, 1, 2, 96), tied=False, vocab=384,
        dtype=torch.float16, frames=2, scale=3, eps=1e-3, tower_eps=1e-5,
    ),
}  # fmt: skip


def qwen3_tokenizer():
    """As in `make_fixtures.py`, with merges for the words of stamps and Qwen3's added tokens."""
    base.CORPUS, base.BYTE_AND_MERGED = WORDS, MERGED
    tokenizer = base.make_tokenizer()
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in QWEN3_ADDED])
    return tokenizer


def smol_tokenizer():
    """A byte-level tokenizer that splits digits, with its first special tokens before the bytes and the others at the end."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=MERGED,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=SMOL_FIRST,
        show_progress=False,
    )
    tokenizer.train_from_iterator(WORDS, trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SMOL_LAST])
    assert tokenizer.get_vocab_size() == MERGED + len(SMOL_LAST)
    return tokenizer


class Qwen3:
    model, processor, config = Qwen3VLForConditionalGeneration, Qwen3VLProcessor, Qwen3VLConfig
    pad, tokenizer = "<|video_pad|>", staticmethod(functools.cache(qwen3_tokenizer))
    template_settings, loading = {}, {}

    @staticmethod
    def write_text(path, tokenizer):
        path.mkdir(parents=True, exist_ok=True)
        (path / "tokenizer.json").write_text(tokenizer.to_str(pretty=False))
        text = {"add_prefix_space": False, "bos_token": None, "clean_up_tokenization_spaces": False}
        text |= {"eos_token": "<|im_end|>", "errors": "replace", "model_max_length": 262144}
        text |= {"pad_token": "<|endoftext|>", "split_special_tokens": False, "unk_token": None}
        write_json(path / "tokenizer_config.json", text | {"tokenizer_class": "Qwen2Tokenizer"})
        write_json(path / "chat_template.json", {"chat_template": QWEN_TEMPLATE})
        ids = {t: tokenizer.token_to_id(t) for t in base.SPECIAL}
        ends = {"bos_token_id": ids["<|endoftext|>"], "pad_token_id": ids["<|endoftext|>"], "do_sample": True}
        ends |= {"eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]], "top_k": 20, "top_p": 0.8}
        ends |= {"repetition_penalty": 1.0, "temperature": 0.7, "transformers_version": "4.56.0"}
        write_json(path / "generation_config.json", ends)
        common = {"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2}
        common |= {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "processor_class": "Qwen3VLProcessor"}
        image = {"size": {"longest_edge": 16777216, "shortest_edge": 65536}}
        video = {"size": {"longest_edge": PIXELS, "shortest_edge": 4096}}
        write_json(
            path / "preprocessor_config.json", image | common | {"image_processor_type": "Qwen2VLImageProcessorFast"}
        )
        write_json(
            path / "video_preprocessor_config.json", video | common | {"video_processor_type": "Qwen3VLVideoProcessor"}
        )
        return ids

    @staticmethod
    def settings(spec, ids):
        width, heads, kv_heads, head, layers, ffn = spec["text"]
        tower_width, tower_heads, depth, tower_ffn = spec["tower"]
        # the last frequencies belong to time alone
        side = spec["side"]
        return {
            "architectures": ["Qwen3VLForConditionalGeneration"],
            "image_token_id": ids["<|image_pad|>"],
            "model_type": "qwen3_vl",
            "text_config": {
                "attention_bias": False,
                "attention_dropout": 0.0,
                "bos_token_id": ids["<|endoftext|>"],
                "dtype": str(spec["dtype"]).removeprefix("torch."),
                "eos_token_id": ids["<|im_end|>"],
                "head_dim": head,
                "hidden_act": "silu",
                "hidden_size": width,
                "initializer_range": 0.02,
                "intermediate_size": ffn,
                "max_position_embeddings": 262144,
                "model_type": "qwen3_vl_text",
                "num_attention_heads": heads,
                "num_hidden_layers": layers,
                "num_key_value_heads": kv_heads,
                "rms_norm_eps": spec["eps"],
                "rope_scaling": {
                    "mrope_interleaved": True,
                    "mrope_section": [head // 2 - 2 * side, side, side],
                    "rope_type": "default",
                },
                "rope_theta": spec["theta"],
                "tie_word_embeddings": spec["tied"],
                "use_cache": True,
                "vocab_size": spec["vocab"],
            },
            "tie_word_embeddings": spec["tied"],
            "transformers_version": "4.57.0.dev0",
            "video_token_id": ids["<|video_pad|>"],
            "vision_config": {
                "deepstack_visual_indexes": spec["deepstack"],
                "depth": depth,
                "hidden_act": "gelu_pytorch_tanh",
                "hidden_size": tower_width,
                "in_channels": 3,
                "initializer_range": 0.02,
                "intermediate_size": tower_ffn,
                "model_type": "qwen3_vl",
                "num_heads": tower_heads,
                "num_position_embeddings": spec["table"],
                "out_hidden_size": width,
                "patch_size": 16,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            },
            "vision_end_token_id": ids["<|vision_end|>"],
            "vision_start_token_id": ids["<|vision_start|>"],
        }

    @staticmethod
    def inputs(spec, generator):
        """Byte levels of patches, and the model's inputs."""
        t, h, w = spec["grid"]
        levels = torch.randint(0, 256, (t * h * w, 1536), generator=generator, dtype=torch.uint8)
        patches = (levels.double() - 128.0) / 64.0
        return levels, dict(pixel_values_videos=patches, video_grid_thw=torch.tensor([[t, h, w]])), (t, h, w)

    @staticmethod
    def clip_text(times, cells):
        """The text of a clip: `times` in seconds of its temporal patches, with so many pads each."""
        pads = "<|video_pad|>" * cells
        return "".join(f"<{time:.1f} seconds><|vision_start|>{pads}<|vision_end|>" for time in times)

    @classmethod
    def prompt(cls, spec, grid):
        clip = cls.clip_text([0.25 + i for i in range(grid[0])], grid[1] * grid[2] // 4)
        return f"<|im_start|>user\n{clip}{PROMPT}<|im_end|>\n<|im_start|>assistant\n"

    @staticmethod
    def seen(model, inputs):
        """The tower's states, and embeddings of all levels beside each other."""
        tower = model.model.visual(inputs["pixel_values_videos"], grid_thw=inputs["video_grid_thw"])
        return tower.last_hidden_state, torch.cat([tower.pooler_output, *tower.deepstack_features], dim=-1)

    @staticmethod
    def positions(model, input_ids, inputs):
        """The three axes of a prompt, checked with the model's own, and what follows them."""
        _, h, w = inputs["video_grid_thw"][0].tolist()
        rows, columns, pad = h // 2, w // 2, model.config.video_token_id
        axes, at, i = [[], [], []], 0, 0
        while i < len(input_ids):
            if input_ids[i] != pad:
                step, cells = 1, [(0, 0, 0)]
            else:
                step, cells = max(rows, columns), [(0, row, column) for row in range(rows) for column in range(columns)]
            for cell in cells:
                for axis, offset in zip(axes, cell):
                    axis.append(at + offset)
            at, i = at + step, i + len(cells)
        kinds = torch.tensor([[2 if id == pad else 0 for id in input_ids]])
        own, delta = model.model.get_rope_index(
            torch.tensor([input_ids]), mm_token_type_ids=kinds, video_grid_thw=inputs["video_grid_thw"]
        )
        assert own[:, 0].tolist() == axes and len(input_ids) + int(delta[0]) == at
        return torch.tensor(axes), at

    @staticmethod
    def at(positions):
        return dict(position_ids=positions[:, None, :])

    @staticmethod
    def forward_embeddings(model, embeds, seen, mask, **at):
        """The text model over embeddings, with the levels of DeepStack."""
        width = embeds.shape[-1]
        embeds[mask] = seen[:, :width]
        levels = [seen[:, i : i + width] for i in range(width, seen.shape[1], width)]
        return model.model.language_model(
            inputs_embeds=embeds, visual_pos_masks=mask, deepstack_visual_embeds=levels, **at
        ).last_hidden_state[0]

    @staticmethod
    def scale(name):
        """How weights differ from those of unit variance: small states in the tower let its `eps` matter."""
        if "visual" not in name:
            return 1.5 if "q_norm" in name or "k_norm" in name else 1.0
        if "patch_embed" in name or "pos_embed" in name or "attn.proj" in name:
            return 0.03
        if "merger" in name:
            return {"linear_fc1.weight": 2.0, "linear_fc2.weight": 0.7}.get(".".join(name.split(".")[-2:]), 1.0)
        return 0.03 if "linear_fc2" in name else 1.0

    @staticmethod
    def names(weights):
        return weights


class Smol:
    model, processor, config = SmolVLMForConditionalGeneration, SmolVLMProcessor, SmolVLMConfig
    pad, tokenizer = "<image>", staticmethod(functools.cache(smol_tokenizer))
    template_settings, loading = {}, {}

    @staticmethod
    def write_text(path, tokenizer):
        path.mkdir(parents=True, exist_ok=True)
        (path / "tokenizer.json").write_text(tokenizer.to_str(pretty=False))
        text = {"add_prefix_space": False, "bos_token": "<|im_start|>", "clean_up_tokenization_spaces": False}
        text |= {"additional_special_tokens": ["<fake_token_around_image>", "<image>", "<end_of_utterance>"]}
        text |= {"eos_token": "<end_of_utterance>", "legacy": False, "model_max_length": 8192}
        text |= {"pad_token": "<|im_end|>", "processor_class": "SmolVLMProcessor", "tokenizer_class": "GPT2Tokenizer"}
        text |= {"truncation_side": "left", "unk_token": "<|endoftext|>", "vocab_size": MERGED}
        write_json(path / "tokenizer_config.json", text)
        write_json(path / "chat_template.json", {"chat_template": SMOL_TEMPLATE})
        ids = {t: tokenizer.token_to_id(t) for t in SMOL_FIRST + SMOL_LAST}
        ends = {"_from_model_config": True, "bos_token_id": ids["<|im_start|>"], "transformers_version": "4.47.1"}
        ends |= {"eos_token_id": ids["<end_of_utterance>"], "pad_token_id": ids["<|im_end|>"]}
        write_json(path / "generation_config.json", ends)
        write_json(
            path / "preprocessor_config.json",
            {
                "do_convert_rgb": True,
                "do_image_splitting": True,
                "do_normalize": True,
                "do_pad": True,
                "do_rescale": True,
                "do_resize": True,
                "image_mean": [0.5, 0.5, 0.5],
                "image_processor_type": "SmolVLMImageProcessor",
                "image_std": [0.5, 0.5, 0.5],
                "max_image_size": {"longest_edge": PICTURE},
                "processor_class": "SmolVLMProcessor",
                "resample": 1,
                "rescale_factor": 0.00392156862745098,
                "size": {"longest_edge": 4 * PICTURE},
                "video_sampling": {"fps": 1, "max_frames": 64, "video_size": {"longest_edge": PICTURE}},
            },
        )
        write_json(path / "processor_config.json", {"image_seq_len": 4, "processor_class": "SmolVLMProcessor"})
        return ids

    @staticmethod
    def settings(spec, ids):
        width, heads, kv_heads, head, layers, ffn = spec["text"]
        tower_width, tower_heads, depth, tower_ffn = spec["tower"]
        eps = {"layer_norm_eps": spec["tower_eps"]} if "tower_eps" in spec else {}
        return {
            "architectures": ["SmolVLMForConditionalGeneration"],
            "image_token_id": ids["<image>"],
            "model_type": "smolvlm",
            "pad_token_id": 128002,
            "scale_factor": spec["scale"],
            "text_config": {
                "_flash_attn_2_enabled": True,
                "_name_or_path": "None",
                "architectures": ["VLlama3ForCausalLM"],
                "head_dim": head,
                "hidden_size": width,
                "intermediate_size": ffn,
                "is_llama_config": True,
                "max_position_embeddings": 8192,
                "model_type": "llama",
                "neftune_noise_alpha": 0.0,
                "num_attention_heads": heads,
                "num_hidden_layers": layers,
                "num_key_value_heads": kv_heads,
                "pad_token_id": ids["<|im_end|>"],
                "pixel_shuffle_factor": spec["scale"],
                "qk_layer_norms": False,
                "rms_norm_eps": spec["eps"],
                "rope_interleaved": False,
                "rope_scaling": None,
                "rope_theta": 100000,
                "torch_dtype": "bfloat16",
                "use_resampler": False,
                "vocab_size": spec["vocab"],
            },
            "tie_word_embeddings": spec["tied"],
            "torch_dtype": str(spec["dtype"]).removeprefix("torch."),
            "transformers_version": "4.47.1",
            "use_cache": True,
            "use_reentrant_checkpointing": False,
            "vision_config": {
                "hidden_size": tower_width,
                "image_size": PICTURE,
                "intermediate_size": tower_ffn,
                "max_image_size": {"longest_edge": PICTURE},
                "model_type": "smolvlm_vision",
                "num_attention_heads": tower_heads,
                "num_hidden_layers": depth,
                "patch_size": PATCH,
                "size": {"longest_edge": 4 * PICTURE},
                "tie_word_embeddings": False,
                "use_base_siglip": False,
            }
            | eps,
            "vocab_size": spec["vocab"],
        }

    @staticmethod
    def inputs(spec, generator):
        """Byte levels of patches, picture by picture, and the model's pictures; the unused pixels are noise."""
        n, side = spec["frames"], PICTURE // PATCH
        levels = torch.randint(0, 256, (n * side * side, 3 * PATCH * PATCH), generator=generator, dtype=torch.uint8)
        pictures = torch.randn((n, 3, PICTURE, PICTURE), generator=generator, dtype=torch.float64)
        values = (levels.double() - 128.0) / 64.0
        used = side * PATCH
        pictures[:, :, :used, :used] = (
            values.view(n, side, side, 3, PATCH, PATCH).permute(0, 3, 1, 4, 2, 5).reshape(n, 3, used, used)
        )
        return levels, dict(pixel_values=pictures[None]), (n, side, side)

    @staticmethod
    def clip_text(count, duration, times, cells):
        """The text of a clip: `count` in words, `duration` as H:MM:SS, `times` as mm:ss."""
        pads = "<image>" * cells
        text = f"You are provided the following series of {count} frames from a {duration} [H:MM:SS] video.\n"
        for time in times:
            text += f"\nFrame from {time}:<fake_token_around_image><global-img>{pads}<fake_token_around_image>"
        return text + "\n\n"

    @classmethod
    def prompt(cls, spec, grid):
        words = {2: "two", 3: "three"}
        clip = cls.clip_text(words[grid[0]], "0:00:03", [f"00:0{i}" for i in range(grid[0])], 4)
        return f"<|im_start|>User: {clip}{PROMPT}<end_of_utterance>\nAssistant:"

    @staticmethod
    def seen(model, inputs):
        """The tower's states after its last norm, and the embeddings."""
        out = model.model.get_image_features(inputs["pixel_values"])
        return out.last_hidden_state.flatten(0, 1), torch.cat(out.pooler_output)

    @staticmethod
    def positions(model, input_ids, inputs):
        return torch.tensor([list(range(len(input_ids)))] * 3), len(input_ids)

    @staticmethod
    def at(positions):
        return dict(position_ids=positions[:1])

    @staticmethod
    def forward_embeddings(model, embeds, seen, mask, **at):
        embeds[mask] = seen
        return model.model.text_model(inputs_embeds=embeds, **at).last_hidden_state[0]

    @staticmethod
    def scale(name):
        if "vision_model" not in name:
            return 1.5 if "o_proj" in name or "down_proj" in name or "q_proj" in name else 1.0
        if "fc1" in name:
            return 1.5
        return 0.03 if "embeddings" in name or "out_proj" in name or "fc2" in name else 1.0

    @staticmethod
    def names(weights):
        return weights


FAMILIES = {"qwen3_vl": Qwen3, "smolvlm": Smol}


def weights_of(model, family, spec):
    """Random weights, scaled so that every layer, and every norm's `eps`, matters."""
    generator = torch.Generator().manual_seed(spec["seed"])
    weights = {}
    for name, parameter in sorted(model.named_parameters()):
        shape = tuple(parameter.shape)
        noise = torch.randn(shape, generator=generator)
        if name == "lm_head.weight" and spec["tied"]:
            continue
        if name.endswith("bias"):
            value = 0.1 * noise
        elif len(shape) == 1:
            value = 1.0 + 0.2 * noise
            if spec["tied"] and name.endswith(("language_model.norm.weight", "text_model.norm.weight")):
                value = 8.0 * value
        elif "embed_tokens" in name:
            value = 0.1 * noise
        elif "pos_embed" in name or "position_embedding" in name:
            value = noise
        else:
            value = noise / math.sqrt(math.prod(shape[1:]))
        if name == "lm_head.weight":
            value = 2.0 * value
        if name == "lm_head.weight" or "embed_tokens" in name:
            # neither the clip's placeholder nor padding is ever the best token
            value[family.tokenizer().token_to_id(family.pad)] *= 0.01
            value[family.tokenizer().get_vocab_size() :] *= 0.01
        weights[name] = (family.scale(name) * value).to(spec["dtype"]).contiguous()
    return family.names(weights)


def load(path, family):
    return family.model.from_pretrained(
        path, dtype=torch.float64, attn_implementation="eager", local_files_only=True, **family.loading
    ).eval()


def greedy(model, family, inputs, input_ids, positions, following, length=16):
    """Greedy ids after a prompt, end tokens ignored, their rows of log-probabilities, and the smallest margin between best and second best."""
    ids, rows = [], []
    out = model.model(
        input_ids=torch.tensor([input_ids]), past_key_values=None, use_cache=True, **inputs, **family.at(positions)
    )
    for i in range(length):
        rows.append(torch.log_softmax(model.lm_head(out.last_hidden_state[0, -1]), -1))
        ids.append(int(rows[-1].argmax()))
        at = family.at(torch.full((3, 1), following + i))
        out = model.model(input_ids=torch.tensor([ids[-1:]]), past_key_values=out.past_key_values, use_cache=True, **at)
    logprobs = torch.stack(rows)
    assert max(ids) < family.tokenizer().get_vocab_size() and family.tokenizer().token_to_id(family.pad) not in ids
    # a run without cache says the same
    tail = torch.arange(following, following + length - 1).expand(3, -1)
    whole = family.at(torch.cat([positions, tail], dim=1))
    out = model.model(input_ids=torch.tensor([input_ids + ids[:-1]]), use_cache=False, **inputs, **whole)
    again = torch.log_softmax(model.lm_head(out.last_hidden_state[0, -length:]), -1)
    assert (again - logprobs).abs().max() < 1e-5 and again.argmax(-1).tolist() == ids
    best = logprobs.topk(2, dim=-1).values
    return ids, logprobs, float((best[:, 0] - best[:, 1]).min())


def single(tensors):
    """Float64 as float32, everything contiguous."""
    return {k: (v.to(torch.float32) if v.dtype == torch.float64 else v).contiguous() for k, v in tensors.items()}


def record(path, spec, more=None):
    """Random patches through the tower and the whole model; names and shapes are in the dictionary at the end, to which `more` adds."""
    family = FAMILIES[spec["family"]]
    model, tokenizer = load(path, family), family.tokenizer()
    generator = torch.Generator().manual_seed(1000 + spec["seed"])
    levels, inputs, grid = family.inputs(spec, generator)
    with torch.no_grad():
        states, seen = family.seen(model, inputs)
        input_ids = tokenizer.encode(family.prompt(spec, grid), add_special_tokens=False).ids
        positions, following = family.positions(model, input_ids, inputs)
        token_ids = torch.tensor([input_ids])
        mask = token_ids == tokenizer.token_to_id(family.pad)
        assert int(mask.sum()) == len(seen)
        out = model.model(
            input_ids=token_ids, past_key_values=None, use_cache=True, **family.at(positions), **inputs
        )
        hidden = out.last_hidden_state[0]
        embeds = model.get_input_embeddings()(token_ids).clone()
        direct = family.forward_embeddings(model, embeds, seen, mask, **family.at(positions))
        assert (direct - hidden).abs().max() < 1e-6, "the embeddings do not explain the states"
        chunk = torch.randint(3, 300, (5,), generator=generator).tolist()
        chunk_positions = torch.arange(following, following + 5).expand(3, 5)
        after = model.model(
            input_ids=torch.tensor([chunk]), past_key_values=out.past_key_values, **family.at(chunk_positions)
        ).last_hidden_state[0]
        ids, logprobs, margin = greedy(model, family, inputs, input_ids, positions, following)
    print(f"{path.name}: L={len(input_ids)} greedy={ids} smallest margin={margin:.4f}")
    tensors = {
        "pixels": levels,  # [n, patch] u8; the tower's input is (pixels - 128) / 64
        "grid": torch.tensor(grid),  # [3] patches t, h, w
        "tower_states": states,  # [n, tower width] in the order of the patches, before the merger (SmolVLM2: after its last norm)
        "visual_embeds": seen,  # [visual rows, (1 + levels) * d]: the merger's, then each level of DeepStack
        "visual_rows": mask[0].nonzero()[:, 0],  # [visual rows] rows of the prompt
        "input_ids": torch.tensor(input_ids),  # [L]
        "position_ids": positions,  # [3, L]
        "next_position": torch.tensor([following]),  # [1]
        "hidden": hidden,  # [L, d] after the last norm
        "logits": model.lm_head(hidden).detach(),  # [L, vocabulary]
        "chunk_ids": torch.tensor(chunk),  # [5] read after the prompt, over its cache
        "chunk_positions": chunk_positions,  # [3, 5]
        "chunk_hidden": after,  # [5, d]
        "chunk_logits": model.lm_head(after).detach(),  # [5, vocabulary]
        "greedy_ids": torch.tensor(ids),  # [16] end tokens ignored
        "greedy_logprobs": logprobs,  # [16, vocabulary]
    }
    if more:
        with torch.no_grad():
            tensors |= more(model, family, inputs, input_ids, positions, following, generator)
    save_file(single(tensors), path / "fixture.safetensors")


# Indices into the two decoded frames, and the frame numbers of a 24 fps source that they stand for.
CLIPS = {
    "cut": ([0, 1, 1, 0], [0, 12, 24, 36], 40),
    "odd": ([1, 0, 1], [0, 12, 35], 36),
    "whole": ([0, 1, 1, 0], [0, 30, 61, 1800], 1801),
}


def record_frames(path, spec):
    """Decoded frames to greedy ids: `cut` to the model's size (no resize) in an even and an odd (`odd`) number, and `whole` (resized)."""
    family = FAMILIES[spec["family"]]
    decoded = load_file(OUT / "decoded.safetensors")["frames"]
    model, processor = load(path, family), family.processor.from_pretrained(path, local_files_only=True)
    messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": PROMPT}]}]
    text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False, **family.template_settings)
    tensors = {}
    for case, (order, numbers, total) in CLIPS.items():
        clip = decoded[order].permute(0, 3, 1, 2)
        settings = {}
        if issubclass(family, Qwen3):
            settings = {"cap_pixels_per_frame": False}
            shortened = text.replace("<|vision_start|><|video_pad|><|vision_end|>", "<|video_pad|>")
            assert shortened != text
        else:
            shortened = text
        if case != "whole":
            side = SIDE if issubclass(family, Qwen3) else PICTURE
            clip = clip[:, :, :side, :side]
            if family is Smol:
                # a picture of the tower's size stays as it is
                settings["size"] = {"longest_edge": PICTURE}
        metadata = {"total_num_frames": total, "fps": 24.0, "duration": total / 24, "frames_indices": list(numbers)}
        out = processor(
            text=[shortened],
            videos=[clip.contiguous()],
            video_metadata=[metadata],
            do_sample_frames=False,
            return_tensors="pt",
            **settings,
        )
        input_ids = out["input_ids"][0].tolist()
        names = ("pixel_values_videos", "video_grid_thw", "pixel_values")
        inputs = {k: v.double() if v.is_floating_point() else v for k, v in out.items() if k in names}
        if issubclass(family, Qwen3):
            raw, grid = (inputs["pixel_values_videos"] + 1.0) * 127.5, inputs["video_grid_thw"][0].tolist()
            cells = grid[1] * grid[2] // 4
            pairs = [numbers[i : i + 2] for i in range(0, len(numbers), 2)]
            expected = release_form(text, Qwen3.clip_text([(p[0] / 24 + p[-1] / 24) / 2 for p in pairs], cells))
        else:
            raw, side = (inputs["pixel_values"][0] + 1.0) * 127.5, PICTURE // PATCH
            n, used = raw.shape[0], side * PATCH
            assert raw.shape[1:] == (3, PICTURE, PICTURE)
            raw = raw[:, :, :used, :used].reshape(n, 3, side, PATCH, side, PATCH).permute(0, 2, 4, 1, 3, 5)
            raw, grid = raw.reshape(n * side * side, 3 * PATCH * PATCH), [n, side, side]
            words, seconds = {3: "three", 4: "four"}[n], int(total / 24)
            stamps = [f"{i // 24 // 60:02}:{i // 24 % 60:02}" for i in numbers]
            duration = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
            expected = text.replace("<video>", Smol.clip_text(words, duration, stamps, 4))
        assert input_ids == family.tokenizer().encode(expected, add_special_tokens=False).ids, expected
        levels = raw.round()
        assert (raw - levels).abs().max() < 1e-2, "the processor's resize no longer rounds to bytes"
        positions, following = family.positions(model, input_ids, inputs)
        with torch.no_grad():
            _, seen = family.seen(model, inputs)
            ids, logprobs, margin = greedy(model, family, inputs, input_ids, positions, following)
        print(f"{path.name} {case}: grid {grid}, greedy={ids} smallest margin={margin:.4f}")
        case_tensors = {
            "order": torch.tensor(order),  # [n] of the decoded frames
            "timestamps": torch.tensor(numbers, dtype=torch.float64) / 24,  # [n] float64
            "duration": torch.tensor([total / 24], dtype=torch.float64),  # [1] float64, seconds
            "levels": levels.to(torch.uint8),  # [patches, patch]
            "grid": torch.tensor(grid),  # [3] patches t, h, w
            "input_ids": torch.tensor(input_ids),  # [L]
            "position_ids": positions,  # [3, L]
            "next_position": torch.tensor([following]),  # [1]
            "visual_embeds": seen.to(torch.float32),  # [visual rows, (1 + levels) * d]
            "greedy_ids": torch.tensor(ids),  # [16]
            "greedy_logprobs": logprobs[:8].to(torch.float32),  # [8, vocabulary]
        }
        if case != "whole" or not spec.get("levels", spec["tied"]):
            # frames that are not resized, or a checkpoint that cuts them like the first of its family
            del case_tensors["levels"]
        tensors |= {f"{case}.{k}": v.contiguous() for k, v in case_tensors.items()}
    save_file(tensors, path / "frames.safetensors")


def release_form(text, clip):
    """The release's form: the clip in place of the template's whole triple."""
    return text.replace("<|vision_start|><|video_pad|><|vision_end|>", clip)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for name, spec in CHECKPOINTS.items():
        path, family = OUT / name, FAMILIES[spec["family"]]
        config = family.settings(spec, family.write_text(path, family.tokenizer()))
        write_json(path / "config.json", config)
        with torch.device("meta"):
            model = family.model(family.config(**json.loads(json.dumps(config))))
        save_weights(path, weights_of(model, family, spec), spec.get("shards"))
        record(path, spec)
        record_frames(path, spec)
    sizes = {name: sum(f.stat().st_size for f in (OUT / name).iterdir()) / 1e6 for name in CHECKPOINTS}
    print(" ".join(f"{name} {size:.2f} MB" for name, size in sizes.items()), f"all {sum(sizes.values()):.2f} MB")


if __name__ == "__main__":
    main()
