//! `specreel-lab methods`: presets that only reproduce a row of a table.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

use specreel::cli::end::End;
use specreel_bench::methods;
use specreel_client::{dirs::Dirs, user_methods};
use specreel_pruners::LabMethod;
use specreel_record::Failure;
use specreel_speculate::{Method, MethodError, closest};

pub fn run(name: Option<&str>) -> Result<i32, End> {
    let text = match name {
        Some(name) => match LabMethod::find(name)? {
            Some(pruned) => pruned.to_toml(),
            None => find(name)?.to_toml(),
        },
        None => table(),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(0)
}

fn table() -> String {
    let width = LabMethod::all().iter().map(|own| own.method.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for LabMethod { method, .. } in LabMethod::all() {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{:width$}  {}", method.name, method.about);
    }
    out
}

/// A method by name or file: the laboratory's presets, the product's, the user's. Fails if there is none (class usage).
pub fn find(name: &str) -> Result<Method, Failure> {
    if let Ok(method) = methods::preset(name) {
        return Ok(method);
    }
    let dirs = Dirs::find();
    user_methods::find(name, dirs.as_ref()).map_err(|failure| match Method::find(name) {
        Err(MethodError::Unknown { name, .. }) => {
            let known: Vec<String> = methods::names().chain(user_methods::names(dirs.as_ref())).collect();
            let is_own = |near: &&str| LabMethod::all().iter().any(|own| own.method.name == *near);
            match closest(&name, &known).filter(is_own) {
                Some(near) => Failure::usage(
                    format!("unknown method `{name}`"),
                    format!(
                        "did you mean `{near}`? `specreel-lab methods` lists the methods of the laboratory"
                    ),
                ),
                None => MethodError::Unknown { name, known }.into(),
            }
        }
        _ => failure,
    })
}
