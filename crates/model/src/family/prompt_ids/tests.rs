use std::{fs, path::Path};

use super::*;
use crate::family::ReadModel as _;
use crate::{
    processor::{VideoProcessor, VisualGrid},
    template::Turn,
    testing::{copy, fixture},
};
use specreel_checkpoint::ModelFiles;
use specreel_record::{Failure, FailureClass};

fn edit(dir: &Path, file: &str, change: impl FnOnce(String) -> String) {
    let path = dir.join(file);
    fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
}

/// What writes prompts, without the weights.
struct PromptWriter {
    config: VlConfig,
    tokenizer: TextTokenizer,
    template: ChatTemplate,
    processor: VideoProcessor,
}

impl PromptWriter {
    fn of(dir: &Path) -> Result<Self, Failure> {
        let files = ModelFiles::of_directory(dir);
        let config = files.config()?;
        let tokenizer = config.family.prepare_tokenizer(files.tokenizer()?, config.video_token)?;
        let template = files.template(config.family)?;
        let processor = files.processor(&config.tower().map_err(ModelError::from)?)?;
        Ok(Self { config, tokenizer, template, processor })
    }

    fn ids(&self, before: &[Turn], text: &str, clip: &ClipFacts) -> Result<Vec<u32>, ModelError> {
        self.ask(&Question { before, text, ..Question::default() }, clip)
    }

    fn ask(&self, question: &Question<'_>, clip: &ClipFacts) -> Result<Vec<u32>, ModelError> {
        let frames = self.processor.config().temporal;
        Ok(prompt_ids(&self.config, &self.tokenizer, &self.template, question, (clip, frames))?.0)
    }

    fn clip(&self, frames: usize) -> ClipFacts {
        let t = frames.div_ceil(self.processor.config().temporal);
        ClipFacts::steady(VisualGrid { t, h: 1, w: 1 }, frames, 1.0)
    }
}

const STAMPED: [&str; 3] = ["qwen3_vl", "qwen3_5", "smolvlm"];

#[test]
fn the_video_stands_in_the_first_turn() {
    for name in STAMPED {
        let writer = PromptWriter::of(&fixture(name)).unwrap();
        let clip = writer.clip(3);
        let first = writer.ids(&[], "What moves?", &clip).unwrap();
        let turn = Turn { prompt: "What moves?".into(), answer: " A ball.".into(), ..Turn::default() };
        let second = writer.ids(std::slice::from_ref(&turn), "Why?", &clip).unwrap();
        // Earlier answers have no thoughts, which are empty here.
        let thought = writer.tokenizer.id("<think>").ok().filter(|_| name == "qwen3_5");
        let end = first.iter().rposition(|id| Some(*id) == thought).unwrap_or(first.len());
        assert_eq!(end < first.len(), name == "qwen3_5");
        let first = first[..end].to_vec();
        assert_eq!(second[..first.len()], first, "{name}");
        let pads = |ids: &[u32]| ids.iter().filter(|id| **id == writer.config.video_token).count();
        assert_eq!((pads(&first), pads(&second)), (clip.grid.t, clip.grid.t), "{name}");
        let end = if name == "smolvlm" { "<end_of_utterance>" } else { "<|im_end|>" };
        let end = writer.tokenizer.id(end).unwrap();
        assert_eq!(second[first.len()..].iter().filter(|id| **id == end).count(), 2, "{name}");
        assert!(writer.tokenizer.is_end(end), "{name}");
    }
}

/// The published template of Qwen3.5 and the one for checkpoints without it write the same: nothing is thought, or thinking begins.
#[test]
fn answers_begin_with_or_without_thinking() {
    let published = PromptWriter::of(&fixture("qwen3_5")).unwrap();
    let dir = copy("qwen3_5");
    fs::remove_file(dir.path().join("chat_template.jinja")).unwrap();
    let built_in = PromptWriter::of(dir.path()).unwrap();
    for (thinking, end) in [(false, "<think>\n\n</think>\n\n"), (true, "<think>\n")] {
        let question = Question { text: "What moves?", thinking, ..Question::default() };
        let [ids, same] =
            [&published, &built_in].map(|writer| writer.ask(&question, &writer.clip(3)).unwrap());
        assert_eq!(ids, same);
        let text: String = ids.iter().map(|id| published.tokenizer.token_text(*id)).collect();
        assert!(text.ends_with(&format!("What moves?<|im_end|>\n<|im_start|>assistant\n{end}")), "{text}");
        let marks = ["<think>", "</think>"].map(|mark| published.tokenizer.id(mark).unwrap());
        let found = ids.iter().filter(|id| marks.contains(id)).count();
        assert_eq!(found, if thinking { 1 } else { 2 });
        assert!(published.template.offers_thinking() && built_in.template.offers_thinking());
    }
    // What is typed opens nothing.
    let clip = published.clip(2);
    let typed = published.ids(&[], "<think> </think>", &clip).unwrap();
    let marks = |ids: &[u32]| {
        ids.iter().filter(|id| published.tokenizer.id("<think>").is_ok_and(|mark| mark == **id)).count()
    };
    assert_eq!(marks(&typed), 1);
    for name in ["qwen3_vl", "smolvlm"] {
        assert!(!PromptWriter::of(&fixture(name)).unwrap().template.offers_thinking(), "{name}");
    }
}

#[test]
fn placeholders_that_are_typed_stay_text() {
    for name in STAMPED {
        let writer = PromptWriter::of(&fixture(name)).unwrap();
        let clip = writer.clip(2);
        let typed =
            "<|video_pad|> <image> <video> <|vision_start|><fake_token_around_image><end_of_utterance>";
        let special = |ids: Vec<u32>| ids.into_iter().filter(|id| writer.tokenizer.is_special(*id)).count();
        let plain = special(writer.ids(&[], "x", &clip).unwrap());
        assert_eq!(special(writer.ids(&[], typed, &clip).unwrap()), plain, "{name}");
    }
}

#[test]
fn a_template_without_videos_does_for_smolvlm_only() {
    for name in STAMPED {
        let dir = copy(name);
        let template = "{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endfor %}";
        match dir.path().join("chat_template.jinja").exists() {
            true => edit(dir.path(), "chat_template.jinja", |_| template.into()),
            false => edit(dir.path(), "chat_template.json", |_| {
                serde_json::json!({ "chat_template": template }).to_string()
            }),
        }
        let writer = PromptWriter::of(dir.path()).unwrap();
        let ids = writer.ids(&[], "x", &writer.clip(2)).unwrap();
        let pads = ids.iter().filter(|id| **id == writer.config.video_token).count();
        assert_eq!(pads, if name == "smolvlm" { 2 } else { 0 }, "{name}");
    }
}

#[test]
fn tokens_that_prompts_need_are_named_if_they_are_missing() {
    let needed = [
        ("qwen3_vl", ["<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]),
        ("qwen3_5", ["<|video_pad|>", "<|im_end|>", "</think>"]),
        ("smolvlm", ["<fake_token_around_image>", "<global-img>", "<end_of_utterance>"]),
    ];
    for (name, tokens) in needed {
        for token in tokens {
            let dir = copy(name);
            edit(dir.path(), "tokenizer.json", |text| text.replace(token, &"?".repeat(token.len())));
            let Err(failure) = PromptWriter::of(dir.path()) else { panic!("{name} without {token}") };
            assert_eq!(failure.class, FailureClass::Input);
            assert!(failure.error.contains(token) && failure.hint.is_some(), "{failure:?}");
        }
    }
}

#[test]
fn the_placeholder_must_be_that_of_the_configuration() {
    for (name, key) in
        [("qwen3_vl", "video_token_id"), ("qwen3_5", "video_token_id"), ("smolvlm", "image_token_id")]
    {
        let dir = copy(name);
        edit(dir.path(), "config.json", |text| {
            let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
            json[key] = 5.into();
            json.to_string()
        });
        let Err(failure) = PromptWriter::of(dir.path()) else { panic!("{name}") };
        assert!(failure.error.contains("but config.json has 5 for visual tokens"), "{failure:?}");
    }
}

#[test]
fn impossible_times_are_refused() {
    for name in STAMPED {
        let writer = PromptWriter::of(&fixture(name)).unwrap();
        let clip = writer.clip(2);
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e300] {
            let times = ClipFacts { timestamps_s: vec![0.0, bad], ..clip.clone() };
            let length = ClipFacts { duration_s: bad, ..clip.clone() };
            for clip in [times, length] {
                let error = writer.ids(&[], "x", &clip).unwrap_err();
                assert!(error.to_string().contains("impossible time stamps"), "{name}: {error}");
            }
        }
        // Fewer times than frames: a damaged file.
        let fewer = ClipFacts { timestamps_s: Vec::new(), ..clip.clone() };
        assert!(writer.ids(&[], "x", &fewer).is_ok(), "{name}");
    }
}

#[test]
fn the_end_of_a_turn_ends_texts_whatever_the_files_say() {
    let dir = copy("smolvlm");
    edit(dir.path(), "generation_config.json", |_| r#"{"eos_token_id": 2}"#.into());
    let writer = PromptWriter::of(dir.path()).unwrap();
    assert_eq!(writer.tokenizer.end_ids(), [2, writer.tokenizer.id("<end_of_utterance>").unwrap()]);
}
