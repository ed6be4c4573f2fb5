"""Makes tests/parity/fixtures/whisper: a small Whisper model with random weights, a video with sound, and what transformers
hears in it. Needs torch, transformers, tokenizers, numpy, safetensors and av."""

import json
import pathlib

import av
import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

OUT = pathlib.Path(__file__).parent / "fixtures" / "whisper"
RATE = 16_000
SECONDS = 7


def tokenizer():
    words = [" " + a + b for a in "bdfgklmnprst" for b in ["a", "e", "i", "o", "u", "ai", "ou", "an", "in", "on"]]
    text = [" "] + words + ["."]
    special = ["<|endoftext|>", "<|startoftranscript|>", "<|de|>", "<|en|>", "<|fr|>", "<|translate|>", "<|transcribe|>",
               "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
    times = [f"<|{t * 0.02:.2f}|>" for t in range(1501)]
    vocab = {word.replace(" ", "Ġ"): at for at, word in enumerate(text)}
    made = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(special)
    made.add_tokens(times)
    return made, len(text)


def sound():
    """Tones that change in height and loudness, a pause, and noise."""
    random = np.random.default_rng(5)
    t = np.arange(SECONDS * RATE) / RATE
    wave = 0.4 * np.sin(2 * np.pi * (300 + 200 * np.sin(2 * np.pi * 0.7 * t)) * t) * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t))
    wave += 0.05 * random.standard_normal(t.size)
    wave[int(2.5 * RATE):int(3.2 * RATE)] = 0
    return np.clip(np.round(wave * 32768), -32768, 32767).astype(np.int16)


def video(path, samples):
    with av.open(path, "w") as file:
        pictures = file.add_stream("mpeg4", rate=5)
        pictures.width, pictures.height, pictures.pix_fmt = 64, 48, "yuv420p"
        voice = file.add_stream("flac", rate=RATE)
        voice.layout = "mono"
        for at in range(SECONDS * 5):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 7 * at, np.uint8), format="rgb24")
            file.mux(pictures.encode(frame))
        file.mux(pictures.encode())
        for at in range(0, len(samples), 4096):
            frame = av.AudioFrame.from_ndarray(samples[None, at:at + 4096], format="s16", layout="mono")
            frame.rate, frame.pts = RATE, at
            file.mux(voice.encode(frame))
        file.mux(voice.encode())


def first_window(ids, times):
    """The lines of the first window: transformers goes on behind the last one, with times that go back."""
    last = 0
    for at, id in enumerate(ids):
        if id >= times:
            if id < last:
                ids = ids[:at]
                break
            last = id
    # With the last line comes the time at which an incomplete one begins.
    return ids[:-1] if ids[-2] >= times else ids


def main():
    OUT.mkdir(exist_ok=True)
    made, text = tokenizer()
    made.save(str(OUT / "tokenizer.json"))
    ids = {name: made.token_to_id(name) for name in ["<|endoftext|>", "<|startoftranscript|>", "<|de|>", "<|en|>", "<|fr|>",
           "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]}
    vocab = made.get_vocab_size()
    config = WhisperConfig(
        vocab_size=vocab, num_mel_bins=80, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=1500, max_target_positions=64,
        pad_token_id=ids["<|endoftext|>"], bos_token_id=ids["<|endoftext|>"], eos_token_id=ids["<|endoftext|>"],
        decoder_start_token_id=ids["<|startoftranscript|>"], suppress_tokens=None, begin_suppress_tokens=None)
    torch.manual_seed(3)
    model = WhisperForConditionalGeneration(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "encoder.embed_positions" in name:
                continue
            if weight.dim() > 1:
                weight.normal_(0, {"embed_tokens": 0.3, "embed_positions": 0.3}.get(name.split(".")[-2], 2.0 / weight[0].numel() ** 0.5))
            weight.copy_(weight.half().float())
        # Times are about as likely as words.
        model.model.decoder.embed_tokens.weight[ids["<|notimestamps|>"] + 1:] *= 0.6
        model.model.decoder.embed_tokens.weight.copy_(model.model.decoder.embed_tokens.weight.half().float())
    never = [5, 17] + [ids[name] for name in ["<|startoftranscript|>", "<|de|>", "<|en|>", "<|fr|>", "<|translate|>",
                       "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>"]]
    generation = dict(
        is_multilingual=True, suppress_tokens=never, begin_suppress_tokens=[0, ids["<|endoftext|>"]], max_initial_timestamp_index=50,
        no_timestamps_token_id=ids["<|notimestamps|>"], lang_to_id={f"<|{code}|>": ids[f"<|{code}|>"] for code in ["de", "en", "fr"]},
        task_to_id={"transcribe": ids["<|transcribe|>"], "translate": ids["<|translate|>"]}, eos_token_id=ids["<|endoftext|>"],
        pad_token_id=ids["<|endoftext|>"], decoder_start_token_id=ids["<|startoftranscript|>"], max_length=64)
    model.generation_config = GenerationConfig(**generation)
    model = model.double().eval()
    samples = sound()
    video(str(OUT / "sound.mp4"), samples)
    extractor = WhisperFeatureExtractor(feature_size=80)
    features = extractor(samples.astype(np.float32) / 32768, sampling_rate=RATE, return_tensors="pt").input_features.double()
    start, code = ids["<|startoftranscript|>"], {}
    with torch.no_grad():
        hidden = model.model.encoder(features).last_hidden_state
        first = model(encoder_outputs=(hidden,), decoder_input_ids=torch.tensor([[start]])).logits[0, -1]
        code = {name: float(first[ids[f"<|{name}|>"]]) for name in ["de", "en", "fr"]}
        expected = {}
        for name in ["de", "en"]:
            prompt = [start, ids[f"<|{name}|>"], ids["<|transcribe|>"]]
            written = model.generate(features, language=name, task="transcribe", return_timestamps=True, do_sample=False,
                                     num_beams=1, max_new_tokens=31, return_dict_in_generate=False)[0].tolist()
            written = written[3:] if written[:3] == prompt else written
            logits = model(encoder_outputs=(hidden,), decoder_input_ids=torch.tensor([prompt])).logits[0, -1]
            said = first_window([i for i in written if i != ids["<|endoftext|>"]], ids["<|notimestamps|>"] + 1)
            expected[name] = {"ids": said, "logits": logits[::97].tolist()}
    tensors = {name: weight.half().contiguous() for name, weight in model.state_dict().items()
               if name != "proj_out.weight" and "encoder.embed_positions" not in name}
    save_file(tensors, str(OUT / "model.safetensors"))
    kept = ["vocab_size", "num_mel_bins", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads",
            "decoder_attention_heads", "max_source_positions", "max_target_positions"]
    (OUT / "config.json").write_text(json.dumps({"model_type": "whisper"} | {key: getattr(config, key) for key in kept}, indent=1) + "\n")
    told = ["is_multilingual", "suppress_tokens", "begin_suppress_tokens", "max_initial_timestamp_index"]
    (OUT / "generation_config.json").write_text(json.dumps({key: generation[key] for key in told}, indent=1) + "\n")
    (OUT / "expected.json").write_text(json.dumps({
        "samples": samples[::1001].tolist(), "mel": features[0, ::7, ::50].float().tolist(), "languages": code, "written": expected}) + "\n")
    for name, one in expected.items():
        print(name, len(one["ids"]), one["ids"], "times from", ids["<|notimestamps|>"] + 1)


main()
