"""Sizes of the model pairs that can be trained.

`demo` is the pair embedded in the program (minutes to hours on a CPU), with a weak drafter beside the able one; `full` is
the same recipe in a size for an accelerator; `second` is the pair of the second world, whose authors use more words. Every
text width is a multiple of 32, so block quantisation applies to all text matrices.
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
    vocab: int = 768  # 256 bytes, 8 special tokens, the rest merges; a multiple of 32

    @classmethod
    def of(cls, config):
        """The size that a config.json of the hub layout describes."""
        text = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size")
        tower = ("depth", "hidden_size", "num_heads", "intermediate_size")
        sizes = [config[key] for key in text] + [config["vision_config"][key] for key in tower]
        return cls(*sizes, tuple(config["rope_scaling"]["mrope_section"]), config["rope_theta"], config["vocab_size"])

    @property
    def head_dim(self):
        return self.hidden // self.heads

    @property
    def row(self):
        """Multiply-adds of one row of the text decoder and the head, without attention over the cache."""
        attention = 2 * self.hidden * (self.heads + self.kv_heads) * self.head_dim
        return self.layers * (attention + 3 * self.hidden * self.ffn) + self.vocab * self.hidden


PRESETS = {
    "demo-target": Size(8, 320, 5, 1, 864, 3, 160, 5, 352, (8, 12, 12)),
    "demo-drafter": Size(3, 192, 3, 1, 512, 3, 160, 5, 352, (8, 12, 12)),
    "demo-drafter-weak": Size(2, 96, 3, 1, 256, 2, 96, 3, 256, (4, 6, 6)),
    "full-target": Size(16, 320, 5, 1, 864, 4, 256, 8, 704, (8, 12, 12)),
    "full-drafter": Size(3, 192, 3, 1, 512, 3, 128, 4, 352, (8, 12, 12)),
    "second-target": Size(5, 256, 4, 1, 704, 3, 160, 5, 352, (8, 12, 12), vocab=6144),
    "second-drafter": Size(3, 192, 3, 1, 512, 3, 160, 5, 352, (8, 12, 12), vocab=6144),
}

SYSTEM = "You are a helpful assistant."
