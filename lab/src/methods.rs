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
use specreel_speculate::{Method, MethodError};

pub fn run(name: Option<&str>) -> Result<i32, End> {
    let text = match name {
        Some(name) => match LabMethod::find(name)? {
            Some(pruned) => pruned.to_toml(),
            None => find(name)?.to_toml(),
        },
        None => {
            let pruned = LabMethod::presets().iter().map(|preset| &preset.method);
            table(&methods::of_the_laboratory().iter().chain(pruned).collect::<Vec<_>>())
        }
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(0)
}

fn table(methods: &[&Method]) -> String {
    let width = methods.iter().map(|method| method.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for method in methods {
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
            let own = user_methods::names(dirs.as_ref());
            MethodError::Unknown { name, known: methods::names().chain(own).collect() }.into()
        }
        _ => failure,
    })
}
