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
    for args in [&["methods"][..], &["completions", "bash"], &["man"], &["methods", "show", "fly"]] {
        let run = program.run(args);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
    }
    let models = program.run(&["models"]);
    assert_eq!(models.code, 0, "{}", models.stderr);
    assert!(
        models.stderr.starts_with("warning: configuration file ")
            && models.stdout.contains("embedded target")
    );
    let doctor = program.run(&["doctor"]);
    assert_eq!(doctor.code, 3);
    assert!(
        doctor.stdout.contains("FAIL  config.toml") && doctor.stdout.contains("config.toml:1: `method = 3`"),
        "{}",
        doctor.stdout
    );
    let caption = program.run(&["caption", "demo"]);
    assert_eq!(caption.code, 3);
    assert!(
        caption.stderr.contains("config.toml:1: `method = 3`: expected a string in quotes"),
        "{}",
        caption.stderr
    );
}

#[test]
fn a_bad_value_names_its_file() {
    let program = Program::new();
    let file = folder(&program, "").join("config.toml");
    for (text, part) in [
        ("method = \"nope\"", "config.toml:1: method: unknown method `nope`"),
        ("target = \"/nope\"", "config.toml:1: target: target model /nope: "),
        ("prompt = \"\"", "config.toml:1: prompt: the prompt is empty"),
    ] {
        std::fs::write(&file, text).unwrap();
        let run = program.run(&["caption", "demo"]);
        assert_eq!(run.code, 3, "{text}: {}", run.stderr);
        assert!(run.stderr.contains(part), "{text}: {}", run.stderr);
        // Options take precedence, and their errors do not name the file.
        let typed = program.run(&["caption", "demo", "--method", "nope", "--target", "/no", "--prompt", "x"]);
        assert!(!typed.stderr.contains("config.toml"), "{}", typed.stderr);
        let config = program.run(&["config"]);
        assert_eq!(config.code, 3);
        assert!(
            config.stdout.contains("config   wrong") && config.stderr.contains(part),
            "{}",
            config.stderr
        );
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
    assert!(program.run(&["methods", "check", "mine"]).stdout.contains("mine (lossless)"));
    let unknown = program.run(&["caption", "demo", "--method", "mien"]);
    assert!(unknown.stderr.contains("did you mean `mine`?"), "{}", unknown.stderr);
    let args = ["demo", "--methods", "mine,naive", "--max-new-tokens", "4"];
    let compared = program.run(&[&["compare"][..], &args].concat());
    assert!(compared.code == 0 && compared.stdout.contains("mine"), "{}", compared.stderr);
    assert!(program.run(&["config"]).stdout.contains("methods  there"));
    // A file with the name of a built-in method gets a note.
    program
        .file("naive.toml", program.run(&["methods", "show", "fly"]).stdout.replace("\"fly\"", "\"naive\""));
    let check = program.run(&["methods", "check", "naive.toml"]);
    assert!(check.stderr.contains("`naive` is the name of a built-in method"), "{}", check.stderr);
}

#[test]
fn a_changed_method_is_marked() {
    let program = Program::new();
    let sets = ["--set", "acceptance.kind=lenient", "--set", "acceptance.rho=0.1"];
    let caption = program
        .run(&[&["caption", "demo", "--max-new-tokens", "4", "--method", "naive"][..], &sets].concat());
    assert!(caption.stderr.starts_with("naive* (lossy)"), "{}", caption.stderr);
    let sets = ["--methods", "naive,naive-tree", "--set", "shape.length=3"];
    let compared = program.run(&[&["compare", "demo", "--max-new-tokens", "4"][..], &sets].concat());
    assert!(
        compared.stdout.contains("naive* ") && compared.stdout.contains("naive-tree "),
        "{}",
        compared.stdout
    );
}

#[test]
fn an_unused_drafter_is_noted() {
    let program = Program::new();
    for (args, note) in [
        (
            &["--drafter", "demo-sparrow", "--method", "naive"][..],
            "--drafter demo-sparrow is not used: `naive`",
        ),
        (
            &["--drafter", "demo-drafter", "--method", "sparrow"],
            "--drafter demo-drafter is not used: `sparrow`",
        ),
        (&["--drafter-device", "cpu", "--method", "autoregressive"], "--drafter-device is not used"),
    ] {
        let run = program.run(&[&["caption", "demo", "--max-new-tokens", "2"], args].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stderr.contains(&format!("note: {note}")), "{args:?}: {}", run.stderr);
    }
    let own = program.run(&["caption", "demo", "--max-new-tokens", "2", "--drafter", "demo-msd"]);
    assert!(own.stderr.starts_with("msd (lossless): demo-target with demo-msd"), "{}", own.stderr);
}

#[test]
fn a_draft_head_is_inspected() {
    let program = Program::new();
    let run = program.run(&["models", "inspect", "demo-sparrow"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stdout.contains("recipe sparrow") && run.stdout.contains("8 layers, hidden size 320"),
        "{}",
        run.stdout
    );
    let json = program.run(&["models", "inspect", "demo-msd", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["recipe"], &json["target"]["name"]), (&"msd".into(), &"target".into()));
    let doctor = program.run(&["doctor", "--drafter", "demo-sparrow"]);
    assert!(doctor.stdout.contains("demo-sparrow"), "{}", doctor.stdout);
}
