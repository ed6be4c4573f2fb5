//! `specreel-lab scenes`.

use crate::program::Program;

#[test]
fn scenes_are_rendered_and_scored() {
    let program = Program::new();
    let rendered = program.run(&["scenes", "render", "--seed", "4", "a.mp4", "--size", "64x48"]).silent();
    assert!(program.home().join("a.mp4").metadata().unwrap().len() > 0);
    program.file("facts.json", &rendered.stdout);
    program.file("text", "Nothing happens.");
    for truth in [["--seed", "4"], ["--facts", "facts.json"]] {
        let score = program.run(&[&["scenes", "score", "text", "--json"][..], &truth].concat()).json();
        assert_eq!(score["right"], 0);
        assert_eq!(score["missing"], score["total"]);
    }
    let samples = program.command().args(["scenes", "stream", "--count", "1"]).output().unwrap();
    assert_eq!(samples.status.code(), Some(0));
    assert!(samples.stdout.len() > 8 * 112 * 112 * 3);
}

#[test]
fn a_closed_pipe_is_success() {
    let program = Program::new();
    let mut child = program.spawn(&["scenes", "stream"]);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[cfg(target_os = "linux")] // /dev/full
#[test]
fn a_full_disk_is_an_internal_error() {
    let program = Program::new();
    for line in [
        "scenes render --seed 1 /dev/full --force",
        "bench --methods naive --clips 1 --max-new-tokens 4 --out /dev/full --force",
    ] {
        program.line(line).ends(1).said("No space left");
        assert!(std::path::Path::new("/dev/full").exists());
    }
}
