//! Field cases of clients, each against a server that does exactly what its script says: `docs/field-cases.md`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "cases/kit.rs"]
mod kit;

#[path = "cases/calls.rs"]
mod calls;
#[path = "cases/credentials.rs"]
mod credentials;
#[path = "cases/eras.rs"]
mod eras;
#[path = "cases/listening.rs"]
mod listening;
#[path = "cases/matrix.rs"]
mod matrix;
#[path = "cases/modern.rs"]
mod modern;
#[path = "cases/pipes.rs"]
mod pipes;
#[path = "cases/relay.rs"]
mod relay;
#[path = "cases/sessions.rs"]
mod sessions;
#[path = "cases/standing.rs"]
mod standing;
#[path = "cases/streams.rs"]
mod streams;
#[path = "cases/tls.rs"]
mod tls;
