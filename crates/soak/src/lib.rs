//! The soak: many clients of mixed kinds work through a network that breaks, processes are killed, and a checker reads what
//! everybody wrote down and says whether what Bowline promises was kept.
//!
//! `cargo xtask soak` runs it; CONTRIBUTING.md says how, and what the checker looks at.

pub mod chance;
pub mod check;
pub mod journal;
pub mod network;
pub mod options;
pub mod raw;
pub mod real;
pub mod run;
pub mod watch;
