//! `specreel-lab bench --suite quality` on a model that writes real language.

use crate::{
    program::{Program, events},
    real_weights,
};

#[test]
fn quality_orders_the_types() {
    let Some(target) = real_weights::target() else { return };
    let program = Program::new();
    let line = format!(
        "bench --suite quality --target {} --tokens 40 --dtypes q8_0,q4_0 --kv-types f16,q8_0 --json",
        target.display()
    );
    let lines = events(&program.line(&line).ok().stdout);
    let value = |text: &str, form: &str, key: &str| {
        let line = lines.iter().find(|line| line["text"] == text && line["form"] == form).unwrap();
        line[key].as_f64().or_else(|| line[key]["value"].as_f64()).unwrap()
    };
    for text in ["real", "own"] {
        let kl = |form: &str| value(text, form, "kl");
        assert!(kl("kv f16") < 1e-5 && kl("kv f16") < kl("kv q8_0"), "{lines:?}");
        assert!(kl("q8_0") < 1e-2 && kl("q8_0") < kl("q4_0") && kl("q4_0") < 1.0, "{lines:?}");
        assert!(value(text, "q8_0", "same_top") > 0.9, "{lines:?}");
    }
    // Words are guessed among a few dozen; a broken model would guess among thousands.
    assert!(value("real", "q8_0", "reference_perplexity") < 60.0, "{lines:?}");
    assert!(value("own", "q8_0", "reference_perplexity") < 6.0, "{lines:?}");
}
