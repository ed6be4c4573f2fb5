//! The parts of a split model: `NAME-00001-of-00003.gguf` and so on, as llama.cpp's gguf-split and its converters write them.
//!
//! The first part has the metadata of the model. All parts have `split.no` (from 0), `split.count` and `split.tensors.count`,
//! the tensors of all parts together. The first part may have no tensors.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{
    Metadata, file_names,
    header::{DAMAGED, GgufHeader},
    origin,
};
use specreel_tensor::CheckpointError;

/// Most files that a message names.
const NAMED: usize = 4;

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Part `number` of the model of which a file is a part; the file itself if its name is none of a part.
fn part(path: &Path, number: usize) -> PathBuf {
    path.with_file_name(file_names::part(&name_of(path), number))
}

/// The file that has the metadata: the first part, for a part of a split model.
pub(super) fn first(path: &Path) -> PathBuf {
    part(path, 1)
}

/// What a part says about the model.
#[derive(Clone, Copy)]
struct Split {
    /// Number of the part, from 1.
    number: u64,
    count: u64,
    /// Tensors of all parts.
    tensors: Option<u64>,
}

impl Split {
    /// `None` if the file is a whole model.
    fn read(metadata: &Metadata) -> Result<Option<Self>, String> {
        let Some(count) = metadata.integer("split.count")?.filter(|count| *count > 1) else {
            return Ok(None);
        };
        let number = metadata.integer("split.no")?.ok_or("`split.no` is missing")?.saturating_add(1);
        Ok(Some(Self { number, count, tensors: metadata.integer("split.tensors.count")? }))
    }
}

/// The headers of the model that a file is, or is a part of, and everything that is wrong with its files. All parts are there and
/// belong together if there is no problem.
pub(super) fn open(path: &Path) -> (Vec<GgufHeader>, Vec<CheckpointError>) {
    let named = file_names::part_of(&name_of(path)).filter(|(_, count)| *count > 1);
    let Some((_, count)) = named else {
        return match GgufHeader::open(path).and_then(|header| whole(path, header)) {
            Ok(header) => (vec![header], Vec::new()),
            Err(problem) => (Vec::new(), vec![problem]),
        };
    };
    if count > file_names::MOST_PARTS {
        let limit = file_names::MOST_PARTS;
        let problem = format!("its name says that the model has {count} parts, the limit is {limit}");
        return (Vec::new(), vec![CheckpointError::file_hint(path, problem, other_parts(path))]);
    }
    // The name may be one that somebody chose for a whole model.
    if let Ok(header) = GgufHeader::open(path)
        && Split::read(&header.metadata).is_ok_and(|split| split.is_none())
        && !header.tensors.is_empty()
        && header.metadata.contains("general.architecture")
    {
        return (vec![header], Vec::new());
    }
    let paths: Vec<PathBuf> = (1..=count).map(|number| part(path, number)).collect();
    let (there, missing): (Vec<_>, Vec<_>) = (1..).zip(&paths).partition(|(_, path)| path.exists());
    let mut problems: Vec<CheckpointError> = absent(path, count, &missing).into_iter().collect();
    let mut headers = Vec::new();
    for (number, path) in there {
        match GgufHeader::open(path) {
            Ok(header) => headers.push((number, header)),
            Err(problem) => problems.push(problem),
        }
    }
    let whole = problems.is_empty();
    problems.extend(mismatches(&headers, count as u64, whole));
    (headers.into_iter().map(|(_, header)| header).collect(), problems)
}

/// A file whose name is none of a part must be a whole model.
fn whole(path: &Path, header: GgufHeader) -> Result<GgufHeader, CheckpointError> {
    let split = Split::read(&header.metadata);
    match split.map_err(|problem| CheckpointError::file_hint(path, problem, DAMAGED))? {
        None => Ok(header),
        Some(Split { number, count, .. }) => {
            let problem =
                format!("it is part {number} of {count} of a split model, but its name does not say so");
            let hint = format!(
                "give all parts their published names, NAME-{number:05}-of-{count:05}.gguf for this one, in one directory"
            );
            Err(CheckpointError::file_hint(path, problem, hint))
        }
    }
}

fn absent(path: &Path, count: usize, missing: &[(usize, &PathBuf)]) -> Option<CheckpointError> {
    if missing.is_empty() {
        return None;
    }
    let mut names: Vec<String> = missing.iter().take(NAMED).map(|(_, path)| name_of(path)).collect();
    if missing.len() > NAMED {
        names.push(format!("{} more", missing.len() - NAMED));
    }
    let (absent, names) = (missing.len(), names.join(", "));
    let are = if absent == 1 { "is" } else { "are" };
    let problem = format!("{absent} of the {count} parts of this model {are} missing: {names}");
    let hint = match origin::pull(path) {
        Some(pull) => format!("download the rest with: {pull}"),
        None => "put all parts into one directory, under their published names".to_owned(),
    };
    Some(CheckpointError::file_hint(path, problem, hint))
}

fn other_parts(path: &Path) -> String {
    match origin::pull(path) {
        Some(pull) => format!("remove the parts, and download all of them again with: {pull}"),
        None => {
            "download all parts of one model again into one directory, under their published names".to_owned()
        }
    }
}

/// What says that parts do not belong together. `whole` if none is missing.
fn mismatches(headers: &[(usize, GgufHeader)], count: u64, whole: bool) -> Vec<CheckpointError> {
    let mut problems = Vec::new();
    let mut refuse = |header: &GgufHeader, problem: String| {
        let path = header.map.path();
        problems.push(CheckpointError::file_hint(path, problem, other_parts(path)));
    };
    let mut total = None;
    let mut architecture = None;
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, header) in headers {
        let split = match Split::read(&header.metadata) {
            Ok(Some(split)) if (split.number, split.count) == (*number as u64, count) => split,
            Ok(found) => {
                let is = found.map_or_else(
                    || "a whole model".to_owned(),
                    |found| format!("part {} of {}", found.number, found.count),
                );
                refuse(header, format!("its name says part {number} of {count}, but it is {is}"));
                continue;
            }
            Err(problem) => {
                refuse(header, problem);
                continue;
            }
        };
        if let Some(tensors) = split.tensors {
            let (other, first) = *total.get_or_insert((tensors, *number));
            if other != tensors {
                let problem = format!(
                    "it is of a model of {tensors} tensors, but part {first} is of one of {other}: they are of different models"
                );
                refuse(header, problem);
                continue;
            }
        }
        // Later parts need not name it.
        if let Ok(Some(name)) = header.metadata.string("general.architecture") {
            let (other, first) = *architecture.get_or_insert((name, *number));
            if other != name {
                let problem = format!("it is of a `{name}` model, but part {first} is of a `{other}` model");
                refuse(header, problem);
                continue;
            }
        }
        let again = header.tensors.iter().find_map(|tensor| {
            let first = seen.insert(&tensor.name, *number)?;
            Some((&tensor.name, first))
        });
        if let Some((name, first)) = again {
            refuse(header, format!("tensor `{name}` is also in part {first}: they are of different models"));
        }
    }
    if let (true, Some((expected, _)), Some((_, first))) = (whole, total, headers.first()) {
        let found = seen.len() as u64;
        if problems.is_empty() && found != expected {
            let path = first.map.path();
            let problem = format!(
                "its {count} parts have {found} tensors together, `split.tensors.count` is {expected}"
            );
            problems.push(CheckpointError::file_hint(path, problem, other_parts(path)));
        }
    }
    problems
}
