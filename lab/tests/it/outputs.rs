//! Whole outputs of the laboratory's command line as snapshots. `cargo insta review`, or `INSTA_UPDATE=always`, accepts new ones.

use std::fs;

use crate::transcript::{self, Transcript, subcommands};
use specreel_lab::Cli;

#[test]
fn help() {
    for path in subcommands::<Cli>() {
        let t = transcript::help(&path);
        let name = format!("help {path}").trim().replace(' ', "_");
        check!(t, name);
    }
}

#[test]
fn benches() {
    let mut t = Transcript::new();
    t.measured().filter(r"(?m)^(autoregressive|naive) .*$", "$1 …");
    t.run("bench --clips 1 --max-new-tokens 8 --methods naive");
    t.run("bench --suite step --slots 10 --rows 2 --shape tiny");
    check!(t);
}

#[test]
fn benches_that_are_refused() {
    let mut t = Transcript::new();
    t.folder("m").file("front.svg", "old");
    t.run_all(
        "bench",
        "--clips 0 | --clips -1 | --first-seed 18446744073709551615 | --methods '' | --methods lvspce | \
         --methods no.toml | --methods fly --method fly | --target m --methods naive | --target no/model | \
         --sweep acceptance.lambda=1 | --method lvspec --sweep acceptance.lamda=1 | \
         --method lvspec --sweep lamda=1 | --method lvspec --sweep acceptance.lambda= | \
         --method lvspec --sweep acceptance.lambda=0,x | --method lvspec --sweep acceptance.lambda=0,7 | \
         --method naive --set acceptance.lambda=1 | --svg front.svg | --out no/such/file | --rows 1 | \
         --shape tiny | --suite hop | --suite step --clips 1 | --suite step --temperature 1 | \
         --suite step --rows 0 | --suite step --rows two | --suite step --slots 1000000 | \
         --suite step --shape gpt | --suite step --drafter-shape tiny | --table 1 | --tokens 9 | \
         --suite quality --dtype f16 | --suite quality --rows 1 | --suite device --target m | \
         --suite device --drafter-shape tiny",
    );
    t.file("other.jsonl", "{\"event\":\"trial\"}\n").run_all(
        "bench --paper",
        "lvspek | std --table 7 | all --table 1 | std --methods naive | std --suite step | \
         std --from x.jsonl --clips 3 | std --from no.jsonl | std --from other.jsonl | std --profile h200 | \
         std --at-paper-acceptance --clips 3",
    );
    check!(t);
}

#[test]
fn scenes() {
    let mut t = Transcript::new();
    t.file("text", "Nothing happens.")
        .file("lines", "{\"seed\": 7, \"text\": \"A red circle\"}\n")
        .folder("folder");
    t.run("scenes render --seed 4 a.mp4 --size 64x48")
        .run("scenes render --seed 4 a.mp4")
        .run("scenes score text --seed 4");
    t.run("scenes score lines --lines");
    t.run_all("scenes render --seed 1", "b.mp4 --size 5x5 | folder | no/such.mp4");
    t.run_all(
        "scenes score",
        "text | no --seed 1 | text --facts text | text --facts no | text --lines | \
         text --seed 1 --facts text",
    );
    t.run_all(
        "scenes stream --count 0",
        "--format 8x112 | --format 8x112x112:0 | --short 2 | --short 0.7 --question 0.7 | --group 0",
    );
    t.run("scenes render --seed -1 x.mp4");
    check!(t);
}

#[test]
fn trainings() {
    let mut t = Transcript::new();
    t.measured();
    t.folder("empty").file("full/photo.jpg", "x").file("clips/broken.mp4", "no video").file("file", "x");
    t.copy("tests/parity/fixtures/gqa_tied", "tiny");
    let lists = "--out new --data scenes:4 --epochs 2 | --out new --data scenes:4 --epochs 2 | \
             --out new --data scenes:4 --epochs 3 | --out o --data empty | --out o --data nowhere | \
             --out o --data scenes:0 | --out o --dtype f15 | --out o --no-mtp --recursions 2 | \
             --out o --learning-rate 0 | --out o --hidden 2 | --out o --state-weight 0 --token-weight 0 | \
             --out full --data scenes:4 | --out file --data scenes:4 | --out broken --data clips";
    for more in lists.split(" | ") {
        t.run(&format!(
            "train sparrow --target tiny --max-new-tokens 8 --batch 2 --keep 2 --save-every 0 {more}"
        ));
    }
    t.run_all(
        "train",
        "msd --out o --no-mtp | msd --out o --recursions 2 | hivis --out o --no-vata | \
         hivis --out o --hidden 0.5 | msd --out o --data scenes:x | msd --out o --data scenes:-4 | \
         fly --out o",
    );
    t.run("train sparrow --out o --target nowhere").run("train sparrow");
    assert_eq!(fs::read_dir(t.program.home().join("full")).unwrap().count(), 1);
    check!(t);
}
