//! The guided first run, below the caption.

use ratatui::text::{Line, Span};

use crate::look::{Action, KeyContext, Role, Theme};
use crate::tui::model::{Model, Run, tour::TourStep};
use crate::tui::{text, widgets};
use specreel_record::Verdict;

/// Columns for the name of a verdict.
const NAME: usize = 11;
/// Columns for a word of the caption.
const WORD: usize = 14;

/// Its lines in `columns`, the first one a rule; none if there is no tour.
pub(super) fn lines(model: &Model, theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let Some(tour) = model.caption.tour else { return Vec::new() };
    let (dim, accent) = (theme.style(Role::Dim), theme.style(Role::Accent));
    let key = |context, action| model.keymap.shown(context, &[action]);
    let anywhere = |action| key(KeyContext::Library, action);
    let mut lines = vec![rule(model, tour.step, theme, columns)];
    let mut say = |words: String| lines.extend(widgets::wrap([(words.as_str(), accent)], columns));
    match tour.step {
        TourStep::Start => say(format!(
            "Press {}: two small models caption the selected clip. The drafter proposes tokens, the target checks \
             several of them in one pass.",
            anywhere(Action::Run)
        )),
        TourStep::Watch => say(format!(
            "Gray words are drafts. The target gives each its color, or strikes it out and writes its own. \
             {} pauses, {} goes step by step.",
            key(KeyContext::Player, Action::Pause),
            key(KeyContext::Player, Action::StepForward)
        )),
        TourStep::Colors => {
            say("What the colors mean in this caption:".into());
            if let Some(run) = model.runs.shown() {
                for (verdict, word) in examples(run) {
                    let name = Span::styled(format!("{:NAME$}", verdict.name()), theme.verdict(verdict));
                    let word = text::fit(word.trim(), WORD);
                    let pad = " ".repeat(WORD + 1 - text::width(&word).min(WORD));
                    let why = text::fit(verdict.why(), columns.saturating_sub(NAME + WORD + 1));
                    lines.push(Line::from(vec![
                        name,
                        Span::styled(word, theme.verdict(verdict)),
                        Span::raw(pad),
                        Span::styled(why, dim),
                    ]));
                }
            }
            let words = format!("Next, {}: other methods.", anywhere(Action::Methods));
            lines.extend(widgets::wrap([(words.as_str(), accent)], columns));
        }
        TourStep::Compare => say(format!(
            "Press {}: methods on the same clip, with their captions, passes and speeds side by side.",
            anywhere(Action::Compare)
        )),
        TourStep::Models => say(format!(
            "These models know only the demo clips. Press {}: a model for your own videos.",
            anywhere(Action::FirstModel)
        )),
    }
    lines
}

/// The first words of the caption with each verdict, in their order.
fn examples(run: &Run) -> Vec<(Verdict, String)> {
    let mut found: Vec<(Verdict, String)> = Vec::new();
    for chunk in run.log.chunks().iter().filter(|chunk| chunk.text.chars().any(char::is_alphanumeric)) {
        if found.iter().all(|(verdict, _)| *verdict != chunk.verdict) {
            found.push((chunk.verdict, chunk.text.clone()));
        }
    }
    found
}

fn rule(model: &Model, step: TourStep, theme: &Theme, columns: usize) -> Line<'static> {
    let (number, of) = step.number();
    let (dim, accent) = (theme.style(Role::Dim), theme.style(Role::Accent));
    let left = format!("── tour {number} of {of} ");
    let back = model.keymap.shown(KeyContext::Library, &[Action::Back]);
    let right = format!(" {back} ends it ──");
    let gap = columns.saturating_sub(text::width(&left) + text::width(&right));
    Line::from(vec![Span::styled(left, accent), Span::styled("─".repeat(gap), dim), Span::styled(right, dim)])
}
