//! The store against real servers: the kit, and what servers and networks do to it.
//!
//! `cargo xtask test` finds or unpacks Redis and Valkey and names them in `BOWLINE_TEST_REDIS` and `BOWLINE_TEST_VALKEY`; without
//! them these tests fail.

mod bounds;
mod cluster;
mod eviction;
mod failover;
mod kit;
mod memory;
mod outage;
mod pair;
mod support;
mod tls;
mod wakes;
