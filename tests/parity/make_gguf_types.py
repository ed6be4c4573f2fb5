"""Make fixtures/gguf/types.gguf: two rows of random blocks of every quantized type, and their values as the `gguf` package unpacks them.

    python tests/parity/make_gguf_types.py

Needs gguf 0.19 and numpy. Tensor `q4_1` has the blocks of this type, `q4_1.values` its values in f32. The bytes are random, so
every bit counts; scales are random finite numbers, subnormal ones among them.
"""

import pathlib

import gguf
import numpy as np

OUT = pathlib.Path(__file__).parent / "fixtures" / "gguf" / "types.gguf"
# Values of a row, and rows.
WIDTH, ROWS = 256, 2
# Where a block has 16-bit floats.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0], "MXFP4": [],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0],
    "IQ3_S": [0], "IQ3_XXS": [0], "IQ2_S": [0], "IQ2_XS": [0], "IQ2_XXS": [0], "IQ1_S": [0], "IQ1_M": [],
}  # fmt: skip
# The largest exponents of a 16-bit float are infinities: its upper byte has this bit cleared.
FINITE = 0xBF


def blocks(name, random):
    kind = gguf.GGMLQuantizationType[name]
    values, size = gguf.GGML_QUANT_SIZES[kind]
    made = random.integers(0, 256, (ROWS * WIDTH // values, size), dtype=np.uint8)
    for at in HALVES[name]:
        made[:, at + 1] &= FINITE
    if name == "MXFP4":
        # The smallest exponents, and none whose values are not finite.
        made[:, 0] = np.arange(len(made)) * 16
        made[1, 0] = 1
    if name == "IQ1_M":
        # The upper bits of the fourth word are the scale's.
        made[:, 55] &= FINITE
    return kind, made.reshape(ROWS, -1)


def main():
    random = np.random.default_rng(1)
    writer = gguf.GGUFWriter(OUT, "types")
    for name in HALVES:
        kind, made = blocks(name, random)
        values = gguf.quants.dequantize(made, kind)
        assert np.isfinite(values).all() and values.shape == (ROWS, WIDTH), name
        writer.add_tensor(name.lower(), made, raw_dtype=kind)
        writer.add_tensor(name.lower() + ".values", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
