//! The rules of the study: what the papers and the program have, variants of them, pairs, and what knows the truth.

use specreel_speculate::{Acceptance, EntropyOver, StateAt};

/// How drafts are judged.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// As the program does.
    Plain(Acceptance),
    /// A mismatch passes where every rule passes it.
    All(Vec<Rule>),
    /// A mismatch passes where some rule passes it.
    Any(Vec<Rule>),
    /// A mismatch passes where the rule passes every token of its word.
    WholeWord(Box<Rule>),
    /// LVSpec's with other states: before the norm, or at the row that predicts the draft.
    Relevance { lambda: f64, top_n: usize, before_norm: bool, predicting: bool },
    /// A mismatch passes where the peak attention is below a fixed value.
    Peak { below: f32 },
    /// A mismatch passes where divergence + ratio · log(p max / p draft) + peak · attention peak is below a value.
    Cost { ratio: f32, peak: f32, below: f32 },
    /// The oracle by words: a mismatch passes unless what its word says is not what the target's word says.
    Words,
    /// The oracle by sentences: a mismatch passes unless the facts are worse at the end of the sentence.
    Sentences,
}

impl Rule {
    /// An acceptance whose signals are all that the rule looks at.
    pub fn signals(&self) -> Acceptance {
        match self {
            Rule::Plain(acceptance) => acceptance.clone(),
            Rule::All(rules) | Rule::Any(rules) => {
                Acceptance::AllOf { rules: rules.iter().map(Rule::signals).collect() }
            }
            Rule::WholeWord(rule) => rule.signals(),
            Rule::Peak { .. } => Acceptance::Glance { lambda: 1.0 },
            Rule::Cost { peak, .. } if *peak > 0.0 => Acceptance::AllOf {
                rules: vec![Acceptance::Divergence { threshold: 1.0 }, Acceptance::Glance { lambda: 1.0 }],
            },
            Rule::Cost { .. } => Acceptance::Divergence { threshold: 1.0 },
            Rule::Relevance { .. } | Rule::Words | Rule::Sentences => Acceptance::Exact {},
        }
    }

    /// It knows what no rule can know.
    pub fn knows_the_truth(&self) -> bool {
        matches!(self, Rule::Words | Rule::Sentences)
    }
}

/// A rule with its name and its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    pub family: String,
    pub setting: String,
    pub rule: Rule,
    /// One of many on a grid: shown only where it is on the front.
    pub grid: bool,
}

fn system(family: &str, setting: impl Into<String>, rule: Rule) -> System {
    System { family: family.into(), setting: setting.into(), rule, grid: false }
}

fn lenient(rho: f32) -> Rule {
    Rule::Plain(Acceptance::Lenient { rho })
}

fn divergence(threshold: f32) -> Rule {
    Rule::Plain(Acceptance::Divergence { threshold })
}

fn entropy(threshold: f32) -> Rule {
    Rule::Plain(Acceptance::Entropy { threshold, entropy: EntropyOver::Top3 })
}

fn glance(lambda: f64) -> Rule {
    Rule::Plain(Acceptance::Glance { lambda })
}

fn visual(lambda: f64, shift_tolerant: bool) -> Rule {
    Rule::Plain(Acceptance::Visual {
        lambda,
        top_n: 10,
        shift_tolerant,
        at: StateAt::Draft,
        always_strict: Vec::new(),
    })
}

/// The rules that every run measures; exact acceptance comes first, the oracles next.
pub fn standard() -> Vec<System> {
    let mut all = vec![
        system("exact", "", Rule::Plain(Acceptance::Exact {})),
        system("oracle", "words", Rule::Words),
        system("oracle", "sentences", Rule::Sentences),
    ];
    for probability in [0.1, 0.25, 0.5] {
        let rule = Rule::Plain(Acceptance::Random { probability, seed: 0 });
        all.push(system("random", format!("p {probability}"), rule));
    }
    for lambda in [0.3, 0.5, 0.7, 0.9] {
        all.push(system("visual", format!("lambda {lambda}"), visual(lambda, false)));
        all.push(system("visual, shifts", format!("lambda {lambda}"), visual(lambda, true)));
    }
    for lambda in [0.5, 0.7, 0.9] {
        let rule = Rule::Relevance { lambda, top_n: 10, before_norm: true, predicting: false };
        all.push(system("visual before norm", format!("lambda {lambda}"), rule));
        let rule = Rule::Relevance { lambda, top_n: 10, before_norm: false, predicting: true };
        all.push(system("visual, row before", format!("lambda {lambda}"), rule));
    }
    for threshold in [0.1, 0.2, 0.3, 0.5] {
        all.push(system("entropy", threshold.to_string(), entropy(threshold)));
    }
    for (length, threshold) in [(4, 0.2), (6, 0.2), (6, 0.3)] {
        let rule = Acceptance::Window { length, threshold, entropy: EntropyOver::Top3 };
        all.push(system("window", format!("W {length}, {threshold}"), Rule::Plain(rule)));
    }
    for threshold in [0.1, 0.2, 0.3, 0.45, 0.6, 0.9, 1.3] {
        all.push(system("divergence", threshold.to_string(), divergence(threshold)));
    }
    for rho in [0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.005] {
        all.push(system("lenient", format!("rho {rho}"), lenient(rho)));
    }
    for lambda in [0.5, 0.7, 0.8, 0.9] {
        all.push(system("glance", format!("lambda {lambda}"), glance(lambda)));
    }
    for below in [0.05, 0.1, 0.15, 0.2, 0.3] {
        all.push(system("peak", format!("below {below}"), Rule::Peak { below }));
    }
    for (ratio, below) in [(0.3, 0.5), (0.3, 0.8), (1.0, 0.5), (1.0, 0.8), (1.0, 1.2)] {
        all.push(cost(ratio, 0.0, below));
    }
    all.extend(pairs());
    let word = |rule: Rule| Rule::WholeWord(Box::new(rule));
    all.push(system("whole words: lenient", "rho 0.2", word(lenient(0.2))));
    all.push(system("whole words: lenient", "rho 0.05", word(lenient(0.05))));
    all.push(system("whole words: divergence", "0.3", word(divergence(0.3))));
    all.push(system("whole words: entropy", "0.2", word(entropy(0.2))));
    all.push(system("whole words: visual", "lambda 0.7", word(visual(0.7, false))));
    all
}

/// A sum of signals.
fn cost(ratio: f32, peak: f32, below: f32) -> System {
    let (family, setting) = match peak > 0.0 {
        true => ("cost with peak", format!("{ratio}, {peak}, {below}")),
        false => ("cost", format!("{ratio}, {below}")),
    };
    system(family, setting, Rule::Cost { ratio, peak, below })
}

/// Two rules, both of which have to agree.
fn pairs() -> Vec<System> {
    let both = |a, b| Rule::All(vec![a, b]);
    vec![
        system("lenient + glance", "0.2, 0.8", both(lenient(0.2), glance(0.8))),
        system("lenient + glance", "0.05, 0.9", both(lenient(0.05), glance(0.9))),
        system("divergence + glance", "0.45, 0.8", both(divergence(0.45), glance(0.8))),
        system("divergence + glance", "0.6, 0.9", both(divergence(0.6), glance(0.9))),
        system("lenient + divergence", "0.1, 0.6", both(lenient(0.1), divergence(0.6))),
        system("lenient + divergence", "0.05, 0.45", both(lenient(0.05), divergence(0.45))),
        system("lenient + divergence", "0.02, 0.6", both(lenient(0.02), divergence(0.6))),
        system("visual + lenient", "0.7, 0.2", both(visual(0.7, false), lenient(0.2))),
        system("visual + lenient", "0.9, 0.05", both(visual(0.9, false), lenient(0.05))),
    ]
}

type Choice = (f32, Rule);

/// A small grid over pairs of rules, joined by `and` and by `or`, and over sums of signals.
pub fn search() -> Vec<System> {
    let of = |numbers: &[f32], rule: fn(f32) -> Rule| numbers.iter().map(|&n| (n, rule(n))).collect();
    let lenients: Vec<Choice> = of(&[0.3, 0.1, 0.03, 0.01], lenient);
    let divergences: Vec<Choice> = of(&[0.2, 0.4, 0.6, 0.9], divergence);
    let peaks: Vec<Choice> = of(&[0.08, 0.15, 0.25], |below| Rule::Peak { below });
    let entropies: Vec<Choice> = of(&[0.1, 0.3], entropy);
    let mut all = Vec::new();
    let mut cross = |a: (&str, &[Choice]), b: (&str, &[Choice])| {
        for (x, first) in a.1 {
            for (y, second) in b.1 {
                let rules = vec![first.clone(), second.clone()];
                let setting = format!("{x}, {y}");
                let names = [format!("{} and {}", a.0, b.0), format!("{} or {}", a.0, b.0)];
                all.push(system(&names[0], setting.as_str(), Rule::All(rules.clone())));
                all.push(system(&names[1], setting, Rule::Any(rules)));
            }
        }
    };
    cross(("lenient", &lenients), ("divergence", &divergences));
    cross(("lenient", &lenients), ("peak", &peaks));
    cross(("divergence", &divergences), ("peak", &peaks));
    cross(("divergence", &divergences), ("entropy", &entropies));
    cross(("lenient", &lenients), ("entropy", &entropies));
    for below in [0.4, 0.6, 0.8, 1.0, 1.4, 2.0] {
        for ratio in [0.3, 0.6, 1.0, 1.5, 2.5] {
            all.push(cost(ratio, 0.0, below));
        }
        for (ratio, peak) in [(0.0, 5.0), (0.5, 5.0), (1.0, 5.0), (0.5, 15.0), (1.0, 15.0)] {
            all.push(cost(ratio, peak, below));
        }
    }
    all.iter_mut().for_each(|system| system.grid = true);
    all
}
