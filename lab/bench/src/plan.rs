//! The systems to measure: the baseline, and methods by name, file or sweep. Everything invalid is refused here, before any
//! work begins.

use super::*;
use crate::sweep::Sweep;
use specreel_engine::has_drafter;
use specreel_speculate::{MethodError, method::sets};

/// Finds a method by name or file.
pub type Find<'a> = dyn Fn(&str) -> Result<Method, Failure> + 'a;

/// A row of the tables.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// Name of the row; no two rows share one.
    pub label: String,
    pub method: Method,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The systems, the baseline first.
    pub systems: Vec<System>,
    /// What all systems but the baseline have in common: the method of a sweep, changes of all; may be empty.
    pub common: String,
    /// Methods of `all` that were left out because they need a drafter.
    pub skipped: Vec<String>,
    /// Notes for the user about the choice.
    pub notes: Vec<String>,
}

impl Plan {
    /// The systems of `--methods`, `--set` and `--sweep` for these models. Fails if a method is unknown, invalid, or needs a
    /// drafter that is not loaded; a sweep has no list, or not exactly one method.
    pub fn new(
        methods: Option<&str>,
        sets: &[String],
        sweeps: &[String],
        models: &ModelSpec,
        find: &Find<'_>,
    ) -> Result<Plan, Failure> {
        let mut plan = Plan::default();
        plan.add(BASELINE, Method::preset(BASELINE)?);
        let sweeps = sweeps.iter().map(|text| Sweep::parse(text)).collect::<Result<Vec<_>, _>>()?;
        if sweeps.is_empty() {
            plan.named(methods.unwrap_or("all"), sets, models, find)?;
        } else {
            plan.swept(methods, sets, &sweeps, models, find)?;
        }
        if !sets.is_empty() {
            let with = if plan.common.is_empty() { "with " } else { " with " };
            plan.common += &format!("{with}{}", sets.join(" "));
        }
        Ok(plan)
    }

    fn named(
        &mut self,
        methods: &str,
        sets: &[String],
        models: &ModelSpec,
        find: &Find<'_>,
    ) -> Result<(), Failure> {
        let mut chosen = Vec::new();
        for name in methods.split(',').map(str::trim) {
            if name.is_empty() {
                return Err(Failure::usage(
                    format!("--methods \"{methods}\" has an empty name"),
                    "for example: --methods naive,lvspec, or --methods all",
                ));
            }
            if name != "all" {
                let method = find(name)?;
                has_drafter(&method, models)?;
                chosen.push(method);
                continue;
            }
            for preset in methods::presets().filter(|m| m.name != BASELINE) {
                match has_drafter(preset, models) {
                    Ok(()) => chosen.push(preset.clone()),
                    Err(_) => self.skipped.push(preset.name.clone()),
                }
            }
        }
        self.notes = sets::apply(&mut chosen, sets)?;
        for method in chosen {
            has_drafter(&method, models)?;
            let changed = find(&method.name).is_ok_and(|original| original != method);
            let mark = if changed { "*" } else { "" };
            self.add(&format!("{}{mark}", method.name), method);
        }
        Ok(())
    }

    fn swept(
        &mut self,
        methods: Option<&str>,
        sets: &[String],
        sweeps: &[Sweep],
        models: &ModelSpec,
        find: &Find<'_>,
    ) -> Result<(), Failure> {
        let one = methods.map(str::trim).filter(|m| !m.is_empty() && *m != "all" && !m.contains(','));
        let Some(name) = one else {
            return Err(Failure::usage("--sweep needs one method", "for example: --methods lvspec"));
        };
        let base = find(name)?;
        self.common = name.into();
        for point in sweep::grid(sweeps)? {
            let method = changed(base.clone(), sets, &point)?;
            has_drafter(&method, models)?;
            self.add(&point.join(" "), method);
        }
        Ok(())
    }

    /// Add a system unless it is there already. A name that another method has gets a number.
    fn add(&mut self, name: &str, method: Method) {
        if self.systems.iter().any(|s| s.method == method) {
            // The baseline is always included.
            if name != BASELINE && self.systems.iter().any(|s| s.label == name) {
                self.notes.push(format!("{name} is listed twice and runs once"));
            }
            return;
        }
        let taken = |label: &str| self.systems.iter().any(|s| s.label == label);
        let mut names = (2..).map(|n| format!("{name} ({n})"));
        let label = if taken(name) { names.find(|label| !taken(label)) } else { None };
        self.systems.push(System { label: label.unwrap_or_else(|| name.into()), method });
    }
}

/// A method with the changes of all (`--set`) and of one point of the sweeps.
fn changed(method: Method, sets: &[String], point: &[String]) -> Result<Method, Failure> {
    let both = || sets.iter().chain(point).map(String::as_str);
    method.with_sets(both()).map_err(|error| {
        let hint = error.hint();
        let hint = if point.is_empty() {
            hint
        } else {
            hint.replace("--set acceptance.lambda=0.5", "--sweep acceptance.lambda=0,0.5")
        };
        let class = error.class();
        let error = match error {
            // Each value with the option that it was given to.
            MethodError::Invalid { problem, .. } => {
                let typed = |flag: &str, texts: &[String]| -> String {
                    texts.iter().map(|text| format!("{flag} {text} ")).collect()
                };
                let typed = typed("--set", sets) + &typed("--sweep", point);
                format!("{}for method `{}`: {problem}", typed, method.name)
            }
            other => other.to_string(),
        };
        Failure::new(class, error, hint)
    })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
pub(crate) mod tests;
