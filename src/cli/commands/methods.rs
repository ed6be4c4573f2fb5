//! `specreel methods`.

use std::fmt::Write as _;

use super::*;
use crate::cli::args::methods::{MethodsArgs, MethodsCommand};
use specreel_client::present::systems;

pub fn run(args: &MethodsArgs) -> Result<i32, End> {
    let dirs = Dirs::find();
    let text = match args.command.as_ref().unwrap_or(&MethodsCommand::List) {
        MethodsCommand::List => {
            let (own, problems) = user_methods::all(dirs.as_ref());
            // Built-in methods take precedence over files of the same name.
            let own = own.into_iter().filter(|method| Method::preset(&method.name).is_err());
            let methods: Vec<Method> = Method::presets().iter().cloned().chain(own).collect();
            problems.iter().for_each(|problem| tell!("warning: {}", color::plain(&problem.error)));
            match args.json {
                true => line(&Value::Array(methods.iter().map(as_json).collect())),
                false => table(&methods, terminal::columns()),
            }
        }
        MethodsCommand::Show { name } => {
            let method = user_methods::find(name, dirs.as_ref())?;
            if args.json { line(&as_json(&method)) } else { method.to_toml() }
        }
        MethodsCommand::Check { file } => {
            let (file, method) = check(file, dirs.as_ref())?;
            if Method::preset(&method.name).is_ok_and(|preset| preset != method) {
                tell!(
                    "note: `{}` is the name of a built-in method; give this one another `name`",
                    method.name
                );
            }
            if args.json {
                line(&as_json(&method))
            } else {
                format!("{}: {} ({})\n  {}\n", file.display(), method.name, mark(&method), method.describe())
            }
        }
    };
    print(&text)
}

/// The method of a file path, or of the name of a user method.
fn check(named: &Path, dirs: Option<&Dirs>) -> Result<(PathBuf, Method), End> {
    let name = named.to_str().filter(|_| !named.exists());
    if let Some(file) = name.and_then(|name| user_methods::file(name, dirs)) {
        let method = Method::from_file(&file)?;
        return Ok((file, method));
    }
    if let Some(name) = name.filter(|name| Method::preset(name).is_ok()) {
        return Err(End::Failed(Failure::usage(
            format!("`{name}` is a built-in method, not a file"),
            format!("`specreel methods show {name}` prints it"),
        )));
    }
    Ok((named.to_owned(), Method::from_file(named)?))
}

/// The methods under the headings of their systems, in the order of the studio's picker.
fn table(methods: &[Method], columns: Option<usize>) -> String {
    let width = methods.iter().map(|m| m.name.len()).max().unwrap_or(0);
    let mut methods: Vec<&Method> = methods.iter().collect();
    methods.sort_by_key(|method| systems::rank(method));
    let (mut out, mut last) = (String::new(), "");
    for m in methods {
        let system = systems::system(m);
        // Writing to a string cannot fail.
        if system != last {
            let _ = writeln!(out, "{}{system}", if last.is_empty() { "" } else { "\n" });
        }
        last = system;
        let _ = writeln!(out, "  {:width$}  {:8}  {}", m.name, mark(m), m.about);
    }
    hang(&out, columns, width + 14)
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
