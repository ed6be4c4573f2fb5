"""Make the parity fixtures: tiny random Qwen2.5-VL checkpoints and what `transformers` computes with them.

    python tests/parity/make_fixtures.py [OUT]

Needs torch (CPU), torchvision, transformers >= 5, tokenizers, safetensors, Pillow. Everything is seeded, computed in
float32 with eager attention, and written below `tests/parity/fixtures` (about 4 MB):

    <checkpoint>/…                  a directory in Hugging Face layout, loadable like a real one
    <checkpoint>/fixture.safetensors    inputs and expected outputs, see `record`
    processor/<case>.safetensors    frames in, patches out of the checkpoint family's own video processor
    tables.json                     target sizes, positions, rendered templates, token ids of texts

Positions follow the original M-RoPE (transformers 4.49), written down independently in `mrope_positions`; they are passed
to the model explicitly because later versions of transformers compute others.
"""

import json
import math
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor, smart_resize
from transformers.vision_utils import get_vision_window_index

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "fixtures")

SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
]  # fmt: skip
ADDED = [
    "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>",
    "<|file_sep|>",
]  # fmt: skip
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTE_AND_MERGED = 296
CORPUS = [
    "a red ball moves to the left and a blue square moves to the right",
    "the small green ball stands still while the large square falls",
    "describe the video in one sentence. what moves? the ball moves.",
    "system user assistant You are a helpful assistant.",
] * 4

TEMPLATE = (
    "{% set image_count = namespace(value=0) %}{% set video_count = namespace(value=0) %}{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "{% endif %}<|im_start|>{{ message['role'] }}\n{% if message['content'] is string %}{{ message['content'] }}"
    "<|im_end|>\n{% else %}{% for content in message['content'] %}{% if content['type'] == 'image' or 'image' in content "
    "or 'image_url' in content %}{% set image_count.value = image_count.value + 1 %}{% if add_vision_id %}Picture "
    "{{ image_count.value }}: {% endif %}<|vision_start|><|image_pad|><|vision_end|>{% elif content['type'] == 'video' or "
    "'video' in content %}{% set video_count.value = video_count.value + 1 %}{% if add_vision_id %}Video "
    "{{ video_count.value }}: {% endif %}<|vision_start|><|video_pad|><|vision_end|>{% elif 'text' in content %}"
    "{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}"
    "<|im_start|>assistant\n{% endif %}"
)

# text: width, heads, kv heads, layers, ffn; tower: width, heads, depth, ffn, blocks with full attention
# grids are in patches (t, h, w); no grid of 2x2 cells divides evenly into windows of 4x4 cells
CHECKPOINTS = {
    "gqa_tied": dict(
        seed=11, text=(64, 4, 2, 2, 96), tower=(24, 2, 2, 40, [1]), tied=True, vocab=320, dtype=torch.float32,
        grid=(3, 4, 10), seconds_per_grid=1.0,
    ),
    "gqa_untied_f16": dict(
        seed=52, text=(96, 6, 2, 3, 96), tower=(16, 2, 3, 44, [0, 2]), tied=False, vocab=352, dtype=torch.float16,
        grid=(2, 20, 4), seconds_per_grid=0.75,
    ),
    "mha_tied_bf16": dict(
        seed=13, text=(64, 4, 4, 2, 64), tower=(32, 4, 2, 36, [1]), tied=True, vocab=320, dtype=torch.bfloat16,
        grid=(5, 4, 4), seconds_per_grid=1.3,
    ),
    "sharded_untied": dict(
        seed=24, text=(64, 2, 1, 2, 64), tower=(16, 2, 2, 24, []), tied=False, vocab=320, dtype=torch.float32,
        grid=(1, 10, 14), seconds_per_grid=1.0, shards=3,
    ),
    "nested_bf16": dict(same_as="mha_tied_bf16"),
}  # fmt: skip


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def make_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=BYTE_AND_MERGED, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    assert tokenizer.get_vocab_size() == BYTE_AND_MERGED
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in ADDED])
    return tokenizer


def write_text_files(path, tokenizer):
    path.mkdir(parents=True, exist_ok=True)
    (path / "tokenizer.json").write_text(tokenizer.to_str(pretty=False))
    write_json(
        path / "tokenizer_config.json",
        {
            "add_prefix_space": False,
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": 131072,
            "split_special_tokens": False,
            "tokenizer_class": "Qwen2Tokenizer",
            "unk_token": None,
        },
    )
    write_json(path / "chat_template.json", {"chat_template": TEMPLATE})
    ids = {t: tokenizer.token_to_id(t) for t in SPECIAL}
    write_json(
        path / "generation_config.json",
        {
            "bos_token_id": ids["<|endoftext|>"],
            "pad_token_id": ids["<|endoftext|>"],
            "do_sample": True,
            "eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]],
            "repetition_penalty": 1.05,
            "temperature": 0.000001,
        },
    )
    write_json(
        path / "preprocessor_config.json",
        {
            "min_pixels": 3136,
            "max_pixels": 12845056,
            "patch_size": 14,
            "temporal_patch_size": 2,
            "merge_size": 2,
            "image_mean": [0.48145466, 0.4578275, 0.40821073],
            "image_std": [0.26862954, 0.26130258, 0.27577711],
            "image_processor_type": "Qwen2VLImageProcessor",
            "processor_class": "Qwen2_5_VLProcessor",
        },
    )
    return ids


def flat_config(spec, ids):
    width, heads, kv_heads, layers, ffn = spec["text"]
    tower_width, tower_heads, depth, tower_ffn, full = spec["tower"]
    half = width // heads // 2
    sections = [half // 4, (half - half // 4 + 1) // 2, (half - half // 4) // 2]
    return {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "attention_dropout": 0.0,
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
        "vision_token_id": ids["<|vision_pad|>"],
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "hidden_act": "silu",
        "hidden_size": width,
        "initializer_range": 0.02,
        "intermediate_size": ffn,
        "max_position_embeddings": 4096,
        "max_window_layers": layers,
        "model_type": "qwen2_5_vl",
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": kv_heads,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0,
        "sliding_window": 4096,
        "tie_word_embeddings": spec["tied"],
        "torch_dtype": str(spec["dtype"]).removeprefix("torch."),
        "use_cache": True,
        "use_sliding_window": False,
        "vision_config": {
            "depth": depth,
            "hidden_act": "silu",
            "hidden_size": tower_width,
            "intermediate_size": tower_ffn,
            "num_heads": tower_heads,
            "in_chans": 3,
            "out_hidden_size": width,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "spatial_patch_size": 14,
            "window_size": 112,
            "fullatt_block_indexes": full,
            "tokens_per_second": 2,
            "temporal_patch_size": 2,
        },
        "rope_scaling": {"type": "mrope", "mrope_section": sections},
        "vocab_size": spec["vocab"],
    }


def nested_config(flat):
    """The configuration layout of newer versions: nested text and vision, `rope_parameters`, `in_channels`, `dtype`."""
    outer = {"architectures", "vision_start_token_id", "vision_end_token_id", "vision_token_id", "image_token_id"}
    outer |= {"video_token_id", "model_type", "tie_word_embeddings", "vision_config", "torch_dtype"}
    config = {k: v for k, v in flat.items() if k in outer}
    text = {k: v for k, v in flat.items() if k not in outer}
    text["model_type"] = "qwen2_5_vl_text"
    theta = text.pop("rope_theta")
    sections = text.pop("rope_scaling")["mrope_section"]
    text["rope_parameters"] = {"rope_type": "default", "rope_theta": theta, "mrope_section": sections}
    config["dtype"] = text["dtype"] = config.pop("torch_dtype")
    config["text_config"] = text
    vision = dict(config["vision_config"], model_type="qwen2_5_vl_vision")
    vision["in_channels"] = vision.pop("in_chans")
    vision.pop("spatial_patch_size")
    config["vision_config"] = vision
    return config


def random_weights(config, spec):
    """Weights under their original names, in the checkpoint's type; scaled so that every layer matters."""
    with torch.device("meta"):
        model = Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(**config))
    generator = torch.Generator().manual_seed(spec["seed"])
    weights = {}
    for name, parameter in sorted(model.named_parameters()):
        shape = tuple(parameter.shape)
        noise = torch.randn(shape, generator=generator)
        if name.endswith("bias"):
            value = 0.1 * noise
        elif len(shape) == 1:
            value = 1.0 + 0.1 * noise
            if spec["tied"] and name.endswith("language_model.norm.weight"):
                value = 8.0 * value
        elif "embed_tokens" in name:
            value = 0.1 * noise
        else:
            value = noise / math.sqrt(math.prod(shape[1:]))
        if name == "lm_head.weight" and spec["tied"]:
            continue
        if name == "lm_head.weight":
            value = 2.0 * value
        name = name.replace("model.visual.", "visual.").replace("model.language_model.", "model.")
        weights[name] = value.to(spec["dtype"]).contiguous()
    return weights


def new_names(weights):
    def rename(name):
        if name.startswith("visual."):
            return "model." + name
        if name.startswith("model."):
            return "model.language_model." + name.removeprefix("model.")
        return name

    return {rename(k): v for k, v in weights.items()}


def save_weights(path, weights, shards):
    if not shards:
        save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(weights)
    index = {"metadata": {"total_size": sum(w.numel() * w.element_size() for w in weights.values())}, "weight_map": {}}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[shard::shards]
        save_file({n: weights[n] for n in part}, path / file, metadata={"format": "pt"})
        index["weight_map"] |= {n: file for n in part}
    write_json(path / "model.safetensors.index.json", index)


def mrope_positions(before, grid, after, seconds_per_grid, tokens_per_second, merge=2):
    """Original M-RoPE for `before` text tokens, one video of `grid` patches, `after` text tokens: [3][L] and what follows."""
    t, h, w = grid[0], grid[1] // merge, grid[2] // merge
    axes = [list(range(before)) for _ in range(3)]
    for frame in range(t):
        # single precision, as the original multiplies a tensor of indices
        seconds = np.float32(np.float32(frame) * np.float32(seconds_per_grid))
        time = int(np.float32(seconds * np.float32(tokens_per_second)))
        for row in range(h):
            for column in range(w):
                for axis, index in zip(axes, (time, row, column)):
                    axis.append(before + index)
    start = max(max(axis) for axis in axes) + 1 if axes[0] else 0
    for axis in axes:
        axis.extend(range(start, start + after))
    return axes, start + after


def record(path, spec, tokenizer, ids):
    """Write the model's outputs; names and shapes of the tensors are in the dictionary at the end."""
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager", local_files_only=True
    ).eval()
    generator = torch.Generator().manual_seed(1000 + spec["seed"])
    t, h, w = spec["grid"]
    n = t * h * w
    levels = torch.randint(0, 256, (n, 1176), generator=generator, dtype=torch.uint8)
    patches = (levels.float() - 128.0) / 64.0
    grid = torch.tensor([[t, h, w]])
    text = tokenizer.encode("<|im_start|>user\n<|vision_start|>", add_special_tokens=False).ids
    tail = tokenizer.encode("<|vision_end|>what moves?<|im_end|>\n<|im_start|>assistant\n", add_special_tokens=False).ids
    input_ids = text + [ids["<|video_pad|>"]] * (n // 4) + tail
    axes, following = mrope_positions(len(text), spec["grid"], len(tail), spec["seconds_per_grid"], 2)
    positions = torch.tensor(axes)
    with torch.no_grad():
        tower = model.model.visual(patches, grid_thw=grid)
        merged = tower.pooler_output
        # the tower's states are in window order: restore the order of the cells, four patches each
        window_index, _ = get_vision_window_index(grid, spatial_merge_size=2, window_size=112, patch_size=14)
        cells = tower.last_hidden_state.reshape(n // 4, 4, -1)
        states = cells[torch.argsort(window_index)].reshape(n, -1).contiguous()
        token_ids = torch.tensor([input_ids])
        embeds = model.model.get_input_embeddings()(token_ids).clone()
        embeds[token_ids == ids["<|video_pad|>"]] = merged

        def run(cache, pos, **inputs):
            out = model.model(position_ids=pos[:, None, :], past_key_values=cache, use_cache=True, **inputs)
            hidden = out.last_hidden_state[0]
            return hidden, model.lm_head(hidden), out.past_key_values

        def step(cache, pos, chunk):
            return run(cache, pos, input_ids=torch.tensor([chunk]))

        hidden, logits, cache = run(
            None, positions, input_ids=token_ids, pixel_values_videos=patches, video_grid_thw=grid
        )
        direct, _, _ = run(None, positions, inputs_embeds=embeds)
        assert (direct - hidden).abs().max() < 1e-5, "merged embeddings do not explain the states"
        chunk = torch.randint(0, BYTE_AND_MERGED, (5,), generator=generator).tolist()
        chunk_positions = torch.arange(following, following + 5).expand(3, 5)
        chunk_hidden, chunk_logits, _ = step(cache, chunk_positions, chunk)

        hidden2, logits2, cache = run(
            None, positions, input_ids=token_ids, pixel_values_videos=patches, video_grid_thw=grid
        )
        greedy, margins, last = [], [], logits2[-1]
        for i in range(16):
            best = last.topk(2).values
            margins.append(float(best[0] - best[1]))
            greedy.append(int(last.argmax()))
            _, rows, cache = step(cache, torch.full((3, 1), following + i), greedy[-1:])
            last = rows[-1]
    print(f"{path.name}: L={len(input_ids)} greedy={greedy} smallest margin={min(margins):.4f}")
    save_file(
        {
            "pixels": levels,  # [n, 1176] u8; the tower's input is (pixels - 128) / 64
            "grid": grid[0],  # [3] patches t, h, w
            "tower_states": states,  # [n, tower width], before the merger, in the order of the patches
            "visual_embeds": merged,  # [n / 4, d], in the order of the cells
            "input_ids": torch.tensor(input_ids),  # [L]
            "position_ids": positions,  # [3, L]
            "next_position": torch.tensor([following]),  # [1]
            "seconds_per_grid": torch.tensor([spec["seconds_per_grid"]], dtype=torch.float32),  # [1]
            "hidden": hidden,  # [L, d] after the last norm
            "logits": logits,  # [L, vocabulary]
            "chunk_ids": torch.tensor(chunk),  # [5] read after the prompt, over its cache
            "chunk_positions": chunk_positions.contiguous(),  # [3, 5]
            "chunk_hidden": chunk_hidden,  # [5, d]
            "chunk_logits": chunk_logits,  # [5, vocabulary]
            "greedy_ids": torch.tensor(greedy),  # [16] end tokens ignored
        },
        path / "fixture.safetensors",
    )


def make_checkpoints(tokenizer):
    made = {}
    for name, spec in CHECKPOINTS.items():
        path = OUT / name
        ids = write_text_files(path, tokenizer)
        if source := spec.get("same_as"):
            spec, config, weights = made[source]
            config, weights = nested_config(config), new_names(weights)
        else:
            config = flat_config(spec, ids)
            weights = random_weights(config, spec)
            made[name] = spec, config, weights
        write_json(path / "config.json", config)
        save_weights(path, weights, spec.get("shards"))
        record(path, spec, tokenizer, ids)


def moving_frames(n, height, width, seed):
    """Smooth colour waves with edges and a little noise, [n, height, width, 3] u8."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    frames = np.zeros((n, height, width, 3), np.float64)
    for i in range(n):
        for c in range(3):
            frames[i, :, :, c] = 128 + 100 * np.sin(x / (5.0 + 3 * c) + 0.7 * i) * np.cos(y / (7.0 - c) - 0.3 * i)
        frames[i, height // 4 : height // 2, (width // 5 + i) : (width // 2 + i)] = (255, 10 * i, 0)
    return np.clip(frames + rng.normal(0, 6, frames.shape), 0, 255).astype(np.uint8)


# n frames, height, width, shortest edge, longest edge (pixels per frame)
PROCESSOR = {
    "exact": (2, 56, 84, 784, 100_000),
    "down": (3, 90, 121, 784, 3_200),
    "up": (2, 30, 41, 4_000, 100_000),
    "mixed": (4, 100, 37, 784, 3_000),
}


def make_processor():
    (OUT / "processor").mkdir(parents=True, exist_ok=True)
    for seed, (name, (n, height, width, low, high)) in enumerate(PROCESSOR.items()):
        frames = moving_frames(n, height, width, seed)
        processor = Qwen2VLVideoProcessor(size={"shortest_edge": low, "longest_edge": high}, cap_pixels_per_frame=True)
        video = torch.from_numpy(frames).permute(0, 3, 1, 2).contiguous()
        out = processor(videos=[video], return_tensors="pt", do_sample_frames=False)
        patches, grid = out["pixel_values_videos"], out["video_grid_thw"][0]
        mean = torch.tensor(processor.image_mean).repeat_interleave(2 * 14 * 14)
        std = torch.tensor(processor.image_std).repeat_interleave(2 * 14 * 14)
        raw = (patches * std + mean) * 255.0
        levels = raw.round()
        assert (raw - levels).abs().max() < 1e-2, "the processor's resize no longer rounds to bytes"
        tensors = {
            "frames": torch.from_numpy(frames),  # [n, h, w, 3] u8
            "levels": levels.to(torch.uint8),  # [patches, 1176]: byte levels before rescaling and normalising
            "grid": grid,
            "limits": torch.tensor([low, high]),
        }
        if name == "exact":
            tensors["patches"] = patches.contiguous()  # [patches, 1176] f32, as the processor returns them
        save_file(tensors, OUT / "processor" / f"{name}.safetensors")
        print(f"processor {name}: {tuple(frames.shape)} -> {grid.tolist()}")


def size_table():
    """Target sizes: qwen_vl_utils' limits per frame, then `smart_resize`."""
    rows = []
    sizes = [(720, 1280), (1080, 1920), (480, 640), (14, 14), (42, 70), (126, 98), (360, 202), (1, 200), (2160, 3840)]
    sizes += [(100, 37), (37, 100), (28, 5600), (224, 224), (70, 210)]
    for height, width in sizes:
        for n in (2, 16, 60, 768):
            low, high = 128 * 784, 768 * 784
            # total budget of a video: 90 % of 128000 tokens of 28x28 pixels, shared by pairs of frames
            cap = max(min(high, 128000 * 784 * 0.9 / n * 2), int(low * 1.05))
            rows.append([height, width, n, *smart_resize(height, width, 28, low, cap)])
    return rows


def position_table():
    rows = []
    for before, grid, after, seconds in [
        (3, (1, 4, 4), 2, 1.0),
        (15, (4, 8, 12), 9, 1.0),
        (0, (3, 2, 2), 1, 0.5),
        (7, (8, 4, 6), 5, 0.3),
        (2, (11, 2, 20), 3, 1.1),
        (4, (5, 4, 4), 4, 2.7),
        (9, (6, 2, 2), 0, 0.7),
    ]:
        for rate in (2, 4, 25):
            axes, following = mrope_positions(before, grid, after, seconds, rate)
            rows.append(
                {
                    "before": before,
                    "grid": grid,
                    "after": after,
                    "seconds_per_grid": seconds,
                    "tokens_per_second": rate,
                    "axes": axes,
                    "next": following,
                }
            )
    return rows


def text_tables(tokenizer):
    prompts = ["Describe this video.", "what moves?\n", "日本語で説明して 🎬", "  two  spaces  ", "naïve café e\u0301"]
    auto = AutoTokenizer.from_pretrained(OUT / "gqa_tied", local_files_only=True)
    rendered = []
    for prompt in prompts:
        messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": prompt}]}]
        text = auto.apply_chat_template(messages, chat_template=TEMPLATE, add_generation_prompt=True, tokenize=False)
        rendered.append(
            {"prompt": prompt, "text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids}
        )
    texts = ["", "the ball moves", "emoji 👩‍👩‍👧‍👦 done", "日本語テキスト", "a\u0301 mix\tof\n\n all", "x<|im_end|>y"]
    encoded = [{"text": t, "ids": tokenizer.encode(t, add_special_tokens=False).ids} for t in texts]
    return rendered, encoded


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tokenizer = make_tokenizer()
    make_checkpoints(tokenizer)
    make_processor()
    rendered, encoded = text_tables(tokenizer)
    tables = {"sizes": size_table(), "positions": position_table(), "rendered": rendered, "encoded": encoded}
    (OUT / "tables.json").write_text(json.dumps(tables, ensure_ascii=False) + "\n")
    print(f"{sum(f.stat().st_size for f in OUT.rglob('*') if f.is_file()) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
