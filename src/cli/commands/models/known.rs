//! `specreel models known`: published models, their sizes, what fits this machine, and which of them draft for which.

use super::*;
use specreel_checkpoint::hub::{Cache, ModelId, Settings};
use specreel_client::present::text;
use specreel_model::inspect::Memory;
use specreel_model::known::{GgufType, KNOWN, KnownModel};
use specreel_os::memory;
use specreel_tensor::WeightType;

/// The types that are tried on this machine, the default first.
const TYPES: [WeightType; 2] = [WeightType::Q8_0, WeightType::Q4K];

/// What is known of a model on this machine.
struct Here {
    known: &'static KnownModel,
    cached: bool,
    memory: Vec<Memory>,
    available: Option<u64>,
}

impl Here {
    /// The first of the types in which it fits into the available memory; `no` if there is none, and `None` if the system does not
    /// report its memory.
    fn fits(&self) -> Option<&'static str> {
        let available = self.available?;
        let fitting = self.memory.iter().find(|memory| memory.run <= available);
        Some(fitting.map_or("no", |memory| memory.dtype))
    }
}

pub fn run(json: bool) -> Result<i32, End> {
    let cache = Settings::from_env().cache.map(Cache::new);
    let available = memory::available();
    let here = KNOWN.iter().map(|known| {
        let id = ModelId::parse(known.id).ok();
        Here {
            known,
            cached: cache.as_ref().zip(id).is_some_and(|(cache, id)| cache.find(&id).is_some()),
            memory: known.memory(&TYPES).unwrap_or_default(),
            available,
        }
    });
    let here: Vec<Here> = here.collect();
    let text = match json {
        true => format!("{}\n", Value::Array(here.iter().map(as_json).collect())),
        false => table(&here, terminal::columns()),
    };
    print(&text)
}

fn table(here: &[Here], width: Option<usize>) -> String {
    let head = ["MODEL", "FAMILY", "PARAMETERS", "SIZE", "GGUF", "FITS", "CACHED", "DRAFTERS"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for model in here {
        let (known, sizes) = (model.known, model.known.sizes());
        let dash = || "-".to_owned();
        rows.push(vec![
            known.id.to_owned(),
            sizes.map_or_else(dash, |sizes| sizes.family.name.to_owned()),
            sizes.map_or_else(dash, |sizes| {
                let all = parameters(sizes.text + sizes.tower);
                match sizes.text - sizes.active {
                    0 => all,
                    _ => format!("{all}, {} per token", parameters(sizes.active)),
                }
            }),
            sizes.map_or_else(dash, |sizes| bytes(sizes.bytes)),
            gguf(known).unwrap_or_else(dash),
            model.fits().map_or_else(dash, str::to_owned),
            if model.cached { "yes" } else { "no" }.to_owned(),
            drafters(known),
        ]);
    }
    leave_out(&mut rows, width);
    let available = here.first().and_then(|model| model.available);
    let now = available.map(|n| format!("; {} available", bytes(n))).unwrap_or_default();
    let mut notes =
        format!("FITS: weight type in which 30 s of 720p fits into memory, without a drafter{now}\n");
    if rows[0].iter().any(|title| title == "GGUF") {
        notes += "GGUF: owner, types and sizes of OWNER/NAME-GGUF:TYPE, estimated, mmproj file included\n";
    }
    columns(&rows) + "\n" + &hang(&notes, width, 6)
}

/// Leave out columns until the table fits the terminal. Ids stay whole, since they are typed.
fn leave_out(rows: &mut [Vec<String>], width: Option<usize>) {
    let is_wider = |rows: &[Vec<String>]| {
        width.is_some_and(|width| columns(rows).lines().any(|line| text::width(line) > width))
    };
    for title in ["GGUF", "CACHED", "PARAMETERS", "FAMILY", "DRAFTERS"] {
        let at = rows[0].iter().position(|other| other == title);
        if let Some(at) = at.filter(|_| is_wider(rows)) {
            rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
    }
}

/// The owner of its GGUF files, and their types with their sizes.
fn gguf(known: &KnownModel) -> Option<String> {
    let (repository, files) = known.gguf_files()?;
    let owner = repository.split_once('/').map_or(repository.as_str(), |(owner, _)| owner);
    let files: Vec<String> =
        files.iter().map(|(kind, size)| format!("{} ≈{}", kind.name(), bytes(*size))).collect();
    Some(format!("{owner} {}", files.join(", ")))
}

/// The best drafter, without its owner, and how many more there are.
fn drafters(known: &KnownModel) -> String {
    let Some((best, others)) = known.drafters.split_first() else { return "-".to_owned() };
    let best = best.split_once('/').map_or(*best, |(_, name)| name);
    if others.is_empty() { best.to_owned() } else { format!("{best} +{}", others.len()) }
}

fn as_json(model: &Here) -> Value {
    let (known, sizes) = (model.known, model.known.sizes());
    let gguf: Vec<Value> = known.gguf_files().map_or_else(Vec::new, |(repository, files)| {
        let file = |(kind, bytes): &(GgufType, u64)| {
            let id = format!("{repository}:{}", kind.name());
            json!({ "id": id, "type": kind.name(), "bytes": bytes })
        };
        files.iter().map(file).collect()
    });
    json!({
        "id": known.id,
        "family": sizes.map(|sizes| sizes.family.model_type),
        "parameters": sizes.map(|sizes| sizes.text + sizes.tower),
        "active_parameters": sizes.map(|sizes| sizes.active),
        "bytes": sizes.map(|sizes| sizes.bytes),
        "gguf": gguf,
        "memory": model.memory,
        "available_memory": model.available,
        "fits": model.fits(),
        "cached": model.cached,
        "drafters": known.drafters,
    })
}

/// A hint that names a published drafter of a model that was just downloaded.
pub fn suggestion(id: &ModelId) -> Option<String> {
    let best = KnownModel::find(&id.repository())?.drafters.first()?;
    Some(format!("{best} can draft for {}: specreel models pull {best}", id.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_gets_whole_ids_and_what_fits() {
        let here: Vec<Here> = KNOWN
            .iter()
            .map(|known| Here {
                known,
                cached: false,
                memory: known.memory(&TYPES).unwrap(),
                available: Some(20 << 30),
            })
            .collect();
        for width in [60, 80, 100, 120] {
            let table = table(&here, Some(width));
            assert!(table.lines().all(|line| text::width(line) <= width), "{width}: {table}");
            for known in &KNOWN {
                let row = table.lines().find(|line| line.split(' ').next() == Some(known.id)).unwrap();
                assert!(["q8_0", "q4_k", "no"].iter().any(|fits| row.contains(fits)), "{width}: {row}");
            }
        }
        let whole = table(&here, None);
        let row = |id: &str| whole.lines().find(|line| line.starts_with(id)).unwrap();
        assert!(row("Qwen/Qwen3.8-27B").ends_with("q4_k  no      Qwen3.5-4B +3"), "{whole}");
        assert!(row("Qwen/Qwen3-VL-32B").ends_with(" no    no      Qwen3-VL-8B-Instruct +2"), "{whole}");
        assert!(row("Qwen/Qwen3-VL-4B").contains("Qwen Q4_K_M ≈3.3 GB, Q8_0 ≈5.1 GB"), "{whole}");
    }
}
