//! Choosing a theme: the list shows each as the cursor comes to it.

use super::*;

/// Open the list at the current theme; in the list, go to the next one.
pub(super) fn open(model: &mut Model) {
    let n = model.themes.len();
    match &mut model.overlay {
        Some(Overlay::Themes { cursor, .. }) => *cursor = (*cursor + 1) % n.max(1),
        _ => {
            let over = model.overlay.take().map(Box::new);
            model.overlay = Some(Overlay::Themes { cursor: model.theme, before: model.theme, over });
        }
    }
    show(model);
}

pub(super) fn show(model: &mut Model) {
    if let Some(Overlay::Themes { cursor, .. }) = model.overlay {
        model.theme = cursor;
    }
}

pub(super) fn keep(model: &mut Model) -> Vec<Effect> {
    let name = model.theme().name.clone();
    let file = model.config.theme_file.clone();
    let only_now = if file.is_none() { ", for this session only" } else { "" };
    model.note(Tone::Info, format!("theme {name}{only_now}"));
    file.map(|file| Effect::RememberTheme(file, name)).into_iter().collect()
}
