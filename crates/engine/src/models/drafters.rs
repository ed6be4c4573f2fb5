//! The loaded drafters of methods.

use std::sync::Arc;

use super::Models;
use specreel_model::draft_head::{DraftHead, Recipe};
use specreel_speculate::Drafter;

impl Models {
    /// What drafts, for people.
    pub(crate) fn drafter_name(&self, drafter: &Drafter) -> Option<String> {
        let target = self.target.name();
        match *drafter {
            Drafter::None {} | Drafter::Auto {} => None,
            Drafter::Model {} => self.drafter.as_ref().map(|d| d.name().to_owned()),
            Drafter::Target { dtype } => Some(
                dtype.weights().map_or(target.to_owned(), |dtype| format!("{target} in {}", dtype.name())),
            ),
            Drafter::EarlyExit { .. } => Some(target.to_owned()),
            // Loaded later.
            Drafter::Head { recipe: Recipe::Mtp } => Some(format!("multi-token prediction of {target}")),
            Drafter::Head { recipe } => self.head(recipe).map(|head| head.name().to_owned()),
            Drafter::Lookup { .. } => Some("lookup".into()),
        }
    }

    /// The draft head for a method: the only one, or the one of this recipe; the target's own layer once it is loaded.
    pub fn head(&self, recipe: Recipe) -> Option<&Arc<DraftHead>> {
        match &self.heads[..] {
            _ if recipe == Recipe::Mtp => self.mtp.get(),
            [only] => Some(only),
            all => all.iter().find(|head| head.config().recipe == recipe),
        }
    }

    /// The draft head that this drafter is, if it is one and loaded.
    pub(crate) fn head_of(&self, drafter: &Drafter) -> Option<&Arc<DraftHead>> {
        match *drafter {
            Drafter::Head { recipe } => self.head(recipe),
            _ => None,
        }
    }

    /// Upper bound of the bytes that a drafter keeps: `slots` keys and values, and for a draft head the target's states at the new
    /// tokens, which it reads when it drafts next.
    pub(crate) fn drafter_bytes(&self, drafter: &Drafter, slots: usize, new_tokens: usize) -> u64 {
        let (decoder, states) = match (drafter, &self.drafter) {
            (Drafter::Model {}, Some(drafter)) => (drafter.decoder(), 0),
            (Drafter::Target { .. }, _) => (self.target.decoder(), 0),
            (Drafter::Head { recipe }, _) => match self.head(*recipe) {
                Some(head) => (head.decoder(), new_tokens),
                None => return 0,
            },
            _ => return 0,
        };
        (decoder.cache_bytes(slots) + states * decoder.width() * size_of::<f32>()) as u64
    }
}
