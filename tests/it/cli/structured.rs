//! Answers of a schema or a grammar, from outside: text, events, sidecars, what is refused.

use serde_json::Value;

use crate::{
    cli::{Program, events},
    real_weights,
};

const TAGS: &str = "caption demo --schema tags";

#[test]
fn answers_are_json_of_the_schema_and_the_same_under_every_lossless_method() {
    let program = Program::new();
    let mut texts = Vec::new();
    for method in [
        "autoregressive",
        "naive",
        "naive-tree",
        "parallelvlm",
        "lookup",
        "std",
        "sparrow --drafter demo-sparrow",
    ] {
        let run = program.line(&format!("{TAGS} --max-new-tokens 400 --json --method {method}")).ok();
        let lines = events(&run.stdout);
        let started = lines.iter().find(|line| line["event"] == "started").unwrap();
        assert_eq!(started["constraint"]["kind"], "json_schema");
        assert_eq!(started["constraint"]["schema"]["title"], "tags");
        let done = lines.last().unwrap();
        assert_eq!((&done["reason"], &done["stats"]["complete"]), (&"eos".into(), &true.into()), "{method}");
        let answer: Value = serde_json::from_str(done["text"].as_str().unwrap()).unwrap();
        let tags = answer["tags"].as_array().unwrap();
        assert!((1..=24).contains(&tags.len()) && tags.iter().all(Value::is_string), "{answer}");
        let (forced, accepted) = (&done["stats"]["forced"], &done["stats"]["verdicts"]);
        assert_eq!(accepted["forced"], *forced, "{method}");
        assert_eq!(forced.is_null(), method == "autoregressive");
        texts.push(done["text"].clone());
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:#?}");
    // A lossy method writes another text of the schema.
    let lossy = program.line(&format!("{TAGS} --method lvspec --max-new-tokens 600")).ok();
    assert!(serde_json::from_str::<Value>(&lossy.stdout).unwrap()["tags"].is_array(), "{}", lossy.stdout);
}

#[test]
fn an_answer_that_is_cut_is_said_to_be_incomplete() {
    let program = Program::new();
    let run = program.line("caption demo --schema caption --max-new-tokens 12").ends(5);
    run.said("stopped after 12 tokens, before the answer was complete; raise the limit");
    let run = program.line("caption demo --schema caption --max-new-tokens 12 --json").ends(5);
    assert_eq!(events(&run.stdout).last().unwrap()["stats"]["complete"], false);
    let batch = "caption demo demo:2 --schema caption --max-new-tokens 12 --out-dir out --sidecar txt";
    program.line(batch).ends(5).said("hint: the answer about 2 videos is incomplete: raise --max-new-tokens");
    let again = program.line(&format!("{batch} --existing overwrite --json")).ends(5);
    assert_eq!(again.last()["incomplete"], 2);
}

#[test]
fn sidecars_hold_parsed_answers() {
    let program = Program::new();
    program.line("caption demo demo:2 --schema tags --max-new-tokens 900 --sidecar json --out-dir out").ok();
    let files: Vec<_> =
        std::fs::read_dir(program.home().join("out")).unwrap().map(|f| f.unwrap().path()).collect();
    let sidecars: Vec<_> =
        files.iter().filter(|file| file.extension().is_some_and(|e| e == "json")).collect();
    assert_eq!(sidecars.len(), 2, "{files:?}");
    for file in sidecars {
        let value: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let caption = &value["captions"][0];
        assert!(caption["answer"]["tags"].is_array(), "{value:#}");
        assert_eq!(caption["complete"], true);
        assert_eq!(
            serde_json::from_str::<Value>(caption["caption"].as_str().unwrap()).unwrap(),
            caption["answer"]
        );
    }
}

#[test]
fn methods_are_compared_under_a_grammar() {
    let program = Program::new();
    program
        .file("colors.lark", "start: \"The shape is \" COLOR \".\"\nCOLOR: \"red\" | \"green\" | \"blue\"\n");
    let run = program.line("compare demo --grammar colors.lark --methods naive,lvspec --json").ok();
    let lines = events(&run.stdout);
    let texts: Vec<&Value> =
        lines.iter().filter(|line| line["event"] == "done").map(|line| &line["text"]).collect();
    assert_eq!(texts.len(), 3);
    for text in texts {
        let text = text.as_str().unwrap();
        assert!(["The shape is red.", "The shape is green.", "The shape is blue."].contains(&text), "{text}");
    }
    let table = lines.iter().find(|line| line["event"] == "comparison").unwrap();
    assert_eq!(table["rows"][1]["equality"]["equal"], true);
}

#[test]
fn what_cannot_be_met_is_refused_with_the_place() {
    let program = Program::new();
    program.file("broken.json", "{\n  \"type\": \"object\",\n}\n");
    program.file("kind.json", "{\"type\": \"strin\"}");
    program.file("not.json", "{\"not\": {}}");
    program.file("never.json", "{\"type\": \"array\", \"minItems\": 3, \"maxItems\": 2}");
    program.file("bad.lark", "start: \"a\"\nb: \"c\n");
    program.file("loop.lark", "start: a\na: a\n");
    program.file("bytes.lark", b"start: \"\xff\"\n");
    for (arguments, code, words) in [
        ("--schema tag", 3, "did you mean `tags`?"),
        ("--schema there/is.json", 3, "--schema there/is.json: no such file"),
        ("--schema .", 3, "it is a directory"),
        (
            "--schema broken.json",
            3,
            "--schema broken.json: not valid JSON: trailing comma at line 3 column 1",
        ),
        ("--schema kind.json", 3, "--schema kind.json: Invalid type: strin"),
        ("--schema not.json", 3, "Unimplemented keys: [\"not\"]"),
        ("--schema never.json", 3, "minItems (3) is greater than maxItems (2)"),
        ("--grammar bad.lark", 3, "--grammar bad.lark: line 2, column 6: lexer error"),
        ("--grammar loop.lark", 3, "it allows no text"),
        ("--grammar bytes.lark", 3, "it is not UTF-8 text"),
        ("--schema tags --grammar bad.lark", 2, "cannot be used with"),
    ] {
        program.line(&format!("caption demo {arguments}")).ends(code).said(words);
    }
}

#[test]
fn a_model_of_real_language_writes_json() {
    let (Some(target), Some(half)) = (real_weights::target(), real_weights::half()) else { return };
    let program = Program::new();
    let mut texts = Vec::new();
    for method in ["autoregressive", "naive"] {
        let line = format!(
            "caption demo:2 --target {} --drafter {} --schema tags --max-new-tokens 160 --max-visual-tokens 128 --json \
             --prompt 'List three European capitals as JSON with the key tags.' --method {method}",
            target.display(),
            half.display()
        );
        let run = program.line(&line);
        let done = events(&run.stdout).pop().unwrap();
        let text = done["text"].as_str().unwrap().to_owned();
        assert!(text.starts_with("{\"tags\": [\""), "{text}");
        if done["stats"]["complete"] == true {
            assert!(serde_json::from_str::<Value>(&text).unwrap()["tags"].is_array(), "{text}");
        }
        texts.push(text);
    }
    assert_eq!(texts[0], texts[1]);
}
