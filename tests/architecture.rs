//! The rules that keep the modules apart, read from the source: floors, and the one fold of events.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

/// The floor of each top-level module. A module may use only modules on floors below its own.
const FLOORS: [(&str, u8); 17] = [
    ("record", 1),
    ("chart", 2),
    ("assets", 2),
    ("model", 2),
    ("video", 2),
    ("scenes", 2),
    ("speculate", 3),
    ("engine", 4),
    ("client", 5),
    ("present", 5),
    ("train", 5),
    ("batch", 6),
    ("cli", 7),
    ("tui", 7),
    ("lib", 8),
    ("wiring", 8),
    ("main", 8),
];

/// Uses on one floor that are allowed, with the reason.
const SIDEWAYS: [(&str, &str, &str); 1] = [(
    "cli",
    "tui",
    "it reads the studio's options and files, and draws a training with the studio's widgets",
)];

/// Files outside of `record` that touch the tokens of a step event without folding them: the studio cleans foreign text in every
/// event before the log takes it in.
const FOLDS: [&str; 1] = ["src/tui/text.rs"];

/// A source file: its path from the root of the repository, with slashes, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The top-level module that the file belongs to: `cli` for `src/cli/args.rs`, `main` for `src/main.rs`.
    fn module(&self) -> &str {
        let path = self.path.strip_prefix("src/").unwrap();
        path.split('/').next().unwrap().trim_end_matches(".rs")
    }

    fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.ends_with("testing.rs")
    }

    /// The text before a tests module within the file.
    fn without_tests(&self) -> &str {
        self.text.split("\n#[cfg(test)]\nmod ").next().unwrap()
    }
}

/// All files of `src`, sorted.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<PathBuf> = vec![root.join("src")];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                sources.push(Source { path, text });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(sources.len() > 100, "only {} files in src", sources.len());
    sources
}

fn floor(module: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == module).map(|(_, floor)| *floor)
}

/// The top-level modules that a text names after `crate::`, alone or in a group, with their lines. Comments do not count.
fn uses(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut depth_of_group = None;
    let mut depth = 0;
    for (index, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let mut rest = code;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("crate::") {
                if after.starts_with('{') {
                    depth_of_group = Some(depth + 1);
                } else if let Some(name) = identifier(after) {
                    found.push((index + 1, name));
                }
                rest = after;
                continue;
            }
            let first = rest.chars().next().unwrap();
            match first {
                '{' => depth += 1,
                '}' => {
                    depth -= 1;
                    depth_of_group = depth_of_group.filter(|group| *group <= depth);
                }
                _ => {}
            }
            let word = identifier(rest).filter(|word| !["as", "self"].contains(word));
            // A name at the group's own depth that does not follow `::` is a top-level module.
            let before = &code[..code.len() - rest.len()];
            if let Some(word) = word
                && depth_of_group == Some(depth)
                && !before.ends_with("::")
                && !before.ends_with("as ")
            {
                found.push((index + 1, word));
            }
            rest = &rest[identifier(rest).map_or(first.len_utf8(), str::len)..];
        }
    }
    found
}

/// The identifier at the start of a text.
fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

/// Fail with all problems, one a line.
fn none(rule: &str, problems: &[String]) {
    let list = problems.iter().fold(String::new(), |mut list, problem| {
        let _ = writeln!(list, "  {problem}");
        list
    });
    assert!(problems.is_empty(), "{rule}\n{list}");
}

#[test]
fn modules_use_only_floors_below_their_own() {
    let mut problems = Vec::new();
    for source in sources() {
        let module = source.module();
        let Some(own) = floor(module) else {
            problems.push(format!("{}: module `{module}` has no floor in FLOORS", source.path));
            continue;
        };
        for (line, used) in uses(&source.text) {
            let allowed = SIDEWAYS.iter().any(|(from, to, _)| (*from, *to) == (module, used));
            // Items of the crate root are not modules.
            if let Some(other) = floor(used)
                && used != module
                && other >= own
                && !allowed
            {
                problems.push(format!(
                    "{}:{line}: `{module}` (floor {own}) uses `{used}` (floor {other})",
                    source.path
                ));
            }
        }
    }
    none("a module may use only modules on floors below its own:", &problems);
}

/// What models are made of, and what may name a device there: the places that choose one.
const MODELS: [&str; 4] =
    ["src/model/decoder/", "src/model/draft_head/", "src/model/family/", "src/model/vision/"];
const CHOOSERS: [&str; 3] =
    ["src/model/decoder/dispatch.rs", "src/model/decoder/dispatch/heads.rs", "src/model/vision/tower.rs"];

#[test]
fn models_know_no_device_and_devices_know_no_model() {
    let device = Regex::new(r"\bdevice::\{?\s*(cpu|candle|gpu)\b|^\s+(cpu|candle|gpu)::").unwrap();
    let model = Regex::new(
        r"\b(model|super)::(decoder|draft_head|family|vision)\b|^\s+(decoder|draft_head|family|vision)::",
    )
    .unwrap();
    let mut problems = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        let of_model = MODELS.iter().any(|folder| source.path.starts_with(folder));
        let pattern = match () {
            () if of_model && !CHOOSERS.contains(&source.path.as_str()) => &device,
            () if source.path.starts_with("src/model/device/") => &model,
            () => continue,
        };
        for (index, line) in source.without_tests().lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if pattern.is_match(code) {
                problems.push(format!("{}:{}: {}", source.path, index + 1, code.trim()));
            }
        }
    }
    none(
        "a model is written over the operations of `device::ops` and `device::tower_ops`, and a device computes any model:",
        &problems,
    );
}

#[test]
fn only_the_run_log_reads_steps_from_events() {
    // A pattern that binds the step; building an event is no pattern.
    let pattern = Regex::new(r"EventKind::Step\([a-z]\w*\)\s*(=>|=[^=])").unwrap();
    let mut problems = Vec::new();
    for source in sources() {
        if source.module() == "record" || source.is_test() {
            continue;
        }
        let text = source.without_tests();
        let lines: Vec<usize> =
            pattern.find_iter(text).map(|found| text[..found.start()].lines().count()).collect();
        match (lines.first(), FOLDS.contains(&source.path.as_str())) {
            (Some(line), false) => {
                problems.push(format!("{}:{line}: read the tokens from record::RunLog", source.path));
            }
            (None, true) => problems.push(format!("{}: take it out of FOLDS", source.path)),
            _ => {}
        }
    }
    none("only record::RunLog folds events into tokens:", &problems);
}

#[test]
fn the_reader_of_uses_finds_groups_and_paths() {
    let text = "use crate::{\n    engine::{self, Command},\n    model::x as y,\n    tui,\n};\n// crate::video\n\
                fn f() { crate::record::g(); crate::scenes::h() }\nuse crate::speculate::{Method, rules};\n";
    let found = uses(text);
    assert_eq!(
        found,
        [(2, "engine"), (3, "model"), (4, "tui"), (7, "record"), (7, "scenes"), (8, "speculate")]
    );
}
