//! Methods that are refused, and methods that are lossless.

use super::{
    AXES, Acceptance, Axis, Drafter, Key, Length, Method, MethodError, Origin, Problem, RuleNeeds, Schedule,
    Shape, VisualContext,
};
use crate::{Sampler, tree};
use specreel_model::draft_head::Recipe;
use specreel_record::Promise;

impl Method {
    /// Check ranges and combinations. Methods that were read from TOML have been checked already; those built or changed
    /// in memory have not. The error has the first invalid value or combination: the key, or the two choices that clash, and what
    /// to pick.
    pub fn validate(&self) -> Result<(), MethodError> {
        match self.problem() {
            None => Ok(()),
            Some(problem) => Err(MethodError::invalid(Origin::Method(self.name.clone()), problem)),
        }
    }

    /// True if the output is certain to equal autoregressive decoding's: token for token when greedy, in distribution
    /// when sampling.
    ///
    /// Exact and sampled acceptance are lossless. A loosening rule is lossless only where its numbers leave it nothing to loosen.
    /// Rules that must all pass are lossless if one of them is.
    pub fn lossless(&self) -> bool {
        !self.drafts() || self.acceptance.is_strict(self.shape.longest())
    }

    /// What it promises about its text, sampled like this. The target's token at a position is drawn with a random number that
    /// depends on the seed and the position alone; only a chain that was drawn from the drafter's distribution is judged by
    /// other numbers.
    pub fn promise(&self, sampler: &Sampler) -> Promise {
        let chain = matches!(self.shape, Shape::Chain { .. });
        match self.lossless() {
            false => Promise::Nothing,
            true if self.drafts() && chain && self.draws_drafts(sampler) => Promise::Distribution,
            true => Promise::Tokens,
        }
    }

    /// True where drafts are drawn from the drafter's distribution and judged by min(1, p/q).
    pub(crate) fn draws_drafts(&self, sampler: &Sampler) -> bool {
        self.acceptance == (Acceptance::Sampled {}) && !sampler.is_greedy()
    }

    /// The first problem, if any.
    pub(super) fn problem(&self) -> Option<Problem> {
        let [drafter, context, shape, ..] = &AXES;
        let schedule = &AXES[4];
        self.name_problem()
            .or_else(|| range_problem(drafter, self.drafter.numbers()))
            .or_else(|| range_problem(context, self.context.numbers()))
            .or_else(|| range_problem(shape, self.shape.numbers()))
            .or_else(|| self.nodes_problem())
            .or_else(|| rule_problem(&self.acceptance))
            .or_else(|| range_problem(schedule, self.schedule.numbers()))
            .or_else(|| self.clash())
    }

    fn name_problem(&self) -> Option<Problem> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let good = !self.name.is_empty() && self.name.len() <= 64 && self.name.chars().all(fits);
        (!good).then(|| Problem::Range {
            key: "name".into(),
            found: format!("{:?}", self.name),
            range: "1 to 64 lower-case letters, digits and hyphens".into(),
            hint: "for example: name = \"my-method\"".into(),
        })
    }

    fn nodes_problem(&self) -> Option<Problem> {
        let Shape::StaticTree { nodes, .. } = &self.shape else { return None };
        tree::Template::read(nodes).err().map(|found| Problem::Range {
            key: "shape.nodes".into(),
            found,
            range: "1 to 63 nodes, each named by the ranks (0 to 9) on the path to it and listed after its parent"
                .into(),
            hint: "for example: nodes = [\"0\", \"1\", \"00\", \"01\", \"000\"]".into(),
        })
    }

    /// Combinations that cannot work.
    fn clash(&self) -> Option<Problem> {
        let kinds = self.kinds();
        let choice = |axis: usize| format!("{} = {}", AXES[axis].name, kinds[axis]);
        let [drafter, context, shape, acceptance, schedule] = [0, 1, 2, 3, 4];
        let none = self.drafter == (Drafter::None {});
        let automatic = self.drafter == (Drafter::Auto {});
        let lookup = matches!(self.drafter, Drafter::Lookup { .. });
        let parallel = matches!(self.schedule, Schedule::Parallel { .. });
        let reduced = self.context.is_reduced();
        let chain = matches!(self.shape, Shape::Chain { .. });
        let loosens = !matches!(self.acceptance, Acceptance::Exact {} | Acceptance::Sampled {});
        let compares =
            self.acceptance == (Acceptance::Sampled {}) || RuleNeeds::of(&self.acceptance).divergence;
        let clashes = [
            (
                none && parallel,
                [drafter, schedule],
                "without a drafter nothing overlaps with the target",
                "pick schedule = sequential, or drafter = model or self",
            ),
            (
                none && loosens,
                [drafter, acceptance],
                "without a drafter there are no drafts to accept",
                "pick acceptance = exact, or drafter = model or self",
            ),
            (
                none && reduced,
                [drafter, context],
                "without a drafter nothing sees less: the target reads all visual tokens",
                "pick context = none, or drafter = model or self",
            ),
            (
                matches!(self.context, VisualContext::TopKKv { .. }) && self.drafter != Drafter::SELF,
                [drafter, context],
                "keys and values are chosen head by head in the target's own cache",
                "pick drafter = self without a dtype, or context = attention",
            ),
            (
                matches!(self.drafter, Drafter::EarlyExit { .. }) && self.context != (VisualContext::Full {}),
                [drafter, context],
                "the first layers share the target's own cache",
                "pick context = full, or drafter = self",
            ),
            (
                self.drafter == (Drafter::Head { recipe: Recipe::Assistant })
                    && self.context != (VisualContext::Full {}),
                [drafter, context],
                "an assistant reads the target's own keys and values, those of the whole video among them",
                "pick context = full",
            ),
            (
                automatic && self.context != (VisualContext::Auto {}),
                [drafter, context],
                "what a drafter can see depends on which one it is",
                "pick context = auto, or a drafter",
            ),
            (
                automatic && !chain,
                [drafter, shape],
                "prompt lookup, one of the choices, finds a chain",
                "pick shape = chain, or a drafter",
            ),
            (
                automatic && self.acceptance != (Acceptance::Exact {}),
                [drafter, acceptance],
                "the choice depends on measured times, and the text would change with it",
                "pick acceptance = exact, or a drafter",
            ),
            (
                automatic && parallel,
                [drafter, schedule],
                "draft heads and prompt lookup, among the choices, cannot overlap with the target",
                "pick schedule = sequential, or a drafter",
            ),
            (
                self.context == (VisualContext::Auto {})
                    && !matches!(self.drafter, Drafter::Auto {} | Drafter::Model {} | Drafter::Target { .. }),
                [drafter, context],
                "only a drafter that reads the video itself can be given less of it",
                "pick drafter = model or self, or context = full or none",
            ),
            (
                self.context == (VisualContext::Auto {}) && loosens,
                [context, acceptance],
                "an automatic context depends on measured times, and a loosened text would change with it",
                "pick context = attention, or acceptance = exact",
            ),
            (
                lookup && reduced,
                [drafter, context],
                "prompt lookup does not use the video",
                "pick context = none, or drafter = model or self",
            ),
            (
                lookup && !chain,
                [drafter, shape],
                "prompt lookup finds one continuation, which is a chain",
                "pick shape = chain, or drafter = model or self",
            ),
            (
                lookup && compares,
                [drafter, acceptance],
                "prompt lookup has no probabilities to compare",
                "pick acceptance = exact, or drafter = model or self",
            ),
            (
                lookup && parallel,
                [drafter, schedule],
                "prompt lookup takes no time that overlapping could hide",
                "pick schedule = sequential, or drafter = model or self",
            ),
            (
                matches!(self.drafter, Drafter::Head { .. }) && parallel,
                [drafter, schedule],
                "the draft head needs the states of the verify pass that would still be running",
                "pick schedule = sequential, or drafter = model or self",
            ),
            (
                parallel && !chain,
                [shape, schedule],
                "the next window continues one chain, and a tree has several ends",
                "pick shape = chain, or schedule = sequential",
            ),
            (
                parallel && self.shape.gate() > 0.0,
                [shape, schedule],
                "the next window is drafted before the target's attention is known",
                "pick shape.gate = 0, or schedule = sequential",
            ),
            (
                parallel && loosens,
                [acceptance, schedule],
                "the first token of a window is judged before the others exist, and loosening compares them",
                "pick acceptance = exact, or schedule = sequential",
            ),
            (
                matches!(self.shape, Shape::Chain { length: Length::AUTO, .. }) && loosens,
                [shape, acceptance],
                "an automatic length depends on measured times, and a loosened text would change with it",
                "pick a number for shape.length, or acceptance = exact",
            ),
        ];
        clashes.into_iter().find(|(clash, ..)| *clash).map(|(_, [first, second], why, instead)| {
            Problem::Clash { first: choice(first), second: choice(second), why, instead }
        })
    }
}

/// The first number outside of its range.
fn range_problem(axis: &Axis, numbers: Vec<(&'static Key, f64)>) -> Option<Problem> {
    numbers.into_iter().find_map(|(key, value)| {
        let range = key.range.filter(|range| !range.contains(value))?;
        let finite = if range.high.is_infinite() && !value.is_finite() { "finite and " } else { "" };
        Some(Problem::Range {
            key: format!("{}.{}", axis.name, key.name),
            found: value.to_string(),
            range: format!("{finite}{range}").into(),
            hint: format!("{}: {} (for example {})", key.name, key.about(), key.example).into(),
        })
    })
}

fn rule_problem(rule: &Acceptance) -> Option<Problem> {
    range_problem(&Acceptance::AXIS, rule.numbers()).or_else(|| match rule {
        Acceptance::Visual { always_strict, .. } => words_problem(always_strict),
        Acceptance::AllOf { rules } => rules_problem(rules).or_else(|| rules.iter().find_map(rule_problem)),
        _ => None,
    })
}

fn rules_problem(rules: &[Acceptance]) -> Option<Problem> {
    let loosens = |rule: &Acceptance| {
        !matches!(rule, Acceptance::Exact {} | Acceptance::Sampled {} | Acceptance::AllOf { .. })
    };
    // Two rules of one kind would ask for the same signal with different numbers, and there is one signal.
    let is_first =
        |(i, rule): (usize, &Acceptance)| rules[..i].iter().all(|other| other.kind() != rule.kind());
    let fits =
        (2..=4).contains(&rules.len()) && rules.iter().all(loosens) && rules.iter().enumerate().all(is_first);
    (!fits).then(|| Problem::Range {
        key: "acceptance.rules".into(),
        found: format!("[{}]", rules.iter().map(Acceptance::kind).collect::<Vec<_>>().join(", ")),
        range: "two to four loosening rules of different kinds".into(),
        hint: "for example: rules = [{ kind = \"glance\", lambda = 0.8 }, { kind = \"lenient\", rho = 0.1 }]"
            .into(),
    })
}

fn words_problem(words: &[String]) -> Option<Problem> {
    let bad = words.iter().find(|w| w.is_empty() || w.trim() != w.as_str() || w.to_lowercase() != **w)?;
    Some(Problem::Range {
        key: "acceptance.always_strict".into(),
        found: format!("{bad:?}"),
        range: "lower-case words without spaces around them".into(),
        hint: "words are compared with a token's trimmed lower-case text, for example [\"not\", \"no\"]"
            .into(),
    })
}

#[cfg(test)]
mod tests;
