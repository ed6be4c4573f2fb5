"""Make `fixtures/clips.json`, and frames through the processors of Qwen3-VL, SmolVLM2 and MiniCPM-V: what these sample, write and
resize.

    python tests/parity/make_clips.py [OUT]

Runs after `make_newer_families.py` and `make_minicpmv.py`, whose checkpoints and packages it uses. Nothing is decoded: a clip is its header's number
of frames, rate and duration, and stands in the prompt with black frames.

    clips.json                        per family: clips (sampled frames, times, prompts, positions) and sizes; number words
    processor/<family>_<case>.safetensors    frames in, byte levels of patches out; of qwen3_vl, smolvlm and minicpmv
"""

import json

import torch
from make_fixtures import OUT, moving_frames
from make_minicpmv import VIDEO, MiniCPM
from make_newer_families import PATCH, PICTURE, PROMPT, Qwen3, Smol, release_form
from num2words import num2words
from safetensors.torch import save_file
from transformers import MiniCPMV4_6VideoProcessor, Qwen3VLVideoProcessor, SmolVLMVideoProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import smart_resize
from transformers.models.smolvlm.video_processing_smolvlm import get_resize_output_image_size
from transformers.video_utils import VideoMetadata

NTSC, FILM = 30000 / 1001, 24000 / 1001

# name: frames, frames per second, seconds in the header (none: frames / rate)
CLIPS = {
    "one frame": (1, 25.0, None),
    "two frames": (2, 25.0, None),
    "three frames": (3, 24.0, None),
    "four frames": (4, 24.0, None),
    "five slow frames": (5, 0.5, None),
    "seven frames at 1 fps": (7, 1.0, None),
    "half a second": (12, 24.0, None),
    "1 s at 23.976 fps": (24, FILM, None),
    "1 s at 24 fps": (24, 24.0, None),
    "1 s at 120 fps": (120, 120.0, None),
    "1.5 s at 24 fps": (36, 24.0, None),
    "2.5 s at 24 fps": (60, 24.0, None),
    "2.5 s at 30 fps": (75, 30.0, None),
    "3.5 s at 24 fps": (84, 24.0, None),
    "5.0 s at 23.976 fps": (120, FILM, None),
    "10 s at 29.97 fps": (300, NTSC, None),
    "10.5 s at 30 fps": (315, 30.0, None),
    "15 s at 8 fps": (120, 8.0, None),
    "61 s at 23.976 fps": (1463, FILM, None),
    "61 s at 25 fps": (1525, 25.0, None),
    "61 s at 120 fps": (7320, 120.0, None),
    "64.4 s at 25 fps": (1610, 25.0, None),
    "65 s at 24 fps": (1560, 24.0, None),
    "66 s at 25 fps": (1650, 25.0, None),
    "66.04 s at 25 fps": (1651, 25.0, None),
    "67 s at 29.97 fps": (2008, NTSC, None),
    "100 s at 120 fps": (12000, 120.0, None),
    "383.5 s at 24 fps": (9204, 24.0, None),
    "384.5 s at 24 fps": (9228, 24.0, None),
    "1 h at 23.976 fps": (86314, FILM, None),
    "1 h at 25 fps": (90000, 25.0, 3600.0),
    "1 h at 120 fps": (432000, 120.0, None),
    "2 h 30 min at 24 fps": (216000, 24.0, None),
    "26 h at 1 fps": (93600, 1.0, None),
}
# height and width of frames: wide, tall, tiny, thin, 4k, exact multiples, one pixel beside them
SIZES = [
    (720, 1280), (1080, 1920), (1920, 1080), (480, 640), (360, 202), (2160, 3840), (3840, 2160), (224, 224), (96, 96),
    (97, 95), (112, 80), (48, 48), (31, 33), (14, 14), (1, 200), (200, 1), (30, 3000), (3000, 30), (32, 6400),
    (100, 37), (37, 100), (1, 1), (2, 3), (511, 513), (512, 512), (2048, 1000), (4096, 4000), (5000, 300),
    (10, 3000), (3000, 10),
]  # fmt: skip
COUNTS = [1, 2, 3, 4, 5, 7, 10, 16, 61, 120, 767, 768]


def metadata(clip, indices=None):
    frames, fps, duration = clip
    return VideoMetadata(
        total_num_frames=frames,
        fps=fps,
        duration=frames / fps if duration is None else duration,
        frames_indices=indices,
    )


def prompt_of(family, processor, clip, indices, height, width):
    """A clip's prompt: text with one pad a span, ids, positions of three axes, and the position after it."""
    messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": PROMPT}]}]
    text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    settings = {}
    if family is Qwen3:
        text, settings = release_form(text, "<|video_pad|>"), {"cap_pixels_per_frame": False}
    n = len(indices)
    frames = torch.zeros((n, 3, height, width), dtype=torch.uint8)
    out = processor(
        text=[text],
        videos=[frames],
        video_metadata=[metadata(clip, list(indices))],
        do_sample_frames=False,
        return_tensors="pt",
        **settings,
    )
    ids = out["input_ids"][0].tolist()
    tokenizer = family.tokenizer()
    pad = tokenizer.token_to_id(family.pad)
    spans = [id for i, id in enumerate(ids) if id != pad or ids[i - 1] != pad]
    row = {
        "spans": spans.count(pad),
        "text": tokenizer.decode(spans, skip_special_tokens=False),
        "ids": ids,
    }
    assert tokenizer.encode(row["text"], add_special_tokens=False).ids == spans
    if family is Qwen3:
        grid = out["video_grid_thw"][0].tolist()
        model = type("Positions", (), {})()
        model.config = Rope.config
        model.model = Rope
        axes, following = Qwen3.positions(model, ids, {"video_grid_thw": torch.tensor([grid])})
        row |= {"grid": grid, "positions": axes.tolist(), "next": following}
    else:
        row |= {"grid": [n, PICTURE // PATCH, PICTURE // PATCH]}
    return row


def stamps_of(text, family):
    """The times in a prompt's text, in order."""
    if family is Qwen3:
        return [part.split("<")[-1] for part in text.split(" seconds>")[:-1]]
    return [part[: part.index(":<fake_token")] for part in text.split("\nFrame from ")[1:]]


def clip_rows(family, processor):
    """Every clip; only short prompts with their ids and positions."""
    rows = []
    for name, clip in CLIPS.items():
        sampler, sampled = processor.video_processor, {}
        if family is Smol:
            sampled = {"num_frames": sampler.num_frames, "fps": sampler.fps}
        indices = sampler.sample_frames(metadata(clip), **sampled).tolist()
        if clip[0] <= 120:
            # what the processor samples on its own
            out = sampler(
                videos=[torch.zeros((clip[0], 3, 32, 32), dtype=torch.uint8)],
                video_metadata=[metadata(clip)],
                do_sample_frames=True,
                do_resize=False,
                return_metadata=True,
                **({"cap_pixels_per_frame": False} if family is Qwen3 else sampled),
            )
            assert list(out["video_metadata"][0].frames_indices) == indices
        described = metadata(clip, list(indices))
        row = {"name": name, "frames": clip[0], "fps": clip[1], "duration": described.duration, "indices": indices}
        if len(indices) <= 64:
            row["timestamps"] = described.timestamps
        # one frame alone has no size in Qwen3-VL's processor
        height, width = (64, 96) if family is Qwen3 else (PICTURE, PICTURE)
        if family is Qwen3 and len(indices) == 1:
            rows.append(row)
            continue
        prompt = prompt_of(family, processor, clip, indices, height, width)
        row["stamps"] = stamps_of(prompt["text"], family)
        assert len(row["stamps"]) == prompt["spans"]
        row["head"] = prompt["text"].split("<fake_token" if family is Smol else "<|vision_start|>")[0]
        if prompt["spans"] <= 10:
            row |= {"height": height, "width": width} | {k: v for k, v in prompt.items() if k != "spans"}
        rows.append(row)
    return rows


def qwen3_sizes(low, high):
    """Height, width, frames, and the resized height and width; without these where the processor refuses."""
    rows = []
    for height, width in SIZES:
        for count in COUNTS:
            try:
                size = smart_resize(count, height, width, 2, 32, low, high)
            except ValueError:
                size = ()
            rows.append([height, width, count, *size])
    return rows


def smolvlm_sizes(longest):
    """Height, width, and the height and width after the first of two steps; the second squashes to a square."""
    rows = []
    for height, width in SIZES:
        frame = torch.empty((1, 3, height, width), dtype=torch.uint8)
        rows.append([height, width, *get_resize_output_image_size(frame, longest)])
    return rows


def minicpmv_rows(processor):
    """Every clip without slices and picture numbers; short prompts with their ids. No frame is sampled twice."""
    rows = []
    messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": PROMPT}]}]
    text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    for name, clip in CLIPS.items():
        indices = list(dict.fromkeys(processor.video_processor.sample_frames(metadata(clip))))
        described = metadata(clip, indices)
        row = {"name": name, "frames": clip[0], "fps": clip[1], "duration": described.duration, "indices": indices}
        if len(indices) <= 64:
            row["timestamps"] = described.timestamps
        if len(indices) <= 10:
            frames = torch.zeros((len(indices), 3, 112, 112), dtype=torch.uint8)
            out = processor(
                text=[text], videos=[frames], video_metadata=[described], do_sample_frames=False, return_tensors="pt", **VIDEO
            )
            ids = out["input_ids"][0].tolist()
            assert out["target_sizes_videos"].tolist() == [[8, 8]] * len(indices)
            pad = MiniCPM.tokenizer().token_to_id(MiniCPM.pad)
            spans = [id for i, id in enumerate(ids) if id != pad or ids[i - 1] != pad]
            row |= {"text": MiniCPM.tokenizer().decode(spans, skip_special_tokens=False), "ids": ids}
            row |= {"grid": [len(indices), 8, 8]}
        rows.append(row)
    return rows


def minicpmv_sizes():
    """Height, width, and the resized height and width for visual tokens of 16 patches and of four."""
    processor = MiniCPMV4_6VideoProcessor()
    both = lambda size: [
        side for mode in ("16x", "4x") for side in processor.find_best_resize(size, 448, PATCH, True, mode)
    ]
    return [[height, width, *both((height, width))] for height, width in SIZES]


def resized():
    """Frames that the processors resize, and what these make of them."""
    for case, (n, height, width, high) in {"tall": (3, 100, 37, 12_000), "wide": (2, 45, 130, 20_000)}.items():
        frames = moving_frames(n, height, width, 40 + n)
        video = torch.from_numpy(frames).permute(0, 3, 1, 2).contiguous()
        processor = Qwen3VLVideoProcessor(size={"shortest_edge": 4096, "longest_edge": high})
        out = processor(
            videos=[video], return_tensors="pt", do_sample_frames=False, cap_pixels_per_frame=False
        )
        raw = (out["pixel_values_videos"] + 1.0) * 127.5
        write_resized(f"qwen3_vl_{case}", frames, raw, out["video_grid_thw"][0], torch.tensor([4096, high]))
    for case, (height, width) in {"tall": (100, 37), "wide": (45, 131), "larger": (60, 190)}.items():
        frames = moving_frames(1, height, width, 50)
        video = torch.from_numpy(frames).permute(0, 3, 1, 2).contiguous()
        processor = SmolVLMVideoProcessor(
            size={"longest_edge": 2 * PICTURE}, max_image_size={"longest_edge": PICTURE}, resample=1
        )
        raw = (processor(videos=[video], return_tensors="pt")["pixel_values"][0] + 1.0) * 127.5
        side = PICTURE // PATCH
        raw = raw[:, :, : side * PATCH, : side * PATCH].reshape(1, 3, side, PATCH, side, PATCH)
        raw = raw.permute(0, 2, 4, 1, 3, 5).reshape(side * side, -1)
        limits = torch.tensor([2 * PICTURE, PICTURE])
        write_resized(f"smolvlm_{case}", frames, raw, torch.tensor([1, side, side]), limits)
    for case, (height, width, scale, mode) in {"tall": (100, 37, 112, "16x"), "wide": (45, 130, 150, "4x")}.items():
        frames = moving_frames(2, height, width, 60)
        video = torch.from_numpy(frames).permute(0, 3, 1, 2).contiguous()
        processor = MiniCPMV4_6VideoProcessor(scale_resolution=scale, downsample_mode=mode, max_slice_nums=1)
        about = [metadata((2, 1.0, None), [0, 1])]
        out = processor(videos=[video], video_metadata=about, return_tensors="pt", do_sample_frames=False)
        raw, merge = (out["pixel_values_videos"][0] + 1.0) * 127.5, MiniCPM.merge({"mode": mode})
        raw = raw.view(3, PATCH, -1, PATCH).permute(2, 0, 1, 3).reshape(-1, 3 * PATCH * PATCH)
        grid = torch.tensor([2, *out["target_sizes_videos"][0].tolist()])
        raw = MiniCPM.in_squares(raw, grid.tolist(), merge)
        write_resized(f"minicpmv_{case}", frames, raw, grid, torch.tensor([scale, merge]))


def write_resized(name, frames, raw, grid, limits):
    levels = raw.round()
    assert (raw - levels).abs().max() < 1e-2, "the processor's resize no longer rounds to bytes"
    tensors = {
        "frames": torch.from_numpy(frames),  # [n, h, w, 3] u8
        "levels": levels.to(torch.uint8).contiguous(),  # [patches, patch]
        "grid": grid,  # [3] patches
        "limits": limits,  # Qwen3-VL: pixels of a clip; SmolVLM2: longest edge, side of the square; MiniCPM-V: scale, patches
    }
    save_file(tensors, OUT / "processor" / f"{name}.safetensors")
    print(f"processor {name}: {tuple(frames.shape)} -> {grid.tolist()}")


class Rope:
    """The real positions of Qwen3-VL, without weights."""

    @staticmethod
    def get_rope_index(*args, **kwargs):
        return Rope.model.model.get_rope_index(*args, **kwargs)

    @classmethod
    def load(cls, path):
        config = Qwen3.config.from_pretrained(path, local_files_only=True)
        with torch.device("meta"):
            cls.model = Qwen3.model(config)
        cls.config = config


def main():
    processors = {
        name: family.processor.from_pretrained(OUT / name, local_files_only=True)
        for name, family in {"qwen3_vl": Qwen3, "smolvlm": Smol, "minicpmv4_6": MiniCPM}.items()
    }
    Rope.load(OUT / "qwen3_vl")
    tables = {
        "qwen3_vl": {
            "clips": clip_rows(Qwen3, processors["qwen3_vl"]),
            "sizes": qwen3_sizes(4096, 25_165_824),
            "sizes_of_checkpoint": qwen3_sizes(4096, processors["qwen3_vl"].video_processor.size["longest_edge"]),
        },
        "smolvlm": {
            "clips": clip_rows(Smol, processors["smolvlm"]),
            "sizes": smolvlm_sizes(2048),
            "sizes_of_checkpoint": smolvlm_sizes(4 * PICTURE),
        },
        "minicpmv4_6": {"clips": minicpmv_rows(processors["minicpmv4_6"]), "sizes": minicpmv_sizes()},
        "words": {n: num2words(n) for n in [*range(1, 131), 199, 200, 256, 300, 768, 999, 1000, 1001, 1234, 10000]},
        # one decimal of a number of seconds, halves to even where they are exact
        "seconds": [[s, f"{s:.1f}"] for s in (0.0, 0.05, 0.15, 0.25, 0.35, 0.45, 0.75, 1.25, 2.45, 9.95, 59.95, 3599.95)],
    }
    lines = []
    for name, value in tables.items():
        if isinstance(value, dict) and "clips" in value:
            parts = [f'"{k}": [\n' + ",\n".join(json.dumps(r) for r in v) + "\n]" for k, v in value.items()]
            lines.append(f'"{name}": {{\n' + ",\n".join(parts) + "\n}")
        else:
            lines.append(f'"{name}": {json.dumps(value)}')
    (OUT / "clips.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"clips.json {(OUT / 'clips.json').stat().st_size / 1e3:.0f} kB")
    resized()


if __name__ == "__main__":
    main()
