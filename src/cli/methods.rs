//! `specreel methods`.

use std::{fmt::Write as _, io::Write as _, path::Path};

use serde_json::{Value, json};

use super::{
    End,
    args::{MethodsArgs, MethodsCommand},
};
use crate::{
    record::{Failure, FailureClass},
    speculate::Method,
};

/// List, show or check.
pub fn run(args: &MethodsArgs) -> Result<i32, End> {
    let text = match args.command.as_ref().unwrap_or(&MethodsCommand::List) {
        MethodsCommand::List if args.json => {
            line(&Value::Array(Method::presets().iter().map(as_json).collect()))
        }
        MethodsCommand::List => table(Method::presets()),
        MethodsCommand::Show { name } => {
            let method = Method::find(name)?;
            if args.json { line(&as_json(&method)) } else { method.to_toml() }
        }
        MethodsCommand::Check { file } => {
            let method = check(file)?;
            if args.json {
                line(&as_json(&method))
            } else {
                format!("{}: {} ({})\n  {}\n", file.display(), method.name, mark(&method), method.describe())
            }
        }
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(0)
}

fn check(file: &Path) -> Result<Method, End> {
    let is_preset = || file.to_str().is_some_and(|name| Method::preset(name).is_ok());
    if !file.exists() && is_preset() {
        return Err(End::Failed(Failure {
            class: FailureClass::Usage,
            error: format!("`{}` is a method that comes with the program, not a file", file.display()),
            hint: Some(format!("see it with: specreel methods show {}", file.display())),
        }));
    }
    Ok(Method::from_file(file)?)
}

fn table(methods: &[Method]) -> String {
    let width = methods.iter().map(|m| m.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for m in methods {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{:width$}  {:8}  {}", m.name, mark(m), m.about);
    }
    out
}

fn mark(method: &Method) -> &'static str {
    if method.lossless() { "lossless" } else { "lossy" }
}

fn as_json(method: &Method) -> Value {
    let mut value = serde_json::to_value(method).unwrap_or(Value::Null);
    value["lossless"] = json!(method.lossless());
    value["describe"] = json!(method.describe());
    value
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}
