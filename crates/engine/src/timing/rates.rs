//! The speeds of stages that have been measured, and other numbers that follow from finished runs, by model, device and build; kept in
//! a small file from one start to the next.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::timing::pace::{Part, Rate};
use specreel_model::family::VideoLlm;
use specreel_record::Basis;
use specreel_tensor::cpu::{kernels, thread_pool::ThreadPool};

/// Figures in the file; the one that was measured longest ago is dropped first.
const MOST: usize = 128;
/// A larger file is not one of ours.
const LARGEST: u64 = 256 << 10;
/// Most numbers of a list.
const LONGEST_LIST: usize = 64;
/// A change smaller than this is not worth writing.
const CHANGE: f64 = 0.03;

/// What is known.
#[derive(Clone, Debug, PartialEq)]
enum Figure {
    /// The speed of a stage.
    Speed(Rate),
    /// What is no speed: a share, a ratio, a length. Not negative.
    Number(f64),
    /// Several numbers of one kind.
    List(Vec<f64>),
}

impl Figure {
    fn is_sane(&self) -> bool {
        match self {
            Self::Speed(rate) => rate.is_sane(),
            Self::Number(number) => (0.0..1e9).contains(number),
            Self::List(all) => {
                all.len() <= LONGEST_LIST && all.iter().all(|number| (0.0..1e9).contains(number))
            }
        }
    }

    /// Between this figure and a newer one. One of another kind replaces it.
    fn towards(&self, newer: &Self) -> Self {
        match (self, newer) {
            (Self::Speed(rate), Self::Speed(newer)) => Self::Speed(rate.towards(newer)),
            (Self::Number(number), Self::Number(newer)) => Self::Number((number + newer) / 2.0),
            _ => newer.clone(),
        }
    }

    /// True if it differs enough from an earlier one to be written.
    fn has_moved(&self, before: &Self) -> bool {
        let by = |a: f64, b: f64| (a / b - 1.0).abs() > CHANGE;
        match (self, before) {
            (Self::Speed(a), Self::Speed(b)) => by(a.products, b.products) || by(a.attention, b.attention),
            (Self::Number(a), Self::Number(b)) => by(*a, *b),
            (Self::List(a), Self::List(b)) => a.len() != b.len() || a.iter().zip(b).any(|(a, b)| by(*a, *b)),
            _ => true,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Known {
    figure: Figure,
    basis: Basis,
    /// When it was measured, in seconds since 1970.
    at: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Rates {
    known: BTreeMap<String, Known>,
    file: Option<PathBuf>,
    /// What the file does not have yet.
    changed: BTreeSet<String>,
}

impl Rates {
    /// Keep measured speeds in this file from now on, and take over those that it has. A missing or damaged file is an empty one.
    pub(crate) fn keep_in(&mut self, file: PathBuf) {
        for (key, known) in read(&file) {
            self.known.entry(key).or_insert(known);
        }
        self.file = Some(file);
    }

    /// A speed, and how it is known.
    pub fn get(&self, key: &str) -> Option<(Rate, Basis)> {
        match self.known.get(key)? {
            Known { figure: Figure::Speed(rate), basis, .. } => Some((*rate, *basis)),
            _ => None,
        }
    }

    /// A number that is no speed.
    pub fn number(&self, key: &str) -> Option<f64> {
        match self.known.get(key)?.figure {
            Figure::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Several numbers of one kind.
    pub fn list(&self, key: &str) -> Option<&[f64]> {
        match &self.known.get(key)?.figure {
            Figure::List(all) => Some(all),
            _ => None,
        }
    }

    /// Take in the speed of a finished stage.
    pub(crate) fn learn(&mut self, key: &str, rate: Rate) {
        self.learn_figure(key, Figure::Speed(rate));
    }

    /// Take in a number of a finished run, unless it is not one.
    pub(crate) fn learn_number(&mut self, key: &str, number: f64) {
        let figure = Figure::Number(number);
        if figure.is_sane() {
            self.learn_figure(key, figure);
        }
    }

    /// Replace several numbers by newer ones, which have taken the older ones in, unless they are none.
    pub(crate) fn set_list(&mut self, key: &str, all: Vec<f64>) {
        let figure = Figure::List(all);
        if figure.is_sane() {
            self.set(key, figure);
        }
    }

    fn learn_figure(&mut self, key: &str, figure: Figure) {
        let before = self.measured(key).map(|before| before.towards(&figure));
        self.set(key, before.unwrap_or(figure));
    }

    fn measured(&self, key: &str) -> Option<&Figure> {
        self.known.get(key).filter(|known| known.basis == Basis::Measured).map(|known| &known.figure)
    }

    fn set(&mut self, key: &str, figure: Figure) {
        if self.measured(key).is_none_or(|before| figure.has_moved(before)) {
            self.changed.insert(key.to_owned());
        }
        self.known.insert(key.to_owned(), Known { figure, basis: Basis::Measured, at: now() });
    }

    /// Take in the speed of a short pass; a measured one is more accurate.
    pub fn probed(&mut self, key: &str, rate: Rate) {
        let probed = Known { figure: Figure::Speed(rate), basis: Basis::Probed, at: now() };
        self.known.entry(key.to_owned()).or_insert(probed);
    }

    /// Write changed figures. Other processes' figures stay. A failure costs only the speeds.
    pub fn save(&mut self) {
        let Some(file) = self.file.as_deref().filter(|_| !self.changed.is_empty()) else { return };
        let mut all = read(file);
        for key in std::mem::take(&mut self.changed) {
            all.extend(self.known.get(&key).map(|known| (key, known.clone())));
        }
        while all.len() > MOST {
            let oldest = all.iter().min_by_key(|(_, known)| known.at).map(|(key, _)| key.clone());
            oldest.and_then(|key| all.remove(&key));
        }
        if let Err(error) = write(file, &all) {
            tracing::debug!("cannot keep measured speeds in {}: {error}", file.display());
        }
    }
}

/// What the speed of a part of a model depends on. A model is known by its sizes, not by its name.
pub(crate) fn key(part: Part, model: &VideoLlm) -> String {
    let c = model.decoder().config();
    let sizes = match part {
        Part::Tower => format!("{} {}", model.tower_config().sizes(), model.device().tower().name()),
        Part::Prompt | Part::Token => {
            let bytes = model.decoder().matrix_bytes();
            let kv = model.device().kv_type().name();
            format!("{}x{}x{}, {bytes} bytes, keys in {kv}", c.layers, c.hidden, c.intermediate)
        }
    };
    let device = match model.decoder().is_batch_invariant() && model.device().gpu().is_none() {
        false => model.device().name().to_owned(),
        true => {
            let build = if cfg!(debug_assertions) { ", debug" } else { "" };
            format!("cpu {}, {} threads{build}", kernels::implementation(), ThreadPool::global().members())
        }
    };
    format!("{} {sizes}, {device}", part.name())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |past| past.as_secs())
}

/// The sane entries of a file.
fn read(file: &Path) -> BTreeMap<String, Known> {
    let mut text = String::new();
    let opened = std::fs::File::open(file).and_then(|file| file.take(LARGEST).read_to_string(&mut text));
    let Ok(Value::Object(all)) = opened.map_err(drop).and_then(|_| serde_json::from_str(&text).map_err(drop))
    else {
        return BTreeMap::new();
    };
    let known = |(key, value): (String, Value)| {
        let number = |name: &str| value.get(name)?.as_f64();
        let list = || value.get("list")?.as_array()?.iter().map(Value::as_f64).collect::<Option<Vec<_>>>();
        let figure = match (number("number"), list()) {
            (Some(number), _) => Figure::Number(number),
            (None, Some(all)) => Figure::List(all),
            (None, None) => {
                Figure::Speed(Rate { products: number("products")?, attention: number("attention")? })
            }
        };
        let at = value.get("at").and_then(Value::as_u64).unwrap_or(0);
        figure.is_sane().then_some((key, Known { figure, basis: Basis::Measured, at }))
    };
    all.into_iter().filter_map(known).collect()
}

fn write(file: &Path, all: &BTreeMap<String, Known>) -> std::io::Result<()> {
    let dir = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let entry = |(key, Known { figure, at, .. }): (&String, &Known)| {
        let value = match figure {
            Figure::Speed(rate) => json!({"products": rate.products, "attention": rate.attention, "at": at}),
            Figure::Number(number) => json!({"number": number, "at": at}),
            Figure::List(all) => json!({"list": all, "at": at}),
        };
        (key.clone(), value)
    };
    let text = serde_json::to_string_pretty(&all.iter().map(entry).collect::<serde_json::Map<_, _>>())?;
    let mut whole = tempfile::NamedTempFile::new_in(dir)?;
    whole.write_all(text.as_bytes())?;
    whole.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { products: 4.0, attention: 20.0 };

    #[test]
    fn measured_speeds_are_kept_and_probed_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new/speeds.json");
        let mut rates = Rates::default();
        rates.keep_in(file.clone());
        rates.probed("a", RATE);
        rates.probed("b", RATE);
        assert_eq!(rates.get("a"), Some((RATE, Basis::Probed)));
        // The first measured speed replaces a probed one; later ones are averaged.
        rates.learn("a", Rate { products: 8.0, ..RATE });
        rates.learn("a", Rate { products: 6.0, ..RATE });
        rates.save();
        let kept = |key: &str| {
            let mut other = Rates::default();
            other.keep_in(file.clone());
            other.get(key)
        };
        assert_eq!((kept("a"), kept("b")), (Some((Rate { products: 7.0, ..RATE }, Basis::Measured)), None));

        // Another process has written meanwhile.
        let mut other = Rates::default();
        other.keep_in(file.clone());
        other.learn("c", RATE);
        other.save();
        rates.learn("d", RATE);
        rates.save();
        assert!(["a", "c", "d"].iter().all(|key| kept(key).is_some()));
        // Numbers beside speeds; none is taken for the other.
        rates.learn_number("n", 30.0);
        rates.learn_number("n", 10.0);
        rates.learn_number("m", f64::NAN);
        assert_eq!((rates.number("n"), rates.get("n"), rates.number("d")), (Some(20.0), None, None));
        assert_eq!(rates.number("m"), None);
        rates.set_list("l", vec![0.5, 2.0]);
        rates.set_list("l", vec![0.25, 3.0]);
        rates.set_list("l", vec![f64::NAN]);
        rates.save();
        let mut other = Rates::default();
        other.keep_in(file.clone());
        assert_eq!((other.number("n"), other.get("d").is_some()), (Some(20.0), true));
        assert_eq!((other.list("l"), other.list("n")), (Some(&[0.25, 3.0][..]), None));
        // A small change is not written.
        let before = std::fs::read(&file).unwrap();
        rates.learn("d", Rate { products: 4.1, ..RATE });
        rates.save();
        assert_eq!(std::fs::read(&file).unwrap(), before);
    }

    #[test]
    fn damaged_files_are_empty_and_full_ones_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("speeds.json");
        for text in [
            "",
            "{",
            "[1]",
            "\u{0}",
            r#"{"a": 3, "b": {"products": -1, "attention": 2}, "c": {"products": 1e300, "attention": 1}, "d": {"number": -1}}"#,
        ] {
            std::fs::write(&file, text).unwrap();
            assert!(read(&file).is_empty(), "{text}");
            let mut rates = Rates::default();
            rates.keep_in(file.clone());
            rates.learn("x", RATE);
            rates.save();
            assert_eq!(read(&file).len(), 1, "{text}");
        }
        std::fs::write(&file, r#"{"bad": null, "good": {"products": 1, "attention": 2}}"#).unwrap();
        assert_eq!(read(&file).keys().collect::<Vec<_>>(), ["good"]);
        let mut rates = Rates::default();
        rates.keep_in(file.clone());
        (0..MOST + 20).for_each(|n| rates.learn(&format!("key {n}"), RATE));
        rates.save();
        assert_eq!(read(&file).len(), MOST);
        assert!(!read(&file).contains_key("good"), "the oldest is dropped");
        // A directory that cannot be written costs nothing but the speeds.
        let mut rates = Rates::default();
        rates.keep_in(file.join("below/a/file.json"));
        rates.learn("x", RATE);
        rates.save();
        assert!(rates.get("x").is_some());
    }
}
