//! The `adapter_config.json` of PEFT.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};
use specreel_tensor::CheckpointError;

use crate::files;

/// The settings that change the adapter's effect.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct AdapterConfig {
    #[serde(default)]
    peft_type: Option<String>,
    r: usize,
    lora_alpha: f64,
    #[serde(default)]
    use_rslora: Option<bool>,
    /// Other ranks and alphas of some modules.
    #[serde(default)]
    rank_pattern: Option<Map<String, Value>>,
    #[serde(default)]
    alpha_pattern: Option<Map<String, Value>>,
    /// The model that it was trained on.
    #[serde(default, rename = "base_model_name_or_path")]
    pub base: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// The way out where an adapter cannot be added here.
pub(super) const MERGE: &str =
    "merge it into the model with PEFT's merge_and_unload, and use the merged model";

/// Initializations that leave the model's own weights as they are.
const PLAIN: [&str; 3] = ["gaussian", "eva", "orthogonal"];

impl AdapterConfig {
    /// Read the settings of the adapter in `dir`. Fails if there are none, or for a kind of adapter that is not supported.
    pub fn read(dir: &Path) -> Result<Self, CheckpointError> {
        let path = dir.join("adapter_config.json");
        let file = |problem: String| {
            let hint = "pass a directory with the adapter_config.json and adapter_model.safetensors of PEFT";
            CheckpointError::file_hint(&path, problem, hint)
        };
        let text = files::text(&path, files::CONFIG).map_err(|e| file(e.to_string()))?;
        let config: Self =
            serde_json::from_str(&text).map_err(|e| file(format!("not the settings of a LoRA: {e}")))?;
        config.check().map_err(|problem| CheckpointError::file_hint(&path, problem, MERGE))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let refuse = |what: &str| Err(format!("{what} is not supported"));
        if let Some(kind) = self.peft_type.as_deref().filter(|kind| *kind != "LORA") {
            return refuse(&format!("an adapter of the type {kind}"));
        }
        let is_set = |value: &Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(items) => !items.is_empty(),
            _ => true,
        };
        for key in [
            "use_dora",
            "use_qalora",
            "layer_replication",
            "trainable_token_indices",
            "alora_invocation_tokens",
        ] {
            if self.others.get(key).is_some_and(is_set) {
                return refuse(&format!("`{key}`"));
            }
        }
        if let Some(init) = self.others.get("init_lora_weights").and_then(Value::as_str)
            && !PLAIN.contains(&init)
        {
            return refuse(&format!("`init_lora_weights` {init}, which changes the model's own weights,"));
        }
        let patterns = [&self.rank_pattern, &self.alpha_pattern].into_iter().flatten().flatten();
        for (name, value) in patterns {
            if name.trim_start_matches('^').contains(['*', '+', '?', '(', '[', '|', '\\', '$', '^', '{']) {
                return refuse(&format!("the regular expression `{name}` in rank_pattern or alpha_pattern"));
            }
            if value.as_f64().is_none_or(|value| value <= 0.0) {
                return Err(format!(
                    "`{name}` has {value} in rank_pattern or alpha_pattern, expected a number above 0"
                ));
            }
        }
        if self.r == 0 || !self.lora_alpha.is_finite() {
            return Err(format!(
                "r is {} and lora_alpha {}, expected numbers above 0",
                self.r, self.lora_alpha
            ));
        }
        Ok(())
    }

    /// The rank of a module, and the factor of its product.
    pub fn scaling(&self, module: &str) -> (usize, f32) {
        let rank = matching(self.rank_pattern.as_ref(), module).and_then(Value::as_u64);
        let rank = rank.map_or(self.r, |rank| rank as usize);
        let alpha =
            matching(self.alpha_pattern.as_ref(), module).and_then(Value::as_f64).unwrap_or(self.lora_alpha);
        let divisor = if self.use_rslora == Some(true) { (rank as f64).sqrt() } else { rank as f64 };
        (rank, (alpha / divisor) as f32)
    }
}

/// The value for the first name that a module's name is or ends with; with `^`, that it is.
fn matching<'a>(pattern: Option<&'a Map<String, Value>>, module: &str) -> Option<&'a Value> {
    let is_of = |name: &str| match name.strip_prefix('^') {
        Some(whole) => module == whole,
        None => module.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.')),
    };
    pattern?.iter().find(|(name, _)| is_of(name)).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(more: Value) -> AdapterConfig {
        let mut config =
            json!({"peft_type": "LORA", "r": 8, "lora_alpha": 16, "base_model_name_or_path": "me/vl"});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(config).unwrap()
    }

    #[test]
    fn the_factor_is_alpha_by_the_rank_or_its_root() {
        for (more, module, expected) in [
            (json!({}), "a.q_proj", (8, 2.0)),
            (json!({"use_rslora": true, "r": 16}), "a.q_proj", (16, 4.0)),
            (json!({"rank_pattern": {"q_proj": 4}}), "a.q_proj", (4, 4.0)),
            (json!({"rank_pattern": {"q_proj": 4}}), "a.big_q_proj", (8, 2.0)),
            (json!({"rank_pattern": {"^q_proj": 4}}), "a.q_proj", (8, 2.0)),
            (
                json!({"alpha_pattern": {"a.q_proj": 2}, "init_lora_weights": true}),
                "model.a.q_proj",
                (8, 0.25),
            ),
        ] {
            let config = of(more);
            config.check().unwrap();
            assert_eq!(config.scaling(module), expected);
        }
    }

    #[test]
    fn other_kinds_are_refused_by_name() {
        for (more, named) in [
            (json!({"peft_type": "IA3"}), "IA3"),
            (json!({"use_dora": true}), "use_dora"),
            (json!({"layer_replication": [[0, 4], [2, 5]]}), "layer_replication"),
            (json!({"init_lora_weights": "pissa_niter_4"}), "pissa_niter_4"),
            (json!({"rank_pattern": {".*q_proj": 4}}), ".*q_proj"),
            (json!({"alpha_pattern": {"q_proj": "much"}}), "much"),
            (json!({"r": 0}), "r is 0"),
        ] {
            let error = of(more).check().unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
