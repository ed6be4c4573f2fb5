use super::*;
use crate::method::preset::tests::of_the_laboratory;
use specreel_record::Failure;

const GOOD: &str = r#"
name = "mine"
drafter = { kind = "model" }
context = { kind = "uniform", keep = 0.1 }
shape = { kind = "chain", length = 10 }
acceptance = { kind = "visual", lambda = 0.7, top_n = 10 }
schedule = { kind = "sequential" }
"#;

fn read(text: &str) -> Result<Method, MethodError> {
    Method::from_toml(text, Path::new("mine.toml"))
}

#[test]
fn the_table_and_the_types_agree() {
    for axis in &AXES {
        for kind in axis.kinds {
            let all = kind.keys.iter().map(|k| format!(", {} = {}", k.name, k.example));
            let all = format!("{{ kind = \"{}\"{} }}", kind.name, all.collect::<String>());
            for choice in [all, kind.example()] {
                let mut table: Table = GOOD.parse().unwrap();
                // Some choices clash with the rest of GOOD; serde alone must still understand them.
                table[axis.name] = parse_value(&choice);
                check_axis(axis, table.get(axis.name)).unwrap();
                let method: Method = table.try_into().unwrap_or_else(|e| panic!("{choice}: {e}"));
                let back = method.table();
                let written = back[axis.name].as_table().unwrap();
                for key in kind.keys.iter().filter(|k| k.required) {
                    assert!(written.contains_key(key.name), "{} {}", kind.name, key.name);
                }
                for key in written.keys().filter(|k| *k != "kind") {
                    assert!(kind.keys.iter().any(|k| k.name == key), "{} lacks {key}", kind.name);
                }
            }
        }
    }
}

#[test]
fn a_mistake_is_answered_with_the_allowed_values() {
    let table = [
        (
            "lambda = 0.7",
            "lamda = 0.7",
            "unknown key `acceptance.lamda`",
            "did you mean `lambda`? expected one of: lambda, top_n, shift_tolerant, at, always_strict",
        ),
        (
            "\"visual\"",
            "\"visula\"",
            "unknown kind \"visula\" of `acceptance`",
            "did you mean `visual`? expected one of: exact, sampled, entropy, window, visual, lenient, typical, divergence, cost, glance, all_of, random",
        ),
        (
            "lambda = 0.7, ",
            "",
            "`acceptance.lambda` is missing",
            "for example: acceptance = { kind = \"visual\", lambda = 0.7, top_n = 10 }",
        ),
        (
            "lambda = 0.7",
            "lambda = \"much\"",
            "`acceptance.lambda` is \"much\", but must be a number",
            "write a number",
        ),
        (
            "length = 10",
            "length = -1",
            "`shape.length` is -1, but must be a whole number from 0, or one of \"auto\"",
            "write a whole number from 0, or one of \"auto\"",
        ),
        (
            "kind = \"model\"",
            "kind = \"model\", size = 3",
            "unknown key `drafter.size`",
            "`drafter` takes no keys other than `kind`",
        ),
        (
            "schedule =",
            "shedule =",
            "unknown key `shedule`",
            "did you mean `schedule`? expected one of: name, about, paper, drafter, context, shape, acceptance, schedule",
        ),
        (
            "schedule = { kind = \"sequential\" }",
            "",
            "`schedule` is missing",
            "for example: schedule = { kind = \"sequential\" }",
        ),
        ("name = \"mine\"", "", "`name` is missing", "for example: name = \"mine\""),
        (
            "{ kind = \"sequential\" }",
            "\"sequential\"",
            "`schedule` is \"sequential\", but must be a table such as",
            "write a table",
        ),
        ("kind = \"sequential\"", "", "`schedule.kind` is missing", "for example: schedule"),
        ("name = \"mine\"", "name = 3", "`name` is 3, but must be a string", "write a string"),
    ];
    for (from, to, sentence, hint) in table {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD);
        let failure = Failure::from(read(&text).unwrap_err());
        assert!(
            failure.error.starts_with(&format!("method file mine.toml: {sentence}")),
            "{}",
            failure.error
        );
        assert!(failure.hint.as_deref().is_some_and(|h| h.starts_with(hint)), "{:?}", failure.hint);
        assert_eq!(failure.class.exit_code(), 3);
    }
}

#[test]
fn invalid_toml_names_the_line() {
    let error = read("name = \"a\"\nshape = {").unwrap_err().to_string();
    assert!(
        error.starts_with("method file mine.toml: not valid TOML:") && error.contains("line 2"),
        "{error}"
    );
}

#[test]
fn missing_files_and_directories_are_named() {
    let error = Method::from_file(Path::new("no/such.toml")).unwrap_err();
    assert!(error.to_string().starts_with("cannot read method file no/such.toml: "), "{error}");
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Method::from_file(dir.path()), Err(MethodError::Read { .. })));
}

#[test]
fn a_file_is_checked_when_it_is_read() {
    let failure = Failure::from(read(&GOOD.replace("length = 10", "length = 0")).unwrap_err());
    assert_eq!(failure.error, "method file mine.toml: `shape.length` is 0, but must be 1 to 64");
    assert_eq!(failure.class.exit_code(), 3);
}

#[test]
fn sets_change_one_value() {
    let lvspec = Method::preset("lvspec").unwrap();
    let looser = lvspec.with_set("acceptance.lambda=0.9").unwrap();
    assert_eq!(looser.describe(), lvspec.describe().replace("λ 0.7", "λ 0.9"));
    let strict = lvspec.with_set(" acceptance.kind = exact ").unwrap();
    assert!(strict.lossless());
    let same_kind = lvspec.with_set("acceptance.kind=visual").unwrap();
    assert_eq!(same_kind, lvspec);
    let frames = lvspec.with_sets(["context.kind=frames", "context.keep=.25"]).unwrap();
    assert_eq!(frames.context.describe(), "sees 25 % of the frames");
    assert_eq!(lvspec.with_sets([]).unwrap(), lvspec);
}

#[test]
fn an_invalid_set_says_why() {
    let table = [
        ("lambda", "--set lambda: expected AXIS.KEY=VALUE, got `lambda`"),
        ("lamda=1", "--set lamda=1: the method has no key `lamda`"),
        ("acceptance.=1", "--set acceptance.=1: expected AXIS.KEY=VALUE, got `acceptance.=1`"),
        ("accept.lambda=1", "--set accept.lambda=1: unknown key `accept`"),
        ("acceptance.lamda=1", "--set acceptance.lamda=1: unknown key `acceptance.lamda`"),
        (
            "acceptance.lambda=x",
            "--set acceptance.lambda=x: `acceptance.lambda` is \"x\", but must be a number",
        ),
        (
            "shape.length=1.5",
            "--set shape.length=1.5: `shape.length` is 1.5, but must be a whole number from 0, or one of \"auto\"",
        ),
        ("acceptance.kind=window", "--set acceptance.kind=window: `acceptance.length` is missing"),
    ];
    for (set, sentence) in table {
        let error = Method::preset("lvspec").unwrap().with_set(set).unwrap_err();
        assert_eq!(error.to_string(), sentence);
        assert_eq!(error.class().exit_code(), 2);
    }
}

#[test]
fn a_written_method_reads_back_the_same() {
    for method in Method::presets() {
        assert_eq!(read(&method.to_toml()).unwrap(), *method, "{}", method.to_toml());
    }
    assert!(of_the_laboratory("fly").to_toml().contains("threshold = 0.2,"));
}
