//! Captions of the embedded clips: text, events, sessions, losslessness, closed pipes.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::Path,
};

use serde_json::Value;
use specreel_bench::methods;
use specreel_demo::Demo;
use specreel_engine::{Command, Engine, EngineHandle, RunRequest};
use specreel_model::ModelSpec;
use specreel_record::{Event, EventKind, Promise, PromptSeen, Started, Stats, StopReason};
use specreel_speculate::{Drafter, Method, Schedule, VisualContext};
use specreel_tensor::{DeviceChoice, WeightType};
use tokio::sync::mpsc::Receiver;

use crate::cli::{Outcome, Program, event, lab_methods, make, outcome};

const SHORT: [&str; 2] = ["--max-new-tokens", "24"];

fn caption(program: &Program, args: &[&str]) -> Outcome {
    program.run(&[&["caption", "demo"], &SHORT[..], args].concat())
}

fn events(text: &str) -> Vec<Event> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn a_caption_is_verified_by_decoding_again() {
    let program = Program::new();
    let run = caption(&program, &["--method", "naive", "--verify", "--save", "run.jsonl"]).ok();
    run.said("verified  identical, 24 of 24 tokens");
    assert_eq!(run.stdout.lines().count(), 1, "nothing else is printed: {}", run.stdout);
    program.run(&["replay", "run.jsonl", "--speed", "0"]).ok().said("verified  identical, 24 of 24 tokens");

    let sampled = ["--temperature", "0.8", "--seed", "4", "--method", "naive", "--verify", "--json"];
    let run = caption(&program, &sampled).ok();
    let events = events(&run.stdout);
    assert!(events.iter().all(|event| event.run <= 1), "{}", run.stdout);
    let EventKind::Verified(found) = &events.last().unwrap().kind else { panic!("{}", run.stdout) };
    assert!(found.equality.equal && found.promises == Promise::Tokens, "{found:?}");

    // A chain that is drawn from the drafter is another text of the same distribution; a lossy method may differ.
    let drawn = ["--set", "acceptance.kind=sampled"];
    caption(&program, &[&sampled[..7], &drawn].concat())
        .ok()
        .said("which keeps the distribution, not the text");
    let all =
        ["--set", "acceptance.kind=random", "--set", "acceptance.probability=1", "--set", "shape.length=20"];
    let run =
        program.run(&[&["caption", "demo", "--method", "text-only", "--verify"], &all[..]].concat()).ok();
    run.said("expected: the method is lossy").said("the target's margin is");

    caption(&program, &["--method", "autoregressive", "--verify"]).ends(2).said("select another method");
    caption(&program, &["--verify", "--dry-run"]).ends(2);
}

#[test]
fn presets_and_system_messages_are_asked_and_recorded() {
    let program = Program::new();
    let config = program.home().join(".config/specreel");
    std::fs::create_dir_all(&config).unwrap();
    let own = "[[prompt]]\nname = \"mine\"\ntext = \"Describe the video\"\nsystem = \"Be brief.\"\n";
    std::fs::write(config.join("prompts.toml"), own).unwrap();
    let asked = |args: &[&str]| {
        let events = events(&caption(&program, &[&["--json"], args].concat()).ok().stdout);
        let started = events.iter().find_map(|event| match &event.kind {
            EventKind::Started(started) => Some(started.clone()),
            _ => None,
        });
        let prompt = events.into_iter().find_map(|event| match event.kind {
            EventKind::Prompt(prompt) => Some(prompt.prompt_ids),
            _ => None,
        });
        (started.unwrap(), prompt.unwrap())
    };
    let (plain, ids) = asked(&["--prompt", "Describe the video. Use at most 5 words."]);
    assert_eq!((plain.preset, plain.system), (None, None));
    let (mine, other) = asked(&["--preset", "mine", "--max-words", "5"]);
    assert_eq!(mine.prompt, plain.prompt);
    assert_eq!((mine.preset.as_deref(), mine.system.as_deref()), (Some("mine"), Some("Be brief.")));
    // The system message changes what precedes the video, not the question.
    let end = |ids: &[u32]| ids[ids.len() - 12..].to_vec();
    assert!(ids != other && end(&ids) == end(&other), "{ids:?} {other:?}");
    let (told, ids) = asked(&["--preset", "mine", "--max-words", "5", "--system", "Be long."]);
    assert!(told.system.as_deref() == Some("Be long.") && ids != other);
    let files = program.run(&["config"]).ok();
    assert!(files.stdout.contains("prompts  there"), "{}", files.stdout);
}

/// All presets but those with a draft head that is not embedded.
fn presets() -> impl Iterator<Item = &'static Method> {
    let embedded: Vec<String> = specreel_demo::model_names().collect();
    methods::presets().filter(move |method| match method.drafter {
        Drafter::Head { recipe } => embedded.contains(&format!("demo-{}", recipe.name())),
        _ => true,
    })
}

/// They also emit the tokens of the target alone, which is one of them.
#[test]
fn events_of_lossless_methods_agree_with_each_other() {
    let mut texts = events_agree(true);
    assert!(texts.len() > 20);
    let alone = texts.remove("autoregressive").unwrap();
    for (name, ids) in texts {
        assert_eq!(ids, alone, "{name}");
    }
}

#[test]
fn events_of_lossy_methods_agree_with_each_other() {
    events_agree(false);
}

/// The ids that each method emits.
fn events_agree(lossless: bool) -> BTreeMap<&'static str, Vec<u32>> {
    let program = Program::new();
    let mut texts = BTreeMap::new();
    for method in presets().filter(|m| m.lossless() == lossless) {
        let run = caption(&program, &["--json", "--logprobs", "3", "--method", &lab_methods(&method.name)])
            .silent();
        let events = events(&run.stdout);
        agree(&events, method);
        let EventKind::Done { ids, .. } = &events.last().unwrap().kind else { panic!("{}", method.name) };
        texts.insert(method.name.as_str(), ids.clone());
    }
    texts
}

/// Every event in its place, and every sum right.
fn agree(events: &[Event], method: &Method) {
    let name = &method.name;
    let place = |kind: fn(&EventKind) -> bool| events.iter().position(|e| kind(&e.kind)).unwrap();
    let ready = place(|k| matches!(k, EventKind::Ready(_)));
    let started = place(|k| matches!(k, EventKind::Started(_)));
    let prompt = place(|k| matches!(k, EventKind::Prompt(_)));
    let first = place(|k| matches!(k, EventKind::Step(_)));
    assert!(ready < started && started < prompt && prompt < first, "{name}");
    let mut sum = Stats::default();
    let (mut ids, mut text) = (Vec::new(), String::new());
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event.run, u64::from(number >= started), "{name}");
        match &event.kind {
            EventKind::Started(Started { method: told, lossless, drafter, .. }) => {
                assert_eq!((told["name"].as_str(), *lossless), (Some(name.as_str()), method.lossless()));
                let known = !matches!(method.drafter, Drafter::None {} | Drafter::Auto {});
                assert_eq!(drafter.is_some(), known, "{name}");
            }
            EventKind::Prompt(PromptSeen {
                grid, visual_tokens, prompt_ids, frames, kept, chosen, ..
            }) => {
                assert_eq!(chosen.is_some(), method.context == VisualContext::Auto {}, "{name}");
                assert_eq!(grid.iter().product::<usize>(), *visual_tokens);
                assert!(prompt_ids.len() > *visual_tokens && !frames.is_empty());
                assert!(frames.is_sorted());
                let kept = kept.as_deref().unwrap_or_default();
                assert!(kept.is_sorted() && kept.iter().all(|k| (*k as usize) < *visual_tokens), "{name}");
            }
            EventKind::Step(step) => {
                assert_eq!(step.index as u64, sum.steps, "{name}");
                assert!(step.accepted <= step.judged && step.judged <= step.drafted.len(), "{name}");
                assert_eq!(step.drafted_text.len(), step.drafted.len(), "{name}");
                let passed = step.tokens.iter().filter(|t| t.verdict.is_accepted_draft()).count();
                let own = step.tokens.len() - passed;
                assert!(own <= 1 && passed <= step.accepted, "{name}: {step:?}");
                let chain: Vec<usize> = (0..passed).collect();
                let path = if step.parents.is_empty() { &chain } else { &step.path };
                for (i, (token, node)) in step.tokens.iter().zip(path).take(passed).enumerate() {
                    assert_eq!(token.id, step.drafted[*node], "{name}: accepted drafts come first, in order");
                    let before = i.checked_sub(1).map(|before| path[before]);
                    assert!(step.parents.is_empty() || step.parents[*node] == before, "{name}: one branch");
                }
                for token in &step.tokens {
                    assert_eq!(token.logprobs.len(), 3, "{name}");
                    assert!(token.logprobs.is_sorted_by(|a, b| a.1 >= b.1), "{name}");
                    assert_eq!(token.logprobs[0].0, token.target_id, "{name}");
                    assert_eq!(token.verdict.is_strict(), token.id == token.target_id, "{name}: {token:?}");
                    ids.push(token.id);
                    text.push_str(&token.text);
                }
                sum.add(step);
            }
            EventKind::Done { ids: all, text: whole, stats, reason } => {
                assert_eq!(number + 1, events.len(), "{name}");
                assert_eq!((all, whole.trim()), (&ids, text.trim()), "{name}");
                assert_eq!(
                    (stats.steps, stats.judged, stats.accepted, stats.emitted),
                    (sum.steps, sum.judged, sum.accepted, sum.emitted),
                    "{name}"
                );
                // Under the parallel schedule, steps report the judged drafts, and the totals count all
                // drafts.
                let parallel = matches!(method.schedule, Schedule::Parallel { .. });
                assert!(stats.drafted == sum.drafted || (parallel && stats.drafted > sum.drafted), "{name}");
                assert_eq!(stats.verdicts, sum.verdicts, "{name}");
                assert_eq!((stats.tau, stats.emitted_per_step), (sum.tau, sum.emitted_per_step), "{name}");
                assert_eq!(stats.verdicts.total(), ids.len() as u64, "{name}");
                assert_eq!(*reason == StopReason::Length, ids.len() == 24, "{name}");
                if method.lossless() {
                    assert_eq!(stats.verdicts.loosened(), 0, "{name}");
                }
            }
            EventKind::Failed(failure) => panic!("{name}: {failure:?}"),
            _ => {}
        }
    }
}

/// On every embedded clip (each method on half of them) in 8 bits, and on a clip that was made here in f32: in processes that
/// keep their contexts.
#[test]
fn lossless_methods_are_lossless_on_every_clip() {
    let home = Program::new();
    let demo = specreel_demo::demo(Some(home.home())).unwrap();
    let made = make::Clip::of(20).write();
    let methods: Vec<&Method> = presets().filter(|m| m.lossless() && m.drafter != Drafter::None {}).collect();
    let mut blocks = Models::load(&demo, WeightType::Q8_0, 64);
    for (c, clip) in demo.clips.iter().enumerate() {
        blocks.compare(&clip.path, methods.iter().skip(c % 2).step_by(2));
    }
    Models::load(&demo, WeightType::F32, 24).compare(&made.path, methods.iter());
}

struct Models {
    engine: EngineHandle,
    events: Receiver<Event>,
    /// Tokens of a caption.
    limit: usize,
    runs: u64,
}

impl Models {
    fn load(demo: &Demo, dtype: WeightType, limit: usize) -> Self {
        let (engine, events) = Engine::start().unwrap();
        let spec = ModelSpec {
            target: demo.target.clone(),
            drafter: Some(demo.drafter.clone()),
            heads: demo.heads.clone(),
            device: DeviceChoice::Cpu,
            dtype,
            ..ModelSpec::default()
        };
        engine.send(Command::Load(spec)).unwrap();
        Self { engine, events, limit, runs: 0 }
    }

    /// All write what the target writes alone.
    fn compare<'m>(&mut self, clip: &Path, methods: impl Iterator<Item = &'m &'static Method>) {
        let (alone, _) = self.write(clip, Method::preset("autoregressive").as_ref().unwrap());
        for method in methods {
            let (ids, stats) = self.write(clip, method);
            assert_eq!(ids, alone, "{} on {}", method.name, clip.display());
            assert!(stats.equality.is_some_and(|e| e.equal), "{}", method.name);
        }
    }

    fn write(&mut self, clip: &Path, method: &Method) -> (Vec<u32>, Stats) {
        self.runs += 1;
        let request = RunRequest {
            video: clip.into(),
            prompt: "Describe the video in detail.".into(),
            method: method.clone(),
            max_new_tokens: self.limit,
            ..specreel_client::fake::request(self.runs, "naive")
        };
        self.engine.send(Command::Run(Box::new(request))).unwrap();
        loop {
            match self.events.blocking_recv().unwrap().kind {
                EventKind::Done { ids, stats, .. } => return (ids, *stats),
                EventKind::Failed(failure) => panic!("{failure:?}"),
                _ => {}
            }
        }
    }
}

#[test]
fn a_saved_session_has_the_events() {
    let program = Program::new();
    let run = caption(&program, &["--json", "--save", "run.jsonl"]).ok();
    assert_eq!(std::fs::read_to_string(program.home().join("run.jsonl")).unwrap(), run.stdout);
    assert_eq!(caption(&program, &["--save", "run.jsonl"]).code, 2);
    assert_eq!(caption(&program, &["--save", "run.jsonl", "--force"]).code, 0);
}

#[test]
fn a_closed_pipe_is_success() {
    let program = Program::new();
    let compare = ["compare", "demo", "--json", "--methods", "naive", "--repeat", "100"];
    for args in [&["caption", "demo", "--json"][..], &compare] {
        let mut child = program.spawn(args);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_stdout_that_was_never_open_is_success() {
    let program = Program::new();
    let specreel = env!("CARGO_BIN_EXE_specreel");
    let line = format!("'{specreel}' caption demo --quiet --max-new-tokens 2 >&-");
    let output =
        std::process::Command::new("sh").args(["-c", &line]).env("HOME", program.home()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported() {
    let program = Program::new();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for json in [&[][..], &["--json"]] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_specreel"))
            .args(["caption", "demo", "--max-new-tokens", "2"])
            .args(json)
            .env("HOME", program.home())
            .stdout(full())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("error: cannot write the output: "), "{stderr}");
    }
}

#[test]
fn a_prompt_comes_from_stdin() {
    let program = Program::new();
    let args = ["caption", "demo", "--json", "--max-new-tokens", "2", "--prompt", "-"];
    let run = outcome(program.command().args(args).write_stdin("What moves?\n"));
    assert_eq!(event(&crate::cli::events(&run.stdout), "started")["prompt"], "What moves?");
}

#[test]
fn a_caption_is_sampled_as_its_model_asks() {
    let program = Program::new();
    let model = program.copy("assets/demo/target", "model");
    let target = ["--target", "model", "--method", "autoregressive"];
    let of = |more: &[&str]| caption(&program, &[&target[..], more].concat());
    let started = |run: &Outcome| {
        event(
            &run.stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect::<Vec<Value>>(),
            "started",
        )["sampling"]
            .clone()
    };
    assert!(started(&of(&["--json"]).ok()).is_null());
    let path = model.join("generation_config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (key, value) in [
        ("do_sample", true.into()),
        ("temperature", 0.5.into()),
        ("top_k", 20.into()),
        ("num_beams", 4.into()),
    ] {
        config[key] = value;
    }
    config["repetition_penalty"] = 1.5.into();
    std::fs::write(&path, config.to_string()).unwrap();
    let run = of(&["--json"]).ok();
    let own = started(&run);
    assert_eq!(
        (&own["temperature"], &own["top_k"], &own["repetition_penalty"]),
        (&0.5.into(), &20.into(), &1.5.into())
    );
    of(&[])
        .ok()
        .said("sampling as generation_config.json of model asks: temperature 0.5, top-k 20, repetition penalty 1.5")
        .said("asks for what is not supported: num_beams");
    // Every method that is lossless writes the same.
    let text = of(&[]).ok().stdout;
    let drafted = ["--method", "std"];
    assert_eq!(caption(&program, &[&target[..2], &drafted].concat()).ok().stdout, text);
    of(&["--temperature", "0"]).ok().said("with the options given: greedy, repetition penalty 1.5");
    assert!(started(&of(&["--json", "--sampling", "greedy"]).ok()).is_null());
    assert_eq!(started(&of(&["--json", "--sampling", "qwen3-vl"]).ok())["presence_penalty"], 1.5);
    for (wrong, words) in [
        (&["--temperature", "0", "--top-k", "5"][..], "--top-k: it has no effect at temperature 0"),
        (&["--sampling", "greedy", "--min-p", "0.1"], "--min-p: it has no effect at temperature 0"),
        (&["--sampling", "warm"], "no sampling is called `warm`; expected one of: model, greedy, gemma"),
        (&["--repetition-penalty", "-1"], "--repetition-penalty: -1 is not a number from 0.01 to 100"),
        (&["--logit-bias", "5"], "expected the id of a token and a number"),
    ] {
        of(wrong).ends(2).said(words);
    }
    of(&["--logit-bias", "900000=1"]).ends(3).said("id 900000 is outside of the vocabulary");
}

#[test]
fn a_caption_that_repeats_itself_ends_with_exit_code_5() {
    let program = Program::new();
    let first = caption(&program, &["--method", "autoregressive", "--json"]).ok();
    let done: Value = serde_json::from_str(first.stdout.lines().last().unwrap()).unwrap();
    let bias = format!("{}=1000", done["ids"][0]);
    let run = program.run(&["caption", "demo", "--method", "autoregressive", "--logit-bias", &bias]).ends(5);
    run.said("stopped, since the text repeated itself");
    let events = program
        .run(&["caption", "demo", "--method", "autoregressive", "--logit-bias", &bias, "--json"])
        .ends(5);
    let looped: Value = serde_json::from_str(events.stdout.lines().last().unwrap()).unwrap();
    let text = looped["text"].as_str().unwrap();
    assert!(looped["reason"] == "loop" && text.len() < 20 && run.stdout.starts_with(text.trim()), "{looped}");
    let kept = ["caption", "demo", "--method", "autoregressive", "--logit-bias", &bias, "--on-loop", "keep"];
    assert!(program.run(&kept).ok().stdout.len() > 200);
    // Less is asked for that token, so that a penalty can break the loop.
    let bias = format!("{}=50", done["ids"][0]);
    let again = ["caption", "demo", "--method", "naive", "--logit-bias", &bias, "--on-loop", "retry"];
    let run = program.run(&again).ok();
    run.said("the text repeated itself, and is written again after").said("DRY 0.8");
    let events = program.run(&[&again[..], &["--json"]].concat()).ok();
    let written: Value = serde_json::from_str(events.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(
        run.stdout.trim(),
        written["text"].as_str().unwrap().trim(),
        "what was withdrawn is not printed"
    );
}

#[test]
fn a_caption_ends_before_a_stop_text() {
    let program = Program::new();
    let whole = caption(&program, &["--method", "naive"]).ok().stdout;
    let whole = whole.trim();
    let stop = &whole[whole.len() / 2..][..6];
    let expected = &whole[..whole.find(stop).unwrap()];
    for method in ["autoregressive", "naive", "std"] {
        let cut = caption(&program, &["--method", method, "--stop", "never written", "--stop", stop]).ok();
        assert_eq!(cut.stdout.trim_end_matches('\n'), expected, "{method}");
    }
    caption(&program, &["--stop", ""]).ends(2).said("expected a text that is not empty");
}

#[test]
fn samplings_of_ones_own_have_names() {
    let program = Program::new();
    let config = program.home().join(".config/specreel");
    std::fs::create_dir_all(&config).unwrap();
    let file = config.join("sampling.toml");
    std::fs::write(&file, "[mine]\ntemperature = 0.5\ntop_k = 3\nseed = 9\n").unwrap();
    let run = caption(&program, &["--sampling", "mine", "--json"]).ok();
    let events: Vec<Value> = run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sampling = &event(&events, "started")["sampling"];
    assert_eq!((&sampling["top_k"], &sampling["seed"]), (&3.into(), &9.into()));
    assert!(program.run(&["config"]).ok().stdout.contains("sampling there"));
    caption(&program, &["--sampling", "mine2"]).ends(2).said("expected one of: model, greedy, gemma, mine");
    std::fs::write(&file, "[mine]\ntop_p = 2\n").unwrap();
    caption(&program, &["--sampling", "mine"])
        .ends(3)
        .said("preset `mine`: top_p: 2 is not a number above 0");
    program.run(&["config"]).ends(3).said("preset `mine`");
}
