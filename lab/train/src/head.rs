//! What trainable heads with weights of their own have in common: named weights, and the target's tables.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor, Var};

use super::{
    begin::{FirstValues, Tables},
    layer::norm,
};
use specreel_checkpoint::Checkpoint;
use specreel_model::config::TextConfig;
use specreel_tensor::CheckpointError;

pub(crate) struct Head {
    vars: BTreeMap<String, Var>,
    pub tables: Tables,
    norm_eps: f32,
}

impl Head {
    /// A head with these values, and the tables of its target. Fails if the target's checkpoint lacks one.
    pub fn new(
        values: FirstValues,
        target: &Checkpoint,
        config: &TextConfig,
    ) -> std::result::Result<Self, CheckpointError> {
        let tables = Tables::of(target, config)?;
        Ok(Self { vars: values.vars()?, tables, norm_eps: config.norm_eps })
    }

    /// Trainable variables, sorted by name.
    pub fn vars(&self) -> &BTreeMap<String, Var> {
        &self.vars
    }

    /// A variable by its whole name.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        let var = self.vars.get(name).map(Var::as_tensor);
        var.ok_or_else(|| candle_core::Error::Msg(format!("the head has no `{name}`")))
    }

    fn weight(&self, name: &str) -> Result<&Tensor> {
        self.tensor(&format!("{name}.weight"))
    }

    /// `x Wᵀ`.
    pub fn linear(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        x.matmul(&self.weight(name)?.t()?)
    }

    pub fn norm(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        norm(x, self.weight(name)?, self.norm_eps)
    }

    /// The logits of final states.
    pub fn logits(&self, states: &Tensor) -> Result<Tensor> {
        states.matmul(&self.tables.head.t()?)
    }

    /// The second half of a layer: adds the output of its feed-forward network to its attention's output.
    pub fn feed_forward(&self, x: &Tensor, layer: usize) -> Result<Tensor> {
        let normed = self.norm(x, &format!("model.layers.{layer}.post_attention_layernorm"))?;
        x + self.gated(&normed, layer)?
    }

    /// The output of a layer's feed-forward network.
    pub fn gated(&self, normed: &Tensor, layer: usize) -> Result<Tensor> {
        let part = |name: &str| format!("model.layers.{layer}.mlp.{name}_proj");
        let gate = self.linear(normed, &part("gate"))?.silu()?;
        let gated = (gate * self.linear(normed, &part("up"))?)?;
        self.linear(&gated, &part("down"))
    }
}
