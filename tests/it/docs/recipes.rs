//! The recipes of `docs/recipes.md` run as they are written: the commands of a section one after another, in a home where the
//! files are that the page says.

use std::path::Path;

use super::read;
use crate::cli::Program;

/// Blocks that only name what runs elsewhere: on another machine, with a download, or without an end.
const NOT_RUN: &str = "sh no-test";

/// The sections of the page with the commands in their `sh` blocks, and how many blocks are not run.
fn recipes(page: &str) -> (Vec<(String, String)>, usize) {
    let (mut recipes, mut not_run, mut block) = (Vec::<(String, String)>::new(), 0, None);
    for line in page.lines() {
        match (block, line.strip_prefix("```"), line.strip_prefix("## ")) {
            (None, Some(kind), _) => {
                not_run += usize::from(kind == NOT_RUN);
                block = Some(kind);
            }
            (Some(_), Some(_), _) => block = None,
            (Some("sh"), _, _) => {
                if let Some((_, script)) = recipes.last_mut() {
                    *script += line;
                    script.push('\n');
                }
            }
            (None, _, Some(title)) => recipes.push((title.to_owned(), String::new())),
            _ => {}
        }
    }
    recipes.retain(|(_, script)| !script.is_empty());
    (recipes, not_run)
}

/// A home with `clips/`, `talk.mp4` and `movie.mkv`, and a configuration for short captions.
fn home() -> Program {
    let program = Program::new();
    let root = Path::new(crate::REPOSITORY);
    let fixtures = root.join("tests/parity/fixtures");
    let put = |from: &Path, to: &str| {
        let to = program.home().join(to);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
    };
    let demo = root.join("assets/demo/clips");
    put(&demo.join("three-shapes.mp4"), "clips/one.mp4");
    put(&demo.join("one-large-shape.mp4"), "clips/two.mp4");
    put(&demo.join("three-shots.mp4"), "clips/day2/three.mp4");
    put(&fixtures.join("whisper/sound.mp4"), "talk.mp4");
    put(&fixtures.join("cuts.mp4"), "movie.mkv");
    let config = program.home().join(".config/specreel/config.toml");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(config, "max_new_tokens = 60\n").unwrap();
    program
}

#[test]
fn recipes_run_as_they_are_written() {
    let page = read("docs/recipes.md");
    let (recipes, not_run) = recipes(&page);
    assert!(
        recipes.len() >= 7 && not_run <= 6,
        "{} recipes, {not_run} blocks that are not run",
        recipes.len()
    );
    std::thread::scope(|scope| {
        for (title, script) in &recipes {
            scope.spawn(move || {
                let run = home().script(script);
                assert_eq!(run.code, 0, "{title}:\n{script}\n{}\n{}", run.stdout, run.stderr);
            });
        }
    });
}
