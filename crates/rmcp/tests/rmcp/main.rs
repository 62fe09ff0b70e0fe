//! rmcp handlers behind an endpoint, in process and on paused time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(
    deprecated,
    reason = "rmcp deprecates sampling, roots and logging, which the revisions served here have"
)]

mod asking;
mod bounds;
mod client;
mod ending;
mod example;
mod handler;
mod serving;
mod stateless;
mod taken_up;
