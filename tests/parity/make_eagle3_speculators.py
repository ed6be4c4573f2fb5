"""Lay the fixture of `make_eagle3_fixture.py` out as vLLM's speculators write a head: the same head, with the same reference.

    python tests/parity/make_eagle3_speculators.py

Needs safetensors and numpy. Written below `tests/parity/fixtures/eagle3_speculators`:

    config.json, model.safetensors   the layer's keys under `transformer_layer_config`, and its tensors as `layers.0.…`
"""

import json
import pathlib

from safetensors.numpy import load_file, save_file

HERE = pathlib.Path(__file__).parent / "fixtures"
OUT = HERE / "eagle3_speculators"
OUT.mkdir(exist_ok=True)

flat = json.loads((HERE / "eagle3" / "config.json").read_text())
layer = {key: value for key, value in flat.items() if key not in ("architectures", "draft_vocab_size", "eagle_config")}
# Numbers of layers count the embedding as 0.
taps = [number + 1 for number in flat["eagle_config"]["eagle_aux_hidden_state_layer_ids"]]
config = {
    "architectures": ["Eagle3DraftModel"],
    "auto_map": {"": "config.Eagle3SpeculatorConfig"},
    "draft_vocab_size": flat["draft_vocab_size"],
    "eagle_aux_hidden_state_layer_ids": taps,
    "embed_requires_grad": False,
    "fc_norm": False,
    "norm_before_fc": False,
    "norm_before_residual": False,
    "norm_output": False,
    "speculators_config": {
        "algorithm": "eagle3",
        "default_proposal_method": "greedy",
        "proposal_methods": [
            {"accept_tolerance": 0.0, "proposal_type": "greedy", "speculative_tokens": 3, "verifier_accept_k": 1}
        ],
        "verifier": {"architectures": ["Qwen2_5_VLForConditionalGeneration"], "name_or_path": "gqa_untied_f16"},
    },
    "speculators_model_type": "eagle3",
    "target_hidden_size": None,
    "tie_word_embeddings": False,
    "transformer_layer_config": layer,
}
(OUT / "config.json").write_text(json.dumps(config, indent=1) + "\n")
weights = load_file(HERE / "eagle3" / "model.safetensors")
save_file({name.replace("midlayer.", "layers.0."): tensor for name, tensor in weights.items()}, OUT / "model.safetensors")
