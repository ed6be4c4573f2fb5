//! Language models of two kinds of layers, full and linear attention, from `config.json`.

use serde::Deserialize;
use serde_json::Value;

use specreel_tensor::LinearAttention;

/// What a kind of language model with linear attention has where its files say nothing.
#[derive(Debug)]
pub(crate) struct Hybrid {
    pub linear: LinearAttention,
    /// Share of a head that is rotated.
    pub rotated: f64,
}

/// The keys of a file; all may be missing.
#[derive(Deserialize)]
struct RawHybrid {
    attn_output_gate: Option<bool>,
    full_attention_interval: Option<usize>,
    layer_types: Option<Vec<String>>,
    linear_conv_kernel_dim: Option<usize>,
    linear_key_head_dim: Option<usize>,
    linear_num_key_heads: Option<usize>,
    linear_num_value_heads: Option<usize>,
    linear_value_head_dim: Option<usize>,
    /// Of this crate, for files whose value heads have another order.
    linear_value_heads_tiled: Option<bool>,
    output_gate_type: Option<String>,
    partial_rotary_factor: Option<f64>,
    rope_parameters: Option<RawRope>,
    rope_scaling: Option<RawRope>,
}

#[derive(Deserialize)]
struct RawRope {
    partial_rotary_factor: Option<f64>,
}

/// What a file says.
pub(super) struct HybridParts {
    /// The layers with linear attention; `None` if all have full attention.
    pub linear: Option<LinearAttention>,
    /// True if the output of full attention has a gate.
    pub output_gate: bool,
    /// Values of a head that are rotated.
    pub rotary_dim: usize,
}

const LINEAR: &str = "linear_attention";
const FULL: &str = "full_attention";

impl Hybrid {
    /// The parts of a model with so many layers, whose heads have this width.
    pub(super) fn resolve(
        &self,
        merged: &Value,
        layers: usize,
        head_dim: usize,
    ) -> Result<HybridParts, String> {
        let raw = RawHybrid::deserialize(merged).map_err(|e| e.to_string())?;
        if let Some(gate) = raw.output_gate_type.filter(|gate| !is_silu(gate)) {
            return Err(format!("unsupported `output_gate_type` `{gate}`, expected silu"));
        }
        let rope = raw.rope_scaling.or(raw.rope_parameters);
        let rotated = rope.and_then(|rope| rope.partial_rotary_factor).or(raw.partial_rotary_factor);
        let rotary_dim = rotary_dim(rotated.unwrap_or(self.rotated), head_dim)?;
        let every = match &raw.layer_types {
            Some(types) => period(types, layers)?,
            None => raw.full_attention_interval.unwrap_or(self.linear.every),
        };
        if every == 0 || every > layers {
            return Err(format!(
                "`full_attention_interval` is {every}, expected 1 to {layers}, the number of layers"
            ));
        }
        let default = &self.linear;
        let linear = LinearAttention {
            every,
            key_heads: raw.linear_num_key_heads.unwrap_or(default.key_heads),
            value_heads: raw.linear_num_value_heads.unwrap_or(default.value_heads),
            key_dim: raw.linear_key_head_dim.unwrap_or(default.key_dim),
            value_dim: raw.linear_value_head_dim.unwrap_or(default.value_dim),
            kernel: raw.linear_conv_kernel_dim.unwrap_or(default.kernel),
            tiled: raw.linear_value_heads_tiled.unwrap_or(default.tiled),
        };
        check(&linear)?;
        Ok(HybridParts {
            linear: (every > 1).then_some(linear),
            output_gate: raw.attn_output_gate.unwrap_or(true),
            rotary_dim,
        })
    }
}

fn rotary_dim(share: f64, head_dim: usize) -> Result<usize, String> {
    let rotary = (head_dim as f64 * share) as usize;
    if !(share > 0.0 && share <= 1.0) || rotary == 0 || !rotary.is_multiple_of(2) {
        return Err(format!(
            "`partial_rotary_factor` is {share}: of {head_dim} values in a head it rotates {rotary}, expected an even number from 2 to {head_dim}"
        ));
    }
    Ok(rotary)
}

/// Every so many layers, the last of them, have full attention.
fn period(types: &[String], layers: usize) -> Result<usize, String> {
    if types.len() != layers {
        return Err(format!("`layer_types` has {} layers, `num_hidden_layers` is {layers}", types.len()));
    }
    let unknown = types.iter().enumerate().find(|(_, kind)| ![LINEAR, FULL].contains(&kind.as_str()));
    if let Some((index, kind)) = unknown {
        return Err(format!(
            "`layer_types` has `{kind}` for layer {}, expected {LINEAR} or {FULL}",
            index + 1
        ));
    }
    let first = types.iter().position(|kind| kind == FULL);
    let every = 1 + first.ok_or_else(|| format!("`layer_types` has no layer with `{FULL}`"))?;
    let expected = |index: usize| if (index + 1).is_multiple_of(every) { FULL } else { LINEAR };
    match types.iter().enumerate().find(|(index, kind)| *kind != expected(*index)) {
        None => Ok(every),
        Some((index, kind)) => Err(format!(
            "`layer_types` has `{kind}` for layer {}, expected `{}`: the types of the first {every} layers must repeat",
            index + 1,
            expected(index)
        )),
    }
}

/// True for a name of the activation x · sigmoid(x).
pub(super) fn is_silu(name: &str) -> bool {
    matches!(name, "silu" | "swish")
}

/// Refuse sizes that no model has.
fn check(linear: &LinearAttention) -> Result<(), String> {
    let limits = [
        ("linear_num_key_heads", linear.key_heads, 1, 1024),
        ("linear_num_value_heads", linear.value_heads, 1, 1024),
        ("linear_key_head_dim", linear.key_dim, 1, 1024),
        ("linear_value_head_dim", linear.value_dim, 1, 1024),
        // A convolution over the row alone would have no state.
        ("linear_conv_kernel_dim", linear.kernel, 2, 64),
    ];
    for (key, value, least, most) in limits {
        if !(least..=most).contains(&value) {
            return Err(format!("`{key}` is {value}, expected {least} to {most}"));
        }
    }
    if !linear.value_heads.is_multiple_of(linear.key_heads) {
        return Err(format!(
            "`linear_num_value_heads` ({}) is not a multiple of `linear_num_key_heads` ({})",
            linear.value_heads, linear.key_heads
        ));
    }
    for (what, width) in [("keys", linear.keys()), ("values", linear.values())] {
        if width > WIDEST {
            return Err(format!(
                "the heads of linear attention have {width} {what}, expected at most {WIDEST}"
            ));
        }
    }
    Ok(())
}

/// Most keys or values of a row under linear attention.
const WIDEST: usize = 1 << 16;

#[cfg(test)]
mod tests;
