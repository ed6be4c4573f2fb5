//! Quantized weights in safetensors files, as FP8, AWQ, GPTQ, compressed-tensors and MLX write them. They are unpacked to f32 while
//! they are read, exactly as each format defines its values, and then converted as others are.
//!
//! | format | codes | values |
//! |---|---|---|
//! | FP8, INT8 | `weight` `[out, in]` | code · scale; `weight_scale_inv` or `weight_scale` of the tensor, of each row, or of blocks |
//! | AWQ | `qweight` `[in, out/8]`, outputs in the order 0 2 4 6 1 3 5 7 | (code - zero) · scale; `qzeros` `[groups, out/8]`, `scales` `[groups, out]` |
//! | GPTQ | `qweight` `[in/8, out]` | (code - zero) · scale; `qzeros` as zero - 1, except in version 2; `g_idx` `[in]` names each input's group |
//! | compressed-tensors | `weight_packed` `[out, in/8]` | (code - zero) · scale; `weight_scale` `[out, groups]`; zero is 8 without `weight_zero_point` |
//! | MLX | `weight` `[out, in/8]` | code · scale + bias; `scales`, `biases` `[out, groups]` |
//!
//! Widths are for 4 bits; words of 32 bits have the first code in their lowest bits.
//!
//! Sources: vLLM (`fp8.py`, `compressed_tensors`), AutoAWQ (`gemm.py`), AutoGPTQ and GPTQModel (`qlinear`), MLX (`quantize`).

mod config;
mod matrix;
pub(crate) mod unpack;

pub(crate) use self::{
    config::Quantization,
    matrix::{FileTensor, QuantizedMatrix},
};
