//! The methods to choose from and the numbers that may be turned.
//!
//! A method is read here as the data that its file would hold, so that an axis that gains a value needs no change here:
//! only a number that shall be turned by key needs a line in [`KNOBS`].

use serde_json::Value;

use crate::speculate::Method;

/// A number of a method that may be turned.
struct KnobSpec {
    axis: &'static str,
    field: &'static str,
    range: (f64, f64),
    step: f64,
}

const fn knob(axis: &'static str, field: &'static str, low: f64, high: f64, step: f64) -> KnobSpec {
    KnobSpec { axis, field, range: (low, high), step }
}

/// The numbers in order of interest: the first that a method has is its main number.
const KNOBS: [KnobSpec; 10] = [
    knob("acceptance", "lambda", 0.0, 1.0, 0.1),
    knob("acceptance", "threshold", 0.0, 12.0, 0.1),
    knob("acceptance", "rho", 0.0, 1.0, 0.05),
    knob("acceptance", "probability", 0.0, 1.0, 0.05),
    knob("shape", "length", 1.0, 32.0, 1.0),
    knob("shape", "total", 1.0, 128.0, 4.0),
    knob("shape", "depth", 1.0, 32.0, 1.0),
    knob("context", "keep", 0.0, 1.0, 0.05),
    knob("acceptance", "length", 1.0, 32.0, 1.0),
    knob("acceptance", "top_n", 1.0, 64.0, 1.0),
];

const AXES: [&str; 5] = ["drafter", "context", "shape", "acceptance", "schedule"];

/// The step of a number: its own, or a twentieth.
pub(super) fn step_of(axis: &str, field: &str) -> f64 {
    KNOBS.iter().find(|k| (k.axis, k.field) == (axis, field)).map_or(0.05, |k| k.step)
}

/// A number of the chosen method.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Knob {
    pub axis: &'static str,
    pub field: &'static str,
    pub value: f64,
}

impl std::fmt::Display for Knob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.field, number(self.value))
    }
}

/// A number without needless digits: `0.7`, `10`.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The methods, the chosen one and its chosen number.
#[derive(Clone, Debug)]
pub(crate) struct Methods {
    pub presets: Vec<Method>,
    /// The methods as the user has turned them.
    pub turned: Vec<Method>,
    pub chosen: usize,
    pub knob: usize,
    lossless: fn(&Method) -> bool,
}

impl Methods {
    pub fn new(presets: Vec<Method>, name: &str, lossless: fn(&Method) -> bool) -> Self {
        let chosen = presets.iter().position(|m| m.name == name).unwrap_or(0);
        Self { turned: presets.clone(), presets, chosen, knob: 0, lossless }
    }

    pub fn current(&self) -> Option<&Method> {
        self.turned.get(self.chosen)
    }

    pub fn choose(&mut self, index: usize) {
        self.chosen = index.min(self.turned.len().saturating_sub(1));
        self.knob = 0;
    }

    pub fn is_lossless(&self, method: &Method) -> bool {
        (self.lossless)(method)
    }

    /// The numbers of the chosen method.
    pub fn knobs(&self) -> Vec<Knob> {
        let Some(method) = self.current() else { return Vec::new() };
        specs(method).map(|(spec, value)| Knob { axis: spec.axis, field: spec.field, value }).collect()
    }

    /// The number that `[` and `]` turn.
    pub fn active_knob(&self) -> Option<Knob> {
        let knobs = self.knobs();
        knobs.get(self.knob.min(knobs.len().saturating_sub(1))).cloned()
    }

    pub fn next_knob(&mut self) {
        let n = self.knobs().len();
        self.knob = if n == 0 { 0 } else { (self.knob + 1) % n };
    }

    /// Turn the active number by one step; the number after it, or none if the method has none.
    pub fn turn(&mut self, up: bool) -> Option<Knob> {
        let method = self.current()?;
        let (spec, value) = specs(method).nth(self.knob)?;
        let turned = value + if up { spec.step } else { -spec.step };
        // Steps of 0.05 must not gather rounding errors.
        let turned = ((turned / spec.step).round() * spec.step).clamp(spec.range.0, spec.range.1);
        let turned = (turned * 1e6).round() / 1e6;
        let method = set(method, spec.axis, spec.field, turned)?;
        *self.turned.get_mut(self.chosen)? = method;
        Some(Knob { axis: spec.axis, field: spec.field, value: turned })
    }

    /// Put a changed method in the place of the chosen one.
    pub fn replace(&mut self, method: Method) {
        if let Some(chosen) = self.turned.get_mut(self.chosen) {
            *chosen = method;
        }
        self.knob = 0;
    }

    /// Put a method back to how it came; false where it is so already.
    pub fn reset(&mut self, index: usize) -> bool {
        let (Some(turned), Some(preset)) = (self.turned.get_mut(index), self.presets.get(index)) else {
            return false;
        };
        let changed = turned != preset;
        turned.clone_from(preset);
        self.knob = 0;
        changed
    }

    /// Add a method of the user's own, or put it in the place of the one of its name, and choose it.
    pub fn add(&mut self, method: Method) {
        let at = self.presets.iter().position(|p| p.name == method.name).unwrap_or(self.presets.len());
        self.presets.splice(at..(at + 1).min(self.presets.len()), [method.clone()]);
        self.turned.splice(at..(at + 1).min(self.turned.len()), [method]);
        self.choose(at);
    }

    /// The range of a number, and whether it counts things.
    pub fn knob_range(&self, knob: &Knob) -> Option<((f64, f64), bool)> {
        let spec = KNOBS.iter().find(|s| (s.axis, s.field) == (knob.axis, knob.field))?;
        Some((spec.range, spec.step >= 1.0))
    }

    /// The chosen method with a number at this value.
    pub fn with(&self, knob: &Knob, value: f64) -> Option<Method> {
        set(self.current()?, knob.axis, knob.field, value)
    }

    /// The method's name, with the numbers that the user has turned.
    pub fn label(&self, index: usize) -> String {
        let (Some(method), Some(preset)) = (self.turned.get(index), self.presets.get(index)) else {
            return String::new();
        };
        label(method, preset)
    }

    /// The name of any method, with the numbers in which it differs from the one of this name.
    pub fn label_of(&self, method: &Method) -> String {
        let preset = self.presets.iter().find(|p| p.name == method.name);
        preset.map_or_else(|| method.name.clone(), |preset| label(method, preset))
    }
}

/// A method with one of its numbers changed.
fn set(method: &Method, axis: &str, field: &str, value: f64) -> Option<Method> {
    let mut data = serde_json::to_value(method).ok()?;
    let field = data.get_mut(axis)?.get_mut(field)?;
    *field = if field.is_u64() { Value::from(value as u64) } else { Value::from(value) };
    serde_json::from_value(data).ok()
}

/// The name of a method, with the numbers in which it differs from the preset of that name; `*` where a choice does.
pub(crate) fn label(method: &Method, preset: &Method) -> String {
    let before: Vec<_> = specs(preset).map(|(spec, value)| ((spec.axis, spec.field), value)).collect();
    let mut label = method.name.clone();
    let (data, kept) = (serde_json::to_value(method), serde_json::to_value(preset));
    if let (Ok(data), Ok(kept)) = (&data, &kept)
        && AXES.iter().any(|axis| axis_kind(data, axis) != axis_kind(kept, axis))
    {
        // Another choice than that of its name; which numbers it has is then its own matter.
        label.push('*');
        return label;
    }
    for (spec, value) in specs(method) {
        let old = before.iter().find(|(key, _)| *key == (spec.axis, spec.field)).map(|(_, value)| *value);
        if old.is_none_or(|old| (value - old).abs() > 1e-9) {
            label.push_str(&format!(" {}={}", spec.field, number(value)));
        }
    }
    label
}

fn specs(method: &Method) -> impl Iterator<Item = (&'static KnobSpec, f64)> {
    let data = serde_json::to_value(method).unwrap_or(Value::Null);
    let speculates = axis_kind(&data, "drafter") != "none";
    KNOBS.iter().filter(move |_| speculates).filter_map(move |spec| {
        let value = data.get(spec.axis)?.get(spec.field)?.as_f64()?;
        // 32-bit numbers come back with digits that nobody wrote.
        Some((spec, (value * 1e6).round() / 1e6))
    })
}

fn axis_kind<'a>(data: &'a Value, axis: &str) -> &'a str {
    data.get(axis).and_then(|a| a.get("kind")).and_then(Value::as_str).unwrap_or_default()
}

/// True if the method drafts nothing.
pub(crate) fn is_autoregressive(method: &Method) -> bool {
    let data = serde_json::to_value(method).unwrap_or(Value::Null);
    axis_kind(&data, "drafter") == "none"
}

/// The five choices as pairs of question and answer: `("acceptance", "visual · lambda 0.7 · top_n 10")`.
pub(crate) fn choices(method: &Method) -> Vec<(&'static str, String)> {
    let data = serde_json::to_value(method).unwrap_or(Value::Null);
    AXES.into_iter()
        .map(|axis| {
            let mut words = vec![axis_kind(&data, axis).to_owned()];
            let fields = data.get(axis).and_then(Value::as_object);
            for (name, value) in fields.into_iter().flatten().filter(|(n, _)| *n != "kind") {
                match value {
                    Value::Bool(true) => words.push(name.replace('_', " ")),
                    Value::Bool(false) | Value::Null => {}
                    Value::Array(list) if list.is_empty() => {}
                    Value::Array(list) => words.push(format!("{} ({})", name.replace('_', " "), list.len())),
                    Value::Number(n) => {
                        let n = n.as_f64().unwrap_or_default();
                        words.push(format!("{} {}", name.replace('_', " "), number(n)));
                    }
                    other => words.push(format!("{name} {}", other.as_str().unwrap_or_default())),
                }
            }
            (axis, words.join(" · "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testing;

    fn methods(name: &str) -> Methods {
        Methods::new(testing::methods(), name, testing::lossless)
    }

    #[test]
    fn the_main_number_is_the_acceptance_rules_own() {
        let named = |name| methods(name).active_knob().map(|k| k.to_string());
        assert_eq!(named("lvspec").as_deref(), Some("lambda 0.7"));
        assert_eq!(named("naive").as_deref(), Some("length 5"));
        assert_eq!(named("autoregressive"), None);
    }

    #[test]
    fn turning_stays_in_range_and_shows_in_the_label() {
        let mut methods = methods("lvspec");
        assert_eq!(methods.label(methods.chosen), "lvspec");
        assert_eq!(methods.turn(false).unwrap().to_string(), "lambda 0.6");
        assert_eq!(methods.label(methods.chosen), "lvspec lambda=0.6");
        for _ in 0..20 {
            methods.turn(true);
        }
        assert_eq!(methods.active_knob().unwrap().value, 1.0);
        methods.next_knob();
        assert_eq!(methods.active_knob().unwrap().field, "length");
        methods.turn(true);
        assert_eq!(methods.active_knob().unwrap().value, 11.0);
    }

    #[test]
    fn the_five_choices_read_like_words() {
        let lvspec = methods("lvspec");
        let said = choices(lvspec.current().unwrap());
        assert_eq!(said.len(), 5);
        assert_eq!(said[3].1, "visual · lambda 0.7 · top n 10 · shift tolerant");
        assert_eq!(said[1].1, "uniform · keep 0.1");
    }
}
