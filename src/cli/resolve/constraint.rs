//! What an answer has to be: a schema by name or from a file, or a grammar from a file.

use std::path::Path;

use crate::cli::args::run::RunArgs;
use specreel_client::read_user_file;
use specreel_engine::Constraint;
use specreel_record::Failure;
use specreel_speculate::suggest;

/// Schemas by name.
const SCHEMAS: [(&str, &str); 3] = [
    ("caption", include_str!("../../../assets/schemas/caption.json")),
    ("tags", include_str!("../../../assets/schemas/tags.json")),
    ("events", include_str!("../../../assets/schemas/events.json")),
];

const MAX_FILE: u64 = 1 << 20;

/// The constraint that the arguments name. Fails if the file cannot be read or is not valid (class input).
pub fn of(args: &RunArgs) -> Result<Option<Constraint>, Failure> {
    let (name, constraint) = match (&args.schema, &args.grammar) {
        (Some(schema), _) => (format!("--schema {}", schema.display()), self::schema(schema)?),
        (None, Some(file)) => {
            let grammar = read(file, "--grammar", "a Lark grammar")?;
            (format!("--grammar {}", file.display()), Constraint::Lark { grammar })
        }
        (None, None) => return Ok(None),
    };
    constraint.check().map_err(|error| {
        let failure = Failure::from(error);
        Failure { error: format!("{name}: {}", failure.error), ..failure }
    })?;
    Ok(Some(constraint))
}

fn schema(name: &Path) -> Result<Constraint, Failure> {
    let built_in = SCHEMAS.iter().find(|(known, _)| Path::new(known) == name);
    let text = match built_in {
        Some((_, text)) => (*text).to_owned(),
        None if !name.exists() && name.components().count() == 1 && name.extension().is_none() => {
            let name = name.display().to_string();
            let known = SCHEMAS.map(|(known, _)| known.to_owned());
            let error = format!("--schema {name}: unknown schema, and no such file");
            let hint = suggest(&name, &known, "expected a file with a JSON schema, or one of");
            return Err(Failure::input(error, hint));
        }
        None => read(name, "--schema", "a JSON schema")?,
    };
    let schema = serde_json::from_str(&text).map_err(|error| {
        let error = format!("--schema {}: not valid JSON: {error}", name.display());
        Failure::input(error, "see https://json-schema.org for what a schema looks like")
    })?;
    Ok(Constraint::JsonSchema { schema })
}

fn read(file: &Path, option: &str, what: &str) -> Result<String, Failure> {
    let (named, hint) = (format!("{option} {}", file.display()), format!("name a file with {what}"));
    let bytes = read_user_file(file, &named, MAX_FILE, &hint)?;
    String::from_utf8(bytes).map_err(|_| Failure::input(format!("{named}: it is not UTF-8 text"), hint))
}
