//! `specreel models list`.

use std::io::Write as _;

use serde_json::{Value, json};

use super::{
    found::{self, LocalModel},
    parameters,
};
use crate::{
    cli::{End, color, config::Config, grid::columns},
    model::{about::Facts, checkpoint::Checkpoint},
    record::{Failure, units::bytes},
};

/// List the local models.
pub fn run(json: bool, config: &Config) -> Result<i32, End> {
    let models: Vec<(LocalModel, Result<Summary, Failure>)> =
        found::all(config).into_iter().map(|found| (summary(&found), found)).map(|(s, f)| (f, s)).collect();
    let text = if json {
        format!("{}\n", Value::Array(models.iter().map(as_json).collect()))
    } else {
        table(&models)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(0)
}

/// What the list shows of a readable model.
struct Summary {
    family: String,
    parameters: u64,
    bytes: u64,
}

fn summary(found: &LocalModel) -> Result<Summary, Failure> {
    let config = crate::model::config::VlConfig::read(&found.dir)?;
    let bytes = Checkpoint::open(&found.dir)?.bytes();
    let facts = Facts::read(&found.dir)?;
    let parameters = facts.text_parameters + facts.tower_parameters;
    Ok(Summary { family: config.family.model_type().to_owned(), parameters, bytes })
}

fn table(models: &[(LocalModel, Result<Summary, Failure>)]) -> String {
    let mut rows = vec![["MODEL", "FAMILY", "PARAMETERS", "SIZE", ""].map(str::to_owned).to_vec()];
    for (found, summary) in models {
        let name = color::plain(&found.name).into_owned();
        rows.push(match summary {
            Ok(s) => vec![name, s.family.clone(), parameters(s.parameters), bytes(s.bytes)],
            Err(failure) => {
                let dash = || "-".to_owned();
                vec![name, dash(), dash(), dash(), format!("unusable: {}", color::plain(&failure.error))]
            }
        });
    }
    columns(&rows)
}

fn as_json((found, summary): &(LocalModel, Result<Summary, Failure>)) -> Value {
    let mut value = json!({ "name": found.name, "dir": found.dir, "origin": found.origin });
    match summary {
        Ok(summary) => {
            value["family"] = json!(summary.family);
            value["parameters"] = json!(summary.parameters);
            value["bytes"] = json!(summary.bytes);
        }
        Err(failure) => value["error"] = json!(failure.error),
    }
    value
}
