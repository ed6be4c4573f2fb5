"""Make `fixtures/ggml_errors.csv`: the errors of weights that ggml's quantizers leave, which ours must not exceed.

    python tests/parity/make_ggml_errors.py LIBRARY [OUT]

LIBRARY is ggml's `libggml-base.so`, here of llama-cpp-python 0.3.36 (ggml 0.25.3): in its source package, remove
`vendor/llama.cpp/.git`, then `cmake -B build vendor/llama.cpp && cmake --build build --target ggml`. Needs numpy 2.

An error is the sum of squared differences over the sum of squares of a set's values. A row has those of a type on a set by
`quantize_row_*_ref` (which searches for some types only), by `ggml_quantize_chunk`, and by `ggml_quantize_chunk` with an
importance of one for every value, which searches for all types.
"""

import ctypes
import json
import math
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
# Name, number, values and bytes of a block.
TYPES = [
    ("q8_0", 8, 32, 34),
    ("q6_K", 14, 256, 210),
    ("q5_1", 7, 32, 24),
    ("q5_K", 13, 256, 176),
    ("q5_0", 6, 32, 22),
    ("q4_1", 3, 32, 20),
    ("q4_K", 12, 256, 144),
    ("iq4_nl", 20, 32, 18),
    ("q4_0", 2, 32, 18),
    ("q3_K", 11, 256, 110),
]
COUNT, ROW = 1 << 14, 2048
MASK = (1 << 64) - 1


class Random:
    """xorshift64, and what is made of it without functions that differ between libraries."""

    def __init__(self):
        self.state = 0x9E3779B97F4A7C15

    def uniform(self):
        s = self.state
        s ^= s << 13 & MASK
        s ^= s >> 7
        s ^= s << 17 & MASK
        self.state = s
        return (s >> 40) / (1 << 24)

    def gaussian(self):
        return sum(self.uniform() for _ in range(12)) - 6.0


def sets():
    r = Random()
    g = r.gaussian
    yield "gaussian", [0.02 * g() for _ in range(COUNT)]
    yield "laplace", [0.02 * (g() * g() + g() * g()) for _ in range(COUNT)]
    yield "heavy", [0.02 * g() / math.sqrt((g() ** 2 + g() ** 2 + g() ** 2) / 3.0) for _ in range(COUNT)]
    yield "outliers", [0.02 * g() * (20.0 if i % 97 == 0 else 1.0) for i in range(COUNT)]
    yield "shifted", [0.05 + 0.02 * g() for _ in range(COUNT)]
    # Integers from 0 to 15 with a scale and an offset for each 32.
    grid = []
    for _ in range(COUNT // 32):
        scale = 0.001 + 0.004 * r.uniform()
        offset = -scale * (6.0 + 3.0 * r.uniform())
        grid += [scale * min(max(math.floor(8.0 + 3.0 * g()), 0), 15) + offset for _ in range(32)]
    yield "grid", grid
    yield "trained", embeddings(HERE / "../../assets/demo/target/model.safetensors")


def embeddings(path):
    data = path.read_bytes()
    header = 8 + int.from_bytes(data[:8], "little")
    start, end = json.loads(data[8:header])["model.embed_tokens.weight"]["data_offsets"]
    # The upper halves of f32.
    bits = np.frombuffer(data[header + start : header + end], dtype="<u2")
    return (bits.astype(np.uint32) << 16).view(np.float32)


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else HERE / "fixtures/ggml_errors.csv"
    lines = ["type,set,reference,chunk,chunk with importance"]
    for name, values in sets():
        x = np.ascontiguousarray(values, dtype=np.float32)
        pointer = lambda array: array.ctypes.data_as(ctypes.c_void_p)
        count, rows = ctypes.c_int64(x.size), ctypes.c_int64(x.size // ROW)
        for kind, number, block, size in TYPES:
            quantized = np.zeros(x.size // block * size, dtype=np.uint8)
            widened = np.zeros_like(x)

            def error():
                getattr(library, f"dequantize_row_{kind}")(pointer(quantized), pointer(widened), count)
                left = x.astype(np.float64) - widened
                return (left**2).sum() / (x.astype(np.float64) ** 2).sum()

            def chunk(importance):
                zero, row = ctypes.c_int64(0), ctypes.c_int64(ROW)
                library.ggml_quantize_chunk(number, pointer(x), pointer(quantized), zero, rows, row, importance)
                return error()

            getattr(library, f"quantize_row_{kind}_ref")(pointer(x), pointer(quantized), count)
            errors = [error(), chunk(None), chunk(pointer(np.ones(ROW, dtype=np.float32)))]
            lines.append(",".join([kind.lower(), name] + [f"{value:.7e}" for value in errors]))
    out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
