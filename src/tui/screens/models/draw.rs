//! How the models screen is drawn.

use ratatui::layout::Constraint::{Fill, Length, Min};
use ratatui::layout::Layout;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row};

use super::{Confirm, ModelPicker};
use crate::look::{Action, KeyContext, Role, Theme};
use crate::tui::model::Model;
use crate::tui::model::models::{Change, Pull, Row as ModelRow, Tab};
use crate::tui::widgets::{Frame, dialog, list, number, popup, rule, track, typed_after, wrap, yes_or_no};
use crate::tui::{picker::Picker, text};
use specreel_client::catalog::{Pulling, StoredModel};
use specreel_client::present::estimate;
use specreel_client::present::formats::{bytes, parameters};

/// Rows below the list: a rule, the details, and the work in progress.
const BELOW: u16 = 6;
/// Columns from which on a column is shown.
const SHOWS_FAMILY: u16 = 66;
const SHOWS_ORIGIN: u16 = 92;

pub(super) fn draw(screen: &ModelPicker, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
    let Picker { line, cursor } = &screen.picker;
    let dim = theme.style(Role::Dim);
    let block = dialog("Models", theme).title_top(tabs(model, theme)).title_bottom(room(model, theme));
    let inner = popup(frame, theme, 120, frame.area().height, block);
    let below = BELOW.min(inner.height.saturating_sub(4));
    let [above, middle, below] = inner.layout(&Layout::vertical([Length(1), Min(2), Length(below)]));
    typed_after("filter ", line, theme, frame, above);
    let rows = model.models.rows(&line.text);
    // What is published has its type in its name.
    let is_published = model.models.tab == Tab::Published;
    let (with_family, is_wide) = (inner.width >= SHOWS_FAMILY, inner.width >= SHOWS_ORIGIN);
    let columns = [
        (with_family, Cell::new("family"), if is_published { 10 } else { 13 }),
        (is_wide && !is_published, "type".into(), 7),
        (is_wide, number("params"), 6),
        (true, number("size"), 7),
        (true, number("memory"), 7),
        (is_wide, if is_published { "here" } else { "where" }.into(), if is_published { 4 } else { 9 }),
    ];
    let shown = columns.each_ref().map(|(shown, ..)| *shown);
    let (titles, widths): (Vec<_>, Vec<u16>) =
        columns.into_iter().filter(|(shown, ..)| *shown).map(|(_, title, width)| (title, width)).unzip();
    let name = inner.width.saturating_sub(widths.iter().map(|width| width + 2).sum());
    let header = Row::new(std::iter::once(Cell::new("  model")).chain(titles));
    let widths: Vec<_> = std::iter::once(Fill(1)).chain(widths.into_iter().map(Length)).collect();
    list(frame, theme, middle, (*cursor, rows.len()), (Some(header), &widths), |i| {
        row(model, rows[i], (name.into(), shown), theme)
    });
    if rows.is_empty() {
        let words = match &model.models.list {
            None => "looking for models …",
            Some(_) if line.text.is_empty() => "no models here: download one (Tab)",
            Some(_) => "no match",
        };
        let [_, below] = middle.layout(&Layout::vertical([Length(1), Min(1)]));
        frame.render_widget(Line::styled(words, dim), below);
    }
    let mut lines = match &screen.confirm {
        Some(confirm) => question(model, confirm, below.width.into(), theme),
        None => details(model, rows.get(*cursor).copied(), below.width.into(), theme),
    };
    lines.truncate(usize::from(below.height).saturating_sub(3));
    let going = [
        model.models.change.as_ref().map(|change| loading(change, below.width, theme)),
        model.models.pull.as_ref().map(|pull| pulling(pull, below.width, theme)),
    ];
    lines.extend(going.into_iter().flatten());
    frame.render_widget(Paragraph::new(lines).block(rule(theme)), below);
}

fn tabs(model: &Model, theme: &Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for tab in Tab::ALL {
        let style = theme.style(if tab == model.models.tab { Role::Selection } else { Role::Dim });
        spans.push(Span::styled(format!(" {} ", tab.name()), style));
    }
    Line::from(spans).right_aligned()
}

/// The memory and the disk that there are.
fn room(model: &Model, theme: &Theme) -> Line<'static> {
    let Some(list) = &model.models.list else { return Line::default() };
    let words = [(list.memory, "memory"), (list.disk, "disk")];
    let words: Vec<String> =
        words.iter().filter_map(|(n, name)| Some(format!("{} {name}", bytes((*n)?)))).collect();
    match words.is_empty() {
        true => Line::default(),
        false => theme.line(Role::Dim, format!(" {} free ", words.join(", "))).right_aligned(),
    }
}

fn row(
    model: &Model,
    entry: ModelRow<'_>,
    (columns, shown): (usize, [bool; 6]),
    theme: &Theme,
) -> Row<'static> {
    let models = &model.models;
    let sign = if models.is_loaded(entry, model.config.embedded) { "● " } else { "  " };
    // The end of a path or an id says more than its beginning.
    let name = text::fit_end(&text::clean_line(entry.name()), columns.saturating_sub(2));
    let fits = |words: String| match models.fits(entry) {
        Some(true) => number(words),
        Some(false) => number(words).style(theme.style(Role::Bad)),
        None => number("–").style(theme.style(Role::Dim)),
    };
    let nothing = || Cell::new("");
    let cells: [Cell<'static>; 6] = match entry {
        ModelRow::NoDrafter | ModelRow::Named(_) => std::array::from_fn(|_| nothing()),
        ModelRow::Stored(StoredModel { facts: Err(_), origin, .. }) => {
            let bad = theme.span(Role::Bad, "unusable").into();
            [bad, nothing(), nothing(), nothing(), nothing(), Cell::new(*origin)]
        }
        ModelRow::Stored(StoredModel { facts: Ok(facts), origin, .. }) => [
            Cell::new(text::clean_line(&facts.family)),
            Cell::new(facts.dtype.clone()),
            number(if facts.parameters == 0 { String::new() } else { parameters(facts.parameters) }),
            number(bytes(facts.bytes)),
            fits(facts.needs.map(bytes).unwrap_or_default()),
            Cell::new(*origin),
        ],
        ModelRow::Published(published) => [
            Cell::new(published.family.clone()),
            nothing(),
            number(parameters(published.parameters)),
            number(bytes(published.bytes)),
            fits(bytes(published.needs)),
            Cell::new(if published.stored { "yes" } else { "" }),
        ],
    };
    let cells = cells.into_iter().zip(shown).filter_map(|(cell, shown)| shown.then_some(cell));
    let row = Row::new(std::iter::once(Cell::new(format!("{sign}{name}"))).chain(cells));
    match models.obstacle(entry) {
        Some(_) => row.style(theme.style(Role::Dim)),
        None => row,
    }
}

/// What the columns do not say about the row under the cursor.
fn details(model: &Model, entry: Option<ModelRow<'_>>, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    let Some(entry) = entry else { return Vec::new() };
    let (dim, warn, plain) = (theme.style(Role::Dim), theme.style(Role::Warn), Style::new());
    let obstacle = model.models.obstacle(entry).map(|why| (text::clean_line(&why), warn));
    let is_over = model.models.fits(entry) == Some(false);
    let memory = is_over.then(|| ("it does not fit into the memory that is free now".to_owned(), warn));
    let words: Vec<(String, Style)> = match entry {
        ModelRow::NoDrafter => {
            vec![("The target drafts for itself (std, lookup, specvlm-self), or decodes alone".into(), plain)]
        }
        ModelRow::Named(_) => vec![("a model of the hub by its id: Enter asks the hub".into(), plain)],
        ModelRow::Stored(stored) => {
            let tower = stored.facts.as_ref().is_ok_and(|facts| facts.lacks_tower);
            let tower = tower
                .then(|| ("no vision tower in its directory: Enter asks for the mmproj file".into(), warn));
            let path = (text::clean_line(&stored.path.display().to_string()), dim);
            let is_target = model.models.tab == Tab::Target && stored.facts.is_ok();
            let drafters = match stored.drafters.join(", ") {
                none if none.is_empty() => "no model here can draft for it".to_owned(),
                names => format!("drafters here: {}", text::clean_line(&names)),
            };
            let drafters = is_target.then_some((drafters, dim));
            let advice = stored.advice.clone().filter(|_| model.models.tab == Tab::Drafter);
            let advice = advice.map(|advice| (advice, plain));
            let words = obstacle.into_iter().chain(tower).chain(memory).chain(advice);
            words.chain(drafters).chain([path]).collect()
        }
        ModelRow::Published(published) => {
            let drafters = match published.drafters {
                [] => "no smaller model is known that can draft for it".to_owned(),
                all => format!("drafters: {}", all.join(", ")),
            };
            memory.into_iter().chain([(drafters, dim)]).collect()
        }
    };
    words.iter().flat_map(|(words, style)| wrap([(words.as_str(), *style)], columns)).collect()
}

fn question(model: &Model, confirm: &Confirm, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
    let [yes, no] = [Action::Choose, Action::Back].map(|key| model.keymap.shown(KeyContext::Models, &[key]));
    let (words, role) = match confirm {
        Confirm::Pull { id, bytes: size, runs } => {
            let free = model.models.list.as_ref().and_then(|list| list.disk);
            let known = size.map(bytes).into_iter().chain(free.map(|free| format!("{} free", bytes(free))));
            let known = known.collect::<Vec<_>>().join(", ");
            let then = if *runs { ", and caption the selected clip with it" } else { "" };
            (format!("Download {id} ({known}){then}?  "), Role::Title)
        }
        Confirm::Remove { name, bytes: size, .. } => {
            (format!("Remove {name} from the disk ({})?  ", bytes(*size)), Role::Bad)
        }
    };
    wrap(yes_or_no((&text::clean_line(&words), role), [&yes, &no], theme), columns)
}

/// One line about the pair that is loaded.
fn loading(change: &Change, columns: u16, theme: &Theme) -> Line<'static> {
    let name = change
        .pair
        .target
        .as_ref()
        .map_or_else(|| "the embedded models".into(), |path| specreel_checkpoint::hub::name_of(path));
    let words = if change.cancelling { "cancelling" } else { "loading" };
    let progress = change.progress.map(|(done, total, left_ms)| {
        (done, total, left_ms.map_or_else(String::new, |ms| format!(", {} left", estimate::left(ms))))
    });
    going(&format!("{words} {name}"), progress, columns, theme)
}

/// A line about work in progress: bytes done and in total, and how fast it is.
fn going(words: &str, progress: Option<(u64, u64, String)>, columns: u16, theme: &Theme) -> Line<'static> {
    let mut line = Line::from(format!("{} ", text::clean_line(words)));
    if let Some((done, total, rate)) = progress.filter(|(_, total, _)| *total > 0) {
        line.extend(track(done as f64 / total as f64, usize::from(columns / 5), theme));
        line.push_span(theme.span(Role::Dim, format!(" {} of {}{rate}", bytes(done), bytes(total))));
    }
    line
}

/// One line about the download.
fn pulling(pull: &Pull, columns: u16, theme: &Theme) -> Line<'static> {
    let words = if pull.cancelling { "cancelling" } else { "downloading" };
    let progress = pull.progress.map(|Pulling { done, total, rate }| {
        let rate = rate.filter(|rate| *rate > 0.0).map_or_else(String::new, |rate| {
            let left = total.saturating_sub(done) as f64 / rate;
            format!(", {}/s, {} left", bytes(rate as u64), estimate::left(left * 1e3))
        });
        (done, total, rate)
    });
    going(&format!("{words} {}", pull.id), progress, columns, theme)
}
