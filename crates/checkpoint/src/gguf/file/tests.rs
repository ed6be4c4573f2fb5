use std::path::PathBuf;

use specreel_record::Failure;
use tempfile::TempDir;

use super::*;
use crate::gguf::MAGIC;
use specreel_tensor::BlockKind;

/// Numbers of types that are not supported.
const TQ1_0: u32 = 34;
const TQ2_0: u32 = 35;

#[derive(Clone, Default)]
struct Draft {
    version: Option<u32>,
    pairs: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data: usize,
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

impl Draft {
    fn pair(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.pairs.push([&string(key)[..], &kind.to_le_bytes(), value].concat());
        self
    }

    fn tensor(mut self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Self {
        let dims_bytes: Vec<u8> = dims.iter().flat_map(|n| n.to_le_bytes()).collect();
        let count = (dims.len() as u32).to_le_bytes();
        self.tensors.push(
            [&string(name)[..], &count, &dims_bytes, &kind.to_le_bytes(), &offset.to_le_bytes()].concat(),
        );
        self
    }

    /// As part `number` of `count`, of a model of so many tensors.
    fn part(self, number: u16, count: u16, tensors: i32) -> Self {
        self.pair("split.no", 2, &(number - 1).to_le_bytes())
            .pair("split.count", 2, &count.to_le_bytes())
            .pair("split.tensors.count", 5, &tensors.to_le_bytes())
    }

    fn data(mut self, bytes: usize) -> Self {
        self.data = bytes;
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.version.unwrap_or(3).to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.pairs.len() as u64).to_le_bytes());
        bytes.extend(self.pairs.concat());
        bytes.extend(self.tensors.concat());
        bytes.resize(bytes.len().next_multiple_of(32) + self.data, 0);
        bytes
    }
}

fn open(bytes: &[u8]) -> Result<GgufFile, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    GgufFile::open(file.path()).map_err(|e| e.to_string())
}

fn refused(draft: &Draft, words: &str) {
    let error = open(&draft.bytes()).map(|_| ()).unwrap_err();
    assert!(error.contains(words), "expected {words}: {error}");
}

#[test]
fn values_and_tensors_are_read() {
    let numbers =
        [&4u32.to_le_bytes()[..], &2u64.to_le_bytes(), &7u32.to_le_bytes(), &9u32.to_le_bytes()].concat();
    let strings = [&8u32.to_le_bytes()[..], &2u64.to_le_bytes(), &string("a"), &string("")].concat();
    let draft = Draft::default()
        .pair("n", 5, &(-3i32).to_le_bytes())
        .pair("u", 0, &[200])
        .pair("f", 6, &1.5f32.to_le_bytes())
        .pair("b", 7, &[1])
        .pair("s", 8, &string("text"))
        .pair("numbers", 9, &numbers)
        .pair("strings", 9, &strings)
        .tensor("w", &[32, 3], 8, 0)
        .tensor("v", &[5], 0, 128)
        .data(160);
    let file = open(&draft.bytes()).unwrap();
    let m = &file.metadata;
    assert!(
        m.integer("n").unwrap_err().contains("from 0 on")
            && m.integer("s").unwrap_err().contains("is a string")
    );
    assert_eq!(
        (m.integer("u"), m.number("n"), m.number("f")),
        (Ok(Some(200)), Ok(Some(-3.0)), Ok(Some(1.5)))
    );
    assert_eq!((m.string("s"), m.string("none")), (Ok(Some("text")), Ok(None)));
    assert_eq!(
        (m.integers("numbers"), m.strings("strings")),
        (Ok(Some(vec![7, 9])), Ok(Some(vec!["a", ""])))
    );
    assert!(m.strings("numbers").is_err() && m.integers("strings").is_err());
    let w = &file.tensors["w"];
    assert_eq!((&w.shape[..], w.kind.name(), w.bytes()), (&[3, 32][..], "q8_0", 102));
    assert_eq!(file.values(&file.tensors["v"]).unwrap().as_bytes(), [0; 20]);
}

#[test]
fn headers_that_cannot_be_are_refused() {
    let base = Draft::default;
    for (version, words) in
        [(1, "version 1"), (4, "version 4"), (3u32.swap_bytes(), "big-endian"), (0, "version 0")]
    {
        refused(&Draft { version: Some(version), ..base() }, words);
    }
    assert!(open(b"GG").map(|_| ()).unwrap_err().contains("not a GGUF file"));
    assert!(open(b"").is_err() && open(b"GGUF\x03\0\0\0").map(|_| ()).unwrap_err().contains("truncated"));
    let mut lying = base().bytes();
    lying[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(open(&lying).map(|_| ()).unwrap_err().contains("tensors, the limit is"));
    let nested = [&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat();
    let endless = [&4u32.to_le_bytes()[..], &u64::MAX.to_le_bytes()].concat();
    let long = (1u64 << 40).to_le_bytes();
    let split = 3u16.to_le_bytes();
    for (draft, words) in [
        (base().pair("a", 9, &nested), "arrays of arrays"),
        (base().pair("a", 9, &endless), "the limit is"),
        (base().pair("a", 8, &long), "a string of"),
        (base().pair("a", 99, &[]), "unknown type 99"),
        (base().pair("a", 7, &[2]), "boolean 2"),
        (base().pair("", 0, &[2]), "a key is empty"),
        (base().pair("a", 0, &[2]).pair("a", 0, &[2]), "the key `a` twice"),
        (base().pair("split.count", 2, &split), "`split.no` is missing"),
        (base().part(2, 3, 4), "it is part 2 of 3 of a split model, but its name does not say so"),
        (base().pair("general.alignment", 4, &24u32.to_le_bytes()), "power of two"),
        (base().pair("general.alignment", 4, &0u32.to_le_bytes()), "power of two"),
        (base().pair("general.alignment", 4, &(1u32 << 31).to_le_bytes()), "power of two"),
        (base().pair("general.alignment", 8, &string("32")), "expected an integer"),
        (base().tensor("w", &[], 0, 0), "0 dimensions"),
        (base().tensor("w", &[1; 5], 0, 0), "5 dimensions"),
        (base().tensor("w", &[4, 0], 0, 0), "an empty dimension"),
        (base().tensor("w", &[1 << 40, 1 << 40], 0, 0), "too large"),
        (base().tensor("w", &[4], 0, u64::MAX - 31), "too large"),
        (base().tensor("w", &[33], 8, 0), "no blocks of 32"),
        (base().tensor("w", &[4], 0, 8).data(64), "not aligned"),
        (
            base().tensor("w", &[9], 0, 0).data(32),
            "it is truncated: the last 4 bytes are missing, with all or a part of 1 of 1 tensors",
        ),
        (base().tensor("w", &[4], 0, 0).tensor("w", &[4], 0, 32).data(64), "`w` twice"),
        (base().tensor("w", &[9], 0, 0).tensor("v", &[4], 0, 32).data(64), "overlap"),
        (base().tensor("", &[4], 0, 0), "is empty"),
    ] {
        refused(&draft, words);
    }
}

/// A directory with these files.
fn folder(files: &[(&str, Vec<u8>)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    dir
}

/// A model in three parts: the first one has no tensors, the third one has other data.
fn parts() -> [Draft; 3] {
    let base = Draft::default;
    [
        base().pair("general.architecture", 8, &string("qwen2vl")).part(1, 3, 3),
        base().part(2, 3, 3).tensor("a", &[32, 3], 8, 0).tensor("b", &[8], 0, 128).data(160),
        base().part(3, 3, 3).tensor("c", &[4], 0, 0).data(16),
    ]
}

const PARTS: [&str; 3] = ["m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"];

fn named(drafts: &[Draft; 3]) -> Vec<(&'static str, Vec<u8>)> {
    PARTS.into_iter().zip(drafts).map(|(name, draft)| (name, draft.bytes())).collect()
}

#[test]
fn any_part_opens_all_of_a_split_model() {
    let mut files = named(&parts());
    let last = files[2].1.len() - 16;
    files[2].1[last..].copy_from_slice(&[7; 16]);
    let dir = folder(&files);
    for part in PARTS {
        let file = GgufFile::open(&dir.path().join(part)).unwrap();
        assert_eq!(file.tensors.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(file.path(), dir.path().join(PARTS[0]));
        assert_eq!(file.size(), files.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>());
        assert_eq!(file.raw(&file.tensors["c"]), [7; 16]);
        assert_eq!(file.values(&file.tensors["c"]).unwrap().as_bytes(), [7; 16]);
        assert_eq!(file.values(&file.tensors["b"]).unwrap().as_bytes(), [0; 32]);
        let metadata = GgufFile::metadata(&dir.path().join(part)).unwrap();
        assert_eq!(metadata.string("general.architecture"), Ok(Some("qwen2vl")));
    }
    // One part is a whole model, and so is a file that is only named like a part.
    for (name, draft) in [
        ("m-00001-of-00001.gguf", parts()[0].clone()),
        ("m-00002-of-00004.gguf", Draft::default().pair("general.architecture", 8, &string("llama"))),
    ] {
        let mut draft = Draft { pairs: draft.pairs[..1].to_vec(), ..draft }.tensor("w", &[4], 0, 0).data(16);
        if name.starts_with("m-00001") {
            draft = draft.part(1, 1, 1);
        }
        let dir = folder(&[(name, draft.bytes())]);
        assert_eq!(GgufFile::open(&dir.path().join(name)).unwrap().tensors.len(), 1);
    }
}

/// The errors of the model in a directory that `path` names, each with its hint.
fn problems(dir: &TempDir, path: &str) -> Vec<(String, String)> {
    let problems = GgufFile::read(&dir.path().join(path)).map(|_| ()).unwrap_err();
    let failures = problems.into_iter().map(Failure::from);
    let folder = format!("{}/", dir.path().display());
    failures.map(|failure| (failure.error.replace(&folder, ""), failure.hint.unwrap())).collect()
}

#[test]
fn parts_that_do_not_make_a_model_are_refused() {
    const AGAIN: &str = "download all parts of one model again";
    const TOGETHER: &str = "put all parts into one directory";
    let [first, second, third] = parts();
    let base = Draft::default;
    let other_model = base().part(2, 3, 9).tensor("a", &[4], 0, 0).data(16);
    let other_count = base().part(2, 4, 3).tensor("a", &[4], 0, 0).data(16);
    let without_number = base().pair("split.count", 2, &3u16.to_le_bytes());
    let twice = base().part(3, 3, 3).tensor("b", &[4], 0, 0).data(16);
    let llama = base().pair("general.architecture", 8, &string("llama")).part(3, 3, 3);
    let short = base().part(3, 3, 3).tensor("c", &[4], 0, 0).data(9);
    let whole = base().tensor("w", &[4], 0, 0).data(16);
    let set = |second: &Draft, third: &Draft| folder(&named(&[first.clone(), second.clone(), third.clone()]));
    for (dir, expected) in [
        (
            folder(&named(&parts())[1..2]),
            &[(
                "2 of the 3 parts of this model are missing: m-00001-of-00003.gguf, m-00003-of-00003.gguf",
                TOGETHER,
            )][..],
        ),
        (
            set(&third, &second),
            &[
                ("m-00002-of-00003.gguf: its name says part 2 of 3, but it is part 3 of 3", AGAIN),
                ("m-00003-of-00003.gguf: its name says part 3 of 3, but it is part 2 of 3", AGAIN),
            ],
        ),
        (set(&other_count, &third), &[("its name says part 2 of 3, but it is part 2 of 4", AGAIN)]),
        (set(&second, &whole), &[("its name says part 3 of 3, but it is a whole model", AGAIN)]),
        (set(&without_number, &third), &[("m-00002-of-00003.gguf: `split.no` is missing", AGAIN)]),
        (
            set(&other_model, &third),
            &[(
                "it is of a model of 9 tensors, but part 1 is of one of 3: they are of different models",
                AGAIN,
            )],
        ),
        (set(&second, &twice), &[("m-00003-of-00003.gguf: tensor `b` is also in part 2", AGAIN)]),
        (set(&second, &llama), &[("it is of a `llama` model, but part 1 is of a `qwen2vl` model", AGAIN)]),
        (
            set(&second, &base().part(3, 3, 3)),
            &[(
                "m-00001-of-00003.gguf: its 3 parts have 2 tensors together, `split.tensors.count` is 3",
                AGAIN,
            )],
        ),
        // Everything at once.
        (
            folder(&[(PARTS[1], other_count.bytes()), (PARTS[2], short.bytes())]),
            &[
                ("1 of the 3 parts of this model is missing: m-00001-of-00003.gguf", TOGETHER),
                (
                    "m-00003-of-00003.gguf: not a valid GGUF file: it is truncated: the last 7 bytes",
                    "download the file again",
                ),
                ("m-00002-of-00003.gguf: its name says part 2 of 3, but it is part 2 of 4", AGAIN),
            ],
        ),
    ] {
        let found = problems(&dir, PARTS[1]);
        let fits = |(found, (error, hint)): (&(String, String), &(&str, &str))| {
            found.0.contains(error) && found.1.contains(hint)
        };
        assert!(
            found.len() == expected.len() && found.iter().zip(expected).all(fits),
            "{expected:?}: {found:#?}"
        );
    }
    let many =
        folder(&[("m-00002-of-99999.gguf", second.bytes()), ("m-00009-of-00030.gguf", second.bytes())]);
    let found = problems(&many, "m-00002-of-99999.gguf");
    assert!(found[0].0.contains("has 99999 parts, the limit is 1024"), "{found:?}");
    let found = problems(&many, "m-00009-of-00030.gguf");
    assert!(
        found[0].0.contains("29 of the 30 parts") && found[0].0.ends_with("00004-of-00030.gguf, 25 more")
    );
    let together = GgufFile::open(&many.path().join("m-00009-of-00030.gguf")).map(|_| ()).unwrap_err();
    let together = Failure::from(together);
    assert!(
        together.error.contains("25 more; its name says part 9 of 30, but it is part 2 of 3"),
        "{together:?}"
    );
    assert!(together.hint.unwrap().contains(&format!("{TOGETHER}, under their published names; {AGAIN}")));
}

#[test]
fn unsupported_types_are_listed_with_their_tensors_and_what_can_be_used() {
    let bad = |pairs: &[(&str, &str)]| {
        let named = |draft: Draft, (key, value): &(&str, &str)| draft.pair(key, 8, &string(value));
        let base = pairs.iter().fold(Draft::default(), named);
        let base = base.tensor("blk.0.w.weight", &[256], TQ2_0, 0).tensor("output.weight", &[256], TQ2_0, 64);
        base.tensor("blk.11.w.weight", &[256], TQ2_0, 128).tensor("t", &[256], TQ1_0, 192).data(256).bytes()
    };
    let (good, empty) = (Draft::default().tensor("w", &[4], 0, 0).data(16).bytes(), bad(&[]));
    let error = "unsupported tensor types: TQ2_0 (3 tensors: blk.*.w.weight, output.weight), TQ1_0 (1 tensor: t); \
                 expected one of: F32";
    let check = |path: &str, bytes: &[u8], beside: Option<(&str, &[u8])>, hint: &str| {
        let files = beside.into_iter().chain([(path, bytes)]);
        let dir = folder(&files.map(|(name, bytes)| (name, bytes.to_vec())).collect::<Vec<_>>());
        let found = problems(&dir, path);
        assert_eq!(found.len(), 1);
        assert!(found[0].0.contains(error) && found[0].1.ends_with(hint), "expected {hint}: {found:?}");
    };
    let name = "VL-3B-Q4_K_M.gguf";
    let plain = "use the Q8_0 file of this model, often named VL-3B-Q8_0.gguf";
    check(name, &empty, None, plain);
    // Another file of the model, but none of another model or with such types itself.
    let usable = "use VL-3B-F16.gguf, which is in the same directory and can be used";
    check(name, &empty, Some(("VL-3B-F16.gguf", &good)), usable);
    check(name, &empty, Some(("VL-3B-Q8_0.gguf", &empty)), plain);
    check(name, &empty, Some(("VL-7B-Q8_0.gguf", &good)), plain);
    // The repository, by the cache and by the metadata.
    let cached = |file: &str| format!("models--me--VL-GGUF/snapshots/0123/{file}");
    let pulled = "use the Q8_0 file of this model: specreel models pull me/VL-GGUF:Q8_0";
    check(&cached(name), &empty, None, pulled);
    let other = format!("specreel models pull me/VL-GGUF:{}", published::usable(Some("Q8_0")));
    check(&cached("Q8_0/VL-3B-Q8_0.gguf"), &empty, None, &other);
    let of = |key: &str, repository: &str| bad(&[(key, &format!("https://huggingface.co/{repository}"))]);
    let (own, base) = ("general.repo_url", "general.base_model.0.repo_url");
    check(name, &of(own, "you/VL-GGUF"), None, "specreel models pull you/VL-GGUF:Q8_0");
    let original = format!("{plain}, or the original: specreel models pull you/VL-3B");
    check(name, &of(base, "you/VL-3B"), None, &original);
    // The base of a fine-tuned model, an owner alone, and what is no name.
    for (key, repository) in [(base, "you/Base-3B"), (own, "unsloth"), (own, "a/b\u{1b}[2Jgguf")] {
        check(name, &of(key, repository), None, plain);
    }
    assert_ne!(published::usable(Some("Q8_0")), "Q8_0");
    let dir = folder(&[(name, empty)]);
    let types = GgufFile::types(&dir.path().join(name));
    let types: Vec<_> = types.iter().map(|t| (t.dtype.as_str(), t.tensors, t.values, t.bytes)).collect();
    assert_eq!(types, [("tq2_0", 3, 768, 192), ("tq1_0", 1, 256, 64)]);
}

/// Many lengths, and every byte changed in two ways: an error with a way out, or a file whose tensors can be read.
#[test]
fn damaged_headers_never_panic() {
    let whole = named(&parts());
    let dir = folder(&whole);
    let path = |part: usize| -> PathBuf { dir.path().join(PARTS[part]) };
    let open = || match GgufFile::read(&path(1)) {
        Ok(file) => {
            for tensor in file.tensors.values() {
                assert_eq!(file.raw(tensor).len(), tensor.bytes());
            }
            true
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            for failure in problems.into_iter().map(Failure::from) {
                assert!(!failure.error.is_empty() && failure.hint.is_some(), "{failure:?}");
            }
            GgufFile::types(&path(1));
            false
        }
    };
    assert!(open());
    for (part, (_, bytes)) in whole.iter().enumerate() {
        for length in (0..bytes.len()).step_by(3) {
            std::fs::write(path(part), &bytes[..length]).unwrap();
            assert!(!open() || part == 0, "part {} of {length} bytes", part + 1);
        }
        let header = bytes.len().min(400);
        for (at, change) in (0..header).flat_map(|at| [1u8, 0xff].map(|change| (at, change))) {
            let mut damaged = bytes.clone();
            damaged[at] ^= change;
            std::fs::write(path(part), damaged).unwrap();
            open();
        }
        std::fs::write(path(part), bytes).unwrap();
    }
}

#[test]
fn blocks_of_every_type_have_the_values_of_the_gguf_package() {
    // See `tests/parity/make_gguf_types.py`.
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/parity/fixtures/gguf/types.gguf");
    let file = GgufFile::open(&path).unwrap();
    assert_eq!(file.tensors.len(), 2 * BlockKind::ALL.len());
    for kind in BlockKind::ALL {
        let (blocks, values) =
            (&file.tensors[kind.name()], &file.tensors[&format!("{}.values", kind.name())]);
        assert_eq!((blocks.kind, &blocks.shape), (TensorType::Blocks(kind), &values.shape));
        let widened = |tensor| {
            let mut wide = Vec::new();
            file.values(tensor).unwrap().widen(0..tensor.values(), &mut wide);
            wide.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
        };
        assert!(widened(blocks) == widened(values), "{}", kind.name());
    }
}
