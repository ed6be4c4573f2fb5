//! `config.json` of a layer that drafts for one target.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::model::{checkpoint::CheckpointError, config::TextConfig};

/// `model_type` of such a checkpoint.
pub const MODEL_TYPE: &str = "specreel_sparrow";

/// How a layer was trained, and hence how it is used best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipe {
    /// Sparrow: it drafts without looking at the video.
    #[default]
    Sparrow,
    /// MSD: it reads the visual embeddings before the text.
    Msd,
}

/// What stands at the rows of visual tokens, where the layer sees any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VisualRows {
    /// The target's states after half of its layers (Sparrow's IVSB).
    #[default]
    Middle,
    /// The target's visual embeddings as they are (MSD).
    Embeddings,
}

/// The target that a layer was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetMark {
    /// Its name, for people.
    pub name: String,
    /// Width of its states.
    pub hidden_size: usize,
    /// Rows of its embedding table.
    pub vocab_size: usize,
    /// Its layers.
    pub num_hidden_layers: usize,
    /// A hash of some of its embeddings, to know it again.
    pub fingerprint: String,
}

impl TargetMark {
    /// What differs between the target that is meant and another, in words; none if nothing does.
    pub fn difference(&self, other: &TargetMark) -> Option<String> {
        for (what, ours, theirs) in [
            ("states", self.hidden_size, other.hidden_size),
            ("embeddings", self.vocab_size, other.vocab_size),
            ("layers", self.num_hidden_layers, other.num_hidden_layers),
        ] {
            if ours != theirs {
                let wide = if what == "states" { "wide" } else { "in number" };
                return Some(format!("its target's {what} are {ours} {wide}, here they are {theirs}"));
            }
        }
        (self.fingerprint != other.fingerprint)
            .then(|| format!("it was made for `{}`, whose embeddings are others", self.name))
    }
}

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SparrowConfig {
    /// [`MODEL_TYPE`].
    pub model_type: String,
    /// How it was trained.
    pub recipe: Recipe,
    /// What it was shown at visual tokens.
    pub visual_rows: VisualRows,
    /// Width of the feed-forward part.
    pub intermediate_size: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads.
    pub num_key_value_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Frequencies for time, row and column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mrope_section: Option<[usize; 3]>,
    /// Added to the mean square in norms.
    pub rms_norm_eps: f32,
    /// The target.
    pub target: TargetMark,
}

impl SparrowConfig {
    /// A layer of the shape of a target's own.
    pub fn like(target: &TextConfig, mark: TargetMark, recipe: Recipe, visual_rows: VisualRows) -> Self {
        Self {
            model_type: MODEL_TYPE.into(),
            recipe,
            visual_rows,
            intermediate_size: target.intermediate,
            num_attention_heads: target.heads,
            num_key_value_heads: target.kv_heads,
            head_dim: target.head_dim,
            rope_theta: target.rope_theta,
            mrope_section: target.mrope_section,
            rms_norm_eps: target.norm_eps,
            target: mark,
        }
    }

    /// True if `DIR/config.json` is of such a layer. A file that cannot be read is none.
    pub fn is_in(dir: &Path) -> bool {
        #[derive(Deserialize)]
        struct Type {
            model_type: String,
        }
        let text = std::fs::read_to_string(dir.join("config.json")).unwrap_or_default();
        serde_json::from_str::<Type>(&text).is_ok_and(|config| config.model_type == MODEL_TYPE)
    }

    /// Read `DIR/config.json`.
    ///
    /// # Errors
    /// It is missing, no such file, or holds impossible sizes.
    pub fn read(dir: &Path) -> Result<Self, CheckpointError> {
        let path = dir.join("config.json");
        let fail = |problem: &str| CheckpointError::file(&path, problem);
        let text = std::fs::read_to_string(&path).map_err(|e| fail(&e.to_string()))?;
        let config: Self = serde_json::from_str(&text).map_err(|e| fail(&e.to_string()))?;
        if config.model_type != MODEL_TYPE {
            return Err(fail(&format!("`model_type` is {}, expected {MODEL_TYPE}", config.model_type)));
        }
        config.problem().map_or(Ok(()), |problem| Err(fail(&problem)))?;
        Ok(config)
    }

    fn problem(&self) -> Option<String> {
        let (heads, kv, half) = (self.num_attention_heads, self.num_key_value_heads, self.head_dim / 2);
        let sizes = [
            ("intermediate_size", self.intermediate_size, 1 << 20),
            ("num_attention_heads", heads, 1024),
            ("num_key_value_heads", kv, 1024),
            ("head_dim", self.head_dim, 1024),
        ];
        if let Some((key, value, most)) = sizes.into_iter().find(|(_, v, most)| *v == 0 || v > most) {
            return Some(format!("`{key}` is {value}; expected 1 to {most}"));
        }
        if !heads.is_multiple_of(kv) {
            return Some(format!("{heads} query heads cannot share {kv} key/value heads"));
        }
        let sum = |s: [usize; 3]| s.iter().try_fold(0usize, |sum, n| sum.checked_add(*n));
        if !self.head_dim.is_multiple_of(2) || self.mrope_section.is_some_and(|s| sum(s) != Some(half)) {
            return Some(format!("heads of {} do not fit the rotary sections", self.head_dim));
        }
        let good = self.rope_theta.is_finite() && self.rope_theta > 0.0 && self.rms_norm_eps.is_finite();
        (!good).then(|| "`rope_theta` or `rms_norm_eps` is no usable number".into())
    }

    /// The layer as a language model of one layer, beside its target.
    pub fn layer(&self, target: &TextConfig) -> TextConfig {
        TextConfig {
            layers: 1,
            heads: self.num_attention_heads,
            kv_heads: self.num_key_value_heads,
            head_dim: self.head_dim,
            intermediate: self.intermediate_size,
            rope_theta: self.rope_theta,
            mrope_section: self.mrope_section,
            norm_eps: self.rms_norm_eps,
            ..target.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> SparrowConfig {
        SparrowConfig {
            model_type: MODEL_TYPE.into(),
            recipe: Recipe::Msd,
            visual_rows: VisualRows::Embeddings,
            intermediate_size: 64,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 16,
            rope_theta: 1e4,
            mrope_section: Some([2, 3, 3]),
            rms_norm_eps: 1e-6,
            target: TargetMark {
                name: "t".into(),
                hidden_size: 64,
                vocab_size: 320,
                num_hidden_layers: 2,
                fingerprint: "1".into(),
            },
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.json"), serde_json::to_string(&config()).unwrap()).unwrap();
        assert_eq!(SparrowConfig::read(dir.path()).unwrap(), config());
        assert!(SparrowConfig::is_in(dir.path()));
        assert!(!SparrowConfig::is_in(&dir.path().join("no")));
        std::fs::write(dir.path().join("config.json"), r#"{"model_type": "qwen2_5_vl"}"#).unwrap();
        assert!(!SparrowConfig::is_in(dir.path()));
    }

    #[test]
    fn impossible_sizes_are_told() {
        let wrong = |change: &dyn Fn(&mut SparrowConfig)| {
            let mut config = config();
            change(&mut config);
            config.problem().unwrap()
        };
        assert!(wrong(&|c| c.num_key_value_heads = 3).contains("cannot share"));
        assert!(wrong(&|c| c.intermediate_size = 0).contains("intermediate_size"));
        assert!(wrong(&|c| c.mrope_section = Some([usize::MAX, 1, 1])).contains("rotary"));
        assert!(wrong(&|c| c.rope_theta = f64::NAN).contains("rope_theta"));
        assert_eq!(config().problem(), None);
    }

    #[test]
    fn another_target_is_another() {
        let mark = config().target;
        let other = |change: &dyn Fn(&mut TargetMark)| {
            let mut other = mark.clone();
            change(&mut other);
            mark.difference(&other)
        };
        assert_eq!(other(&|_| {}), None);
        assert_eq!(other(&|o| o.name = "renamed".into()), None);
        assert!(other(&|o| o.hidden_size = 32).unwrap().contains("64 wide, here they are 32"));
        assert!(other(&|o| o.fingerprint = "2".into()).unwrap().contains("made for `t`"));
    }
}
