//! `--from FILE`: the JSON lines of an earlier run, read back.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::{
    clip_run::ClipRun,
    results::{Header, Results},
};
use specreel_record::Failure;

pub const HEADER: &str = "papers";
pub const RUN: &str = "paper_run";
pub const TABLE: &str = "paper_table";

/// The results in a file that `--paper` wrote. A last line that was cut off is ignored.
pub fn read(path: &Path) -> Result<Results, Failure> {
    let input = |what: String, hint: &str| Failure::input(format!("{}: {what}", path.display()), hint);
    let text = std::fs::read_to_string(path).map_err(|e| {
        input(e.to_string(), "name a file that specreel-lab bench --paper NAME --out FILE wrote")
    })?;
    parse(&text)
        .map_err(|what| input(what, "name a file that specreel-lab bench --paper NAME --out FILE wrote"))
}

fn parse(text: &str) -> Result<Results, String> {
    let mut results: Option<Results> = None;
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let number = index + 1;
        let value: Value = match serde_json::from_str(line) {
            Ok(value) => value,
            // A line that was being written when the program was ended.
            Err(_) if number == lines.len() && number > 1 && !text.ends_with('\n') => break,
            Err(error) => return Err(format!("line {number} is not JSON: {error}")),
        };
        let broken = |error: serde_json::Error| format!("line {number} is not complete: {error}");
        match (value["event"].as_str(), &mut results) {
            (Some(HEADER), None) => {
                let header = Header::deserialize(&value).map_err(broken)?;
                results = Some(Results { header, ..Results::default() });
            }
            (Some(HEADER), Some(_)) => return Err(format!("line {number} begins a second run")),
            (Some(RUN), Some(results)) => results.runs.push(ClipRun::deserialize(&value).map_err(broken)?),
            (Some(TABLE), Some(_)) => {}
            _ => return Err("these are not results of bench --paper".into()),
        }
    }
    results.ok_or_else(|| "the file is empty".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"{"event":"papers","paper":"std","target":"t","device":"cpu","dtype":"q8_0","first_seed":7,"clips":1}"#;

    #[test]
    fn runs_are_read_and_a_line_that_was_cut_off_is_ignored() {
        let text = format!(
            "{HEAD}\n{}\n{}",
            r#"{"event":"paper_run","clip":7,"run":"std","accepted":[3,4],"drafted":18}"#,
            r#"{"event":"paper_run","cl"#
        );
        let results = parse(&text).unwrap();
        assert_eq!((results.header.target.as_str(), results.header.clips), ("t", 1));
        assert_eq!(results.runs.len(), 1);
        assert_eq!((results.runs[0].accepted.as_slice(), results.runs[0].drafted), (&[3, 4][..], 18));
    }

    #[test]
    fn other_files_are_refused() {
        for (text, part) in [
            (String::new(), "empty"),
            ("{\"event\":\"trial\"}\n".into(), "not results"),
            ("{\"event\":\"paper_run\"}\n".into(), "not results"),
            ("# a page\n".into(), "line 1 is not JSON"),
            (format!("{HEAD}\n{HEAD}\n"), "second run"),
            (format!("{HEAD}\n{{\"event\":\"paper_run\",\"clip\":-1}}\n"), "line 2 is not complete"),
            (format!("{HEAD}\nbroken\n{HEAD}\n"), "line 2 is not JSON"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
