//! The systems to measure: the baseline, and methods by name, file or sweep. Everything invalid is refused here, before any
//! work begins.

use super::*;
use crate::sweep::Sweep;
use specreel_engine::has_drafter;
use specreel_pruners::LabMethod;
use specreel_speculate::{Acceptance, MethodError, VisualContext, method::sets};

/// Finds a method that prunes no target, by name or file.
pub type Find<'a> = dyn Fn(&str) -> Result<Method, Failure> + 'a;

/// A row of the tables.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// Name of the row; no two rows share one.
    pub label: String,
    pub lab: LabMethod,
}

/// How often a method that leaves something to chance runs on a clip where intervals shall contain it, each time with another seed.
const DRAWS: u64 = 3;

impl System {
    /// How often the method runs on a clip where intervals shall contain what it leaves to chance.
    pub fn draws(&self) -> u64 {
        let Method { context, acceptance, .. } = &self.lab.method;
        let by_chance = matches!(context, VisualContext::Random { .. })
            || matches!(acceptance, Acceptance::Random { .. });
        if by_chance { DRAWS } else { 1 }
    }

    /// The system with the seeds of a draw on a clip: no two clips, and no two draws, share one.
    pub fn drawn(&self, clip: u64, draw: u64) -> System {
        let mut system = self.clone();
        let own = clip.wrapping_mul(DRAWS).wrapping_add(draw);
        if let VisualContext::Random { seed, .. } = &mut system.lab.method.context {
            *seed = seed.wrapping_add(own);
        }
        if let Acceptance::Random { seed, .. } = &mut system.lab.method.acceptance {
            *seed = seed.wrapping_add(own);
        }
        system
    }
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
        plan.add(BASELINE, Method::preset(BASELINE)?.into());
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
                let own = lab_method(name, find)?;
                has_drafter(&own.method, models)?;
                chosen.push(own);
                continue;
            }
            for preset in methods::presets().filter(|m| m.name != BASELINE) {
                match has_drafter(preset, models) {
                    Ok(()) => chosen.push(preset.clone().into()),
                    Err(_) => self.skipped.push(preset.name.clone()),
                }
            }
            chosen.extend(LabMethod::presets().iter().cloned());
        }
        let (mut methods, pruners): (Vec<_>, Vec<_>) =
            chosen.into_iter().map(|own| (own.method, own.pruner)).unzip();
        self.notes = sets::apply(&mut methods, sets)?;
        for (method, pruner) in methods.into_iter().zip(pruners) {
            has_drafter(&method, models)?;
            let own = LabMethod { method, pruner };
            let name = own.method.name.clone();
            let changed = lab_method(&name, find).is_ok_and(|original| original != own);
            let mark = if changed { "*" } else { "" };
            self.add(&format!("{name}{mark}"), own);
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
        let base = lab_method(name, find)?;
        self.common = name.into();
        for point in sweep::grid(sweeps)? {
            let own = changed(&base, sets, &point)?;
            has_drafter(&own.method, models)?;
            self.add(&point.join(" "), own);
        }
        Ok(())
    }

    /// Add a system unless it is there already. A name that another method has gets a number.
    fn add(&mut self, name: &str, lab: LabMethod) {
        if self.systems.iter().any(|s| s.lab == lab) {
            // The baseline is always included.
            if name != BASELINE && self.systems.iter().any(|s| s.label == name) {
                self.notes.push(format!("{name} is listed twice and runs once"));
            }
            return;
        }
        let taken = |label: &str| self.systems.iter().any(|s| s.label == label);
        let mut names = (2..).map(|n| format!("{name} ({n})"));
        let label = if taken(name) { names.find(|label| !taken(label)) } else { None };
        self.systems.push(System { label: label.unwrap_or_else(|| name.into()), lab });
    }
}

/// A method by name or file, with the pruner of its target if it has one.
fn lab_method(name: &str, find: &Find<'_>) -> Result<LabMethod, Failure> {
    LabMethod::find(name)?.map_or_else(|| find(name).map(LabMethod::from), Ok)
}

/// A method with the changes of all (`--set`) and of one point of the sweeps.
fn changed(base: &LabMethod, sets: &[String], point: &[String]) -> Result<LabMethod, Failure> {
    let both = || sets.iter().chain(point).map(String::as_str);
    base.with_sets(both()).map_err(|error| {
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
                format!("{}for method `{}`: {problem}", typed, base.method.name)
            }
            other => other.to_string(),
        };
        Failure::new(class, error, hint)
    })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
pub(crate) mod tests;
