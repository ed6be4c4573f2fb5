//! `specreel models known`: published models, and which of them draft for which.

use super::*;
use specreel_checkpoint::hub::{Cache, ModelId, Settings};
use specreel_model::known::{KNOWN, KnownModel};

pub fn run(json: bool) -> Result<i32, End> {
    let cache = Settings::from_env().cache.map(Cache::new);
    let is_here = |known: &KnownModel| {
        let id = ModelId::parse(known.id).ok();
        cache.as_ref().zip(id).is_some_and(|(cache, id)| cache.find(&id).is_some())
    };
    let text = match json {
        true => {
            format!("{}\n", Value::Array(KNOWN.iter().map(|known| as_json(known, is_here(known))).collect()))
        }
        false => table(&is_here, terminal::columns()),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(0)
}

fn table(is_here: &dyn Fn(&KnownModel) -> bool, width: Option<usize>) -> String {
    let mut rows = vec![["MODEL", "FAMILY", "PARAMETERS", "CACHED", "DRAFTERS"].map(str::to_owned).to_vec()];
    for known in &KNOWN {
        let sizes = known.sizes();
        let family = sizes.map_or("-", |sizes| sizes.family.name).to_owned();
        let count = sizes.map_or_else(|| "-".to_owned(), |sizes| parameters(sizes.text + sizes.tower));
        let cached = if is_here(known) { "yes" } else { "no" }.to_owned();
        rows.push(vec![known.id.to_owned(), family, count, cached, drafters(known)]);
    }
    fitting(&mut rows, &[0, 2, 4, 3, 1], width);
    columns(&rows)
}

/// The drafters without the owner, which is the model's.
fn drafters(known: &KnownModel) -> String {
    let names: Vec<&str> =
        known.drafters.iter().map(|id| id.split_once('/').map_or(*id, |(_, name)| name)).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

fn as_json(known: &KnownModel, cached: bool) -> Value {
    let sizes = known.sizes();
    json!({
        "id": known.id,
        "family": sizes.map(|sizes| sizes.family.model_type),
        "parameters": sizes.map(|sizes| sizes.text + sizes.tower),
        "cached": cached,
        "drafters": known.drafters,
    })
}

/// A hint that names a published drafter of a model that was just downloaded.
pub fn suggestion(id: &ModelId) -> Option<String> {
    let best = KnownModel::find(&id.repository())?.drafters.first()?;
    Some(format!("{best} can draft for {}: specreel models pull {best}", id.name))
}
