//! The expected speedup of each drafter, in each form, with a target on this machine.
//!
//! The engine computes the expectations, and plans its runs by the same figures ([`Advisor`]).

use std::path::{Path, PathBuf};

use super::local::Candidates;
use crate::{Config, Setting, Settings, dirs::Dirs};
use specreel_checkpoint::hub::name_of;
use specreel_engine::{Advice, Advisor, Evidence, Expectation, measure_speeds, memory_check::Video};
use specreel_model::{
    ModelSpec,
    draft_head::{DraftHeadConfig, Recipe},
    family::Rope,
    inspect::Interface,
};
use specreel_os::dirs::HOME;
use specreel_record::Failure;
use specreel_speculate::Drafter;
use specreel_tensor::WeightType;

/// Another form of a draft model is listed only if its rows read at most this share of the bytes that rows of
/// the stored form read.
const SMALLER: f64 = 0.9;
/// Weight types in which a draft model may draft faster than in the type of its file.
const TYPES: [WeightType; 2] = [WeightType::Q8_0, WeightType::Q4_0];

/// A way to decode with a target.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The drafter's name.
    pub name: String,
    /// The models, as a run loads them.
    pub models: ModelSpec,
    /// The command-line options that select it.
    pub options: Vec<String>,
    pub expected: Option<Expectation>,
}

/// The advice for a target.
#[derive(Clone, Debug, Default)]
pub struct TargetAdvice {
    pub target: String,
    /// The clip and the text that the figures are for; `None` if the target's speeds are not known.
    pub text: Option<Advice>,
    /// Fastest first.
    pub configurations: Vec<Configuration>,
}

/// Compares drafters for a target.
pub struct Adviser {
    settings: Settings,
    rope: Option<Rope>,
    /// The target alone.
    spec: ModelSpec,
    drafters: Vec<(String, PathBuf)>,
    /// Draft heads, with the names that they were given by; the embedded ones need none.
    heads: Vec<(Option<String>, PathBuf)>,
}

impl Adviser {
    /// An adviser for the target of the settings and these drafters, or all drafters on this machine if none
    /// are named. Fails if the target cannot be read, or a drafter cannot draft for it.
    pub fn new(
        settings: &Settings,
        rope: Option<Rope>,
        config: &Config,
        named: &[PathBuf],
    ) -> Result<Self, Failure> {
        let mut settings = settings.clone();
        settings.drafter.value = None;
        if named.len() != 1 {
            settings.drafter_mmproj = Setting::default();
        }
        let whole = super::spec(&settings, rope)?;
        let spec = ModelSpec { drafter: None, heads: Vec::new(), ..whole.clone() };
        let (mut drafters, mut heads) = (Vec::new(), Vec::new());
        if named.is_empty() {
            let found = Candidates::find(config);
            let own = found.drafters(&spec.target).into_iter();
            drafters.extend(own.map(|model| (short(&model.name), model.dir.clone())));
            heads.extend(whole.heads.iter().map(|head| (None, head.clone())));
        }
        let target = Interface::read(&spec.target).map_err(|problem| {
            Failure::input(format!("target {}: {problem}", spec.target.display()), INSPECT)
        })?;
        for name in named {
            let dir = super::directory("drafter", name)?;
            if DraftHeadConfig::is_in(&dir) {
                heads.push((Some(name.display().to_string()), dir));
                continue;
            }
            let fits = Interface::read(&dir).and_then(|drafter| target.check_drafter(&drafter));
            fits.map_err(|problem| {
                let names = [name_of(&dir), name_of(&spec.target)];
                let hint = format!(
                    "run `specreel models inspect {}` to list models that fit",
                    spec.target.display()
                );
                Failure::input(format!("{} cannot draft for {}: {problem}", names[0], names[1]), hint)
            })?;
            drafters.push((name.display().to_string(), dir));
        }
        Ok(Self { settings, rope, spec, drafters, heads })
    }

    /// The target alone.
    pub fn target(&self) -> &ModelSpec {
        &self.spec
    }

    /// Load each model and measure its passes, after calling `tell` with its name. Fails if a model cannot be
    /// loaded.
    pub fn measure(&self, tell: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        let speeds = Dirs::speeds().ok_or_else(|| {
            Failure::input("no home directory to keep measured speeds in", format!("set {HOME}"))
        })?;
        tell(&name_of(&self.spec.target));
        measure_speeds(&self.spec, true, &speeds)?;
        for (drafter, forms) in self.forms(&Advisor::open(None)?)? {
            for form in forms {
                tell(&form.name(&drafter));
                measure_speeds(&form.spec, false, &speeds)?;
            }
        }
        Ok(())
    }

    /// The expected speedup of each way to decode with the target, for a video or, without one, the family's
    /// example. Fails if files cannot be read, or the file of measured speeds is damaged.
    pub fn advise(&self, video: Option<&Video>) -> Result<TargetAdvice, Failure> {
        let advisor = Advisor::open(Dirs::speeds().as_deref())?;
        let alone =
            ModelSpec { heads: self.heads.iter().map(|head| head.1.clone()).collect(), ..self.spec.clone() };
        let text = advisor.advise(&alone, &[], video)?;
        let mut all = match &text {
            Some(advice) => advice.drafters.iter().map(|expected| self.without(&alone, expected)).collect(),
            None => Vec::new(),
        };
        for (drafter, forms) in self.forms(&advisor)? {
            let relatives: Vec<ModelSpec> = forms.iter().map(|form| form.spec.clone()).collect();
            for form in &forms {
                let advice = advisor.advise(&form.spec, &relatives, video)?;
                let expected = advice.and_then(|advice| {
                    advice.drafters.into_iter().find(|expected| expected.drafter == Drafter::Model {})
                });
                let (name, options) = (form.name(&drafter), form.options(&drafter));
                all.push(Configuration { name, models: form.spec.clone(), options, expected });
            }
        }
        let gain = |of: &Configuration| of.expected.as_ref().map_or(0.0, |expected| expected.speedup[1]);
        all.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
        Ok(TargetAdvice { target: name_of(&self.spec.target), text, configurations: all })
    }

    /// A way to decode without a draft model.
    fn without(&self, models: &ModelSpec, expected: &Expectation) -> Configuration {
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let (name, options) = match &expected.drafter {
            Drafter::None {} => ("no drafter".to_owned(), words(&["--method", "autoregressive"])),
            Drafter::Lookup { .. } => ("prompt lookup".to_owned(), words(&["--method", "auto"])),
            Drafter::Head { recipe } => {
                let given = self.heads.iter().find_map(|(name, dir)| {
                    let is_it = DraftHeadConfig::read(dir).is_ok_and(|config| config.recipe == *recipe);
                    name.clone().filter(|_| is_it)
                });
                let given = given.map(|name| vec!["--drafter".to_owned(), name]).unwrap_or_default();
                let name = match recipe {
                    Recipe::Mtp => "multi-token prediction".to_owned(),
                    Recipe::Assistant => "assistant".to_owned(),
                    recipe => format!("{} head", recipe.name()),
                };
                (name, [given, words(&["--method", "auto"])].concat())
            }
            // The target itself.
            _ => (
                "the target itself".to_owned(),
                words(&["--method", "naive-auto", "--set", "drafter.kind=self"]),
            ),
        };
        Configuration { name, models: models.clone(), options, expected: Some(expected.clone()) }
    }

    /// The forms of each draft model: as stored in its file, and in fewer bits.
    fn forms(&self, advisor: &Advisor) -> Result<Vec<(String, Vec<Form>)>, Failure> {
        let with = |path: &Path| {
            let mut settings = self.settings.clone();
            settings.drafter.value = Some(path.to_owned());
            // The embedded target has its own heads.
            super::spec(&settings, self.rope).map(|spec| ModelSpec { heads: Vec::new(), ..spec })
        };
        let all = self.drafters.iter().map(|(name, path)| {
            let first = Form { spec: with(path)?, in_type: None };
            let bytes = |form: &Form| advisor.draft_bytes(&form.spec);
            let most = bytes(&first)? as f64 * SMALLER;
            let mut forms = vec![first.clone()];
            for form in first.others() {
                if bytes(&form)? as f64 <= most {
                    forms.push(form);
                }
            }
            Ok((name.clone(), forms))
        });
        all.collect()
    }
}

const INSPECT: &str = "run `specreel models inspect` to see what is wrong with it";

/// A draft model as it is loaded.
#[derive(Clone, Debug)]
struct Form {
    spec: ModelSpec,
    in_type: Option<WeightType>,
}

impl Form {
    /// The same model in other types; empty if there is none, or the user chose its type.
    fn others(&self) -> Vec<Self> {
        let is_open = self.spec.drafter.is_some() && self.spec.drafter_dtype.is_none();
        let types = TYPES.into_iter().filter(|_| is_open);
        types.map(|in_type| self.with(in_type)).collect()
    }

    fn with(&self, in_type: WeightType) -> Self {
        let spec = ModelSpec { drafter_dtype: Some(in_type), ..self.spec.clone() };
        Self { spec, in_type: Some(in_type) }
    }

    fn name(&self, drafter: &str) -> String {
        // The options have the path.
        let path = Path::new(drafter);
        let drafter = if path.exists() { name_of(path) } else { drafter.to_owned() };
        let in_type = self.in_type.map(|dtype| format!(" in {}", dtype.name())).unwrap_or_default();
        format!("{drafter}{in_type}")
    }

    fn options(&self, drafter: &str) -> Vec<String> {
        let own = ["--drafter".to_owned(), drafter.to_owned()];
        let in_type = self.in_type.map(|dtype| ["--drafter-dtype".to_owned(), dtype.name().to_owned()]);
        own.into_iter().chain(in_type.into_iter().flatten()).collect()
    }
}

/// The name to pass for a model: `embedded drafter` is `demo-drafter`.
fn short(name: &str) -> String {
    match name.strip_prefix("embedded ") {
        Some(part) => format!("demo-{}", part.split(' ').rev().collect::<Vec<_>>().join("-")),
        None => name.to_owned(),
    }
}

/// The expected speedup: `1.4x (1.2–1.6)`, or `1x` without drafts.
pub fn gain(expected: &Expectation) -> String {
    let [low, middle, high] = expected.speedup;
    if expected.drafter == (Drafter::None {}) {
        "1x".into()
    } else {
        format!("{middle:.1}x ({low:.1}–{high:.1})")
    }
}

/// How a figure is known, such as `measured 3 times`.
pub fn evidence(of: Evidence) -> String {
    match of {
        Evidence::Measured(1) => "measured once".into(),
        Evidence::Measured(times) => format!("measured {times} times"),
        Evidence::Estimated => "estimated".into(),
        Evidence::Assumed => "assumed".into(),
    }
}

/// The expected speedup of a draft model on one line: `1.4x (1.2–1.6) expected: acceptance measured 3 times,
/// speed estimated`.
pub fn words(expected: &Expectation) -> String {
    let [acceptance, speed] = [expected.acceptance, expected.speed].map(evidence);
    format!("{} expected: acceptance {acceptance}, speed {speed}", gain(expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_speculate::VisualContext;

    fn expected(drafter: Drafter) -> Expectation {
        Expectation {
            drafter,
            context: VisualContext::of_share(0.0),
            speedup: [1.2, 1.42, 1.6],
            reading_ms: 9.0,
            draft_ms: 3.0,
            chance: 0.8,
            acceptance: Evidence::Measured(3),
            speed: Evidence::Estimated,
        }
    }

    #[test]
    fn a_gain_is_told_with_its_interval_and_its_evidence() {
        let told = words(&expected(Drafter::Model {}));
        assert_eq!(told, "1.4x (1.2–1.6) expected: acceptance measured 3 times, speed estimated");
        assert_eq!(gain(&expected(Drafter::None {})), "1x");
        assert_eq!(
            [Evidence::Measured(1), Evidence::Assumed].map(evidence),
            ["measured once".to_owned(), "assumed".to_owned()]
        );
    }

    #[test]
    fn the_embedded_models_have_the_names_that_options_take() {
        let names = ["embedded drafter", "embedded weak drafter", "/srv/small"].map(short);
        assert_eq!(names, ["demo-drafter", "demo-drafter-weak", "/srv/small"]);
        let known: Vec<String> = specreel_demo::model_names().collect();
        assert!(known.is_empty() || names[..2].iter().all(|name| known.contains(name)), "{known:?}");
    }

    #[test]
    fn a_drafter_of_another_family_is_refused_with_the_reason() {
        let place = |name: &str| {
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/parity/fixtures")).join(name)
        };
        let mut settings = Settings::merge(crate::Layer::default(), &Config::default());
        settings.target.value = Some(place("qwen3_vl"));
        let of = |names: &[&str]| {
            let named: Vec<PathBuf> = names.iter().map(|name| place(name)).collect();
            Adviser::new(&settings, None, &Config::default(), &named)
        };
        let failure = of(&["smolvlm"]).err().unwrap();
        assert!(failure.error.contains("smolvlm cannot draft for qwen3_vl: the target is "), "{failure:?}");
        let found = of(&["qwen3_vl_small"]).unwrap().advise(None).unwrap();
        let own = found.configurations.iter().find(|of| of.name == "qwen3_vl_small").unwrap();
        assert_eq!(own.options[0], "--drafter");
        assert_eq!(own.options[1], place("qwen3_vl_small").display().to_string());
        settings.target.value = Some(place("nowhere"));
        assert!(Adviser::new(&settings, None, &Config::default(), &[]).is_err());
    }
}
