//! The timeline: the segments of the shown clip, with the run that has captioned each.

use super::{Model, run::Run};
use specreel_record::Span;

/// A segment, and its run once it has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub span: Span,
    pub run: Option<&'a Run>,
}

/// The segments of the shown clip, in order; none if it is not captioned in segments.
pub(crate) fn pieces(model: &Model) -> Vec<Piece<'_>> {
    let Some(shown) = model.runs.shown().filter(|run| run.group().is_some()) else { return Vec::new() };
    let runs = model.runs.together(shown);
    let run_of =
        |index: usize| runs.iter().rfind(|run| run.subject.segment.is_some_and(|s| s.index == index));
    let spans = shown.subject.segments.iter().enumerate();
    spans.map(|(index, span)| Piece { span: *span, run: run_of(index).copied() }).collect()
}

/// The indices of the segments whose captions have these words; all of them without words.
pub(crate) fn found(model: &Model, query: &str) -> Vec<usize> {
    let query = query.to_lowercase();
    let has = |piece: &Piece<'_>| {
        query.is_empty()
            || piece.run.is_some_and(|run| run.log.whole().shown().to_lowercase().contains(&query))
    };
    pieces(model).iter().enumerate().filter(|(_, piece)| has(piece)).map(|(index, _)| index).collect()
}
