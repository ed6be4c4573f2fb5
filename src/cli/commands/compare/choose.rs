//! The methods to compare.

use super::*;
use specreel_record::Row;
use specreel_speculate::method::sets;

/// Compared by default; `--help` and the README list them.
const DEFAULT: [&str; 6] = ["autoregressive", "auto", "naive", "specvlm", "lvspec", "lenient"];

/// As [`DEFAULT`], without a draft model.
const DEFAULT_ALONE: [&str; 3] = ["autoregressive", "auto", "specvlm-self"];

#[derive(Debug, PartialEq)]
pub struct Chosen {
    /// The methods; the first is the autoregressive baseline.
    pub methods: Vec<Method>,
    /// A unique name for each.
    pub labels: Vec<String>,
    /// Methods that these models cannot run, and why.
    pub impossible: Vec<Row>,
    pub notes: Vec<String>,
}

/// The named methods with these overrides, the baseline first.
pub fn methods(names: Option<&[String]>, sets: &[String], models: &ModelSpec) -> Result<Chosen, Failure> {
    let mut methods = match names {
        Some(names) => named(names)?,
        None if models.drafter.is_some() => preset(&DEFAULT)?,
        None => preset(&DEFAULT_ALONE)?,
    };
    let mut notes = Vec::new();
    match methods.iter().position(|m| m.is_autoregressive()) {
        Some(at) => methods[..=at].rotate_right(1),
        None => {
            methods.insert(0, Method::preset("autoregressive")?);
            notes.push("autoregressive is added as the baseline".to_owned());
        }
    }
    let (mut unique, mut impossible): (Vec<Method>, Vec<Row>) = (Vec::new(), Vec::new());
    for method in methods {
        let label = user_methods::label(&method);
        if unique.contains(&method) || impossible.iter().any(|row| row.method == label) {
            notes.push(format!("{} is listed twice and runs once", method.name));
            continue;
        }
        match resolve::has_drafter(&method, models) {
            Ok(()) => unique.push(method),
            Err(failure) => {
                notes.push(format!("{label} is left out: {}", failure.error));
                impossible.push(Row {
                    method: label,
                    lossless: method.lossless(),
                    state: RowState::Waiting,
                    runs: Vec::new(),
                    figures: None,
                    failure: Some(failure),
                });
            }
        }
    }
    if unique.len() == 1
        && let Some(failure) = impossible.iter().find_map(|row| row.failure.clone())
    {
        return Err(failure);
    }
    let mut methods = unique;
    notes.extend(sets::apply(&mut methods, sets)?);
    let mut labels: Vec<String> = Vec::new();
    for method in &methods {
        // As in `bench`: a duplicate name gets a number.
        let label = user_methods::label(method);
        let numbered = (2..).map(|n| format!("{label} ({n})"));
        let free = std::iter::once(label.clone()).chain(numbered).find(|label| !labels.contains(label));
        labels.extend(free);
    }
    Ok(Chosen { methods, labels, impossible, notes })
}

fn named(names: &[String]) -> Result<Vec<Method>, Failure> {
    let names: Vec<&str> = names.iter().map(|name| name.trim()).collect();
    if names.contains(&"") {
        return Err(Failure::usage(
            format!("--methods \"{}\" contains an empty name", names.join(",")),
            "for example: --methods auto,naive; `specreel methods` lists all methods",
        ));
    }
    let dirs = Dirs::find();
    let mut methods = Vec::new();
    for name in &names {
        match *name {
            // Other named methods keep their place.
            "all" => {
                let others = Method::presets().iter().filter(|method| !names.contains(&method.name.as_str()));
                methods.extend(others.cloned());
            }
            name => methods.push(user_methods::find(name, dirs.as_ref())?),
        }
    }
    Ok(methods)
}

fn preset(names: &[&str]) -> Result<Vec<Method>, Failure> {
    names.iter().map(|name| Ok(Method::preset(name)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::resolve::tests::spec;

    fn choose(names: &str) -> Result<Chosen, Failure> {
        let names: Vec<String> = names.split(',').map(String::from).collect();
        methods(Some(&names), &[], &spec(true))
    }

    fn names(chosen: &Chosen) -> Vec<&str> {
        chosen.labels.iter().map(String::as_str).collect()
    }

    #[test]
    fn the_baseline_is_first_and_added_where_it_is_missing() {
        let chosen = choose("lenient, naive").unwrap();
        assert_eq!(names(&chosen), ["autoregressive", "lenient", "naive"]);
        assert_eq!(chosen.notes.len(), 1);
        let chosen = choose("lenient,naive,autoregressive,lvspec").unwrap();
        assert_eq!(names(&chosen), ["autoregressive", "lenient", "naive", "lvspec"]);
        assert!(chosen.notes.is_empty());
        assert_eq!(names(&choose("autoregressive").unwrap()), ["autoregressive"]);
    }

    #[test]
    fn all_stands_for_every_built_in_method() {
        let chosen = choose("mtp,all").unwrap();
        let count = chosen.labels.len() + chosen.impossible.len();
        assert_eq!(count, Method::presets().len());
        assert!(!chosen.notes.iter().any(|note| note.contains("twice")), "{:?}", chosen.notes);
        assert!(chosen.impossible.iter().all(|row| row.failure.is_some()));
    }

    #[test]
    fn a_duplicate_runs_once_and_is_noted() {
        for twice in ["naive,lenient,naive", "autoregressive,autoregressive"] {
            let chosen = choose(twice).unwrap();
            let one = twice.split(',').next().unwrap();
            assert_eq!(names(&chosen).iter().filter(|name| **name == one).count(), 1);
            assert!(
                chosen.notes.contains(&format!("{one} is listed twice and runs once")),
                "{:?}",
                chosen.notes
            );
        }
    }

    #[test]
    fn the_default_depends_on_the_drafter() {
        let chosen = methods(None, &[], &spec(true)).unwrap();
        assert_eq!(names(&chosen), DEFAULT);
        assert!(chosen.methods.iter().any(Method::lossless) && !chosen.methods.iter().all(Method::lossless));
        assert_eq!(names(&methods(None, &[], &spec(false)).unwrap()), DEFAULT_ALONE);
    }
}
