//! The conformance kit that every Bowline store must pass.
//!
//! A store's author writes a [`Harness`] (how to open the store, how its time passes) and one test:
//!
//! ```no_run
//! use bowline_store::{MemoryStore, Store};
//! use bowline_store_kit::{Clock, Harness, PausedClock};
//! use std::sync::Arc;
//!
//! struct Memory;
//!
//! impl Harness for Memory {
//!     async fn open(&self) -> Arc<dyn Store> {
//!         Arc::new(MemoryStore::default())
//!     }
//!
//!     fn clock(&self) -> &dyn Clock {
//!         &PausedClock
//!     }
//! }
//!
//! bowline_store_kit::assert_conforms(&Memory);
//! ```
//!
//! Two halves:
//!
//! - [`checks`]: a scenario for each sentence of the traits, by name
//! - [`model`]: random sequences of operations by two writers, compared step by step with a model of a few lines; what
//!   fails is shrunk
//!
//! The kit makes its own ids, so a store may keep what earlier runs left in it. It takes nothing for granted that the traits
//! do not say, with one exception: hints (wake-ups, `trim`, `delivered`, `keep`) may be lost by contract, but in a store
//! where nothing fails they have to have their effect within a few [`Clock::settle`]s.

pub mod checks;
mod harness;
pub mod model;

pub use harness::{Clock, Harness, Kit, PausedClock, RealClock};

use std::fmt;

/// Something that a store did otherwise than the traits say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The check that found it.
    pub check: &'static str,
    /// What was done, what was expected, what came.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.what)
    }
}

/// Runs every check and the model; returns all that was found.
///
/// Builds a runtime of one thread for each check, so call it where none is running.
pub fn run(harness: &impl Harness) -> Vec<Violation> {
    let mut violations: Vec<_> =
        checks::ALL.iter().filter_map(|check| run_check(harness, check).err()).collect();
    violations.extend(model::run(harness, &harness.model()).err());
    violations
}

/// Runs one check in a runtime of its own.
///
/// # Errors
/// What the store did otherwise than the traits say.
pub fn run_check(harness: &impl Harness, check: &checks::Check) -> Result<(), Violation> {
    harness::block_on(harness, async |kit| check.run(&kit).await)
}

/// Runs everything.
///
/// # Panics
/// When the store does not conform: the message lists every violation.
pub fn assert_conforms(harness: &impl Harness) {
    let violations = run(harness);
    let list: String = violations.iter().map(|violation| format!("\n- {violation}")).collect();
    assert!(violations.is_empty(), "the store breaks its contract:{list}");
}
