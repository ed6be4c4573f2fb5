//! The program with a model that writes real language.

use crate::{
    cli::{Program, events, lab_methods},
    real_weights,
};

#[test]
fn answers_are_english() {
    let Some(target) = real_weights::target() else { return };
    let program = Program::new();
    let line = format!(
        "caption demo:2 --target {} --prompt 'What is the capital of Italy?' --max-new-tokens 24 --max-visual-tokens 128",
        target.display()
    );
    let run = program.line(&line).ok();
    assert!(run.stdout.contains("Rome"), "{}", run.stdout);
}

#[test]
fn lossless_methods_write_what_decoding_writes() {
    let (Some(target), Some(half)) = (real_weights::target(), real_weights::half()) else { return };
    let program = Program::new();
    let all = ["lookup", "layerskip", "twin", "streaming", "std", "specvlm-self", "naive"];
    for (dtype, methods) in [("q8_0", &all[..]), ("q4_k", &["layerskip", "streaming"])] {
        let line = format!(
            "compare demo:2 --target {} --drafter {} --dtype {dtype} --max-new-tokens 24 --max-visual-tokens 64 --prompt \
             'Write a story about this video.' --methods {} --measure never --json",
            target.display(),
            half.display(),
            lab_methods(&methods.join(","))
        );
        let lines = events(&program.line(&line).ok().stdout);
        let table = lines.iter().find(|line| line["event"] == "comparison").unwrap();
        let rows = table["rows"].as_array().unwrap();
        assert_eq!(rows.len(), methods.len() + 1);
        for row in &rows[1..] {
            assert_eq!(row["equality"]["equal"], true, "{dtype}: {row}");
        }
        let tau =
            |method: &str| rows.iter().find(|row| row["method"] == method).unwrap()["tau"].as_f64().unwrap();
        // A model that sees a part of the video agrees with itself far more often than half of its layers do.
        assert!(tau("streaming") > 2.0 && tau("layerskip") < 1.0, "{rows:?}");
    }
}
