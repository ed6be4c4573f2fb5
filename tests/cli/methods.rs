//! `specreel methods`.

use specreel::speculate::Method;

use crate::Program;

#[test]
fn the_list_marks_lossless_and_lossy() {
    let run = Program::new().run(&["methods"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let marks: Vec<(&str, &str)> = run
        .stdout
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?))
        })
        .collect();
    let mark = |m: &'static Method| (m.name.as_str(), if m.lossless() { "lossless" } else { "lossy" });
    assert_eq!(marks, Method::presets().iter().map(mark).collect::<Vec<_>>());
    assert!(marks.contains(&("naive", "lossless")) && marks.contains(&("lvspec", "lossy")));
}

#[test]
fn what_show_prints_check_accepts() {
    let program = Program::new();
    let shown = program.run(&["methods", "show", "lvspec"]);
    assert_eq!(
        shown.stdout,
        r#"name = "lvspec"
about = "Strict on visual tokens, loose on the rest (LVSpec)"
paper = "See the Forest for the Trees, 2026"
drafter = { kind = "model" }
context = { kind = "uniform", keep = 0.1 }
shape = { kind = "chain", length = 10 }
acceptance = { kind = "visual", lambda = 0.7, top_n = 10, shift_tolerant = true }
schedule = { kind = "sequential" }
"#
    );
    let file = program.file("mine.toml", &shown.stdout);
    let checked = program.run(&["methods", "check", &file]);
    assert_eq!(
        (checked.code, checked.stdout.as_str()),
        (
            0,
            "mine.toml: lvspec (lossy)\n  small model drafts · sees 10 % evenly spaced · chain of 10 · visual λ 0.7, N 10, shifts · sequential\n"
        )
    );
}

#[test]
fn a_file_with_a_mistake_is_refused_with_what_is_allowed() {
    let program = Program::new();
    let good = program.run(&["methods", "show", "lvspec"]).stdout;
    for (from, to, sentence) in [
        (
            "lambda",
            "lamda",
            "error: method file mine.toml: unknown key `acceptance.lamda`\nhint: did you mean `lambda`? expected one of: lambda, top_n, shift_tolerant, always_strict\n",
        ),
        (
            "lambda = 0.7",
            "lambda = 2",
            "error: method file mine.toml: `acceptance.lambda` is 2, but must be 0 to 1\n",
        ),
        (
            "length = 10",
            "length = 0",
            "error: method file mine.toml: `shape.length` is 0, but must be 1 to 64\n",
        ),
        (
            "\"chain\"",
            "\"tree\"",
            "error: method file mine.toml: unknown kind \"tree\" of `shape`\nhint: expected one of: chain, static_tree, two_branch, dynamic_tree\n",
        ),
        ("drafter = {", "drafter = ", "error: method file mine.toml: not valid TOML: "),
    ] {
        program.file("mine.toml", good.replacen(from, to, 1));
        let run = program.run(&["methods", "check", "mine.toml"]);
        assert_eq!((run.code, run.stdout.as_str()), (3, ""), "{}", run.stderr);
        assert!(run.stderr.starts_with(sentence), "{}", run.stderr);
    }
    assert_eq!(program.run(&["methods", "check", "no.toml"]).code, 3);
    let run = program.run(&["methods", "check", "lvspec"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("specreel methods show lvspec"), "{}", run.stderr);
}

#[test]
fn json_has_the_five_choices_and_the_mark() {
    let program = Program::new();
    let list: serde_json::Value = serde_json::from_str(&program.run(&["methods", "--json"]).stdout).unwrap();
    assert_eq!(list.as_array().unwrap().len(), Method::presets().len());
    let one: serde_json::Value =
        serde_json::from_str(&program.run(&["methods", "show", "fly", "--json"]).stdout).unwrap();
    assert_eq!(one["lossless"], false);
    assert_eq!(one["acceptance"]["kind"], "window");
    assert_eq!(one["acceptance"]["length"], 4);
}
