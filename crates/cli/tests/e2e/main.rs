//! The built program from the outside: what it prints, serves and returns.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod demo;
mod serve;
mod support;
mod usage;
