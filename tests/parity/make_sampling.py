"""Make `fixtures/sampling.json`: what the sampling controls make of random logits, after transformers.

    pip install torch transformers
    python tests/parity/make_sampling.py [OUT]

Made with transformers 5.24 and torch 2.15 on a CPU, in float64. A case has

    settings         the controls that are on. `logit_bias` is a list of pairs of id and bias. `repetition_window` and
                     `window` of `dry` count tokens from the end of prompt and text; without them all count
    prompt, text     ids before the logits; an id may lie past the vocabulary
    logits           multiples of 1/32, so that float32 has them exactly
    scores           logits after the controls that depend on the history and after the bias, before the temperature
    probabilities    pairs of id and probability, of all ids that can be drawn; not at temperature 0
    token            the id that temperature 0 picks: the highest score, the lowest id of several

`null` is minus infinity, as logit, bias and score. Numbers are rounded to 13 digits.

The order is that of `_get_logits_processor` with processors of one's own at their place: bias, repetition penalty, n-grams,
presence and frequency, DRY, temperature, top k, top p, min p. All but presence, frequency and DRY are the classes of
transformers. DRY follows the description in llama.cpp, on ids; breakers are ids, and no breaker is penalized.

Every case is computed again without torch, in `plain`, DRY there by its definition. Where top p cuts between equal scores,
transformers keeps some or others of them, as torch happens to sort (not stable on more than 16 numbers); here the lower ids
stay, as at temperature 0.
"""

import json
import math
import random
import sys
from pathlib import Path

import torch
from transformers import GenerationConfig, GenerationMixin, LogitsProcessor, PretrainedConfig
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

OUT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "fixtures")
VOCAB, SEED, SEVERAL = 40, 29, 64
NONE = -math.inf
# Of the largest float32; llama.cpp keeps powers of the base below that.
LOG_MAX = 88.7228391
# What is cut and what is kept differ by more than this, or not at all, so that float32 decides alike.
MARGIN = 2e-5


class TooClose(Exception):
    """A cut that rounding could move."""


class Presence(LogitsProcessor):
    """Presence and frequency penalty, over the text alone."""

    def __init__(self, presence, frequency, prompt_length):
        self.presence, self.frequency, self.prompt_length = presence, frequency, prompt_length

    def __call__(self, input_ids, scores):
        text = input_ids[0, self.prompt_length :]
        counts = torch.bincount(text[text < scores.shape[-1]], minlength=scores.shape[-1]).to(scores.dtype)
        return scores - self.presence * (counts > 0) - self.frequency * counts


class Dry(LogitsProcessor):
    """DRY: one pass over the ends of earlier repeats, longest first wins."""

    def __init__(self, multiplier, base, allowed_length, window=None, breakers=()):
        self.multiplier, self.base, self.allowed = multiplier, base, allowed_length
        self.window, self.breakers = window, set(breakers)

    def __call__(self, input_ids, scores):
        ids = input_ids[0].tolist()
        ids = ids if self.window is None else ids[-self.window :]
        since_breaker = next((n for n, token in enumerate(reversed(ids)) if token in self.breakers), len(ids))
        longest = {}
        for end in range(1, len(ids)):
            length = 0
            while length < min(end, since_breaker) and ids[end - 1 - length] == ids[-1 - length]:
                length += 1
            if length >= self.allowed and ids[end] not in self.breakers:
                longest[ids[end]] = max(length, longest.get(ids[end], 0))
        scores = scores.clone()
        for token, length in longest.items():
            if token < scores.shape[-1]:
                scores[0, token] -= self.multiplier * self.base ** min(length - self.allowed, largest_power(self.base))
        return scores


def largest_power(base):
    return int(LOG_MAX / math.log(base)) if base > 1.000001 else math.inf


class Windowed(LogitsProcessor):
    """Another processor, shown the end of the history only."""

    def __init__(self, processor, window):
        self.processor, self.window = processor, window

    def __call__(self, input_ids, scores):
        return self.processor(input_ids[:, -self.window :], scores)


class Model(GenerationMixin):
    """Enough of a model to ask transformers for its processors."""

    config = PretrainedConfig()


def by_history(settings, prompt):
    """Processors of everything before the temperature."""
    if bias := settings.get("logit_bias"):
        yield SequenceBiasLogitsProcessor([[[token], float(value)] for token, value in bias])
    if penalty := settings.get("repetition_penalty"):
        processor, window = RepetitionPenaltyLogitsProcessor(penalty), settings.get("repetition_window")
        yield processor if window is None else Windowed(processor, window)
    if size := settings.get("no_repeat_ngram"):
        yield NoRepeatNGramLogitsProcessor(size)
    if "presence_penalty" in settings or "frequency_penalty" in settings:
        yield Presence(settings.get("presence_penalty", 0.0), settings.get("frequency_penalty", 0.0), len(prompt))
    if dry := settings.get("dry"):
        yield Dry(**dry)


def by_row(settings):
    """Processors from the temperature on."""
    if (temperature := settings.get("temperature", 1.0)) != 1.0:
        yield TemperatureLogitsWarper(temperature)
    if top_k := settings.get("top_k"):
        yield TopKLogitsWarper(top_k)
    if (top_p := settings.get("top_p", 1.0)) < 1.0:
        yield TopPLogitsWarper(top_p)
    if "min_p" in settings:
        yield MinPLogitsWarper(settings["min_p"])


def official(settings, prompt):
    """The same chain as `generate` puts it together, to compare orders; it knows no window."""
    config = GenerationConfig(
        do_sample=settings.get("temperature") != 0,
        temperature=settings.get("temperature", 1.0),
        top_k=settings.get("top_k", 0),
        top_p=settings.get("top_p", 1.0),
        min_p=settings.get("min_p"),
        repetition_penalty=settings.get("repetition_penalty", 1.0),
        no_repeat_ngram_size=settings.get("no_repeat_ngram", 0),
        sequence_bias=[[[token], float(value)] for token, value in settings.get("logit_bias", [])] or None,
        num_beams=1,
    )
    own = [p for p in by_history(settings, prompt) if isinstance(p, (Presence, Dry))]
    return Model()._get_logits_processor(config, input_ids_seq_length=len(prompt), logits_processor=own, device="cpu")


def plain(settings, prompt, text, logits):
    """Scores and probabilities by definition, without torch."""
    history, scores = prompt + text, list(logits)
    for token, bias in settings.get("logit_bias", []):
        scores[token] += bias
    if penalty := settings.get("repetition_penalty"):
        window = settings.get("repetition_window", len(history))
        for token in set(history[max(len(history) - window, 0) :]) & set(range(VOCAB)):
            scores[token] *= penalty if scores[token] < 0 else 1 / penalty
    if size := settings.get("no_repeat_ngram"):
        grams = {tuple(history[i : i + size]) for i in range(len(history) - size + 1)}
        for token in range(VOCAB):
            if tuple(history[len(history) - size + 1 :] + [token]) in grams and len(history) >= size:
                scores[token] = NONE
    for token in range(VOCAB):
        count = text.count(token)
        scores[token] -= settings.get("presence_penalty", 0.0) * (count > 0) + settings.get("frequency_penalty", 0.0) * count
    if dry := settings.get("dry"):
        for token in range(VOCAB):
            length = repeat(history[-dry.get("window", len(history)) :], token, dry.get("breakers", []))
            if length >= dry["allowed_length"]:
                power = min(length - dry["allowed_length"], largest_power(dry["base"]))
                scores[token] -= dry["multiplier"] * dry["base"] ** power
    if settings.get("temperature") == 0:
        for score in scores:
            apart(score, max(scores))
        return scores, None
    kept = [score / settings.get("temperature", 1.0) for score in scores]
    if top_k := settings.get("top_k"):
        least = sorted(kept)[-min(top_k, VOCAB)]
        for score in kept:
            apart(score, least)
        kept = [score if score >= least else NONE for score in kept]
    if (top_p := settings.get("top_p", 1.0)) < 1:
        shares, total = softmax(kept), 0.0
        order = sorted(range(VOCAB), key=lambda token: (kept[token], -token))
        for token in order[:-1]:
            total += shares[token]
            exact = len({score for score in kept if score > NONE}) == 1
            apart(total, 1 - top_p, exact)
            if total <= 1 - top_p:
                kept[token] = NONE
    if min_p := settings.get("min_p"):
        shares = softmax(kept)
        for share in shares:
            apart(share / max(shares), min_p)
        kept = [score if share >= min_p * max(shares) else NONE for score, share in zip(kept, shares)]
    return scores, softmax(kept)


def apart(a, b, exact=False):
    if a != b and not exact and abs(a - b) < MARGIN:
        raise TooClose(f"{a} and {b}")


def repeat(history, token, breakers):
    """The longest end of the history, without breakers, that occurs in it earlier, followed by the token."""
    lengths = [0]
    for length in range(1, len(history)):
        end = history[-length:]
        earlier = any(history[i : i + length] == end and history[i + length] == token for i in range(len(history) - length))
        if earlier and not set(end) & set(breakers) and token not in breakers:
            lengths.append(length)
    return max(lengths)


def softmax(scores):
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    return [power / math.fsum(powers) for power in powers]


def close(a, b):
    return a == b or math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-15)


def case(name, settings, prompt, text, logits):
    """Compute a case with transformers, check it, and give it as it is written."""
    ids = torch.tensor([prompt + text])
    scores = torch.tensor([logits], dtype=torch.float64)
    for processor in by_history(settings, prompt):
        scores = processor(ids, scores)
    final = scores
    greedy = settings.get("temperature") == 0
    for processor in [] if greedy else by_row(settings):
        final = processor(ids, final)
    probabilities = torch.softmax(final, dim=-1)[0].tolist()
    scores, final = scores[0].tolist(), final[0].tolist()
    assert max(scores) > NONE, f"{name}: nothing is left to draw"

    if "repetition_window" not in settings:
        generated = official(settings, prompt)(ids, torch.tensor([logits], dtype=torch.float64))[0].tolist()
        assert all(map(close, final, generated)), f"{name}: another order than that of generate"
    expected_scores, expected = plain(settings, prompt, text, logits)
    assert all(map(close, scores, expected_scores)), f"{name}: scores"
    if not greedy and not all(map(close, probabilities, expected)):
        # The same but for which of equal scores stay.
        assert "top_p" in settings and all(map(close, sorted(probabilities), sorted(expected))), f"{name}: probabilities"
        probabilities = expected

    written = {"name": name, "settings": settings, "prompt": prompt, "text": text, "logits": logits, "scores": scores}
    if greedy:
        return {**written, "token": scores.index(max(scores))}
    return {**written, "probabilities": [[token, p] for token, p in enumerate(probabilities) if p > 0]}


def random_logits(rng, spread=3.0, masked=0.0):
    return [NONE if rng.random() < masked else round(rng.gauss(0, spread) * 32) / 32 for _ in range(VOCAB)]


def random_history(rng, shortest=6):
    """A prompt and a text that repeat themselves, out of few ids."""
    few = rng.sample(range(VOCAB), rng.randint(4, 9))
    ids = [rng.choice(few) for _ in range(rng.randint(shortest, 12))]
    while len(ids) < 16:
        start = rng.randrange(len(ids))
        ids += ids[start : start + rng.randint(2, 6)] if rng.random() < 0.7 else [rng.choice(few)]
    cut = rng.randint(3, len(ids) - 3)
    return ids[:cut], ids[cut:]


def random_settings(rng, prompt, text):
    """Several controls at once."""
    history = {
        "logit_bias": lambda: {"logit_bias": random_bias(rng)},
        "repetition": lambda: {"repetition_penalty": rng.choice([1.05, 1.1, 1.3, 2.0, 0.9])},
        "window": lambda: {"repetition_penalty": rng.choice([1.1, 1.5]), "repetition_window": rng.choice([1, 4, 9, 64])},
        "no_repeat_ngram": lambda: {"no_repeat_ngram": rng.choice([2, 2, 3, 4])},
        "presence": lambda: {"presence_penalty": rng.choice([1.5, 0.5, 2.0, -0.5])},
        "frequency": lambda: {"frequency_penalty": rng.choice([0.25, 0.7, 1.2, -0.3])},
        "dry": lambda: {"dry": random_dry(rng, prompt + text)},
    }
    rows = {
        "temperature": lambda: {"temperature": rng.choice([0.3, 0.6, 0.7, 0.8, 1.3])},
        "top_k": lambda: {"top_k": rng.choice([2, 5, 12, 20, 50])},
        "top_p": lambda: {"top_p": rng.choice([0.5, 0.8, 0.9, 0.95])},
        "min_p": lambda: {"min_p": rng.choice([0.02, 0.05, 0.1, 0.3])},
    }
    settings = {}
    for choices, least in ((history, 1), (rows, 1)):
        for name in sorted(rng.sample(sorted(choices), rng.randint(least, 4))):
            settings.update(choices[name]())
    return settings


def random_bias(rng):
    tokens = sorted(rng.sample(range(VOCAB), rng.randint(1, 4)))
    return [[token, rng.randint(-40, 40) / 8] for token in tokens]


def random_dry(rng, history):
    dry = {
        "multiplier": rng.choice([0.8, 0.5, 1.25]),
        "base": rng.choice([1.75, 1.2, 2.0]),
        "allowed_length": rng.choice([1, 2, 2, 3]),
    }
    if rng.random() < 0.5:
        dry["window"] = rng.choice([5, 8, 12, 64])
    if rng.random() < 0.5:
        dry["breakers"] = sorted(set(rng.sample(history, 2)))
    return dry


def single():
    """One control at a time, and what is special about it."""
    rng = random.Random(SEED)
    prompt, text = [3, 9, 9, 4, 31, 7, 3, 9], [4, 31, 12, 3, 9, 4]
    logits = random_logits(rng)
    for token, logit in {3: 2.5, 4: -1.5, 9: 4.0, 12: 0.0, 31: 3.75, 20: NONE, 21: NONE}.items():
        logits[token] = logit
    tied = [0.0] * VOCAB
    for token, logit in {2: 3.0, 5: 3.0, 11: 3.0, 17: 2.0, 18: 2.0, 19: 2.0, 30: 1.0}.items():
        tied[token] = logit
    flat = [1.5 if token in (6, 13, 14, 33) else NONE for token in range(VOCAB)]
    masked = [NONE if token in (4, 9, 31) else logit for token, logit in enumerate(logits)]

    def on(name, settings, logits=logits, prompt=prompt, text=text):
        return case(name, settings, prompt, text, logits)

    yield on("nothing is on", {})
    for temperature in (0.3, 0.7, 1.7):
        yield on(f"temperature {temperature}", {"temperature": temperature})
    yield on("a temperature next to zero", {"temperature": 1e-6})
    yield on("a temperature next to zero, of equal scores", {"temperature": 1e-6}, tied)
    for top_k in (1, 5, VOCAB, 1000):
        yield on(f"top k {top_k}", {"top_k": top_k})
    yield on("top k keeps all that equal the last", {"top_k": 2}, tied)
    yield on("top k cuts inside of the second group", {"top_k": 4}, tied)
    yield on("top k wants more than there is", {"top_k": 20}, flat)
    for top_p in (0.2, 0.9, 0.99):
        yield on(f"top p {top_p}", {"top_p": top_p})
    yield on("top p keeps one at least", {"top_p": 0.001})
    yield on("top p cuts between equal scores", {"top_p": 0.45}, tied)
    yield on("top p meets a sum exactly", {"top_p": 0.5}, flat)
    yield on("top p keeps three of four that are equal", {"top_p": 0.6}, flat)
    for min_p in (0.0, 0.02, 0.3, 1.0):
        yield on(f"min p {min_p}", {"min_p": min_p})
    yield on("min p 1 keeps all that are the highest", {"min_p": 1.0}, tied)

    for penalty in (1.05, 1.5, 0.8):
        yield on(f"repetition penalty {penalty}", {"repetition_penalty": penalty})
    yield on("repetition penalty on minus infinity", {"repetition_penalty": 1.3}, masked)
    yield on("repetition penalty below 1 on minus infinity", {"repetition_penalty": 0.7}, masked)
    yield on("repetition penalty without a text", {"repetition_penalty": 1.3}, text=[])
    yield on("repetition penalty with ids past the vocabulary", {"repetition_penalty": 1.3}, prompt=[3, VOCAB, 9, VOCAB + 5])
    for window in (1, 3, 8, 100):
        yield on(f"repetition penalty over {window}", {"repetition_penalty": 1.4, "repetition_window": window})
    yield on("presence penalty", {"presence_penalty": 1.5})
    yield on("presence penalty below 0", {"presence_penalty": -0.75})
    yield on("frequency penalty", {"frequency_penalty": 0.6})
    yield on("presence and frequency penalty", {"presence_penalty": 0.5, "frequency_penalty": 0.3})
    yield on("presence and frequency penalty on minus infinity", {"presence_penalty": 0.5, "frequency_penalty": 0.3}, masked)
    yield on("presence and frequency penalty without a text", {"presence_penalty": 0.5, "frequency_penalty": 0.3}, text=[])
    yield on("presence penalty with an id past the vocabulary", {"presence_penalty": 0.5}, text=[4, VOCAB, 4])
    yield on("logit bias", {"logit_bias": [[0, 5.5], [9, -3.25], [20, 4.0], [39, -60.0]]})
    yield on("logit bias of minus infinity", {"logit_bias": [[9, NONE], [20, NONE], [31, 1.0]]})

    for size in (1, 2, 3, 4):
        yield on(f"no {size}-gram twice", {"no_repeat_ngram": size})
    yield on("no n-gram twice, with a history of n tokens", {"no_repeat_ngram": 2}, prompt=[5], text=[5])
    yield on("no n-gram twice, with a shorter history", {"no_repeat_ngram": 4}, prompt=[5], text=[5])
    yield on("no n-gram twice, across prompt and text", {"no_repeat_ngram": 3}, prompt=[1, 8, 2], text=[6, 8, 2, 1, 8])
    yield on("no n-gram twice, with ids past the vocabulary", {"no_repeat_ngram": 2}, prompt=[1, VOCAB, 2], text=[1, VOCAB])

    dry = {"multiplier": 0.8, "base": 1.75, "allowed_length": 2}
    yield on("dry", {"dry": dry})
    yield on("dry with allowed length 1", {"dry": {**dry, "allowed_length": 1}}, prompt=[4, 31, 7, 4, 12, 31, 4, 9])
    yield on("dry below the allowed length", {"dry": {**dry, "allowed_length": 5}})
    yield on("dry with base 1", {"dry": {**dry, "base": 1.0}})
    short = {**dry, "allowed_length": 1}
    yield on("dry: the longest repeat counts", {"dry": short}, prompt=[2, 3, 9, 1, 2, 3, 9, 4, 3, 7], text=[3, 9, 8, 1, 2, 3])
    yield on("dry: one token all along", {"dry": dry}, prompt=[7], text=[7] * 6)
    many = [1, 2, 5, 6, 2, 5, 11, 5, 12, 1, 2, 5, 13, 30, 5, 6, 31]
    yield on("dry: repeats of several lengths", {"dry": short}, prompt=many, text=[1, 2, 5])
    yield on("dry: two tokens all along", {"dry": dry}, prompt=[7, 2], text=[7, 2, 7, 2, 7])
    yield on("dry: a breaker shortens the repeat", {"dry": {**dry, "breakers": [2]}}, prompt=[1, 2, 3, 4, 9], text=[1, 2, 3, 4])
    yield on("dry: the last token is a breaker", {"dry": {**dry, "breakers": [3]}}, prompt=[1, 2, 3, 9], text=[1, 2, 3])
    yield on("dry: a breaker is not penalized", {"dry": {**dry, "breakers": [9]}}, prompt=[1, 2, 3, 9], text=[1, 2, 3])
    yield on("dry over 5", {"dry": {**dry, "window": 5}}, prompt=[1, 2, 3, 9, 1, 2, 3], text=[8, 1, 2])
    yield on("dry over 6", {"dry": {**dry, "window": 6}}, prompt=[1, 2, 3, 9, 1, 2, 3], text=[8, 1, 2])
    steep = {"multiplier": 0.5, "base": 1e6, "allowed_length": 1}
    yield on("dry: the power has a limit", {"dry": steep}, prompt=[7], text=[7] * 10)
    yield on("dry with an id past the vocabulary", {"dry": dry}, prompt=[1, 2, VOCAB, 9, 1, 2, 5], text=[1, 2])


def several():
    rng = random.Random(SEED + 1)
    made = 0
    while made < SEVERAL:
        prompt, text = random_history(rng)
        settings = random_settings(rng, prompt, text)
        logits = random_logits(rng, 1.5, masked=0.1 if made % 4 == 0 else 0.0)
        try:
            drawn = case(f"several {made}", settings, prompt, text, logits)
        except TooClose:
            continue
        if drawn["scores"] != logits and len(drawn["probabilities"]) > 1:
            yield drawn
            made += 1


def greedy():
    """Temperature 0, without and with the controls before it."""
    rng = random.Random(SEED + 2)
    ties = [1.0] * VOCAB
    ties[14] = ties[8] = ties[33] = 2.5
    yield case("greedy, of equal scores", {"temperature": 0}, [1, 2], [3], ties)
    raised = [4.0 if token == 8 else logit for token, logit in enumerate(ties)]
    yield case("greedy, equal after the penalty", {"temperature": 0, "presence_penalty": 1.5}, [1, 2], [8, 8], raised)
    cuts = {"temperature": 0, "top_k": 3, "top_p": 0.4, "min_p": 0.2}
    yield case("greedy: top k, top p and min p change nothing", cuts, [1, 2], [3], ties)
    for number in range(12):
        prompt, text = random_history(rng)
        settings = {"temperature": 0, **random_settings(rng, prompt, text)}
        settings = {**settings, "temperature": 0}
        logits = random_logits(rng, masked=0.1)
        # What was just written is what the model wants again.
        for token in set(text[-4:]):
            logits[token] = 6.0 + token / 32
        yield case(f"greedy {number}", settings, prompt, text, logits)


def plain_json(value):
    """Minus infinity as null, numbers with 13 digits, whole ones as such."""
    if isinstance(value, dict):
        return {key: plain_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_json(item) for item in value]
    if isinstance(value, float):
        return None if value == NONE else float(f"{value:.13g}")
    return value


cases = [*single(), *several(), *greedy()]
assert len({case["name"] for case in cases}) == len(cases)
lines = ",\n".join(json.dumps(plain_json(case), separators=(",", ":")) for case in cases)
path = OUT / "sampling.json"
path.write_text(f'{{"vocabulary":{VOCAB},"cases":[\n{lines}\n]}}\n')
print(f"{path}: {len(cases)} cases, {path.stat().st_size / 1000:.0f} kB")
