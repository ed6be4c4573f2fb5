//! What panes and screens are drawn with. Widgets know themes, and nothing of the studio's state.

mod blocks;
mod boxes;
mod chart;
mod dial;
mod frame;
mod marks;
mod table;
mod typed;
mod wrap;

pub(crate) use blocks::{mean, picture};
pub(crate) use boxes::{around, dialog, on_border, popup, rule};
pub use boxes::{panel, title};
pub use chart::{chart, line_marker};
pub(crate) use dial::{bar as clock_bar, clock as clock_words};
pub use frame::Frame;
pub(crate) use frame::{Hit, Slot, Target};
pub use marks::track;
pub(crate) use marks::{SPINNER, mark, sign, yes_or_no};
pub(crate) use table::{
    BELOW, below_list, cell_columns, fitting, list, list_of, named, number, scrollbar, widest, window_top,
};
pub(crate) use typed::{filter_line, line_box, path_box, typed_after};
pub(crate) use wrap::{cut, hang, wrap, wrap_placed};
