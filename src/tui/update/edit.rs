//! Editing a method, and saving it as a file.

use super::*;
use crate::tui::model::edit;

pub(super) fn open(model: &mut Model) {
    let Some(index) = model.picked_method() else { return };
    model.methods.choose(index);
    if model.methods.current().is_some() {
        model.overlay = Some(Overlay::Edit(0));
    }
}

pub(super) fn turn(model: &mut Model, up: bool) {
    let (Some(Overlay::Edit(cursor)), Some(method)) = (&model.overlay, model.methods.current()) else {
        return;
    };
    let rows = edit::rows(method);
    let Some(row) = rows.get(*cursor) else { return };
    match edit::turned(method, *row, up) {
        Ok(method) => model.methods.replace(method),
        Err(problem) => model.note(Tone::Bad, problem),
    }
}

pub(super) fn ask_value(model: &mut Model) {
    let (Some(Overlay::Edit(cursor)), Some(method)) = (&model.overlay, model.methods.current()) else {
        return;
    };
    let row = *cursor;
    match edit::rows(method).get(row).and_then(|row| edit::typeable(method, *row)) {
        Some(line) => model.overlay = Some(Overlay::Value { row, line }),
        None => model.note(Tone::Info, "press ← or → to change a choice"),
    }
}

pub(super) fn set(model: &mut Model, row: usize, line: String) {
    let Some(method) = model.methods.current() else { return };
    let Some(of) = edit::rows(method).get(row).copied() else { return };
    match edit::with_typed(method, of, &line) {
        Ok(method) => {
            model.methods.replace(method);
            model.overlay = Some(Overlay::Edit(row));
        }
        Err(problem) => {
            model.note(Tone::Bad, problem);
            model.overlay = Some(Overlay::Value { row, line });
        }
    }
}

pub(super) fn reset(model: &mut Model) {
    let index = match model.overlay {
        Some(Overlay::Edit(_)) => Some(model.methods.chosen),
        _ => model.picked_method(),
    };
    let Some(index) = index else { return };
    let words = match model.methods.reset(index) {
        true => format!("{} reset", model.methods.label(index)),
        false => "this method is unchanged".to_owned(),
    };
    model.note(Tone::Info, words);
    if let Some(Overlay::Edit(cursor)) = &mut model.overlay {
        let rows = model.methods.current().map_or(1, |method| edit::rows(method).len());
        *cursor = (*cursor).min(rows.saturating_sub(1));
    }
}

pub(super) fn ask_name(model: &mut Model) {
    match model.picked_method() {
        Some(index) => model.methods.choose(index),
        None if matches!(model.overlay, Some(Overlay::Edit(_))) => {}
        None => return,
    }
    let Some(method) = model.methods.current() else { return };
    model.overlay = Some(Overlay::SaveMethod(format!("my-{}", method.name)));
}

pub(super) fn save(model: &mut Model, name: &str) -> Vec<Effect> {
    let name = name.trim();
    if let Some(problem) = edit::name_problem(name) {
        model.note(Tone::Bad, problem);
        model.overlay = Some(Overlay::SaveMethod(name.to_owned()));
        return Vec::new();
    }
    let (Some(method), Some(folder)) = (model.methods.current(), &model.config.methods_dir) else {
        model.note(Tone::Bad, "no directory for methods: neither HOME nor XDG_CONFIG_HOME is set");
        return Vec::new();
    };
    let file = folder.join(format!("{name}.toml"));
    vec![Effect::SaveMethod(file, Box::new(Method { name: name.to_owned(), ..method.clone() }))]
}

pub(super) fn saved(model: &mut Model, outcome: Result<(std::path::PathBuf, Method), String>) {
    match outcome {
        Ok((file, method)) => {
            model.methods.add(method);
            model.note(Tone::Info, format!("saved as {}", file.display()));
        }
        Err(problem) => model.note(Tone::Bad, problem),
    }
}
