//! The CPU, in this crate's own kernels.
//!
//! A row's result does not depend on the number of rows (see [`kernels`]).

pub mod attention;
pub mod builder;
pub mod cache;
pub(crate) mod experts;
pub mod forms;
pub mod kernels;
pub mod linear;
pub mod measure;
pub mod plane;
pub mod recurrent;
pub mod rows;
pub mod states;
pub mod table;
pub mod thread_pool;
pub(crate) mod tower_attention;
