//! Sizes of well-known language models, and random weights for them, to measure passes without a download.

use std::hash::{DefaultHasher, Hash, Hasher};

use rayon::prelude::*;

use super::config::TextConfig;

/// Values that one thread generates at a time.
const CHUNK: usize = 1 << 16;

/// Names and sizes from their `config.json`: hidden, layers, heads, key heads, head width, feed-forward, vocabulary, tied.
#[rustfmt::skip]
const SHAPES: [(&str, [usize; 7], bool); 8] = [
    ("qwen2.5-vl-3b",         [2048, 36, 16, 2, 128, 11008, 151_936], true),
    ("qwen2.5-vl-7b",         [3584, 28, 28, 4, 128, 18944, 152_064], false),
    ("qwen2.5-vl-32b",        [5120, 64, 40, 8, 128, 27648, 152_064], false),
    ("qwen2.5-vl-72b",        [8192, 80, 64, 8, 128, 29568, 152_064], false),
    ("llava-onevision-0.5b",  [896, 24, 14, 2, 64, 4864, 152_000], true),
    ("llava-onevision-7b",    [3584, 28, 28, 4, 128, 18944, 152_128], false),
    ("llava-onevision-72b",   [8192, 80, 64, 8, 128, 29568, 152_128], false),
    ("tiny",                  [64, 2, 4, 2, 16, 128, 512], true),
];

/// The names of all shapes.
pub fn names() -> Vec<&'static str> {
    SHAPES.iter().map(|shape| shape.0).collect()
}

/// The configuration of the language model of this name.
pub fn find(name: &str) -> Option<TextConfig> {
    let (name, [hidden, layers, heads, kv_heads, head_dim, intermediate, vocab], tied) =
        *SHAPES.iter().find(|shape| shape.0 == name)?;
    Some(TextConfig {
        hidden,
        layers,
        heads,
        kv_heads,
        head_dim,
        intermediate,
        vocab,
        tied,
        rope_theta: 1e6,
        mrope_section: name.starts_with("qwen").then_some([16, 24, 24]),
        interleaved: false,
        bias: true,
        qk_norm: false,
        deepstack: 0,
        norm_eps: 1e-6,
        max_positions: 128_000,
    })
}

/// Random values of a tensor, deterministic by name: norms are one, biases zero, matrices uniform within bounds that preserve
/// the variance of their inputs.
pub(super) fn values(name: &str, shape: &[usize]) -> Vec<f32> {
    let count = shape.iter().product();
    let inputs: usize = match shape {
        // Norms and biases.
        [] | [_] => return vec![if name.ends_with(".weight") { 1.0 } else { 0.0 }; count],
        [_, inputs @ ..] => inputs.iter().product(),
    };
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let seed = hasher.finish();
    let bound = (3.0 / inputs.max(1) as f32).sqrt();
    let mut values = vec![0f32; count];
    values.par_chunks_mut(CHUNK).enumerate().for_each(|(index, part)| {
        let mut state = (seed ^ (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1;
        for value in part {
            // xorshift (Marsaglia, 2003); the upper 24 bits are scaled to -1 to 1.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *value = ((state >> 40) as f32 / (1u32 << 23) as f32 - 1.0) * bound;
        }
    });
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_consistent() {
        for name in names() {
            let c = find(name).unwrap();
            assert_eq!(c.heads % c.kv_heads, 0, "{name}");
            assert_eq!(c.heads * c.head_dim, c.hidden, "{name}");
            let sections: usize = c.mrope_section.map_or(c.head_dim / 2, |s| s.iter().sum());
            assert_eq!(sections, c.head_dim / 2, "{name}");
        }
        assert!(find("gpt").is_none());
    }

    #[test]
    fn weights_are_uniform_and_deterministic() {
        let shape = [300, 700];
        let w = values("a.weight", &shape);
        assert_eq!(w, values("a.weight", &shape));
        assert_ne!(w, values("b.weight", &shape));
        let mean = w.iter().sum::<f32>() / w.len() as f32;
        let variance = w.iter().map(|v| v * v).sum::<f32>() / w.len() as f32;
        assert!(mean.abs() < 1e-3 && (variance * 700.0 - 1.0).abs() < 0.02, "{mean} {variance}");
        assert_eq!(values("x.norm.weight", &[3]), [1.0; 3]);
        assert_eq!(values("q_proj.bias", &[2]), [0.0; 2]);
    }
}
