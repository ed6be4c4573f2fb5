use super::*;
use specreel_os::names;

const ALL: [Kind; 5] = [Kind::Jsonl, Kind::Csv, Kind::Musubi, Kind::Ltx, Kind::Hf];

fn caption(text: &str) -> Caption {
    Caption { prompt: "What?".into(), text: text.into(), ..Caption::default() }
}

#[test]
fn rows_have_the_keys_of_their_readers() {
    let row = |kind: Kind| kind.row("a/b.mp4", &caption("A \"disc\",\nred"));
    assert_eq!(row(Kind::Musubi), "{\"video_path\":\"a/b.mp4\",\"caption\":\"A \\\"disc\\\",\\nred\"}\n");
    assert_eq!(row(Kind::Ltx), "{\"caption\":\"A \\\"disc\\\",\\nred\",\"media_path\":\"a/b.mp4\"}\n");
    let hf: Value = serde_json::from_str(&row(Kind::Hf)).unwrap();
    assert_eq!(hf.as_object().unwrap().keys().collect::<Vec<_>>(), ["file_name", "caption", "prompt"]);
    assert_eq!(row(Kind::Csv), "\"a/b.mp4\",\"A \"\"disc\"\",\nred\",\"What?\",\"\"\n");
    assert_eq!(
        (Kind::Hf.file_name(), Kind::Csv.head()),
        ("metadata.jsonl", "\"video\",\"caption\",\"prompt\",\"cut\"\n".into())
    );
}

#[test]
fn rows_come_back_and_cut_ones_do_not() {
    for kind in ALL {
        let text = kind.head()
            + &kind.row("a.mp4", &caption("One\nline, \"é\""))
            + &kind.row("b.mp4", &caption("Two"));
        let all = read(&text, kind == Kind::Csv, true);
        assert_eq!((all.rows.len(), all.whole, all.damaged.len()), (2, text.len(), 0), "{kind:?}");
        assert_eq!((all.rows[0].path.as_str(), all.rows[0].caption.as_str()), ("a.mp4", "One\nline, \"é\""));
        let rest: String = all.rows.iter().map(|row| row.text.as_str()).collect();
        assert_eq!(kind.head() + &rest, text, "{kind:?}");
        // A last line break that an editor has removed is no damage; any other cut is an incomplete row.
        let first = kind.head().len() + all.rows[0].text.len();
        for cut in (first..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            let some = read(&text[..cut], kind == Kind::Csv, true);
            let expected = if cut == text.len() - 1 { (2, cut) } else { (1, first) };
            assert_eq!((some.rows.len(), some.whole), expected, "{kind:?} {cut}");
        }
    }
    let damaged = read("{\"video\":\"a\",\"caption\":\"x\"}\nnonsense\n\n{\"video\":\"b\"}\n", false, true);
    assert_eq!((damaged.rows.len(), damaged.damaged), (1, vec![2, 4]));
}

#[test]
fn paths_are_relative_to_the_file_where_their_reader_resolves_them() {
    let clip = |root: &str, relative: &str| Clip {
        root: Path::new(root).into(),
        relative: relative.into(),
        file: None,
    };
    let file = Path::new("/data/set/dataset.jsonl");
    let path = |kind: Kind, clip: &Clip| kind.path_of(clip, file);
    let inside = clip("/data/set/clips", "a/b.mp4");
    assert_eq!(path(Kind::Jsonl, &inside).unwrap(), "clips/a/b.mp4");
    assert_eq!(path(Kind::Ltx, &inside).unwrap(), "clips/a/b.mp4");
    assert_eq!(path(Kind::Musubi, &inside).unwrap(), "/data/set/clips/a/b.mp4");
    let outside = clip("/other", "b.mp4");
    assert_eq!(path(Kind::Csv, &outside).unwrap(), "/other/b.mp4");
    for kind in [Kind::Ltx, Kind::Hf] {
        assert!(path(kind, &outside).unwrap_err().error.contains("outside of /data/set"));
    }
    let odd = Clip { relative: names::path(b"caf\xe9.mp4"), ..clip("/data/set", "") };
    assert!(path(Kind::Jsonl, &odd).unwrap_err().error.contains("not UTF-8"));
    assert!(path(Kind::Ltx, &clip("/data/set", " a.mp4")).unwrap_err().error.contains("space"));
}

#[test]
fn several_prompts_are_several_rows_where_the_reader_takes_them() {
    for kind in ALL {
        assert_eq!(kind.key("a", "p") == kind.key("a", "q"), !kind.takes_several(), "{kind:?}");
        assert_ne!(kind.key("a", "p"), kind.key("b", "p"));
    }
}
