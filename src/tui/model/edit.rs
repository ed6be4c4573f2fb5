//! The method editor: the five choices of a method and their keys as rows that can be changed one by one.

use serde_json::Value;

use specreel_speculate::method::{AXES, Axis, Key, Kind, Value as Takes};
use specreel_speculate::{Method, MethodError};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Row {
    Choice(&'static Axis),
    Key(&'static Axis, &'static Key),
}

/// The rows of a method: each axis, then the keys of its kind.
pub(crate) fn rows(method: &Method) -> Vec<Row> {
    let data = serde_json::to_value(method).unwrap_or(Value::Null);
    let mut rows = Vec::new();
    for axis in &AXES {
        rows.push(Row::Choice(axis));
        let keys = kind_of(&data, axis).map_or(&[][..], |kind| kind.keys);
        rows.extend(keys.iter().map(|key| Row::Key(axis, key)));
    }
    rows
}

fn kind_of(data: &Value, axis: &'static Axis) -> Option<&'static Kind> {
    axis.kind(data.get(axis.name)?.get("kind")?.as_str()?)
}

pub(crate) fn value(method: &Method, row: Row) -> Option<String> {
    let data = serde_json::to_value(method).ok()?;
    match row {
        Row::Choice(axis) => kind_of(&data, axis).map(|kind| kind.name.to_owned()),
        Row::Key(axis, key) => match data.get(axis.name)?.get(key.name)? {
            Value::String(word) => Some(word.clone()),
            Value::Bool(flag) => Some(if *flag { "yes" } else { "no" }.into()),
            // 32-bit numbers come back with more digits than were written.
            Value::Number(n) => n.as_f64().map(|n| ((n * 1e6).round() / 1e6).to_string()),
            Value::Array(list) if list.is_empty() => None,
            Value::Array(list) => Some(list.iter().map(item).collect::<Vec<_>>().join(", ")),
            _ => None,
        },
    }
}

/// An item of a list: a word, or the kind of a choice.
fn item(item: &Value) -> &str {
    item.as_str().or_else(|| item.get("kind")?.as_str()).unwrap_or("?")
}

/// The text with which a key's input starts: a list of choices as TOML, anything else as it is shown.
pub(crate) fn typeable(method: &Method, row: Row) -> Option<String> {
    match row {
        Row::Key(axis, key) if key.value == Takes::Choices => method.toml_value(axis.name, key.name),
        Row::Key(..) => Some(value(method, row).unwrap_or_default()),
        Row::Choice(_) => None,
    }
}

/// The method with the typed value of a key; empty for its default.
pub(crate) fn with_typed(method: &Method, row: Row, typed: &str) -> Result<Method, String> {
    let Row::Key(axis, key) = row else { return Err("press ← → to change a choice".into()) };
    let dotted = format!("{}.{}", axis.name, key.name);
    let typed = typed.trim();
    let changed = match (key.value, typed) {
        (_, "") => method.without(&dotted),
        (Takes::Flag, "yes" | "no") => method.with_set(&format!("{dotted}={}", typed == "yes")),
        (Takes::Words, list) if !list.starts_with('[') => {
            let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
            let words: Vec<_> = words.map(|word| Value::from(word).to_string()).collect();
            method.with_set(&format!("{dotted}=[{}]", words.join(", ")))
        }
        _ => method.with_set(&format!("{dotted}={typed}")),
    };
    changed.map_err(|error| said(&error))
}

/// The problem and its hint, without the command line's options.
fn said(error: &MethodError) -> String {
    match error {
        MethodError::Invalid { problem, .. } => format!("{problem}: {}", problem.hint()),
        other => other.to_string(),
    }
}

/// The method with a row adjusted up or down.
pub(crate) fn turned(method: &Method, row: Row, up: bool) -> Result<Method, String> {
    let (axis, key) = match row {
        Row::Choice(axis) => return turn_kind(method, axis, up),
        Row::Key(axis, key) => (axis, key),
    };
    let set = |value: String| {
        method.with_set(&format!("{}.{}={value}", axis.name, key.name)).map_err(|error| said(&error))
    };
    let now = value(method, row);
    let now = now.as_deref().unwrap_or(key.example.trim_matches('"'));
    match (key.value, now.parse::<f64>()) {
        (Takes::Words | Takes::Choices, _) => Err("press e to edit a list".into()),
        (Takes::Flag, _) => set((now != "yes").to_string()),
        (Takes::Word(words), _) => {
            let at = words.iter().position(|word| *word == now).unwrap_or(0);
            let next = if up { at + 1 } else { at + words.len() - 1 };
            set(format!("\"{}\"", words[next % words.len()]))
        }
        // The word comes below the lowest number.
        (Takes::CountOr(_), Err(_)) if up => set(key.range.map_or(0.0, |range| range.low).to_string()),
        (_, Err(_)) => Err("already at the minimum".into()),
        (takes, Ok(n)) => match (key.adjusted(n, up), takes) {
            (next, Takes::CountOr(words)) if next == n && !up => set(format!("\"{}\"", words[0])),
            (next, _) if next == n => {
                Err(format!("already at the {}", if up { "maximum" } else { "minimum" }))
            }
            (next, _) => set(next.to_string()),
        },
    }
}

/// The next kind of an axis that goes with the other four choices.
fn turn_kind(method: &Method, axis: &'static Axis, up: bool) -> Result<Method, String> {
    let now = value(method, Row::Choice(axis));
    let n = axis.kinds.len();
    let at = axis.kinds.iter().position(|k| Some(k.name) == now.as_deref()).unwrap_or(0);
    let mut problem = None;
    for by in 1..n {
        let kind = &axis.kinds[if up { (at + by) % n } else { (at + n - by) % n }];
        let mut sets = vec![format!("{}.kind=\"{}\"", axis.name, kind.name)];
        let keys = kind.keys.iter().filter(|k| k.required);
        sets.extend(keys.map(|key| format!("{}.{}={}", axis.name, key.name, key.example)));
        match method.with_sets(sets.iter().map(String::as_str)) {
            Ok(method) => return Ok(method),
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    Err(problem.map_or_else(|| "no other choice".into(), |error| said(&error)))
}

/// Why this cannot be the name of a method file; `None` if it can.
pub(crate) fn name_problem(name: &str) -> Option<&'static str> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || !name.chars().all(fine) {
        return Some("a name consists of letters, digits, - and _");
    }
    Method::preset(name).is_ok().then_some("this is the name of a built-in method")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(method: &Method, name: &str) -> Row {
        let wanted = |row: &Row| match row {
            Row::Choice(axis) => axis.name == name,
            Row::Key(_, key) => key.name == name,
        };
        rows(method).into_iter().find(wanted).unwrap_or_else(|| panic!("no {name}"))
    }

    fn turn(method: &Method, name: &str, up: bool) -> Method {
        turned(method, find(method, name), up).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    #[test]
    fn every_row_of_every_preset_can_be_adjusted() {
        for preset in Method::presets() {
            for row in rows(preset) {
                for up in [true, false] {
                    if let Ok(method) = turned(preset, row, up) {
                        method.validate().unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_words_flags_and_kinds_are_adjusted() {
        let lvspec = Method::preset("lvspec").unwrap();
        let said = |m: &Method, name: &str| value(m, find(m, name)).unwrap();
        assert_eq!(said(&turn(&lvspec, "lambda", true), "lambda"), "0.8");
        assert_eq!(said(&turn(&lvspec, "keep", false), "keep"), "0.05");
        assert_eq!(said(&turn(&lvspec, "shift_tolerant", true), "shift_tolerant"), "no");
        assert_eq!(said(&turn(&lvspec, "top_n", false), "top_n"), "9");
        let other = turn(&lvspec, "acceptance", true);
        assert_ne!(said(&other, "acceptance"), "visual");
        assert_eq!(said(&turn(&other, "acceptance", false), "acceptance"), "visual");
        let naive = Method::preset("naive").unwrap();
        let one = (0..4).fold(naive, |m, _| turn(&m, "length", false));
        assert_eq!(said(&turn(&one, "length", false), "length"), "auto");
        assert_eq!(said(&turn(&turn(&one, "length", false), "length", true), "length"), "1");
    }

    #[test]
    fn values_are_typed() {
        let lvspec = Method::preset("lvspec").unwrap();
        let typed = |method: &Method, name: &str, text: &str| with_typed(method, find(method, name), text);
        let with = typed(&lvspec, "lambda", " 0.725 ").unwrap();
        assert_eq!(value(&with, find(&with, "lambda")).unwrap(), "0.725");
        let never = typed(&lvspec, "shift_tolerant", "no").unwrap();
        assert_eq!(value(&never, find(&never, "shift_tolerant")).unwrap(), "no");
        for list in ["not, \"no\",", "not,no", "[\"not\", \"no\"]"] {
            let strict = typed(&lvspec, "always_strict", list).unwrap();
            let row = find(&strict, "always_strict");
            assert_eq!(value(&strict, row).unwrap().replace('"', ""), "not, no", "{list}");
            let plain = with_typed(&strict, row, "").unwrap();
            assert_eq!(plain.acceptance, lvspec.acceptance, "nothing typed is the default");
        }
        // What is offered to be changed, unchanged, changes nothing.
        for preset in Method::presets() {
            for row in rows(preset) {
                if let Some(text) = typeable(preset, row) {
                    assert_eq!(&with_typed(preset, row, &text).unwrap(), preset, "{row:?} {text}");
                }
            }
        }
        for (name, text, problem) in [
            ("lambda", "7", "must be"),
            ("lambda", "", "is missing"),
            ("lambda", "much", "must be a number"),
            ("top_n", "-1", "must be a whole number"),
        ] {
            let error = typed(&lvspec, name, text).unwrap_err();
            assert!(error.contains(problem) && !error.contains("--set"), "{name} {text}: {error}");
        }
    }

    #[test]
    fn a_list_of_rules_is_typed() {
        let sets = [
            "acceptance.kind=all_of",
            "acceptance.rules=[{ kind = \"lenient\", rho = 0.2 }, { kind = \"divergence\", threshold = 0.3 }]",
        ];
        let all = Method::preset("naive").unwrap().with_sets(sets).unwrap();
        let row = find(&all, "rules");
        assert_eq!(value(&all, row).unwrap(), "lenient, divergence");
        let text = typeable(&all, row).unwrap();
        assert_eq!(text, "[{ kind = \"lenient\", rho = 0.2 }, { kind = \"divergence\", threshold = 0.3 }]");
        let changed = with_typed(&all, row, &text.replace("0.2", "0.25")).unwrap();
        assert_eq!(typeable(&changed, row).unwrap(), text.replace("0.2", "0.25"));
        assert!(with_typed(&all, row, "lenient").unwrap_err().contains("a list of tables"));
    }

    #[test]
    fn an_invalid_change_says_why() {
        let lvspec = Method::preset("lvspec").unwrap();
        let zero = (0..7).fold(lvspec, |m, _| turn(&m, "lambda", false));
        assert!(turned(&zero, find(&zero, "lambda"), false).is_err());
        assert_eq!(name_problem("my-lvspec_2"), None);
        assert!(
            name_problem("a/b").is_some() && name_problem("").is_some() && name_problem("lenient").is_some()
        );
    }
}
