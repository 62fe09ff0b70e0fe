//! What must hold for any input: one module for each target, each with a `run` that panics where something does not hold.
//!
//! The same bodies run under cargo-fuzz (`fuzz_targets/`, guided by coverage) and as plain tests (`tests/inputs.rs`, with
//! the seeds and a fixed number of mutations of them), so that CI needs no fuzzer.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a target's contract is its module's first line")]

pub mod client_ops;
pub mod cursor;
pub mod envelope;
pub mod http_head;
pub mod json;
pub mod mutate;
pub mod projection;
pub mod session_ops;
pub mod sse_decode;
pub mod stream_ops;

// The harness of the stream machines is the one that the unit tests of `bowline-proto` use; these are the names that it
// finds in its own crate.
use bowline_proto::{client, jsonrpc, legacy, time};

/// The `main` of a fuzz target: libFuzzer's, or without it one that runs the files that it is given.
#[macro_export]
macro_rules! target {
    ($run:path) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $run(data));

        #[cfg(not(fuzzing))]
        fn main() {
            for file in std::env::args_os().skip(1) {
                let input =
                    std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                $run(&input);
            }
        }
    };
}
