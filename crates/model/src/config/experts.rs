//! Feed-forward layers of experts, from `config.json`.

use serde::Deserialize;
use serde_json::Value;

use specreel_tensor::experts::Routing;

/// What a kind of language model with experts has where its files say nothing.
#[derive(Clone, Copy, Debug)]
pub struct ExpertSizes {
    pub experts: usize,
    pub chosen: usize,
    pub width: usize,
    /// Width of the shared expert, in models that have one.
    pub shared: Option<usize>,
}

/// The layers of experts of a model.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Sparse {
    /// Experts of a layer.
    pub experts: usize,
    /// Experts that a row takes.
    pub chosen: usize,
    /// Width of an expert's feed-forward layer.
    pub width: usize,
    /// Width of the expert that all rows take, if there is one.
    pub shared: Option<usize>,
    /// Every so many layers, the last of them, has experts.
    pub every: usize,
    /// The layers, counted from 0, that have none all the same.
    pub dense: Vec<usize>,
}

#[derive(Deserialize)]
struct RawExperts {
    decoder_sparse_step: Option<usize>,
    mlp_only_layers: Option<Vec<usize>>,
    moe_intermediate_size: Option<usize>,
    norm_topk_prob: Option<bool>,
    num_experts: Option<usize>,
    num_experts_per_tok: Option<usize>,
    /// The newer name of `num_experts`.
    num_local_experts: Option<usize>,
    shared_expert_intermediate_size: Option<usize>,
}

/// Most experts of a layer.
const MOST: usize = 4096;
/// Largest width of an expert.
const WIDEST: usize = 1 << 20;

impl ExpertSizes {
    /// The layers of experts of a file.
    pub(super) fn resolve(&self, merged: &Value) -> Result<Sparse, String> {
        let raw = RawExperts::deserialize(merged).map_err(|e| e.to_string())?;
        if raw.norm_topk_prob == Some(false) {
            return Err("`norm_topk_prob` is false, expected true".into());
        }
        let sparse = Sparse {
            experts: raw.num_experts.or(raw.num_local_experts).unwrap_or(self.experts),
            chosen: raw.num_experts_per_tok.unwrap_or(self.chosen),
            width: raw.moe_intermediate_size.unwrap_or(self.width),
            shared: self.shared.map(|default| raw.shared_expert_intermediate_size.unwrap_or(default)),
            every: raw.decoder_sparse_step.unwrap_or(1),
            dense: raw.mlp_only_layers.unwrap_or_default(),
        };
        for (key, value, most) in [
            ("num_experts", sparse.experts, MOST),
            ("num_experts_per_tok", sparse.chosen, sparse.experts),
            ("moe_intermediate_size", sparse.width, WIDEST),
            ("shared_expert_intermediate_size", sparse.shared.unwrap_or(1), WIDEST),
            ("decoder_sparse_step", sparse.every, 1024),
        ] {
            if value == 0 || value > most {
                return Err(format!("`{key}` is {value}, expected 1 to {most}"));
            }
        }
        Ok(sparse)
    }
}

impl Sparse {
    pub fn is_sparse(&self, layer: usize) -> bool {
        (layer + 1).is_multiple_of(self.every) && !self.dense.contains(&layer)
    }

    pub fn routing(&self) -> Routing {
        Routing { experts: self.experts, chosen: self.chosen }
    }

    /// Values between the two matrices of all experts that a row takes.
    pub fn active(&self) -> usize {
        self.chosen * self.width + self.shared.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SIZES: ExpertSizes = ExpertSizes { experts: 60, chosen: 4, width: 1408, shared: None };

    #[test]
    fn every_nth_layer_has_experts_except_those_that_are_named() {
        let sparse = |raw: Value| {
            let sparse = SIZES.resolve(&raw).unwrap();
            (0..6).map(|layer| sparse.is_sparse(layer)).collect::<Vec<_>>()
        };
        assert_eq!(sparse(json!({})), [true; 6]);
        assert_eq!(sparse(json!({"decoder_sparse_step": 2})), [false, true, false, true, false, true]);
        let named = json!({"decoder_sparse_step": 2, "mlp_only_layers": [0, 3]});
        assert_eq!(sparse(named), [false, true, false, false, false, true]);
    }

    #[test]
    fn values_of_files_come_first() {
        assert_eq!(SIZES.resolve(&json!({})).unwrap().active(), 4 * 1408);
        let with_shared = ExpertSizes { shared: Some(512), ..SIZES };
        let raw = json!({"num_local_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64});
        let sparse = with_shared.resolve(&raw).unwrap();
        assert_eq!((sparse.routing(), sparse.active()), (Routing { experts: 8, chosen: 2 }, 2 * 64 + 512));
    }

    #[test]
    fn impossible_values_are_refused_by_name() {
        for (key, value) in [
            ("num_experts", json!(0)),
            ("num_experts_per_tok", json!(61)),
            ("num_experts_per_tok", json!(0)),
            ("moe_intermediate_size", json!(0)),
            ("decoder_sparse_step", json!(0)),
            ("norm_topk_prob", json!(false)),
        ] {
            let error = SIZES.resolve(&json!({ key: value })).unwrap_err();
            assert!(error.contains(&format!("`{key}` is {value}, expected")), "{error}");
        }
    }
}
