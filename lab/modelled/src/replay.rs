//! A run of which a paper reports the acceptance, charged by a profile.

use specreel_record::{Step, Token, Verdict};
use specreel_speculate::{Method, Schedule, Shape, tree::Template};

use crate::{
    drafting, grown,
    profile::{Modelled, Profile, Workload},
    seen_share, window,
};

/// The acceptance that a paper reports of a method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reported {
    /// Tokens of a step, the bonus token counted; 1 where nothing is drafted.
    PerStep(f64),
    /// Accepted drafts for each reject, under the parallel schedule.
    PerReject(f64),
}

/// The times that `tokens` tokens of `method` would take under a profile with this acceptance, in 16 bits,
/// for a target that sees this share of the visual tokens. The acceptance is spread evenly over the steps: at
/// 2.5 tokens per step, every other step has three.
///
/// `None` if the profile does not say how long the prompt is, or has no times of the drafter, or the method drafts a number
/// that changes from step to step.
pub fn replay(
    profile: &Profile,
    method: &Method,
    target_sees: f64,
    reported: Reported,
    tokens: usize,
) -> Option<Modelled> {
    let (visual, text) = (profile.visual?, profile.text?);
    let drafted = match (&method.schedule, method.drafts()) {
        (Schedule::Sequential { .. }, true) => method.shape.drafts()?,
        // The window decides, or nothing is drafted.
        _ => 0,
    };
    let parents = parents(&method.shape);
    let mut steps: Vec<Step> = Vec::new();
    let (mut emitted, mut due) = (0, 0.0);
    while emitted < tokens {
        due += match reported {
            Reported::PerStep(tokens) => tokens,
            // The reject's replacement follows the accepted drafts.
            Reported::PerReject(accepted) => accepted + 1.0,
        };
        let own = (due.round() as usize).saturating_sub(emitted).clamp(1, tokens - emitted);
        let (accepted, last) = match reported {
            Reported::PerStep(_) if own > drafted => (own - 1, Verdict::Bonus),
            _ => (own - 1, Verdict::Corrected),
        };
        let verdicts = std::iter::repeat_n(Verdict::Exact, accepted).chain([last]);
        steps.push(Step {
            drafted: vec![0; drafted],
            parents: parents.clone(),
            judged: drafted,
            accepted,
            tokens: verdicts.map(|verdict| Token::new(0, "", verdict)).collect(),
            ..Step::default()
        });
        emitted += own;
    }
    profile.charge(&Workload {
        drafting: drafting(method, "f16"),
        window: window(method),
        grown: grown(method),
        text,
        visual,
        drafter_sees: seen_share(method, text, visual, None),
        target_sees,
        drafted: (steps.len() * drafted) as u64,
        steps: &steps,
        ended: false,
    })
}

/// The parent of each draft of a full step; empty for a chain, and for a tree whose form changes from step to step.
fn parents(shape: &Shape) -> Vec<Option<usize>> {
    match shape {
        Shape::StaticTree { nodes, .. } => Template::read(nodes)
            .map(|template| template.nodes().iter().map(|(parent, _)| *parent).collect())
            .unwrap_or_default(),
        Shape::TwoBranch { length, .. } => {
            (0..2 * length).map(|at| at.checked_sub(1).filter(|_| at != *length)).collect()
        }
        Shape::Chain { .. } | Shape::DynamicTree { .. } => Vec::new(),
    }
}
