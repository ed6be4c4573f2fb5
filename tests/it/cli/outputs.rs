//! Whole outputs of the command line as snapshots: stdout, stderr and exit code of every subcommand's help, of a success,
//! and of each error that has a sentence of its own.
//!
//! A snapshot is a transcript of several commands. `cargo insta review`, or `INSTA_UPDATE=always`, accepts new ones.

use std::fs;

use ffmpeg_next::format::Pixel;
use specreel::cli::Cli;

use crate::cli::{
    make::{self, Clip},
    transcript::{self, Transcript, subcommands},
};

#[test]
fn help() {
    for path in subcommands::<Cli>() {
        let t = transcript::help(&path);
        let name = format!("help {path}").trim().replace(' ', "_");
        check!(t, name);
    }
}

#[test]
fn version() {
    let mut t = Transcript::new();
    // Debug builds know no commit, unless one is given.
    t.filter(r"commit: \S+", "commit: [COMMIT]").filter(r"target: [\w-]+", "target: [TARGET]");
    t.filter(r"FFmpeg: \S+, of the system, .*", "FFmpeg: [VERSION], of the system, [LICENSE]");
    t.run("--version").run("-V");
    check!(t);
}

#[test]
fn subcommands_that_are_mistyped_or_misplaced() {
    let mut t = Transcript::new();
    t.file("s1.mp4", "x");
    // The bare program captions a clip.
    t.measured();
    t.run("captoin demo").run("captoin").run("--metod fly caption demo").run("--method lvspec caption demo");
    t.run("--theme nope methods").run("s1.mp4 --json").run("holiday.mp4");
    // The default method drafts by the clock.
    t.config("method = \"naive\"").run("").run("caption");
    t.run("models pul")
        .run("methods shwo lvspec")
        .run("config exampel")
        .run("bench --clips 3")
        .run("train sparrow --json")
        .run("scenes --help")
        .run("help nope");
    check!(t);
}

#[test]
fn option_values_that_are_refused() {
    let mut t = Transcript::new();
    t.run_all(
        "caption demo",
        "--metod fly | --temperature 101 | --temperature nan | --top-p 0 | --top-p 1.5 | --seed -1 | \
         --max-new-tokens 0 | --max-pixels 1 | --frames 0 | --fps 0 | --frames 4 --fps 1 | --device tpu | \
         --drafter-device cuda:x | --dtype q9 | --rope 1d | --color sometimes | --logprobs 101 | \
         --format ass | --format srt --json | --force | --prompt",
    );
    t.run("inspect demo extra");
    t.run("--theme").run("demo --image-protocol ascii").run("demo --charset latin1");
    check!(t);
}

#[cfg(not(any(feature = "cuda", feature = "metal")))]
#[test]
fn devices_that_are_not_built_in() {
    let mut t = Transcript::new();
    t.run("caption demo --device cuda")
        .run("caption demo --device metal")
        .run("compare demo --drafter-device cuda:1");
    check!(t);
}

#[test]
fn failures_as_events() {
    let mut t = Transcript::new();
    t.run("caption no.mp4 --json").run("caption demo --json --top-p 7").run("methods show nothing --json");
    t.run("models inspect nowhere --json")
        .run("replay no.jsonl --json")
        .run("compare demo --repeat 0 --json");
    check!(t);
}

#[test]
fn videos_that_are_refused() {
    let mut t = Transcript::new();
    let clip = Clip::of(8).write().bytes();
    t.folder("folder").file("empty.mp4", "").file("text.mp4", "this is not a video\n".repeat(100));
    t.file("zeros.mp4", vec![0; 100_000]).file("cut.mp4", &clip[..200]);
    t.file("sound.wav", make::wav().bytes()).file("cover.flac", make::flac_with_cover().bytes());
    t.file("wide.mkv", Clip::lossless(2, 20_000, 200, Pixel::YUV420P).write().bytes());
    t.file("long.mkv", Clip::lossless(2, 4_000, 16, Pixel::YUV420P).write().bytes());
    let names =
        "no.mp4 folder empty.mp4 text.mp4 zeros.mp4 cut.mp4 sound.wav cover.flac wide.mkv long.mkv /dev/null";
    t.run_all("caption", &names.replace(' ', " | "));
    t.run("caption demo:999").run("caption demo:x").run("compare no.mp4").run("inspect folder");
    check!(t);
}

#[test]
fn parts_of_videos_that_are_refused() {
    let mut t = Transcript::new();
    t.file("cut.mp4", Clip { movflags: "faststart", ..Clip::of(100) }.write().cut(0.5).bytes());
    t.run_all(
        "caption demo",
        "--start 3 --end 2 | --start 1:70 | --end -4 | --segments 0.2 | --segments 0 | --start 0:50 | \
         --end 60 | --start 100 | --start 2 --end 2.01",
    );
    t.run("caption cut.mp4 --start 3.5")
        .run("compare demo --start 3 --end 2")
        .run("inspect demo --start 900");
    check!(t);
}

#[test]
fn models_that_are_refused() {
    let mut t = Transcript::new();
    t.file("clip.mp4", "x")
        .folder("m")
        .file("bad/config.json", "{")
        .file("odd/config.json", "{\"model_type\": \"llama\"}");
    t.run_all(
        "caption clip.mp4",
        "--target no/model | --target 'no model' | --target clip.mp4 | --target m --method lvspec | \
         --target m --method autoregressive | --target bad --method autoregressive | \
         --target odd --method autoregressive | --drafter no/model",
    );
    check!(t);
}

#[test]
fn methods_that_are_refused() {
    let mut t = Transcript::new();
    t.file("clip.mp4", "x").folder("m").file("bad.toml", "name = 3");
    t.run_all(
        "caption clip.mp4 --target m --drafter m",
        "--method lvspce | --method no.toml | --method bad.toml | --set shape.length=0 | \
         --set shape.length=x | --set length | --set shape.lenght=4 | --set shap.length=4 | \
         --method lvspec --set acceptance.lambda=2 | --method lvspec --set acceptance.kind=strict | \
         --method lvspec --set drafter.kind=none",
    );
    check!(t);
}

#[test]
fn prompts_and_files_that_are_refused() {
    let mut t = Transcript::new();
    t.file("clip.mp4", "x").folder("m").file("run.jsonl", "old").file("p.html", "old").file("p.png", "old");
    t.run("caption clip.mp4 --target m --prompt '  '").pipe("caption clip.mp4 --target m --prompt -", "\n");
    t.file(".config/specreel/prompts.toml", "[[prompt]]\nname = \"mine\"\ntext = \"What moves?\"\n");
    t.run_all(
        "caption demo",
        "--preset nothing | --preset mine --prompt x | --preset mine --prompt-file f | --system ' ' | --max-words 0",
    );
    t.run_all("caption demo", "--save run.jsonl | --save . | --save no/such/file");
    t.run_all(
        "compare demo",
        "--save run.jsonl | --html p.html | --methods lvspce | --methods naive,,lvspec",
    );
    t.run_all("inspect demo", "--png p.png | --png a.jpg | --png no/such/file.png");
    for file in ["run.jsonl", "p.html", "p.png"] {
        assert_eq!(fs::read_to_string(t.program.home().join(file)).unwrap(), "old", "{file}");
    }
    check!(t);
}

#[test]
fn comparisons_that_are_refused() {
    let mut t = Transcript::new();
    t.file("clip.mp4", "x").file("bad.toml", "name = \"bad\"\n").folder("m");
    t.run_all(
        "compare clip.mp4 --target m --drafter m",
        "--methods '' | --methods bad.toml | --method naive | --methods naive --set acceptance.rho=1 | \
         --methods naive --set shape.length=0 | --repeat 0 | --force | --html no/such/page.html | \
         --prompt ' '",
    );
    t.run_all(
        "compare",
        "clip.mp4 --target m --methods naive | clip.mp4 --target m --methods naive --json | \
         demo --target m --json | demo --methods mtp",
    );
    check!(t);
}

#[test]
fn inspections_that_are_refused() {
    let mut t = Transcript::new();
    t.file("text.mp4", "this is not a video\n".repeat(100)).folder("folder");
    t.run_all(
        "inspect",
        "text.mp4 --png a.png | no.mp4 --png a.png --json | demo --png folder --force | \
         demo --method autoregressive | demo --method lookup | demo --method specvml | demo --force",
    );
    assert!(!t.program.home().join("a.png").exists());
    check!(t);
}

/// Before anything is loaded.
#[test]
fn batches_that_are_refused() {
    let mut t = Transcript::new();
    t.folder("empty").file("file", "x").file("in/a.mp4", "x").file("none.txt", "# nothing\n");
    t.file("set.jsonl", "{\"video_path\":\"a\",\"caption\":\"b\"}\n");
    t.run_all(
        "caption",
        "empty --sidecar txt | in/*.avi | @none.txt | @missing.txt | in --shard 0/0 | in --shard 5/4 | \
         in --shard auto | in --out-dir x | in --sidecar txt --out-dir file | \
         in --sidecar srt --existing append | in --dataset jsonl --dataset-file set.jsonl | \
         in --dataset ltx --dataset-file set.csv | in --dataset csv --dataset-file empty | \
         in --prompt-file none.txt | in --prompt-file none.txt --prompt x | in --save x | \
         in --format srt | - in | --stdin --sidecar txt | in --limit 0",
    );
    check!(t);
}

#[test]
fn method_files() {
    let mut t = Transcript::new();
    let good = t.program.run(&["methods", "show", "lvspec"]).stdout;
    t.run("methods").run("methods show lvspec").run("methods show lvspce").run("methods check lvspec");
    t.run("methods check no.toml");
    for (name, from, to) in [
        ("mine.toml", "", ""),
        ("key.toml", "lambda", "lamda"),
        ("range.toml", "lambda = 0.7", "lambda = 2"),
        ("length.toml", "length = 10", "length = 0"),
        ("kind.toml", "\"chain\"", "\"tree\""),
        ("syntax.toml", "drafter = {", "drafter = "),
        ("clash.toml", "\"model\"", "\"none\""),
    ] {
        t.file(name, good.replacen(from, to, 1)).run(&format!("methods check {name}"));
    }
    t.file("naive.toml", good.replace("\"lvspec\"", "\"naive\"")).run("methods check naive.toml");
    t.file(".config/specreel/methods/mine.toml", good.replace("\"lvspec\"", "\"mine\""))
        .run("methods check mine");
    t.file(".config/specreel/methods/broken.toml", "= =")
        .run("methods check broken")
        .run("methods list --json");
    check!(t);
}

#[test]
fn configuration_files() {
    let mut t = Transcript::new();
    t.run("config").run("config example").run("config example keymap").run("config example theme");
    t.config("method = 3")
        .run("caption demo")
        .run("methods check no.toml")
        .run("models --json")
        .run("config");
    for text in [
        "metod = \"fly\"",
        "= =",
        "method = \"nope\"",
        "target = \"/nope\"",
        "prompt = \"\"",
        "device = \"tpu\"",
        "dtype = \"q9\"",
        "max_new_tokens = 0",
        "sessions_keep = 0",
        "mouse = 1",
        "image_protocol = \"ascii\"",
    ] {
        t.config(text).run("caption demo");
    }
    t.config(
        "method = \"nope\"\nprompt = \" \"\ndrafter = \"/nope\"\nmodels = [\"/nope\"]\ntheme = \"nope\"",
    );
    t.run("config");
    t.config("").file(".config/specreel/keymap.toml", "[library]\nfly = [\"f\"]");
    t.file(".config/specreel/methods/mine.toml", "name = 3")
        .file(".config/specreel/methods/other.toml", "= =");
    t.file(".config/specreel/themes/other.toml", "[accent]\nfg = \"teal\"");
    t.file(".config/specreel/themes/mine.toml", "accnt = {}").run("config").run("config --json");
    check!(t);
}

#[test]
fn captions() {
    let mut t = Transcript::new();
    t.measured();
    t.run("caption demo --max-new-tokens 12 --method naive")
        .run("caption demo --max-new-tokens 12 --quiet --method autoregressive");
    t.run("caption demo --max-new-tokens 12 --method lvspec --color always");
    t.run("caption demo --max-new-tokens 12 --set acceptance.kind=lenient --set acceptance.rho=0.1");
    t.run("caption demo --max-new-tokens 6 --segments 2 --method naive")
        .run("caption demo --max-new-tokens 6 --start 1 --format vtt --method naive");
    t.run("caption demo --max-new-tokens 2 --drafter demo-sparrow --method naive");
    t.run("caption demo --max-new-tokens 2 --drafter-device cpu --method autoregressive");
    check!(t);
}

#[test]
fn steps_of_runs() {
    let mut t = Transcript::new();
    t.measured();
    t.run("caption demo --max-new-tokens 24 --method naive --steps --save run.jsonl");
    t.run("caption demo --max-new-tokens 24 --method lenient --steps --quiet");
    t.run("caption demo --max-new-tokens 3 --method autoregressive --steps --quiet");
    t.run("caption demo --max-new-tokens 6 --method naive --segments 2 --steps --quiet");
    t.run("replay run.jsonl --speed 0 --steps --quiet --color always");
    t.run("caption demo --steps --json");
    check!(t);
}

#[test]
fn replays() {
    let mut t = Transcript::new();
    t.measured();
    t.program.line("caption demo --max-new-tokens 8 --quiet --method naive --save run.jsonl").ok();
    let saved = fs::read_to_string(t.program.home().join("run.jsonl")).unwrap();
    let cut = saved.trim_end().rfind('\n').unwrap() - 20;
    let mut lines: Vec<&str> = saved.lines().collect();
    lines.insert(3, "garbage");
    lines.insert(5, "garbage");
    t.file("torn.jsonl", &saved[..cut]).file("spoilt.jsonl", lines.join("\n"));
    t.file("begun.jsonl", lines[0])
        .file("notes.txt", "hello\nworld\n")
        .file("empty.jsonl", "")
        .folder("folder");
    t.run_all(
        "replay --speed 0",
        "run.jsonl | torn.jsonl | spoilt.jsonl | begun.jsonl | notes.txt | empty.jsonl | folder | \
         no.jsonl | run.jsonl --run 9 | run.jsonl --format srt",
    );
    t.run("replay run.jsonl --speed -1").pipe("replay -", "").pipe("replay - --speed 0 --quiet", saved);
    check!(t);
}

#[test]
fn comparisons_and_inspections() {
    let mut t = Transcript::new();
    t.measured();
    t.run("compare demo --methods naive,lvspec --max-new-tokens 12 --measure never");
    t.run("compare demo --methods naive --max-new-tokens 4 --set acceptance.lambda=1 --measure never");
    t.run("inspect demo --method specvlm").run("inspect demo --method autoregressive --png a.png");
    check!(t);
}

#[test]
fn models() {
    let mut t = Transcript::new();
    t.filter(r"\S+ \S+ available", "[N] GB available").filter(r" +not enough memory", "");
    t.copy("assets/demo/target", "models/target").copy("assets/demo/drafter", "models/drafter");
    let folder = t.program.home().join("models").display().to_string();
    t.file(".config/specreel/config.toml", format!("models = [{folder:?}]"));
    t.file("models/bad/config.json", "{").file("file", "x").folder("empty");
    t.run("models")
        .run("models inspect models/target")
        .run("models inspect models/target --dtype q4_k")
        .run("models inspect demo-sparrow")
        .run("models inspect models/bad");
    t.run("models advise --target models/target");
    t.run("models inspect empty")
        .run("models inspect file")
        .run("models inspect nowhere")
        .run("models inspect no/model");
    t.run("models pull 'no id'").run("models pull ../../x").run("models pull");
    t.run("models remove models/target").run("models remove no/model");
    check!(t);
}

#[test]
fn doctors() {
    let mut t = Transcript::new();
    // Devices, codecs and what they are called are the machine's.
    t.filter(r"(?ms)^Devices\n.*?^Terminal", "Devices and FFmpeg: …\n\nTerminal")
        .filter(r" +", " ")
        .filter(r"size \d+ x \d+", "size [N] x [N]");
    t.run("doctor").run("doctor --target no/model").run("doctor --drafter demo-sparrow");
    t.config("theme = \"nope\"").run("doctor").config("method = 3").run("doctor");
    check!(t);
}
