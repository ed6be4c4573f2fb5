//! `specreel models advise`.

use super::*;
use crate::cli::args::{models::AdviseArgs, run::RunArgs};
use specreel_client::catalog::advice::{Adviser, Configuration, TargetAdvice, evidence, gain};
use specreel_client::present::formats::{duration, percent};
use specreel_engine::{Evidence, memory_check};
use specreel_speculate::Drafter;

/// Rank of each column: on a narrow terminal, the columns with the highest rank are dropped first.
const RANKS: [u8; 8] = [0, 4, 0, 6, 5, 3, 2, 0];

pub fn run(args: &AdviseArgs, json: bool, config: &Config) -> Result<i32, End> {
    let AdviseArgs { target, device, dtype, max_new_tokens, .. } = args;
    let run = RunArgs {
        target: target.clone(),
        device: *device,
        dtype: *dtype,
        max_new_tokens: *max_new_tokens,
        ..RunArgs::default()
    };
    let mut settings = Settings::merge(run.layer(), config);
    if target.is_some() {
        catalog::drop_dtype(&mut settings, target.as_deref().filter(|_| dtype.is_none()));
    }
    let adviser = Adviser::new(&settings, None, config, &args.drafter)?;
    let video = match &args.video {
        None => None,
        Some(name) => {
            let file = resolve::video(name)?;
            let limit = settings.max_new_tokens.or(specreel_client::DEFAULT_MAX_NEW_TOKENS) as usize;
            let request = RunRequest { video: file, max_new_tokens: limit, ..RunRequest::default() };
            let found = memory_check::request_video(adviser.target(), &request);
            Some(found.map_err(|failure| resolve::as_typed(failure, &request.video, name))?)
        }
    };
    if args.measure {
        adviser.measure(&mut |name| tell!("measuring {}", color::plain(name)))?;
    }
    let advice = adviser.advise(video.as_ref())?;
    if json {
        return print(&format!("{}\n", as_json(&advice)));
    }
    let width = terminal::columns();
    if is_unmeasured(&advice) {
        return print(&unmeasured(&advice.target, width));
    }
    print(&words(&advice, args.video.as_deref(), width))?;
    if advice.text.is_none() {
        let target =
            target.as_ref().map(|target| format!(" --target {}", target.display())).unwrap_or_default();
        tell!(
            "hint: specreel models advise{target} --measure measures the models, or caption something with them"
        );
    } else if advice.configurations.iter().any(is_assumed) {
        tell!(
            "hint: `assumed` is acceptance as with most models; any run with the drafter measures it, such as \
             specreel compare VIDEO OPTIONS"
        );
    }
    Ok(0)
}

fn is_assumed(of: &Configuration) -> bool {
    of.expected.as_ref().is_some_and(|expected| expected.acceptance == Evidence::Assumed)
}

/// True if there is no figure at all: a drafter may have figures even if the target's speed is not known.
fn is_unmeasured(advice: &TargetAdvice) -> bool {
    advice.text.is_none() && advice.configurations.iter().all(|of| of.expected.is_none())
}

fn unmeasured(target: &str, width: Option<usize>) -> String {
    let target = color::plain(target);
    let line = format!(
        "{target}: nothing is measured on this machine yet; --measure measures it and its drafters\n"
    );
    hang(&line, width, 2)
}

fn words(advice: &TargetAdvice, video: Option<&Path>, width: Option<usize>) -> String {
    let clip = video.map_or_else(|| "half a minute of 720p".to_owned(), |video| video.display().to_string());
    let target = color::plain(&advice.target);
    let head = match &advice.text {
        None => format!("{target}: its speed is not measured here\n\n"),
        Some(text) => format!(
            "{target}: {} a token; figures are for {} tokens after {} ({} visual tokens)\n\n",
            duration(text.token_ms),
            text.text_tokens,
            color::plain(&clip),
            text.visual_tokens
        ),
    };
    hang(&head, width, 2) + &table(&advice.configurations, width)
}

fn table(all: &[Configuration], width: Option<usize>) -> String {
    let head = ["DRAFTER", "SEES", "SPEEDUP", "DRAFT", "PASS", "ACCEPTANCE", "SPEED", "OPTIONS"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for of in all {
        let dash = || "-".to_owned();
        let expected = of.expected.as_ref();
        let drafts = expected.filter(|expected| expected.drafter != (Drafter::None {}));
        let model = drafts.filter(|expected| !matches!(expected.drafter, Drafter::Lookup { .. }));
        rows.push(vec![
            color::plain(&of.name).into_owned(),
            model.map_or_else(dash, |expected| sees(expected.context.share())),
            expected.map_or_else(|| "not measured here".to_owned(), gain),
            model.map_or_else(dash, |expected| duration(expected.draft_ms)),
            drafts.map_or_else(dash, |expected| percent(expected.chance)),
            drafts.map_or_else(dash, |expected| evidence(expected.acceptance)),
            model.map_or_else(dash, |expected| evidence(expected.speed)),
            color::plain(&options(of)).into_owned(),
        ]);
    }
    fitting(&mut rows, &RANKS, width);
    columns(&rows)
}

/// The share of the visual tokens that a drafter sees, in words.
fn sees(share: Option<f64>) -> String {
    match share {
        Some(0.0) => "text".into(),
        Some(share) => format!("{:.0} %", share * 100.0),
        None => "-".into(),
    }
}

/// As they are typed in a shell.
fn options(of: &Configuration) -> String {
    let quoted = |word: &String| match word.contains(char::is_whitespace) {
        true => format!("'{word}'"),
        false => word.clone(),
    };
    of.options.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn as_json(advice: &TargetAdvice) -> Value {
    let text = advice.text.as_ref();
    let basis = |of: Evidence| match of {
        Evidence::Measured(0) => Value::Null,
        Evidence::Measured(times) => json!({ "basis": "measured", "times": times }),
        Evidence::Estimated => json!({ "basis": "estimated" }),
        Evidence::Assumed => json!({ "basis": "assumed" }),
    };
    let configuration = |of: &Configuration| {
        let expected = of.expected.as_ref().map(|expected| {
            let [low, middle, high] = expected.speedup;
            json!({
                "speedup": { "expected": middle, "low": low, "high": high },
                "sees": expected.context.share(),
                "reading_ms": expected.reading_ms,
                "draft_ms": expected.draft_ms,
                "passing": expected.chance,
                "acceptance": basis(expected.acceptance),
                "speed": basis(expected.speed),
            })
        });
        json!({ "name": of.name, "options": of.options, "expected": expected })
    };
    json!({
        "target": advice.target,
        "token_ms": text.map(|text| text.token_ms),
        "text_tokens": text.map(|text| text.text_tokens),
        "visual_tokens": text.map(|text| text.visual_tokens),
        "configurations": advice.configurations.iter().map(configuration).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_client::present::text;
    use specreel_engine::{Advice, Expectation};
    use specreel_speculate::VisualContext;

    fn expected(drafter: Drafter, middle: f64, acceptance: Evidence) -> Expectation {
        Expectation {
            drafter,
            context: VisualContext::of_share(0.1),
            speedup: [middle - 0.2, middle, middle + 0.2],
            reading_ms: 120.0,
            draft_ms: 8.0,
            chance: 0.75,
            acceptance,
            speed: Evidence::Estimated,
        }
    }

    fn advice() -> TargetAdvice {
        let of = |name: &str, options: &[&str], expected: Option<Expectation>| Configuration {
            name: name.into(),
            models: ModelSpec::default(),
            options: options.iter().map(|word| (*word).to_owned()).collect(),
            expected,
        };
        let alone =
            Expectation { speedup: [1.0; 3], ..expected(Drafter::None {}, 1.0, Evidence::Measured(0)) };
        TargetAdvice {
            target: "big".into(),
            text: Some(Advice {
                visual_tokens: 900,
                prompt_tokens: 964,
                text_tokens: 200,
                token_ms: 43.0,
                drafters: Vec::new(),
            }),
            configurations: vec![
                of(
                    "small in q4_0",
                    &["--drafter", "my models/small", "--drafter-dtype", "q4_0"],
                    Some(expected(Drafter::Model {}, 1.4, Evidence::Measured(3))),
                ),
                of("no drafter", &["--method", "autoregressive"], Some(alone)),
                of("other", &["--drafter", "other"], None),
            ],
        }
    }

    #[test]
    fn each_way_has_its_gain_its_evidence_and_its_options() {
        let text = words(&advice(), None, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "big: 43 ms a token; figures are for 200 tokens after half a minute of 720p (900 visual tokens)"
        );
        for part in ["1.4x (1.2–1.6)", "10 %", "8.0 ms", "75.0 %", "measured 3 times", "estimated"] {
            assert!(lines[3].contains(part), "{part}: {text}");
        }
        assert!(lines[3].ends_with("--drafter 'my models/small' --drafter-dtype q4_0"), "{text}");
        let cells: Vec<&str> = lines[4].split_whitespace().collect();
        assert_eq!(cells, ["no", "drafter", "-", "1x", "-", "-", "-", "-", "--method", "autoregressive"]);
        assert!(lines[5].contains("not measured here"), "{text}");
        // What is needed to use it stays where columns are few.
        let narrow = table(&advice().configurations, Some(90));
        assert!(narrow.lines().all(|line| text::width(line) <= 90), "{narrow}");
        assert!(narrow.contains("--drafter-dtype q4_0") && !narrow.contains("PASS"), "{narrow}");
    }

    #[test]
    fn without_any_figure_one_line_says_how_to_get_them() {
        let mut advice = advice();
        advice.text = None;
        assert!(!is_unmeasured(&advice), "a drafter has figures");
        assert!(words(&advice, None, None).starts_with("big: its speed is not measured here\n\nDRAFTER "));
        advice.configurations.retain(|of| of.expected.is_none());
        assert!(!advice.configurations.is_empty() && is_unmeasured(&advice));
        assert_eq!(
            unmeasured(&advice.target, None),
            "big: nothing is measured on this machine yet; --measure measures it and its drafters\n"
        );
        assert!(unmeasured(&advice.target, Some(40)).lines().all(|line| text::width(line) <= 40));
        let value = as_json(&advice);
        assert_eq!(
            (&value["token_ms"], &value["configurations"][0]["name"]),
            (&Value::Null, &json!("other"))
        );
    }

    #[test]
    fn json_says_where_each_figure_comes_from() {
        let value = as_json(&advice());
        let first = &value["configurations"][0];
        assert_eq!(first["expected"]["acceptance"], json!({ "basis": "measured", "times": 3 }));
        assert_eq!(first["expected"]["speed"], json!({ "basis": "estimated" }));
        assert_eq!(first["options"][3], "q4_0");
        assert_eq!(value["configurations"][1]["expected"]["acceptance"], Value::Null);
        assert_eq!(
            (&value["token_ms"], &value["configurations"][2]["expected"]),
            (&json!(43.0), &Value::Null)
        );
    }
}
