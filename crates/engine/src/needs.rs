//! Whether the models of a request have the drafter that its method needs, before anything is loaded.

use specreel_checkpoint::hub::name_of;
use specreel_model::{
    ModelSpec,
    draft_head::{DraftHeadConfig, Recipe},
};
use specreel_record::{Failure, FailureClass};
use specreel_speculate::{Drafter, Method};

/// Check that the models have the drafter that a method needs.
pub fn has_drafter(method: &Method, models: &ModelSpec) -> Result<(), Failure> {
    let (what, hint) = match method.drafter {
        Drafter::Model {} if models.drafter.is_none() => (
            "needs a draft model",
            "add --drafter DIR (specreel models inspect lists models that fit), or use the method specvlm-self or autoregressive",
        ),
        Drafter::Head { recipe: Recipe::Mtp } => match models.target_predicts() {
            // A target that cannot be read is reported when it is loaded.
            None | Some(true) => return Ok(()),
            Some(false) => {
                return Err(Failure {
                    class: FailureClass::Usage,
                    error: format!(
                        "method `{}` {}, but {} has none",
                        method.name,
                        needs_head(Recipe::Mtp),
                        name_of(&models.target)
                    ),
                    hint: Some(Recipe::Mtp.hint().into()),
                });
            }
        },
        // A head that cannot be read is reported when it is loaded.
        Drafter::Head { recipe }
            if models
                .heads
                .iter()
                .all(|head| DraftHeadConfig::read(head).is_ok_and(|own| own.recipe != recipe)) =>
        {
            (needs_head(recipe), recipe.hint())
        }
        _ => return Ok(()),
    };
    Err(Failure {
        class: FailureClass::Usage,
        error: format!(
            "method `{}` {what}, but {}",
            method.name,
            match method.drafter {
                _ if models.drafter.is_none() && models.heads.is_empty() => "--drafter is missing",
                Drafter::Head { .. } => "no matching head is loaded",
                _ => "--drafter is of another kind",
            }
        ),
        hint: Some(hint.into()),
    })
}

/// What a method with this recipe drafts with.
const fn needs_head(recipe: Recipe) -> &'static str {
    match recipe {
        Recipe::Sparrow => "drafts with a draft head (recipe sparrow)",
        Recipe::Msd => "drafts with a draft head (recipe msd)",
        Recipe::Vispec => "drafts with a draft head (recipe vispec)",
        Recipe::Hivis => "drafts with a draft head (recipe hivis)",
        Recipe::Eagle3 => "drafts with an EAGLE-3 head",
        Recipe::Mtp => "drafts with the target's own layer for multi-token prediction",
        Recipe::Dflash => "drafts with a DFlash head",
        Recipe::Assistant => "drafts with an assistant",
    }
}
