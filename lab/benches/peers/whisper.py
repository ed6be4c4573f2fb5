"""Processor time of speech recognition here and with faster-whisper, in turn, on the same weights.

    cargo build --release -p specreel-speech --example listen
    python lab/benches/peers/whisper.py MODEL CT2_MODEL VIDEO [THREADS [RUNS]]

MODEL is a Whisper model in Hugging Face's layout, CT2_MODEL the same for CTranslate2 (ct2-transformers-converter). Times include the
loading of the model and decoding of the sound. Needs faster-whisper 1.2.
"""

import os
import resource
import statistics
import subprocess
import sys

PEER = """
import sys
from faster_whisper import WhisperModel
model = WhisperModel(sys.argv[1], device="cpu", cpu_threads=int(sys.argv[3]), compute_type="float32")
segments, _ = model.transcribe(sys.argv[2], beam_size=int(sys.argv[4]), condition_on_previous_text=False)
print("\\n".join(segment.text for segment in segments))
"""


def processor_s(command, threads):
    """Seconds of the command in user and system mode, and how many words it wrote."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"SPECREEL_THREADS": threads, "OMP_NUM_THREADS": threads}
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Lines may begin with their times.
    words = sum(len(line.split(": ", 1)[-1].split()) for line in out.splitlines())
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, words


def main():
    model, converted, video, threads, runs = (sys.argv[1:] + ["1", "5"][len(sys.argv) - 4:])[:5]
    peer = [sys.executable, "-c", PEER, converted, video, threads]
    commands = {
        "specreel": ["target/release/examples/listen", model, video],
        "faster-whisper, greedy": [*peer, "1"],
        "faster-whisper, 5 beams": [*peer, "5"],
    }
    times = {name: [] for name in commands}
    for _ in range(int(runs)):
        for name, command in commands.items():
            seconds, words = processor_s(command, threads)
            times[name].append(seconds)
            print(f"{name}: {seconds:.2f} s, {words} words", flush=True)
    for name, all in times.items():
        print(f"{name}: median {statistics.median(all):.2f} s ({min(all):.2f} to {max(all):.2f})")


main()
