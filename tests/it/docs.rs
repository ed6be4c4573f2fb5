//! The pages of the documentation agree with the program: links resolve, and the commands, options, methods, keys, verdicts,
//! themes and events that they name exist.

mod pages;
mod recipes;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use clap::{CommandFactory, Parser, error::ErrorKind};
use regex::Regex;
use specreel::cli::Cli;
use specreel_record::{Event, Verdict};
use specreel_speculate::{
    Method,
    method::{AXES, Key},
};

use crate::architecture::{self, none};

/// Options of other programs.
const FOREIGN_OPTIONS: [&str; 6] =
    ["--features", "--local-dir", "--no-default-features", "--requeue", "--search", "--workspace"];

/// A page: its path from the root of the repository, and its text.
struct Page {
    path: PathBuf,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn page(path: &str) -> Page {
    Page { path: path.into(), text: read(path) }
}

fn all_pages() -> Vec<Page> {
    let files = ["docs", "docs/results", "docs/lab", "docs/lab/papers"].into_iter().flat_map(|folder| {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        entries.map(move |entry| format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap()))
    });
    let docs = files.filter(|name| name.ends_with(".md"));
    let others = [
        "README.md",
        "AGENTS.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "lab/training/README.md",
        "assets/demo/README.md",
        "assets/text/skill.md",
    ];
    let pages: Vec<Page> =
        others.map(str::to_owned).into_iter().chain(docs).map(|path| page(&path)).collect();
    assert!(pages.len() > 10, "only {} pages", pages.len());
    pages
}

/// The lines of a page, each with whether it is in a code block; the fences are left out.
fn lines(text: &str) -> Vec<(bool, &str)> {
    let mut code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            code = !code;
        } else {
            lines.push((code, line));
        }
    }
    assert!(!code, "a code block does not end");
    lines
}

/// The code spans of a line, without their marks. A backslash before `|` belongs to the table around it.
fn spans(line: &str) -> Vec<String> {
    assert!(line.matches('`').count().is_multiple_of(2), "a code span does not end on its line: {line}");
    line.split('`').skip(1).step_by(2).map(|span| span.replace("\\|", "|")).collect()
}

/// What stands outside of the code spans of a line.
fn prose(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

fn links(line: &str) -> Vec<&str> {
    let ends = line.match_indices("](").map(|(at, _)| &line[at + 2..]);
    ends.filter_map(|rest| rest.split(')').next()).collect()
}

/// The anchors of a page's headings, as GitHub writes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = lines(text).into_iter().filter(|(code, line)| !code && line.starts_with('#'));
    let slug = |(_, line): (bool, &str)| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(slug).collect()
}

/// The rows of the tables below a heading, up to the next one, as cells.
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let below = lines(text).into_iter().map(|(_, line)| line).skip_while(|line| *line != heading).skip(1);
    let rows = below.take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with('|'));
    let cells = |row: &str| {
        let row = row.replace("\\|", "\u{1}");
        row.trim_matches('|').split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
    };
    let rows: Vec<Vec<String>> = rows.map(cells).collect();
    assert!(!rows.is_empty(), "no table below {heading:?}");
    rows
}

#[test]
fn links_and_anchors_resolve() {
    let mut problems = Vec::new();
    for Page { path, text } in all_pages() {
        for (code, line) in lines(&text) {
            let line = if code { String::new() } else { prose(line) };
            for link in links(&line).into_iter().filter(|link| !link.starts_with("https://")) {
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let file = match file {
                    "" => path.clone(),
                    file => path.parent().unwrap().join(file),
                };
                match fs::read(root().join(&file)) {
                    Err(_) => problems.push(format!("{}: {link}: no such file", path.display())),
                    Ok(bytes) if !anchor.is_empty() => {
                        if !anchors(&String::from_utf8(bytes).unwrap()).contains(anchor) {
                            problems.push(format!("{}: {link}: heading not found", path.display()));
                        }
                    }
                    Ok(_) => {}
                }
            }
        }
    }
    none("broken links:", &problems);
}

#[test]
fn the_site_has_every_page_and_links_stay_inside_it() {
    let summary = read("docs/SUMMARY.md");
    let listed: BTreeSet<&str> = summary.lines().flat_map(links).collect();
    let mut problems = Vec::new();
    for Page { path, text } in all_pages() {
        let Ok(page) = path.strip_prefix("docs") else { continue };
        if page != Path::new("SUMMARY.md") && !listed.contains(page.to_str().unwrap()) {
            problems.push(format!("{} is not in docs/SUMMARY.md", path.display()));
        }
        let above = if page.components().count() > 1 { "../../" } else { "../" };
        for (code, line) in lines(&text) {
            let line = if code { String::new() } else { prose(line) };
            let outside = links(&line).into_iter().filter(|link| link.starts_with(above));
            problems.extend(outside.map(|link| format!("{}: {link} is not in docs", path.display())));
        }
    }
    none("the site would lack:", &problems);
}

/// The sources of the workspace, as one text a crate: `record` -> all of `crates/record/src`, `specreel` -> all of `src`.
fn sources() -> BTreeMap<String, String> {
    let mut all = BTreeMap::<String, String>::new();
    for source in architecture::sources() {
        all.entry(source.name().to_owned()).or_default().push_str(&source.text);
    }
    all
}

fn defines(source: &str, item: &str) -> bool {
    let item = item.trim_end_matches("()");
    let kinds = "fn|struct|enum|trait|type|mod|const|static|macro_rules!|union";
    Regex::new(&format!(r"\b(?:{kinds})\s+{}\b", regex::escape(item))).unwrap().is_match(source)
}

/// What is wrong with a path (`crates/record/src/log.rs`), a module or an item (`record::RunLog`), or a type (`RunLog`) that a page
/// names in code; `None` for any other code.
fn unknown(span: &str, sources: &BTreeMap<String, String>) -> Option<String> {
    let is_word = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    let refuse = |what: &str| Some(format!("`{span}`: {what}"));
    if span.contains("::") {
        let mut parts = span.trim_end_matches("()").split("::");
        let name = parts.next().unwrap();
        let Some(source) = sources.get(name.trim_start_matches("specreel_")) else {
            // A path that starts at an item: `Command::Run`.
            let known = sources.values().any(|source| defines(source, name));
            return if known { None } else { refuse("unknown crate") };
        };
        let missing = parts.find(|part| is_word(part) && !defines(source, part));
        return missing.and_then(|part| refuse(&format!("no `{part}` in that crate")));
    }
    let is_path =
        span.contains('/') && !span.contains(['*', '<', '|', '$', ' ', '~', ':']) && !span.starts_with('/');
    if is_path {
        let exists = root().join(span).exists() || span.contains("NAME");
        return if exists { None } else { refuse("no such file") };
    }
    let is_type =
        span.starts_with(char::is_uppercase) && is_word(span) && span.chars().any(char::is_lowercase);
    let known = || sources.values().any(|source| defines(source, span));
    if is_type && !known() { refuse("unknown type") } else { None }
}

#[test]
fn paths_modules_and_types_exist() {
    let (sources, mut problems, mut count) = (sources(), Vec::new(), 0);
    for path in ["docs/architecture.md", "CONTRIBUTING.md"] {
        let text = read(path);
        for span in lines(&text).into_iter().filter(|(code, _)| !code).flat_map(|(_, line)| spans(line)) {
            count += 1;
            problems.extend(unknown(&span, &sources).map(|problem| format!("{path}: {problem}")));
        }
    }
    assert!(count > 100, "only {count} names were found");
    none("names that do not exist:", &problems);
}

/// The arguments of a command of specreel or its laboratory, up to a pipe, a redirection, a comment or the end.
fn arguments(command: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut words = command.split_whitespace();
    while let Some(word) = words.next() {
        if ["|", ">", "&&", "#"].contains(&word) {
            break;
        }
        arguments.push(match word.strip_prefix('"') {
            Some(first) if !first.ends_with('"') => {
                let rest: Vec<&str> = words.by_ref().take_while(|word| !word.ends_with('"')).collect();
                format!("{first} {}", rest.join(" "))
            }
            _ => word.trim_matches('"').to_owned(),
        });
    }
    arguments
}

/// What is wrong with a command that a page names. `whole` commands can be typed as they are; others leave arguments out.
fn refused(command: &str, whole: bool) -> Option<String> {
    let arguments = arguments(command);
    // `FILE`, `N`, `A,B,…` stand for values.
    let has_placeholder = arguments.iter().any(|word| {
        word.ends_with('…') || word.split('=').next_back().is_some_and(|word| word == word.to_uppercase())
    });
    let error = match arguments.first()?.as_str() {
        "specreel-lab" => specreel_lab::Cli::try_parse_from(arguments).err()?,
        _ => Cli::try_parse_from(arguments).err()?,
    };
    match error.kind() {
        ErrorKind::DisplayHelp => None,
        ErrorKind::InvalidValue | ErrorKind::ValueValidation if has_placeholder => None,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            if !whole =>
        {
            None
        }
        _ => Some(format!("{command}: {}", error.to_string().lines().next().unwrap())),
    }
}

#[test]
fn commands_can_be_typed() {
    let (mut problems, mut count) = (Vec::new(), 0);
    for Page { path, text } in all_pages() {
        let joined = text.replace("\\\n", " ");
        for (code, line) in lines(&joined) {
            let spans = if code { vec![line.to_owned()] } else { spans(line) };
            for command in
                spans.iter().filter(|span| span.starts_with("specreel ") || span.starts_with("specreel-lab "))
            {
                count += 1;
                problems
                    .extend(refused(command, code).map(|problem| format!("{}: {problem}", path.display())));
            }
        }
    }
    assert!(count > 60, "only {count} commands were found");
    none("commands that the program refuses:", &problems);
}

fn options() -> BTreeSet<String> {
    fn collect(command: &clap::Command, all: &mut BTreeSet<String>) {
        for argument in command.get_arguments() {
            all.extend(argument.get_long().map(|long| format!("--{long}")));
        }
        command.get_subcommands().for_each(|command| collect(command, all));
    }
    let mut all = BTreeSet::new();
    collect(&Cli::command(), &mut all);
    collect(&specreel_lab::Cli::command(), &mut all);
    all
}

#[test]
fn options_exist() {
    let (options, mut problems, mut found) = (options(), Vec::new(), BTreeSet::new());
    for Page { path, text } in all_pages() {
        let inline = lines(&text).into_iter().filter(|(code, _)| !code).flat_map(|(_, line)| spans(line));
        for span in inline.filter(|span| span.starts_with("--")) {
            let name = span.split([' ', '=']).next().unwrap();
            if !FOREIGN_OPTIONS.contains(&name) && !options.contains(name) {
                problems.push(format!("{}: {span}", path.display()));
            }
            found.insert(name.to_owned());
        }
    }
    // Except on the one page that makes the embedded models.
    problems.retain(|problem| !problem.starts_with("lab/training/"));
    none("options that do not exist:", &problems);
}

#[test]
fn methods_are_those_that_are_built_in() {
    let presets: BTreeSet<&str> = Method::presets().iter().map(|method| method.name.as_str()).collect();
    let named = |path: &str, heading: &str| {
        let mut names = BTreeSet::new();
        for row in table(&read(path), heading) {
            for name in spans(&row[0]) {
                let lossless = Method::preset(&name).unwrap_or_else(|e| panic!("{path}: {e}")).lossless();
                let kind = if lossless { "lossless" } else { "lossy" };
                assert_eq!(row[1].replace('*', ""), kind, "{path}: {name}");
                names.insert(name);
            }
        }
        names
    };
    assert!(!named("README.md", "## Choose a method").is_empty());
    assert_eq!(
        named("docs/methods.md", "## Presets").iter().map(String::as_str).collect::<BTreeSet<_>>(),
        presets
    );
}

fn range(key: &Key) -> Option<String> {
    let range = key.range?.to_string();
    Some(if range == "0 to 1" { "share".into() } else { range })
}

#[test]
fn parameters_are_those_of_the_table() {
    let page = read("docs/methods.md");
    for axis in &AXES {
        let heading = format!("### {}{}", axis.name[..1].to_uppercase(), &axis.name[1..]);
        let (mut kinds, mut rows) = (BTreeSet::new(), Vec::new());
        let mut kind = String::new();
        for row in table(&page, &heading).into_iter().skip(2) {
            if let ([name], true) = (spans(&row[0]).as_slice(), row[0].starts_with('`')) {
                kinds.insert(name.clone());
                kind.clone_from(name);
            } else if !row[0].is_empty() {
                kind = "all others".into();
            }
            rows.push((kind.clone(), row));
        }
        assert_eq!(kinds, axis.kinds.iter().map(|kind| kind.name.to_owned()).collect(), "{heading}");
        for (kind, key) in
            axis.kinds.iter().flat_map(|kind| kind.keys.iter().map(move |key| (kind.name, key)))
        {
            let has = |(of, row): &&(String, Vec<String>)| {
                (of == kind || of == "all others") && spans(&row[1]).iter().any(|name| name == key.name)
            };
            let (_, row) = rows.iter().find(has).unwrap_or_else(|| panic!("{heading}: {kind} {}", key.name));
            if let Some(range) = range(key) {
                assert!(row[2].contains(&range), "{heading}: {kind} {}: {range}, not {}", key.name, row[2]);
            }
            // The schedule has no defaults.
            if !key.required {
                assert!(row[3].contains(key.example), "{heading}: {kind} {}: {}", key.name, key.example);
            }
        }
    }
}

/// The name of a key in the key map: `ctrl-c` for `Ctrl-C`.
fn key(name: &str) -> String {
    match name {
        "←" => "left".into(),
        "→" => "right".into(),
        "↑" => "up".into(),
        "↓" => "down".into(),
        "-" => "minus".into(),
        one if one.chars().count() == 1 => one.into(),
        long => long.to_lowercase(),
    }
}

#[test]
fn keys_are_bound() {
    let map: toml::Table = toml::from_str(&read("src/look/keymap.toml")).unwrap();
    let sections = map.values().filter_map(toml::Value::as_table);
    let lists = sections.flat_map(|section| section.values()).filter_map(toml::Value::as_array);
    let bound: BTreeSet<&str> = lists.flatten().filter_map(toml::Value::as_str).collect();
    let mut problems = Vec::new();
    let mut check = |cell: &str| {
        for name in spans(cell) {
            let alone = bound.contains(key(&name).as_str());
            // `hjkl` is four keys.
            let several = name.chars().all(|c| c.is_lowercase() && bound.contains(c.to_string().as_str()));
            if !alone && !several {
                problems.push(format!("`{name}`"));
            }
        }
    };
    let studio = read("docs/studio.md");
    let mut in_keys = false;
    for (_, line) in lines(&studio) {
        in_keys = (in_keys || line.starts_with("| key |")) && line.starts_with('|');
        if in_keys {
            check(line.replace("\\|", "").split('|').nth(1).unwrap());
        }
    }
    none("keys that do nothing:", &problems);
}

#[test]
fn verdicts_are_all_explained() {
    let rows = table(&read("docs/methods.md"), "## Verdicts");
    for verdict in Verdict::ALL {
        let row = rows.iter().find(|row| row[0] == verdict.name());
        let row = row.unwrap_or_else(|| panic!("{verdict} has no row"));
        assert_eq!(row[1], if verdict.is_strict() { "yes" } else { "no" }, "{verdict}");
    }
    assert_eq!(rows.len(), Verdict::ALL.len() + 2, "more rows than verdicts");
}

#[test]
fn dependencies_have_a_purpose() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let all = manifest["workspace"]["dependencies"].as_table().unwrap().keys();
    let all: BTreeSet<&str> = all.map(String::as_str).filter(|name| !name.starts_with("specreel")).collect();
    let rows = table(&read("CONTRIBUTING.md"), "## Dependencies");
    let listed: BTreeSet<&str> = rows.iter().skip(2).flat_map(|row| row[0].split(", ")).collect();
    assert_eq!(listed, all);
}

#[test]
fn themes_are_all_named() {
    let studio = read("docs/studio.md");
    for entry in fs::read_dir(root().join("themes")).unwrap() {
        let name = entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(studio.contains(&format!("`{name}`")), "docs/studio.md does not name the theme {name}");
    }
}

#[test]
fn examples_of_events_can_be_read() {
    let text = read("docs/events.md");
    let mut kinds = BTreeSet::new();
    for (_, line) in lines(&text).into_iter().filter(|(code, line)| *code && line.starts_with('{')) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let kind = value["event"].as_str().unwrap().to_owned();
        // These are no events of a run.
        if !["batch", "clip", "comparison", "moments", "progress", "stream", "transcript"]
            .contains(&kind.as_str())
        {
            let event: Event = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            let again = serde_json::to_value(&event).unwrap();
            let lost = value.as_object().unwrap().keys().find(|field| again.get(field.as_str()).is_none());
            assert_eq!(lost, None, "a field that the program does not know: {line}");
        }
        kinds.insert(kind);
    }
    let expected = "batch clip comparison done draft edited estimate failed moments progress prompt ready retry speed stage started step stream transcript verified";
    assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>().join(" "), expected);
}
