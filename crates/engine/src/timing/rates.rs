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
use specreel_model::{config::TextConfig, family::VideoLlm, vision::TowerConfig};
use specreel_record::Basis;
use specreel_tensor::{
    ComputeDevice,
    cpu::{kernels, thread_pool::ThreadPool},
};

/// Figures in the file; the one that was measured longest ago is dropped first.
const MOST: usize = 256;
/// A larger file is not one of ours.
const LARGEST: u64 = 512 << 10;
/// Most numbers of a list.
const LONGEST_LIST: usize = 64;
/// A change smaller than this is not worth writing,
const CHANGE: f64 = 0.03;
/// except in the first measurements, which are counted.
pub(crate) const FEW: u64 = 8;

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

    /// How far a newer figure of the same kind is from this one: of a speed relative to it, of several numbers not known (0).
    fn distance(&self, newer: &Self) -> f64 {
        match (self, newer) {
            (Self::Speed(rate), Self::Speed(newer)) => (newer.products / rate.products - 1.0).abs(),
            (Self::Number(number), Self::Number(newer)) => (newer - number).abs(),
            _ => 0.0,
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
    measured: Measured,
}

/// How well a figure is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    /// How often it was measured.
    pub times: u64,
    /// How far measurements are from those before them, usually: of a number in its unit, of a speed relative to it; 0 if there was
    /// only one, or several numbers.
    pub spread: f64,
}

impl Measured {
    const ONCE: Self = Self { times: 1, spread: 0.0 };

    /// With another measurement, so far away from those before it.
    fn and(self, distance: f64) -> Self {
        let spread = if self.times > 1 { (self.spread + distance) / 2.0 } else { distance };
        Self { times: self.times.saturating_add(1), spread }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    known: BTreeMap<String, Known>,
    file: Option<PathBuf>,
    /// What the file does not have yet.
    changed: BTreeSet<String>,
    /// Runs share the device, so their speeds are not learned.
    is_shared: bool,
}

impl Rates {
    /// Learn no speeds from now on: runs share the device with others.
    pub(crate) fn set_shared(&mut self) {
        self.is_shared = true;
    }

    /// Whether times of runs say nothing about a run alone.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

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
        if !self.is_shared {
            self.learn_figure(key, Figure::Speed(rate));
        }
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
            self.set(key, figure, 0.0);
        }
    }

    fn learn_figure(&mut self, key: &str, figure: Figure) {
        let before = self.measured(key).map(|before| before.figure.towards(&figure));
        let distance = self.measured(key).map_or(0.0, |before| before.figure.distance(&figure));
        self.set(key, before.unwrap_or(figure), distance);
    }

    fn measured(&self, key: &str) -> Option<&Known> {
        self.known.get(key).filter(|known| known.basis == Basis::Measured)
    }

    /// How well a figure is known; `None` if it was never measured.
    pub fn how_measured(&self, key: &str) -> Option<Measured> {
        Some(self.measured(key)?.measured)
    }

    fn set(&mut self, key: &str, figure: Figure, distance: f64) {
        let before = self.measured(key);
        let measured = before.map_or(Measured::ONCE, |before| before.measured.and(distance));
        if measured.times <= FEW || before.is_none_or(|before| figure.has_moved(&before.figure)) {
            self.changed.insert(key.to_owned());
        }
        self.known.insert(key.to_owned(), Known { figure, basis: Basis::Measured, at: now(), measured });
    }

    /// Take in the speed of a short pass; a measured one is more accurate.
    pub fn probed(&mut self, key: &str, rate: Rate) {
        let probed =
            Known { figure: Figure::Speed(rate), basis: Basis::Probed, at: now(), measured: Measured::ONCE };
        self.known.entry(key.to_owned()).or_insert(probed);
    }

    /// Take what is known under names that end in `from` for what is not known under the same names ending in `to`; speeds are so many
    /// `times` as long.
    pub fn lend(&mut self, from: &str, to: &str, times: f64) {
        let lent = self.known.iter().filter_map(|(key, known)| {
            let key = format!("{}{to}", key.strip_suffix(from)?);
            let figure = match &known.figure {
                Figure::Speed(rate) => Figure::Speed(rate.times(times)),
                figure => figure.clone(),
            };
            Some((key, Known { figure, basis: Basis::Probed, ..known.clone() }))
        });
        for (key, known) in lent.collect::<Vec<_>>() {
            self.known.entry(key).or_insert(known);
        }
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

/// What the speeds of a model depend on. It is known by its sizes, not by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    text: String,
    tower: String,
    device: String,
}

impl Identity {
    pub fn of(model: &VideoLlm) -> Self {
        let (decoder, device) = (model.decoder(), model.device());
        let invariant = decoder.is_batch_invariant();
        Self::new((decoder.config(), decoder.matrix_bytes()), model.tower_config(), device, invariant)
    }

    /// Of a model of these sizes, of which a pass of one row reads so many bytes, on a device.
    pub fn new(
        (text, bytes): (&TextConfig, usize),
        tower: &TowerConfig,
        device: &ComputeDevice,
        is_batch_invariant: bool,
    ) -> Self {
        let on = match is_batch_invariant && device.gpu().is_none() {
            false => device.name().to_owned(),
            true => {
                let build = if cfg!(debug_assertions) { ", debug" } else { "" };
                format!(
                    "cpu {}, {} threads{build}",
                    kernels::implementation(),
                    ThreadPool::global().members()
                )
            }
        };
        let (layers, hidden, intermediate) = (text.layers, text.hidden, text.intermediate);
        let kv = device.kv_type().name();
        Self {
            text: format!("{layers}x{hidden}x{intermediate}, {bytes} bytes, keys in {kv}"),
            tower: format!("{} {}", tower.sizes(), device.tower().name()),
            device: on,
        }
    }

    /// The name of the speed of a part of it.
    pub fn key(&self, part: Part) -> String {
        let sizes = match part {
            Part::Tower => &self.tower,
            Part::Prompt | Part::Token => &self.text,
        };
        format!("{} {sizes}, {}", part.name(), self.device)
    }
}

/// The name of the speed of a part of a loaded model.
pub(crate) fn key(part: Part, model: &VideoLlm) -> String {
    Identity::of(model).key(part)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |past| past.as_secs())
}

/// Why a file is not one of measured speeds; `None` if it is, or there is none.
pub(crate) fn damage(file: &Path) -> Option<String> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => return Some(error.to_string()),
    };
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(all)) if all.is_empty() || !read(file).is_empty() => None,
        Ok(_) => Some("it has no measured speeds".into()),
        Err(error) => Some(error.to_string()),
    }
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
        let whole = |name: &str| value.get(name).and_then(Value::as_u64);
        let spread = number("spread").filter(|spread| (0.0..1e9).contains(spread)).unwrap_or(0.0);
        let measured = Measured { times: whole("times").unwrap_or(1).max(1), spread };
        let at = whole("at").unwrap_or(0);
        figure.is_sane().then_some((key, Known { figure, basis: Basis::Measured, at, measured }))
    };
    all.into_iter().filter_map(known).collect()
}

fn write(file: &Path, all: &BTreeMap<String, Known>) -> std::io::Result<()> {
    let dir = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let entry = |(key, Known { figure, at, measured, .. }): (&String, &Known)| {
        let mut value = match figure {
            Figure::Speed(rate) => json!({"products": rate.products, "attention": rate.attention, "at": at}),
            Figure::Number(number) => json!({"number": number, "at": at}),
            Figure::List(all) => json!({"list": all, "at": at}),
        };
        (value["times"], value["spread"]) = (json!(measured.times), json!(measured.spread));
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
        // Numbers are stored next to speeds, and neither is taken for the other.
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
        // A small change is not written, once it was measured a few times.
        (1..FEW).for_each(|_| rates.learn("d", RATE));
        rates.save();
        let before = std::fs::read(&file).unwrap();
        rates.learn("d", Rate { products: 4.1, ..RATE });
        rates.save();
        assert_eq!(std::fs::read(&file).unwrap(), before);
    }

    #[test]
    fn measurements_are_counted_and_their_distances_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("speeds.json");
        let kept = |key: &str| {
            let mut rates = Rates::default();
            rates.keep_in(file.clone());
            rates.how_measured(key)
        };
        let mut rates = Rates::default();
        rates.keep_in(file.clone());
        rates.probed("p", RATE);
        rates.learn_number("n", 0.5);
        rates.save();
        assert_eq!((kept("n"), rates.how_measured("p")), (Some(Measured { times: 1, spread: 0.0 }), None));
        // The mean is 0.6 then.
        rates.learn_number("n", 0.7);
        rates.learn_number("n", 0.6);
        rates.learn("p", RATE);
        rates.learn("p", RATE.times(1.5));
        rates.save();
        let near = |found: Option<Measured>, times: u64, spread: f64| {
            found.is_some_and(|found| found.times == times && (found.spread - spread).abs() < 1e-9)
        };
        assert!(near(kept("n"), 3, 0.1) && near(kept("p"), 2, 0.5), "{:?} {:?}", kept("n"), kept("p"));
        // Files of earlier versions do not count.
        std::fs::write(&file, r#"{"n": {"number": 0.5}, "m": {"number": 1, "spread": -3, "times": 0}}"#)
            .unwrap();
        assert!(near(kept("n"), 1, 0.0) && near(kept("m"), 1, 0.0));
    }

    #[test]
    fn what_is_not_known_is_lent() {
        let mut rates = Rates::default();
        rates.learn_number("passing 1, target, small", 0.8);
        rates.learn("drafting, target, small", RATE);
        rates.learn_number("passing 1, target, smaller", 0.5);
        rates.lend(", target, small", ", target, smaller", 0.5);
        assert_eq!(rates.number("passing 1, target, smaller"), Some(0.5), "what is known stays");
        assert_eq!(rates.get("drafting, target, smaller"), Some((RATE.times(0.5), Basis::Probed)));
        assert_eq!(rates.how_measured("drafting, target, smaller"), None);
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
            assert!(read(&file).is_empty() && damage(&file).is_some(), "{text}");
            let mut rates = Rates::default();
            rates.keep_in(file.clone());
            rates.learn("x", RATE);
            rates.save();
            assert_eq!(read(&file).len(), 1, "{text}");
        }
        std::fs::write(&file, r#"{"bad": null, "good": {"products": 1, "attention": 2}}"#).unwrap();
        assert_eq!(read(&file).keys().collect::<Vec<_>>(), ["good"]);
        assert_eq!([&file, &dir.path().join("none")].map(|file| damage(file)), [None, None]);
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
