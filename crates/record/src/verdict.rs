//! Why a token is in the output.

use serde::{Deserialize, Serialize};

/// The reason for which an emitted token is in the caption.
///
/// `Exact`, `Sampled`, `Corrected`, `Bonus` and `Plain` are strict: the target itself chose the token (or the sampling rule
/// preserves its distribution); so is `Forced`, where nobody chose. All others are loosened: the target would have written something else there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No speculation: the target's own token.
    Plain,
    /// The draft is the target's most likely token.
    Exact,
    /// The draft passed the distribution-preserving test min(1, p/q).
    Sampled,
    /// The target's own token after a rejected draft.
    Corrected,
    /// The target's token after a step in which every draft passed.
    Bonus,
    /// The draft is the only token that the grammar of the answer allows.
    Forced,
    /// A mismatch among the positions of least visual relevance (LVSpec), or of least visual attention.
    Loosened,
    /// A mismatch whose wanted token occurs elsewhere among the step's drafts (LVSpec's shift tolerance).
    Shifted,
    /// A mismatch where the target itself was undecided (entropy at or above the threshold).
    Entropy,
    /// A mismatch followed by a full window of exact matches (FLy).
    Window,
    /// A mismatch at least rho times as likely as the target's best token.
    Lenient,
    /// A mismatch where target and drafter distributions are close.
    Divergence,
    /// A mismatch that passed by chance (the random baseline).
    Chance,
}

impl Verdict {
    /// All verdicts, strict ones first.
    pub const ALL: [Verdict; 13] = [
        Verdict::Plain,
        Verdict::Exact,
        Verdict::Sampled,
        Verdict::Corrected,
        Verdict::Bonus,
        Verdict::Forced,
        Verdict::Loosened,
        Verdict::Shifted,
        Verdict::Entropy,
        Verdict::Window,
        Verdict::Lenient,
        Verdict::Divergence,
        Verdict::Chance,
    ];

    /// The name used in events and on screens.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Plain => "plain",
            Verdict::Exact => "exact",
            Verdict::Sampled => "sampled",
            Verdict::Corrected => "corrected",
            Verdict::Bonus => "bonus",
            Verdict::Forced => "forced",
            Verdict::Loosened => "loosened",
            Verdict::Shifted => "shifted",
            Verdict::Entropy => "entropy",
            Verdict::Window => "window",
            Verdict::Lenient => "lenient",
            Verdict::Divergence => "divergence",
            Verdict::Chance => "chance",
        }
    }

    /// The less strict of two verdicts; if they are equally strict, the first. Text that several tokens make together has
    /// the least strict verdict of them, on every face.
    pub fn least_strict(first: Verdict, second: Verdict) -> Verdict {
        if first.is_strict() && !second.is_strict() { second } else { first }
    }

    /// True if the target itself chose the token.
    pub fn is_strict(self) -> bool {
        matches!(
            self,
            Verdict::Plain
                | Verdict::Exact
                | Verdict::Sampled
                | Verdict::Corrected
                | Verdict::Bonus
                | Verdict::Forced
        )
    }

    /// True if the token was proposed, by the drafter or by the grammar, and accepted.
    pub fn is_accepted_draft(self) -> bool {
        !matches!(self, Verdict::Plain | Verdict::Corrected | Verdict::Bonus)
    }

    pub fn why(self) -> &'static str {
        match self {
            Verdict::Plain => "emitted by the target without speculation",
            Verdict::Exact => "draft token equal to the target's choice",
            Verdict::Sampled => "draft token that passed the test that preserves the target's distribution",
            Verdict::Corrected => "the target's own token after a rejected draft",
            Verdict::Bonus => "the target's own token after all drafts were accepted",
            Verdict::Forced => "the only token that the grammar of the answer allows here",
            Verdict::Loosened => "differs from the target; accepted at one of the least visual positions",
            Verdict::Shifted => "differs from the target, whose token is elsewhere in the draft",
            Verdict::Entropy => "differs from the target, whose distribution has high entropy here",
            Verdict::Window => "differs from the target; all following drafts in the window match",
            Verdict::Lenient => "differs from the target, which finds it nearly as likely as its own choice",
            Verdict::Divergence => "differs from the target; the distributions of both models are close here",
            Verdict::Chance => "differs from the target; accepted by chance",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serialized_name_is_the_shown_name() {
        for v in Verdict::ALL {
            assert_eq!(serde_json::to_string(&v).unwrap(), format!("\"{}\"", v.name()));
        }
    }

    #[test]
    fn strict_and_accepted_partition_as_documented() {
        let loosened: Vec<_> = Verdict::ALL.into_iter().filter(|v| !v.is_strict()).collect();
        assert_eq!(loosened.len(), 7);
        assert!(loosened.iter().all(|v| v.is_accepted_draft()));
        assert!(!Verdict::Bonus.is_accepted_draft());
    }
}
