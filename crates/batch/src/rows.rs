//! The rows of a data set, in the keys that trainers read.
//!
//! | kind | keys | who reads it |
//! |---|---|---|
//! | `jsonl` | `video`, `caption`, `prompt` and how it was made | anybody |
//! | `csv` | `video`, `caption`, `prompt`, `cut` | anybody |
//! | `musubi` | `video_path` (absolute: versions resolve a relative one differently), `caption` | musubi-tuner's `video_jsonl_file` |
//! | `ltx` | `caption`, `media_path`, relative to the file | the LTX trainers' `process_dataset.py` |
//! | `hf` | `file_name`, relative to the file, `caption`, `prompt` | `datasets`' `videofolder`; the file is `metadata.jsonl` |

use serde_json::json;

use super::{text::prefixed, *};
use specreel_os::names;

/// The form of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JSON lines with everything that is known.
    Jsonl,
    /// Comma-separated values with a header.
    Csv,
    Musubi,
    Ltx,
    /// Hugging Face `datasets`.
    Hf,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caption {
    pub prompt: String,
    pub text: String,
    pub cut: Option<String>,
    /// The pieces, if the clip was captioned piece by piece; without the prefix.
    pub pieces: Vec<(Span, String)>,
    /// What is said in the clip, where that is known.
    pub said: Vec<(Span, String)>,
    /// What `text` begins with, and each piece wherever it is written.
    pub prefix: Option<String>,
    /// How it was made: method, models, statistics.
    pub made: Map<String, Value>,
}

impl Caption {
    /// True if the models wrote nothing; the text may have a prefix all the same.
    pub fn is_empty(&self) -> bool {
        self.made.get("empty").and_then(Value::as_bool) == Some(true)
    }

    /// True if an answer ended before it was what its schema asks for, or in a loop.
    pub fn is_incomplete(&self) -> bool {
        self.made.get("complete").and_then(Value::as_bool) == Some(false)
            || self.made.get("reason").and_then(Value::as_str) == Some("loop")
    }
}

/// The header of a CSV file.
const COLUMNS: [&str; 4] = ["video", "caption", "prompt", "cut"];

impl Kind {
    /// The name of the file, unless the user names one.
    pub fn file_name(self) -> &'static str {
        match self {
            Kind::Csv => "dataset.csv",
            Kind::Hf => "metadata.jsonl",
            Kind::Jsonl | Kind::Musubi | Kind::Ltx => "dataset.jsonl",
        }
    }

    pub fn path_key(self) -> &'static str {
        match self {
            Kind::Jsonl | Kind::Csv => "video",
            Kind::Musubi => "video_path",
            Kind::Ltx => "media_path",
            Kind::Hf => "file_name",
        }
    }

    /// True if its reader takes several captions of one clip.
    pub fn takes_several(self) -> bool {
        !matches!(self, Kind::Musubi | Kind::Ltx)
    }

    /// The form of a row of JSON, by the key of its path; `None` for any other.
    pub fn of_key(key: &str) -> Option<Self> {
        [Kind::Jsonl, Kind::Musubi, Kind::Ltx, Kind::Hf].into_iter().find(|kind| kind.path_key() == key)
    }

    /// What its trainer names the cached latents and caption of a clip after; `None` if it keeps clips apart. musubi-tuner takes the
    /// file name without extension, the LTX trainers the path without extension.
    pub fn cache_name(self, path: &Path) -> Option<PathBuf> {
        match self {
            Kind::Musubi => path.file_stem().map(PathBuf::from),
            Kind::Ltx => Some(path.with_extension("")),
            Kind::Jsonl | Kind::Csv | Kind::Hf => None,
        }
    }

    /// What an empty file begins with.
    pub fn head(self) -> String {
        if self == Kind::Csv { csv::record(COLUMNS) } else { String::new() }
    }

    /// The path of a clip as rows name it. Fails if the clip is outside of the data set's directory where its reader only takes
    /// what is inside, or its path is no text.
    pub fn path_of(self, clip: &Clip, file: &Path) -> Result<String, Failure> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (path, file) = (absolute(&clip.path()), absolute(file));
        let folder = file.parent().unwrap_or(Path::new("/"));
        let below = path.strip_prefix(folder).map(Path::to_owned);
        let refused = |error: String, hint: &str| {
            Failure::input(format!("video {}: {error}", clip.path().display()), hint)
        };
        let path: PathBuf = match (self, below) {
            (Kind::Musubi, _) => path,
            (_, Ok(below)) => below,
            (Kind::Jsonl | Kind::Csv, Err(_)) => path,
            (Kind::Ltx | Kind::Hf, Err(_)) => {
                return Err(refused(
                    format!("it is outside of {}, the directory of the data set", folder.display()),
                    "pass a --dataset-file in a parent directory: its reader only takes paths below it",
                ));
            }
        };
        match path.to_str() {
            Some(text) if self == Kind::Ltx && text != text.trim() => Err(refused(
                "its name begins or ends with a space, which the trainer drops".into(),
                "rename the file",
            )),
            Some(text) if path.is_absolute() => Ok(text.to_owned()),
            Some(_) => Ok(names::portable(&path).into_owned()),
            None => Err(refused(
                "its path is not UTF-8, which a data set cannot hold".into(),
                "rename the file, or write sidecars",
            )),
        }
    }

    /// A row with its line break.
    pub fn row(self, path: &str, caption: &Caption) -> String {
        let Caption { prompt, text, cut, .. } = caption;
        let row = match self {
            Kind::Csv => return csv::record([path, text, prompt, cut.as_deref().unwrap_or_default()]),
            Kind::Musubi => json!({ "video_path": path, "caption": text }),
            Kind::Ltx => json!({ "caption": text, "media_path": path }),
            Kind::Hf => json!({ "file_name": path, "caption": text, "prompt": prompt }),
            Kind::Jsonl => object(path, caption),
        };
        row.to_string() + "\n"
    }

    /// Identifies a row's subject: clip and, if there may be several, prompt.
    pub fn key(self, path: &str, prompt: &str) -> u64 {
        match self.takes_several() {
            true => super::hash(format!("{path}\0{prompt}").as_bytes()),
            false => super::hash(path.as_bytes()),
        }
    }
}

/// A row with everything that is known; also used by `--stdin`.
pub fn object(path: &str, caption: &Caption) -> Value {
    let Caption { prompt, text, cut, pieces, prefix, made, said: _ } = caption;
    let mut row = Map::new();
    row.insert("video".into(), path.into());
    row.insert("caption".into(), text.as_str().into());
    row.insert("prompt".into(), prompt.as_str().into());
    if let Some(cut) = cut {
        row.insert("cut".into(), cut.as_str().into());
    }
    if !pieces.is_empty() {
        let piece = |(span, text): &(Span, String)| {
            let text = prefixed(prefix.as_deref(), text.clone());
            json!({ "start": span.start, "end": span.end, "caption": text })
        };
        row.insert("segments".into(), pieces.iter().map(piece).collect());
    }
    row.extend(made.clone());
    Value::Object(row)
}

#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    pub path: String,
    pub caption: String,
    pub prompt: String,
    /// The row as in the file, with its line break.
    pub text: String,
}

#[derive(Clone, Debug, Default)]
pub struct Contents {
    pub rows: Vec<Read>,
    /// Rows that cannot be read, by their numbers from 1.
    pub damaged: Vec<usize>,
    /// Bytes of what could be read; what follows is an incomplete row.
    pub whole: usize,
}

/// Read rows of a file; `first` says whether they begin with its header. The last row may lack its line break if it is whole.
pub fn read(text: &str, csv: bool, first: bool) -> Contents {
    if csv { read_csv(text, first) } else { read_json(text) }
}

fn read_json(text: &str) -> Contents {
    let mut contents = Contents::default();
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let row = serde_json::from_str::<Map<String, Value>>(line).ok().and_then(|row| {
            let word = |key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
            let path = ["video", "video_path", "media_path", "file_name"].into_iter().find_map(word)?;
            let caption = word("caption")?;
            let prompt = word("prompt").unwrap_or_default();
            Some(Read { path, caption, prompt, text: line.trim_end().to_owned() + "\n" })
        });
        match row {
            Some(row) => contents.rows.push(row),
            None if !line.ends_with('\n') => break,
            None if line.trim().is_empty() => {}
            None => contents.damaged.push(number + 1),
        }
        contents.whole += line.len();
    }
    contents
}

fn read_csv(text: &str, first: bool) -> Contents {
    let mut contents = Contents::default();
    let (mut records, mut whole) = csv::records(text);
    // A last record without its line break: all of its columns are there, and closed.
    if whole < text.len()
        && text.ends_with('"')
        && let (last, _) = csv::records(&format!("{}\n", &text[whole..]))
        && let [record] = &last[..]
        && record.len() == COLUMNS.len()
        && csv::record(record.iter().map(String::as_str)).trim_end() == &text[whole..]
    {
        records.extend(last);
        whole = text.len();
    }
    contents.whole = whole;
    let mut columns: Vec<String> = COLUMNS.map(str::to_owned).into();
    for (number, record) in records.into_iter().enumerate() {
        if first && number == 0 {
            columns = record;
            continue;
        }
        let field = |names: &[&str]| {
            let at = columns.iter().position(|column| names.contains(&column.as_str()))?;
            record.get(at).cloned()
        };
        let path = field(&["video", "video_path", "media_path", "file_name"]);
        match path.zip(field(&["caption"])).filter(|_| record.len() == columns.len()) {
            Some((path, caption)) => contents.rows.push(Read {
                path,
                caption,
                prompt: field(&["prompt"]).unwrap_or_default(),
                text: csv::record(record.iter().map(String::as_str)),
            }),
            None => contents.damaged.push(number + 1),
        }
    }
    contents
}

#[cfg(test)]
mod tests;
