//! Completion in real shells, and the man pages.

use std::process::Command;

use crate::cli::Program;

/// A home with a method, a theme and a model folder of its own.
fn home() -> Program {
    let program = Program::new();
    let folder = program.home().join(".config/specreel");
    for name in ["methods", "themes"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    std::fs::write(folder.join("methods/mine.toml"), program.run(&["methods", "show", "lvspec"]).stdout)
        .unwrap();
    std::fs::write(folder.join("themes/sepia.toml"), "").unwrap();
    let models = program.home().join("models/tiny-vl");
    std::fs::create_dir_all(&models).unwrap();
    std::fs::write(models.join("config.json"), "{}").unwrap();
    let config = format!("models = [{:?}]\n", program.home().join("models"));
    std::fs::write(folder.join("config.toml"), config).unwrap();
    std::fs::create_dir(program.home().join("subs")).unwrap();
    for file in ["clip.mp4", "vl-q8_0.gguf", "vl-mmproj.gguf", "vl-notes.txt"] {
        std::fs::write(program.home().join(file), "x").unwrap();
    }
    program
}

/// Lines and the values that complete their last word.
const COMPLETED: [(&str, &[&str]); 22] = [
    ("caption demo --preset w", &["wan"]),
    ("caption demo --method spec", &["specvlm", "specvlm-self"]),
    ("caption demo --method mi", &["mine"]),
    ("methods show na", &["naive", "naive-auto", "naive-tree"]),
    ("methods check ", &["mine"]),
    ("models inspect demo-t", &["demo-target"]),
    ("caption demo --target demo-dr", &["demo-drafter", "demo-drafter-weak"]),
    ("caption demo --dtype q4", &["q4_1", "q4_k", "q4_0"]),
    ("caption demo --device c", &["cpu"]),
    ("caption demo --rope s", &["sequential"]),
    ("--theme se", &["sepia"]),
    ("--theme tokyo", &["tokyo-night"]),
    ("caption demo --set acceptance.la", &["acceptance.lambda="]),
    ("caption demo --set lamb", &["lambda="]),
    ("caption demo --set context.positions=", &["context.positions=original", "context.positions=compact"]),
    ("caption demo --set context.positions=o", &["context.positions=original"]),
    ("caption vl", &[]),
    ("caption sub", &["subs/"]),
    ("caption demo --temp", &["--temperature"]),
    ("caption cl", &["clip.mp4"]),
    ("caption demo --target vl-", &["vl-q8_0.gguf"]),
    ("caption demo --mmproj vl-", &["vl-mmproj.gguf", "vl-q8_0.gguf"]),
];

/// Run a shell with specreel on its path; none if the machine does not have it.
fn shell(program: &Program, shell: &str, script: &str) -> Option<Vec<String>> {
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_specreel")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(shell);
    if shell == "bash" {
        command.arg("--norc");
    }
    command.args(["-c", script]).env("PATH", path).env("HOME", program.home()).current_dir(program.home());
    let names = "XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME HF_HOME HF_HUB_CACHE \
             LLAMA_CACHE";
    for name in names.split(' ') {
        command.env_remove(name);
    }
    let output = match command.output() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect())
}

#[test]
fn bash_completes_values() {
    let program = home();
    for (line, values) in COMPLETED {
        let script = format!(
            "source <(specreel completions bash) && complete -p specreel >/dev/null || exit 1
             COMP_WORDS=(specreel {line}{}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMP_TYPE=9
             _clap_complete_specreel specreel \"${{COMP_WORDS[COMP_CWORD]}}\" '' 2>/dev/null
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            if line.ends_with(' ') { "''" } else { "" }
        );
        let Some(found) = shell(&program, "bash", &script) else { return };
        contains(&found, line, values);
    }
}

#[test]
fn fish_completes_values() {
    let program = home();
    for (line, values) in COMPLETED {
        let script = format!("specreel completions fish | source; complete -C 'specreel {line}'");
        let Some(found) = shell(&program, "fish", &script) else { return };
        let found: Vec<String> =
            found.iter().map(|line| line.split('\t').next().unwrap().to_owned()).collect();
        contains(&found, line, values);
    }
}

/// zsh completes in an interactive shell only, so its script is checked, and what the script is answered.
#[test]
fn zsh_completes_values() {
    let program = home();
    let script = program.run(&["completions", "zsh"]).stdout;
    assert!(
        script.starts_with("#compdef specreel") && script.contains("SPECREEL_COMPLETE=\"zsh\""),
        "{script}"
    );
    program.file("script.zsh", &script);
    shell(&program, "zsh", "zsh -n script.zsh");
    for (line, values) in COMPLETED {
        let words: Vec<&str> = std::iter::once("specreel").chain(line.split(' ')).collect();
        let output = program
            .command()
            .arg("--")
            .args(&words)
            .env("SPECREEL_COMPLETE", "zsh")
            .env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let found: Vec<String> =
            text.lines().map(|line| line.split(':').next().unwrap().to_owned()).collect();
        contains(&found, line, values);
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{line}: in the middle of what is typed");
    }
}

/// These and only these begin with the last word.
fn contains(found: &[String], line: &str, values: &[&str]) {
    let found: Vec<&str> = found.iter().map(|value| value.trim()).collect();
    for value in values {
        assert!(found.contains(value), "{line}: no {value} in {found:?}");
    }
    let typed = line.rsplit(' ').next().unwrap();
    assert!(typed.is_empty() || found.len() == values.len(), "{line}: {found:?}");
}

#[test]
fn models_of_configured_folders_are_completed() {
    let program = home();
    let typed = program.home().join("models/ti");
    let line = format!("models inspect {}", typed.display());
    let words: Vec<&str> = std::iter::once("specreel").chain(line.split(' ')).collect();
    let output = program.command().arg("--").args(&words).env("SPECREEL_COMPLETE", "fish").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("models/tiny-vl\tin a configured folder"), "{text:?}");
}

#[test]
fn every_subcommand_has_a_man_page() {
    let program = Program::new();
    let run = program.run(&["man", "models", "pull"]).ok();
    run.printed(".TH specreel-models-pull 1").printed("\\fBspecreel models pull\\fR");
    let run = program.run(&["man", "models", "pul"]).ends(2);
    run.said("specreel models has no subcommand `pul`");
    run.said("did you mean `pull`?");

    let run = program.run(&["man", "--dir", "pages"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let pages: Vec<_> =
        std::fs::read_dir(program.home().join("pages")).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(pages.len() > 20, "{pages:?}");
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        let synopsis = text.split(".SH ").find(|section| section.starts_with("SYNOPSIS")).unwrap();
        assert!(synopsis.len() < 200 && !synopsis.contains("temperature"), "{synopsis}");
        assert!(text.contains(".SH DESCRIPTION") && text.is_ascii(), "{text}");
        // Where groff is installed, it finds nothing to complain about.
        let Ok(checked) = Command::new("groff").args(["-man", "-Tutf8", "-ww", "-z"]).arg(&page).output()
        else {
            continue;
        };
        assert_eq!(String::from_utf8_lossy(&checked.stderr), "", "{}", page.display());
    }
    program.file("file", "");
    let run = program.run(&["man", "--dir", "file"]).ends(3);
    assert!(run.stderr.starts_with("error: cannot write file: "), "{}", run.stderr);
}
