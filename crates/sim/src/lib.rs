//! A fleet of backends, the store that they share, a proxy in front and clients, in one thread on virtual time.
//!
//! A run is a pure function of its seed: which faults there are and when, what clients do, in which order tasks run. [`run`] gives the
//! trace of everything that went over the wire, into the store and into the tools' ledger, and [`check`](check::check) says which of the
//! six invariants it breaks ([`check::Rule`]).

pub mod chance;
pub mod check;
mod client;
pub mod entropy;
mod faults;
mod fleet;
mod handler;
mod host;
mod network;
mod plan;
mod store;
pub mod trace;
mod world;

pub use plan::{CallPlan, ClientPlan, FaultPlan, Model, Mutation, Plan, Style};
pub use world::{Outcome, run};
