//! Rules that the compiler does not keep, read from the source: no circles within a crate, devices below models, and the one
//! fold of events.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

/// Files outside of `record` that touch the tokens of a step event without folding them: the studio cleans foreign text in every
/// event before the log takes it in.
const FOLDS: [&str; 1] = ["src/tui/text.rs"];

/// A source file: its path from the root of the repository, with slashes, and its text.
pub(crate) struct Source {
    path: String,
    pub(crate) text: String,
}

impl Source {
    /// The crate: `record` for `crates/record/src/log.rs`, `bench` for `lab/bench/src/lib.rs`, `specreel` for `src/main.rs`.
    pub(crate) fn name(&self) -> &str {
        match self.path.split('/').collect::<Vec<_>>()[..] {
            ["crates" | "lab", name, "src", ..] => name,
            ["lab", ..] => "lab",
            _ => "specreel",
        }
    }

    /// The modules from the crate's root to this file: `["cli", "args"]` for `src/cli/args.rs`.
    fn modules(&self) -> Vec<&str> {
        let (_, path) = self.path.split_once("src/").unwrap();
        let mut modules: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
        modules.pop_if(|last| ["mod", "lib", "main"].contains(last));
        modules
    }

    fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.ends_with("testing.rs") || self.path.ends_with("fake.rs")
    }

    /// The text before a tests module within the file.
    fn without_tests(&self) -> &str {
        self.text.split("\n#[cfg(test)]\nmod ").next().unwrap()
    }
}

/// All files of the workspace's packages, sorted.
pub(crate) fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let packages = ["crates", "lab"].iter().flat_map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let packages = packages.map(|entry| entry.unwrap().path().join("src")).filter(|path| path.is_dir());
    let mut folders: Vec<PathBuf> = packages.chain([root.join("src"), root.join("lab/src")]).collect();
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
    assert!(sources.len() > 100, "only {} files", sources.len());
    sources
}

/// The paths from the crate's root that a text names after `crate::` or `super::`, groups resolved; `modules` lead from the root
/// to the text. Comments do not count.
fn uses(text: &str, modules: &[&str]) -> Vec<String> {
    let code: String = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(at) = ["crate::", "super::"].iter().filter_map(|start| code[from..].find(start)).min() {
        let at = from + at;
        let before = &code[..at];
        let is_start = !before.ends_with(['$', '_', ':']) && !before.ends_with(char::is_alphanumeric);
        from = match is_start {
            // What is in a group is read with the group.
            true => code.len() - resolve(&code[at..], "", &mut found).len(),
            false => at + "crate::".len(),
        };
    }
    let absolute = |path: String| {
        let (mut rest, mut above) = (&path[..], modules);
        while let Some(after) = rest.strip_prefix("super::") {
            (rest, above) = (after, &above[..above.len().saturating_sub(1)]);
        }
        match rest.strip_prefix("crate::") {
            Some(rest) => rest.to_owned(),
            None => above.iter().copied().chain([rest]).collect::<Vec<_>>().join("::"),
        }
    };
    found.into_iter().map(absolute).collect()
}

/// Add the paths of a use tree to `found`; returns the text after it.
fn resolve<'a>(text: &'a str, prefix: &str, found: &mut Vec<String>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start().trim_start_matches(',').trim_start();
            match rest.strip_prefix('}') {
                Some(after) => return after,
                None if rest.is_empty() => return rest,
                None => {
                    let after = resolve(rest, prefix, found);
                    // ` as name`.
                    let end = after.find([',', '}']).unwrap_or(after.len());
                    rest = &after[end..];
                }
            }
        }
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let path = format!("{prefix}{}", &text[..end]);
    match text[end..].strip_prefix("::") {
        Some(rest) if end > 0 => resolve(rest, &format!("{path}::"), found),
        _ => {
            found.push(path);
            &text[end..]
        }
    }
}

/// Fail with all problems, one per line.
pub(crate) fn none(rule: &str, problems: &[String]) {
    assert!(problems.is_empty(), "{rule}\n  {}", problems.join("\n  "));
}

/// A circle through `from`, if there is one: its nodes, the first one at both ends.
fn circle(edges: &BTreeMap<String, BTreeMap<String, String>>, from: &str) -> Option<Vec<String>> {
    let mut stack = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(path) = stack.pop() {
        for next in edges.get(path.last()?).into_iter().flat_map(BTreeMap::keys) {
            let mut longer = path.clone();
            longer.push(next.clone());
            if next == from {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                stack.push(longer);
            }
        }
    }
    None
}

/// Modules whose uses do not count, with the reason.
const TABLES: [(&str, &str, &str); 1] = [(
    "tensor",
    "quant",
    "its files say what each device does with a type, and the devices read them from its table",
)];

/// Folders that keep the rule within them too.
const LARGE: [(&str, &str); 1] = [("specreel", "tui")];

#[test]
fn folders_of_a_crate_do_not_use_each_other_in_a_circle() {
    let sources = sources();
    let crates: BTreeSet<&str> = sources.iter().map(Source::name).collect();
    let roots = crates.into_iter().map(|name| (name, "")).chain(LARGE);
    let mut problems = Vec::new();
    for (name, root) in roots {
        let of_root: Vec<&Source> = sources.iter().filter(|source| source.name() == name).collect();
        let edges = uses_below(root, &of_root);
        if let Some(path) = edges.keys().find_map(|folder| circle(&edges, folder)) {
            let steps = path
                .windows(2)
                .map(|pair| format!("{} -> {} ({})", pair[0], pair[1], edges[&pair[0]][&pair[1]]));
            problems.push(format!("{name}: {}", steps.collect::<Vec<_>>().join(", ")));
        }
    }
    none("the modules at a crate's root use each other in a circle:", &problems);
}

/// Each module right below a root, with the others that it uses, and a file where it does. The root is a crate's, or a module.
fn uses_below(root: &str, sources: &[&Source]) -> BTreeMap<String, BTreeMap<String, String>> {
    let below = |modules: Vec<&str>| match root {
        "" => modules.first().map(|own| (*own).to_owned()),
        root => modules.strip_prefix(&[root])?.first().map(|own| (*own).to_owned()),
    };
    let all: BTreeSet<String> = sources.iter().filter_map(|source| below(source.modules())).collect();
    let mut edges: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        let modules = source.modules();
        // Files at the root may gather what is below.
        let Some(own) = below(modules.clone()) else { continue };
        if TABLES.iter().any(|(name, module, _)| *name == source.name() && *module == own) {
            continue;
        }
        for used in uses(source.without_tests(), &modules) {
            let Some(folder) = below(used.split("::").collect()) else { continue };
            if all.contains(&folder) && folder != own {
                edges.entry(own.clone()).or_default().entry(folder).or_insert(source.path.clone());
            }
        }
    }
    edges
}

/// What may name a device in `model`: the places that choose one.
const CHOOSERS: [&str; 2] = ["crates/model/src/decoder/load.rs", "crates/model/src/vision/tower.rs"];

#[test]
fn models_know_no_device() {
    let device =
        Regex::new(r"specreel_tensor::(\{[^;]*\b)?(cpu|candle|gpu)::|\b(Cpu|Gpu|Tensor)Ops\b").unwrap();
    let mut problems = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test() && source.name() == "model") {
        if !CHOOSERS.contains(&source.path.as_str()) && device.is_match(source.without_tests()) {
            problems.push(source.path.clone());
        }
    }
    none("a model is written over the operations of tensor::ops:", &problems);
}

#[test]
fn one_crate_knows_operating_systems() {
    let system = r"cfg(_attr)?!?\(.*\b(unix|windows)\b|target_os|\bos::(unix|windows|fd)\b|\b(libc|rustix|windows_sys)::";
    let system = Regex::new(system).unwrap();
    let is_product = |source: &&Source| !source.is_test() && !source.path.starts_with("lab/");
    let problems = sources().into_iter().filter(|source| is_product(&source) && source.name() != "os");
    let problems =
        problems.filter(|source| system.is_match(source.without_tests())).map(|source| source.path);
    none("what systems do differently is in the crate `os`:", &problems.collect::<Vec<_>>());
}

#[test]
fn only_the_run_log_reads_steps_from_events() {
    // A pattern that binds the step; building an event is no pattern.
    let pattern = Regex::new(r"EventKind::Step\([a-z]\w*\)\s*(=>|=[^=])").unwrap();
    let mut problems = Vec::new();
    for source in sources() {
        if source.name() == "record" || source.is_test() {
            continue;
        }
        let text = source.without_tests();
        let is_code = |at: usize| !text[..at].rsplit('\n').next().unwrap_or_default().starts_with("//");
        let lines: Vec<usize> = pattern
            .find_iter(text)
            .filter(|found| is_code(found.start()))
            .map(|found| text[..found.start()].lines().count())
            .collect();
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
fn no_crate_of_the_product_knows_the_laboratory() {
    let names = ["bench", "lab", "modelled", "pruners", "scenes", "train"];
    let mut problems = Vec::new();
    for source in sources().iter().filter(|source| !source.path.starts_with("lab/")) {
        let code = |line: &&str| !line.trim_start().starts_with("//");
        let uses = |name: &&&str| {
            let path = format!("specreel_{name}::");
            source.text.lines().filter(code).any(|line| line.contains(&path))
        };
        let known = names.iter().find(uses);
        if let Some(name) = known.filter(|_| !source.is_test()) {
            problems.push(format!("{}: specreel_{name}", source.path));
        }
    }
    none("the product knows the laboratory:", &problems);
}
