"""Export a trained model in the layout of the official Qwen2.5-VL repositories.

    python export.py RUN --tokenizer TOKENIZER --out DIR
"""

import argparse
import os
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from data import TOKENS_PER_SECOND
from presets import PRESETS
from tokenizer import write_json

FACTOR = 28


def config(size, token):
    return {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "attention_dropout": 0.0,
        "bos_token_id": token("<|endoftext|>"),
        "eos_token_id": token("<|im_end|>"),
        "vision_start_token_id": token("<|vision_start|>"),
        "vision_end_token_id": token("<|vision_end|>"),
        "vision_token_id": token("<|vision_pad|>"),
        "image_token_id": token("<|image_pad|>"),
        "video_token_id": token("<|video_pad|>"),
        "hidden_act": "silu",
        "hidden_size": size.hidden,
        "initializer_range": 0.02,
        "intermediate_size": size.ffn,
        "max_position_embeddings": 32768,
        "max_window_layers": size.layers,
        "model_type": "qwen2_5_vl",
        "num_attention_heads": size.heads,
        "num_hidden_layers": size.layers,
        "num_key_value_heads": size.kv_heads,
        "rms_norm_eps": 1e-06,
        "rope_theta": size.rope_theta,
        "sliding_window": 32768,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vision_config": {
            "depth": size.vision_layers,
            "hidden_act": "silu",
            "hidden_size": size.vision_hidden,
            "intermediate_size": size.vision_ffn,
            "num_heads": size.vision_heads,
            "in_chans": 3,
            "out_hidden_size": size.hidden,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "spatial_patch_size": 14,
            "window_size": 112,
            "fullatt_block_indexes": [size.vision_layers - 1],
            "tokens_per_second": TOKENS_PER_SECOND,
            "temporal_patch_size": 2,
        },
        "rope_scaling": {"type": "mrope", "mrope_section": list(size.mrope_section)},
        "vocab_size": size.vocab,
    }


def processors():
    """Processor configurations whose pixel limits give frames of about 112 x 112 pixels."""
    shared = {
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
        "merge_size": 2,
        "patch_size": 14,
        "resample": 3,
        "rescale_factor": 1 / 255,
        "temporal_patch_size": 2,
    }
    least, most = 112 * 112 * 3 // 4, 112 * 112
    image = shared | {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": "Qwen2_5_VLProcessor",
        "min_pixels": least,
        "max_pixels": most,
    }
    video = shared | {
        "video_processor_type": "Qwen2VLVideoProcessor",
        "processor_class": "Qwen2_5_VLProcessor",
        "size": {"shortest_edge": least, "longest_edge": most},
        "fps": 2.0,
        "min_frames": 4,
        "max_frames": 768,
        "do_sample_frames": True,
    }
    return image, video


def export(state, preset, tokenizer_folder, out):
    """Write next to `out`, then swap, so that a reader never sees an incomplete model."""
    out = pathlib.Path(out)
    new = out.with_name(out.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.json"):
        shutil.copy(pathlib.Path(tokenizer_folder) / name, new / name)
    token = Tokenizer.from_file(str(new / "tokenizer.json")).token_to_id
    write_json(new / "config.json", config(PRESETS[preset], token))
    image, video = processors()
    write_json(new / "preprocessor_config.json", image)
    write_json(new / "video_preprocessor_config.json", video)
    generation = {
        "bos_token_id": token("<|endoftext|>"),
        "do_sample": False,
        "eos_token_id": [token("<|im_end|>"), token("<|endoftext|>")],
        "pad_token_id": token("<|endoftext|>"),
        "max_new_tokens": 256,
    }
    write_json(new / "generation_config.json", generation)
    weights = {name: value.to(torch.bfloat16).contiguous() for name, value in state.items()}
    save_file(weights, new / "model.safetensors", metadata={"format": "pt"})
    (new / "model.safetensors").chmod(0o644)
    old = out.with_name(out.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if out.exists():
        os.rename(out, old)
    os.rename(new, out)
    shutil.rmtree(old, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="directory with checkpoint.pt")
    parser.add_argument("--tokenizer", required=True, help="directory of the tokenizer")
    parser.add_argument("--out", required=True, help="directory of the exported model")
    parser.add_argument("--raw", action="store_true", help="export the last weights instead of their running average")
    options = parser.parse_args()
    state = torch.load(pathlib.Path(options.run) / "checkpoint.pt", weights_only=True)
    weights = state["model"] if options.raw else state["average"]
    export(weights, state["preset"], options.tokenizer, options.out)
    print(f"{options.out}: {state['preset']}, {state['step']} steps, {state['clips']} clips")


if __name__ == "__main__":
    main()
