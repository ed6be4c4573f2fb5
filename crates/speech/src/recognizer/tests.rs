//! Against transformers in float64, and models that cannot be used (`tests/parity/make_whisper.py`).

use std::path::PathBuf;

use serde_json::Value;

use super::*;
use crate::mel::WINDOW;

fn dir() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/parity/fixtures/whisper"))
}

fn expected() -> Value {
    serde_json::from_slice(&std::fs::read(dir().join("expected.json")).unwrap()).unwrap()
}

fn sound(from_s: f64) -> Sound {
    Sound::open(&dir().join("sound.mp4"), from_s, None).unwrap().unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

#[test]
fn samples_stand_where_they_are_heard() {
    let samples = sound(0.0).read(WINDOW);
    assert_eq!(samples.len(), 7 * SAMPLE_RATE as usize);
    let every: Vec<f64> = samples.iter().step_by(1001).map(|s| f64::from(*s) * 32768.0).collect();
    assert_eq!(every, numbers(&expected()["samples"]));
    // From the middle of a packet, and in small parts.
    let mut later = sound(2.6);
    let parts: Vec<f32> =
        std::iter::repeat_with(|| later.read(777)).take_while(|part| !part.is_empty()).flatten().collect();
    assert_eq!(parts, samples[(2.6 * f64::from(SAMPLE_RATE)) as usize..]);
    assert!(sound(8.0).read(WINDOW).is_empty());
}

#[test]
fn spectrogram_equals_that_of_transformers() {
    let samples = sound(0.0).read(WINDOW);
    let mut mel = Mel::new(80).unwrap().logarithms(&samples, 0, FRAMES).unwrap();
    let loudest = mel.iter().copied().fold(QUIETEST, f32::max);
    scale(&mut mel, loudest);
    assert_eq!(mel.len(), 80 * FRAMES);
    for (band, theirs) in (0..80).step_by(7).zip(expected()["mel"].as_array().unwrap()) {
        let ours = mel[band..].iter().step_by(50 * 80);
        for (ours, theirs) in ours.zip(numbers(theirs)) {
            assert!((f64::from(*ours) - theirs).abs() < 2e-4, "{ours} {theirs}");
        }
    }
}

/// The fixture's model, and the first window of its sound heard.
fn heard() -> Recognizer {
    let mut recognizer = Recognizer::open(&dir()).unwrap();
    let mut windows = Windows::new(sound(0.0), f64::INFINITY);
    let loudest = recognizer.loudest(&mut windows, &mut |_| ControlFlow::Continue(())).unwrap().unwrap();
    windows = windows.again().unwrap();
    windows.fill();
    let logarithms = windows.logarithms(&mut recognizer.mel).unwrap();
    recognizer.hear(logarithms, loudest).unwrap();
    recognizer
}

#[test]
fn tokens_equal_those_of_transformers() {
    let mut recognizer = heard();
    let expected = expected();
    let likeliest = ["de", "en", "fr"]
        .into_iter()
        .max_by(|a, b| {
            let of = |code: &str| expected["languages"][code].as_f64().unwrap();
            of(a).total_cmp(&of(b))
        })
        .unwrap();
    assert_eq!(recognizer.detect().unwrap().0, likeliest);
    for language in ["de", "en"] {
        let id = recognizer.language(language).unwrap().unwrap();
        let prompt = [recognizer.start, id, recognizer.transcribe.unwrap()];
        recognizer.model.restart();
        let logits = recognizer.model.next(&prompt).unwrap();
        let logits = &logits[logits.len() / 3 * 2..];
        let theirs = numbers(&expected["written"][language]["logits"]);
        for (ours, theirs) in logits.iter().step_by(97).zip(theirs) {
            assert!((f64::from(*ours) - theirs).abs() < 1e-4, "{ours} {theirs}");
        }
        let written = recognizer.write_once(Some(id), 0.0, 0).unwrap();
        let theirs: Vec<u32> = serde_json::from_value(expected["written"][language]["ids"].clone()).unwrap();
        // A line without an end belongs to the next window.
        let (lines, _) = recognizer.ids.lines(&written.ids, 30.0);
        assert_eq!(
            lines.iter().flat_map(|(_, ids)| ids.iter().copied()).collect::<Vec<u32>>(),
            theirs,
            "{language}"
        );
    }
}

#[test]
fn lines_are_in_order_and_the_same_each_time() {
    let listen = |seconds: f64| {
        let mut heard = Vec::new();
        let said =
            Recognizer::open(&dir()).unwrap().listen(sound(0.0), seconds, Some("en"), &mut |seconds| {
                heard.push(seconds);
                ControlFlow::Continue(())
            });
        (said.unwrap(), heard)
    };
    let (said, heard) = listen(f64::INFINITY);
    assert!(said.lines.is_sorted_by(|a, b| a.span.start <= b.span.start), "{said:?}");
    assert!(
        said.lines.iter().all(|line| line.span.start < line.span.end && line.span.end <= 7.0),
        "{said:?}"
    );
    assert!(heard.is_sorted() && (heard.last().unwrap() - 7.0).abs() < 1e-6, "{heard:?}");
    let part = listen(3.0);
    assert!((part.1.last().unwrap() - 3.0).abs() < 1e-6);
    assert_eq!(listen(3.0), part);
}

#[test]
fn nothing_is_said_in_silence() {
    let mut recognizer = Recognizer::open(&dir()).unwrap();
    let listen = |recognizer: &mut Recognizer, from_s: f64, seconds: f64| {
        let go_on = &mut |_| ControlFlow::Continue(());
        recognizer.listen(sound(from_s), seconds, None, go_on).unwrap()
    };
    // From 2.5 s to 3.2 s, every sample is zero.
    assert_eq!(listen(&mut recognizer, 2.5, 0.7), Said::default());
    assert!(!listen(&mut recognizer, 3.2, 0.7).lines.is_empty());
}

#[test]
fn lines_without_letters_or_digits_are_left_out() {
    let recognizer = Recognizer::open(&dir()).unwrap();
    let token = |text: &str| recognizer.tokenizer.token_to_id(text).unwrap();
    let time = |ticks: u32| recognizer.ids.times.start + ticks;
    let ids = [
        vec![time(0), token("."), token("."), time(50), time(50), token("Ġba"), token("."), time(100)],
        vec![time(100), token("."), time(150)],
    ];
    let written = |silence: f64, log_probability: f64| {
        let written = Written { ids: ids.concat(), log_probability, silence, ends: true, repeats: false };
        recognizer.lines(&written, 60.0, 30.0)
    };
    let (lines, next_s) = written(0.9, -0.5);
    let said = Line { span: Span { start: 61.0, end: 62.0 }, text: "ba.".into() };
    assert_eq!((lines, next_s), (vec![said], 30.0));
    assert_eq!(written(0.9, -1.5), (Vec::new(), 30.0), "an uncertain text of silence");
    assert_eq!(written(0.5, -1.5).0.len(), 1);
}

#[test]
fn weights_may_be_in_several_files() {
    let copy = tempfile::tempdir().unwrap();
    for name in ["config.json", "generation_config.json", "tokenizer.json"] {
        std::fs::copy(dir().join(name), copy.path().join(name)).unwrap();
    }
    let bytes = std::fs::read(dir().join("model.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let (encoder, decoder): (Vec<_>, Vec<_>) =
        tensors.tensors().into_iter().partition(|(name, _)| name.contains("encoder."));
    let mut map = serde_json::Map::new();
    for (file, part) in
        [("model-00001-of-00002.safetensors", encoder), ("model-00002-of-00002.safetensors", decoder)]
    {
        map.extend(part.iter().map(|(name, _)| (name.clone(), file.into())));
        safetensors::serialize_to_file(part, None, &copy.path().join(file)).unwrap();
    }
    let index = serde_json::json!({ "weight_map": map });
    std::fs::write(copy.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
    let written = |dir: &Path| {
        let mut recognizer = Recognizer::open(dir).unwrap();
        recognizer.listen(sound(0.0), 7.0, Some("en"), &mut |_| ControlFlow::Continue(())).unwrap()
    };
    assert_eq!(written(copy.path()), written(&dir()));
}

#[test]
fn languages_are_named_in_any_way() {
    let recognizer = Recognizer::open(&dir()).unwrap();
    let id = |named: &str| recognizer.language(&languages::code(named)).unwrap();
    for named in ["EN", " en ", "English", "en-US", "en_GB"] {
        assert_eq!(id(named), id("en"), "{named}");
    }
    assert_eq!(id("German"), id("de"));
    let unknown = |named: &str| recognizer.language(&languages::code(named)).unwrap_err();
    assert!(unknown("Klingon").error.contains("`klingon`"));
}

#[test]
fn models_that_cannot_be_used_are_refused() {
    let error = |change: &dyn Fn(&Path)| {
        let copy = tempfile::tempdir().unwrap();
        for name in ["config.json", "generation_config.json", "tokenizer.json", "model.safetensors"] {
            std::fs::copy(dir().join(name), copy.path().join(name)).unwrap();
        }
        change(copy.path());
        Recognizer::open(copy.path()).err().map(|failure| failure.error)
    };
    let config = |key: &str, value: Value| {
        let (key, value) = (key.to_owned(), value);
        move |dir: &Path| {
            let file = dir.join("config.json");
            let mut config: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            config[&key] = value.clone();
            std::fs::write(file, config.to_string()).unwrap();
        }
    };
    assert_eq!(error(&|_| {}), None);
    for (change, words) in [
        (Box::new(config("model_type", "llama".into())) as Box<dyn Fn(&Path)>, "expected \"whisper\""),
        (Box::new(config("num_mel_bins", 81.into())), "num_mel_bins is 81, expected 80 or 128"),
        (Box::new(config("max_source_positions", 100.into())), "max_source_positions is 100"),
        (Box::new(config("encoder_attention_heads", 5.into())), "expected a divisor of d_model"),
        (
            Box::new(config("decoder_layers", 3.into())),
            "tensor `model.decoder.layers.2.self_attn_layer_norm.weight`",
        ),
        (Box::new(config("decoder_ffn_dim", 64.into())), "tensor `model.decoder.layers.0.fc1"),
        (Box::new(config("activation_function", "relu".into())), "expected \"gelu\""),
        (Box::new(config("vocab_size", 40.into())), "tokenizer.json: it is another model's"),
        (Box::new(config("vocab_size", 51_864.into())), "tokenizer.json: it is another model's"),
        (Box::new(config("vocab_size", 1_640.into())), "tensor `model.decoder.embed_tokens.weight`"),
        (Box::new(|dir: &Path| std::fs::write(dir.join("tokenizer.json"), "{").unwrap()), "tokenizer.json"),
        (
            Box::new(|dir: &Path| std::fs::remove_file(dir.join("model.safetensors")).unwrap()),
            "model.safetensors",
        ),
    ] {
        let error = error(&*change).unwrap();
        assert!(error.contains(words), "{words}: {error}");
    }
    let recognizer = Recognizer::open(&dir()).unwrap();
    let unknown = recognizer.language("tlh").unwrap_err();
    assert_eq!(unknown.hint.unwrap(), "use one of: de, en, fr");
}
