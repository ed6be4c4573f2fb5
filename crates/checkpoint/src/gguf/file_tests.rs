use super::*;
use specreel_tensor::BlockKind;

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
        (base().pair("split.count", 2, &split), "one of 3 parts"),
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
        (
            base().tensor("a", &[256], 34, 0).tensor("b", &[256], 40, 64).tensor("c", &[256], 40, 224),
            "unsupported tensor types: NVFP4 (2 tensors), TQ1_0 (1 tensor), expected one of: F32, F16",
        ),
        (base().tensor("w", &[4], 0, 8).data(64), "not aligned"),
        (base().tensor("w", &[9], 0, 0).data(32), "ends 4 bytes after the file"),
        (base().tensor("w", &[4], 0, 0).tensor("w", &[4], 0, 32).data(64), "`w` twice"),
        (base().tensor("w", &[9], 0, 0).tensor("v", &[4], 0, 32).data(64), "overlap"),
        (base().tensor("", &[4], 0, 0), "is empty"),
    ] {
        refused(&draft, words);
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
