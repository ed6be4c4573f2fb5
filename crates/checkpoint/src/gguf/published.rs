//! Which published file of a model can be used in place of one that cannot.

use std::{collections::BTreeMap, path::Path};

use super::{
    Metadata, file_names,
    header::{GgufHeader, Listed},
    origin::repository_of,
    parts, tensor_type,
};
use specreel_tensor::{CheckpointError, TensorType};

/// Types of files that publishers offer, the smallest first, and the types of tensors that llama.cpp's quantizer writes into
/// one, including types for rows that are not a multiple of 256.
const PUBLISHED: [(&str, &[&str]); 3] =
    [("Q4_K_M", &["q4_k", "q5_k", "q6_k", "q5_0", "q8_0"]), ("Q8_0", &["q8_0"]), ("F16", &["f16"])];

/// Most groups of tensors that a message names for a type.
const NAMED: usize = 4;

/// A type of files that can be used, other than this one.
pub(super) fn usable(than: Option<&str>) -> &'static str {
    let is_read = |name: &&str| TensorType::ALL.iter().any(|kind| kind.name() == *name);
    let found = PUBLISHED.iter().find(|(tag, kinds)| Some(*tag) != than && kinds.iter().all(is_read));
    found.map_or("F16", |(tag, _)| tag)
}

/// A name without the number of its block: a message names the tensors of all blocks once.
fn group(name: &str) -> String {
    let part = |part: &str| match !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) {
        true => "*".to_owned(),
        false => part.to_owned(),
    };
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

/// The problem of files with tensors of types that are not supported, and which file of the same model can be used.
pub(super) fn unsupported_types(headers: &[GgufHeader]) -> Option<CheckpointError> {
    let first = headers.first()?;
    let problem = problem(headers.iter().flat_map(|header| &header.tensors))?;
    let path = first.map.path();
    Some(CheckpointError::file_hint(path, problem, way_out(path, &first.metadata)))
}

/// What is wrong with the types of tensors: all types that are not supported with their tensors, the most frequent one first.
pub(super) fn problem<'a>(tensors: impl IntoIterator<Item = &'a Listed>) -> Option<String> {
    let mut types: BTreeMap<&str, Vec<&Listed>> = BTreeMap::new();
    for tensor in tensors {
        if let Err(kind) = &tensor.kind {
            types.entry(kind).or_default().push(tensor);
        }
    }
    if types.is_empty() {
        return None;
    }
    let mut types: Vec<_> = types.into_iter().collect();
    types.sort_by_key(|(_, tensors)| std::cmp::Reverse(tensors.len()));
    let listed = |(kind, tensors): &(&str, Vec<&Listed>)| {
        let mut groups: Vec<String> = tensors.iter().map(|tensor| group(&tensor.name)).collect();
        groups.sort();
        groups.dedup();
        let more = groups.len().saturating_sub(NAMED);
        groups.truncate(NAMED);
        if more > 0 {
            groups.push(format!("{more} more"));
        }
        let (count, s) = (tensors.len(), if tensors.len() == 1 { "" } else { "s" });
        format!("{kind} ({count} tensor{s}: {})", groups.join(", "))
    };
    let listed: Vec<String> = types.iter().map(listed).collect();
    let (listed, known) = (listed.join(", "), tensor_type::supported());
    Some(format!("unsupported tensor types: {listed}; expected one of: {known}"))
}

/// Which file of the same model can be used: one in the same directory, one of its repository, or one that is likely
/// published. Never one of its own type.
fn way_out(path: &Path, metadata: &Metadata) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let own = file_names::tag_of(&name);
    if let Some(file) = beside(path, &name, own.as_deref()) {
        return format!("use {file}, which is in the same directory and can be used");
    }
    let tag = usable(own.as_deref());
    let [own_repository, base] = repositories(&name, metadata);
    if let Some(repository) = repository_of(path).or(own_repository) {
        return format!("use the {tag} file of this model: specreel models pull {repository}:{tag}");
    }
    let file = match own {
        Some(_) => format!("often named {}", file_names::with_tag(&name, tag)),
        None => "whose name says so".to_owned(),
    };
    match base {
        Some(base) => {
            format!("use the {tag} file of this model, {file}, or the original: specreel models pull {base}")
        }
        None => format!("use the {tag} file of this model, {file}"),
    }
}

/// The name of a file of the same model in the same directory that can be used.
fn beside(path: &Path, name: &str, own: Option<&str>) -> Option<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).ok()?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names.into_iter().find(|other| {
        let first = file_names::part_of(other).is_none_or(|(number, _)| number == 1);
        let is_other = first && file_names::tag_of(other).as_deref() != own;
        is_other && !file_names::is_tower(other) && file_names::is_same_model(name, other) && {
            let (headers, problems) = parts::open(&path.with_file_name(other));
            problems.is_empty() && headers.iter().flat_map(|header| &header.tensors).all(|t| t.kind.is_ok())
        }
    })
}

/// `OWNER/NAME` of the repository of GGUF files, and of the original model in Hugging Face layout, as the metadata has them.
fn repositories(name: &str, metadata: &Metadata) -> [Option<String>; 2] {
    let named = |key: &str| {
        let url = metadata.string(key).ok()??;
        let id = url.strip_prefix("https://huggingface.co/")?.trim_end_matches('/');
        let (owner, name) = id.split_once('/')?;
        let plain = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        (plain(owner) && plain(name)).then(|| (id.to_owned(), name.to_owned()))
    };
    let own = named("general.repo_url").filter(|(_, name)| name.to_ascii_lowercase().ends_with("gguf"));
    // The base of a fine-tuned model is another model.
    let bases = ["general.source.repo_url", "general.repo_url", "general.base_model.0.repo_url"];
    let base = bases.into_iter().filter_map(named).find(|(_, base)| file_names::is_same_model(name, base));
    [own, base].map(|found| found.map(|(id, _)| id))
}
