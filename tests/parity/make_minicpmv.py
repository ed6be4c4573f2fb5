"""Make the parity fixtures of MiniCPM-V 4.6: tiny random checkpoints, and what transformers computes with them.

    python tests/parity/make_minicpmv.py [OUT]

Needs the packages of `make_newer_families.py`, whose recording this uses, as `make_qwen3_5.py` does; see there for the files and
what is checked. One checkpoint makes a visual token of 16 patches, the other of four. Its processor is called as the model's
page does for videos: without slices (`max_slice_nums=1`) and picture numbers (`use_image_id=False`).
"""

import functools
import json
import pathlib

import make_newer_families as newer
import torch
from make_fixtures import OUT, save_weights, write_json
from make_newer_families import CLIPS, PATCH, PROMPT, Qwen3, qwen3_tokenizer
from make_qwen3_5 import Qwen35, in_double, long_run
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken
from transformers import MiniCPMV4_6Config, MiniCPMV4_6ForConditionalGeneration, MiniCPMV4_6Processor
from transformers.models.minicpmv4_6 import modeling_minicpmv4_6

MARKS = ["<image>", "</image>", "<slice>", "</slice>", "<image_id>", "</image_id>"]
NAMES = ["image_start", "image_end", "slice_start", "slice_end", "image_id_start", "image_id_end"]
# as the model's page has it for videos
VIDEO = {"max_slice_nums": 1, "use_image_id": False}

# text and linear as for Qwen3.5; tower: width, heads, depth, ffn; side: positions along a side; insert: the layer before the merger
CHECKPOINTS = {
    "minicpmv4_6": dict(
        family="minicpmv4_6", seed=808, text=(64, 4, 2, 32, 8, 32), linear=(4, 2, 4, 16, 16, 4), tower=(32, 2, 4, 48),
        tied=True, vocab=384, dtype=torch.bfloat16, grid=(2, 4, 8), side=7, insert=1, eps=1e-4, tower_eps=1e-4,
        theta=10000000, mode="16x", scale=112,
    ),
    "minicpmv4_6_4x": dict(
        family="minicpmv4_6", seed=909, text=(32, 2, 1, 64, 4, 64), linear=(2, 2, 2, 16, 32, 3), tower=(32, 1, 3, 40),
        tied=False, vocab=416, dtype=torch.float16, grid=(2, 4, 6), side=5, insert=1, eps=1e-3, tower_eps=1e-3,
        theta=10000, mode="4x", scale=90, shards=2, without_types=True,
    ),
}  # fmt: skip


def minicpmv_tokenizer():
    tokenizer = qwen3_tokenizer()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in MARKS])
    return tokenizer


class MiniCPM(Qwen35):
    model, processor, config = MiniCPMV4_6ForConditionalGeneration, MiniCPMV4_6Processor, MiniCPMV4_6Config
    tokenizer = staticmethod(functools.cache(minicpmv_tokenizer))
    template_settings = {}

    @staticmethod
    def write_text(path, tokenizer, spec):
        ids = Qwen3.write_text(path, tokenizer)
        (path / "chat_template.json").unlink()
        template = pathlib.Path(__file__).parent / "fixtures" / "published" / "templates" / "minicpmv4_6.jinja"
        (path / "chat_template.jinja").write_text(template.read_text())
        text = json.loads((path / "tokenizer_config.json").read_text())
        tokens = dict(zip((f"{name}_token" for name in NAMES), MARKS))
        text |= {"extra_special_tokens": {"image_token": "<|image_pad|>", "video_token": "<|video_pad|>"} | tokens}
        write_json(path / "tokenizer_config.json", text)
        common = {
            "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True,
            "downsample_mode": spec["mode"], "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "max_slice_nums": 9,
            "patch_size": PATCH, "resample": 3, "rescale_factor": 0.00392156862745098, "scale_resolution": spec["scale"],
            "slice_mode": True, "use_image_id": True,
        }  # fmt: skip
        video = {"do_sample_frames": True, "max_num_frames": 128, "return_metadata": False, "stack_frames": 1}
        (path / "preprocessor_config.json").unlink()
        (path / "video_preprocessor_config.json").unlink()
        write_json(
            path / "processor_config.json",
            {
                "image_processor": common | {"image_processor_type": "MiniCPMV4_6ImageProcessor"},
                "processor_class": "MiniCPMV4_6Processor",
                "video_processor": common | video | {"video_processor_type": "MiniCPMV4_6VideoProcessor"},
            },
        )
        return ids

    @staticmethod
    def settings(spec, ids):
        text = Qwen35.settings(spec | {"table": 1, "sections": []}, ids)["text_config"]
        del text["rope_parameters"]["mrope_interleaved"], text["rope_parameters"]["mrope_section"]
        width, heads, depth, ffn = spec["tower"]
        return {
            "architectures": ["MiniCPMV4_6ForConditionalGeneration"],
            "downsample_mode": spec["mode"],
            "drop_vision_last_layer": False,
            "image_size": 1120,
            "image_token_id": ids["<|image_pad|>"],
            "insert_layer_id": spec["insert"],
            "merge_kernel_size": [2, 2],
            "merger_times": 1,
            "model_type": "minicpmv4_6",
            "text_config": text,
            "tie_word_embeddings": spec["tied"],
            "transformers_version": "5.7.0",
            "video_token_id": ids["<|video_pad|>"],
            "vision_config": {
                "attention_dropout": 0.0,
                "hidden_act": "gelu_pytorch_tanh",
                "hidden_size": width,
                "image_size": spec["side"] * PATCH + 3,
                "insert_layer_id": spec["insert"],
                "intermediate_size": ffn,
                "layer_norm_eps": spec["tower_eps"],
                "model_type": "minicpmv4_6_vision",
                "num_attention_heads": heads,
                "num_channels": 3,
                "num_hidden_layers": depth,
                "patch_size": PATCH,
                "window_kernel_size": [2, 2],
            },
        }

    @staticmethod
    def merge(spec):
        return {"4x": 2, "16x": 4}[spec["mode"]]

    @classmethod
    def in_reading_order(cls, rows, grid, side):
        """Rows of squares of `side`, as frames are cut here, line by line as the reference has them."""
        t, h, w = grid
        return rows.view(t, h // side, w // side, side, side, -1).transpose(2, 3).reshape(t * h * w, -1)

    @classmethod
    def in_squares(cls, rows, grid, side):
        t, h, w = grid
        return rows.view(t, h // side, side, w // side, side, -1).transpose(2, 3).reshape(t * h * w, -1)

    @classmethod
    def inputs(cls, spec, generator):
        t, h, w = spec["grid"]
        levels = torch.randint(0, 256, (t * h * w, 3 * PATCH * PATCH), generator=generator, dtype=torch.uint8)
        rows = cls.in_reading_order((levels.double() - 128.0) / 64.0, spec["grid"], cls.merge(spec))
        pixels = rows.view(-1, 3, PATCH, PATCH).permute(1, 2, 0, 3).reshape(1, 3, PATCH, -1)
        sizes = torch.tensor([[h, w]] * t, dtype=torch.int32)
        return levels, dict(pixel_values_videos=pixels, target_sizes_videos=sizes), (t, h, w)

    @classmethod
    def clip_text(cls, frames, cells):
        return ("<image>" + "<|video_pad|>" * cells + "</image>") * frames

    @classmethod
    def prompt(cls, spec, grid):
        clip = cls.clip_text(grid[0], grid[1] * grid[2] // cls.merge(spec) ** 2)
        return f"<|im_start|>user\n{clip}\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"

    @classmethod
    def seen(cls, model, inputs):
        """States after the last norm, square by square, and embeddings."""
        sizes = inputs["target_sizes_videos"]
        out = model.model.get_video_features(inputs["pixel_values_videos"], sizes)
        half = 2 if model.config.downsample_mode == "16x" else 1
        grid = (len(sizes), int(sizes[0][0]) // half, int(sizes[0][1]) // half)
        return cls.in_squares(out.last_hidden_state[0], grid, 2), torch.cat(out.pooler_output)

    @staticmethod
    def positions(model, input_ids, inputs):
        return torch.tensor([list(range(len(input_ids)))] * 3), len(input_ids)

    @staticmethod
    def at(positions):
        return dict(position_ids=positions[:1])

    @staticmethod
    def scale(name):
        if "language_model" in name or "lm_head" in name:
            return Qwen35.scale(name)
        if "embeddings" in name or "out_proj" in name or "fc2" in name or "vit_merger.linear_2" in name:
            return 0.03
        return 1.5 if "fc1" in name else 1.0

    @staticmethod
    def names(weights):
        own = {name: weight for name, weight in weights.items() if "language_model" not in name}
        return Qwen35.names({n: w for n, w in weights.items() if n not in own}) | own


def record_frames(path, spec):
    """As in `make_newer_families.py`: decoded frames to greedy ids, by the family's processor."""
    decoded = load_file(OUT / "decoded.safetensors")["frames"]
    model, processor = newer.load(path, MiniCPM), MiniCPM.processor.from_pretrained(path, local_files_only=True)
    messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": PROMPT}]}]
    text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    merge, tensors = MiniCPM.merge(spec), {}
    for case, (order, numbers, total) in CLIPS.items():
        clip = decoded[order].permute(0, 3, 1, 2)
        if case != "whole":
            side = spec["scale"] // (PATCH * merge) * PATCH * merge
            clip = clip[:, :, :side, :side]
        metadata = {"total_num_frames": total, "fps": 24.0, "duration": total / 24, "frames_indices": list(numbers)}
        out = processor(
            text=[text], videos=[clip.contiguous()], video_metadata=[metadata], do_sample_frames=False, return_tensors="pt", **VIDEO
        )
        input_ids = out["input_ids"][0].tolist()
        names = ("pixel_values_videos", "target_sizes_videos")
        inputs = {k: v.double() if v.is_floating_point() else v for k, v in out.items() if k in names}
        sizes = inputs["target_sizes_videos"]
        assert (sizes == sizes[0]).all() and len(sizes) == len(order)
        grid = [len(sizes), *sizes[0].tolist()]
        raw = (inputs["pixel_values_videos"][0] + 1.0) * 127.5
        raw = raw.view(3, PATCH, -1, PATCH).permute(2, 0, 1, 3).reshape(-1, 3 * PATCH * PATCH)
        levels = raw.round()
        assert (raw - levels).abs().max() < 1e-2, "the processor's resize no longer rounds to bytes"
        expected = text.replace("<|video_pad|>", MiniCPM.clip_text(grid[0], grid[1] * grid[2] // merge**2))
        assert input_ids == MiniCPM.tokenizer().encode(expected, add_special_tokens=False).ids, expected
        positions, following = MiniCPM.positions(model, input_ids, inputs)
        with torch.no_grad():
            _, seen = MiniCPM.seen(model, inputs)
            ids, logprobs, margin = newer.greedy(model, MiniCPM, inputs, input_ids, positions, following)
        print(f"{path.name} {case}: grid {grid}, greedy={ids} smallest margin={margin:.4f}")
        case_tensors = {
            "order": torch.tensor(order),
            "timestamps": torch.tensor(numbers, dtype=torch.float64) / 24,
            "duration": torch.tensor([total / 24], dtype=torch.float64),
            "levels": MiniCPM.in_squares(levels, grid, merge).to(torch.uint8),
            "grid": torch.tensor(grid),
            "input_ids": torch.tensor(input_ids),
            "position_ids": positions,
            "next_position": torch.tensor([following]),
            "visual_embeds": seen.to(torch.float32),
            "greedy_ids": torch.tensor(ids),
            "greedy_logprobs": logprobs[:8].to(torch.float32),
        }
        if case != "whole":
            del case_tensors["levels"]
        tensors |= {f"{case}.{k}": v.contiguous() for k, v in case_tensors.items()}
    save_file(tensors, path / "frames.safetensors")


def eps_matters(path):
    """A wrong epsilon in the tower moves the embeddings by more than the tests allow."""
    weights = newer.load(path, MiniCPM)
    spec = CHECKPOINTS[path.name]
    _, inputs, _ = MiniCPM.inputs(spec, torch.Generator().manual_seed(1))
    _, before = MiniCPM.seen(weights, inputs)
    for kind in ("layer_norm1", "layer_norm2", "post_layernorm", "vit_merger.pre_norm"):
        norms = [m for n, m in weights.model.vision_tower.named_modules() if n.endswith(kind)]
        for norm in norms:
            norm.eps /= 10
        _, after = MiniCPM.seen(weights, inputs)
        print(f"  eps of {kind}: {float((after - before).abs().max()):.1e}")
        for norm in norms:
            norm.eps *= 10


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    newer.FAMILIES["minicpmv4_6"] = MiniCPM
    for name, spec in CHECKPOINTS.items():
        path = OUT / name
        config = MiniCPM.settings(spec, MiniCPM.write_text(path, MiniCPM.tokenizer(), spec))
        write_json(path / "config.json", config)
        with torch.device("meta"):
            model = MiniCPM.model(MiniCPM.config(**json.loads(json.dumps(config))))
        save_weights(path, newer.weights_of(model, MiniCPM, spec), spec.get("shards"))
        with in_double(), in_double(modeling_minicpmv4_6):
            newer.record(path, spec, long_run)
            record_frames(path, spec)
            with torch.no_grad():
                eps_matters(path)
    sizes = {name: sum(f.stat().st_size for f in (OUT / name).iterdir()) / 1e6 for name in CHECKPOINTS}
    print(" ".join(f"{name} {size:.2f} MB" for name, size in sizes.items()), f"all {sum(sizes.values()):.2f} MB")


if __name__ == "__main__":
    main()
