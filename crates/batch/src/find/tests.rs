use super::*;
use specreel_record::FailureClass;

fn folder(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in files {
        let file = dir.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "x").unwrap();
    }
    dir
}

fn found(arguments: &[PathBuf]) -> Vec<PathBuf> {
    find(arguments, &|_| Ok(None)).unwrap().clips.into_iter().map(|clip| clip.relative).collect()
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[test]
fn a_directory_gives_its_videos_by_their_paths() {
    let dir = folder(&["b.mp4", "a/x.MKV", "a/notes.txt", ".hidden/c.mp4", "out.mp4", ".gitignore"]);
    std::fs::write(dir.path().join(".gitignore"), "out.mp4\n").unwrap();
    #[cfg(unix)]
    for (to, link) in [(dir.path(), "a/up"), (Path::new("nowhere.mp4"), "dead.mp4")] {
        std::os::unix::fs::symlink(to, dir.path().join(link)).unwrap();
    }
    let all = vec![dir.path().to_owned()];
    assert_eq!(found(&all), paths(&["a/x.MKV", "b.mp4"]));
    // Named twice, it is found once.
    assert_eq!(found(&[all[0].clone(), dir.path().join("b.mp4")]), paths(&["a/x.MKV", "b.mp4"]));
    let none = find(&[dir.path().join(".hidden/none")], &|_| Ok(None)).unwrap();
    assert_eq!(none.clips.len(), 1, "a named file need not exist");
    let empty = tempfile::tempdir().unwrap();
    let failure = find(&[empty.path().into()], &|_| Ok(None)).unwrap_err();
    assert!(
        failure.class == FailureClass::Input && failure.error.starts_with("no videos in "),
        "{failure:?}"
    );
}

#[test]
fn a_list_holds_any_names() {
    let dir = folder(&["b.mp4"]);
    let odd = &b"caf\xe9, \"1\".mp4"[..];
    let list = dir.path().join("list.txt");
    std::fs::write(&list, [b"# clips\r\n\r\nx/y.mp4\r\n", odd].concat()).unwrap();
    let argument = PathBuf::from(format!("@{}", list.display()));
    assert_eq!(found(std::slice::from_ref(&argument)), [PathBuf::from("x/y.mp4"), names::path(odd)]);
    // Names with line breaks.
    std::fs::write(&list, b"a\nb.mp4\0c.mp4\0").unwrap();
    assert_eq!(found(&[argument]), paths(&["a\nb.mp4", "c.mp4"]));
    std::fs::write(&list, "# nothing\n").unwrap();
    let failure = find(&[format!("@{}", list.display()).into()], &|_| Ok(None)).unwrap_err();
    assert!(failure.error.ends_with("it names no video"), "{failure:?}");
    assert!(find(&["@no/such/list".into()], &|_| Ok(None)).is_err());
}

#[test]
fn patterns_that_the_shell_left_alone_are_expanded() {
    let dir = folder(&["a/1.mp4", "a/2.mkv", "a/b/3.mp4", "c/4.mp4"]);
    let names = |pattern: &str| {
        let clips = find(&[dir.path().join(pattern)], &|_| Ok(None)).unwrap().clips;
        clips.iter().map(|c| c.path().strip_prefix(dir.path()).unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("a/*.mp4"), paths(&["a/1.mp4"]));
    assert_eq!(names("*/*.{mp4,mkv}"), paths(&["a/1.mp4", "a/2.mkv", "c/4.mp4"]));
    assert_eq!(names("**/*.mp4"), paths(&["a/1.mp4", "a/b/3.mp4", "c/4.mp4"]));
    assert!(find(&[dir.path().join("*.avi")], &|_| Ok(None)).is_err());
    // A file of that name is itself.
    std::fs::write(dir.path().join("[x].mp4"), "").unwrap();
    assert_eq!(names("[x].mp4"), paths(&["[x].mp4"]));
}

#[test]
fn a_named_file_keeps_its_directories_below_the_working_directory() {
    let of = |path: &str| {
        let clip = Clip::of_file(Path::new(path));
        (clip.root.to_path_buf(), clip.relative, Clip::of_file(Path::new(path)).path())
    };
    assert_eq!(of("./a/b.mp4"), ("".into(), "a/b.mp4".into(), "a/b.mp4".into()));
    assert_eq!(of("/x/b.mp4"), ("/x".into(), "b.mp4".into(), "/x/b.mp4".into()));
    assert_eq!(of("../b.mp4"), ("..".into(), "b.mp4".into(), "../b.mp4".into()));
}

#[test]
fn an_embedded_clip_is_read_elsewhere() {
    let named = |path: &Path| Ok((path == Path::new("demo:2")).then(|| "/cache/2.mkv".into()));
    let clips = find(&["demo:2".into(), "x.mp4".into()], &named).unwrap().clips;
    assert_eq!((clips[0].relative.clone(), clips[0].path()), ("demo-2".into(), "/cache/2.mkv".into()));
    assert_eq!(clips[1].path(), PathBuf::from("x.mp4"));
}
