//! Which methods are compared.

use super::sets;
use crate::{
    cli::{dirs::Dirs, resolve, user_methods},
    model::ModelSpec,
    record::{Failure, FailureClass},
    speculate::{Drafter, Method},
};

/// Compared where nobody says what; `--help` and the README name them.
const DEFAULT: [&str; 5] = ["autoregressive", "naive", "sd-uniform", "lvspec", "fly"];

/// As [`DEFAULT`], where there is no small model.
const DEFAULT_ALONE: [&str; 2] = ["autoregressive", "lvspec-self"];

/// What is compared.
#[derive(Debug, PartialEq)]
pub struct Chosen {
    /// The methods; the first is the target decoding alone.
    pub methods: Vec<Method>,
    /// How each of them is called; no two alike.
    pub labels: Vec<String>,
    /// What people should know about the choice.
    pub notes: Vec<String>,
}

/// The methods of these names with these changes. Baseline first: it is what the others are measured against.
///
/// # Errors
/// A method cannot be, or needs a drafter that there is not; none is named; a change fits none.
pub fn methods(names: Option<&[String]>, sets: &[String], models: &ModelSpec) -> Result<Chosen, Failure> {
    let mut methods = match names {
        Some(names) => named(names)?,
        None if models.drafter.is_some() => preset(&DEFAULT)?,
        None => preset(&DEFAULT_ALONE)?,
    };
    let mut notes = Vec::new();
    match methods.iter().position(|m| m.drafter == Drafter::None {}) {
        Some(at) => methods[..=at].rotate_right(1),
        None => {
            methods.insert(0, Method::preset("autoregressive")?);
            notes.push("autoregressive is added: the others are measured against it".to_owned());
        }
    }
    let mut unique: Vec<Method> = Vec::new();
    for method in methods {
        if unique.contains(&method) {
            notes.push(format!("{} is named twice and run once", method.name));
            continue;
        }
        resolve::has_drafter(&method, models)?;
        unique.push(method);
    }
    let mut methods = unique;
    notes.extend(sets::apply(&mut methods, sets)?);
    let mut labels: Vec<String> = Vec::new();
    for method in &methods {
        // As in `bench`: a name that another method has gets a number.
        let label = user_methods::label(method);
        let numbered = (2..).map(|n| format!("{label} ({n})"));
        let free = std::iter::once(label.clone()).chain(numbered).find(|label| !labels.contains(label));
        labels.extend(free);
    }
    Ok(Chosen { methods, labels, notes })
}

fn named(names: &[String]) -> Result<Vec<Method>, Failure> {
    let names: Vec<&str> = names.iter().map(|name| name.trim()).collect();
    if names.contains(&"") {
        return Err(usage(
            format!("--methods \"{}\" has an empty name", names.join(",")),
            "write for example --methods naive,lvspec; `specreel methods` lists what there is",
        ));
    }
    let dirs = Dirs::find();
    names.into_iter().map(|name| user_methods::find(name, dirs.as_ref())).collect()
}

fn preset(names: &[&str]) -> Result<Vec<Method>, Failure> {
    names.iter().map(|name| Ok(Method::preset(name)?)).collect()
}

pub(super) fn usage(error: String, hint: &str) -> Failure {
    Failure { class: FailureClass::Usage, error, hint: Some(hint.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(drafter: bool) -> ModelSpec {
        ModelSpec {
            target: "t".into(),
            drafter: drafter.then(|| "d".into()),
            heads: Vec::new(),
            device: Default::default(),
            drafter_device: None,
            dtype: Default::default(),
            rope: Default::default(),
        }
    }

    fn choose(names: &str) -> Result<Chosen, Failure> {
        let names: Vec<String> = names.split(',').map(String::from).collect();
        methods(Some(&names), &[], &spec(true))
    }

    fn names(chosen: &Chosen) -> Vec<&str> {
        chosen.labels.iter().map(String::as_str).collect()
    }

    #[test]
    fn the_baseline_is_first_and_added_where_it_is_missing() {
        let chosen = choose("fly, naive").unwrap();
        assert_eq!(names(&chosen), ["autoregressive", "fly", "naive"]);
        assert_eq!(chosen.notes.len(), 1);
        let chosen = choose("fly,naive,autoregressive,lvspec").unwrap();
        assert_eq!(names(&chosen), ["autoregressive", "fly", "naive", "lvspec"]);
        assert!(chosen.notes.is_empty());
        assert_eq!(names(&choose("autoregressive").unwrap()), ["autoregressive"]);
    }

    #[test]
    fn a_method_that_is_named_twice_is_run_once_and_that_is_told() {
        for twice in ["naive,fly,naive", "autoregressive,autoregressive"] {
            let chosen = choose(twice).unwrap();
            let one = twice.split(',').next().unwrap();
            assert_eq!(names(&chosen).iter().filter(|name| **name == one).count(), 1);
            assert!(
                chosen.notes.contains(&format!("{one} is named twice and run once")),
                "{:?}",
                chosen.notes
            );
        }
    }

    #[test]
    fn without_names_there_is_a_sensible_set() {
        let chosen = methods(None, &[], &spec(true)).unwrap();
        assert_eq!(names(&chosen), DEFAULT);
        assert!(chosen.methods.iter().any(Method::lossless) && !chosen.methods.iter().all(Method::lossless));
        assert_eq!(names(&methods(None, &[], &spec(false)).unwrap()), DEFAULT_ALONE);
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        for (names, part) in [
            ("", "has an empty name"),
            (" , ", "has an empty name"),
            ("naive,,fly", "has an empty name"),
            ("naive,lvspce", "unknown method `lvspce`"),
        ] {
            let failure = choose(names).unwrap_err();
            assert_eq!(failure.class, FailureClass::Usage, "{names}");
            assert!(failure.error.contains(part) && failure.hint.is_some(), "{failure:?}");
        }
        let failure = methods(Some(&["naive".into()]), &[], &spec(false)).unwrap_err();
        assert!(failure.error.contains("--drafter"), "{failure:?}");
    }
}
