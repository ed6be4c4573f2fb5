//! Against transformers in float64, and models that cannot be used (`tests/parity/make_whisper.py`).

use std::path::PathBuf;

use serde_json::Value;

use super::*;

fn dir() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/parity/fixtures/whisper"))
}

fn expected() -> Value {
    serde_json::from_slice(&std::fs::read(dir().join("expected.json")).unwrap()).unwrap()
}

fn sound(from_s: f64) -> Sound {
    Sound::open(&dir().join("sound.mp4"), from_s).unwrap().unwrap()
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
    let mel = Mel::new(80).unwrap().spectrogram(&sound(0.0).read(WINDOW)).unwrap();
    assert_eq!(mel.dims(), [1, 80, FRAMES]);
    let mel: Vec<Vec<f32>> = mel.i(0).unwrap().to_vec2().unwrap();
    for (ours, theirs) in mel.iter().step_by(7).zip(expected()["mel"].as_array().unwrap()) {
        for (ours, theirs) in ours.iter().step_by(50).zip(numbers(theirs)) {
            assert!((f64::from(*ours) - theirs).abs() < 2e-4, "{ours} {theirs}");
        }
    }
}

#[test]
fn tokens_equal_those_of_transformers() {
    let mut recognizer = Recognizer::open(&dir()).unwrap();
    let features = recognizer.encode(&sound(0.0).read(WINDOW)).unwrap();
    let expected = expected();
    let likeliest = ["de", "en", "fr"]
        .into_iter()
        .max_by(|a, b| {
            let of = |code: &str| expected["languages"][code].as_f64().unwrap();
            of(a).total_cmp(&of(b))
        })
        .unwrap();
    assert_eq!(recognizer.detect(&features).unwrap().0, likeliest);
    for language in ["de", "en"] {
        let id = recognizer.language(language).unwrap().unwrap();
        let prompt = [recognizer.start, id, recognizer.transcribe.unwrap()];
        let states = recognizer.states(&prompt, &features, true).unwrap();
        let logits = recognizer.logits(&states, 2).unwrap();
        let theirs = numbers(&expected["written"][language]["logits"]);
        for (ours, theirs) in logits.iter().step_by(97).zip(theirs) {
            // The library's GELU is an approximation.
            assert!((f64::from(*ours) - theirs).abs() < 2e-2, "{ours} {theirs}");
        }
        let written = recognizer.write_once(&features, Some(id), 0.0, 0).unwrap();
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
fn what_repeats_itself_is_seen() {
    assert!(compression(&"the same again ".repeat(20)) > MAX_COMPRESSION);
    assert!(compression("Ask not what your country can do for you.") < MAX_COMPRESSION);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let logits = [f32::NEG_INFINITY, 1.0, 3.0, f32::NAN, 3.0];
    assert_eq!(choose(&logits, 0.0, &mut random), Some(2), "the first of the largest");
    let drawn: Vec<u32> = (0..200).filter_map(|_| choose(&logits, 1.0, &mut random)).collect();
    assert!([1, 2, 4].iter().all(|id| drawn.contains(id)) && !drawn.contains(&0));
    assert_eq!(choose(&[f32::NAN], 0.0, &mut random), None);
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
        (Box::new(config("decoder_layers", 3.into())), "model.safetensors"),
        (Box::new(config("vocab_size", 40.into())), "model.safetensors"),
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
