//! `specreel models inspect`.

use std::fmt::Write as _;

use super::*;
use specreel_checkpoint::{Checkpoint, ModelFiles, hub::name_of};
use specreel_model::draft_head::DraftHeadConfig;
use specreel_model::inspect::{Conversion, Inspection};
use specreel_os::memory;
use specreel_record::units;
use specreel_speculate::Drafter;
use specreel_tensor::WeightType;

pub fn run(
    model: &Path,
    mmproj: Option<&Path>,
    dtype: Option<WeightType>,
    as_json: bool,
    config: &Config,
) -> Result<i32, End> {
    let dir = local::directory(model)
        .map_err(|(what, hint)| Failure::input(format!("model {}: {what}", model.display()), hint))?;
    let refuse = |what: &str| Failure::input(format!("{} is {what}", model.display()), "omit --dtype");
    if DraftHeadConfig::is_in(&dir) && dtype.is_some() {
        return Err(refuse("a draft head, whose tensors are not listed").into());
    }
    if mmproj.is_some() && dir.is_dir() {
        let error = format!("--mmproj belongs to a GGUF file, but {} is a directory", model.display());
        return Err(Failure::usage(error, "omit --mmproj").into());
    }
    if DraftHeadConfig::is_in(&dir) {
        return draft_head(&dir, as_json);
    }
    let inspection = Inspection::of(&dir, mmproj);
    let drafters: Vec<String> = match inspection.problems.is_empty() {
        true => local::drafters(&dir, config).into_iter().map(|found| found.name).collect(),
        false => Vec::new(),
    };
    let available = memory::available();
    let files = ModelFiles::open(&dir, mmproj).ok();
    if dtype.is_some() && files.as_ref().is_some_and(|files| files.gguf().is_some()) {
        return Err(refuse("a GGUF file, whose types are used as they are").into());
    }
    let conversions = dtype.map(|dtype| (dtype, inspection.conversions(dtype)));
    let mmproj = files.as_ref().and_then(ModelFiles::gguf).map(|model| model.tower.path());
    let text = if as_json {
        let mut value = serde_json::to_value(&inspection).map_err(std::io::Error::from)?;
        value["dir"] = json!(dir);
        if let Some(mmproj) = mmproj {
            value["mmproj"] = json!(mmproj);
        }
        value["drafters"] = json!(drafters);
        value["available_memory"] = json!(available);
        if let Some((dtype, tensors)) = &conversions {
            value["conversion"] = json!({ "dtype": dtype.name(), "tensors": tensors });
        }
        format!("{value}\n")
    } else {
        words(&inspection, &dir, mmproj, &drafters, available, conversions)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if inspection.problems.is_empty() { 0 } else { 3 })
}

/// A draft head that was trained for one target.
fn draft_head(dir: &Path, as_json: bool) -> Result<i32, End> {
    let config = DraftHeadConfig::read(dir).map_err(Failure::from)?;
    let bytes = Checkpoint::open(dir).map_err(Failure::from)?.bytes();
    let recipe = config.recipe.name();
    let name = name_of(dir);
    let text = if as_json {
        let value = json!({
            "name": name, "dir": dir, "kind": "trained layer", "recipe": recipe, "target": config.target,
            "bytes": bytes, "problems": []
        });
        format!("{value}\n")
    } else {
        let methods = Method::presets()
            .iter()
            .filter(|method| matches!(method.drafter, Drafter::Head { recipe } if recipe == config.recipe));
        let methods: Vec<&str> = methods.map(|method| method.name.as_str()).collect();
        let target = &config.target;
        let rows = [
            ("directory", dir.display().to_string()),
            ("kind", format!("draft head trained for one target (recipe {recipe})")),
            ("target", {
                // Published heads do not always name it, nor count its layers.
                let colon = if target.name.is_empty() { "" } else { ": " };
                let layers = match target.num_hidden_layers {
                    0 => String::new(),
                    layers => format!("{layers} layers, "),
                };
                let drafted = config.eagle3.as_ref().map(|own| own.draft_vocab);
                let drafted = drafted.map_or_else(String::new, |n| format!(", of which it drafts {n}"));
                format!(
                    "{}{colon}{layers}hidden size {}, vocabulary {}{drafted}",
                    target.name, target.hidden_size, target.vocab_size
                )
            }),
            ("files", units::bytes(bytes)),
            ("methods", methods.join(", ")),
        ];
        let block = config.dflash.as_ref().map(|own| {
            let read: Vec<String> = own.target_layer_ids.iter().map(usize::to_string).collect();
            let (layers, read) = (own.layers.len(), read.join(", "));
            let drafts = own.most_drafts();
            let chosen = own.selector.map_or_else(String::new, |selector| {
                format!("; a selector chooses among {} candidates of each place", selector.candidates)
            });
            format!(
                "{drafts} tokens in one pass of {layers} layers, from states after layers {read} (0 = the first){chosen}"
            )
        });
        let mut rows = Vec::from(rows);
        if let Some(block) = block {
            rows.insert(3, ("drafts", block));
        }
        let rows: Vec<Vec<String>> = rows
            .into_iter()
            .map(|(name, value)| vec![name.to_owned(), color::plain(&value).into_owned()])
            .collect();
        let shown = dir.display().to_string();
        format!(
            "{}\n{}\nuse it with its target and --drafter {}\n",
            color::plain(&name),
            hang(&columns(&rows), terminal::columns(), 11),
            color::plain(&shown)
        )
    };
    print(&text)
}

/// A row about what tensors become.
fn converted(of: Conversion) -> Vec<String> {
    let count = if of.count == 1 { String::new() } else { format!("{} × ", of.count) };
    let reason = of.reason.map(|reason| format!("({reason})")).unwrap_or_default();
    let shape = format!("{} × {}", of.outputs, of.inputs);
    vec![format!("  {count}{}", color::plain(&of.tensor)), shape, of.dtype.to_owned(), reason]
}

/// Tokens of a verify pass for which its experts are shown: a root and five drafts.
const DRAFTED: usize = 6;

fn words(
    found: &Inspection,
    dir: &Path,
    mmproj: Option<&Path>,
    drafters: &[String],
    available: Option<u64>,
    conversions: Option<(WeightType, Vec<Conversion>)>,
) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    let path = |path: &Path| color::plain(&path.display().to_string()).into_owned();
    row(if dir.is_file() { "file" } else { "directory" }, path(dir));
    if let Some(mmproj) = mmproj {
        row("mmproj", path(mmproj));
    }
    if let Some(family) = &found.family {
        row("family", family.clone());
    }
    if let Some([text, rest]) = found.parameters {
        let active = found.active_parameters.map(|active| format!(" ({} per token)", parameters(active)));
        let active = active.unwrap_or_default();
        row(
            "parameters",
            format!("{} language model{active}, {} vision", parameters(text), parameters(rest)),
        );
    }
    if let Some(quantization) = &found.quantization {
        row("quantization", quantization.clone());
    }
    if !found.shares.is_empty() {
        let shares: Vec<String> = found
            .shares
            .iter()
            .map(|s| format!("{} × {} ({})", s.tensors, s.dtype, bytes(s.bytes)))
            .collect();
        row("files", bytes(found.bytes));
        row("tensors", shares.join(", "));
    }
    if let Some(text) = &found.text {
        let shape = [text.layers, text.hidden, text.intermediate, text.heads, text.kv_heads];
        let [layers, hidden, ffn, heads, kv] = shape.map(|n| n.to_string());
        row(
            "layers",
            format!(
                "{layers}, hidden size {hidden}, feed-forward {ffn}, {heads} heads, {kv} key-value heads"
            ),
        );
        if let Some(sparse) = &text.sparse {
            let shared = if sparse.shared.is_some() { ", and a shared one" } else { "" };
            row(
                "experts",
                format!(
                    "{} per layer, feed-forward {}; {} per token{shared}; {:.0} in a pass of {DRAFTED} independent tokens",
                    sparse.experts,
                    sparse.width,
                    sparse.chosen,
                    sparse.routing().touched(DRAFTED)
                ),
            );
        }
        let known = found.vocabulary.map(|n| format!("{n} tokens, ")).unwrap_or_default();
        let tied = if text.tied { ", head tied" } else { "" };
        row("vocabulary", format!("{known}{} embeddings{tied}", text.vocab));
        row("context", format!("{} tokens", text.max_positions));
    }
    let video = "30 s of 720p";
    if let Some([visual, frames]) = found.example {
        let share = visual as f64 / frames.max(1) as f64;
        let share = if share < 10.0 { format!("{share:.1}") } else { format!("{share:.0}") };
        row("visual tokens", format!("{visual} for {video} in {frames} frames, {share} per frame"));
    }
    let mut out =
        format!("{}\n", color::plain(&found.name)) + &hang(&columns(&rows), terminal::columns(), 15);
    if !found.memory.is_empty() {
        let mut rows = vec![["MEMORY", "WEIGHTS", "RUNNING", ""].map(str::to_owned).to_vec()];
        for memory in &found.memory {
            let fits = match available {
                Some(available) if memory.run > available => "not enough memory",
                _ => "",
            };
            rows.push(vec![memory.dtype.into(), bytes(memory.weights), bytes(memory.run), fits.into()]);
        }
        let now = available.map(|n| format!("; {} available", bytes(n))).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = write!(out, "\n{}running: for {video}, without a drafter{now}\n", columns(&rows));
    }
    if let Some((dtype, tensors)) = conversions {
        let rows: Vec<Vec<String>> = tensors.into_iter().map(converted).collect();
        let _ = write!(out, "\ntensors with --dtype {}:\n{}", dtype.name(), columns(&rows));
    }
    match drafters {
        [] => {}
        drafters => {
            let _ = write!(out, "\ncompatible drafters, best first:\n");
            drafters.iter().for_each(|name| out += &format!("  {}\n", color::plain(name)));
        }
    }
    for note in &found.notes {
        let _ = write!(out, "\nnote: {}\n", color::plain(note));
    }
    if found.problems.is_empty() {
        return out + "\nusable\n";
    }
    let _ = write!(out, "\nunusable:\n");
    let hints = found.problems.iter().map(|problem| problem.hint.as_deref());
    for (problem, next) in found.problems.iter().zip(hints.skip(1).chain([None])) {
        let _ = writeln!(out, "  {}", color::plain(&problem.error));
        // Consecutive problems with the same hint share it.
        if let Some(hint) = problem.hint.as_deref().filter(|hint| next != Some(hint)) {
            let _ = writeln!(out, "    {}", color::plain(hint));
        }
    }
    out
}
