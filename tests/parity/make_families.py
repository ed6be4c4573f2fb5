"""Make the parity fixtures of the other families: tiny random Qwen2-VL and LLaVA-OneVision checkpoints, and runs from frames.

    python tests/parity/make_families.py [OUT]

Runs after `make_fixtures.py` (whose helpers it uses) and needs the same packages. `fixtures/decoded.safetensors` holds
two frames of an embedded clip as the program decodes them, and is written by

    cargo nextest run --test parity --run-ignored only decoded

    <checkpoint>/fixture.safetensors    as of `make_fixtures.py`; LLaVA-OneVision's `visual_embeds` end with the newline
    <checkpoint>/frames.safetensors     from decoded frames to greedy ids by the family's own processor, see `record_frames`
"""

import json
import math

import make_fixtures as base
import torch
from make_fixtures import BYTE_AND_MERGED, OUT, mrope_positions, new_names, save_weights, write_json
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer
from transformers import (
    AutoTokenizer,
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionImageProcessor,
    LlavaOnevisionProcessor,
    LlavaOnevisionVideoProcessor,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen2VLImageProcessor,
    Qwen2VLProcessor,
)
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor

LLAVA_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>", "<video>"]
# that of the published checkpoints; `generation` marks are an addition to Jinja
LLAVA_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + ' '}}{# Render all images first #}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>' }}{% endfor %}"
    "{# Render all video then #}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'video') %}{{ '<video>' }}{% endfor %}"
    "{# Render all text next #}{% if message['role'] != 'assistant' %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ '\n' + content['text'] }}"
    "{% endfor %}{% else %}{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{% generation %}{{ '\n' + content['text'] }}{% endgeneration %}{% endfor %}{% endif %}{{'<|im_end|>'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PROMPT = "what moves?"
# side in pixels of Qwen's frames in `frames.safetensors`, and of LLaVA's images: five patches and six unused pixels
SIDE, PICTURE = 84, 76

# text and tower: width, heads, …, as in make_fixtures; tower of Qwen2-VL: width, heads, depth, ratio
CHECKPOINTS = {
    "qwen2_vl": dict(
        family="qwen2_vl", seed=31, text=(64, 4, 2, 2, 96), tower=(24, 2, 2, 2), tied=True, vocab=320,
        dtype=torch.float16, grid=(3, 4, 6), layout="original",
    ),
    "qwen2_vl_nested": dict(
        family="qwen2_vl", seed=32, text=(48, 4, 4, 3, 64), tower=(16, 2, 3, 4), tied=False, vocab=352,
        dtype=torch.bfloat16, grid=(2, 6, 4), layout="newer",
    ),
    "llava_ov": dict(
        family="llava_onevision", seed=33, text=(64, 4, 2, 2, 96), tower=(32, 2, 2, 40), tied=False, vocab=320,
        dtype=torch.float16, frames=3, layout="original", shards=2,
    ),
    "llava_ov_newer": dict(
        family="llava_onevision", seed=34, text=(48, 4, 4, 3, 64), tower=(24, 2, 3, 36), tied=True, vocab=352,
        dtype=torch.bfloat16, frames=2, layout="newer",
    ),
}  # fmt: skip


def llava_tokenizer(qwen):
    """The same merges with LLaVA-OneVision's special tokens."""
    parts = json.loads(qwen.to_str()) | {"added_tokens": []}
    fresh = Tokenizer.from_str(json.dumps(parts))
    fresh.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in LLAVA_SPECIAL])
    assert fresh.get_vocab_size() == BYTE_AND_MERGED + len(LLAVA_SPECIAL)
    return fresh


def write_llava_text(path, tokenizer, newer):
    path.mkdir(parents=True, exist_ok=True)
    (path / "tokenizer.json").write_text(tokenizer.to_str(pretty=False))
    write_json(
        path / "tokenizer_config.json",
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "tokenizer_class": "Qwen2Tokenizer"},
    )
    if newer:
        (path / "chat_template.jinja").write_text(LLAVA_TEMPLATE)
    else:
        write_json(path / "chat_template.json", {"chat_template": LLAVA_TEMPLATE})
    ids = {t: tokenizer.token_to_id(t) for t in LLAVA_SPECIAL}
    ends = {"eos_token_id": ids["<|im_end|>"], "pad_token_id": ids["<|endoftext|>"]}
    write_json(path / "generation_config.json", ends)
    if not newer:
        common = {
            "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True, "resample": 3,
            "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "rescale_factor": 1 / 255,
            "size": {"height": PICTURE, "width": PICTURE}, "processor_class": "LlavaOnevisionProcessor",
        }  # fmt: skip
        write_json(path / "preprocessor_config.json", common | {"image_processor_type": "LlavaOnevisionImageProcessor"})
        write_json(
            path / "video_preprocessor_config.json", common | {"video_processor_type": "LlavaOnevisionVideoProcessor"}
        )
    return ids


def llava_config(spec, ids):
    """As in the published files: class defaults are omitted; `tie_word_embeddings` occurs twice."""
    width, heads, kv_heads, layers, ffn = spec["text"]
    tower_width, tower_heads, depth, tower_ffn = spec["tower"]
    return {
        "architectures": ["LlavaOnevisionForConditionalGeneration"],
        "image_token_index": ids["<image>"],
        "video_token_index": ids["<video>"],
        "model_type": "llava_onevision",
        "projector_hidden_act": "gelu",
        "text_config": {
            "architectures": ["Qwen2ForCausalLM"],
            "bos_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"],
            "hidden_size": width,
            "intermediate_size": ffn,
            "model_type": "qwen2",
            "num_attention_heads": heads,
            "num_hidden_layers": layers,
            "num_key_value_heads": kv_heads,
            "rope_theta": 1000000.0,
            "tie_word_embeddings": spec["tied"],
            "vocab_size": spec["vocab"],
        },
        "tie_word_embeddings": False,
        "use_image_newline_parameter": True,
        "vision_aspect_ratio": "anyres_max_9",
        "vision_config": {
            "hidden_size": tower_width,
            "image_size": PICTURE,
            "intermediate_size": tower_ffn,
            "model_type": "siglip_vision_model",
            "num_attention_heads": tower_heads,
            "num_hidden_layers": depth,
            "patch_size": 14,
            "vision_use_head": False,
        },
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full",
    }


def qwen2_config(spec, ids):
    width, heads, _, _, _ = spec["text"]
    tower_width, tower_heads, depth, ratio = spec["tower"]
    config = base.flat_config(spec | {"tower": (tower_width, tower_heads, depth, 1, [])}, ids)
    config |= {"architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl"}
    config["vision_config"] = {
        "depth": depth,
        "embed_dim": tower_width,
        "mlp_ratio": ratio,
        "num_heads": tower_heads,
        "in_chans": 3,
        "hidden_size": width,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "spatial_patch_size": 14,
        "temporal_patch_size": 2,
    }
    if spec["layout"] == "newer":
        config = base.nested_config(config)
        config["text_config"]["model_type"] = "qwen2_vl_text"
        config["vision_config"]["model_type"] = "qwen2_vl_vision"
    return config


def weights_of(model, spec):
    """Random weights under the names of the model in memory, scaled so that every layer matters."""
    generator = torch.Generator().manual_seed(spec["seed"])
    weights = {}
    for name, parameter in sorted(model.named_parameters()):
        shape = tuple(parameter.shape)
        noise = torch.randn(shape, generator=generator)
        if name.endswith("bias") or name.endswith("image_newline"):
            value = 0.1 * noise
        elif len(shape) == 1:
            value = 1.0 + 0.1 * noise
            if spec["tied"] and name.endswith("language_model.norm.weight"):
                value = 8.0 * value
        elif "embed_tokens" in name or "position_embedding" in name:
            value = 0.1 * noise
        else:
            value = noise / math.sqrt(math.prod(shape[1:]))
        if name == "lm_head.weight":
            if spec["tied"]:
                continue
            value = 2.0 * value
        weights[name] = value.to(spec["dtype"]).contiguous()
    return weights


def llava_names(weights, layout):
    def rename(name):
        name = name.replace("model.vision_tower.", "model.vision_tower.vision_model.")
        if layout == "newer":
            return name
        name = name.replace("model.language_model.", "language_model.model.")
        return name.replace("lm_head", "language_model.lm_head").removeprefix("model.")

    return {rename(k): v for k, v in weights.items()}


def qwen_names(weights, layout):
    original = {
        k.replace("model.visual.", "visual.").replace("model.language_model.", "model."): v for k, v in weights.items()
    }
    return new_names(original) if layout == "newer" else original


class Llava:
    """The functions that `record` needs of a family, for LLaVA-OneVision."""

    model = LlavaOnevisionForConditionalGeneration
    pad = "<video>"
    before, after = "<|im_start|>user ", "\nwhat moves?<|im_end|><|im_start|>assistant\n"

    @staticmethod
    def inputs(spec, generator):
        """Byte levels of patches in the program's order, and the model's images; the last six pixels are noise."""
        n = spec["frames"]
        levels = torch.randint(0, 256, (n * 25, 588), generator=generator, dtype=torch.uint8)
        pictures = torch.randn((n, 3, PICTURE, PICTURE), generator=generator)
        values = (levels.float() - 128.0) / 64.0
        pictures[:, :, :70, :70] = (
            values.view(n, 5, 5, 3, 14, 14).permute(0, 3, 1, 4, 2, 5).reshape(n, 3, 70, 70)
        )
        return levels, dict(pixel_values_videos=pictures[None]), (n, 5, 5)

    @staticmethod
    def seen(model, inputs):
        pictures = inputs["pixel_values_videos"]
        states = model.model.vision_tower(pictures[0], output_hidden_states=True).hidden_states[-1].flatten(0, 1)
        merged = model.model.get_video_features(
            pictures, vision_feature_layer=-1, vision_feature_select_strategy="full"
        ).pooler_output[0]
        assert torch.equal(merged[-1], model.model.image_newline)
        return states, merged

    @staticmethod
    def positions(before, grid, after):
        n = before + grid[0] * 9 + 1 + after
        return [list(range(n))] * 3, n

    @staticmethod
    def language(positions):
        return dict(position_ids=positions[:1])


class Qwen2:
    model = Qwen2VLForConditionalGeneration
    pad = "<|video_pad|>"
    before, after = "<|im_start|>user\n<|vision_start|>", "<|vision_end|>what moves?<|im_end|>\n<|im_start|>assistant\n"

    @staticmethod
    def inputs(spec, generator):
        t, h, w = spec["grid"]
        levels = torch.randint(0, 256, (t * h * w, 1176), generator=generator, dtype=torch.uint8)
        patches = (levels.float() - 128.0) / 64.0
        return levels, dict(pixel_values_videos=patches, video_grid_thw=torch.tensor([[t, h, w]])), (t, h, w)

    @staticmethod
    def seen(model, inputs):
        tower = model.model.visual(inputs["pixel_values_videos"], grid_thw=inputs["video_grid_thw"])
        return tower.last_hidden_state, tower.pooler_output

    @staticmethod
    def positions(before, grid, after):
        # the time axis counts temporal grids
        return mrope_positions(before, grid, after, 1.0, 1)

    @staticmethod
    def language(positions):
        return dict(position_ids=positions[:, None, :])


class Qwen25(Qwen2):
    model = Qwen2_5_VLForConditionalGeneration

    @staticmethod
    def positions(before, grid, after):
        return mrope_positions(before, grid, after, 1.0, 2)


FAMILIES = {"llava_onevision": Llava, "qwen2_vl": Qwen2}


def load(path, family):
    return family.model.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager", local_files_only=True
    ).eval()


def greedy_ids(model, family, inputs, input_ids, positions, following, length=16):
    """Greedy ids after the prompt, end tokens ignored, and the smallest margin between the best and second-best logit."""
    seen = dict(inputs, **family.language(positions))
    out = model.model(input_ids=torch.tensor([input_ids]), past_key_values=None, use_cache=True, **seen)
    cache, last = out.past_key_values, model.lm_head(out.last_hidden_state[0, -1])
    greedy, margins = [], []
    for i in range(length):
        best = last.topk(2).values
        margins.append(float(best[0] - best[1]))
        greedy.append(int(last.argmax()))
        at = family.language(torch.full((3, 1), following + i))
        out = model.model(input_ids=torch.tensor([greedy[-1:]]), past_key_values=cache, use_cache=True, **at)
        cache, last = out.past_key_values, model.lm_head(out.last_hidden_state[0, -1])
    return greedy, min(margins)


def record(path, spec, tokenizer):
    """The same tensors as `make_fixtures.record`."""
    family = FAMILIES[spec["family"]]
    model = load(path, family)
    generator = torch.Generator().manual_seed(1000 + spec["seed"])
    levels, inputs, grid = family.inputs(spec, generator)
    with torch.no_grad():
        states, merged = family.seen(model, inputs)
        text = tokenizer.encode(family.before, add_special_tokens=False).ids
        tail = tokenizer.encode(family.after, add_special_tokens=False).ids
        pad = tokenizer.token_to_id(family.pad)
        input_ids = text + [pad] * len(merged) + tail
        axes, following = family.positions(len(text), grid, len(tail))
        positions = torch.tensor(axes)
        token_ids = torch.tensor([input_ids])
        out = model.model(
            input_ids=token_ids, past_key_values=None, use_cache=True, **family.language(positions), **inputs
        )
        hidden = out.last_hidden_state[0]
        embeds = model.model.get_input_embeddings()(token_ids).clone()
        embeds[token_ids == pad] = merged
        direct = model.model(inputs_embeds=embeds, **family.language(positions)).last_hidden_state[0]
        assert (direct - hidden).abs().max() < 1e-5, "merged embeddings do not explain the states"
        chunk = torch.randint(0, BYTE_AND_MERGED, (5,), generator=generator).tolist()
        chunk_positions = torch.arange(following, following + 5).expand(3, 5)
        after = model.model(
            input_ids=torch.tensor([chunk]), past_key_values=out.past_key_values, **family.language(chunk_positions)
        ).last_hidden_state[0]
        greedy, margin = greedy_ids(model, family, inputs, input_ids, positions, following)
    print(f"{path.name}: L={len(input_ids)} greedy={greedy} smallest margin={margin:.4f}")
    save_file(
        {
            "pixels": levels,
            "grid": torch.tensor(grid),
            "tower_states": states.contiguous(),
            "visual_embeds": merged.contiguous(),
            "input_ids": torch.tensor(input_ids),
            "position_ids": positions.contiguous(),
            "next_position": torch.tensor([following]),
            "hidden": hidden,
            "logits": model.lm_head(hidden).detach(),
            "chunk_ids": torch.tensor(chunk),
            "chunk_positions": chunk_positions.contiguous(),
            "chunk_hidden": after,
            "chunk_logits": model.lm_head(after).detach(),
            "greedy_ids": torch.tensor(greedy),
        },
        path / "fixture.safetensors",
    )


def processor_of(path, family):
    """The family's own processor with the checkpoint's settings."""
    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    if family is Llava:
        size = {"height": PICTURE, "width": PICTURE}
        settings = dict(size=size, image_mean=[0.5] * 3, image_std=[0.5] * 3)
        return LlavaOnevisionProcessor(
            image_processor=LlavaOnevisionImageProcessor(**settings),
            video_processor=LlavaOnevisionVideoProcessor(**settings),
            tokenizer=tokenizer,
            num_image_tokens=25,
            vision_feature_select_strategy="full",
            chat_template=LLAVA_TEMPLATE,
        )
    size = {"shortest_edge": 784, "longest_edge": SIDE * SIDE}
    kind = Qwen2_5_VLProcessor if family is Qwen25 else Qwen2VLProcessor
    return kind(
        image_processor=Qwen2VLImageProcessor(),
        video_processor=Qwen2VLVideoProcessor(size=size, cap_pixels_per_frame=True),
        tokenizer=tokenizer,
        chat_template=base.TEMPLATE,
    )


def rows_of(family, pixels, std, mean):
    """A processor's pixels as byte levels of patches in the program's order."""
    if family is Llava:
        raw = (pixels[0] * std[0] + mean[0]) * 255.0
        n = raw.shape[0]
        raw = raw[:, :, :70, :70].reshape(n, 3, 5, 14, 5, 14).permute(0, 2, 4, 1, 3, 5).reshape(n * 25, 588)
    else:
        spread = [torch.tensor(v).repeat_interleave(2 * 14 * 14) for v in (std, mean)]
        raw = (pixels * spread[0] + spread[1]) * 255.0
    levels = raw.round()
    assert (raw - levels).abs().max() < 1e-2, "the processor's resize no longer rounds to bytes"
    return levels.to(torch.uint8).contiguous()


def record_frames(path, family):
    """Two decoded frames, forwards and backwards: `cut` to the model's size (no resize), and `whole` (resized)."""
    frames = load_file(OUT / "decoded.safetensors")["frames"][[0, 1, 1, 0]]
    side = PICTURE if family is Llava else SIDE
    processor, model = processor_of(path, family), load(path, family)
    messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": PROMPT}]}]
    text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    tensors = {}
    for case, clip in [("cut", frames[:, :side, :side]), ("whole", frames)]:
        video = clip.permute(0, 3, 1, 2).contiguous()
        out = processor(text=[text], videos=[video], return_tensors="pt", do_sample_frames=False)
        input_ids = out["input_ids"][0].tolist()
        inputs = {k: v for k, v in out.items() if k in ("pixel_values_videos", "video_grid_thw")}
        grid = inputs.get("video_grid_thw", torch.tensor([[4, 5, 5]]))[0].tolist()
        pad = model.config.video_token_id
        start, n = input_ids.index(pad), input_ids.count(pad)
        axes, following = family.positions(start, grid, len(input_ids) - start - n)
        with torch.no_grad():
            _, merged = family.seen(model, inputs)
            if family is Qwen25:
                merged = model.model.get_video_features(**inputs).pooler_output[0]
            greedy, margin = greedy_ids(model, family, inputs, input_ids, torch.tensor(axes), following)
        print(f"{path.name} {case}: {n} visual rows, greedy={greedy} smallest margin={margin:.4f}")
        tensors |= {
            f"{case}.input_ids": torch.tensor(input_ids),  # [L]
            f"{case}.position_ids": torch.tensor(axes),  # [3, L]
            f"{case}.next_position": torch.tensor([following]),
            f"{case}.grid": torch.tensor(grid),  # [3] patches t, h, w
            f"{case}.visual_embeds": merged.contiguous(),  # [visual rows, d]
            f"{case}.greedy_ids": torch.tensor(greedy),  # [16]
        }
        if case == "whole":
            settings = processor.video_processor
            tensors["whole.levels"] = rows_of(
                family, inputs["pixel_values_videos"], settings.image_std, settings.image_mean
            )
    save_file(tensors, path / "frames.safetensors")


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    qwen = base.make_tokenizer()
    for name, spec in CHECKPOINTS.items():
        path, newer = OUT / name, spec["layout"] == "newer"
        family = FAMILIES[spec["family"]]
        if family is Llava:
            tokenizer = llava_tokenizer(qwen)
            config = llava_config(spec, write_llava_text(path, tokenizer, newer))
            parsed, names = LlavaOnevisionConfig(**config), llava_names
        else:
            tokenizer = qwen
            config = qwen2_config(spec, base.write_text_files(path, tokenizer))
            size = {"shortest_edge": 784, "longest_edge": SIDE * SIDE}
            write_json(path / "video_preprocessor_config.json", {"size": size, "patch_size": 14})
            parsed, names = Qwen2VLConfig(**config), qwen_names
        write_json(path / "config.json", config)
        with torch.device("meta"):
            model = family.model(parsed)
        save_weights(path, names(weights_of(model, spec), spec["layout"]), spec.get("shards"))
        if family is Llava and newer:
            # the newest form: one file with the settings of both processors
            processor_of(path, family).save_pretrained(OUT / "saved")
            (OUT / "saved" / "processor_config.json").rename(path / "processor_config.json")
            for left in (OUT / "saved").iterdir():
                left.unlink()
            (OUT / "saved").rmdir()
        record(path, spec, tokenizer)
        record_frames(path, family)
    record_frames(OUT / "gqa_tied", Qwen25)


if __name__ == "__main__":
    main()
