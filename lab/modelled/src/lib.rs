//! Runs on other hardware: profiles by name, and the times that they give a run, or a run that a paper reports.

pub mod profile;
mod replay;

pub use replay::{Reported, replay};

use std::{fs, path::Path};

use profile::{Drafting, Modelled, Profile, Sizes, Window, Workload};
use specreel_model::{mac_count, shapes};
use specreel_record::{Failure, RunLog, RunState, StopReason};
use specreel_speculate::{Drafter, Limit, Method, Schedule, Shape, VisualContext, WindowSize};

macro_rules! shipped {
    ($($name:literal),+ $(,)?) => {
        /// The profiles of this build: name and file.
        const SHIPPED: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../profiles/", $name, ".toml")))),+];
    };
}

shipped! {
    "h200-qwen2.5-vl-32b-7b",
    "h200-qwen2.5-vl-7b",
    "h200-llava-ov-72b-7b",
    "h200-llava-ov-7b",
    "a100-llava-ov-72b-7b",
    "a100-llava-ov-7b",
    "a100-qwen2.5-vl-32b-7b",
    "a100-qwen2.5-vl-7b",
    "a100-llava-ov-7b-batch8",
    "a100-qwen2-vl-7b-batch8",
    "l40s-llava-ov-72b-7b",
    "l40s-llava-ov-7b-0.5b",
    "l40s-qwen2.5-vl-32b-7b",
    "l40s-llava-ov-7b",
    "l40s-qwen2.5-vl-7b",
    "l20-llava-ov-7b",
    "l20-qwen2.5-vl-7b",
    "a800-qwen2.5-vl-7b-0.5k",
    "a800-qwen2.5-vl-7b-1.5k",
    "a800-qwen2.5-vl-7b-17k",
    "a800-qwen2.5-vl-7b-25k",
}

pub fn names() -> Vec<&'static str> {
    SHIPPED.iter().map(|(name, _)| *name).collect()
}

/// A profile by name, or from a file. Fails if there is neither, or the file is invalid.
pub fn load(name: &str) -> Result<Profile, Failure> {
    if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return Profile::parse(name, text, &sizes);
    }
    let path = Path::new(name);
    if !path.exists() && path.components().count() == 1 && path.extension().is_none_or(|e| e != "toml") {
        return Err(Failure::usage(
            format!("unknown profile `{name}`"),
            format!("expected a file, or one of: {}", names().join(", ")),
        ));
    }
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::input(
            format!("cannot read profile {name}: {error}"),
            format!("expected a file, or one of: {}", names().join(", ")),
        )
    })?;
    let stem = path.file_stem().map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned());
    Profile::parse(&stem, &text, &sizes)
}

fn sizes(shape: &str) -> Option<Sizes> {
    let c = shapes::find(shape)?;
    // Only some layers of a hybrid model have keys and values.
    let (layers, attending) = (c.layers as f64, c.attention_layers() as f64 / c.layers as f64);
    Some(Sizes {
        layers,
        layer_weights: mac_count::row(&c) / layers,
        head_weights: mac_count::logits(&c),
        kv_values: (2 * c.kv_heads * c.head_dim) as f64 * attending,
        attention: mac_count::slot(&c) / layers,
        hidden: c.hidden as f64,
    })
}

/// What a run takes under a profile; `None` without tokens, or if the method or its drafter is unknown.
pub fn charge(profile: &Profile, log: &RunLog) -> Option<Modelled> {
    let method: Method = serde_json::from_value(log.started()?.method.clone()).ok()?;
    let prompt = log.prompt()?;
    let visual = prompt.visual_tokens;
    let text = prompt.prompt_ids.len().saturating_sub(visual);
    let sees = seen_share(&method, text, visual, prompt.kept.as_deref());
    let drafting = drafting(&method, &log.started()?.dtype);
    let (window, grown) = (window(&method), grown(&method));
    let stats = log.stats();
    profile.charge(&Workload {
        drafting,
        window,
        grown,
        text,
        visual,
        drafter_sees: sees,
        target_sees: if log.started()?.pruner.is_some() { sees } else { 1.0 },
        steps: log.steps(),
        drafted: stats.drafted,
        ended: *log.state() == RunState::Done(StopReason::Eos),
    })
}

/// The modelled decode speedup over autoregressive decoding under the same profile. None as for [`charge`].
pub fn speedup(profile: &Profile, log: &RunLog) -> Option<f64> {
    charge(profile, log).map(|modelled| modelled.speedup())
}

/// Share of the visual tokens that the method's context keeps: those that a run reports, or by its own words.
fn seen_share(method: &Method, text: usize, visual: usize, kept: Option<&[u32]>) -> f64 {
    let share = |kept: usize| if visual == 0 { 0.0 } else { (kept as f64 / visual as f64).min(1.0) };
    match (&method.context, kept) {
        // What is recorded is the union of all heads; each reads its own part.
        (VisualContext::TopKKv { keep, budget: Limit::Tokens(all), .. }, _) => {
            keep.min(share(all.saturating_sub(text)))
        }
        (VisualContext::TopKKv { keep, .. }, _) => *keep,
        (_, Some(kept)) => share(kept.len()),
        (VisualContext::Streaming { first, last, .. }, None) => share(first + last),
        (VisualContext::Full {} | VisualContext::Auto {}, None) => 1.0,
        (VisualContext::None { .. }, None) => 0.0,
        (_, None) => {
            let mut numbers = method.numbers().into_iter();
            let keep = numbers.find(|(axis, key, _)| axis.name == "context" && key.name == "keep");
            keep.map_or(1.0, |(_, _, keep)| keep)
        }
    }
}

fn drafting(method: &Method, dtype: &str) -> Drafting {
    match &method.drafter {
        Drafter::None {} | Drafter::Auto {} => Drafting::Nothing,
        Drafter::Lookup { .. } => Drafting::Free,
        Drafter::Model {} => Drafting::Model,
        Drafter::Head { recipe, .. } => Drafting::Head(
            serde_json::to_value(recipe).ok().and_then(|r| Some(r.as_str()?.to_owned())).unwrap_or_default(),
        ),
        Drafter::EarlyExit { depth } => Drafting::Target { share: *depth, weights: 1.0 },
        Drafter::Target { .. } => Drafting::Target { share: 1.0, weights: lighter(method, dtype) },
    }
}

/// Bytes of the drafter's weights relative to the target's, where the target drafts for itself in another type.
fn lighter(method: &Method, dtype: &str) -> f64 {
    let method = serde_json::to_value(method).unwrap_or_default();
    let bits = |name: &str| match name {
        "f32" => Some(32.0),
        "f16" | "bf16" => Some(16.0),
        "q8_0" => Some(8.5),
        "q5_1" => Some(6.0),
        "q5_0" => Some(5.5),
        "q4_1" => Some(5.0),
        "q4_0" | "q4_k" | "iq4_nl" => Some(4.5),
        _ => None,
    };
    let own = method["drafter"]["dtype"].as_str();
    // Profiles assume a target in 16 bits, regardless of the type that runs here. A self-draft of the target's own type is no cheaper.
    let lighter = own.filter(|own| *own != dtype).and_then(bits);
    lighter.map_or(1.0, |bits: f64| (bits / 16.0).min(1.0))
}

fn window(method: &Method) -> Option<Window> {
    match &method.schedule {
        Schedule::Sequential { .. } => None,
        Schedule::Parallel { window: WindowSize::Fixed(window), .. } => Some(Window::Fixed(*window)),
        Schedule::Parallel { window: WindowSize::By(_), .. } => Some(Window::Auto),
    }
}

fn grown(method: &Method) -> Option<(usize, usize)> {
    match &method.shape {
        shape @ Shape::DynamicTree { width, .. } => Some((shape.longest(), *width)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
