"""Make the parity fixtures of Qwen3-VL's and Qwen3.5's mixtures of experts: tiny random checkpoints, and what transformers computes with them.

    python tests/parity/make_experts.py [OUT]

Needs the packages of `make_newer_families.py`, whose recording this uses; see there for the files and what is checked, and
`make_qwen3_5.py` for the float64 reference. The experts of a layer are one tensor each, as published (transposed for Qwen3-VL, as
linear layers have them for Qwen3.5), or one tensor for each expert (`split`). Every layer's choice of experts is far from a tie.
"""

import json

import make_newer_families as newer
import make_qwen3_5 as hybrid
import torch
from make_fixtures import OUT, save_weights, write_json
from make_newer_families import Qwen3
from make_qwen3_5 import Qwen35, in_double
from transformers import (
    Qwen3_5MoeConfig,
    Qwen3_5MoeForConditionalGeneration,
    Qwen3VLMoeConfig,
    Qwen3VLMoeForConditionalGeneration,
)
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe
from transformers.models.qwen3_vl_moe import modeling_qwen3_vl_moe

# text: width, heads, kv heads, width of a head, layers, ffn; tower: width, heads, depth, ffn
# experts: number, chosen ones, width, width of the shared one
CHECKPOINTS = {
    "qwen3_vl_moe": dict(
        family="qwen3_vl_moe", seed=811, text=(64, 4, 2, 32, 4, 96), tower=(32, 2, 6, 64), tied=True, vocab=384,
        dtype=torch.bfloat16, grid=(3, 4, 6), table=49, deepstack=[1, 2, 4], eps=1e-4, theta=5000000, side=4,
        experts=(8, 2, 96, None), dense=[1], levels=False,
    ),
    "qwen3_vl_moe_split": dict(
        family="qwen3_vl_moe", seed=822, text=(32, 2, 1, 32, 4, 64), tower=(32, 1, 3, 96), tied=False, vocab=416,
        dtype=torch.float16, grid=(2, 6, 4), table=25, deepstack=[0, 2], eps=1e-3, theta=10000, side=3, shards=2,
        experts=(6, 3, 64, None), step=2, split=True, levels=False,
    ),
    "qwen3_5_moe": dict(
        family="qwen3_5_moe", seed=836, text=(64, 4, 2, 32, 4, 32), linear=(4, 2, 4, 16, 16, 4), tower=(32, 2, 3, 64),
        tied=True, vocab=384, dtype=torch.bfloat16, grid=(2, 4, 6), table=49, eps=1e-4, theta=10000000,
        sections=[2, 1, 1], levels=False, experts=(8, 3, 32, 64),
    ),
    "qwen3_5_moe_untied": dict(
        family="qwen3_5_moe", seed=833, text=(32, 2, 1, 64, 4, 64), linear=(2, 2, 2, 16, 32, 3), tower=(16, 1, 2, 48),
        tied=False, vocab=416, dtype=torch.float16, grid=(2, 4, 4), table=25, eps=1e-3, theta=10000,
        sections=[4, 2, 2], levels=False, shards=2, without_types=True, experts=(5, 2, 64, 32), split=True,
    ),
}  # fmt: skip
# smallest distance between the logits of the last expert that a row takes and the first that it does not
MARGIN = 2e-4


def experts_of(spec):
    experts, chosen, width, shared = spec["experts"]
    settings = {"moe_intermediate_size": width, "num_experts": experts, "num_experts_per_tok": chosen}
    return settings | ({} if shared is None else {"shared_expert_intermediate_size": shared})


def even_experts(weights):
    """Weights of experts as those of linear layers: `weights_of` counts all that follows the first size as inputs."""
    return {name: weight * weight.shape[1] ** 0.5 if weight.dim() == 3 else weight for name, weight in weights.items()}


def router_scale(name):
    return 2.0 if name.endswith("mlp.gate.weight") else None


class Qwen3Experts(Qwen3):
    loading = {"experts_implementation": "eager"}
    model, config, modeling = Qwen3VLMoeForConditionalGeneration, Qwen3VLMoeConfig, modeling_qwen3_vl_moe

    @staticmethod
    def settings(spec, ids):
        config = Qwen3.settings(spec, ids)
        config["architectures"], config["model_type"] = ["Qwen3VLMoeForConditionalGeneration"], "qwen3_vl_moe"
        config["vision_config"]["model_type"] = "qwen3_vl_moe"
        config["text_config"] |= experts_of(spec) | {
            "decoder_sparse_step": spec.get("step", 1),
            "mlp_only_layers": spec.get("dense", []),
            "model_type": "qwen3_vl_moe_text",
            "norm_topk_prob": True,
        }
        return config

    @staticmethod
    def scale(name):
        return router_scale(name) or Qwen3.scale(name)

    @staticmethod
    def names(weights):
        """As published: the experts of a layer are transposed."""
        weights = even_experts(weights)
        return {
            name: weight.transpose(1, 2).contiguous() if weight.dim() == 3 and "experts" in name else weight
            for name, weight in weights.items()
        }


class Qwen35Experts(Qwen35):
    loading = {"experts_implementation": "eager"}
    model, config, modeling = Qwen3_5MoeForConditionalGeneration, Qwen3_5MoeConfig, modeling_qwen3_5_moe

    @staticmethod
    def settings(spec, ids):
        config = Qwen35.settings(spec, ids)
        config["architectures"], config["model_type"] = ["Qwen3_5MoeForConditionalGeneration"], "qwen3_5_moe"
        config["vision_config"]["model_type"] = "qwen3_5_moe"
        del config["text_config"]["intermediate_size"]
        config["text_config"] |= experts_of(spec) | {"model_type": "qwen3_5_moe_text"}
        return config

    @staticmethod
    def scale(name):
        return router_scale(name) or Qwen35.scale(name)

    @staticmethod
    def names(weights):
        return Qwen35.names(even_experts(weights))


def split(weights):
    """One tensor for each matrix of each expert."""
    apart = {}
    for name, weight in weights.items():
        stem, fused, part = name.rpartition(".experts.")
        if not fused:
            apart[name] = weight
            continue
        matrices = [("down_proj", weight)]
        if part == "gate_up_proj":
            matrices = zip(("gate_proj", "up_proj"), weight.chunk(2, dim=1))
        for matrix, of_all in matrices:
            for expert, values in enumerate(of_all):
                apart[f"{stem}.experts.{expert}.{matrix}.weight"] = values.contiguous()
    return apart


def margins(family, seen):
    """Record the smallest margin of every router in `seen`."""
    router = family.modeling.Qwen3VLMoeTextTopKRouter if family is Qwen3Experts else family.modeling.Qwen3_5MoeTopKRouter
    forward = router.forward

    def watched(self, hidden_states):
        result = forward(self, hidden_states)
        best = result[0].topk(self.top_k + 1, dim=-1).values
        seen.append(float((best[..., -2] - best[..., -1]).min()))
        return result

    router.forward = watched


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    newer.FAMILIES |= {"qwen3_vl_moe": Qwen3Experts, "qwen3_5_moe": Qwen35Experts}
    seen = []
    for family in (Qwen3Experts, Qwen35Experts):
        margins(family, seen)
    for name, spec in CHECKPOINTS.items():
        path, family = OUT / name, newer.FAMILIES[spec["family"]]
        config = family.settings(spec, family.write_text(path, family.tokenizer()))
        write_json(path / "config.json", config)
        with torch.device("meta"):
            model = family.model(family.config(**json.loads(json.dumps(config))))
        weights = newer.weights_of(model, family, spec)
        save_weights(path, weights, None)
        seen.clear()
        with in_double(family.modeling):
            newer.record(path, spec, hybrid.long_run if issubclass(family, Qwen35) else None)
            newer.record_frames(path, spec)
        assert min(seen) > MARGIN, f"{name}: a choice of experts is by {min(seen)}"
        print(f"  smallest margin of {len(seen)} choices: {min(seen):.1e}")
        if spec.get("split"):
            # as linear layers have them
            rows = {n: w.transpose(1, 2) if family is Qwen3Experts and "experts" in n else w for n, w in weights.items()}
            (path / "model.safetensors").unlink()
            save_weights(path, split(rows), spec.get("shards"))
    sizes = {name: sum(f.stat().st_size for f in (OUT / name).iterdir()) / 1e6 for name in CHECKPOINTS}
    print(" ".join(f"{name} {size:.2f} MB" for name, size in sizes.items()), f"all {sum(sizes.values()):.2f} MB")


if __name__ == "__main__":
    main()
