//! What operating systems do differently. No other crate of the product asks on which system it runs, except for what Apple's
//! GPUs lack.
//!
//! Linux, macOS and Windows are supported. What a system does not have is `None`, does nothing, or never happens, as its function
//! says.

pub mod desktop;
pub mod dirs;
pub mod file;
pub mod map;
pub mod memory;
pub mod names;
pub mod private;
pub mod signals;
pub mod terminal;
pub mod threads;
