"""Start a small model from a large one: the same tower, and what fits of the text decoder.

    python inherit.py demo-drafter --from ../assets/demo/target --out RUN

Everything that flows between the layers of the large model is projected onto its largest principal components. The
embeddings, the tower's last linear layer and all matrices that read or write these states are projected alike; of the
attention heads and of the neurons the strongest are kept; whole layers are left out. The tower's other weights are the
large model's own, so the two presets need towers of one size, and heads of one size.

With `--tokenizer` the small model has another vocabulary: a token starts as the mean of the tokens that spell it for the
large model, or its synonym where the second world states a fact in another word. A model as wide as the large one is not
projected.
"""

import argparse
import pathlib

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from data import Encoder, batches
from evaluate import load
from model import Model
from presets import PRESETS
from tokenizer import SPECIAL


# Words of the second world (crates/scenes/src/world.rs and author.rs), and those of the first that mean the same.
SYNONYMS = dict(
    coal="black", chalk="white", slate="gray", umber="brown", midnight="navy", pistachio="mint", ground="background",
    scarlet="red", tangerine="orange", lemon="yellow", emerald="green", turquoise="cyan", azure="blue", violet="purple", rose="pink",
    disk="circle", wedge="triangle", hoop="ring", plus="cross", tiny="small", middling="medium", huge="large",
    solid="plain", banded="striped", speckled="dotted", heads="slides", leftward="left", rightward="right",
    climbs="rises", sinks="falls", swells="grows", dwindles="shrinks", twirls="spins", lingers="stays",
    west="left", east="right", atop="above", beneath="below", lone="one", twin="two", triple="three",
    figure="shape", figures="shapes", scene="shot", scenes="shots",
)  # fmt: skip


def counterparts(large, small):
    """For every layer of a small model, how many layers of the large one it stands for, counted from the first."""
    return [round((index + 1) * large / small) for index in range(small)]


@torch.inference_mode()
def statistics(model, loader):
    """Covariance of the normalised states (embeddings and after every layer), and mean squares of the inputs of every
    output projection: {name: [features]}."""
    covariance, squares = torch.zeros(model.size.hidden, model.size.hidden), {}

    def watch(name):
        def hook(_, inputs):
            squares[name] = squares.get(name, 0.0) + inputs[0].square().flatten(0, -2).sum(0)

        return hook

    for index, layer in enumerate(model.model.layers):
        layer.self_attn.o_proj.register_forward_pre_hook(watch(f"{index}.heads"))
        layer.mlp.down_proj.register_forward_pre_hook(watch(f"{index}.neurons"))
    for batch in loader:
        start = model.embed(batch)
        real = torch.arange(start.shape[1]) < batch["lengths"][:, None]
        for states in [start, *model.layers(start, batch["positions"])]:
            rows = F.rms_norm(states[real], (states.shape[-1],))
            covariance += rows.T @ rows / len(rows)
    return covariance, squares


def strongest(strength, count):
    return strength.topk(count).indices.sort().values


def project(large, small, down, squares, spelling):
    """Weights of `small` from those of `large`; `down` [large hidden, small hidden] has orthonormal columns."""
    gain = (large.size.hidden / small.size.hidden) ** 0.5  # a root mean square over fewer entries is larger
    weights = {name: value for name, value in large.state_dict().items() if name.startswith("visual.")}
    last = f"visual.merger.mlp.{len(large.visual.merger.mlp) - 1}"
    weights[f"{last}.weight"] = down.T @ weights[f"{last}.weight"]
    weights[f"{last}.bias"] = down.T @ weights[f"{last}.bias"]
    embeddings = large.model.embed_tokens.weight
    rows = embeddings if spelling is None else torch.stack([embeddings[ids].mean(0) for ids in spelling])
    weights["model.embed_tokens.weight"] = rows @ down
    weights["model.norm.weight"] = gain * (down.square() * large.model.norm.weight[:, None]).sum(0)
    dim = small.size.head_dim
    for index, count in enumerate(counterparts(large.size.layers, small.size.layers)):
        source, name = large.model.layers[count - 1], f"model.layers.{index}"
        before = source.input_layernorm.weight[:, None] * down
        after = source.post_attention_layernorm.weight[:, None] * down
        attention, mlp = source.self_attn, source.mlp
        out = attention.o_proj.weight.square().sum(0) * squares[f"{count - 1}.heads"]
        kept = strongest(out.view(-1, dim).sum(1), small.size.heads)
        heads = (kept[:, None] * dim + torch.arange(dim)).flatten()
        neurons = strongest(mlp.down_proj.weight.square().sum(0) * squares[f"{count - 1}.neurons"], small.size.ffn)
        weights |= {
            f"{name}.self_attn.q_proj.weight": attention.q_proj.weight[heads] @ before,
            f"{name}.self_attn.q_proj.bias": attention.q_proj.bias[heads],
            f"{name}.self_attn.k_proj.weight": attention.k_proj.weight @ before,
            f"{name}.self_attn.k_proj.bias": attention.k_proj.bias,
            f"{name}.self_attn.v_proj.weight": attention.v_proj.weight @ before,
            f"{name}.self_attn.v_proj.bias": attention.v_proj.bias,
            f"{name}.self_attn.o_proj.weight": down.T @ attention.o_proj.weight[:, heads],
            f"{name}.mlp.gate_proj.weight": mlp.gate_proj.weight[neurons] @ after,
            f"{name}.mlp.up_proj.weight": mlp.up_proj.weight[neurons] @ after,
            f"{name}.mlp.down_proj.weight": down.T @ mlp.down_proj.weight[:, neurons],
            f"{name}.input_layernorm.weight": torch.full((small.size.hidden,), gain),
            f"{name}.post_attention_layernorm.weight": torch.full((small.size.hidden,), gain),
        }
    return weights


def spellings(large, small):
    """For every token of `small` the tokens of `large` that spell it."""
    special = set(SPECIAL)
    tokens = [small.id_to_token(index) for index in range(small.get_vocab_size())]
    texts = [token if token in special else small.decode([index]) for index, token in enumerate(tokens)]
    texts = [text.replace(word, SYNONYMS.get(word, word)) if (word := text.strip()) else text for text in texts]
    # A part of a character has no text of its own; its byte has the same name in both.
    ids = [large.encode(text, add_special_tokens=False).ids if "\ufffd" not in text else [] for text in texts]
    return [own or [large.token_to_id(token) or 0] for own, token in zip(ids, tokens)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", choices=PRESETS, help="size of the small model")
    parser.add_argument("--from", dest="large", required=True, help="large model: directory in hub layout")
    parser.add_argument("--stream", default="specreel-lab scenes stream", help="command that writes the clips")
    parser.add_argument("--out", required=True, help="directory of the run")
    parser.add_argument("--tokenizer", help="directory of the small model's tokenizer [default: the large model's]")
    parser.add_argument("--clips", type=int, default=256, help="number of clips that the states are measured on")
    parser.add_argument("--first-seed", type=int, default=1_000_000, help="seed of the first clip")
    options = parser.parse_args()

    large, small = load(options.large), Model(PRESETS[options.preset])
    tokenizer, other = (
        Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
        for folder in (options.large, options.tokenizer or options.large)
    )
    encoder, spelling = Encoder(tokenizer), spellings(tokenizer, other) if options.tokenizer else None
    if spelling:  # the vocabulary may be padded to a multiple of 32
        spelling += [[0]] * (small.size.vocab - len(spelling))
    arguments = ["--seed", options.first_seed, "--count", options.clips, "--format", "8x112x112"]
    covariance, squares = statistics(large, batches(encoder, options.stream, arguments, 16))
    values, vectors = torch.linalg.eigh(covariance)
    down = vectors[:, -small.size.hidden :].flip(1)
    if small.size.hidden == large.size.hidden:
        down = torch.eye(small.size.hidden)
    with torch.no_grad():
        small.load_state_dict(project(large, small, down, squares, spelling))
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.save({"preset": options.preset, "model": small.state_dict(), "down": down}, out / "inherit.pt")
    kept = values[-small.size.hidden :].sum() / values.sum()
    print(f"{out}: {small.size.hidden} of {large.size.hidden} components keep {kept:.3f} of the states' variance")
    print(f"a row costs {small.size.row / 1e6:.2f} M multiply-adds, 1/{large.size.row / small.size.row:.1f} of the large model's")


if __name__ == "__main__":
    main()
