use super::*;
use crate::{Kind, rows::Caption};

fn row(kind: Kind, path: &str, text: &str) -> String {
    kind.row(path, &Caption { prompt: "p".into(), text: text.into(), ..Caption::default() })
}

#[test]
fn parts_of_any_split_merge_to_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..9).map(|i| format!("c/{i}, \"x\".mp4")).collect();
    for kind in [Kind::Jsonl, Kind::Csv, Kind::Musubi, Kind::Ltx, Kind::Hf] {
        let mut merged = Vec::new();
        for parts in [1, 2, 4] {
            let files: Vec<PathBuf> = (0..parts)
                .map(|part| {
                    let file = dir
                        .path()
                        .join(format!("part-{part}.{}", if kind == Kind::Csv { "csv" } else { "jsonl" }));
                    let mine = names.iter().enumerate().filter(|(i, _)| i % parts == part);
                    let text: String =
                        mine.map(|(i, name)| row(kind, name, &format!("caption {i}\n2"))).collect();
                    std::fs::write(&file, kind.head() + &text).unwrap();
                    file
                })
                .collect();
            let out = dir.path().join("all.out");
            assert_eq!(merge(&out, &files).unwrap(), Merged { rows: 9, replaced: 0, damaged: 0 });
            merged.push(std::fs::read_to_string(out).unwrap());
        }
        assert!(merged[0] == merged[1] && merged[1] == merged[2], "{kind:?}");
        assert!(merged[0].matches("caption").count() >= 9);
    }
}

#[test]
fn paths_stay_those_of_the_same_files() {
    let dir = tempfile::tempdir().unwrap();
    let part = dir.path().join("sub/part.jsonl");
    std::fs::create_dir_all(part.parent().unwrap()).unwrap();
    std::fs::write(&part, row(Kind::Ltx, "a.mp4", "x") + &row(Kind::Ltx, "a.mp4", "later") + "{\"half")
        .unwrap();
    let out = dir.path().join("all.jsonl");
    assert_eq!(
        merge(&out, std::slice::from_ref(&part)).unwrap(),
        Merged { rows: 1, replaced: 1, damaged: 1 }
    );
    assert_eq!(
        std::fs::read_to_string(&out).unwrap(),
        "{\"caption\":\"later\",\"media_path\":\"sub/a.mp4\"}\n"
    );
    let other = dir.path().join("other.jsonl");
    std::fs::write(&other, row(Kind::Hf, "b.mp4", "x")).unwrap();
    assert!(merge(&out, &[part, other]).unwrap_err().error.contains("columns or keys"));
    assert!(merge(&out, &[dir.path().join("none.jsonl")]).is_err());
}

#[test]
fn problems_and_statistics() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.mp4"), "").unwrap();
    let file = dir.path().join("set.jsonl");
    let rows = [("a.mp4", "The video shows a cat."), ("a.mp4", "The video shows a dog."), ("b.mp4", " ")];
    let text: String = rows.iter().map(|(path, text)| row(Kind::Jsonl, path, text)).collect();
    std::fs::write(&file, text + "nonsense\n{\"vid").unwrap();
    let set = Dataset::read(&file).unwrap();
    let expected = Problems {
        damaged: vec![4],
        cut: true,
        twice: vec!["a.mp4".into()],
        missing: vec!["b.mp4".into()],
        empty: vec!["b.mp4".into()],
        confused: Vec::new(),
    };
    assert_eq!(set.check(), expected);
    let stats = set.stats();
    assert_eq!((stats.rows, stats.videos, stats.prompts, stats.words), (3, 2, 1, [0, 5, 5]));
    assert_eq!(stats.openings, [("The video shows".to_owned(), 2)]);
    std::fs::write(&file, "hello\n").unwrap();
    assert!(Dataset::read(&file).is_err());
}

/// musubi-tuner names cached latents after the file name, the LTX trainers after the path, both without the extension.
#[test]
fn videos_that_a_trainer_takes_for_each_other_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a/one.mp4", "a/one.mkv", "b/one.mp4", "b/two.mp4", "a/one.mkv"];
    for (kind, expected) in [
        (Kind::Musubi, &["a/one.mkv", "b/one.mp4"][..]),
        (Kind::Ltx, &["a/one.mkv"]),
        (Kind::Hf, &[]),
        (Kind::Jsonl, &[]),
    ] {
        let file = dir.path().join(kind.file_name());
        let text: String = paths.iter().map(|path| row(kind, path, "A cat.")).collect();
        std::fs::write(&file, text).unwrap();
        assert_eq!(Dataset::read(&file).unwrap().check().confused, expected, "{kind:?}");
    }
}
