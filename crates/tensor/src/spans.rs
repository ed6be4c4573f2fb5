//! The prompt rows that hold visual tokens.

use std::ops::Range;

/// Why ranges of rows are not the visual spans of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpansError {
    #[error("visual span {}..{} is empty", .0.start, .0.end)]
    Empty(Range<usize>),
    /// A range that starts before the previous one ends.
    #[error("visual span {}..{} starts before row {end}, where the previous one ends", .span.start, .span.end)]
    Order { span: Range<usize>, end: usize },
    #[error("visual span {}..{} does not fit a prompt of {rows} rows", .span.start, .span.end)]
    Outside { span: Range<usize>, rows: usize },
}

/// The prompt rows of the visual tokens: non-empty ranges in ascending order, with other rows between them.
///
/// Visual token `i` (the `i`-th cell of the grid) is the `i`-th row of all spans together. Most families write the video in
/// one piece and have one span; those that write a time stamp before every frame have one span per frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct VisualSpans {
    spans: Vec<Span>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Span {
    rows: Range<usize>,
    /// The visual token of the first row.
    token: usize,
}

impl VisualSpans {
    /// Spans of a prompt of `rows` rows. Ranges that touch become one span. Fails if a range is empty, starts before the previous
    /// one ends, or ends after the prompt.
    pub fn new(ranges: impl IntoIterator<Item = Range<usize>>, rows: usize) -> Result<Self, SpansError> {
        let mut spans: Vec<Span> = Vec::new();
        for range in ranges {
            let end = spans.last().map_or(0, |last| last.rows.end);
            if range.is_empty() {
                return Err(SpansError::Empty(range));
            }
            if range.start < end {
                return Err(SpansError::Order { span: range, end });
            }
            if range.end > rows {
                return Err(SpansError::Outside { span: range, rows });
            }
            match spans.last_mut() {
                Some(last) if last.rows.end == range.start => last.rows.end = range.end,
                last => {
                    let token = last.map_or(0, |last| last.token + last.rows.len());
                    spans.push(Span { rows: range, token });
                }
            }
        }
        Ok(Self { spans })
    }

    /// Number of visual tokens.
    pub fn len(&self) -> usize {
        self.spans.last().map_or(0, |last| last.token + last.rows.len())
    }

    /// True if there is no visual token.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range<usize>> + '_ {
        self.spans.iter().map(|span| span.rows.clone())
    }

    /// The spans, without the rows from `end` on.
    pub(crate) fn ranges_below(&self, end: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        self.ranges().map(move |rows| rows.start..rows.end.min(end)).take_while(|rows| !rows.is_empty())
    }

    /// The rows of all visual tokens, in order.
    pub fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        self.ranges().flatten()
    }

    /// The row of a visual token; none past the last.
    pub fn row(&self, token: usize) -> Option<usize> {
        let after = self.spans.partition_point(|span| span.token <= token);
        let span = &self.spans[after.checked_sub(1)?];
        let row = span.rows.start + (token - span.token);
        (row < span.rows.end).then_some(row)
    }

    /// The visual token at a row; none at other rows.
    pub fn token(&self, row: usize) -> Option<usize> {
        let span = self.spans.get(self.spans.partition_point(|span| span.rows.end <= row))?;
        Some(span.token + row.checked_sub(span.rows.start)?)
    }

    /// True if the row holds a visual token.
    pub fn contains(&self, row: usize) -> bool {
        self.token(row).is_some()
    }

    /// Number of visual tokens in the rows before `row`.
    pub fn tokens_before(&self, row: usize) -> usize {
        let span = self.spans.get(self.spans.partition_point(|span| span.rows.end <= row));
        span.map_or_else(|| self.len(), |span| span.token + row.saturating_sub(span.rows.start))
    }

    /// The first row of the first span; `None` without visual tokens.
    pub fn first(&self) -> Option<usize> {
        self.spans.first().map(|span| span.rows.start)
    }

    /// The row after the last span; 0 without visual tokens.
    pub fn end(&self) -> usize {
        self.spans.last().map_or(0, |span| span.rows.end)
    }

    /// The rows below `end` of a prompt from which all visual tokens but `kept` (ascending) are dropped.
    pub fn rows_keeping(&self, kept: &[usize], end: usize) -> Vec<usize> {
        let mut rows = Vec::with_capacity(end.saturating_sub(self.len()) + kept.len());
        let (mut from, mut kept) = (0, kept.iter().peekable());
        for span in &self.spans {
            rows.extend(from..span.rows.start.min(end));
            from = span.rows.end;
            while let Some(token) = kept.next_if(|token| **token < span.token + span.rows.len()) {
                rows.extend(Some(span.rows.start + (token - span.token)).filter(|row| *row < end));
            }
        }
        rows.extend(from..end);
        rows
    }
}

impl From<Range<usize>> for VisualSpans {
    /// One span; `None` if the range is empty.
    fn from(rows: Range<usize>) -> Self {
        let span = (!rows.is_empty()).then_some(Span { rows, token: 0 });
        Self { spans: span.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every query against a bitmap of the prompt's rows.
        #[test]
        fn spans_agree_with_a_bitmap(
            bitmap in prop::collection::vec(any::<bool>(), 0..40),
            picks in prop::collection::vec(any::<bool>(), 40),
            end in 0usize..44,
        ) {
            let visual: Vec<usize> = (0..bitmap.len()).filter(|row| bitmap[*row]).collect();
            let ranges = visual.chunk_by(|a, b| a + 1 == *b).map(|run| run[0]..run[run.len() - 1] + 1);
            let spans = VisualSpans::new(ranges.clone(), bitmap.len()).unwrap();
            let single_rows = visual.iter().map(|row| *row..row + 1);
            prop_assert_eq!(&VisualSpans::new(single_rows, bitmap.len()).unwrap(), &spans);
            prop_assert_eq!(spans.ranges().collect::<Vec<_>>(), ranges.collect::<Vec<_>>());
            prop_assert_eq!(spans.rows().collect::<Vec<_>>(), visual.clone());
            prop_assert_eq!((spans.len(), spans.is_empty()), (visual.len(), visual.is_empty()));
            prop_assert_eq!(spans.first(), visual.first().copied());
            prop_assert_eq!(spans.end(), visual.last().map_or(0, |last| last + 1));
            for row in 0..44 {
                prop_assert_eq!(spans.token(row), visual.iter().position(|v| *v == row));
                prop_assert_eq!(spans.contains(row), visual.contains(&row));
                prop_assert_eq!(spans.row(row), visual.get(row).copied());
                prop_assert_eq!(spans.tokens_before(row), visual.iter().filter(|v| **v < row).count());
            }
            let below: Vec<usize> = spans.ranges_below(end).flatten().collect();
            prop_assert_eq!(below, visual.iter().copied().filter(|row| *row < end).collect::<Vec<_>>());
            let kept: Vec<usize> = (0..visual.len()).filter(|token| picks[*token]).collect();
            let keeps = |row: &usize| visual.iter().position(|v| v == row).is_none_or(|t| picks[t]);
            let rows: Vec<usize> = (0..end).filter(keeps).collect();
            prop_assert_eq!(spans.rows_keeping(&kept, end), rows);
        }
    }

    #[test]
    fn spans_that_do_not_fit_are_refused() {
        let error = |ranges: &[Range<usize>]| VisualSpans::new(ranges.to_vec(), 9).unwrap_err();
        assert_eq!(error(&[1..3, 5..5]), SpansError::Empty(5..5));
        assert_eq!(error(&[1..4, 3..5]), SpansError::Order { span: 3..5, end: 4 });
        assert_eq!(error(&[4..5, 1..2]), SpansError::Order { span: 1..2, end: 5 });
        assert_eq!(error(&[4..5, 8..10]), SpansError::Outside { span: 8..10, rows: 9 });
        assert_eq!(
            error(std::slice::from_ref(&(8..10))).to_string(),
            "visual span 8..10 does not fit a prompt of 9 rows"
        );
        assert_eq!(VisualSpans::from(3..3), VisualSpans::default());
        assert_eq!(VisualSpans::from(2..9), VisualSpans::new([2..5, 5..9], 9).unwrap());
    }
}
