"""Autoregressive decoding of a checkpoint with transformers' `generate`, to compare with `specreel-lab bench`.

    python lab/benches/peers/generate.py DIR --visual 64 --tokens 120

prints the decode speed (tokens per second between the first and the last token, prefill taken out by a second run of one
token) in f32 and bf16 on the CPU, the best of three runs each. The context has the size of an embedded clip: the prompt's
text and `--visual` visual tokens of noise.
"""

import argparse
import time

import torch
from transformers import Qwen2_5_VLForConditionalGeneration


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--visual", type=int, default=64, help="visual tokens (a multiple of 16)")
    parser.add_argument("--text", type=int, default=40, help="text tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    for name, dtype in [("f32", torch.float32), ("bf16", torch.bfloat16)]:
        model = Qwen2_5_VLForConditionalGeneration.from_pretrained(args.checkpoint, dtype=dtype).eval()
        # The language model alone decodes; visual tokens are rows of its prompt like any other.
        ids = torch.randint(5, 200, (1, args.text + args.visual))

        def run(tokens: int) -> float:
            start = time.perf_counter()
            with torch.inference_mode():
                out = model.generate(
                    input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens,
                    min_new_tokens=tokens, do_sample=False, repetition_penalty=1.0,
                )
            assert out.shape[1] == ids.shape[1] + tokens
            return time.perf_counter() - start

        run(4)
        best = max((args.tokens - 1) / (run(args.tokens) - run(1)) for _ in range(args.runs))
        print(f"{name}: {best:.1f} tokens/s", flush=True)


if __name__ == "__main__":
    main()
