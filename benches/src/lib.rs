//! What the speed and cost of Bowline is measured with: `cargo xtask bench` runs it.
//!
//! - [`measure`]: servers under load, one after another and round by round
//! - [`parts`]: the parts of a call, for divan and gungraun

pub mod measure;
pub mod parts;
