//! Which methods are compared.

use super::sets;
use crate::{
    cli::resolve,
    model::ModelSpec,
    record::{Failure, FailureClass},
    speculate::{Drafter, Method},
};

/// Compared where nobody says what.
const DEFAULT: [&str; 5] = ["autoregressive", "naive", "sd-uniform", "lvspec", "fly"];

/// As [`DEFAULT`], where there is no small model.
const DEFAULT_ALONE: [&str; 2] = ["autoregressive", "lvspec-self"];

/// What is compared.
#[derive(Debug, PartialEq)]
pub struct Chosen {
    /// The methods; the first is the target decoding alone.
    pub methods: Vec<Method>,
    /// What people should know about the choice.
    pub notes: Vec<String>,
}

/// The methods of these names with these changes. Baseline first: it is what the others are measured against.
///
/// # Errors
/// A method cannot be, is named twice or needs a drafter that there is not; none is named; a change fits none.
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
    for (i, method) in methods.iter().enumerate() {
        if methods[..i].iter().any(|other| other.name == method.name) {
            return Err(usage(
                format!("two of the compared methods are called `{}`", method.name),
                "name every method once; a changed copy in a file needs a `name` of its own",
            ));
        }
        resolve::has_drafter(method, models)?;
    }
    notes.extend(sets::apply(&mut methods, sets)?);
    Ok(Chosen { methods, notes })
}

fn named(names: &[String]) -> Result<Vec<Method>, Failure> {
    let names: Vec<&str> = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return Err(usage(
            "--methods names no method".into(),
            "write for example --methods naive,lvspec; `specreel methods` lists what there is",
        ));
    }
    names.into_iter().map(|name| Ok(Method::find(name)?)).collect()
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
        chosen.methods.iter().map(|m| m.name.as_str()).collect()
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
    fn without_names_there_is_a_sensible_set() {
        let chosen = methods(None, &[], &spec(true)).unwrap();
        assert_eq!(names(&chosen), DEFAULT);
        assert!(chosen.methods.iter().any(Method::lossless) && !chosen.methods.iter().all(Method::lossless));
        assert_eq!(names(&methods(None, &[], &spec(false)).unwrap()), DEFAULT_ALONE);
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        for (names, part) in [
            ("", "names no method"),
            (" , ", "names no method"),
            ("naive,fly,naive", "two of the compared methods are called `naive`"),
            ("autoregressive,autoregressive", "called `autoregressive`"),
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
