//! `specreel models list`.

use super::*;
use specreel_client::catalog::local::{LocalModel, Summary};
use specreel_client::present::text;

/// Names are cut to this width before a column is dropped.
const LEAST_NAME: usize = 24;

pub fn run(json: bool, config: &Config) -> Result<i32, End> {
    let models: Vec<(LocalModel, Result<Summary, Failure>)> =
        local::all(config).into_iter().map(|found| (found.summary(), found)).map(|(s, f)| (f, s)).collect();
    let text = if json {
        format!("{}\n", Value::Array(models.iter().map(as_json).collect()))
    } else {
        table(&models, terminal::columns())
    };
    print(&text)
}

fn table(models: &[(LocalModel, Result<Summary, Failure>)], width: Option<usize>) -> String {
    let mut rows = vec![["MODEL", "FAMILY", "TYPE", "PARAMETERS", "SIZE"].map(str::to_owned).to_vec()];
    let mut problems = vec![None];
    for (found, summary) in models {
        let name = color::plain(&found.name).into_owned();
        let dash = || "-".to_owned();
        let (row, problem) = match summary {
            Ok(s) => {
                let [family, dtype] = [&s.family, &s.dtype].map(String::clone);
                (vec![name, family, dtype, parameters(s.parameters), bytes(s.bytes)], None)
            }
            Err(failure) => (
                vec![name, dash(), dash(), dash(), dash()],
                Some(format!("unusable: {}", color::plain(&failure.error).replace('\n', " "))),
            ),
        };
        rows.push(row);
        problems.push(problem);
    }
    // The end of a path says more than its beginning.
    let widest = |at: usize| rows.iter().map(|row| text::width(&row[at])).max().unwrap_or(0);
    let others: usize = (1..rows[0].len()).map(|at| widest(at) + 2).sum();
    if let Some(room) = width.map(|width| width.saturating_sub(others).max(LEAST_NAME)) {
        rows.iter_mut().for_each(|row| row[0] = text::fit_end(&row[0], room));
    }
    fitting(&mut rows, &[0, 4, 3, 1, 2], width);
    let mut out = String::new();
    for (line, problem) in columns(&rows).lines().zip(problems) {
        out += &match problem {
            None => format!("{line}\n"),
            // Below the model if the terminal has no room next to it.
            Some(problem)
                if width.is_some_and(|width| text::width(line) + 2 + text::width(&problem) > width) =>
            {
                format!("{line}\n{}", hang(&format!("  {problem}\n"), width, 2))
            }
            Some(problem) => format!("{line}  {problem}\n"),
        };
    }
    out
}

fn as_json((found, summary): &(LocalModel, Result<Summary, Failure>)) -> Value {
    let mut value = json!({ "name": found.name, "dir": found.dir, "origin": found.origin });
    match summary {
        Ok(summary) => {
            value["family"] = json!(summary.family);
            value["dtype"] = json!(summary.dtype);
            value["parameters"] = json!(summary.parameters);
            value["bytes"] = json!(summary.bytes);
            if let Some(mmproj) = &summary.mmproj {
                value["mmproj"] = json!(mmproj);
            }
        }
        Err(failure) => value["error"] = json!(failure.error),
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_client::catalog::local::Origin;
    use specreel_record::FailureClass;

    #[test]
    fn a_narrow_terminal_gets_the_ends_of_the_names_and_whole_problems() {
        let found = |name: &str| LocalModel { name: name.into(), dir: name.into(), origin: Origin::Folder };
        let summary = Summary {
            family: "qwen2_5_vl".into(),
            dtype: "bf16".into(),
            parameters: 3_000_000_000,
            bytes: 7_000_000_000,
            mmproj: None,
        };
        let failure =
            Failure { class: FailureClass::Input, error: "it has no tokenizer.json".into(), hint: None };
        let models = [
            (found("/srv/models/of/many/people/Qwen2.5-VL-3B"), Ok(summary)),
            (found("/srv/models/broken"), Err(failure)),
        ];
        let wide = table(&models, None);
        assert!(wide.lines().nth(2).unwrap().ends_with("-  unusable: it has no tokenizer.json"), "{wide}");
        for width in [30, 40, 60, 80] {
            let text = table(&models, Some(width));
            assert!(text.lines().all(|line| text::width(line) <= width), "{width}: {text}");
            assert!(text.contains("people/Qwen2.5-VL-3B ") || width == 30, "{width}: {text}");
            let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(joined.contains("unusable: it has no tokenizer.json"), "{width}: {text}");
        }
    }
}
