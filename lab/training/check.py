"""Compare an exported model with transformers' implementation on one clip.

    python check.py DIR

Positions are passed explicitly: later versions of transformers changed the time axis of M-RoPE; these models use the
original one (4.49).
"""

import argparse
import pathlib

import torch
from tokenizers import Tokenizer
from transformers import Qwen2_5_VLForConditionalGeneration

from data import Encoder, collate, read_samples
from evaluate import load


def reference(folder):
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="directory of the exported model")
    parser.add_argument("--stream", default="specreel-lab scenes stream", help="command that writes the clips")
    parser.add_argument("--formats", nargs="+", default=["8x112x112", "8x84x140", "4x224x224"], help="frames x height x width")
    options = parser.parse_args()
    ours, theirs = load(options.model), reference(options.model)
    tokenizer = Tokenizer.from_file(str(pathlib.Path(options.model) / "tokenizer.json"))
    encoder, pad = Encoder(tokenizer), tokenizer.token_to_id("<|video_pad|>")
    for form in options.formats:
        samples = list(read_samples(options.stream, ["--seed", 5, "--count", 1, "--format", form]))
        batch = collate(encoder, samples)
        mine = ours.logits(ours.decode(ours.embed(batch), batch["positions"]))
        t, h, w = batch["grid"]
        video = torch.full((1, t * h * w), pad)
        ids = torch.cat([batch["prefix"][None], video, batch["ids"]], dim=1)
        other = theirs(
            input_ids=ids,
            position_ids=batch["positions"],
            pixel_values_videos=batch["patches"].reshape(-1, 1176),
            video_grid_thw=torch.tensor([[t, 2 * h, 2 * w]]),
            use_cache=False,
        ).logits
        same = (mine.argmax(-1) == other.argmax(-1)).float().mean()
        print(f"{form}: largest difference {(mine - other).abs().max():.2e}, same most likely token {same:.4f}")


if __name__ == "__main__":
    main()
