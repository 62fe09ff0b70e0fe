//! Seeds as tests: 200 of them are clean, a seed is a run to the byte, and what is broken on purpose is found.

use std::process::{Command, Output};

fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bowline-sim")).args(args).output().expect("cargo has built the program")
}

fn are_clean(first: u64) {
    let output = sim(&["--first", &first.to_string(), "--seeds", "50", "--jobs", "1"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("50 of 50 seeds are clean"), "{told}");
}

#[test]
fn seeds_0_to_49_are_clean() {
    are_clean(0);
}

#[test]
fn seeds_50_to_99_are_clean() {
    are_clean(50);
}

#[test]
fn seeds_100_to_149_are_clean() {
    are_clean(100);
}

#[test]
fn seeds_150_to_199_are_clean() {
    are_clean(150);
}

/// Everything that a run prints, its trace and the hash of it included.
#[test]
fn a_seed_is_a_run_to_the_byte() {
    for seed in ["1", "2", "3", "10", "131", "184"] {
        let [once, again] = [0, 1].map(|_| sim(&["--seed", seed, "--trace"]).stdout);
        assert!(once.len() > 10_000, "seed {seed} has a trace");
        assert!(once == again, "seed {seed} is not the same run twice");
    }
    assert_ne!(sim(&["--seed", "1"]).stdout, sim(&["--seed", "2"]).stdout);
}

/// Each kind of fault, put in on purpose, breaks the promise that it should, with some of these seeds.
#[test]
fn what_is_broken_on_purpose_is_found() {
    for (mutation, rule) in [
        ("ForgetAppend", "Unexplained"),
        ("NoFence", "OneEnd"),
        ("EarlyAck", "Durable"),
        ("AnyOwner", "OneRun"),
        ("Repeat", "Order"),
        ("Resend", "OneRun"),
        ("NoReaper", "InTime"),
        ("Confused", "Apart"),
    ] {
        let is_found = (0..60).any(|seed: u64| {
            let output = sim(&["--seed", &seed.to_string(), "--mutate", mutation]);
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            output.status.code() == Some(1) && told.lines().any(|line| line.trim_start().starts_with(rule))
        });
        assert!(is_found, "{mutation} breaks {rule} with none of the seeds");
    }
}

#[test]
fn a_word_that_means_nothing_is_refused() {
    for args in [&["--sed", "1"][..], &["--seed"], &["--seed", "x"], &["--mutate", "Nothing"]] {
        assert_eq!(sim(args).status.code(), Some(2), "{args:?}");
    }
}
