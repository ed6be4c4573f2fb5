//! The signals that an acceptance rule needs besides the target's logits, and whether it is lossy.

use super::{Acceptance, EntropyOver, StateAt};

/// Which visual relevance a rule needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelevanceNeeds {
    /// N: the mean of that many largest similarities.
    pub top_n: usize,
    /// The state that is compared.
    pub at: StateAt,
}

/// The signals that a rule needs besides the target's logits. Only these are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleNeeds {
    pub relevance: Option<RelevanceNeeds>,
    /// Attention peaks on the visual tokens.
    pub attention_peaks: bool,
    /// Probabilities under the target, and the entropy of the three most likely.
    pub(crate) probabilities: bool,
    /// The drafter's distributions.
    pub divergence: bool,
    /// Random numbers.
    pub(crate) chance: bool,
    pub(crate) entropy_full: bool,
}

impl RuleNeeds {
    pub fn of(rule: &Acceptance) -> Self {
        match rule {
            Acceptance::Visual { top_n, at, .. } => {
                Self { relevance: Some(RelevanceNeeds { top_n: *top_n, at: *at }), ..Self::default() }
            }
            Acceptance::Glance { .. } => Self { attention_peaks: true, ..Self::default() },
            Acceptance::Divergence { .. } => Self { divergence: true, ..Self::default() },
            Acceptance::Cost { .. } => Self { divergence: true, probabilities: true, ..Self::default() },
            Acceptance::Lenient { .. } => Self { probabilities: true, ..Self::default() },
            Acceptance::Typical { .. } => Self { probabilities: true, entropy_full: true, ..Self::default() },
            Acceptance::Entropy { entropy, .. } | Acceptance::Window { entropy, .. } => match entropy {
                EntropyOver::Top3 => Self { probabilities: true, ..Self::default() },
                EntropyOver::Full => Self { entropy_full: true, ..Self::default() },
            },
            Acceptance::AllOf { rules } => {
                rules.iter().map(RuleNeeds::of).fold(Self::default(), |a, b| Self {
                    relevance: a.relevance.or(b.relevance),
                    attention_peaks: a.attention_peaks || b.attention_peaks,
                    probabilities: a.probabilities || b.probabilities,
                    divergence: a.divergence || b.divergence,
                    chance: a.chance || b.chance,
                    entropy_full: a.entropy_full || b.entropy_full,
                })
            }
            Acceptance::Random { .. } => Self { chance: true, ..Self::default() },
            Acceptance::Exact {} | Acceptance::Sampled {} => Self::default(),
        }
    }
}

impl Acceptance {
    /// True if the rule passes nothing but matches among at most `k` drafts.
    ///
    /// Lenient never is, not even at rho = 1: two tokens may tie.
    pub(super) fn is_strict(&self, k: usize) -> bool {
        // Fewer may be drafted than K, never more, so the share rounded down stays 0.
        let none_of = |lambda: f64| (lambda * k as f64 + 1e-9).floor() == 0.0;
        match self {
            Acceptance::Exact {} | Acceptance::Sampled {} => true,
            Acceptance::Visual { lambda, shift_tolerant, .. } => !shift_tolerant && none_of(*lambda),
            Acceptance::Glance { lambda } => none_of(*lambda),
            Acceptance::Window { length, .. } => *length > k,
            Acceptance::Random { probability, .. } => *probability == 0.0,
            Acceptance::AllOf { rules } => rules.iter().any(|rule| rule.is_strict(k)),
            Acceptance::Entropy { .. }
            | Acceptance::Lenient { .. }
            | Acceptance::Typical { .. }
            | Acceptance::Divergence { .. }
            | Acceptance::Cost { .. } => false,
        }
    }
}
