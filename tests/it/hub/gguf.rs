//! Pulls of GGUF files.

use std::{fs, path::Path};

use specreel_checkpoint::hub::{HubError, Pulled};
use specreel_record::{Failure, FailureClass};

use crate::hub::{
    Case, Recorder, server,
    server::{COMMIT, File, Reply},
    small,
};

/// A repository of GGUF files: two types, a split one in its folder, one that lacks parts, a tower in two types.
fn files() -> Vec<File> {
    let noise = |n: u32| (0..n).map(|i| (i.wrapping_mul(2_654_435_761 ^ n) >> 7) as u8).collect();
    let large = |name: &'static str, n: u32| File { name, bytes: noise(n), large: true };
    vec![
        small("README.md", "# a model"),
        small("config.json", "{}"),
        large("VL-3B-Q4_K_M.gguf", 200_003),
        large("VL-3B-q8_0.gguf", 300_001),
        large("BF16/VL-3B-BF16-00001-of-00002.gguf", 250_000),
        large("BF16/VL-3B-BF16-00002-of-00002.gguf", 150_001),
        large("mmproj-VL-3B-Q8_0.gguf", 90_000),
        large("mmproj-VL-3B-f16.gguf", 120_007),
        large("VL-3B-Q6_K-00002-of-00002.gguf", 2000),
    ]
}

fn case() -> Case {
    Case::new(files(), Box::new(|_, _, _| {}))
}

#[test]
fn a_type_pulls_its_file_and_one_vision_tower() {
    let case = case();
    let mut recorder = Recorder::default();
    let pulled = case.pull_id("me/model:q4_k_m", &mut recorder).unwrap();
    let folder = case.cache.path().join("models--me--model");
    let snapshot = folder.join("snapshots").join(COMMIT);
    let (text, tower) = (snapshot.join("VL-3B-Q4_K_M.gguf"), snapshot.join("mmproj-VL-3B-f16.gguf"));
    assert_eq!(pulled.path(), text);
    assert_eq!(
        (&pulled.dir, &pulled.file, &pulled.mmproj),
        (&snapshot, &Some(text.clone()), &Some(tower.clone()))
    );
    assert_eq!(fs::read(&text).unwrap(), files()[2].bytes);
    assert_eq!(fs::read(&tower).unwrap(), files()[7].bytes);
    assert_eq!(fs::read_to_string(folder.join("refs/main")).unwrap(), COMMIT);
    assert_eq!((pulled.files, case.blobs().len()), (2, 2));
    assert_eq!((pulled.bytes, pulled.fetched), (320_010, 320_010));
    // The small file comes first and is checked before the large one.
    assert_eq!(recorder.checked, [tower]);
    let order: Vec<String> = case.server.asked(".gguf").into_iter().map(|request| request.path).collect();
    assert!(order[0].ends_with("mmproj-VL-3B-f16.gguf") && order[1].ends_with("Q4_K_M.gguf"), "{order:?}");
    let last = recorder.seen.last().unwrap();
    assert_eq!((last.done, last.total, last.number, last.files), (320_010, 320_010, 2, 2));

    // Another type shares the tower.
    let other = case.pull_id("me/model:Q8_0", &mut Recorder::default()).unwrap();
    assert_eq!((other.fetched, other.path().to_owned()), (300_001, snapshot.join("VL-3B-q8_0.gguf")));
    let again = case.pull_id("me/model:Q8_0", &mut Recorder::default()).unwrap();
    assert_eq!(again, Pulled { fetched: 0, ..other });
}

#[test]
fn all_parts_of_a_split_model_are_pulled_and_resumed() {
    // The connection ends in the second part, and the download is cancelled there.
    let cut = |before, reply: &mut Reply| reply.cut = (before == 0).then_some(100_000);
    let mut case = Case::at(files(), "00002-of-00002.gguf", cut);
    let snapshot = case.cache.path().join("models--me--model/snapshots").join(COMMIT);
    let tower = snapshot.join("mmproj-VL-3B-f16.gguf");
    let id = "me/model:bf16";
    let total = 250_000 + 150_001 + 120_007;
    let mut recorder = Recorder { most: Some(4), ..Recorder::default() };
    assert!(matches!(case.pull_id(id, &mut recorder), Err(HubError::Cancelled)));
    assert!(recorder.seen.iter().all(|seen| seen.total == total), "{:?}", recorder.seen);
    case.settings.offline = true;
    let (_, text) = case.refused_id(id);
    assert!(text.contains("me/model:BF16 is not in the cache"), "{text}");
    case.settings.offline = false;

    let mut recorder = Recorder::default();
    let pulled = case.pull_id(id, &mut recorder).unwrap();
    let parts = [1, 2].map(|n| snapshot.join(format!("BF16/VL-3B-BF16-0000{n}-of-00002.gguf")));
    assert_eq!((pulled.path(), pulled.mmproj.as_ref()), (parts[0].as_path(), Some(&tower)));
    for (path, file) in parts.iter().zip(&files()[4..]) {
        assert_eq!(fs::read(path).unwrap(), file.bytes);
        assert!(fs::read_link(path).unwrap().starts_with("../../../blobs"));
    }
    assert_eq!((pulled.files, pulled.bytes, recorder.checked), (3, total, vec![tower]));
    assert!(pulled.fetched < total, "what the first pull had is not downloaded again");
    let last = recorder.seen.last().unwrap();
    assert_eq!((last.done, last.total, last.number, last.files), (total, total, 3, 3));
    let ranges = case.server.asked("00002-of-00002.gguf");
    assert!(ranges.iter().any(|request| request.header("range").is_some()), "{ranges:?}");

    case.settings.offline = true;
    let found = case.pull_id(id, &mut Recorder::default()).unwrap();
    assert_eq!(found, Pulled { fetched: 0, ..pulled });
    fs::remove_file(&parts[1]).unwrap();
    let (_, text) = case.refused_id(id);
    assert!(text.contains("me/model:BF16 is not in the cache"), "{text}");
}

#[test]
fn types_that_cannot_be_pulled_are_refused_before_a_download() {
    let case = case();
    for (id, parts) in [
        (
            "me/model",
            [
                "me/model has GGUF files only",
                "for example me/model:Q4_K_M; available: BF16 (400 kB in 2 files), Q4_K_M (200 kB), Q8_0 (300 kB)",
            ],
        ),
        ("me/model:Q5_K_M", ["me/model has no GGUF file of type Q5_K_M", "available: BF16"]),
        ("me/model:Q4_K", ["no GGUF file of type Q4_K", "Q4_K_M (200 kB)"]),
        (
            "me/model:q6_k",
            [
                "Q6_K of me/model is incomplete: the repository lacks VL-3B-Q6_K-00001-of-00002.gguf",
                "choose another type of me/model; available: BF16",
            ],
        ),
    ] {
        let (_, text) = case.refused_id(id);
        assert!(parts.iter().all(|part| text.contains(part)), "{id}: {text}");
    }
    let safetensors = Case::plain();
    let (_, text) = safetensors.refused_id("me/model:Q8_0");
    assert!(text.contains("no GGUF file of type Q8_0") && text.contains("pull it without a type"), "{text}");
    assert!(case.server.asked(".gguf").is_empty() && case.blobs().is_empty());
}

#[test]
fn what_cannot_be_used_is_refused_before_the_language_model() {
    let named = |architecture: &'static str| {
        let quirk = move |request: &server::Request, _: usize, reply: &mut Reply| {
            if request.path.starts_with("/api/") {
                let mut listing: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
                listing["gguf"] = serde_json::json!({ "architecture": architecture, "total": 7 });
                reply.body = listing.to_string().into_bytes();
            }
        };
        Case::new(files(), Box::new(quirk))
    };
    let other = named("gemma3");
    let (_, text) = other.refused_id("me/model:Q8_0");
    assert!(text.contains("unsupported architecture `gemma3`, expected one of: qwen2vl"), "{text}");
    assert!(other.server.asked(".gguf").is_empty());
    // The hub may name the architecture of either file.
    for known in ["qwen2vl", "qwen3vl", "llama", "clip"] {
        named(known).pull_id("me/model:Q8_0", &mut Recorder::default()).unwrap();
    }

    let case = case();
    let refused = case.pull_id("me/model:Q8_0", &mut Recorder { refuse: true, ..Recorder::default() });
    assert_eq!(refused.unwrap_err().to_string(), "unknown");
    assert!(case.server.asked("q8_0.gguf").is_empty() && case.blobs().len() == 1);
}

#[test]
fn types_that_are_not_supported_end_the_download_after_the_header() {
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures/gguf/gqa_tied/model-q8_0.gguf");
    let mut bytes = fs::read(fixture).unwrap();
    let tensor = b"blk.0.attn_q.weight";
    let at = bytes.windows(tensor.len()).position(|part| part == tensor).unwrap();
    // After its name come the number of dimensions and two of them, then the type: TQ2_0.
    bytes[at + tensor.len() + 20] = 35;
    let header = bytes.len();
    bytes.resize(header + 8_000_000, 0);
    let size = bytes.len() as u64;
    let odd = File { name: "VL-3B-TQ2_0.gguf", bytes, large: true };
    let case = Case::new(files().into_iter().chain([odd]).collect(), Box::new(|_, _, _| {}));
    let mut recorder = Recorder::default();
    let failure = Failure::from(case.pull_id("me/model:TQ2_0", &mut recorder).unwrap_err());
    assert_eq!(failure.class, FailureClass::Input);
    let error =
        "me/model:TQ2_0: unsupported tensor types: TQ2_0 (1 tensor: blk.*.attn_q.weight); expected one of";
    assert!(failure.error.starts_with(error), "{}", failure.error);
    let hint = "choose another type of me/model; available: BF16 (400 kB in 2 files), Q4_K_M (200 kB), Q8_0 (300 kB)";
    assert_eq!(failure.hint.as_deref(), Some(hint));
    let done = recorder.seen.last().unwrap().done;
    assert!(done < size / 2, "{done} of {size} bytes were downloaded");
}

#[test]
fn names_are_encoded_in_urls() {
    let [text, tower] = ["My model #2 (100%) + ä?-Q4_K_M.gguf", "mmproj-My model #2 (100%) + ä?-f16.gguf"];
    let files = [text, tower].map(|name| File { name, bytes: name.as_bytes().to_vec(), large: true });
    let case = Case::new(files.to_vec(), Box::new(|_, _, _| {}));
    let pulled = case.pull_id("me/model:q4_k_m", &mut Recorder::default()).unwrap();
    assert_eq!(fs::read(pulled.path()).unwrap(), text.as_bytes());
    assert_eq!(fs::read(pulled.mmproj.unwrap()).unwrap(), tower.as_bytes());
    let asked = case.server.asked("-Q4_K_M.gguf");
    let path =
        format!("/me/model/resolve/{COMMIT}/My%20model%20%232%20%28100%25%29%20%2B%20%C3%A4%3F-Q4_K_M.gguf");
    assert_eq!(asked[0].path, path);
}
