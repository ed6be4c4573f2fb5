//! What a method needs of the loaded models.

use super::super::{Drafter, Method, Schedule, VisualContext};
use specreel_model::draft_head::Recipe;
use specreel_record::{Failure, FailureClass, LoadedParts};

impl Method {
    /// Check that the method can run with these parts of a target of this name. The failure says what the method lacks; the hint,
    /// what would supply it, or what to use instead (class input).
    pub fn check_parts(&self, parts: &LoadedParts, target: &str) -> Result<(), Failure> {
        let name = &self.name;
        let refuse = |error: String, hint: &str| {
            Err(Failure { class: FailureClass::Input, error, hint: Some(hint.into()) })
        };
        let missing = |what: &str, hint: &str| {
            refuse(format!("method `{name}` needs {what}, but none is loaded"), hint)
        };
        match self.drafter {
            Drafter::Model {} if !parts.drafter => missing(
                "a draft model",
                "add one with --drafter, or use a method that drafts with the target itself (specvlm-self)",
            )?,
            Drafter::Head { recipe: Recipe::Mtp } if !parts.mtp => {
                let error = format!(
                    "method `{name}` drafts with the target's own layer for multi-token prediction, but {target} has none"
                );
                refuse(error, Recipe::Mtp.hint())?;
            }
            Drafter::Head { recipe } if recipe != Recipe::Mtp && !has_head(parts, recipe) => {
                missing("a draft head on the target's states", recipe.hint())?;
            }
            _ => {}
        }
        let gathers = matches!(self.context, VisualContext::TopKKv { .. });
        let overlaps = matches!(self.schedule, Schedule::Parallel { .. });
        if gathers && overlaps && parts.linear_attention {
            let error = format!(
                "method `{name}` drafts ahead from chosen keys and values, and linear attention cannot go back there"
            );
            refuse(error, "use schedule.kind=sequential, or another context")?;
        }
        Ok(())
    }
}

/// True if a head serves this recipe: the only loaded one always does.
fn has_head(parts: &LoadedParts, recipe: Recipe) -> bool {
    parts.heads.len() == 1 || parts.heads.iter().any(|head| head == recipe.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_refused_for_what_is_not_loaded() {
        let lacks = |parts: &LoadedParts, method: &str| {
            let failure = Method::preset(method).unwrap().check_parts(parts, "tiny").err()?;
            Some(format!("{} / {}", failure.error, failure.hint.unwrap()))
        };
        let none = LoadedParts::default();
        assert_eq!(
            ["autoregressive", "lookup", "specvlm-self"].map(|name| lacks(&none, name)),
            [None, None, None]
        );
        assert!(
            lacks(&none, "lvspec")
                .unwrap()
                .contains("a draft model, but none is loaded / add one with --drafter")
        );
        assert!(lacks(&none, "sparrow").unwrap().contains("draft head"));
        let mtp = lacks(&none, "mtp").unwrap();
        assert!(mtp.contains("but tiny has none"), "{mtp}");
        let heads = |names: &[&str]| LoadedParts {
            heads: names.iter().map(|name| (*name).to_owned()).collect(),
            ..LoadedParts::default()
        };
        assert_eq!(lacks(&heads(&["msd"]), "sparrow"), None);
        assert!(lacks(&heads(&["msd", "vispec"]), "sparrow").is_some());
        let all = LoadedParts { drafter: true, mtp: true, ..heads(&["msd", "sparrow"]) };
        assert_eq!(
            ["lvspec", "sparrow", "msd", "mtp"].map(|name| lacks(&all, name)),
            [None, None, None, None]
        );
    }
}
