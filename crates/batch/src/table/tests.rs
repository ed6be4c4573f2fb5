use proptest::prelude::*;

use super::*;
use crate::rows::{Caption, read};

fn row(kind: Kind, path: &str, text: &str) -> (u64, String) {
    let caption = Caption { prompt: "p".into(), text: text.into(), ..Caption::default() };
    (kind.key(path, "p"), kind.row(path, &caption))
}

fn paths(file: &Path, kind: Kind) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let contents = read(&text, kind == Kind::Csv, true);
    assert!(contents.damaged.is_empty() && contents.whole == text.len(), "{text}");
    contents.rows.into_iter().map(|row| row.path).collect()
}

#[test]
fn processes_share_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("set/dataset.csv");
    let mut one = Table::open(&file, Kind::Csv).unwrap();
    let mut two = Table::open(&file, Kind::Csv).unwrap();
    assert!(!file.exists());
    one.append(&[row(Kind::Csv, "a", "1\n2")], false).unwrap();
    two.append(&[row(Kind::Csv, "a", "other"), row(Kind::Csv, "b", "3")], false).unwrap();
    assert!(two.has(Kind::Csv.key("a", "p")) && !one.has(Kind::Csv.key("b", "p")));
    one.refresh().unwrap();
    assert!(one.has(Kind::Csv.key("b", "p")));
    assert_eq!(paths(&file, Kind::Csv), ["a", "b"]);
    assert!(std::fs::read_to_string(&file).unwrap().contains("1\n2"));
}

#[test]
fn later_rows_replace_earlier_ones() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dataset.jsonl");
    let (mut one, mut two) = (Table::open(&file, Kind::Ltx).unwrap(), Table::open(&file, Kind::Ltx).unwrap());
    one.append(&[row(Kind::Ltx, "a", "old"), row(Kind::Ltx, "b", "1")], false).unwrap();
    two.append(&[row(Kind::Ltx, "a", "new")], true).unwrap();
    assert_eq!(paths(&file, Kind::Ltx), ["a", "b", "a"]);
    two.compact().unwrap();
    assert_eq!(paths(&file, Kind::Ltx), ["a", "b"]);
    // The other one writes to the new file.
    one.append(&[row(Kind::Ltx, "c", "2")], false).unwrap();
    assert_eq!(paths(&file, Kind::Ltx), ["a", "b", "c"]);
    assert!(std::fs::read_to_string(&file).unwrap().contains("new"));
}

#[test]
fn files_of_another_form_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x");
    for (text, kind) in [
        ("{\"video_path\":\"a\",\"caption\":\"b\"}\n", Kind::Jsonl),
        ("name,text\na,b\n", Kind::Csv),
        ("hello\n", Kind::Hf),
        ("{\"file_name\":\"a\",\"caption\":\"b\"}\n", Kind::Csv),
    ] {
        std::fs::write(&file, text).unwrap();
        let failure = Table::open(&file, kind).unwrap_err();
        assert!(
            failure.class == FailureClass::Input && failure.error.contains("no data set of this form"),
            "{text}"
        );
    }
    assert!(Table::open(dir.path(), Kind::Csv).is_err(), "a directory");
    std::fs::write(&file, "").unwrap();
    let mut table = Table::open(&file, Kind::Csv).unwrap();
    table.prepare().unwrap();
    table.finish();
    assert!(!file.exists(), "an empty file is no data set");
}

#[test]
fn rows_behind_a_damaged_place_are_not_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    for (kind, name) in [(Kind::Csv, "a.csv"), (Kind::Jsonl, "a.jsonl")] {
        let file = dir.path().join(name);
        let rows: String = ["a", "b", "c"].map(|path| row(kind, path, "x").1).concat();
        let whole = (kind.head() + &rows).into_bytes();
        let at = whole.windows(3).position(|w| w == b"\"b\"").unwrap();
        // A quote is lost, or a byte is no UTF-8.
        let mut bytes = whole.clone();
        if kind == Kind::Csv {
            bytes.remove(at);
        } else {
            bytes[at + 1] = 0xff;
        }
        std::fs::write(&file, &bytes).unwrap();
        let failure = Table::open(&file, kind).unwrap_err();
        assert!(failure.error.contains("damaged after byte"), "{failure:?}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// A writer is killed after any number of bytes, again and again: nothing is lost, twice or half.
    #[test]
    fn a_killed_writer_leaves_a_file_that_goes_on(cuts in prop::collection::vec((0usize..6, 0.0f64..1.0), 1..5), kind in 0usize..5) {
        let kind = [Kind::Jsonl, Kind::Csv, Kind::Musubi, Kind::Ltx, Kind::Hf][kind];
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("data");
        let names: Vec<String> = (0..6).map(|i| format!("{i}, \"é\".mp4")).collect();
        let go = |upto: usize| {
            let mut table = Table::open(&file, kind).unwrap();
            for name in &names[..upto] {
                let (key, text) = row(kind, name, "A\nred, \"disc\"");
                if !table.has(key) {
                    table.append(&[(key, text)], false).unwrap();
                }
            }
        };
        for (upto, share) in cuts {
            go(upto);
            if let Ok(facts) = std::fs::metadata(&file) {
                // A write that was cut short.
                let length = facts.len() as usize;
                let last = length - length.min(20);
                let cut = last + ((length - last) as f64 * share) as usize;
                OpenOptions::new().write(true).open(&file).unwrap().set_len(cut as u64).unwrap();
            }
        }
        go(6);
        let mut found = paths(&file, kind);
        found.sort();
        prop_assert_eq!(found, names);
    }
}
