"""Sizes of the model pairs that can be trained.

`demo` is the pair embedded in the program (minutes to hours on a CPU); `full` is the same recipe in a size for an
accelerator. Every text width is a multiple of 32, so block quantisation applies to all text matrices.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vision_layers: int
    vision_hidden: int
    vision_heads: int
    vision_ffn: int
    mrope_section: tuple
    rope_theta: float = 10000.0

    @property
    def head_dim(self):
        return self.hidden // self.heads


PRESETS = {
    "demo-target": Size(8, 320, 5, 1, 864, 3, 160, 5, 352, (8, 12, 12)),
    "demo-drafter": Size(2, 96, 3, 1, 256, 2, 96, 3, 256, (4, 6, 6)),
    "full-target": Size(16, 320, 5, 1, 864, 4, 256, 8, 704, (8, 12, 12)),
    "full-drafter": Size(3, 192, 3, 1, 512, 3, 128, 4, 352, (8, 12, 12)),
}

VOCAB_SIZE = 768  # 256 bytes, 8 special tokens, the rest merges; a multiple of 32
SYSTEM = "You are a helpful assistant."
