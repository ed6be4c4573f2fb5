"""Make the parity fixtures of Gemma 4's assistants: tiny random ones for the targets of `make_gemma4.py`, and what transformers drafts.

    python tests/parity/make_gemma4_assistant.py

Needs what `make_gemma4.py` needs, and its fixtures. Computed in float64 with eager attention. One assistant has an ordered embedding
table with centroids, the other does not.

    <assistant>/…                       a directory in the published layout
    <assistant>/reference.safetensors   the target's final state before the root, and the logits of a chain and of a branch beside it

An assistant drafts after a prompt with a clip and some greedy ids. Layers with a window see the slots that the target's own row would see
there, its own left out: of the target's keys and values the others are cut off, as their number in transformers depends on the pass that
made them.
"""

import json
import math

import make_gemma4 as target
import torch
from make_fixtures import OUT, save_weights, write_json
from make_qwen3_5 import in_double
from safetensors.torch import load_file, save_file
from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM, Gemma4ForConditionalGeneration
from transformers.models.gemma4 import modeling_gemma4

# width, heads, layers, ffn; clusters of the vocabulary, and those that are read
ASSISTANTS = {
    "gemma4_assistant": dict(target="gemma4", seed=91, text=(48, 4, "SSSF", 80), clusters=(29, 5), dtype=torch.bfloat16),
    "gemma4_plain_assistant": dict(target="gemma4_plain", seed=92, text=(24, 2, "SF", 40), clusters=None, dtype=torch.float16),
}
# greedy ids that the target has read after the prompt; the next one is the root
READ, DRAFTS = 9, 5


def settings(spec):
    of = json.loads((OUT / spec["target"] / "config.json").read_text())["text_config"]
    width, heads, kinds, ffn = spec["text"]
    names = {"S": "sliding_attention", "F": "full_attention"}
    own = {
        "final_logit_softcapping": None,
        "hidden_size": width,
        "hidden_size_per_layer_input": 0,
        "intermediate_size": ffn,
        "layer_types": [names[kind] for kind in kinds],
        "num_attention_heads": heads,
        "num_hidden_layers": len(kinds),
        "num_kv_shared_layers": len(kinds),
        "tie_word_embeddings": True,
        "use_double_wide_mlp": False,
        "vocab_size_per_layer_input": 0,
    }
    clusters, read = spec["clusters"] or (2048, 32)
    return {
        "architectures": ["Gemma4AssistantForCausalLM"],
        "backbone_hidden_size": of["hidden_size"],
        "centroid_intermediate_top_k": read,
        "dtype": str(spec["dtype"]).removeprefix("torch."),
        "model_type": "gemma4_assistant",
        "num_centroids": clusters,
        "text_config": of | own,
        "tie_word_embeddings": True,
        "transformers_version": "5.7.0",
        "use_ordered_embeddings": spec["clusters"] is not None,
    }


def weights_of(model, spec):
    generator = torch.Generator().manual_seed(spec["seed"])
    weights = {}
    for name, tensor in sorted(model.state_dict().items()):
        if name == "lm_head.weight":
            continue
        shape = tuple(tensor.shape)
        if name.endswith("token_ordering"):
            weights[name] = torch.randperm(shape[0], generator=generator)
            continue
        noise = torch.randn(shape, generator=generator)
        if name.endswith("layer_scalar"):
            value = 0.8 + 0.1 * noise
        elif len(shape) == 1:
            value = 1.0 + 0.2 * noise
            value = 0.5 * value if name.endswith("q_norm.weight") else value
            value = 3.0 * value if name == "model.norm.weight" else value
        elif "embed_tokens" in name:
            value = 0.3 * noise
        else:
            value = noise / math.sqrt(shape[1])
        weights[name] = value.to(spec["dtype"]).contiguous()
    return weights


def drafts(model, assistant, inputs, ids, root, window):
    """The target's final state before the root, and logits after the root, after each draft, and after the second choice."""
    out = model(
        input_ids=torch.tensor([ids]), use_cache=False, output_hidden_states=True, return_shared_kv_states=True, **inputs
    )
    before = out.hidden_states[-1][:, -1:]
    shared = {kind: tuple(states) for kind, states in out.shared_kv_states.items()}
    assert all(keys.shape[2] == len(ids) for keys, _ in shared.values())
    keys, values = shared["sliding_attention"]
    shared["sliding_attention"] = (keys[:, :, 1 - window :], values[:, :, 1 - window :])
    embed = model.get_input_embeddings()

    def after(token, state):
        rows = torch.cat([embed(torch.tensor([[token]])), state], dim=-1)
        at = torch.tensor([[len(ids)]])
        made = assistant(inputs_embeds=rows, position_ids=at, shared_kv_states=shared, use_cache=False)
        return made.logits[0, -1], made.last_hidden_state

    chain, state, token, first = [], before, root, None
    for _ in range(DRAFTS):
        logits, state = after(token, state)
        first = first if first is not None else (logits.topk(2).indices[1].item(), state)
        chain.append(logits)
        token = int(logits.argmax())
    branch, _ = after(*first)
    best = torch.stack(chain).topk(2, dim=-1).values
    print("drafts", [int(row.argmax()) for row in chain], f"smallest margin {float((best[:, 0] - best[:, 1]).min()):.4f}")
    return before[0, 0], torch.stack(chain), branch


def record(path, spec):
    base = OUT / spec["target"]
    common = dict(dtype=torch.float64, attn_implementation="eager", local_files_only=True)
    model = Gemma4ForConditionalGeneration.from_pretrained(base, **common).eval()
    assistant = Gemma4AssistantForCausalLM.from_pretrained(path, **common).eval()
    known = load_file(base / "frames.safetensors")
    n, h, w = target.NOISE
    squares = known["noise.levels"].reshape(n, h // 3, w // 3, 3, 3, 768).transpose(2, 3)
    place = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing="xy"), dim=-1).reshape(1, h * w, 2)
    inputs = {
        "pixel_values_videos": squares.reshape(n, h * w, 768).double() / 255.0,
        "video_position_ids": place.repeat(n, 1, 1),
        "num_frames_per_video": torch.tensor([n]),
    }
    greedy = known["noise.greedy_ids"].tolist()
    ids = known["noise.input_ids"].tolist() + greedy[:READ]
    window = target.CHECKPOINTS[spec["target"]]["window"]
    with torch.no_grad(), in_double(modeling_gemma4):
        before, chain, branch = drafts(model, assistant, inputs, ids, greedy[READ], window)
    tensors = {
        "before": before.to(torch.float32),  # [target width]
        "chain": chain.to(torch.float32),  # [drafts, vocabulary]
        "branch": branch.to(torch.float32),  # [vocabulary]
    }
    save_file({k: v.contiguous() for k, v in tensors.items()}, path / "reference.safetensors")


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for name, spec in ASSISTANTS.items():
        path = OUT / name
        path.mkdir(parents=True, exist_ok=True)
        config = settings(spec)
        write_json(path / "config.json", config)
        with torch.device("meta"):
            model = Gemma4AssistantForCausalLM(Gemma4AssistantConfig(**json.loads(json.dumps(config))))
        save_weights(path, weights_of(model, spec), None)
        record(path, spec)
    sizes = {name: sum(f.stat().st_size for f in (OUT / name).iterdir()) / 1e6 for name in ASSISTANTS}
    print(" ".join(f"{name} {size:.2f} MB" for name, size in sizes.items()))


if __name__ == "__main__":
    main()
