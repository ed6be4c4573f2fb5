//! The user's files: configuration errors, user methods.

use crate::cli::Program;

fn folder(program: &Program, name: &str) -> std::path::PathBuf {
    let dir = program.home().join(".config/specreel").join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn an_invalid_configuration_stops_only_the_commands_that_use_it() {
    let program = Program::new();
    std::fs::write(folder(&program, "").join("config.toml"), "method = 3\n").unwrap();
    for args in [&["methods"][..], &["completions", "bash"], &["man"], &["methods", "show", "lvspec"]] {
        program.run(args).silent();
    }
    let models = program.run(&["models"]).ok();
    models.said("warning: configuration file ").printed("embedded target");
}

#[test]
fn options_take_precedence_over_bad_values_of_a_file() {
    let program = Program::new();
    let file = folder(&program, "").join("config.toml");
    for text in ["method = \"nope\"", "target = \"/nope\"", "prompt = \"\""] {
        std::fs::write(&file, text).unwrap();
        // Their errors do not name the file.
        let typed = program.line("caption demo --method nope --target /no --prompt x");
        assert!(!typed.stderr.contains("config.toml"), "{}", typed.stderr);
        program.line("config").ends(3).printed("config   wrong");
    }
}

#[test]
fn user_methods_are_listed_shown_checked_and_run() {
    let program = Program::new();
    let naive = program.run(&["methods", "show", "naive"]).stdout;
    std::fs::write(folder(&program, "methods").join("mine.toml"), naive.replace("\"naive\"", "\"mine\""))
        .unwrap();
    assert!(program.run(&["methods"]).stdout.lines().any(|line| line.starts_with("  mine ")));
    assert!(program.run(&["methods", "--json"]).stdout.contains("\"name\":\"mine\""));
    assert!(program.run(&["methods", "show", "mine"]).stdout.contains("name = \"mine\""));
    let shown = program.run(&["methods", "show", "mine", "--json"]).json();
    assert_eq!((&shown["lossless"], &shown["shape"]["kind"]), (&true.into(), &"chain".into()));
    assert!(program.run(&["methods", "check", "mine"]).stdout.contains("mine (lossless)"));
    program.line("caption demo --method mien").said("did you mean `mine`?");
    program.line("compare demo --methods mine,naive --max-new-tokens 4").ok().printed("mine");
    assert!(program.run(&["config"]).stdout.contains("methods  there"));
}

#[test]
fn a_draft_head_brings_its_method() {
    let program = Program::new();
    let own = program.run(&["caption", "demo", "--max-new-tokens", "2", "--drafter", "demo-msd"]);
    assert!(own.stderr.starts_with("msd (lossless): demo-target with demo-msd"), "{}", own.stderr);
}
