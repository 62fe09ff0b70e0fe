//! `proto` does no IO, reads no clock and draws no random numbers. Its own clippy.toml keeps the code so; this keeps
//! its dependencies so: what it may be built from is listed, and anything else fails.

use std::collections::BTreeSet;

use crate::command;
use crate::project::Project;

/// The crate that must stay pure.
const PURE_CRATE: &str = "bowline-proto";

/// Every crate that may be in its normal dependency tree, and why it is harmless.
const ALLOWED: &[(&str, &str)] = &[
    (PURE_CRATE, "itself"),
    ("aead", "chacha20poly1305: the trait"),
    ("arrayvec", "blake3"),
    ("base64", "text encoding"),
    ("blake3", "keyed hash of the cursor"),
    ("block-buffer", "chacha20poly1305"),
    ("bytes", "buffers"),
    ("bytestring", "text that shares the buffer it came in"),
    ("cfg-if", "macros"),
    ("chacha20", "chacha20poly1305: the cipher, keyed and without randomness of its own"),
    ("chacha20poly1305", "sealing requestState; its nonces are arguments"),
    ("cipher", "chacha20poly1305: the trait"),
    ("cmov", "chacha20poly1305: constant time"),
    ("constant_time_eq", "blake3"),
    ("cpufeatures", "blake3, chacha20: which instructions the processor has"),
    ("crypto-common", "chacha20poly1305: the types of keys and nonces"),
    ("ctutils", "chacha20poly1305: constant time"),
    ("http", "types only"),
    ("hybrid-array", "chacha20poly1305: arrays"),
    ("inout", "chacha20poly1305: buffers"),
    ("itoa", "numbers to text"),
    ("libc", "constants for cpufeatures on some processors; no call is made from proto"),
    ("memchr", "search in bytes"),
    ("poly1305", "chacha20poly1305: the MAC"),
    ("proc-macro2", "at compile time"),
    ("quote", "at compile time"),
    ("serde", "data model"),
    ("serde_core", "data model"),
    ("serde_derive", "at compile time"),
    ("serde_json", "JSON"),
    ("syn", "at compile time"),
    ("thiserror", "error types"),
    ("thiserror-impl", "at compile time"),
    ("typenum", "chacha20poly1305: numbers as types"),
    ("unicode-ident", "at compile time"),
    ("universal-hash", "chacha20poly1305: the trait"),
    ("zmij", "numbers to text"),
];

/// Fails when the pure crate could reach a socket, a clock or a random number through a dependency.
///
/// # Errors
///
/// Names each crate that is not on the list.
pub(crate) fn check(project: &Project) -> Result<(), String> {
    let tree = command::output(project.cargo().args([
        "tree",
        "--locked",
        "--package",
        PURE_CRATE,
        "--all-features",
        "--edges=normal",
        "--target=all",
        "--prefix=none",
        "--format={p}",
    ]))?;
    let strangers = strangers(&tree);
    if strangers.is_empty() {
        return Ok(());
    }
    let strangers = strangers.into_iter().collect::<Vec<_>>().join(", ");
    Err(format!(
        "{PURE_CRATE} would be built with {strangers}. It must do no IO, read no clock and draw no random numbers \
         (they are arguments). If the new crate keeps to that, list it with its reason in xtask/src/purity.rs."
    ))
}

/// The crates in the output of `cargo tree` that are not allowed.
fn strangers(tree: &str) -> BTreeSet<&str> {
    tree.lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| !ALLOWED.iter().any(|(allowed, _)| allowed == name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_named_once() {
        let tree =
            "bowline-proto v0.1.0 (/x)\nbytes v1.12.0\ntokio v1.54.0\nmio v1.1.0\ntokio v1.54.0 (*)\n\n";
        assert_eq!(strangers(tree).into_iter().collect::<Vec<_>>(), ["mio", "tokio"]);
    }

    #[test]
    fn what_makes_a_core_impure_is_not_on_the_list() {
        for name in [
            "tokio",
            "mio",
            "socket2",
            "getrandom",
            "rand",
            "rand_core",
            "hyper",
            "rustix",
            "ahash",
            "chrono",
        ] {
            assert_eq!(strangers(name).len(), 1, "{name} is allowed");
        }
    }
}
