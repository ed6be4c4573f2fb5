"""Make the fixtures of quantized matrices: each format's own layout, and the values that its formula gives in float32.

    python tests/parity/make_quantized.py                 # all of tests/parity/fixtures/quantized

Needs numpy 2.4, safetensors 0.8 and mlx 0.32 (`pip install "mlx[cpu]"`), which packs MLX's matrices. The other layouts are those of
vLLM's readers: AutoAWQ's `gemm`, GPTQ with `g_idx`, version 1 (zeros stored less 1) and 2, compressed-tensors' `pack-quantized`.
"""

import json
import pathlib

import mlx.core as mx
import numpy as np
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).parent / "fixtures" / "quantized"
NAME = "model.layers.0.mlp.up_proj"
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
random = np.random.default_rng(20)


def e4m3(code):
    sign, exponent, mantissa = code >> 7, code >> 3 & 15, code & 7
    value = mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return -value if sign else value


E4M3 = np.array([e4m3(code) for code in range(256)], np.float32)


def pack(codes, bits, order=None):
    """Codes of the last axis as words of 32 bits, the first code in the lowest bits."""
    count = 32 // bits
    codes = codes.reshape(*codes.shape[:-1], -1, count).astype(np.uint32)
    if order:
        codes = codes[..., order]
    return np.bitwise_or.reduce(codes << (np.arange(count, dtype=np.uint32) * bits), axis=-1).view(np.int32)


def scales(*shape, kind=np.float16):
    return random.uniform(0.001, 0.02, shape).astype(kind)


def write(name, config, tensors, expected, kinds=None):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    # `ascontiguousarray` would make a scalar a vector.
    tensors = {f"{NAME}.{key}": np.array(value, order="C") for key, value in tensors.items()}
    save(folder / "model.safetensors", tensors, kinds or {})
    assert expected.dtype == np.float32
    save_file({"expected": np.ascontiguousarray(expected)}, folder / "expected.safetensors")


def save(path, tensors, kinds):
    """As `save_file`, with types that numpy lacks."""
    names = {"float32": "F32", "float16": "F16", "int32": "I32", "uint32": "U32", "int8": "I8", "int64": "I64", "uint8": "U8", "uint16": "U16"}
    header, data = {}, b""
    for key in sorted(tensors):
        value = tensors[key]
        kind = kinds.get(key.removeprefix(f"{NAME}."), names[value.dtype.name])
        header[key] = {"dtype": kind, "shape": value.shape, "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def bf16(values):
    """Bits of values that are rounded to bf16, and the values."""
    bits = (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return bits, (bits.astype(np.uint32) << 16).view(np.float32)


def fp8():
    rows, inputs, block = 40, 96, (16, 40)
    finite = np.array([code for code in range(256) if code & 127 != 127], np.uint8)
    codes = random.choice(finite, (rows, inputs))
    grid = (-(-rows // block[0]), -(-inputs // block[1]))
    bits, wide = bf16(scales(*grid, kind=np.float32))
    spread = wide.repeat(block[0], 0)[:rows].repeat(block[1], 1)[:, :inputs]
    config = {"quant_method": "fp8", "weight_block_size": list(block), "activation_scheme": "dynamic"}
    kinds = {"weight": "F8_E4M3", "weight_scale_inv": "BF16"}
    tensors = {"weight": codes, "weight_scale_inv": bits}
    write("fp8_block", {"quantization_config": config}, tensors, E4M3[codes] * spread, kinds)
    scale = scales(1, kind=np.float32)
    config = {"quant_method": "fp8", "activation_scheme": "static"}
    tensors = {"weight": codes, "weight_scale": scale.reshape(()), "input_scale": scale.reshape(())}
    write("fp8_tensor", {"quantization_config": config}, tensors, E4M3[codes] * scale, kinds)
    scale = scales(rows, 1, kind=np.float32)
    weights = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}
    config = {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": {"weights": weights}}}
    tensors = {"weight": codes, "weight_scale": scale}
    write("fp8_channel", {"quantization_config": config}, tensors, E4M3[codes] * scale, kinds)
    codes = random.integers(-128, 128, (rows, inputs)).astype(np.int8)
    weights = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
    config = {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"group_0": {"weights": weights}}}
    write("int8_channel", {"quantization_config": config}, {"weight": codes, "weight_scale": scale}, codes.astype(np.float32) * scale)


def grouped(bits, rows, groups):
    """Codes `[rows, inputs]`, zeros and scales `[groups, rows]`."""
    inputs = 32 * groups
    high = 1 << bits
    return random.integers(0, high, (rows, inputs)), random.integers(1, high, (groups, rows)), scales(groups, rows)


def values(codes, zeros, scale, order):
    """(code - zero) · scale, with zeros and scales of each input's group."""
    return (codes.astype(np.float32) - zeros[order].T.astype(np.float32)) * scale[order].T.astype(np.float32)


def awq():
    codes, zeros, scale = grouped(4, 24, 3)
    config = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}
    tensors = {"qweight": pack(codes.T, 4, AWQ_ORDER), "qzeros": pack(zeros, 4, AWQ_ORDER), "scales": scale}
    write("awq", {"quantization_config": config}, tensors, values(codes, zeros, scale, np.arange(96) // 32))


def gptq():
    for name, bits, version, permuted in [("gptq", 4, 1, False), ("gptq_order", 4, 1, True), ("gptq_8_v2", 8, 2, False)]:
        codes, zeros, scale = grouped(bits, 24, 3)
        order = np.arange(96) // 32
        if permuted:
            order = random.permutation(order)
        config = {"quant_method": "gptq", "bits": bits, "group_size": 32, "desc_act": permuted, "sym": False}
        if version == 2:
            config["checkpoint_format"] = "gptq_v2"
        tensors = {
            "qweight": pack(codes, bits).T,
            "qzeros": pack(zeros - (1 if version == 1 else 0), bits),
            "scales": scale,
            "g_idx": order.astype(np.int32),
        }
        write(name, {"quantization_config": config}, tensors, values(codes, zeros, scale, order))


def packed():
    order = np.arange(96) // 32
    for name, symmetric in [("packed", True), ("packed_zeros", False)]:
        codes, zeros, scale = grouped(4, 24, 3)
        if symmetric:
            zeros = np.full_like(zeros, 8)
        weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": symmetric}
        config = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {"weights": weights}}}
        tensors = {"weight_packed": pack(codes, 4), "weight_scale": scale.T, "weight_shape": np.array(codes.shape, np.int64)}
        if not symmetric:
            tensors["weight_zero_point"] = pack(zeros, 4).T
        write(name, {"quantization_config": config}, tensors, values(codes, zeros, scale, order))


def mlx():
    for bits in [3, 4, 5, 6, 8]:
        dense = random.normal(0, 0.02, (24, 128)).astype(np.float32)
        words, scale, biases = (np.array(part) for part in mx.quantize(mx.array(dense), group_size=64, bits=bits))
        stream = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").reshape(24, 128, bits)
        codes = (stream * (1 << np.arange(bits))).sum(-1).astype(np.float32)
        expected = codes * scale.repeat(64, 1) + biases.repeat(64, 1)
        theirs = np.array(mx.dequantize(mx.array(words), mx.array(scale), mx.array(biases), group_size=64, bits=bits))
        assert np.allclose(expected, theirs, rtol=1e-6, atol=1e-8)
        tensors = {"weight": words, "scales": scale, "biases": biases}
        # The bits of this module are other than those of most.
        own = {NAME: {"group_size": 64, "bits": bits}} if bits == 6 else {}
        config = {"group_size": 64, "bits": 4 if own else bits} | own
        write(f"mlx_{bits}", {"quantization": config, "quantization_config": config}, tensors, expected)


for make in [fp8, awq, gptq, packed, mlx]:
    make()
