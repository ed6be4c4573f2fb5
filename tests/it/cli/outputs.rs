//! Whole outputs of the command line as snapshots: stdout, stderr and exit code of every subcommand's help, of a success,
//! and of each error that has a sentence of its own.
//!
//! A snapshot is a transcript of several commands. `cargo insta review`, or `INSTA_UPDATE=always`, accepts new ones.

use std::{fmt::Write as _, fs};

use clap::CommandFactory as _;
use ffmpeg_next::format::Pixel;
use regex::Regex;
use specreel::cli::Cli;

use crate::cli::{
    Outcome, Program,
    make::{self, Clip},
    words,
};

/// Compare a transcript with the snapshot of the test's name, or of another one.
macro_rules! check {
    ($transcript:ident $(, $name:expr)?) => {
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!($($name,)? $transcript.text);
        })
    };
}

/// Commands and what they printed.
struct Transcript {
    program: Program,
    filters: Vec<(Regex, &'static str)>,
    text: String,
}

impl Transcript {
    fn new() -> Self {
        let program = Program::new();
        let mut transcript = Self { program, filters: Vec::new(), text: String::new() };
        let home = regex::escape(transcript.program.home().to_str().unwrap());
        transcript
            .filter(&home, "[HOME]")
            .filter(&regex::escape(env!("CARGO_MANIFEST_DIR")), "[REPOSITORY]")
            .filter(r"demo-[0-9a-f]{16}", "demo-[HASH]")
            .filter(&format!(r"{} \([^)]*\)", regex::escape(env!("CARGO_PKG_VERSION"))), "[VERSION]");
        transcript
    }

    /// Replace what differs between machines and runs.
    fn filter(&mut self, pattern: &str, with: &'static str) -> &mut Self {
        self.filters.push((Regex::new(pattern).unwrap(), with));
        self
    }

    /// Replace every measured number, and the spaces that its width moves.
    fn measured(&mut self) -> &mut Self {
        self.filter(r"(≈ )?\d+(\.\d+)?x( \([\d.]+–[\d.]+\))?", "[SPEEDUP]")
            .filter(r"\(\d+ pairs?\)", "([BASIS])")
            .filter(r"\d+(\.\d+)? tokens/s", "[N] tokens/s")
            .filter(r"\d+(\.\d+)?( ?(ms|s|MB|GB|kB|x|GB/s|tokens/s)\b)", "[N]$2")
            // A busy machine takes seconds.
            .filter(r"(?m)^(time +)\[N\] s \(", "$1[N] ms (")
            .filter(r"-?\d+\.\d+", "[N]")
            .filter(r" {2,}", "  ")
            // What could be measured, and whether other programs were noticed, depends on how busy the machine is.
            .filter(r"speedup  .*", "speedup  [SPEEDUP OR NOT]")
            .filter(r"(?m)^machine  busy.*\n", "")
            .filter(r" The machine was busy[^.]*\.", "")
            .filter(r" (\w+ is the fastest: its|No method is the fastest: the) interval[^.]*\.", "")
            .filter(r"  –  –  (identical|differs)", "  [SPEEDUP]  [SPEEDUP]  $1")
            // The speed in a row of a table has no decimals if it is high.
            .filter(r"  \d+  \[SPEEDUP\]", "  [N]  [SPEEDUP]")
    }

    /// Run a command line, see [`Program::line`].
    fn run(&mut self, line: &str) -> &mut Self {
        let outcome = self.program.line(line);
        self.record(line, &outcome)
    }

    /// Run each of these, separated by ` | `, after the same arguments.
    fn run_all(&mut self, start: &str, ends: &str) -> &mut Self {
        for end in ends.split(" | ") {
            self.run(&format!("{start} {end}"));
        }
        self
    }

    fn pipe(&mut self, line: &str, stdin: impl Into<Vec<u8>>) -> &mut Self {
        let outcome = crate::cli::outcome(self.program.command().args(words(line)).write_stdin(stdin));
        self.record(line, &outcome)
    }

    fn record(&mut self, line: &str, outcome: &Outcome) -> &mut Self {
        let filter = |text: &str| {
            let text = self.filters.iter().fold(text.to_owned(), |text, (pattern, with)| {
                pattern.replace_all(&text, *with).into_owned()
            });
            text.lines().map(|line| format!("{}\n", line.trim_end())).collect::<String>()
        };
        let mut block = format!("$ {}\n[exit code: {}]\n", format!("specreel {line}").trim(), outcome.code);
        for (name, text) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
            if !text.is_empty() {
                let _ = write!(block, "----- {name} -----\n{}", filter(text));
            }
        }
        let _ = writeln!(self.text, "{block}");
        self
    }

    /// A file in the working directory, which is the home.
    fn file(&mut self, name: &str, bytes: impl AsRef<[u8]>) -> &mut Self {
        let path = self.program.home().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    fn folder(&mut self, name: &str) -> &mut Self {
        fs::create_dir_all(self.program.home().join(name)).unwrap();
        self
    }

    fn copy(&mut self, from: &str, to: &str) -> &mut Self {
        self.program.copy(from, to);
        self
    }

    fn config(&mut self, text: &str) -> &mut Self {
        self.text += &format!("# config.toml: {}\n", text.replace('\n', "; "));
        self.file(".config/specreel/config.toml", text)
    }
}

/// The path of each subcommand: "", "caption", …, "models pull".
fn subcommands() -> Vec<String> {
    fn walk(command: &clap::Command, path: &str, all: &mut Vec<String>) {
        all.push(path.to_owned());
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            walk(sub, format!("{path} {}", sub.get_name()).trim(), all);
        }
    }
    let mut all = Vec::new();
    walk(&Cli::command(), "", &mut all);
    all
}

#[test]
fn help() {
    for path in subcommands() {
        let mut t = Transcript::new();
        let (long, short) =
            (format!("{path} --help").trim().to_owned(), format!("{path} -h").trim().to_owned());
        t.run(&long);
        let short_help = t.program.line(&short);
        if short_help.stdout != t.program.line(&long).stdout {
            t.record(&short, &short_help);
        }
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
        .run("methods shwo fly")
        .run("config exampel")
        .run("scenes")
        .run("train")
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
        .run("compare demo --drafter-device cuda:1")
        .run("bench --suite step --device metal");
    check!(t);
}

#[test]
fn failures_as_events() {
    let mut t = Transcript::new();
    t.run("caption no.mp4 --json").run("caption demo --json --top-p 7").run("methods show nothing --json");
    t.run("models inspect nowhere --json").run("replay no.jsonl --json").run("bench --clips 0 --json");
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
        "--target no/model | --target 'no model' | --target clip.mp4 | --target m --method fly | \
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
    t.run_all("compare demo", "--save run.jsonl | --html p.html | --methods lvspce | --methods naive,,fly");
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
    t.run("caption demo --max-new-tokens 24 --method lvspec-tree --steps --quiet");
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
    t.run("caption demo --drafter new");
    assert_eq!(fs::read_dir(t.program.home().join("full")).unwrap().count(), 1);
    check!(t);
}
