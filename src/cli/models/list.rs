//! `specreel models list`.

use std::io::Write as _;

use serde_json::{Value, json};

use super::{
    found::{self, Found},
    parameters,
};
use crate::{
    cli::{End, color, config::Config, grid::columns},
    model::{about::Facts, checkpoint::Checkpoint},
    record::{Failure, units::bytes},
};

/// List all models that are here.
pub fn run(json: bool, config: &Config) -> Result<i32, End> {
    let models: Vec<(Found, Result<Line, Failure>)> = found::all(config)
        .into_iter()
        .map(|found| (line(&found), found))
        .map(|(line, found)| (found, line))
        .collect();
    let text = if json {
        format!("{}\n", Value::Array(models.iter().map(as_json).collect()))
    } else {
        table(&models)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(0)
}

/// What the list says of a model that can be read.
struct Line {
    family: String,
    parameters: u64,
    bytes: u64,
}

fn line(found: &Found) -> Result<Line, Failure> {
    let config = crate::model::config::VlConfig::read(&found.dir)?;
    let bytes = Checkpoint::open(&found.dir)?.bytes();
    let facts = Facts::read(&found.dir)?;
    let parameters = facts.text_parameters + facts.tower_parameters;
    Ok(Line { family: config.family.model_type().to_owned(), parameters, bytes })
}

fn table(models: &[(Found, Result<Line, Failure>)]) -> String {
    let mut rows = vec![["MODEL", "FAMILY", "PARAMETERS", "SIZE", ""].map(str::to_owned).to_vec()];
    for (found, line) in models {
        let name = color::plain(&found.name).into_owned();
        rows.push(match line {
            Ok(line) => vec![name, line.family.clone(), parameters(line.parameters), bytes(line.bytes)],
            Err(failure) => {
                let dash = || "-".to_owned();
                vec![
                    name,
                    dash(),
                    dash(),
                    dash(),
                    format!("cannot be used: {}", color::plain(&failure.error)),
                ]
            }
        });
    }
    columns(&rows)
}

fn as_json((found, line): &(Found, Result<Line, Failure>)) -> Value {
    let mut value = json!({ "name": found.name, "dir": found.dir, "origin": found.origin });
    match line {
        Ok(line) => {
            value["family"] = json!(line.family);
            value["parameters"] = json!(line.parameters);
            value["bytes"] = json!(line.bytes);
        }
        Err(failure) => value["error"] = json!(failure.error),
    }
    value
}
