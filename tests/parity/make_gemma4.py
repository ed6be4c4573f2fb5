"""Make the parity fixtures of Gemma 4: tiny random checkpoints, and what transformers computes with them.

    python tests/parity/make_gemma4.py [OUT]

Needs torch, torchvision, transformers 5.24 or newer, safetensors and pillow. Seeded, on the CPU, computed in float64 with eager
attention, stored in float32. One checkpoint has what E2B and E4B have: layers that share keys and values, embeddings for each layer,
bounded logits, and bounds in the tower; the other has none of these. `fixtures/decoded.safetensors` is made as for `make_families.py`.

    <checkpoint>/…                      a directory in the published layout
    <checkpoint>/frames.safetensors     from decoded frames to greedy ids by the family's own processor, see `record`
    gemma4.json                         frames that are sampled, and sizes of frames
"""

import json
import math
import pathlib

import torch
from make_fixtures import OUT, save_weights, write_json
from make_qwen3_5 import in_double
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import Gemma4Config, Gemma4ForConditionalGeneration, Gemma4Processor
from transformers.models.gemma4 import modeling_gemma4
from transformers.models.gemma4.video_processing_gemma4 import get_aspect_ratio_preserving_size
from transformers.video_utils import VideoMetadata, default_sample_indices_fn

PROMPT = "what moves?"
WORDS = [
    "a red ball moves to the left and a blue square moves to the right",
    "the small green ball stands still while the large square falls",
    "00:00 00:01 00:14 01:12 12:59 user model thought system",
    "what moves? the ball moves. You are a helpful assistant.",
] * 4
FIRST = ["<pad>", "<eos>", "<bos>", "<unk>"]
MARKS = ["<|think|>", "<|channel>", "<channel|>", "<|turn>", "<turn|>", "<|image>", "<|audio>", "<|image|>", "<|audio|>"]
MARKS += ["<image|>", "<audio|>", "<|video|>"]
LEARNED = 330

# text: width, heads, kv heads, width of a head (sliding, all), layers, ffn; tower: width, heads, layers, ffn
CHECKPOINTS = {
    "gemma4": dict(
        seed=611, text=(64, 4, 2, (16, 32), 8, 96), tower=(32, 2, 3, 48), tied=True, dtype=torch.bfloat16, window=7, shared=4,
        types="SSFSSFSF", added=8, wide=True, cap=30.0, bounded=True, table=72, eps=1e-3, theta=(10000.0, 1000000.0), budget=70,
    ),
    "gemma4_plain": dict(
        seed=722, text=(32, 2, 1, (32, 16), 6, 64), tower=(32, 1, 2, 64), tied=False, dtype=torch.float16, window=5, shared=0,
        types=None, added=0, wide=False, cap=None, bounded=False, table=80, eps=1e-4, theta=(500.0, 10000.0), budget=140, shards=2,
    ),
}  # fmt: skip


def make_tokenizer():
    """Pieces of words that begin with a mark for a blank, and bytes for what they lack, as published."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    trainer = trainers.BpeTrainer(vocab_size=LEARNED - 256, special_tokens=FIRST, show_progress=False)
    tokenizer.train_from_iterator(WORDS, trainer)
    settings = json.loads(tokenizer.to_str())
    vocab = settings["model"]["vocab"]
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = len(vocab)
    tokenizer = Tokenizer.from_str(json.dumps(settings))
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in MARKS])
    return tokenizer


TOKENIZER = make_tokenizer()


def id_of(token):
    return TOKENIZER.token_to_id(token)


def write_text(path, spec):
    path.mkdir(parents=True, exist_ok=True)
    (path / "tokenizer.json").write_text(TOKENIZER.to_str(pretty=False))
    named = {"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>", "audio_token": "<|audio|>"}
    named |= {"boa_token": "<|audio>", "eoa_token": "<audio|>", "eot_token": "<turn|>", "sot_token": "<|turn>"}
    text = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    text |= {"clean_up_tokenization_spaces": False, "model_max_length": 131072, "tokenizer_class": "GemmaTokenizer"}
    write_json(path / "tokenizer_config.json", text | named | {"extra_special_tokens": named})
    template = pathlib.Path(__file__).parent / "fixtures" / "published" / "templates" / "gemma4.jinja"
    (path / "chat_template.jinja").write_text(template.read_text())
    ends = {"bos_token_id": id_of("<bos>"), "eos_token_id": [id_of("<eos>"), id_of("<turn|>")]}
    ends |= {"pad_token_id": id_of("<pad>"), "do_sample": True, "top_k": 64, "top_p": 0.95, "temperature": 1.0}
    write_json(path / "generation_config.json", ends | {"transformers_version": "5.5.0"})
    common = {
        "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": [0.0] * 3,
        "image_std": [1.0] * 3, "patch_size": 16, "pooling_kernel_size": 3, "resample": 3,
        "rescale_factor": 0.00392156862745098,
    }  # fmt: skip
    video = {"max_soft_tokens": spec["budget"], "num_frames": 32, "do_sample_frames": True}
    write_json(
        path / "processor_config.json",
        {
            "feature_extractor": {"feature_extractor_type": "Gemma4AudioFeatureExtractor"},
            "image_processor": common | {"image_processor_type": "Gemma4ImageProcessor", "max_soft_tokens": 280},
            "image_seq_length": 280,
            "processor_class": "Gemma4Processor",
            "video_processor": common | video | {"video_processor_type": "Gemma4VideoProcessor"},
        },
    )


def settings(spec):
    width, heads, kv_heads, (sliding, full), layers, ffn = spec["text"]
    tower_width, tower_heads, depth, tower_ffn = spec["tower"]
    vocab = TOKENIZER.get_vocab_size() + 6
    names = {"S": "sliding_attention", "F": "full_attention"}
    types = {} if spec["types"] is None else {"layer_types": [names[kind] for kind in spec["types"]]}
    cap = {} if spec["cap"] is None else {"final_logit_softcapping": spec["cap"]}
    local, all_slots = spec["theta"]
    return {
        "architectures": ["Gemma4ForConditionalGeneration"],
        "audio_config": None,
        "audio_token_id": id_of("<|audio|>"),
        "boi_token_id": id_of("<|image>"),
        "eoi_token_id": id_of("<image|>"),
        "image_token_id": id_of("<|image|>"),
        "model_type": "gemma4",
        "text_config": {
            "attention_bias": False,
            "attention_k_eq_v": False,
            "dtype": str(spec["dtype"]).removeprefix("torch."),
            "enable_moe_block": False,
            "global_head_dim": full,
            "head_dim": sliding,
            "hidden_activation": "gelu_pytorch_tanh",
            "hidden_size": width,
            "hidden_size_per_layer_input": spec["added"],
            "intermediate_size": ffn,
            "max_position_embeddings": 131072,
            "model_type": "gemma4_text",
            "num_attention_heads": heads,
            "num_global_key_value_heads": None,
            "num_hidden_layers": layers,
            "num_key_value_heads": kv_heads,
            "num_kv_shared_layers": spec["shared"],
            "pad_token_id": id_of("<pad>"),
            "rms_norm_eps": spec["eps"],
            "rope_parameters": {
                "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": all_slots, "rope_type": "proportional"},
                "sliding_attention": {"rope_theta": local, "rope_type": "default"},
            },
            "sliding_window": spec["window"],
            "tie_word_embeddings": spec["tied"],
            "use_bidirectional_attention": None,
            "use_double_wide_mlp": spec["wide"],
            "vocab_size": vocab,
            "vocab_size_per_layer_input": vocab,
        }
        | types
        | cap,
        "tie_word_embeddings": spec["tied"],
        "transformers_version": "5.5.0",
        "video_token_id": id_of("<|video|>"),
        "vision_config": {
            "head_dim": tower_width // tower_heads,
            "hidden_activation": "gelu_pytorch_tanh",
            "hidden_size": tower_width,
            "intermediate_size": tower_ffn,
            "model_type": "gemma4_vision",
            "num_attention_heads": tower_heads,
            "num_hidden_layers": depth,
            "num_key_value_heads": tower_heads,
            "patch_size": 16,
            "pooling_kernel_size": 3,
            "position_embedding_size": spec["table"],
            "rms_norm_eps": spec["eps"],
            "rope_parameters": {"rope_theta": 100.0, "rope_type": "axial"},
            "standardize": False,
            "use_clipped_linears": spec["bounded"],
        },
    }


def weights_of(model, spec):
    """Random weights, scaled so that every layer, every norm's `eps` and every bound matters."""
    generator = torch.Generator().manual_seed(spec["seed"])
    weights, tensors = {}, dict(model.named_parameters()) | dict(model.named_buffers())
    saved = set(model.state_dict())
    for name, parameter in sorted(tensors.items()):
        if name not in saved or (name == "lm_head.weight" and spec["tied"]):
            continue
        shape = tuple(parameter.shape)
        noise = torch.randn(shape, generator=generator)
        if name.endswith(("_min", "_max")):
            value = (1.2 + 0.3 * noise.abs()) * (-1.0 if name.endswith("_min") else 1.0)
        elif name.endswith("layer_scalar"):
            value = 0.8 + 0.1 * noise
        elif len(shape) == 1:
            value = 1.0 + 0.2 * noise
            if "language_model" in name and name.endswith(("q_norm.weight", "k_norm.weight")):
                # attention is not scaled: less, or rounding would grow from layer to layer
                value = 0.5 * value
            if spec["tied"] and name.endswith("language_model.norm.weight"):
                value = 8.0 * value
        elif "embed_tokens" in name:
            value = 0.1 * noise
        elif "position_embedding_table" in name:
            value = 0.5 * noise
        else:
            value = noise / math.sqrt(math.prod(shape[1:]))
        if name == "lm_head.weight":
            value = 2.0 * value
        if name == "lm_head.weight" or name.endswith("embed_tokens.weight"):
            # neither the clip's placeholder nor padding is ever the best token
            value[id_of("<|video|>")] *= 0.01
            value[TOKENIZER.get_vocab_size() :] *= 0.01
        weights[name] = value.to(spec["dtype"]).contiguous()
    # matrices that are computed together have inputs of the same bounds
    for name in list(weights):
        for kind in ("input_min", "input_max"):
            if name.endswith(kind):
                for other, first in (("k_proj", "q_proj"), ("v_proj", "q_proj"), ("up_proj", "gate_proj")):
                    if f".{other}." in name:
                        weights[name] = weights[name.replace(other, first)].clone()
    return weights


def single(tensors):
    return {k: (v.to(torch.float32) if v.dtype == torch.float64 else v).contiguous() for k, v in tensors.items()}


# Patches of frames of noise, and indices into the two decoded frames, with the frame numbers of a 24 fps source that they stand for.
NOISE, TIMES, LENGTH = (3, 6, 9), [0, 30, 1800], 1801
ORDER, NUMBERS, TOTAL = [0, 1, 1, 0], [0, 30, 61, 1800], 1801


def greedy(model, inputs, input_ids, length=16):
    """Greedy ids after a prompt, end tokens ignored, and their rows of log-probabilities, with and without a cache."""
    ids, rows = [], []
    out = model(input_ids=torch.tensor([input_ids]), use_cache=True, **inputs)
    for _ in range(length):
        rows.append(torch.log_softmax(out.logits[0, -1].double(), -1))
        ids.append(int(rows[-1].argmax()))
        out = model(input_ids=torch.tensor([ids[-1:]]), cache=out.cache, use_cache=True)
    logprobs = torch.stack(rows)
    assert max(ids) < TOKENIZER.get_vocab_size() and id_of("<|video|>") not in ids
    whole = model(input_ids=torch.tensor([input_ids + ids[:-1]]), use_cache=False, **inputs)
    again = torch.log_softmax(whole.logits[0, -length:].double(), -1)
    assert (again - logprobs).abs().max() < 1e-5 and again.argmax(-1).tolist() == ids, (again - logprobs).abs().max()
    best = logprobs.topk(2, dim=-1).values
    return ids, logprobs, float((best[:, 0] - best[:, 1]).min())


def record(path, spec):
    model = Gemma4ForConditionalGeneration.from_pretrained(
        path, dtype=torch.float64, attn_implementation="eager", local_files_only=True
    ).eval()
    processor = Gemma4Processor.from_pretrained(path, local_files_only=True)
    messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": PROMPT}]}]
    text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    with torch.no_grad(), in_double(modeling_gemma4):
        tensors = of_noise(model, text, spec) | of_frames(model, processor, text)
    save_file(tensors, path / "frames.safetensors")


def case(name, model, inputs, input_ids, numbers, total, grid):
    """What is known of a run."""
    seen = torch.cat(model.model.get_video_features(**inputs, return_dict=True).pooler_output)
    ids, logprobs, margin = greedy(model, inputs, input_ids)
    print(f"{name}: {grid}, L={len(input_ids)}, greedy={ids} smallest margin={margin:.4f}")
    tensors = {
        "timestamps": torch.tensor(numbers, dtype=torch.float64) / 24,  # [n] seconds
        "duration": torch.tensor([total / 24], dtype=torch.float64),  # [1] seconds
        "grid": torch.tensor(grid),  # [3] patches t, h, w
        "input_ids": torch.tensor(input_ids),  # [L]
        "position_ids": torch.arange(len(input_ids)).expand(3, -1),  # [3, L]
        "next_position": torch.tensor([len(input_ids)]),  # [1]
        "visual_embeds": seen.to(torch.float32),  # [visual rows, d]
        "greedy_ids": torch.tensor(ids),  # [16]
        "greedy_logprobs": logprobs[:8].to(torch.float32),  # [8, vocabulary]
    }
    return {f"{name}.{k}": v.contiguous() for k, v in tensors.items()}


def in_squares(rows, n, h, w):
    """Patches line by line, as frames are cut here: square by square of one visual token."""
    return rows.reshape(n, h // 3, 3, w // 3, 3, 768).transpose(2, 3).reshape(n * h * w, 768)


def of_noise(model, text, spec):
    """Random levels, without a processor."""
    n, h, w = NOISE
    generator = torch.Generator().manual_seed(1000 + spec["seed"])
    rows = torch.randint(0, 256, (n * h * w, 768), generator=generator, dtype=torch.uint8)
    place = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing="xy"), dim=-1).reshape(1, h * w, 2)
    inputs = {
        "pixel_values_videos": rows.double().view(n, h * w, 768) / 255.0,
        "video_position_ids": place.repeat(n, 1, 1),
        "num_frames_per_video": torch.tensor([n]),
    }
    pads = "<|video|>" * (h * w // 9)
    clip = " ".join(f"{i // 24 // 60:02}:{i // 24 % 60:02} <|image>{pads}<image|>" for i in TIMES)
    input_ids = TOKENIZER.encode(text.replace("<|video|>", clip), add_special_tokens=False).ids
    levels = in_squares(rows, n, h, w).contiguous()  # [patches, patch]
    return {"noise.levels": levels} | case("noise", model, inputs, input_ids, TIMES, LENGTH, NOISE)


def of_frames(model, processor, text):
    """Decoded frames, by the family's own processor."""
    decoded = load_file(OUT / "decoded.safetensors")["frames"]
    clip = decoded[ORDER].permute(0, 3, 1, 2).contiguous()
    metadata = VideoMetadata(total_num_frames=TOTAL, fps=24.0, duration=TOTAL / 24, frames_indices=list(NUMBERS))
    out = processor(
        text=[text], videos=[clip], video_metadata=[[metadata]], do_sample_frames=False, return_tensors="pt",
        add_special_tokens=False,
    )  # fmt: skip
    names = ("pixel_values_videos", "video_position_ids", "num_frames_per_video")
    inputs = {k: v.double() if v.is_floating_point() else v for k, v in out.items() if k in names}
    place = inputs["video_position_ids"][0]
    valid = (place != -1).all(-1)
    w, h = (place[valid].max(0).values + 1).tolist()
    raw = in_squares(inputs["pixel_values_videos"][:1, valid] * 255.0, 1, h, w)
    assert (raw - raw.round()).abs().max() < 1e-2, "the processor's resize no longer rounds to bytes"
    # the first frame alone
    own = {"whole.order": torch.tensor(ORDER)}
    if h < 30:
        own["whole.levels"] = raw.round().to(torch.uint8).contiguous()
    grid = [len(ORDER), h, w]
    return own | case("whole", model, inputs, out["input_ids"][0].tolist(), NUMBERS, TOTAL, grid)


# height and width of frames
SIZES = [
    (720, 1280), (1080, 1920), (1920, 1080), (480, 640), (360, 202), (2160, 3840), (224, 224), (96, 96), (97, 95), (48, 48),
    (31, 33), (14, 14), (100, 37), (1, 1), (2, 3), (512, 512), (2048, 1000), (5000, 300), (30, 3000), (3000, 30), (10, 1200),
]  # fmt: skip
COUNTS = [32, 33, 47, 63, 64, 65, 100, 240, 1801, 86314]


def tables():
    sizes = [
        [h, w, budget, *get_aspect_ratio_preserving_size(h, w, 16, budget * 9, 3)]
        for h, w in SIZES
        for budget in (70, 280, 1120)
    ]
    sampled = {}
    for total in COUNTS:
        metadata = VideoMetadata(total_num_frames=total, fps=24.0, duration=total / 24)
        sampled[total] = default_sample_indices_fn(metadata, num_frames=32).tolist()
    write_json(OUT / "gemma4.json", {"sampled": sampled, "sizes": sizes})


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for name, spec in CHECKPOINTS.items():
        path = OUT / name
        write_text(path, spec)
        config = settings(spec)
        write_json(path / "config.json", config)
        with torch.device("meta"):
            model = Gemma4ForConditionalGeneration(Gemma4Config(**json.loads(json.dumps(config))))
        save_weights(path, weights_of(model, spec), spec.get("shards"))
        record(path, spec)
    tables()
    sizes = {name: sum(f.stat().st_size for f in (OUT / name).iterdir()) / 1e6 for name in CHECKPOINTS}
    print(" ".join(f"{name} {size:.2f} MB" for name, size in sizes.items()))


if __name__ == "__main__":
    main()
