//! User-defined methods: TOML files in the folder `methods` next to `config.toml`, found by file name.

use std::path::PathBuf;

use serde_json::Value;

use crate::{dirs::Dirs, toml_files};
use specreel_record::Failure;
use specreel_speculate::{Method, MethodError};

pub fn folder(dirs: &Dirs) -> PathBuf {
    dirs.config.join("methods")
}

fn files(dirs: Option<&Dirs>) -> Vec<PathBuf> {
    dirs.map(|dirs| toml_files(&folder(dirs))).unwrap_or_default()
}

pub fn names(dirs: Option<&Dirs>) -> Vec<String> {
    files(dirs).iter().filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect()
}

pub fn file(name: &str, dirs: Option<&Dirs>) -> Option<PathBuf> {
    files(dirs).into_iter().find(|file| file.file_stem().is_some_and(|stem| stem == name))
}

/// A method by name or file; the name of a preset, or else of a file in the folder.
pub fn find(name: &str, dirs: Option<&Dirs>) -> Result<Method, Failure> {
    match Method::find(name) {
        Err(MethodError::Unknown { name, known }) => match file(&name, dirs) {
            Some(file) => Ok(Method::from_file(&file)?),
            None => {
                let known = known.into_iter().chain(names(dirs)).collect();
                Err(MethodError::Unknown { name, known }.into())
            }
        },
        found => Ok(found?),
    }
}

pub fn all(dirs: Option<&Dirs>) -> (Vec<Method>, Vec<Failure>) {
    let (mut methods, mut problems) = (Vec::new(), Vec::new());
    for file in files(dirs) {
        match Method::from_file(&file) {
            Ok(method) => methods.push(method),
            Err(error) => problems.push(error.into()),
        }
    }
    (methods, problems)
}

/// A method's name for people, with a `*` if its values differ from the named method's.
pub fn label(method: &Method) -> String {
    serde_json::to_value(method).map_or_else(|_| method.name.clone(), |value| label_of(&value))
}

/// [`label`] of a method as an event contains it.
pub fn label_of(method: &Value) -> String {
    let name = method["name"].as_str().unwrap_or("?");
    // Events of other programs may contain less.
    let whole = method.get("schedule").is_some();
    let original =
        find(name, Dirs::find().as_ref()).ok().and_then(|method| serde_json::to_value(method).ok());
    let changed = whole && original.is_some_and(|original| original != *method);
    if changed { format!("{name}*") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_method_is_marked() {
        let naive = Method::preset("naive").unwrap();
        assert_eq!(label(&naive), "naive");
        assert_eq!(label(&naive.with_set("shape.length=3").unwrap()), "naive*");
        assert_eq!(label(&naive.with_set("shape.length=5").unwrap()), "naive", "its original value");
        assert_eq!(label(&Method { name: "of-a-file".into(), ..naive }), "of-a-file");
        assert_eq!(label_of(&serde_json::json!({"name": "naive", "drafter": {"kind": "model"}})), "naive");
    }
}
