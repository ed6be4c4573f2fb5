//! The suite on the embedded target.

use std::fmt::Write as _;

use serde_json::Value;

use super::*;
use specreel_tensor::DeviceChoice;

#[derive(Default)]
struct Kept {
    lines: Vec<Value>,
    table: String,
}

impl Reporter for Kept {
    type Error = Failure;

    fn stage(&mut self, _: Stage, _: u64, _: u64) {}

    fn ended(&mut self) {}

    fn note(&mut self, note: &str) {
        panic!("{note}");
    }

    fn line<T: Serialize>(&mut self, event: &str, body: &T) -> Result<(), Failure> {
        assert_eq!(event, "quality");
        self.lines.push(serde_json::to_value(body).unwrap());
        Ok(())
    }

    fn columns(&self) -> Option<usize> {
        None
    }

    fn table(&mut self, text: &str) -> Result<(), Failure> {
        self.table.write_str(text).unwrap();
        Ok(())
    }

    fn wants_file(&self, _: &str) -> bool {
        false
    }

    fn file(&mut self, _: &str, _: &str) -> Result<(), Failure> {
        Ok(())
    }
}

fn models() -> ModelSpec {
    let target = specreel_demo::demo(None).unwrap().target;
    ModelSpec { target, device: DeviceChoice::Cpu, ..ModelSpec::default() }
}

fn short() -> QualityOptions {
    QualityOptions { tokens: 255, ..QualityOptions::default() }
}

fn measured(options: &QualityOptions) -> Result<Kept, Failure> {
    let mut kept = Kept::default();
    assert!(run(options, &models(), &Interrupt::default(), &mut kept)?);
    Ok(kept)
}

#[test]
fn fewer_bits_are_further_from_the_reference() {
    let options = QualityOptions {
        dtypes: vec![WeightType::F32, WeightType::Bf16, WeightType::Q8_0, WeightType::Q4_0],
        kv_types: vec![KvType::F32, KvType::F16, KvType::Q8_0],
        tower_dtypes: vec![WeightType::F32, WeightType::Q8_0],
        ..short()
    };
    let Kept { lines, table } = measured(&options).unwrap();
    let kl = |text: &str, form: &str| {
        let line = lines.iter().find(|line| line["text"] == text && line["form"] == form);
        line.unwrap_or_else(|| panic!("{form} on {text}: {table}"))["kl"]["value"].as_f64().unwrap()
    };
    for text in ["real", "own"] {
        // The same weights predict the same bits, by single rows or by many.
        assert_eq!([kl(text, "f32"), kl(text, "kv f32")], [0.0; 2]);
        assert!(0.0 < kl(text, "bf16") && kl(text, "bf16") < kl(text, "q8_0"), "{table}");
        assert!(kl(text, "q8_0") < kl(text, "q4_0"), "{table}");
        assert!(0.0 < kl(text, "kv f16") && kl(text, "kv f16") < kl(text, "kv q8_0"), "{table}");
    }
    assert!(kl("own", "tower f32") == 0.0 && kl("own", "tower q8_0") > 0.0, "{table}");
    assert!(!lines.iter().any(|line| line["text"] == "real" && line["kind"] == "tower-dtype"));
    let exact = &lines[0];
    assert_eq!((&exact["same_top"]["value"], &exact["tokens"]), (&1.0.into(), &255.into()));
    assert_eq!(exact["perplexity"]["value"], exact["reference_perplexity"]);
    for part in ["real text, 255 tokens, perplexity", "own answers, ", "kB/token", "tower q8_0"] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn all_types_are_measured_by_default() {
    let files = models().target_files().unwrap();
    let device = ComputeDevice::cpu(WeightType::F32);
    let forms = QualityOptions::default().forms(&files, &device).unwrap();
    let labels: Vec<String> = forms.iter().map(Form::label).collect();
    let dtypes = WeightType::ALL.into_iter().skip(1).map(|dtype| dtype.name().to_owned());
    let others = ["kv f16", "kv q8_0", "tower bf16", "tower f16", "tower q8_0", "default"];
    assert_eq!(labels, dtypes.chain(others.map(str::to_owned)).collect::<Vec<_>>());
}

#[test]
fn texts_and_files_that_cannot_be_used_are_refused() {
    let fixtures =
        std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/parity/fixtures/gguf"));
    let file = |name: &str| vec![fixtures.join(name)];
    for (options, error) in [
        (QualityOptions { text: Some("Too short.".into()), ..short() }, "the text has"),
        (QualityOptions { files: file("no.gguf"), ..short() }, "no such file"),
        (QualityOptions { files: file("gqa_tied/model-q8_0.gguf"), ..short() }, "another model than"),
    ] {
        let failure = measured(&options).err().unwrap();
        assert!(failure.error.contains(error) && failure.hint.is_some(), "{failure:?}");
    }
}
