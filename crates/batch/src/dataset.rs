//! Data sets as files: merging several machines' files, and looking at one.

use std::collections::BTreeMap;

use super::{rows::Kind, sidecar::replace, text::one_line, *};
use specreel_os::names;

const PATH_KEYS: [&str; 4] = ["video", "video_path", "media_path", "file_name"];

#[derive(Debug)]
pub struct Dataset {
    pub path: PathBuf,
    /// True for comma-separated values.
    pub csv: bool,
    /// The header of comma-separated values.
    pub head: String,
    pub contents: rows::Contents,
    /// The last row is incomplete.
    pub cut: bool,
}

impl Dataset {
    /// Read a file; `.csv` is comma-separated, anything else JSON lines. Fails if it cannot be read, or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let failed =
            |error: String, hint: &str| Failure::input(format!("data set {}: {error}", path.display()), hint);
        let text = std::fs::read_to_string(path)
            .map_err(|error| failed(error.to_string(), "it is a UTF-8 file of JSON lines or .csv"))?;
        let csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        let head = if csv {
            let first = csv::records(&text).0.into_iter().next().unwrap_or_default();
            csv::record(first.iter().map(String::as_str))
        } else {
            String::new()
        };
        let contents = rows::read(&text, csv, true);
        if contents.rows.is_empty() && !contents.damaged.is_empty() {
            return Err(failed(
                "no row has a video and a caption".into(),
                "specreel caption --dataset writes data sets",
            ));
        }
        let cut = contents.whole < text.len();
        Ok(Self { path: path.to_owned(), csv, head, contents, cut })
    }

    /// The directory that relative paths start from.
    pub fn folder(&self) -> PathBuf {
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        path.parent().unwrap_or(Path::new("/")).to_owned()
    }

    pub fn check(&self) -> Problems {
        let folder = self.folder();
        let (mut seen, mut paths, mut cached) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut problems =
            Problems { damaged: self.contents.damaged.clone(), cut: self.cut, ..Problems::default() };
        for row in &self.contents.rows {
            if !seen.insert((row.path.as_str(), row.prompt.as_str())) {
                problems.twice.push(row.path.clone());
            }
            if row.caption.trim().is_empty() {
                problems.empty.push(row.path.clone());
            }
            if !paths.insert(&row.path) {
                continue;
            }
            let kind = path_key(&row.text).and_then(|key| Kind::of_key(&key));
            if let Some(name) = kind.and_then(|kind| kind.cache_name(Path::new(&row.path)))
                && !cached.insert(name)
            {
                problems.confused.push(row.path.clone());
            }
            if !folder.join(&row.path).is_file() {
                problems.missing.push(row.path.clone());
            }
        }
        problems
    }

    pub fn stats(&self) -> Stats {
        let rows = &self.contents.rows;
        let videos: HashSet<&str> = rows.iter().map(|row| row.path.as_str()).collect();
        let prompts: HashSet<&str> = rows.iter().map(|row| row.prompt.as_str()).collect();
        let mut words: Vec<usize> = rows.iter().map(|row| row.caption.split_whitespace().count()).collect();
        words.sort_unstable();
        let at = |share: f64| words.get(((words.len().max(1) - 1) as f64 * share).round() as usize).copied();
        let mut openings: BTreeMap<String, usize> = BTreeMap::new();
        for row in rows {
            let first: Vec<&str> = row.caption.split_whitespace().take(3).collect();
            *openings.entry(first.join(" ")).or_default() += 1;
        }
        let mut openings: Vec<(String, usize)> = openings.into_iter().filter(|(_, n)| *n > 1).collect();
        openings.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        openings.truncate(5);
        let captions: HashSet<String> = rows.iter().map(|row| one_line(&row.caption)).collect();
        Stats {
            rows: rows.len(),
            videos: videos.len(),
            prompts: prompts.len(),
            words: [at(0.0), at(0.5), at(1.0)].map(Option::unwrap_or_default),
            repeated: rows.len() - captions.len(),
            openings,
        }
    }
}

/// What is wrong with a data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// Rows that cannot be read, by number from 1.
    pub damaged: Vec<usize>,
    /// The last row is incomplete.
    pub cut: bool,
    /// Videos with two captions of the same prompt.
    pub twice: Vec<String>,
    /// Videos that are not there.
    pub missing: Vec<String>,
    pub empty: Vec<String>,
    /// Videos whose latents the trainer caches under an earlier video's name: it would train with that video's latents.
    pub confused: Vec<String>,
}

impl Problems {
    /// True if nothing is wrong.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What a data set holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    pub rows: usize,
    pub videos: usize,
    pub prompts: usize,
    /// Words of a caption: fewest, median, most.
    pub words: [usize; 3],
    /// Captions that another video also has.
    pub repeated: usize,
    /// First words that several captions share, the most frequent first.
    pub openings: Vec<(String, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    pub rows: usize,
    /// Rows left out because a later file, or a later row, is about the same video and prompt.
    pub replaced: usize,
    /// Rows that could not be read.
    pub damaged: usize,
}

/// Merge data sets of the same form into a file, sorted by video: the result does not depend on how the videos were split.
/// Paths keep naming the same files. If several rows have one video and prompt, the last one counts. Fails if a file cannot be
/// read, or the files have different columns or keys, or the result cannot be written.
pub fn merge(into: &Path, parts: &[PathBuf]) -> Result<Merged, Failure> {
    let out = std::path::absolute(into).unwrap_or_else(|_| into.to_owned());
    let folder = out.parent().unwrap_or(Path::new("/")).to_owned();
    let mut kept: BTreeMap<(String, String), String> = BTreeMap::new();
    let (mut head, mut all, mut damaged): (Option<(String, Option<String>)>, usize, usize) = (None, 0, 0);
    for part in parts {
        let set = Dataset::read(part)?;
        damaged += set.contents.damaged.len() + usize::from(set.cut);
        let from = set.folder();
        for row in set.contents.rows {
            let form = (set.head.clone(), if set.csv { None } else { path_key(&row.text) });
            if *head.get_or_insert_with(|| form.clone()) != form {
                return Err(Failure::input(
                    format!(
                        "data set {}: its columns or keys differ from {}",
                        part.display(),
                        parts[0].display()
                    ),
                    "merge files of one --dataset kind",
                ));
            }
            all += 1;
            let moved = rebased(&row.path, &from, &folder);
            let text = match moved == row.path {
                true => row.text,
                false => renamed(&row.text, set.csv, &set.head, &moved),
            };
            kept.insert((moved, row.prompt), text);
        }
    }
    let text = head.map(|(head, _)| head).unwrap_or_default()
        + &kept.values().map(String::as_str).collect::<String>();
    replace(&out, text.as_bytes()).map_err(|error| super::unwritable(into, &error))?;
    Ok(Merged { rows: kept.len(), replaced: all - kept.len(), damaged })
}

fn path_key(row: &str) -> Option<String> {
    let row: Map<String, Value> = serde_json::from_str(row).ok()?;
    PATH_KEYS.into_iter().find(|key| row.contains_key(*key)).map(str::to_owned)
}

/// A path that is relative to one directory, relative to another.
fn rebased(path: &str, from: &Path, to: &Path) -> String {
    if from == to || Path::new(path).is_absolute() {
        return path.to_owned();
    }
    let absolute = from.join(path);
    match absolute.strip_prefix(to) {
        Ok(below) => names::portable(below).into_owned(),
        Err(_) => absolute.to_string_lossy().into_owned(),
    }
}

/// A row about the same video under another path.
fn renamed(row: &str, csv: bool, head: &str, path: &str) -> String {
    if csv {
        let columns = csv::records(head).0.into_iter().next().unwrap_or_default();
        let mut fields = csv::records(row).0.into_iter().next().unwrap_or_default();
        let at = columns.iter().position(|column| PATH_KEYS.contains(&column.as_str()));
        if let Some(field) = at.and_then(|at| fields.get_mut(at)) {
            path.clone_into(field);
        }
        return csv::record(fields.iter().map(String::as_str));
    }
    let Ok(mut fields) = serde_json::from_str::<Map<String, Value>>(row) else { return row.to_owned() };
    for key in PATH_KEYS {
        if let Some(field) = fields.get_mut(key) {
            *field = path.into();
            break;
        }
    }
    Value::Object(fields).to_string() + "\n"
}

#[cfg(test)]
mod tests;
