//! Real processes: how they end, what they print, and that nothing of them is left.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // a failed setup is a failed test

#[path = "child/deaths.rs"]
mod deaths;
#[path = "child/guard.rs"]
mod guard;
#[path = "child/orphans.rs"]
mod orphans;
#[path = "child/pipes.rs"]
mod pipes;
#[path = "child/support.rs"]
mod support;
