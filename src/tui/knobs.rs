//! The adjustable parameters of a method, and the name that says which of them were changed.

use specreel_speculate::Method;
use specreel_speculate::method::{Axis, Key};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Knob {
    pub axis: &'static Axis,
    pub key: &'static Key,
    pub value: f64,
}

impl Knob {
    /// True for another value of the same parameter.
    pub fn is_same(&self, other: &Knob) -> bool {
        (self.axis.name, self.key.name) == (other.axis.name, other.key.name)
    }

    /// True for an optional parameter at 0, where it does nothing.
    pub fn is_off(&self) -> bool {
        let default = self.key.example.parse::<f64>();
        self.value == 0.0 && !self.key.required && default == Ok(0.0)
    }
}

impl std::fmt::Display for Knob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.key.name, number(self.value))
    }
}

pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The adjustable parameters of a method.
pub(crate) fn knobs(method: &Method) -> Vec<Knob> {
    if method.is_autoregressive() {
        return Vec::new();
    }
    let knob = |(axis, key, value)| Knob { axis, key, value };
    // Without a drafter there is only the target's own context.
    let used = |knob: &Knob| method.drafts() || knob.axis.name == "context";
    method.numbers().into_iter().map(knob).filter(used).collect()
}

/// The name of a method, with the parameters in which it differs from the preset of that name; `*` where a choice does.
pub(crate) fn label(method: &Method, preset: &Method) -> String {
    let mut label = method.name.clone();
    if method.kinds() != preset.kinds() {
        // The parameters of another choice cannot be compared with the preset's.
        label.push('*');
        return label;
    }
    let before = knobs(preset);
    for knob in knobs(method) {
        let old = before.iter().find(|old| old.is_same(&knob));
        if old.is_none_or(|old| (knob.value - old.value).abs() > 1e-9) {
            label.push_str(&format!(" {}={}", knob.key.name, number(knob.value)));
        }
    }
    label
}
