//! What names of GGUF files say: the type of most weights, whether a file is a vision tower or a part of a split model, and
//! which tower belongs to which language model.
//!
//! Names are publishers' conventions, not part of the format: they choose among files, and a file's contents are
//! read from its header.

/// Types of a vision tower, the preferred one first.
const TOWER_TYPES: [&str; 4] = ["F16", "BF16", "Q8_0", "F32"];

/// Most parts of a split model: the largest published ones have some dozen.
pub(crate) const MOST_PARTS: usize = 1024;

/// A name without `.gguf` and the number of a part, and number (from 1) and count of a part of a split model, whose name is
/// `NAME-00001-of-00003.gguf`; `None` for other files.
fn split(name: &str) -> Option<(&str, Option<(usize, usize)>)> {
    let (stem, _) = name.rsplit_once('.').filter(|(_, ending)| ending.eq_ignore_ascii_case("gguf"))?;
    let digits =
        |text: &str| (text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok());
    let part = || {
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (rest, number) = rest.rsplit_once('-')?;
        let (number, count) = (digits(number)??, digits(count)??);
        (1..=count).contains(&number).then_some((rest, Some((number, count))))
    };
    Some(part().unwrap_or((stem, None)))
}

/// The file's name in a path with slashes.
fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

fn stem(name: &str) -> Option<&str> {
    split(name).map(|(stem, _)| stem)
}

pub fn is_gguf(name: &str) -> bool {
    stem(name).is_some()
}

/// True for the name of a vision tower (mmproj).
pub fn is_tower(name: &str) -> bool {
    is_gguf(name) && name.to_ascii_lowercase().contains("mmproj")
}

/// Number (from 1) and count of the parts, for a part of a split model: `NAME-00001-of-00003.gguf`.
pub fn part_of(name: &str) -> Option<(usize, usize)> {
    split(name)?.1
}

/// The name of part `number` of the model of which `name` is a part; `name` itself for other files.
pub(crate) fn part(name: &str, number: usize) -> String {
    /// The length of `00001-of-00003.gguf`.
    const NUMBERS: usize = 19;
    match part_of(name) {
        Some(_) => {
            let at = name.len() - NUMBERS;
            format!("{}{number:05}{}", &name[..at], &name[at + 5..])
        }
        None => name.to_owned(),
    }
}

/// The display name of a model: without `.gguf` and the number of a part.
pub(crate) fn model_name(name: &str) -> &str {
    stem(name).unwrap_or(name)
}

/// The spelling of a type that names are compared by: `q4_k_m` is `Q4_K_M`, `fp16` is `F16`.
pub(crate) fn canonical(tag: &str) -> String {
    match tag.to_ascii_uppercase().as_str() {
        "FP16" => "F16".into(),
        "FP32" => "F32".into(),
        other => other.into(),
    }
}

/// True for the name of a type, in upper case: `F16`, `Q4_K_M`, `IQ4_XS`.
fn is_type(word: &str) -> bool {
    if matches!(word, "F32" | "F16" | "BF16" | "FP32" | "FP16") || word.starts_with("MXFP4") {
        return true;
    }
    let word = word.strip_prefix(['I', 'T']).unwrap_or(word);
    let rest = word.strip_prefix('Q').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    rest.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

/// The parts of a stem before and after its type, and the type.
fn around_type(stem: &str) -> Option<(&str, String, &str)> {
    let upper = stem.to_ascii_uppercase();
    let mut end = upper.len();
    // The last word that is a type; underscores are part of types, but may also be in front of one.
    loop {
        let start = upper[..end].rfind(['-', '.']).map_or(0, |at| at + 1);
        let starts = std::iter::once(start).chain(
            upper[start..end].bytes().enumerate().filter(|(_, b)| *b == b'_').map(|(at, _)| start + at + 1),
        );
        let found = starts.into_iter().find(|&at| is_type(&upper[at..end]));
        if let Some(at) = found {
            let tag = canonical(&upper[at..end]);
            // Another mix of types: `UD-Q4_K_XL`.
            return Some(match upper[..at].strip_suffix("UD-") {
                Some(before) if before.is_empty() || before.ends_with(['-', '.', '_']) => {
                    (&stem[..before.len()], format!("UD-{tag}"), &stem[end..])
                }
                _ => (&stem[..at], tag, &stem[end..]),
            });
        }
        end = start.checked_sub(1)?;
    }
}

/// The type in a name, in its [`canonical`] spelling: `Q4_K_M` of `model-q4_k_m.gguf`. If the name has none, the type that its
/// folder is named for: `Q4_K_M/model.gguf`.
pub(crate) fn tag_of(path: &str) -> Option<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let own = around_type(stem(name)?).map(|(_, tag, _)| tag);
    own.or_else(|| type_folder(file_name(folder)))
}

/// The type that is the whole name of a folder: publishers put the parts of a large file into a folder named for its type.
pub fn type_folder(name: &str) -> Option<String> {
    around_type(name)
        .filter(|(before, _, after)| before.is_empty() && after.is_empty())
        .map(|(_, tag, _)| tag)
}

/// The name with another type, of a whole file.
pub(crate) fn with_tag(name: &str, tag: &str) -> String {
    let stem = model_name(name);
    let (before, _, after) = around_type(stem).unwrap_or((stem, String::new(), ""));
    format!("{before}{tag}{after}.gguf")
}

/// True for files of one model, in one type or in several.
pub(crate) fn is_same_model(name: &str, other: &str) -> bool {
    plain_name(model_name(name)) == plain_name(model_name(other))
}

/// Letters and digits of a name without its type, in lower case.
fn plain_name(stem: &str) -> String {
    let (before, _, after) = around_type(stem).unwrap_or((stem, String::new(), ""));
    let all = before.chars().chain(after.chars());
    all.filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// The name of a tower around `mmproj`, in lower case.
fn around_mmproj(tower: &str) -> (String, String) {
    let lower = stem(tower).unwrap_or(tower).to_ascii_lowercase();
    let (before, after) = lower.split_once("mmproj").unwrap_or((&lower, ""));
    (before.to_owned(), after.to_owned())
}

fn tower_model(tower: &str) -> String {
    let (before, after) = around_mmproj(tower);
    plain_name(&format!("{before}{after}"))
}

/// How closely the names of a tower and a language model are related; 0 if nothing in them says that they belong together.
fn kinship(text: &str, tower: &str) -> usize {
    let (text, tower) = (file_name(text), file_name(tower));
    if tower_model(tower) == plain_name(stem(text).unwrap_or(text)) {
        return usize::MAX;
    }
    // Caches of several models in one folder begin names with the owner and the repository.
    let (before, _) = around_mmproj(tower);
    if text.to_ascii_lowercase().starts_with(&before) { before.len() } else { 0 }
}

/// True if the names say that a tower belongs to a language model.
pub fn are_related(text: &str, tower: &str) -> bool {
    kinship(text, tower) > 0
}

/// The preferred one of several files of the same tower: f16, then bf16, q8_0, f32.
pub fn preferred<'a>(towers: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let rank = |tower: &&str| {
        let tag = tag_of(tower);
        let known = TOWER_TYPES.iter().position(|kind| tag.as_deref() == Some(kind));
        (known.unwrap_or(TOWER_TYPES.len()), tag, (*tower).to_owned())
    };
    towers.into_iter().min_by_key(rank)
}

/// The tower of a language model among those in its directory: the only one, else the one whose name is related to the model's. Of
/// one tower in several types, the [`preferred`] one. The error: the towers between which the names do not decide; empty if there
/// is none.
pub fn tower_of<'a>(text: &str, towers: &'a [String]) -> Result<&'a str, Vec<&'a str>> {
    let closest = towers.iter().map(|tower| kinship(text, tower)).max().unwrap_or(0);
    let found: Vec<&str> =
        towers.iter().filter(|tower| kinship(text, tower) == closest).map(String::as_str).collect();
    let of_one = found.iter().all(|tower| tower_model(tower) == tower_model(found[0]));
    match preferred(found.iter().copied()) {
        Some(tower) if of_one => Ok(tower),
        _ => Err(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_between_separators() {
        for (name, tag) in [
            ("Qwen2.5-VL-3B-Instruct-Q4_K_M.gguf", "Q4_K_M"),
            ("qwen2-vl-2b-instruct.q4_k_m.GGUF", "Q4_K_M"),
            ("Qwen2-VL-2B-Instruct_Q8_0.gguf", "Q8_0"),
            ("Model.i1-IQ4_XS.gguf", "IQ4_XS"),
            ("Model-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
            ("Model-BF16-00001-of-00002.gguf", "BF16"),
            ("mmproj-model-fp16.gguf", "F16"),
            ("mmproj-F16.gguf", "F16"),
            ("q4_0.gguf", "Q4_0"),
            ("model-q5_k_m-imat.gguf", "Q5_K_M"),
            ("UD-Q4_K_XL/Model-UD-Q4_K_XL-00001-of-00002.gguf", "UD-Q4_K_XL"),
            ("UD-Q4_K_XL/model-00001-of-00002.gguf", "UD-Q4_K_XL"),
            ("Q8_0/model-Q4_0.gguf", "Q4_0"),
        ] {
            assert_eq!(tag_of(name).as_deref(), Some(tag), "{name}");
        }
        for name in [
            "model.gguf",
            "Qwen2.5-VL.gguf",
            "model-Q4_K_M.bin",
            "model-faq4.gguf",
            "my-Q8_0/model.gguf",
            ".gguf",
            "",
        ] {
            assert_eq!(tag_of(name), None, "{name}");
        }
        assert_eq!(canonical("q4_k_m"), "Q4_K_M");
    }

    #[test]
    fn parts_of_split_models_are_recognized() {
        let name = "m-Q8_0-00002-of-00003.gguf";
        assert_eq!(part_of(name), Some((2, 3)));
        assert_eq!((part(name, 1).as_str(), model_name(name)), ("m-Q8_0-00001-of-00003.gguf", "m-Q8_0"));
        for name in [
            "m.gguf",
            "m-1-of-3.gguf",
            "end-of-file.gguf",
            "m-00001-of-00003.bin",
            "m-00000-of-00003.gguf",
            "m-00004-of-00003.gguf",
            "m-0000é-of-00003.gguf",
            "00001-of-00003.gguf",
        ] {
            assert_eq!((part_of(name), part(name, 1)), (None, name.to_owned()));
        }
    }

    #[test]
    fn towers_are_chosen_by_their_names() {
        let choose = |text: &str, towers: &[&str]| {
            let towers: Vec<String> = towers.iter().map(|&name| name.to_owned()).collect();
            tower_of(text, &towers).map(str::to_owned).map_err(|names| names.join(" "))
        };
        let found = |name: &str| Ok(name.to_owned());
        // The only one, regardless of its name.
        assert_eq!(choose("a-Q4_K_M.gguf", &["mmproj-b.gguf"]), found("mmproj-b.gguf"));
        assert_eq!(choose("a.gguf", &[]), Err(String::new()));
        // A folder of several models.
        let flat = [
            "me_3B-GGUF_mmproj-3B-f16.gguf",
            "me_3B-GGUF_mmproj-3B-Q8_0.gguf",
            "me_7B-GGUF_mmproj-7B-f16.gguf",
            "you_Other_mmproj-F32.gguf",
        ];
        assert_eq!(choose("me_3B-GGUF_3B-Q4_K_M.gguf", &flat), found("me_3B-GGUF_mmproj-3B-f16.gguf"));
        assert_eq!(choose("me_7B-GGUF_7B-Q8_0.gguf", &flat), found("me_7B-GGUF_mmproj-7B-f16.gguf"));
        assert_eq!(choose("you_Other_model-F16.gguf", &flat), found("you_Other_mmproj-F32.gguf"));
        assert!(choose("they_None_x.gguf", &flat).is_err());
        // Without owner and repository.
        let plain = ["mmproj-VL-3B-f16.gguf", "mmproj-VL-7B-f16.gguf"];
        assert_eq!(choose("VL-7B-Q4_K_M.gguf", &plain), found("mmproj-VL-7B-f16.gguf"));
        assert_eq!(choose("VL-72B-Q4_K_M.gguf", &plain), Err(plain.join(" ")));
        // One tower in several types.
        let types = ["mmproj-F32.gguf", "mmproj-Q8_0.gguf", "mmproj-BF16.gguf"];
        assert_eq!(choose("a-Q4_K_M.gguf", &types), found("mmproj-BF16.gguf"));
        // A part of a split model, in a folder.
        assert_eq!(choose("F16/VL-7B-F16-00001-of-00002.gguf", &plain), found("mmproj-VL-7B-f16.gguf"));
        assert_eq!(
            choose("m.gguf", &["MMPROJ-a.gguf", "x-mmproj.GGUF"]),
            Err("MMPROJ-a.gguf x-mmproj.GGUF".into())
        );
    }

    #[test]
    fn relation_needs_more_than_the_same_folder() {
        assert!(are_related("me_3B_3B-Q4_K_M.gguf", "me_3B_mmproj-3B-f16.gguf"));
        assert!(!are_related("me_Llama_Llama-Q4_K_M.gguf", "me_3B_mmproj-3B-f16.gguf"));
        assert!(!are_related("a.gguf", "mmproj-f16.gguf"));
    }
}
