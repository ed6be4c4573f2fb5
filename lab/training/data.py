"""Samples from `specreel-lab scenes stream`, tokenised and batched.

The layout of the stream is documented in `crates/scenes/src/stream.rs`: length-prefixed JSON header, then raw RGB pixels.
"""

import collections
import json
import queue
import shlex
import struct
import subprocess
import threading

import torch

from presets import SYSTEM

MEAN = torch.tensor([0.48145466, 0.4578275, 0.40821073])
STD = torch.tensor([0.26862954, 0.26130258, 0.27577711])
TOKENS_PER_SECOND = 2


def read_samples(command, arguments):
    """Yield (header, uint8 tensor [T, H, W, 3]) until the stream ends."""
    process = subprocess.Popen(shlex.split(command) + [str(a) for a in arguments], stdout=subprocess.PIPE, bufsize=1 << 20)
    try:
        while True:
            prefix = process.stdout.read(4)
            if len(prefix) < 4:
                return
            header = json.loads(process.stdout.read(struct.unpack("<I", prefix)[0]))
            shape = (header["frames"], header["height"], header["width"], 3)
            size = shape[0] * shape[1] * shape[2] * 3
            pixels = torch.frombuffer(bytearray(process.stdout.read(size)), dtype=torch.uint8).view(shape)
            yield header, pixels
    finally:
        process.kill()
        process.wait()


def patches(pixels):
    """uint8 [B, T, H, W, 3] -> normalised patch rows [B, t, patches, 1176] in the order of the reference processor."""
    b, frames, height, width, _ = pixels.shape
    x = (pixels.float() / 255.0 - MEAN) / STD
    t, h, w = frames // 2, height // 14, width // 14
    x = x.view(b, t, 2, h // 2, 2, 14, w // 2, 2, 14, 3)
    # b t  h/2 w/2 2 2  c 2 14 14
    return x.permute(0, 1, 3, 6, 4, 7, 9, 2, 5, 8).reshape(b, t, h * w, 1176)


def temporal_positions(frames, total_frames, fps):
    """Position of each temporal grid index on the time axis, by the original M-RoPE rule."""
    seconds = 2.0 / (frames / total_frames * fps)
    return [int(index * seconds * TOKENS_PER_SECOND) for index in range(frames // 2)]


class Encoder:
    """Turns headers into token ids, without the visual tokens (which follow `prefix`)."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.prefix = self.ids(f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n<|vision_start|>")
        self.end = tokenizer.token_to_id("<|im_end|>")

    def ids(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def prompt(self, text):
        return self.ids(f"<|vision_end|>{text}<|im_end|>\n<|im_start|>assistant\n")

    def sample(self, header):
        """(prompt ids, answer ids with the end token, 1 where an answer token touches a fact)."""
        if "answer_ids" in header:  # written by a teacher
            return self.prompt(header["prompt"]), header["answer_ids"] + [self.end], [False] * (len(header["answer_ids"]) + 1)
        answer = self.tokenizer.encode(header["answer"], add_special_tokens=False)
        # Offsets are in characters; answers are ASCII, so characters are bytes.
        touches = [
            any(start < stop and end > begin for begin, stop in header["fact_ranges"]) for start, end in answer.offsets
        ]
        return self.prompt(header["prompt"]), answer.ids + [self.end], touches + [False]


def positions(encoder, header, grid, rest):
    """M-RoPE positions [3, L] of prefix, visual tokens and `rest` tokens after them. `grid` is merged (t, h, w)."""
    before = len(encoder.prefix)
    t, h, w = grid
    times = torch.tensor(temporal_positions(header["frames"], header["total_frames"], header["fps"]))
    text = torch.arange(before).expand(3, -1)
    visual = torch.stack(
        [
            times.view(t, 1, 1).expand(t, h, w).flatten(),
            torch.arange(h).view(1, h, 1).expand(t, h, w).flatten(),
            torch.arange(w).view(1, 1, w).expand(t, h, w).flatten(),
        ]
    )
    start = before + int(visual.max()) + 1
    return torch.cat([text, visual + before, torch.arange(start, start + rest).expand(3, -1)], dim=1)


def collate(encoder, samples):
    """Samples of one format -> tensors of one batch, padded on the right (a causal model never attends to the padding)."""
    headers = [header for header, _ in samples]
    encoded = [encoder.sample(header) for header in headers]
    longest = max(len(prompt) + len(answer) for prompt, answer, _ in encoded)
    pixels = torch.stack([pixels for _, pixels in samples])
    grid = (pixels.shape[1] // 2, pixels.shape[2] // 28, pixels.shape[3] // 28)
    visual = grid[0] * grid[1] * grid[2]
    ids = torch.zeros(len(samples), longest, dtype=torch.long)
    labels = torch.full((len(samples), longest), -100)
    facts = torch.zeros(len(samples), longest, dtype=torch.bool)
    lengths = torch.tensor([len(encoder.prefix) + visual + len(prompt) + len(answer) for prompt, answer, _ in encoded])
    for row, (prompt, answer, touches) in enumerate(encoded):
        start, stop = len(prompt), len(prompt) + len(answer)
        ids[row, :stop] = torch.tensor(prompt + answer)
        # Row i predicts token i + 1.
        labels[row, start - 1 : stop - 1] = torch.tensor(answer)
        facts[row, start - 1 : stop - 1] = torch.tensor(touches)
    place = torch.stack([positions(encoder, header, grid, longest) for header in headers], dim=1)
    return {
        "headers": headers,
        "patches": patches(pixels),
        "grid": grid,
        "prefix": torch.tensor(encoder.prefix),
        "visual": visual,
        "ids": ids,
        "labels": labels,
        "facts": facts,
        "lengths": lengths,
        "positions": place,
    }


def batches(encoder, command, arguments, size, group=64, rewrite=None):
    """Batches of `size` samples of one format and similar length: each group is sorted by answer length. Batches of long
    clips are smaller.

    `rewrite` may replace the samples of a group first.
    """
    stream = read_samples(command, [*arguments, "--group", group])
    while True:
        samples = [sample for _, sample in zip(range(group), stream)]
        if not samples:
            return
        if rewrite:
            samples = rewrite(samples)
        samples.sort(key=lambda sample: len(sample[0].get("answer_ids") or sample[0]["answer"]))
        most = min(size, max(4, 16 * size // samples[0][0]["frames"]))
        chunks = [samples[i : i + most] for i in range(0, len(samples), most)]
        for index in torch.randperm(len(chunks)).tolist():
            yield collate(encoder, chunks[index])


def repeat(iterator, uses, most=32):
    """Every item `uses` times, with others between; at most `most` items wait for their next use."""
    waiting = collections.deque()
    for item in iterator:
        yield item
        if uses > 1:
            waiting.append((item, uses - 1))
        for _ in range(uses - 1 if len(waiting) > most else 0):
            item, left = waiting.popleft()
            yield item
            if left > 1:
                waiting.append((item, left - 1))


def prefetch(iterator, depth=6):
    """Run an iterator in a thread, up to `depth` items ahead."""
    line = queue.Queue(depth)
    done, stopped = object(), threading.Event()

    def put(item):
        while not stopped.is_set():
            try:
                return line.put(item, timeout=1.0)
            except queue.Full:
                pass

    def run():
        for item in iterator:
            put(item)
            if stopped.is_set():
                break
        iterator.close()
        put(done)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while (item := line.get()) is not done:
            yield item
    finally:
        stopped.set()
        thread.join()  # a thread inside torch at the interpreter's end would abort it
