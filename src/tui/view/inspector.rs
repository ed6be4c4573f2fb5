//! The inspector: one token, its verdict and the reason, both models' choices, and where in the video it looks.

use ratatui::layout::Constraint::{Length, Max, Min};
use ratatui::layout::{Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Padding, Paragraph};

use crate::look::{Role, Theme};
use crate::tui::model::{Model, inspect::Inspector};
use crate::tui::widgets::{Frame, cut, panel, title, track, wrap};
use crate::tui::{text, view::heat};
use specreel_client::present::reason::{details, reason, visible};
use specreel_record::{Step, Token, log::Placed};

/// Columns from which on the tables and the frames are side by side.
const BESIDE: usize = 88;
/// At most this many lines show a step's draft.
const DRAFT_LINES: usize = 4;
const TABLE: usize = 30;

pub(super) fn draw(model: &Model, inspector: Inspector, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    let mut block = panel(title("Inspector", true, theme), true, theme).padding(Padding::horizontal(1));
    let inner = block.inner(area);
    let placed = model.runs.shown().and_then(|run| {
        let last = run.log.token_count().checked_sub(1)?;
        let number = inspector.token.min(last);
        Some((run, number, run.log.token(number)?))
    });
    let Some((run, number, placed)) = placed else {
        frame.render_widget(block, area);
        frame.render_widget(theme.line(Role::Dim, "no token yet"), inner);
        return;
    };
    let place = format!(
        " token {} of {} · step {}, {} of {} ",
        number + 1,
        run.log.token_count(),
        placed.step.index + 1,
        placed.at + 1,
        placed.step.tokens.len()
    );
    block = block.title_top(theme.line(Role::Dim, place).right_aligned());
    frame.render_widget(block, area);
    let columns = usize::from(inner.width);
    let head = head(&placed, theme, columns, if inner.height < 10 { 2 } else { 3 });
    let [above, rest] = inner.layout(&Layout::vertical([Max(head.len() as u16), Min(0)]));
    frame.render_widget(Paragraph::new(head), above);
    let mut lines = tables(&placed, theme, columns, rest.height.into());
    let beside = columns >= BESIDE;
    lines.extend(beside.then(Line::default));
    lines.extend(facts(placed.token, theme, columns));
    let [left, right] = match beside {
        true => rest.layout(&Layout::horizontal([Length(2 * TABLE as u16 + 3), Min(0)]).spacing(2)),
        false => rest.layout(&Layout::vertical([Max(lines.len() as u16), Min(0)])),
    };
    frame.render_widget(Paragraph::new(lines), left);
    heat::draw(model, run, number, inspector.heat, theme, frame, right);
}

fn head(placed: &Placed<'_>, theme: &Theme, columns: usize, reason_lines: usize) -> Vec<Line<'static>> {
    let token = placed.token;
    let name = format!("“{}”", visible(&token.text));
    let strong = theme.style(Role::Title);
    let verdict = theme.verdict(token.verdict);
    let words = format!("  {}", reason(placed));
    let pieces = [
        (name.as_str(), strong),
        ("  ", Style::new()),
        (token.verdict.name(), verdict),
        (words.as_str(), theme.style(Role::Dim)),
    ];
    let mut lines = wrap(pieces, columns);
    cut(&mut lines, reason_lines, columns);
    lines.extend(draft(placed.step, Some(placed.at), theme, columns));
    lines
}

/// The step's draft, token by token: accepted ones in their verdict's style, others struck out. In a tree, first the branch
/// that was followed, then each other branch from where it leaves those before it. `cursor` is the place of the token under the
/// cursor among the step's.
pub(super) fn draft(step: &Step, cursor: Option<usize>, theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let dim = theme.style(Role::Dim);
    if step.drafted.is_empty() {
        return vec![Line::styled("nothing was drafted", dim)];
    }
    let accepted: Vec<usize> = match step.parents.is_empty() {
        true => (0..step.accepted).collect(),
        false => step.path.iter().copied().take(step.accepted).collect(),
    };
    let style = |i: usize| {
        let at = accepted.iter().position(|a| *a == i);
        let style = match at.and_then(|at| step.tokens.get(at)) {
            Some(token) => theme.verdict(token.verdict),
            None => dim.add_modifier(Modifier::CROSSED_OUT),
        };
        if at.is_some() && at == cursor { style.add_modifier(Modifier::REVERSED) } else { style }
    };
    let mut parts = vec![("draft    ".to_owned(), dim)];
    for (n, branch) in branches(step, &accepted).into_iter().enumerate() {
        if n > 0 {
            parts.push((" │ ".into(), dim));
        }
        for (k, i) in branch.into_iter().enumerate() {
            if k > 0 {
                parts.push(("· ".into(), dim));
            }
            parts.push((step.drafted_text.get(i).map(|t| visible(t)).unwrap_or_default(), style(i)));
        }
    }
    let mut lines = wrap(parts.iter().map(|(text, style)| (text.as_str(), *style)), columns);
    cut(&mut lines, DRAFT_LINES, columns);
    lines
}

/// The nodes of a draft as branches, the one with `first` before the others. A chain is one branch.
fn branches(step: &Step, first: &[usize]) -> Vec<Vec<usize>> {
    let n = step.drafted.len();
    if step.parents.is_empty() {
        return vec![(0..n).collect()];
    }
    let children = |of: Option<usize>| {
        let mut found: Vec<usize> =
            (0..n).filter(|i| step.parents.get(*i).copied().flatten() == of).collect();
        found.sort_by_key(|i| !first.contains(i));
        found
    };
    let mut branches: Vec<Vec<usize>> = Vec::new();
    // Depth first; a node that is not a first child begins a branch.
    let mut open: Vec<(usize, bool)> = Vec::new();
    let add = |open: &mut Vec<(usize, bool)>, of: Option<usize>| {
        let found = children(of);
        open.extend(found.iter().enumerate().rev().map(|(k, i)| (*i, k > 0)));
    };
    add(&mut open, None);
    while let Some((node, begins)) = open.pop() {
        match branches.last_mut().filter(|_| !begins) {
            Some(branch) => branch.push(node),
            None => branches.push(vec![node]),
        }
        add(&mut open, Some(node));
    }
    branches
}

fn tables(placed: &Placed<'_>, theme: &Theme, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let token = placed.token;
    let width = ((columns.saturating_sub(3)) / 2).min(TABLE);
    let target = choices(&token.logprobs, &token.logprob_texts, token.id, theme, width);
    let drafter = choices(&token.drafter_logprobs, &token.drafter_texts, token.id, theme, width);
    let n = target.len().max(drafter.len()).min(rows.saturating_sub(4).clamp(2, 5));
    let dim = theme.style(Role::Dim);
    let name = |name: &str| Span::styled(text::pad(name, width), dim);
    let mut out = vec![Line::from(vec![name("target"), Span::raw("   "), name("drafter")])];
    if n == 0 {
        out.push(Line::styled("choices were not recorded", dim));
    }
    let blank = || vec![Span::raw(" ".repeat(width))];
    for i in 0..n {
        let mut spans = target.get(i).cloned().unwrap_or_else(blank);
        spans.push(Span::raw("   "));
        let none = || vec![Span::styled(if i == 0 { "nothing drafted here" } else { "" }, dim)];
        spans.extend(drafter.get(i).cloned().unwrap_or_else(none));
        out.push(Line::from(spans));
    }
    out
}

fn choices(
    list: &[(u32, f32)],
    texts: &[String],
    emitted: u32,
    theme: &Theme,
    width: usize,
) -> Vec<Vec<Span<'static>>> {
    let cells = 6;
    let name = width.saturating_sub(2 + 7 + 1 + cells);
    let line = |((id, logprob), word): (&(u32, f32), &String)| {
        let here = *id == emitted;
        let p = f64::from(*logprob).exp();
        let [bar, _] = track(p, cells, theme);
        let style = theme.style(if here { Role::Title } else { Role::Text });
        vec![
            theme.span(Role::Accent, if here { "▸ " } else { "  " }),
            Span::styled(text::pad(&visible(word), name), style),
            Span::raw(format!("{:>5.1} % ", 100.0 * p)),
            bar.clone(),
            Span::raw(" ".repeat(cells - bar.width())),
        ]
    };
    list.iter().zip(texts).map(line).collect()
}

fn facts(token: &Token, theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let dim = theme.style(Role::Dim);
    let mut lines = vec![Line::default()];
    for (name, value) in details(token) {
        let Some(line) = lines.last_mut() else { break };
        let gap = if line.spans.is_empty() { "" } else { "   " };
        if line.width() + gap.len() + name.len() + 1 + text::width(&value) > columns.min(2 * TABLE + 3) {
            lines.push(Line::from(vec![Span::styled(format!("{name} "), dim), Span::raw(value)]));
            continue;
        }
        line.extend([Span::raw(gap), Span::styled(format!("{name} "), dim), Span::raw(value)]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(parents: &[Option<usize>], drafted: usize) -> Step {
        Step { drafted: vec![1; drafted], parents: parents.to_vec(), judged: drafted, ..Step::default() }
    }

    #[test]
    fn the_followed_branch_of_a_tree_comes_first() {
        assert_eq!(branches(&step(&[], 3), &[0]), [vec![0, 1, 2]]);
        // 0 and 1 at the root; 2 and 3 below 0, 4 below 1, 5 below 4.
        let tree = step(&[None, None, Some(0), Some(0), Some(1), Some(4)], 6);
        assert_eq!(branches(&tree, &[]), [vec![0, 2], vec![3], vec![1, 4, 5]]);
        assert_eq!(branches(&tree, &[1, 4]), [vec![1, 4, 5], vec![0, 2], vec![3]]);
        assert_eq!(branches(&tree, &[0, 3]), [vec![0, 3], vec![2], vec![1, 4, 5]]);
    }
}
