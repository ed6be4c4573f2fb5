//! `specreel models cache`: converted weights on disk.

use std::time::{SystemTime, UNIX_EPOCH};

use super::*;
use crate::cli::args::models::{CacheArgs, CacheCommand};
use specreel_checkpoint::WeightCache;
use specreel_checkpoint::weight_cache::{CacheEntry, EntryState, Standing};
use specreel_client::{present::formats::ago, weight_cache};
use specreel_os::dirs::HOME;

pub fn run(args: &CacheArgs, json: bool, config: &Config) -> Result<i32, End> {
    let cache = weight_cache::configured(config)
        .ok_or_else(|| Failure::input("no home directory", format!("set {HOME} or SPECREEL_WEIGHT_CACHE")))?;
    match args.command.as_ref().unwrap_or(&CacheCommand::List) {
        CacheCommand::List => list(&cache, json),
        CacheCommand::Clear { name, stale } => clear(&cache, name.as_deref(), *stale, json),
        CacheCommand::Verify => verify(&cache, json),
    }
}

fn list(cache: &WeightCache, json: bool) -> Result<i32, End> {
    let entries = cache.entries();
    let total = entries.iter().map(|entry| entry.bytes).sum();
    let text = if json {
        let entries: Vec<Value> = entries.iter().map(as_json).collect();
        format!("{}\n", json!({"dir": cache.dir, "bytes": total, "limit": cache.limit, "entries": entries}))
    } else {
        let dir = cache.dir.display().to_string();
        let summary = format!("{} of {} in {}\n", bytes(total), bytes(cache.limit), color::plain(&dir));
        let table = if entries.is_empty() { String::new() } else { table(&entries, terminal::columns()) };
        table + &summary
    };
    print(&text)
}

fn table(entries: &[CacheEntry], width: Option<usize>) -> String {
    let mut rows =
        vec![["MODEL", "TYPE", "SIZE", "LAST USED", "CHECKPOINT", "ID"].map(str::to_owned).to_vec()];
    for entry in entries {
        let age = SystemTime::now().duration_since(entry.last_used).unwrap_or_default().as_secs();
        let age = match ago(age).as_str() {
            "now" => "now".to_owned(),
            age => format!("{age} ago"),
        };
        let (model, dtype) = match &entry.state {
            EntryState::Usable { model, variant } => (model.as_str(), variant.as_str()),
            EntryState::Unusable(problem) => ("-", problem.as_str()),
        };
        let model = color::plain(model).into_owned();
        let checkpoint = standing(entry).0.to_owned();
        rows.push(vec![model, dtype.to_owned(), bytes(entry.bytes), age, checkpoint, entry.id.clone()]);
    }
    fitting(&mut rows, &[0, 2, 4, 5, 3, 1], width);
    columns(&rows)
}

/// What became of the checkpoint, and where it is or was.
fn standing(entry: &CacheEntry) -> (&'static str, Option<&Path>) {
    match &entry.checkpoint {
        Standing::Unknown => ("unknown", None),
        Standing::Current(place) => ("current", Some(place)),
        Standing::Changed(place) => ("changed", Some(place)),
        Standing::Missing(place) => ("missing", Some(place)),
    }
}

fn clear(cache: &WeightCache, name: Option<&str>, stale: bool, json: bool) -> Result<i32, End> {
    let mut entries = cache.entries();
    if let Some(name) = name {
        entries.retain(|entry| entry.is_named(name));
        if entries.is_empty() {
            return Err(End::Failed(Failure::input(
                format!("no converted weights of `{name}`"),
                "specreel models cache lists them",
            )));
        }
    }
    entries.retain(|entry| !stale || matches!(entry.checkpoint, Standing::Changed(_)));
    for entry in &entries {
        cache.remove(entry).map_err(|error| {
            Failure::input(
                format!("cannot remove {}: {error}", entry.path.display()),
                "make the directory writable",
            )
        })?;
    }
    let partial = if name.is_none() && !stale {
        cache.forget_kernel_limits();
        cache.remove_partial()
    } else {
        0
    };
    let freed = entries.iter().map(|entry| entry.bytes).sum::<u64>() + partial;
    let text = if json {
        format!("{}\n", json!({"removed": entries.len(), "bytes": freed}))
    } else {
        format!("{} removed, {} freed\n", entries.len(), bytes(freed))
    };
    print(&text)
}

/// Exit code 3 if some weights are damaged.
fn verify(cache: &WeightCache, json: bool) -> Result<i32, End> {
    let mut out = std::io::stdout();
    let mut values = Vec::new();
    let mut damaged = false;
    for entry in cache.entries() {
        let problem = entry.verify().err();
        damaged |= problem.is_some();
        if json {
            let mut value = as_json(&entry);
            value["error"] = json!(problem);
            values.push(value);
        } else {
            let name = match &entry.state {
                EntryState::Usable { model, variant } => format!("{model} {variant}"),
                EntryState::Unusable(_) => entry.id.clone(),
            };
            writeln!(out, "{}  {}", color::plain(&name), problem.as_deref().unwrap_or("ok"))?;
        }
    }
    if json {
        writeln!(out, "{}", Value::from(values))?;
    }
    if damaged {
        tell!(
            "hint: `specreel models cache clear ID` removes them; they are converted again when they are needed"
        );
    }
    Ok(if damaged { FailureClass::Input.exit_code() } else { 0 })
}

fn as_json(entry: &CacheEntry) -> Value {
    let used = entry.last_used.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (state, place) = standing(entry);
    let mut value = json!({"id": entry.id, "path": entry.path, "bytes": entry.bytes, "last_used": used,
        "checkpoint": state, "checkpoint_path": place});
    match &entry.state {
        EntryState::Usable { model, variant } => {
            value["model"] = json!(model);
            value["dtype"] = json!(variant);
        }
        EntryState::Unusable(problem) => value["error"] = json!(problem),
    }
    value
}
