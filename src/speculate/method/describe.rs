//! Methods in words.

use super::{Acceptance, Context, Drafter, EntropyOver, Method, Schedule, Shape};

impl Method {
    /// The five choices in one line, for example
    /// `small model drafts · sees 10 % evenly spaced · chain of 5 · exact matches pass · sequential`.
    pub fn describe(&self) -> String {
        self.choices().map(|(_, words)| words).join(" · ")
    }

    /// The five choices as (axis, words), in order.
    pub fn choices(&self) -> [(&'static str, String); 5] {
        [
            ("drafter", self.drafter.describe()),
            ("context", self.context.describe()),
            ("shape", self.shape.describe()),
            ("acceptance", self.acceptance.describe()),
            ("schedule", self.schedule.describe()),
        ]
    }
}

impl Method {
    /// Drafts of a full step; none without a drafter.
    pub fn draft_length(&self) -> Option<usize> {
        let Shape::Chain { length } = self.shape;
        (!matches!(self.drafter, Drafter::None {})).then_some(length)
    }
}

impl Drafter {
    /// The kind as written in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            Drafter::None {} => "none",
            Drafter::Model {} => "model",
            Drafter::Target {} => "self",
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        match self {
            Drafter::None {} => "no drafter",
            Drafter::Model {} => "small model drafts",
            Drafter::Target {} => "target drafts for itself",
        }
        .into()
    }
}

impl Context {
    /// The kind as written in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            Context::Full {} => "full",
            Context::None {} => "none",
            Context::Random { .. } => "random",
            Context::Uniform { .. } => "uniform",
            Context::Frames { .. } => "frames",
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        match self {
            Context::Full {} => "sees all visual tokens".into(),
            Context::None {} => "sees no visual tokens".into(),
            Context::Random { keep, .. } => format!("sees {} at random", percent(*keep)),
            Context::Uniform { keep } => format!("sees {} evenly spaced", percent(*keep)),
            Context::Frames { keep } => format!("sees {} of the frames", percent(*keep)),
        }
    }
}

impl Shape {
    /// The kind as written in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            Shape::Chain { .. } => "chain",
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        match self {
            Shape::Chain { length } => format!("chain of {length}"),
        }
    }
}

impl Acceptance {
    /// The kind as written in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            Acceptance::Exact {} => "exact",
            Acceptance::Sampled {} => "sampled",
            Acceptance::Entropy { .. } => "entropy",
            Acceptance::Window { .. } => "window",
            Acceptance::Visual { .. } => "visual",
            Acceptance::Lenient { .. } => "lenient",
            Acceptance::Random { .. } => "random",
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        match self {
            Acceptance::Exact {} => "exact matches pass".into(),
            Acceptance::Sampled {} => "passes by min(1, p/q)".into(),
            Acceptance::Entropy { threshold, entropy } => format!("entropy ≥ {threshold}{}", over(*entropy)),
            Acceptance::Window { length, threshold, entropy } => {
                format!("entropy ≥ {threshold}{}, window of {length}", over(*entropy))
            }
            Acceptance::Visual { lambda, top_n, shift_tolerant, always_strict } => {
                let shifts = if *shift_tolerant { ", shifts" } else { "" };
                let strict = match always_strict.len() {
                    0 => String::new(),
                    1 => ", 1 word always strict".into(),
                    n => format!(", {n} words always strict"),
                };
                format!("visual λ {lambda}, N {top_n}{shifts}{strict}")
            }
            Acceptance::Lenient { rho } => format!("lenient ρ {rho}"),
            Acceptance::Random { probability, .. } => format!("mismatch passes {}", percent(*probability)),
        }
    }
}

impl Schedule {
    /// The kind as written in a file.
    pub fn kind(&self) -> &'static str {
        match self {
            Schedule::Sequential {} => "sequential",
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        self.kind().into()
    }
}

fn over(entropy: EntropyOver) -> &'static str {
    match entropy {
        EntropyOver::Top3 => "",
        EntropyOver::Full => " (full)",
    }
}

/// 0.1 as `10 %`, 0.125 as `12.5 %`.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_names_all_five() {
        let lvspec = Method::preset("lvspec").unwrap();
        assert_eq!(
            lvspec.describe(),
            "small model drafts · sees 10 % evenly spaced · chain of 10 · visual λ 0.7, N 10, shifts · sequential"
        );
        assert_eq!(
            Method::preset("fly").unwrap().describe(),
            "small model drafts · sees 10 % evenly spaced · chain of 10 · entropy ≥ 0.2, window of 4 · sequential"
        );
        assert_eq!(percent(0.125), "12.5 %");
    }

    #[test]
    fn the_kinds_are_those_of_the_files() {
        for m in Method::presets() {
            let json = serde_json::to_value(m).unwrap();
            assert_eq!(json["drafter"]["kind"], m.drafter.kind());
            assert_eq!(json["context"]["kind"], m.context.kind());
            assert_eq!(json["shape"]["kind"], m.shape.kind());
            assert_eq!(json["acceptance"]["kind"], m.acceptance.kind());
            assert_eq!(json["schedule"]["kind"], m.schedule.kind());
        }
    }
}
