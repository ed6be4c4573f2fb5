//! The methods to choose from and their adjustable parameters, a view of the table of methods (`speculate::method`).

use nucleo_matcher::Config;
use serde_json::Value;

use super::search::fuzzy;
use crate::tui::knobs::{Knob, knobs, label, number};
use specreel_client::present::systems;
use specreel_speculate::Method;
use specreel_speculate::method::{AXES, Axis};

#[derive(Clone, Debug)]
pub(crate) struct Methods {
    pub presets: Vec<Method>,
    /// The methods as the user adjusted them.
    pub turned: Vec<Method>,
    pub chosen: usize,
    pub knob: usize,
    /// Which of them are compared.
    pub picked: Vec<bool>,
}

impl Methods {
    /// The methods by system; the one of this name is chosen, or the first.
    pub fn new(mut presets: Vec<Method>, name: &str) -> Self {
        presets.sort_by_key(systems::rank);
        let chosen = presets.iter().position(|m| m.name == name).unwrap_or(0);
        Self { turned: presets.clone(), presets, chosen, knob: 0, picked: Vec::new() }
    }

    pub fn current(&self) -> Option<&Method> {
        self.turned.get(self.chosen)
    }

    pub fn choose(&mut self, index: usize) {
        self.chosen = index.min(self.turned.len().saturating_sub(1));
        self.knob = 0;
    }

    pub fn knobs(&self) -> Vec<Knob> {
        self.current().map(knobs).unwrap_or_default()
    }

    pub fn active_knob(&self) -> Option<Knob> {
        let mut knobs = self.knobs();
        let active = self.knob.min(knobs.len().checked_sub(1)?);
        Some(knobs.swap_remove(active))
    }

    /// The parameter for the first line: the active one, unless it is off and nobody has selected it.
    pub fn shown_knob(&self) -> Option<Knob> {
        self.active_knob().filter(|knob| self.knob > 0 || !knob.is_off())
    }

    pub fn next_knob(&mut self) {
        let n = self.knobs().len();
        self.knob = if n == 0 { 0 } else { (self.knob + 1) % n };
    }

    /// Adjust the active parameter by one step; the parameter after it, or `None` if the method has none.
    pub fn turn(&mut self, up: bool) -> Option<Knob> {
        let knob = self.active_knob()?;
        let knob = Knob { value: knob.key.adjusted(knob.value, up), ..knob };
        *self.turned.get_mut(self.chosen)? = self.with(&knob, knob.value)?;
        Some(knob)
    }

    pub fn replace(&mut self, method: Method) {
        if let Some(chosen) = self.turned.get_mut(self.chosen) {
            *chosen = method;
        }
        self.knob = 0;
    }

    /// The methods whose name or system matches a filter, or else whose description, paper or one of the five choices does, as
    /// indices; and which of those matches best.
    pub fn found(&self, query: &str) -> (Vec<usize>, usize) {
        let all = 0..self.presets.len();
        let query = query.trim();
        if query.is_empty() {
            let chosen = self.chosen;
            return (all.collect(), chosen);
        }
        let named = fuzzy(query, Config::DEFAULT, all.clone(), |i| self.presets[*i].name.clone());
        let query = query.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&query);
        let of_system = |i: &usize| named.contains(i) || has(systems::system(&self.presets[*i]));
        let mut found: Vec<usize> = all.clone().filter(of_system).collect();
        if found.is_empty() {
            let says = |method: &Method| {
                has(&method.about)
                    || method.paper.as_deref().is_some_and(has)
                    || method.kinds().into_iter().any(has)
                    || has(&method.describe())
            };
            found = all.filter(|i| says(&self.presets[*i])).collect();
        }
        let best = named.first().and_then(|best| found.iter().position(|i| i == best));
        (found, best.unwrap_or(0))
    }

    /// Undo all changes of a method; false if it has none.
    pub fn reset(&mut self, index: usize) -> bool {
        let (Some(turned), Some(preset)) = (self.turned.get_mut(index), self.presets.get(index)) else {
            return false;
        };
        let changed = turned != preset;
        turned.clone_from(preset);
        self.knob = 0;
        changed
    }

    /// Add a method of the user's own after the methods of its system, or replace the one of the same name, and choose it.
    pub fn add(&mut self, method: Method) {
        let same = self.presets.iter().position(|p| p.name == method.name);
        let behind = self.presets.partition_point(|p| systems::rank(p) <= systems::rank(&method));
        let (at, old) = same.map_or((behind, 0), |at| (at, 1));
        self.presets.splice(at..at + old, [method.clone()]);
        self.turned.splice(at..at + old, [method]);
        self.choose(at);
    }

    /// The span over which a parameter is swept, and whether it counts things.
    pub fn knob_range(&self, knob: &Knob) -> ((f64, f64), bool) {
        (knob.key.span, knob.key.is_count())
    }

    /// The chosen method with a parameter at this value; `None` if that is not valid.
    pub fn with(&self, knob: &Knob, value: f64) -> Option<Method> {
        self.current()?.with_number(knob.axis, knob.key, value).ok()
    }

    /// The method's name, with the parameters that the user changed.
    pub fn label(&self, index: usize) -> String {
        let (Some(method), Some(preset)) = (self.turned.get(index), self.presets.get(index)) else {
            return String::new();
        };
        label(method, preset)
    }

    /// The name of any method, with the parameters in which it differs from the one of this name.
    pub fn label_of(&self, method: &Method) -> String {
        let preset = self.presets.iter().find(|p| p.name == method.name);
        preset.map_or_else(|| method.name.clone(), |preset| label(method, preset))
    }
}

/// The five choices as pairs of axis and choice: `("acceptance", "visual · lambda 0.7 · top_n 10")`.
pub(crate) fn choices(method: &Method) -> Vec<(&'static str, String)> {
    let data = serde_json::to_value(method).unwrap_or(Value::Null);
    let choice = |(axis, kind): (&'static Axis, &str)| {
        let mut words = vec![kind.to_owned()];
        let fields = data.get(axis.name).and_then(Value::as_object);
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
        (axis.name, words.join(" · "))
    };
    AXES.iter().zip(method.kinds()).map(choice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::{model::compare::sweep_values, testing};

    fn methods(name: &str) -> Methods {
        Methods::new(testing::methods(), name)
    }

    #[test]
    fn the_main_parameter_is_the_acceptance_rules_own() {
        let named = |name| methods(name).active_knob().map(|k| k.to_string());
        assert_eq!(named("lvspec").as_deref(), Some("lambda 0.7"));
        assert_eq!(named("naive").as_deref(), Some("length 5"));
        assert_eq!(named("autoregressive"), None);
    }

    #[test]
    fn adjusting_stays_in_range_and_shows_in_the_label() {
        let mut methods = methods("lvspec");
        assert_eq!(methods.label(methods.chosen), "lvspec");
        assert_eq!(methods.turn(false).unwrap().to_string(), "lambda 0.6");
        assert_eq!(methods.label(methods.chosen), "lvspec lambda=0.6");
        for _ in 0..20 {
            methods.turn(true);
        }
        assert_eq!(methods.active_knob().unwrap().value, 1.0);
        methods.next_knob();
        assert_eq!(methods.active_knob().unwrap().key.name, "length");
        methods.turn(true);
        assert_eq!(methods.active_knob().unwrap().value, 11.0);
    }

    #[test]
    fn every_parameter_of_every_preset_is_adjusted_and_swept_within_what_is_valid() {
        let mut all = Methods::new(Method::presets().to_vec(), "naive");
        for preset in 0..all.presets.len() {
            all.choose(preset);
            for index in 0..all.knobs().len() {
                all.knob = index;
                let knob = all.active_knob().unwrap();
                let (span, counts) = all.knob_range(&knob);
                let swept = sweep_values(span, counts);
                assert!(swept.len() > 2, "{knob}: {swept:?}");
                for value in swept {
                    assert!(
                        all.with(&knob, value).is_some(),
                        "{}: {} = {value}",
                        all.label(preset),
                        knob.key.name
                    );
                }
                for up in [true, false] {
                    for _ in 0..100 {
                        let before = all.active_knob().unwrap().value;
                        let Some(after) = all.turn(up) else { panic!("{}: {knob}", all.label(preset)) };
                        all.current().unwrap().validate().unwrap();
                        assert!(if up { after.value >= before } else { after.value <= before });
                    }
                }
                all.reset(preset);
            }
        }
    }

    #[test]
    fn a_parameter_that_is_off_is_not_offered_first() {
        let shown = |methods: &Methods| methods.shown_knob().map(|knob| knob.to_string());
        let mut auto = Methods::new(Method::presets().to_vec(), "auto");
        assert_eq!(shown(&auto), None);
        auto.turn(true);
        assert_eq!(shown(&auto).as_deref(), Some("gate 0.05"));
        let mut naive = Methods::new(Method::presets().to_vec(), "naive");
        assert_eq!(shown(&naive).as_deref(), Some("length 5"));
        naive.next_knob();
        assert_eq!(shown(&naive).as_deref(), Some("gate 0"), "selected by hand");
    }

    #[test]
    fn methods_are_found_by_name_first_and_stay_grouped() {
        let mut all = Methods::new(Method::presets().to_vec(), "naive");
        let found = |all: &Methods, query: &str| {
            let (found, best) = all.found(query);
            let names: Vec<String> = found.iter().map(|i| all.presets[*i].name.clone()).collect();
            let best = names.get(best).cloned().unwrap_or_default();
            (names, best)
        };
        let (names, best) = found(&all, "");
        assert_eq!((names.len(), best.as_str()), (all.presets.len(), "naive"));
        let (names, best) = found(&all, "lvs");
        assert_eq!((names[0].as_str(), best.as_str()), ("lvspec", "lvspec"), "{names:?}");
        let (names, best) = found(&all, "spv");
        assert_eq!(best, "specvlm", "{names:?}");
        // A word of the description, the name of a system.
        assert_eq!(found(&all, "leniency").0, ["lenient"]);
        // A kind, and the words of a choice.
        let trees = found(&all, "dynamic_tree").0;
        assert!(trees.contains(&"sparrow".into()) && trees.contains(&"msd".into()), "{trees:?}");
        let is_tree = |name: &String| Method::preset(name).unwrap().kinds()[2] == "dynamic_tree";
        assert!(trees.iter().all(is_tree), "{trees:?}");
        assert_eq!(found(&all, "10 % by variation").0, ["parallelvlm"]);
        assert_eq!(found(&all, "no such thing").0, [""; 0]);
        // A saved copy follows the methods of its system.
        all.add(Method { name: "my-lvspec".into(), ..Method::preset("lvspec").unwrap() });
        let systems: Vec<_> = all.presets.iter().map(systems::rank).collect();
        assert!(systems.is_sorted() && all.current().unwrap().name == "my-lvspec");
        assert_eq!(all.presets[all.chosen - 1].name, "lvspec");
    }

    #[test]
    fn the_five_choices_read_like_words() {
        let lvspec = methods("lvspec");
        let words = choices(lvspec.current().unwrap());
        assert_eq!(words.len(), 5);
        assert_eq!(words[3].1, "visual · lambda 0.7 · top n 10 · shift tolerant");
        assert_eq!(words[1].1, "uniform · keep 0.1");
    }
}
