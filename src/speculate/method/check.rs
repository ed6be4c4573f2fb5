//! What is refused, and what is lossless.

use super::{Acceptance, Context, Drafter, Method, MethodError, Origin, Problem, Schedule, Shape};

/// Longest chain: a verify pass costs memory and time in proportion.
const MAX_CHAIN: usize = 64;

impl Method {
    /// Check ranges and combinations. Methods that were read from TOML have been checked already; those built or changed
    /// in memory have not.
    ///
    /// # Errors
    /// The first thing that cannot be, naming the key or the two choices that clash, and what to pick.
    pub fn validate(&self) -> Result<(), MethodError> {
        match self.problem() {
            None => Ok(()),
            Some(problem) => Err(MethodError::invalid(Origin::Method(self.name.clone()), problem)),
        }
    }

    /// True if the output is certain to be that of autoregressive decoding: token for token when greedy, in distribution
    /// when sampling.
    ///
    /// Exact and sampled acceptance are. A loosening rule is only where its numbers leave it nothing to loosen: visual with
    /// floor(lambda · K) = 0 and no shift tolerance, random with probability 0, a window longer than the chain.
    /// Lenient never is, not even at rho = 1: two tokens may tie.
    pub fn lossless(&self) -> bool {
        let Shape::Chain { length: k } = self.shape;
        if self.drafter == (Drafter::None {}) {
            return true;
        }
        match &self.acceptance {
            Acceptance::Exact {} | Acceptance::Sampled {} => true,
            // Fewer may be drafted than K, never more, so the share rounded down stays 0.
            Acceptance::Visual { lambda, shift_tolerant, .. } => {
                !shift_tolerant && (lambda * k as f64 + 1e-9).floor() == 0.0
            }
            Acceptance::Window { length, .. } => *length > k,
            Acceptance::Random { probability, .. } => *probability == 0.0,
            Acceptance::Entropy { .. } | Acceptance::Lenient { .. } => false,
        }
    }

    /// The first problem, if any.
    pub(super) fn problem(&self) -> Option<Problem> {
        self.name_problem()
            .or_else(|| self.context_problem())
            .or_else(|| self.shape_problem())
            .or_else(|| self.acceptance_problem())
            .or_else(|| self.clash())
    }

    fn name_problem(&self) -> Option<Problem> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let good = !self.name.is_empty() && self.name.len() <= 64 && self.name.chars().all(fits);
        (!good).then(|| Problem::Range {
            key: "name".into(),
            found: format!("{:?}", self.name),
            range: "1 to 64 lower-case letters, digits and hyphens",
            hint: "write for example name = \"my-method\"",
        })
    }

    fn context_problem(&self) -> Option<Problem> {
        match self.context {
            Context::Full {} | Context::None {} => None,
            Context::Random { keep, .. } | Context::Uniform { keep } | Context::Frames { keep } => share(
                "context.keep",
                keep,
                "it is the share of visual tokens that the drafter sees, for example 0.1",
            ),
        }
    }

    fn shape_problem(&self) -> Option<Problem> {
        let Shape::Chain { length } = self.shape;
        (length == 0 || length > MAX_CHAIN).then(|| Problem::Range {
            key: "shape.length".into(),
            found: length.to_string(),
            range: "1 to 64",
            hint: "it is K, the tokens drafted in a step; for no drafts at all use --method autoregressive",
        })
    }

    fn acceptance_problem(&self) -> Option<Problem> {
        match &self.acceptance {
            Acceptance::Exact {} | Acceptance::Sampled {} => None,
            Acceptance::Entropy { threshold, .. } => entropy(*threshold),
            Acceptance::Window { length, threshold, .. } => count(
                "acceptance.length",
                *length,
                "it is W, the mismatch and the matches after it, for example 4",
            )
            .or_else(|| entropy(*threshold)),
            Acceptance::Visual { lambda, top_n, always_strict, .. } => share(
                "acceptance.lambda",
                *lambda,
                "it is the share of the drafts that is loosened, for example 0.7",
            )
            .or_else(|| {
                count("acceptance.top_n", *top_n, "it is N, the similarities averaged, for example 10")
            })
            .or_else(|| words(always_strict)),
            Acceptance::Lenient { rho } => share(
                "acceptance.rho",
                f64::from(*rho),
                "a draft passes at rho times the probability of the target's best token, for example 0.2",
            ),
            Acceptance::Random { probability, .. } => share(
                "acceptance.probability",
                *probability,
                "it is the chance of a mismatch to pass, for example 0.5",
            ),
        }
    }

    /// Combinations that cannot work.
    fn clash(&self) -> Option<Problem> {
        let Schedule::Sequential {} = self.schedule;
        if self.drafter != (Drafter::None {}) {
            return None;
        }
        let clash = |second: String, why, instead| {
            Some(Problem::Clash { first: "drafter = none".into(), second, why, instead })
        };
        if !matches!(self.acceptance, Acceptance::Exact {} | Acceptance::Sampled {}) {
            return clash(
                format!("acceptance = {}", self.acceptance.kind()),
                "without a drafter there is nothing to pass",
                "pick acceptance = exact, or drafter = model or self",
            );
        }
        if !matches!(self.context, Context::Full {} | Context::None {}) {
            return clash(
                format!("context = {}", self.context.kind()),
                "without a drafter nobody sees the kept visual tokens",
                "pick context = none, or drafter = model or self",
            );
        }
        None
    }
}

// Written so that NaN is outside.
fn share(key: &str, value: f64, hint: &'static str) -> Option<Problem> {
    let inside = (0.0..=1.0).contains(&value);
    (!inside).then(|| Problem::Range { key: key.into(), found: value.to_string(), range: "0 to 1", hint })
}

fn count(key: &str, value: usize, hint: &'static str) -> Option<Problem> {
    (value == 0).then(|| Problem::Range { key: key.into(), found: "0".into(), range: "at least 1", hint })
}

fn entropy(threshold: f32) -> Option<Problem> {
    let inside = threshold.is_finite() && threshold >= 0.0;
    (!inside).then(|| Problem::Range {
        key: "acceptance.threshold".into(),
        found: threshold.to_string(),
        range: "a finite number of nats from 0",
        hint: "a mismatch passes from this entropy of the target on, for example 0.2",
    })
}

fn words(words: &[String]) -> Option<Problem> {
    let bad = words.iter().find(|w| w.is_empty() || w.trim() != w.as_str() || w.to_lowercase() != **w)?;
    Some(Problem::Range {
        key: "acceptance.always_strict".into(),
        found: format!("{bad:?}"),
        range: "words in lower case without spaces around them",
        hint: "tokens are compared by their trimmed lower-case text, for example [\"not\", \"no\"]",
    })
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
