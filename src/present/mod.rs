//! How specreel says what happened: the words, styles, columns and pages that every face shares.
//!
//! The command line and the studio both render a [`RunLog`](crate::record::RunLog); what they must agree on lives here, once:
//! the legend of verdicts and its colours, number formats, table columns, the statistics of a run in words, the exported
//! files. Nothing here knows a terminal, an argument or a screen.

pub mod formats;
pub mod verdicts;
