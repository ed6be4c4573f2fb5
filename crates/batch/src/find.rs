//! Files, directories, lists and patterns become clips.

use std::{path::Component, sync::Arc};

use ignore::{WalkBuilder, overrides::OverrideBuilder};

use super::*;
use specreel_os::names;
use specreel_video::folder::{self, is_video};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clip {
    /// The directory that was named; for a single file the working directory, or the file's own.
    pub root: Arc<Path>,
    /// The file below it: what identifies the clip on every machine.
    pub relative: PathBuf,
    /// The file to read, if it is another one (embedded clips).
    pub file: Option<PathBuf>,
}

impl Clip {
    pub fn path(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| self.root.join(&self.relative))
    }

    /// A clip of a file that was named by itself.
    pub fn of_file(path: &Path) -> Self {
        let below = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let relative: PathBuf =
            path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        match (below, path.parent(), path.file_name()) {
            (false, Some(parent), Some(name)) => {
                Self { root: parent.into(), relative: name.into(), file: None }
            }
            _ => Self { root: Path::new("").into(), relative, file: None },
        }
    }

    /// Identifies the clip below its root.
    pub fn id(&self) -> u64 {
        super::hash(&names::portable_bytes(&self.relative))
    }
}

#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The clips, each once, in the order of the arguments; within a directory by their paths.
    pub clips: Vec<Clip>,
    pub unreadable: Vec<(PathBuf, Failure)>,
}

/// Turns a name into a clip that is not a file: an embedded clip. `None` for any other name.
pub type Named<'a> = &'a dyn Fn(&Path) -> Result<Option<PathBuf>, Failure>;

/// Find the clips of these arguments: files, directories, `@list` (one path a line, `@-` for stdin) and patterns (`*`, `?`,
/// `[a-z]`, `{a,b}`, `**`) that the shell has left alone. A named file need not exist: it fails when it is its turn. Fails if a
/// list cannot be read, a pattern is wrong, or there is no clip at all.
pub fn find(arguments: &[PathBuf], named: Named<'_>) -> Result<Found, Failure> {
    let mut finder = Finder { found: Found::default(), seen: HashSet::new() };
    for argument in arguments {
        finder.argument(argument, named)?;
    }
    let found = finder.found;
    if found.clips.is_empty() && found.unreadable.is_empty() {
        let names: Vec<String> = arguments.iter().take(3).map(|path| path.display().to_string()).collect();
        return Err(Failure::input(
            format!("no videos in {}", names.join(", ")),
            format!(
                "videos end in {}; hidden files, and those that .gitignore or .ignore exclude, are left out",
                folder::EXTENSIONS.map(|extension| format!(".{extension}")).join(", ")
            ),
        ));
    }
    Ok(found)
}

/// True if the shell would have expanded it.
pub fn is_pattern(path: &Path) -> bool {
    names::bytes(path).iter().any(|byte| b"*?[{".contains(byte)) && !path.exists()
}

/// The path of a list, if the argument is one.
pub fn list(argument: &Path) -> Option<PathBuf> {
    let rest = names::bytes(argument).strip_prefix(b"@").filter(|rest| !rest.is_empty())?;
    (!argument.exists()).then(|| names::path(rest))
}

struct Finder {
    found: Found,
    /// Absolute paths.
    seen: HashSet<u64>,
}

impl Finder {
    fn argument(&mut self, argument: &Path, named: Named<'_>) -> Result<(), Failure> {
        if let Some(list) = list(argument) {
            for line in lines(&list)? {
                self.path(&line, named)?;
            }
            return Ok(());
        }
        if is_pattern(argument) {
            return self.pattern(argument);
        }
        self.path(argument, named)
    }

    fn path(&mut self, path: &Path, named: Named<'_>) -> Result<(), Failure> {
        if path.is_dir() {
            for path_below in self.walk(&folder::walk(path, true)) {
                let relative = path_below.strip_prefix(path).unwrap_or(&path_below).to_owned();
                self.add(Clip { root: path.into(), relative, file: None });
            }
            return Ok(());
        }
        if !path.exists()
            && let Some(file) = named(path)?
        {
            let relative = PathBuf::from(path.to_string_lossy().replace(':', "-"));
            self.add(Clip { root: Path::new("").into(), relative, file: Some(file) });
            return Ok(());
        }
        self.add(Clip::of_file(path));
        Ok(())
    }

    /// The files that match a pattern, which is expanded below its longest part without wildcards.
    fn pattern(&mut self, pattern: &Path) -> Result<(), Failure> {
        let wild = |part: &Component<'_>| names::bytes(part).iter().any(|b| b"*?[{".contains(b));
        let parts: Vec<Component<'_>> = pattern.components().collect();
        let first = parts.iter().position(wild).unwrap_or(parts.len());
        let base: PathBuf = parts[..first].iter().collect();
        let rest: PathBuf = parts[first..].iter().collect();
        let wrong = |error: String| {
            Failure::usage(
                format!("pattern {}: {error}", pattern.display()),
                "for example: \"clips/**/*.mp4\"",
            )
        };
        let base = if first == 0 { PathBuf::from(".") } else { base };
        rest.to_str().ok_or_else(|| wrong("it is not UTF-8".into()))?;
        let glob = names::portable(&rest);
        let mut overrides = OverrideBuilder::new(&base);
        overrides.add(&format!("/{glob}")).map_err(|error| wrong(error.to_string()))?;
        let overrides = overrides.build().map_err(|error| wrong(error.to_string()))?;
        let unreadable = self.found.unreadable.len();
        let matches = self.walk(folder::walk(&base, true).overrides(overrides));
        if matches.is_empty() && self.found.unreadable.len() == unreadable {
            return Err(Failure::input(
                format!("no video matches {}", pattern.display()),
                "`*` does not cross a slash, `**` does",
            ));
        }
        // As if the shell had expanded it.
        matches.iter().for_each(|path| self.add(Clip::of_file(path)));
        Ok(())
    }

    fn walk(&mut self, walk: &WalkBuilder) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for entry in walk.build() {
            match entry {
                Ok(entry) => {
                    let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
                    if is_file && is_video(entry.path()) {
                        paths.push(entry.into_path());
                    }
                }
                // Cyclic and dangling links are not clips.
                Err(error) => self.found.unreadable.extend(unreadable(&error)),
            }
        }
        paths.sort();
        paths
    }

    fn add(&mut self, clip: Clip) {
        let path = clip.path();
        let path = std::path::absolute(&path).unwrap_or(path);
        if self.seen.insert(super::hash(names::bytes(&path))) {
            self.found.clips.push(clip);
        }
    }
}

/// A directory that cannot be read; `None` for other errors of a walk.
fn unreadable(error: &ignore::Error) -> Option<(PathBuf, Failure)> {
    let io = error.io_error().filter(|e| e.kind() == std::io::ErrorKind::PermissionDenied)?;
    let path = path_of(error).unwrap_or_default();
    let failure = Failure::input(
        format!("cannot read the directory {}: {io}", path.display()),
        "make it readable, or leave it out with an .ignore file",
    );
    Some((path, failure))
}

fn path_of(error: &ignore::Error) -> Option<PathBuf> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path.clone()),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        _ => None,
    }
}

/// The paths of a list: one per line, or separated by NUL bytes. Empty lines and comments (`#`) do not count.
/// Errors: it cannot be read, or names nothing.
fn lines(list: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed =
        |error: String, hint: &str| Failure::input(format!("list {}: {error}", list.display()), hint);
    let mut bytes = Vec::new();
    let read = match list == Path::new("-") {
        true => std::io::stdin().lock().read_to_end(&mut bytes).map(drop),
        false => std::fs::read(list).map(|read| bytes = read),
    };
    read.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            failed("no such file".into(), "check the path; @FILE is a list of paths")
        }
        _ => failed(error.to_string(), "it holds one path a line"),
    })?;
    let separator = if bytes.contains(&0) { 0 } else { b'\n' };
    let lines = bytes.split(|byte| *byte == separator).map(|line| match separator {
        0 => line,
        _ => line.strip_suffix(b"\r").unwrap_or(line),
    });
    let named = lines.filter(|line| !line.is_empty() && (separator == 0 || line[0] != b'#'));
    let paths: Vec<PathBuf> = named.map(names::path).collect();
    if paths.is_empty() {
        return Err(failed("it names no video".into(), "it holds one path a line"));
    }
    Ok(paths)
}

#[cfg(test)]
mod tests;
