//! What is refused, and what is lossless.

use super::{
    Acceptance, Drafter, Length, Method, MethodError, Origin, Problem, Schedule, Shape, VisualContext,
};
use crate::speculate::tree;

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
    /// Lenient never is, not even at rho = 1: two tokens may tie. GenerationConfig that must all pass are where one of them is.
    pub fn lossless(&self) -> bool {
        self.drafter == (Drafter::None {}) || strict(&self.acceptance, self.longest_draft())
    }

    /// Most drafts that are judged together as one chain.
    fn longest_draft(&self) -> usize {
        match &self.schedule {
            Schedule::Parallel { window: Length::Fixed(n) } => *n,
            Schedule::Parallel { window: Length::Auto(_) } => MAX_CHAIN,
            Schedule::Sequential {} => self.shape.longest(),
        }
    }

    /// The first problem, if any.
    pub(super) fn problem(&self) -> Option<Problem> {
        self.name_problem()
            .or_else(|| self.drafter_problem())
            .or_else(|| self.context_problem())
            .or_else(|| self.shape_problem())
            .or_else(|| self.acceptance_problem())
            .or_else(|| self.schedule_problem())
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

    fn drafter_problem(&self) -> Option<Problem> {
        match self.drafter {
            Drafter::None {} | Drafter::Model {} | Drafter::Target {} | Drafter::Sparrow { .. } => None,
            Drafter::EarlyExit { depth } => (!(depth > 0.0 && depth < 1.0)).then(|| Problem::Range {
                key: "drafter.depth".into(),
                found: depth.to_string(),
                range: "above 0, below 1",
                hint: "it is the share of the target's layers that draft, for example 0.5",
            }),
            Drafter::Lookup { ngram } => (ngram == 0 || ngram > 16).then(|| Problem::Range {
                key: "drafter.ngram".into(),
                found: ngram.to_string(),
                range: "1 to 16",
                hint: "it is the longest run of tokens that is looked for, for example 3",
            }),
        }
    }

    fn context_problem(&self) -> Option<Problem> {
        let kept = |keep| {
            share(
                "context.keep",
                keep,
                "it is the share of visual tokens that the drafter sees, for example 0.1",
            )
        };
        match self.context {
            VisualContext::Full {} | VisualContext::None { .. } | VisualContext::Streaming { .. } => None,
            VisualContext::Random { keep, .. }
            | VisualContext::Uniform { keep, .. }
            | VisualContext::Frames { keep, .. }
            | VisualContext::Window { keep, .. }
            | VisualContext::TopKKv { keep, .. } => kept(keep),
            VisualContext::Attention { keep, mass, .. } => kept(keep).or_else(|| {
                share(
                    "context.mass",
                    mass,
                    "it is the share of the attention that stage one keeps, for example 0.5",
                )
            }),
            VisualContext::Variation { keep, depth, .. } => kept(keep).or_else(|| {
                (!(depth > 0.0 && depth <= 1.0)).then(|| Problem::Range {
                    key: "context.depth".into(),
                    found: depth.to_string(),
                    range: "above 0, up to 1",
                    hint: "it is the share of the target's layers after which likeness is taken, for example 0.5",
                })
            }),
        }
    }

    fn shape_problem(&self) -> Option<Problem> {
        let range = |key: &str, found: usize, range, hint| {
            Some(Problem::Range { key: format!("shape.{key}"), found: found.to_string(), range, hint })
        };
        match &self.shape {
            Shape::Chain { length: Length::Auto(_) } => None,
            Shape::Chain { length: Length::Fixed(1..=MAX_CHAIN) } => None,
            Shape::Chain { length: Length::Fixed(length) } => range(
                "length",
                *length,
                "1 to 64",
                "it is K, the tokens drafted in a step; for no drafts at all use --method autoregressive",
            ),
            Shape::TwoBranch { length: 1..=32 } => None,
            Shape::TwoBranch { length } => range(
                "length",
                *length,
                "1 to 32",
                "it is the tokens of each of the two branches, for example 10",
            ),
            Shape::StaticTree { nodes } => tree::Template::read(nodes).err().map(|found| Problem::Range {
                key: "shape.nodes".into(),
                found,
                range: "1 to 63 nodes named by the ranks on the way to them, 0 to 9, each after its parent",
                hint: "write for example nodes = [\"0\", \"1\", \"00\", \"01\", \"000\"]",
            }),
            Shape::DynamicTree { total: 2..=64, depth: 1..=16, width: 1..=16 } => None,
            Shape::DynamicTree { total: 2..=64, depth: 1..=16, width } => {
                range("width", *width, "1 to 16", "it is the nodes expanded on each level, for example 8")
            }
            Shape::DynamicTree { total: 2..=64, depth, .. } => {
                range("depth", *depth, "1 to 16", "it is the levels that are drafted, for example 5")
            }
            Shape::DynamicTree { total, .. } => range(
                "total",
                *total,
                "2 to 64",
                "it is the nodes that are verified together, the root counted, for example 25",
            ),
        }
    }

    fn acceptance_problem(&self) -> Option<Problem> {
        rule_problem(&self.acceptance)
    }

    fn schedule_problem(&self) -> Option<Problem> {
        match self.schedule {
            Schedule::Sequential {}
            | Schedule::Parallel { window: Length::Auto(_) | Length::Fixed(1..=MAX_CHAIN) } => None,
            Schedule::Parallel { window: Length::Fixed(window) } => Some(Problem::Range {
                key: "schedule.window".into(),
                found: window.to_string(),
                range: "1 to 64",
                hint: "it is the tokens that the drafter writes during one pass of the target, or \"auto\"",
            }),
        }
    }

    /// Combinations that cannot work.
    fn clash(&self) -> Option<Problem> {
        if self.drafter != (Drafter::None {}) {
            return self.drafting_clash();
        }
        let clash = |second: String, why, instead| {
            Some(Problem::Clash { first: "drafter = none".into(), second, why, instead })
        };
        if let Schedule::Parallel { .. } = self.schedule {
            return clash(
                "schedule = parallel".into(),
                "without a drafter nothing goes on beside the target",
                "pick schedule = sequential, or drafter = model or self",
            );
        }
        if !matches!(self.acceptance, Acceptance::Exact {} | Acceptance::Sampled {}) {
            return clash(
                format!("acceptance = {}", self.acceptance.kind()),
                "without a drafter there is nothing to pass",
                "pick acceptance = exact, or drafter = model or self",
            );
        }
        if !matches!(self.context, VisualContext::Full {} | VisualContext::None { .. }) {
            return clash(
                format!("context = {}", self.context.kind()),
                "without a drafter nobody sees the kept visual tokens",
                "pick context = none, or drafter = model or self",
            );
        }
        None
    }
}

impl Method {
    /// Combinations with a drafter that cannot work.
    fn drafting_clash(&self) -> Option<Problem> {
        let clash = |first: (&str, &str), second: (&str, &str), why, instead| {
            let choice = |(axis, kind): (&str, &str)| format!("{axis} = {kind}");
            Some(Problem::Clash { first: choice(first), second: choice(second), why, instead })
        };
        let (drafter, context) = (("drafter", self.drafter.kind()), ("context", self.context.kind()));
        let (shape, acceptance) = (("shape", self.shape.kind()), ("acceptance", self.acceptance.kind()));
        let schedule = ("schedule", self.schedule.kind());
        if matches!(self.context, VisualContext::TopKKv { .. }) && self.drafter != (Drafter::Target {}) {
            return clash(
                drafter,
                context,
                "keys and values are chosen head by head in the target's own cache",
                "pick drafter = self, or context = attention",
            );
        }
        if matches!(self.drafter, Drafter::EarlyExit { .. }) && self.context != (VisualContext::Full {}) {
            return clash(
                drafter,
                context,
                "the first layers go on from what the target itself has read",
                "pick context = full, or drafter = self",
            );
        }
        if matches!(self.drafter, Drafter::Lookup { .. }) {
            if !matches!(self.context, VisualContext::Full {} | VisualContext::None { .. }) {
                return clash(
                    drafter,
                    context,
                    "who looks words up sees no video",
                    "pick context = none, or drafter = model or self",
                );
            }
            if !matches!(self.shape, Shape::Chain { .. }) {
                return clash(
                    drafter,
                    shape,
                    "what followed before is one chain of words",
                    "pick shape = chain, or drafter = model or self",
                );
            }
            if needs_distributions(&self.acceptance) {
                return clash(
                    drafter,
                    acceptance,
                    "who looks words up has no probabilities to compare",
                    "pick acceptance = exact, or drafter = model or self",
                );
            }
            if let Schedule::Parallel { .. } = self.schedule {
                return clash(
                    drafter,
                    schedule,
                    "looking words up takes no time that could be hidden",
                    "pick schedule = sequential, or drafter = model or self",
                );
            }
        }
        if let Schedule::Parallel { .. } = self.schedule {
            if matches!(self.drafter, Drafter::Sparrow { .. }) {
                return clash(
                    drafter,
                    schedule,
                    "it goes on from the states of the pass that would still be running",
                    "pick schedule = sequential, or drafter = model or self",
                );
            }
            if !matches!(self.shape, Shape::Chain { .. }) {
                return clash(
                    shape,
                    schedule,
                    "the next window goes on from one chain, and a tree has many ends",
                    "pick shape = chain, or schedule = sequential",
                );
            }
            if !matches!(self.acceptance, Acceptance::Exact {} | Acceptance::Sampled {}) {
                return clash(
                    acceptance,
                    schedule,
                    "the first token of a window is judged before the rest is there, and loosening compares them",
                    "pick acceptance = exact, or schedule = sequential",
                );
            }
        }
        if self.shape == (Shape::Chain { length: Length::AUTO })
            && !matches!(self.acceptance, Acceptance::Exact {} | Acceptance::Sampled {})
        {
            return clash(
                shape,
                acceptance,
                "an automatic length follows the clock, and a loosened text would change with it",
                "pick a number for shape.length, or acceptance = exact",
            );
        }
        None
    }
}

/// True if the rule compares the drafter's distribution with the target's.
fn needs_distributions(rule: &Acceptance) -> bool {
    match rule {
        Acceptance::Sampled {} | Acceptance::Divergence { .. } | Acceptance::Cost { .. } => true,
        Acceptance::AllOf { rules } => rules.iter().any(needs_distributions),
        _ => false,
    }
}

/// True if the rule passes nothing but matches among at most `k` drafts.
fn strict(rule: &Acceptance, k: usize) -> bool {
    // Fewer may be drafted than K, never more, so the share rounded down stays 0.
    let none_of = |lambda: f64| (lambda * k as f64 + 1e-9).floor() == 0.0;
    match rule {
        Acceptance::Exact {} | Acceptance::Sampled {} => true,
        Acceptance::Visual { lambda, shift_tolerant, .. } => !shift_tolerant && none_of(*lambda),
        Acceptance::Glance { lambda } => none_of(*lambda),
        Acceptance::Window { length, .. } => *length > k,
        Acceptance::Random { probability, .. } => *probability == 0.0,
        Acceptance::AllOf { rules } => rules.iter().any(|rule| strict(rule, k)),
        Acceptance::Entropy { .. }
        | Acceptance::Lenient { .. }
        | Acceptance::Divergence { .. }
        | Acceptance::Cost { .. } => false,
    }
}

fn rule_problem(rule: &Acceptance) -> Option<Problem> {
    match rule {
        Acceptance::Exact {} | Acceptance::Sampled {} => None,
        Acceptance::Entropy { threshold, .. } => entropy(*threshold),
        Acceptance::Window { length, threshold, .. } => count(
            "acceptance.length",
            *length,
            "it is W, the mismatch and the matches after it, for example 4",
        )
        .or_else(|| entropy(*threshold)),
        Acceptance::Visual { lambda, top_n, always_strict, .. } => lambda_problem(*lambda)
            .or_else(|| {
                count("acceptance.top_n", *top_n, "it is N, the similarities averaged, for example 10")
            })
            .or_else(|| words(always_strict)),
        Acceptance::Glance { lambda } => lambda_problem(*lambda),
        Acceptance::Lenient { rho } => share(
            "acceptance.rho",
            f64::from(*rho),
            "a draft passes at rho times the probability of the target's best token, for example 0.2",
        ),
        Acceptance::Cost { limit, ratio } => {
            let wrong = |key: &str, value: f32| {
                let inside = value.is_finite() && value >= 0.0;
                (!inside).then(|| Problem::Range {
                    key: format!("acceptance.{key}"),
                    found: value.to_string(),
                    range: "a finite number from 0",
                    hint: "a mismatch passes below `limit` nats of divergence and `ratio` times its log-likelihood gap, for example 0.8 and 1",
                })
            };
            wrong("limit", *limit).or_else(|| wrong("ratio", *ratio))
        }
        Acceptance::Divergence { threshold } => {
            let inside = threshold.is_finite() && *threshold >= 0.0;
            (!inside).then(|| Problem::Range {
                key: "acceptance.threshold".into(),
                found: threshold.to_string(),
                range: "a finite number of nats from 0",
                hint: "a mismatch passes below this divergence of drafter and target, for example 0.3",
            })
        }
        Acceptance::AllOf { rules } => {
            let inside = |rule: &Acceptance| {
                !matches!(rule, Acceptance::Exact {} | Acceptance::Sampled {} | Acceptance::AllOf { .. })
            };
            // Two rules of one kind would ask for the same signal with different numbers, and there is one signal.
            let another =
                |(i, rule): (usize, &Acceptance)| rules[..i].iter().all(|other| other.kind() != rule.kind());
            let fits = (2..=4).contains(&rules.len())
                && rules.iter().all(inside)
                && rules.iter().enumerate().all(another);
            (!fits)
                .then(|| Problem::Range {
                    key: "acceptance.rules".into(),
                    found: format!("[{}]", rules.iter().map(Acceptance::kind).collect::<Vec<_>>().join(", ")),
                    range: "two to four loosening rules of different kinds",
                    hint: "write for example rules = [{ kind = \"glance\", lambda = 0.8 }, { kind = \"lenient\", rho = 0.1 }]",
                })
                .or_else(|| rules.iter().find_map(rule_problem))
        }
        Acceptance::Random { probability, .. } => share(
            "acceptance.probability",
            *probability,
            "it is the chance of a mismatch to pass, for example 0.5",
        ),
    }
}

fn lambda_problem(lambda: f64) -> Option<Problem> {
    share("acceptance.lambda", lambda, "it is the share of the drafts that is loosened, for example 0.7")
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
