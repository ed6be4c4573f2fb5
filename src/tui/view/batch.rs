//! The batch: its clips and what became of them, its progress, and the caption of the clip under the cursor.

use super::status::SPINNER;
use super::*;
use crate::tui::model::batch::{Batch, BatchClip, ClipState, Phase};
use specreel_batch::Existing;
use specreel_client::present::estimate;

const COLUMNS: u16 = 104;

pub(super) fn draw(model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
    let Some(batch) = model.batches.shown() else { return };
    let title = format!("Batch of {}", plural(batch.clips.len() as u64, "clip"));
    let inner = popup(frame, theme, COLUMNS, frame.area().height, dialog(&title, theme));
    let details_rows = (inner.height / 3).clamp(4, 10);
    let [above, middle, below] = inner.layout(&Layout::vertical([Length(3), Min(2), Length(details_rows)]));
    let columns = usize::from(inner.width);
    let head = [progress(model, batch, columns, theme), speeds(batch, theme), files(model, columns, theme)];
    frame.render_widget(Text::from(head.to_vec()), above);
    let widths = [Length(12), Fill(2), Fill(3)];
    let columns = cell_columns(middle, &widths);
    list(frame, theme, middle, (batch.cursor, batch.clips.len()), (None, &widths), |at| {
        row(model, &batch.clips[at], [columns[1], columns[2]], theme)
    });
    let details = batch.selected().map(|clip| details(model, clip, below, theme)).unwrap_or_default();
    frame.render_widget(Paragraph::new(details).block(rule(theme)), below);
}

/// `━━━━──── 3/10, 1 failed, 0:40 left`, or the batch that is about to start.
fn progress(model: &Model, batch: &Batch, columns: usize, theme: &Theme) -> Line<'static> {
    let dim = theme.style(Role::Dim);
    if batch.phase == Phase::Chosen {
        let key = model.keymap.shown(model.key_context(), &[Action::Choose]);
        return Line::from(vec![
            theme.span(Role::Key, key),
            Span::raw(format!(
                " captions {} with {} ",
                plural(batch.clips.len() as u64, "clip"),
                batch.method.name
            )),
            mark(batch.method.lossless(), theme),
            Span::styled(format!("  {}", batch.prompt.replace('\n', " ")), dim),
        ]);
    }
    let (over, total, failed) = (batch.over(), batch.clips.len(), batch.failed());
    let mut line =
        Line::from(track(over as f64 / total.max(1) as f64, (columns / 4).clamp(8, 24), theme).to_vec());
    line.push_span(Span::raw(format!(" {over}/{total}")));
    if failed > 0 {
        line.push_span(theme.span(Role::Bad, format!(", {failed} failed")));
    }
    let words = match batch.phase {
        Phase::Waiting => ", waiting for the engine".to_owned(),
        Phase::Cancelling => ", cancelling".to_owned(),
        Phase::Ended if batch.problem.is_some() => ", stopped".to_owned(),
        Phase::Ended if over < total => ", cancelled".to_owned(),
        Phase::Ended | Phase::Chosen => String::new(),
        Phase::Running => {
            let left = batch.progress.left().map(|left| estimate::left(left.as_secs_f64() * 1e3));
            left.map_or_else(String::new, |left| format!(", {left} left"))
        }
    };
    line.push_span(Span::styled(words, dim));
    line
}

fn speeds(batch: &Batch, theme: &Theme) -> Line<'static> {
    match &batch.problem {
        Some(problem) => theme.line(Role::Bad, problem.clone()),
        None if batch.progress.written() > 0 => Line::raw(batch.progress.speeds()),
        None => Line::default(),
    }
}

fn files(model: &Model, columns: usize, theme: &Theme) -> Line<'static> {
    let dim = theme.style(Role::Dim);
    let key = |action| match model.batches.next {
        Some(_) => theme.span(Role::Key, format!("{} ", model.keymap.shown(model.key_context(), &[action]))),
        None => Span::raw(""),
    };
    let file = match model.batches.sidecar {
        Some(sidecar) => format!("a .{} file next to each clip", sidecar.extension()),
        None => "no files are written".to_owned(),
    };
    let mut spans = vec![key(Action::SidecarForm), Span::styled(file, dim)];
    if model.batches.sidecar.is_some() {
        let existing = match model.batches.existing {
            Existing::Skip => "clips that have one are skipped",
            Existing::Overwrite => "existing ones are overwritten",
            Existing::Append => "added after the text of existing ones",
            Existing::Prepend => "added before the text of existing ones",
        };
        spans.extend([Span::raw("   "), key(Action::Existing)]);
        let used: usize = spans.iter().map(Span::width).sum();
        spans.push(Span::styled(text::fit(existing, columns.saturating_sub(used)), dim));
    }
    Line::from(spans)
}

fn state(model: &Model, clip: &BatchClip) -> (String, Role) {
    let (sign, word, role) = match &clip.state {
        ClipState::Waiting => (" ", "waiting", Role::Dim),
        ClipState::Running => (SPINNER[model.tick % SPINNER.len()], "running", Role::Accent),
        ClipState::Done if is_edited(clip) => ("✓", "edited", Role::Good),
        ClipState::Skipped | ClipState::Empty if is_edited(clip) => ("✓", "edited", Role::Good),
        ClipState::Empty => ("-", "empty", Role::Warn),
        ClipState::Done => ("✓", "done", Role::Good),
        ClipState::Skipped => ("=", "skipped", Role::Dim),
        ClipState::Busy => ("-", "elsewhere", Role::Warn),
        ClipState::Failed(_) => ("✗", "failed", Role::Bad),
    };
    (format!("{sign} {word}"), role)
}

fn is_edited(clip: &BatchClip) -> bool {
    clip.caption.as_ref().is_some_and(|caption| caption.is_edited())
}

/// A clip's caption, the part written so far, or the reason for its absence.
fn words(model: &Model, clip: &BatchClip) -> (String, Role) {
    match &clip.state {
        ClipState::Failed(error) => (error.clone(), Role::Bad),
        ClipState::Running => {
            let run = model.runs.get(clip.run);
            (run.map(|run| run.log.whole().shown()).unwrap_or_default(), Role::Text)
        }
        ClipState::Busy => ("another process captions it".to_owned(), Role::Dim),
        ClipState::Empty if !is_edited(clip) => ("the model wrote nothing".to_owned(), Role::Dim),
        ClipState::Skipped if clip.caption.is_none() => ("it had a caption".to_owned(), Role::Dim),
        _ => {
            (clip.caption.as_ref().map(|caption| text::clean(&caption.text)).unwrap_or_default(), Role::Text)
        }
    }
}

fn row(model: &Model, clip: &BatchClip, [title, caption]: [usize; 2], theme: &Theme) -> Row<'static> {
    let (state, role) = state(model, clip);
    let (words, tone) = words(model, clip);
    Row::new([
        Cell::new(state).style(theme.style(role)),
        Cell::new(text::fit(&clip.title, title)),
        Cell::new(text::fit(&text::clean_line(&words), caption)).style(theme.style(tone)),
    ])
}

fn details(model: &Model, clip: &BatchClip, area: Rect, theme: &Theme) -> Text<'static> {
    let (words, role) = words(model, clip);
    let style = if role == Role::Text { Style::new() } else { theme.style(role) };
    let mut lines: Vec<Line<'static>> = Vec::new();
    for part in words.split('\n') {
        lines.extend(wrap([(part, style)], area.width.into()));
    }
    let rows = usize::from(area.height).saturating_sub(1);
    if clip.state == ClipState::Running && lines.len() > rows {
        lines.drain(..lines.len() - rows);
    }
    lines.into()
}

pub(super) fn edit(model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
    let Some(editor) = &model.batches.editor else { return };
    let title = match &model.edited {
        Some(segment) => model.runs.get(segment.run).map(|run| run.subject.name()),
        None => model.batches.shown().and_then(Batch::selected).map(|clip| clip.title.clone()),
    };
    let title = format!("Caption of {}", text::fit(&title.unwrap_or_default(), 60));
    let rows = (editor.editor.lines().len() as u16).clamp(6, 12) + 2;
    let key = |action| model.keymap.keys(model.key_context(), action).first().map(ToString::to_string);
    let hint = [(Action::Save, "saves"), (Action::Newline, "new line")];
    let hint = hint.iter().filter_map(|(action, word)| Some(format!("{} {word}", key(*action)?)));
    let hint = format!(" {} ", hint.collect::<Vec<_>>().join(" · "));
    let block = dialog(&title, theme)
        .padding(Padding::horizontal(1))
        .title_bottom(theme.line(Role::Dim, hint).right_aligned());
    let inner = popup(frame, theme, COLUMNS, rows, block);
    frame.render_widget(&editor.editor, inner);
}
