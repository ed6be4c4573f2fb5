use std::{fs, io::ErrorKind, time::Duration};

use super::{
    file::{CacheFile, CachedMatrix, Index, prefix},
    writer::CacheWriter,
    *,
};
use specreel_tensor::{
    WeightType,
    cpu::{builder::Builder, linear::Weight},
    kept::Keep,
};

const SHAPE: [usize; 2] = [37, 256];

fn weight(dtype: WeightType) -> Weight {
    let [outputs, inputs] = SHAPE;
    let mut builder = Builder::new(outputs, inputs, dtype);
    let values: Vec<f32> = (0..outputs * inputs).map(|i| (i as f32 * 0.37).sin()).collect();
    builder.push(&values).unwrap();
    builder.into_weight()
}

fn matrix(key: &str, weight: &Weight) -> CachedMatrix {
    let [outputs, inputs] = SHAPE;
    let tensors = vec![(format!("{key}.weight"), 7)];
    CachedMatrix { key: key.into(), format: weight.format(), outputs, inputs, arrays: Vec::new(), tensors }
}

fn index(model: &str) -> Index {
    Index { model: model.into(), variant: "q8_0".into(), matrices: Vec::new() }
}

fn wait() {
    wait_for_writers(Duration::from_secs(60));
}

/// A file with one matrix of each type.
fn write(cache: &WeightCache, id: &str) -> PathBuf {
    let writer = CacheWriter::start(cache.clone(), id.into(), index("m"), 1).unwrap();
    for dtype in WeightType::ALL {
        let weight = weight(dtype);
        writer.matrix(matrix(dtype.name(), &weight), Box::new(weight));
    }
    writer.end(None);
    wait();
    cache.path(id, ENDING)
}

fn cache() -> (tempfile::TempDir, WeightCache) {
    let dir = tempfile::tempdir().unwrap();
    let cache = WeightCache { dir: dir.path().join("weights"), limit: u64::MAX };
    (dir, cache)
}

#[test]
fn weights_come_back_as_they_were() {
    let (_dir, cache) = cache();
    let file = CacheFile::open(&write(&cache, "a")).unwrap();
    let [outputs, inputs] = SHAPE;
    for dtype in WeightType::ALL {
        let mapped = |shape| Weight::mapped(&file.matrix(dtype.name(), shape)?);
        let (was, is) = (weight(dtype), mapped(SHAPE).unwrap());
        assert!(is.is_mapped() && !was.is_mapped());
        assert!(was.format() == is.format() && was.arrays() == is.arrays(), "{dtype:?}");
        assert!(mapped([outputs + 16, inputs]).is_none() && mapped([outputs, inputs / 2]).is_none());
    }
    assert!(file.matrix("other", SHAPE).is_none());
    file.verify().unwrap();
    let entries = cache.entries();
    assert_eq!((entries.len(), entries[0].id.as_str()), (1, "a"));
    assert_eq!(entries[0].state, EntryState::Usable { model: "m".into(), variant: "q8_0".into() });
    assert!(entries[0].is_named("m") && entries[0].is_named("a") && !entries[0].is_named("b"));
}

#[test]
fn files_that_are_not_whole_are_refused() {
    let (_dir, cache) = cache();
    let path = write(&cache, "a");
    let whole = fs::read(&path).unwrap();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        CacheFile::open(&path).err().unwrap()
    };
    assert_eq!(with(&|bytes| bytes.truncate(10)), "incomplete");
    assert_eq!(with(&|bytes| bytes[..64].fill(0)), "incomplete");
    assert_eq!(with(&|bytes| bytes[20] ^= 1), "incomplete");
    assert!(with(&|bytes| bytes.truncate(bytes.len() - 1)).starts_with("truncated or extended"));
    assert!(with(&|bytes| bytes.push(0)).starts_with("truncated or extended"));
    assert_eq!(with(&|bytes| *bytes.last_mut().unwrap() ^= 1), "its index is damaged");
    let other = with(&|bytes| {
        bytes[8..12].copy_from_slice(&(FORMAT + 1).to_le_bytes());
        let end = prefix(0, &[]).len() - 8;
        let hash = twox_hash::XxHash3_64::oneshot(&bytes[..end]);
        bytes[end..end + 8].copy_from_slice(&hash.to_le_bytes());
    });
    assert_eq!(other, format!("of format {}, this program's is {FORMAT}", FORMAT + 1));
    // Damaged weights are found by reading them.
    let mut bytes = whole;
    bytes[file::ALIGN as usize] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(CacheFile::open(&path).unwrap().verify().unwrap_err(), "the weights of f32 are damaged");
    assert!(cache.entries()[0].verify().is_err());
}

#[test]
fn one_writer_at_a_time_and_nothing_is_left_of_one_that_gave_up() {
    let (_dir, cache) = cache();
    let first = CacheWriter::start(cache.clone(), "a".into(), index("m"), 1).unwrap();
    let second = CacheWriter::start(cache.clone(), "a".into(), index("m"), 1).err().unwrap();
    assert_eq!(second.kind(), ErrorKind::WouldBlock);
    assert_eq!(cache.remove_partial(), 0, "it is being written");
    drop(first);
    wait();
    assert_eq!(fs::read_dir(&cache.dir).unwrap().count(), 0);
    // What a killed process left is taken over.
    fs::write(cache.path("a", PARTIAL), vec![1; 1 << 20]).unwrap();
    let path = write(&cache, "a");
    CacheFile::open(&path).unwrap().verify().unwrap();
    fs::write(cache.path("b", PARTIAL), [1; 100]).unwrap();
    assert_eq!(cache.remove_partial(), 100);
    assert_eq!(fs::read_dir(&cache.dir).unwrap().count(), 1);
}

#[test]
fn the_least_recently_used_files_are_removed() {
    let (_dir, mut cache) = cache();
    let mut bytes = 0;
    for (id, age) in [("a", 30), ("b", 10), ("c", 20)] {
        let file = fs::File::open(write(&cache, id)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age * 1000)).unwrap();
        bytes = file.metadata().unwrap().len();
    }
    cache.limit = 2 * bytes + bytes / 2;
    write(&cache, "d");
    let ids = |cache: &WeightCache| cache.entries().into_iter().map(|entry| entry.id).collect::<Vec<_>>();
    assert_eq!(ids(&cache), ["d", "b"]);
    touch(&cache.path("b", ENDING));
    cache.limit = 1;
    cache.enforce_limit("d");
    assert_eq!(ids(&cache), ["d"], "the new one stays");
}
